"""A function on many items, each in a task of its own on the cluster."""

import math
import os
import socket
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, TypeVar

import torch

import marcir
from marcir.checks import check_fraction, check_int
from marcir.cluster.connection import check_version
from marcir.cluster.results import LostError, fetch, lost_connection
from marcir.errors import ClusterError, MarcirError
from marcir.files import reason

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")

_KINDS: Final = ("CPU", "GPU")
_TRIES: Final = 2  # of an item whose process is lost
_CANCEL_SECONDS: Final = 60.0  # that a cancelled task may take to end by itself


class ClusterTasks:
    """Runs tasks that reserve CPUs, and a GPU or a share of one.

    Args:
        ray: What `connect` yields.
        cpus: CPUs, and threads, of a task.
        gpus: GPUs of a task, 0 to 1; None for 1 where the cluster has some, else 0.

    Raises:
        ConfigError: For other numbers.
        ClusterError: Where no machine of the cluster has room for a task.
    """

    def __init__(self, ray: Any, cpus: int = 1, gpus: float | None = None) -> None:
        self._ray, self.cpus = ray, check_int("--cpus-per-run", cpus, 1)
        most = {name: max((_amount(node, name) for node in self._nodes()), default=0.0) for name in _KINDS}
        self.gpus = check_fraction("--gpus-per-run", float(most["GPU"] >= 1) if gpus is None else gpus)
        if not self.at_a_time:
            raise ClusterError(
                f"no machine of the cluster has room for --cpus-per-run {self.cpus} and --gpus-per-run "
                f"{self.gpus:g}: they have up to {most['CPU']:g} CPUs and {most['GPU']:g} GPUs."
            )

    @property
    def at_a_time(self) -> int:
        """Number of tasks for which there is room."""
        return sum(map(self._room, self._nodes()))

    def run(
        self,
        function: Callable[[Shared, Item], Result],
        shared: Shared,
        items: Sequence[Item],
        on_retry: Callable[[int, str], None],
    ) -> Generator[tuple[int, Result | str], None, None]:
        """Yield the number of each item and its result, as they arrive, or in one line why it has none.

        An item whose process or machine is lost is tried once more. Closing the generator cancels what is
        left.

        Args:
            function: A function of a module; it gets `shared` and an item.
            shared: Sent to every machine once.
            items: The items.
            on_retry: Called with the number of an item that is tried again, and why.

        Raises:
            ClusterError: Where the cluster cannot be used any more.
        """
        remote = self._ray.remote(run_task).options(
            num_cpus=self.cpus, num_gpus=self.gpus, max_retries=0, name=function.__name__
        )
        common = self._ray.put(shared)
        running: dict[Any, int] = {}
        lost: Counter[int] = Counter()

        def start(number: int) -> None:
            task = (marcir.__version__, self.cpus, self.gpus > 0, function, common, items[number])
            running[remote.remote(*task)] = number

        try:
            for number in range(len(items)):
                start(number)
            while running:
                for ref in self._ray.wait(list(running), num_returns=1)[0]:
                    number = running.pop(ref)
                    try:
                        result = fetch(self._ray, ref)
                    except LostError as error:
                        lost[number] += 1
                        if lost[number] < _TRIES:
                            on_retry(number, reason(error))
                            start(number)
                            continue
                        result = f"its process was lost {_TRIES} times ({reason(error)})"
                    yield number, result
        except ConnectionError as error:
            running.clear()  # there is nobody to cancel them: they end with the connection
            raise lost_connection(error) from error
        finally:
            self._cancel(list(running))

    def _cancel(self, refs: list[Any]) -> None:
        """Interrupt tasks, so that they remove their temporary files; end those that take too long."""
        if not refs:
            return
        for ref in refs:
            self._ray.cancel(ref)
        _, left = self._ray.wait(refs, num_returns=len(refs), timeout=_CANCEL_SECONDS)
        for ref in left:
            self._ray.cancel(ref, force=True)

    def _nodes(self) -> list[Any]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _room(self, node: Any) -> int:
        """Number of tasks that a machine can run at a time."""
        by_cpus = int(_amount(node, "CPU") // self.cpus)
        if not self.gpus:
            return by_cpus
        return min(by_cpus, int(_amount(node, "GPU")) * math.floor(1 / self.gpus + 1e-9))


def _amount(node: Any, kind: str) -> float:
    return float(node["Resources"].get(kind, 0))


def run_task(
    version: str,
    threads: int,
    has_gpu: bool,
    function: Callable[[Shared, Item], Result],
    shared: Shared,
    item: Item,
) -> Result | str:
    """The task, on a machine of the cluster: the result of the function, or why it failed, in one line."""
    check_version(version)
    if not has_gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # Ray leaves GPUs visible that a task has not reserved
    torch.set_num_threads(threads)
    try:
        return function(shared, item)
    except Exception as error:  # any error: the other items go on
        kind = "" if isinstance(error, MarcirError) else f"{type(error).__name__}: "
        return f"{socket.gethostname()}: {kind}{reason(error)}"
