"""Worker threads beside the event loop, with queues of bounded length."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from marcir.serve.errors import unavailable
from marcir.serve.request_log import current_notes

P = ParamSpec("P")
R = TypeVar("R")


class Workers:
    """A few threads with a queue of bounded length.

    Args:
        name: What they do, for error messages.
        threads: Number of threads.
        waiting: Number of requests that may wait.
    """

    def __init__(self, name: str, threads: int, waiting: int) -> None:
        self._name, self._limit = name, threads + waiting
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._running = 0

    async def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of some work in a thread.

        Raises:
            RequestError: 503, where too many wait already.
        """
        self.check()
        self._running += 1
        submitted = time.perf_counter()

        def start() -> tuple[float, R]:
            started = time.perf_counter()
            return started, work(*args, **kwargs)

        future = asyncio.get_running_loop().run_in_executor(self._pool, start)
        future.add_done_callback(self._finish)
        started, result = await future
        times = current_notes().times
        times["wait"] = times.get("wait", 0.0) + started - submitted
        return result

    def check(self) -> None:
        """Refuse a request that would have to wait too long."""
        if self._running >= self._limit:
            raise unavailable(f"{self._name}: {self._limit} requests are waiting already.")

    def close(self) -> None:
        """Let the threads finish what they do."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _finish(self, _: object) -> None:
        self._running -= 1
