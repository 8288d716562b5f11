"""`marcir benchmark --cluster`: the results of one machine, whatever is killed meanwhile."""

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from benchmark_runs import assert_same_results, start
from cluster.conftest import TwoNodes
from cluster.test_embedding import wait_until
from marcir.cli import main
from marcir.experiments.record import Results
from marcir.scenes.write import write_scenes

# Ray leaves sockets and processes to the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TASK = "perform_apart"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Two losses and two seeds on 90 generated scenes of 16 pixels."""
    folder = tmp_path_factory.mktemp("plan") / "scenes"
    write_scenes(folder, 90, 16, 0)
    return {
        "datasets": [{"name": "manifest", "root": str(folder), "size": 16}],
        "losses": ["mulsupcon", "marc"],
        "seeds": [0, 1],
        "encoder": {"backbone": "test_resnet", "weights": "none", "dim": 8},
        "train": {"epochs": 3, "batch_size": 20, "precision": "float32"},
    }


@pytest.fixture(scope="module")
def plan_file(plan: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("plan") / "plan.yaml"
    file.write_text(yaml.safe_dump(plan))
    return file


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache for all runs; clusters start with it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARCIR_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def expected(plan_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of `--jobs 1`."""
    results = tmp_path_factory.mktemp("expected") / "results"
    assert main(["benchmark", "--config", str(plan_file), "--results", str(results), "--jobs", "1"]) == 0
    return results


def benchmark(plan: Path, results: Path, address: str = "auto") -> int:
    return main(["benchmark", "--config", str(plan), "--results", str(results), "--cluster", address])


def while_it_runs(do: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=do)
    thread.start()
    return thread


def test_a_cluster_of_this_machine_gives_the_results_of_one_process(
    plan_file: Path, expected: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    assert benchmark(plan_file, results, "local") == 0
    told = capsys.readouterr()
    assert "4 of 4 runs have scores, 4 were trained now" in told.out
    assert "runs at a time (--cpus-per-run 1, --gpus-per-run 0)" in told.err
    assert_same_results(results, expected)


def test_a_killed_run_is_begun_once_more(
    two_nodes: TwoNodes, plan_file: Path, expected: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def kill() -> None:
        wait_until(lambda: bool(two_nodes.processes(TASK)))
        os.kill(next(iter(two_nodes.processes(TASK))), signal.SIGKILL)

    killing = while_it_runs(kill)
    assert benchmark(plan_file, tmp_path / "results") == 0
    killing.join()
    assert capsys.readouterr().err.count("lost with its process") == 1
    assert_same_results(tmp_path / "results", expected)


def test_a_run_that_is_killed_twice_is_recorded_as_failed_and_tried_by_the_next_command(
    two_nodes: TwoNodes, plan: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, results = tmp_path / "plan.yaml", tmp_path / "results"
    file.write_text(yaml.safe_dump({**plan, "seeds": [0], "losses": ["marc"]}))

    def kill_two() -> None:
        killed: set[int] = set()
        for _ in range(2):
            wait_until(lambda: bool(two_nodes.processes(TASK).keys() - killed))
            process = (two_nodes.processes(TASK).keys() - killed).pop()
            killed.add(process)
            os.kill(process, signal.SIGKILL)

    killing = while_it_runs(kill_two)
    assert benchmark(file, results) == 1
    killing.join()
    assert "0 of 1 runs have scores" in capsys.readouterr().out
    failure = Results(results).load("comparison", "manifest-marc-seed0")
    assert failure is not None
    assert str(failure.error).startswith("its process was lost 2 times (")
    assert benchmark(file, results) == 0


def test_a_lost_node_costs_only_its_unfinished_runs(
    two_nodes: TwoNodes, plan_file: Path, expected: Path, tmp_path: Path
) -> None:
    second = two_nodes.raylets()[1]

    def kill() -> None:
        wait_until(lambda: second in two_nodes.processes(TASK).values())
        os.kill(second, signal.SIGKILL)

    killing = while_it_runs(kill)
    try:
        assert benchmark(plan_file, tmp_path / "results") == 0
    finally:
        killing.join()
        two_nodes.cluster.remove_node(two_nodes.second, allow_graceful=False)
        two_nodes.second = two_nodes.cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    assert_same_results(tmp_path / "results", expected)


def test_ctrl_c_cancels_runs_and_the_same_command_goes_on_through_the_client_server(
    two_nodes: TwoNodes, client_address: str, plan: dict[str, object], tmp_path: Path
) -> None:
    def left() -> set[Path]:
        return set(Path(tempfile.gettempdir()).glob("marcir-run-*"))

    file, results, cache = tmp_path / "plan.yaml", tmp_path / "results", Path(os.environ["MARCIR_CACHE"])
    train = {"epochs": 40, "batch_size": 20, "precision": "float32"}
    file.write_text(yaml.safe_dump({**plan, "train": train}))
    before, told = left(), []
    with start("benchmark", file, results, cache, "--cluster", "auto") as stopped:
        assert stopped.stderr is not None
        for line in stopped.stderr:
            told.append(line)
            if line.startswith("[1/4]"):
                os.killpg(stopped.pid, signal.SIGINT)
    assert stopped.returncode == 130, told
    assert told[-2].endswith("of 4 runs are recorded. The same command goes on with the others.\n")
    assert told[-1] == "marcir: stopped.\n"
    wait_until(lambda: not two_nodes.processes(TASK))
    assert left() <= before
    done = len(Results(results).records())
    assert 1 <= done < 4
    with start(
        "ablate", file, results, cache, "--study", "anchor-frequency", "--cluster", client_address
    ) as other:
        out, heard = other.communicate(timeout=300)
    assert other.returncode == 0, heard
    with start("benchmark", file, results, cache, "--cluster", client_address) as rest:
        out, heard = rest.communicate(timeout=300)
    assert rest.returncode == 0, heard
    assert f"4 of 4 runs have scores, {4 - done} were trained now" in out
