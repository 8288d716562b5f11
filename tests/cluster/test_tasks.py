"""Tasks with resources: how many there are at a time, what is refused, and what is tried again."""

import os
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import marcir
from marcir.cli import main
from marcir.cluster.tasks import ClusterTasks, run_task
from marcir.errors import ClusterError, ConfigError

COMMANDS = ["benchmark", "ablate"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_malformed_address_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--config", "plan.yaml", "--results", "results", "--cluster", "10.0.0.1"]) == 2
    assert capsys.readouterr().err == (
        "marcir: --cluster '10.0.0.1': expected ray://HOST:10001, auto or local.\n"
    )


def cluster_of(*machines: tuple[int, int], **functions: Any) -> SimpleNamespace:
    """A connection to machines with so many CPUs and GPUs."""
    nodes = [
        {"Alive": True, "Resources": {"CPU": float(cpus), "GPU": float(gpus)}} for cpus, gpus in machines
    ]
    lost = {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}}
    return SimpleNamespace(nodes=lambda: [*nodes, lost], **functions)


@pytest.mark.parametrize(
    ("machines", "cpus", "gpus", "at_a_time"),
    [
        ([(8, 0)], 1, None, 8),
        ([(8, 0), (3, 0)], 3, None, 3),
        ([(8, 2), (8, 0)], 1, None, 2),
        ([(8, 2), (8, 0)], 1, 0.0, 16),
        ([(8, 2)], 1, 0.5, 4),
        ([(8, 2)], 1, 0.4, 4),
        ([(8, 1)], 1, 0.1, 8),
        ([(4, 4)], 2, 1.0, 2),
    ],
)
def test_resources_decide_how_many_there_are_at_a_time(
    machines: list[tuple[int, int]], cpus: int, gpus: float | None, at_a_time: int
) -> None:
    assert ClusterTasks(cluster_of(*machines), cpus, gpus).at_a_time == at_a_time


def test_what_no_machine_has_is_refused() -> None:
    with pytest.raises(
        ClusterError, match="no machine of the cluster has room for --cpus-per-run 4 and"
    ) as e:
        ClusterTasks(cluster_of((2, 0), (3, 0)), 4)
    assert str(e.value).endswith("--gpus-per-run 0: they have up to 3 CPUs and 0 GPUs.")
    with pytest.raises(ClusterError, match="--cpus-per-run 1 and --gpus-per-run 1: they have up to 2 CPUs"):
        ClusterTasks(cluster_of((2, 0)), 1, 1.0)
    with pytest.raises(ConfigError, match="--cpus-per-run = 0: must be a whole number of 1 or more"):
        ClusterTasks(cluster_of((2, 0)), 0)
    for gpus in (-1.0, 2.0, float("nan")):
        with pytest.raises(ConfigError, match="--gpus-per-run = "):
            ClusterTasks(cluster_of((2, 4)), 1, gpus)


def times_ten(shared: int, item: int) -> int:
    if item == 13:
        raise OSError(28, "No space left on device")
    return 10 * item + shared


class OneTask:
    """A Ray that runs one task at a time, and only when its result is asked for."""

    def __init__(self, losses: dict[int, int] | None = None, on_wait: Callable[[int], None] = lambda _: None):
        self.losses, self.on_wait = losses or {}, on_wait
        self.cancelled: list[tuple[int, bool]] = []
        self.waits, self.tasks = 0, []  # type: ignore[var-annotated]

    def connection(self) -> SimpleNamespace:
        names = ("remote", "put", "wait", "get", "cancel")
        return cluster_of((1, 0), **{name: getattr(self, name) for name in names})

    def remote(self, function: Any) -> Any:
        def submit(*arguments: Any) -> int:
            self.tasks.append((function, arguments))
            return len(self.tasks)

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=submit))

    def put(self, value: Any) -> Any:
        return value

    def wait(self, refs: list[int], num_returns: int, timeout: float | None = None) -> Any:
        if timeout is not None:
            return refs[:1], refs[1:]
        self.waits += 1
        self.on_wait(self.waits)
        return refs[:1], refs[1:]

    def get(self, ref: int) -> Any:
        from ray.exceptions import WorkerCrashedError

        function, arguments = self.tasks[ref - 1]
        if self.losses.get(arguments[-1], 0):
            self.losses[arguments[-1]] -= 1
            raise WorkerCrashedError
        return function(*arguments)

    def cancel(self, ref: int, force: bool = False) -> None:
        self.cancelled.append((ref, force))


@pytest.fixture
def _own_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of this process change it."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES", ""))


@pytest.mark.usefixtures("_own_devices")
def test_an_item_whose_process_is_lost_is_tried_once_more() -> None:
    ray, retried = OneTask({1: 1, 2: 2}), []
    found = dict(
        ClusterTasks(ray.connection()).run(times_ten, 5, [0, 1, 2, 13], lambda *r: retried.append(r))
    )
    assert (found[0], found[1]) == (5, 15)
    assert str(found[2]).startswith("its process was lost 2 times (The worker died unexpectedly")
    assert found[3] == f"{socket.gethostname()}: OSError: No space left on device"
    assert [number for number, _ in retried] == [1, 2]
    assert not ray.cancelled


@pytest.mark.usefixtures("_own_devices")
def test_an_interrupt_cancels_what_is_left_and_ends_what_does_not_stop() -> None:
    def interrupt(wait: int) -> None:
        if wait == 2:
            raise KeyboardInterrupt

    ray, found = OneTask(on_wait=interrupt), []
    results = ClusterTasks(ray.connection()).run(times_ten, 5, [0, 1, 2], lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        found.extend(results)
    assert found == [(0, 5)]
    assert ray.cancelled == [(2, False), (3, False), (3, True)]


@pytest.mark.usefixtures("_own_devices")
def test_a_lost_connection_is_one_line() -> None:
    def disconnect(wait: int) -> None:
        raise ConnectionError("the client server is gone")

    ray = OneTask(on_wait=disconnect)
    with pytest.raises(ClusterError, match="connection to the cluster was lost .the client server is gone."):
        list(ClusterTasks(ray.connection()).run(times_ten, 5, [0], lambda *_: None))
    assert not ray.cancelled


def test_a_task_has_its_cpus_as_threads_and_no_gpu_that_it_has_not_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")

    def look(shared: None, item: None) -> tuple[int, str]:
        return torch.get_num_threads(), os.environ["CUDA_VISIBLE_DEVICES"]

    try:
        assert run_task(marcir.__version__, 2, True, look, None, None) == (2, "0")
        assert run_task(marcir.__version__, 3, False, look, None, None) == (3, "")
    finally:
        torch.set_num_threads(1)
    with pytest.raises(ClusterError, match="not 0.0.0. Install the same version on all machines."):
        run_task("0.0.0", 1, False, look, None, None)
