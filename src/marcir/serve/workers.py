"""Threads that do the work beside the event loop, and how many requests may wait for them."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from marcir.serve.errors import busy
from marcir.serve.timing import add_time

P = ParamSpec("P")
R = TypeVar("R")


class Workers:
    """A few threads with a queue of bounded length.

    Args:
        name: What they do, for the refusal.
        threads: How many work at a time.
        waiting: How many requests may wait.
    """

    def __init__(self, name: str, threads: int, waiting: int) -> None:
        self._name, self._most = name, threads + waiting
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._inside = 0

    async def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do some work in a thread.

        Raises:
            Refusal: 503, where too many wait already.
        """
        self.check()
        self._inside += 1
        asked = time.perf_counter()

        def begin() -> tuple[float, R]:
            begun = time.perf_counter()
            return begun, work(*args, **kwargs)

        future = asyncio.get_running_loop().run_in_executor(self._pool, begin)
        future.add_done_callback(self._leave)
        begun, result = await future
        add_time("wait", begun - asked)
        return result

    def check(self) -> None:
        """Refuse a request that would have to wait too long."""
        if self._inside >= self._most:
            raise busy(f"{self._name}: {self._most} requests are waiting already.")

    def close(self) -> None:
        """Let the threads finish what they do."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _leave(self, _: object) -> None:
        self._inside -= 1
