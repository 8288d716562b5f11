"""Runs that are performed elsewhere: what they leave in the results folder."""

import shutil
import socket
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from benchmark_runs import assert_same_results
from marcir.cli import main
from marcir.errors import ConfigError
from marcir.experiments.benchmark import ablate, benchmark
from marcir.experiments.record import Results
from marcir.experiments.remote import RunFiles, RunTasks, perform_with

Function = Callable[[Mapping[str, bytes], str], RunFiles]
Answers = Generator[tuple[int, RunFiles | str], None, None]


def tasks_here(
    function: Function,
    shared: Mapping[str, bytes],
    items: Sequence[str],
    on_retry: Callable[[int, str], None],
) -> Answers:
    """In place of other machines: tasks in this process, the last one first."""
    for number in reversed(range(len(items))):
        yield number, function(shared, items[number])


@pytest.fixture
def one_run(plan: dict[str, object], tmp_path: Path) -> Path:
    """A plan of one run."""
    file = tmp_path / "one.yaml"
    file.write_text(yaml.safe_dump({**plan, "seeds": [0], "losses": ["marc"]}))
    return file


def test_results_are_those_of_processes_of_this_machine(
    unbroken: Path, plan_file: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    done = benchmark(plan_file, results, elsewhere=perform_with(tasks_here))
    assert "6 of 6 runs have scores, 6 were trained now" in str(done)
    assert_same_results(results, unbroken)
    again = benchmark(plan_file, results, elsewhere=lambda *_: pytest.fail("nothing is missing"))
    assert "0 were trained now" in str(again)


def test_only_what_is_missing_is_performed(unbroken: Path, plan_file: Path, tmp_path: Path) -> None:
    results = Path(shutil.copytree(unbroken, tmp_path / "results"))
    Results(results).record_file("comparison", "manifest-marc-seed1").unlink()
    done = benchmark(plan_file, results, elsewhere=perform_with(tasks_here))
    assert "6 of 6 runs have scores, 1 were trained now" in str(done)
    assert_same_results(results, unbroken)


def test_ablations_reuse_runs_and_leave_no_model(unbroken: Path, plan_file: Path, tmp_path: Path) -> None:
    results = Path(shutil.copytree(unbroken, tmp_path / "results"))
    done = ablate(plan_file, ["anchor-frequency"], results, elsewhere=perform_with(tasks_here))
    assert "4 of 4 runs have scores, 2 were trained now" in str(done)
    assert not (results / "runs" / "anchor-frequency").exists()
    assert len(list((results / "vectors" / "anchor-frequency").iterdir())) == 4


def test_a_failure_is_recorded_with_the_machine_and_tried_again(
    plan: dict[str, object], tmp_path: Path
) -> None:
    file, results = tmp_path / "plan.yaml", tmp_path / "results"
    losses = [{"name": "marc", "alpha": 1e300, "title": "bad"}, "marc"]
    file.write_text(yaml.safe_dump({**plan, "seeds": [0], "losses": losses}))
    for trained in (1, 0):
        done = benchmark(file, results, elsewhere=perform_with(tasks_here))
        assert (done.trained, list(done.failed)) == (trained, ["manifest-bad-seed0"])
    bad = Results(results).load("comparison", "manifest-bad-seed0")
    assert bad is not None
    assert str(bad.error).startswith(f"{socket.gethostname()}: epoch 1, step 1: the loss became infinite")
    assert bad.config["data"]["split"] == str(results / "splits" / "manifest.json")
    assert not Results(results).run_folder("comparison", "manifest-bad-seed0").exists()


def test_a_task_without_a_result_is_recorded_as_failed(
    one_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def lost(
        function: Function, shared: object, items: object, on_retry: Callable[[int, str], None]
    ) -> Answers:
        on_retry(0, "the worker died")
        yield 0, "its process was lost 2 times (the worker died)"

    done = benchmark(one_run, tmp_path / "results", elsewhere=perform_with(lost))
    assert done.failed == {"manifest-marc-seed0": "its process was lost 2 times (the worker died)"}
    found = Results(tmp_path / "results").load("comparison", "manifest-marc-seed0")
    assert found is not None
    assert found.error == done.failed["manifest-marc-seed0"]
    assert "manifest-marc-seed0: lost with its process (the worker died), and begun once more" in (
        capsys.readouterr().err
    )


def test_a_machine_without_the_archive_names_the_path(
    plan: dict[str, object], archive: Path, tmp_path: Path
) -> None:
    moved = Path(shutil.copytree(archive, tmp_path / "archive"))
    data = {"name": "manifest", "root": str(moved), "size": 16}
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump({**plan, "datasets": [data], "seeds": [0], "losses": ["marc"]}))

    def without_archive(
        function: Function, shared: Mapping[str, bytes], items: Sequence[str], _: object
    ) -> Answers:
        moved.rename(tmp_path / "away")
        yield 0, function(shared, items[0])

    done = benchmark(file, tmp_path / "results", elsewhere=perform_with(without_archive))
    assert done.failed["manifest-marc-seed0"] == (
        f"{socket.gethostname()}: there is no {moved}. Archives, label tables and weights must lie on a disk "
        "that all machines of the cluster share, under the same path."
    )


def test_what_another_command_has_recorded_meanwhile_stays(
    unbroken: Path, one_run: Path, tmp_path: Path
) -> None:
    results = Results(tmp_path / "results")
    (found,) = [each for each in Results(unbroken).records() if each.name == "manifest-marc-seed0"]

    def meanwhile(other_hash: str) -> RunTasks:
        def tasks(
            function: Function, shared: Mapping[str, bytes], items: Sequence[str], _: object
        ) -> Answers:
            results.save(replace(found, seconds=123.0, config_hash=other_hash))
            yield 0, function(shared, items[0])

        return tasks

    done = benchmark(one_run, results.path, elsewhere=perform_with(meanwhile("another")))
    assert done.failed == {"manifest-marc-seed0": "another command has recorded other settings for it"}
    results.record_file("comparison", found.name).unlink()
    done = benchmark(one_run, results.path, elsewhere=perform_with(meanwhile(found.config_hash)))
    assert done.failed == {}
    kept = results.load("comparison", found.name)
    assert kept is not None
    assert kept.seconds == 123.0


def test_a_run_that_was_begun_here_is_replaced(unbroken: Path, one_run: Path, tmp_path: Path) -> None:
    results = Results(Path(shutil.copytree(unbroken, tmp_path / "results")))
    results.record_file("comparison", "manifest-marc-seed0").unlink()
    folder = results.run_folder("comparison", "manifest-marc-seed0")
    (folder / "last" / "epoch-0001").mkdir(parents=True)
    assert benchmark(one_run, results.path, elsewhere=perform_with(tasks_here)).trained == 1
    assert not (folder / "last").exists()
    assert_same_results(results.path, unbroken)


def test_runs_of_several_processes_are_refused(plan: dict[str, object], tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    train = {"epochs": 1, "batch_size": 20, "precision": "float32", "devices": 2}
    file.write_text(yaml.safe_dump({**plan, "train": train}))
    with pytest.raises(
        ConfigError, match="train.devices = 2: on a cluster a run is one process. Leave it out."
    ):
        benchmark(file, tmp_path / "results", elsewhere=perform_with(tasks_here))


def test_an_interrupt_keeps_what_is_recorded_and_says_how_to_go_on(
    plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = []

    def interrupted(
        function: Function,
        shared: Mapping[str, bytes],
        items: Sequence[str],
        on_retry: Callable[[int, str], None],
    ) -> Answers:
        try:
            yield 0, function(shared, items[0])
            raise KeyboardInterrupt
        finally:
            closed.append(True)

    with pytest.raises(KeyboardInterrupt):
        benchmark(plan_file, tmp_path / "results", elsewhere=perform_with(interrupted))
    assert closed
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "1 of 6 runs are recorded. The same command goes on with the others."
    assert len(Results(tmp_path / "results").records()) == 1


def test_an_error_while_files_are_written_stops_the_tasks_at_once(plan_file: Path, tmp_path: Path) -> None:
    closed = []

    def tasks(function: Function, shared: object, items: Sequence[str], _: object) -> Answers:
        try:
            yield from ((number, RunFiles(b"no record", None, {})) for number in range(len(items)))
        finally:
            closed.append(True)

    with pytest.raises(ConfigError) as caught:
        benchmark(plan_file, tmp_path / "results", elsewhere=perform_with(tasks))
    assert closed, caught  # `caught` keeps the frames, so that nothing is closed by the garbage collector


@pytest.mark.parametrize("command", ["benchmark", "ablate"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cpus-per-run", "2"], "--cpus-per-run goes with --cluster."),
        (["--gpus-per-run", "0"], "--gpus-per-run goes with --cluster."),
        (["--cluster", "auto", "--jobs", "1"], "--jobs goes without --cluster"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    command: str,
    options: list[str],
    said: str,
    plan_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--config", str(plan_file), "--results", str(tmp_path / "r"), *options])
    line = capsys.readouterr().err
    assert (ended.value.code, line.count("\n")) == (2, 1)
    assert said in line
    assert not (tmp_path / "r").exists()
