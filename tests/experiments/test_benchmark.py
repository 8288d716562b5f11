"""The comparison as a command: what it records, what it does again, and what stops it."""

import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import marcir.experiments.benchmark
from benchmark_runs import perform_here, start, workers_of
from marcir.cli import main
from marcir.config import Config
from marcir.experiments.benchmark import benchmark
from marcir.experiments.perform import commit_of, failed, perform
from marcir.experiments.plan import config_hash
from marcir.experiments.record import Record, Results
from marcir.experiments.workers import perform_all
from pretended_trials import pretend_processor
from training_runs import interrupted_after_an_epoch


def records(results: Path) -> dict[str, Record]:
    return {f"{record.study}/{record.name}": record for record in Results(results).records()}


def same_scores(first: Record, second: Record) -> bool:
    a, b = first.scores, second.scores
    return a is not None and b is not None and json.dumps(a.as_json()) == json.dumps(b.as_json())


def wait_until_gone(results: Path) -> None:
    deadline = time.monotonic() + 30
    while workers_of(results):
        assert time.monotonic() < deadline, "a worker lives on"
        time.sleep(0.05)  # polling another process


def test_every_loss_and_seed_leaves_one_record(unbroken: Path) -> None:
    found = records(unbroken)
    names = [f"manifest-{m}-seed{s}" for m in ("MARC-half", "marc", "mulsupcon") for s in (0, 1)]
    assert sorted(found) == sorted(f"comparison/{name}" for name in names)
    for record in found.values():
        assert record.done
        assert record.scores is not None
        assert len(record.config_hash) == 24
        assert record.config["train"]["seed"] == record.seed
        assert {"marcir", "torch", "python"} <= record.versions.keys()
        assert {"chance", "oracle", "untrained"} == record.references.keys()
        assert record.validation["nDCG@100"] > 0
        assert 1 <= (record.best_epoch or 0) <= 2
        assert record.seconds > 0
        assert (record.loss_milliseconds or 0) > 0
        vectors = Results(unbroken).vectors(record)
        assert vectors.ids == record.scores.ids
        assert len(record.labels) == len(vectors.ids)
    assert found["comparison/manifest-MARC-half-seed0"].config["loss"]["alpha"] == 0.5


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *who, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_is_that_of_the_checkout_with_a_plus_where_its_files_were_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, installed = tmp_path / "src/package", tmp_path / ".venv/package"
    for folder in (package, installed):
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
    assert commit_of(package) is None, "no checkout"
    git(tmp_path, "init", "-q")
    assert commit_of(package) is None, "no commit"
    git(tmp_path, "add", "src")
    git(tmp_path, "commit", "-q", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")[:9]
    (tmp_path / "results.txt").write_text("no code")
    assert commit_of(package) == commit
    assert commit_of(installed) is None, "a package that is installed below a checkout"
    (package / "new.py").write_text("")
    assert commit_of(package) == f"{commit}+"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(package) is None, "no git"


def test_records_name_the_commit_and_those_of_another_commit_are_done(
    plan: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, results = tmp_path / "plan.yaml", tmp_path / "results"
    file.write_text(yaml.safe_dump({**plan, "seeds": [0], "losses": ["mulsupcon"]}))
    for commit, trained in (("1234567+", 1), ("7654321", 0), (None, 0)):
        monkeypatch.setattr(marcir.experiments.benchmark, "commit_of", lambda _, found=commit: found)
        assert benchmark(file, results).trained == trained
        (record,) = records(results).values()
        assert record.versions["commit"] == "1234567+"
    assert "torch" in record.versions


def test_losses_share_split_first_weights_and_batches(unbroken: Path) -> None:
    found = records(unbroken)
    assert len({record.split_checksum for record in found.values()}) == 1
    assert len({record.judged_by for record in found.values()}) == 1
    for seed in (0, 1):
        untrained = [r.references["untrained"] for r in found.values() if r.seed == seed]
        assert all(each == untrained[0] for each in untrained)
    first = found["comparison/manifest-marc-seed0"].references["untrained"]
    assert first != found["comparison/manifest-marc-seed1"].references["untrained"]


def test_models_stay_for_search_and_checkpoints_go(unbroken: Path) -> None:
    folder = unbroken / "runs" / "comparison" / "manifest-marc-seed0"
    assert (folder / "model.safetensors").exists()
    assert not (folder / "last").exists()


def test_killed_half_way_it_goes_on_with_what_is_missing_and_ends_the_same(
    unbroken: Path, plan_file: Path, cache: Path, tmp_path: Path
) -> None:
    results = tmp_path / "killed"
    with start("benchmark", plan_file, results, cache) as killed:
        assert killed.stderr is not None
        for line in killed.stderr:
            if line.startswith("[3/6]"):
                killed.send_signal(signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    wait_until_gone(results)
    kept = {p: p.stat().st_mtime_ns for p in results.glob("records/*/*.json")}
    assert 3 <= len(kept) <= 4
    assert f"{6 - len(kept)} were trained now" in str(benchmark(plan_file, results))
    assert all(path.stat().st_mtime_ns == changed for path, changed in kept.items())
    ours, theirs = records(results), records(unbroken)
    assert ours.keys() == theirs.keys()
    assert all(same_scores(ours[name], theirs[name]) for name in ours)
    assert {r.config_hash for r in ours.values()} == {r.config_hash for r in theirs.values()}


@pytest.mark.slow
def test_ctrl_c_ends_the_runs_too_and_the_same_command_goes_on(
    plan_file: Path, cache: Path, tmp_path: Path
) -> None:
    results = tmp_path / "stopped"
    with start("benchmark", plan_file, results, cache) as stopped:
        assert stopped.stderr is not None
        for line in stopped.stderr:
            if line.startswith("[1/6]"):
                os.killpg(stopped.pid, signal.SIGINT)
    assert stopped.returncode == 130
    assert not workers_of(results)
    assert "6 of 6 runs have scores" in str(benchmark(plan_file, results))


def test_a_run_whose_process_dies_is_recorded_and_the_others_go_on(
    plan: dict[str, object], cache: Path, tmp_path: Path
) -> None:
    file, results = tmp_path / "plan.yaml", tmp_path / "died"
    file.write_text(yaml.safe_dump({**plan, "seeds": [0], "losses": ["mulsupcon", "marc", "lbase"]}))
    with start("benchmark", file, results, cache) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith("[1/3]"):
                (worker,) = workers_of(results)
                os.kill(worker, signal.SIGKILL)
        assert running.stdout is not None
        told = running.stdout.read()
    assert running.returncode == 1
    assert "2 of 3 runs have scores" in told
    bad = records(results)["comparison/manifest-marc-seed0"]
    assert bad.error is not None
    assert bad.error.startswith("its process was killed by SIGKILL: probably because memory ran out.")
    assert records(results)["comparison/manifest-lbase-seed0"].done


def test_a_run_that_fails_is_recorded_with_its_error_and_tried_again(
    plan: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, results = tmp_path / "plan.yaml", tmp_path / "failed"
    losses = [{"name": "marc", "alpha": 1e300, "title": "bad"}, "marc"]
    file.write_text(yaml.safe_dump({**plan, "seeds": [0], "losses": losses}))
    for trained in (1, 0):
        assert main(["benchmark", "--config", str(file), "--results", str(results)]) == 1
        said = capsys.readouterr()
        assert f"1 of 2 runs have scores, {trained} were trained now" in said.out
        assert "FAILED manifest-bad-seed0: epoch 1, step 1: the loss became infinite" in said.out
    bad = records(results)["comparison/manifest-bad-seed0"]
    assert (bad.done, bad.scores) == (False, None)
    assert "the loss became infinite" in str(bad.error)


def test_other_settings_are_refused_with_the_one_that_differs(
    plan: dict[str, object], unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.yaml"
    moved = tmp_path / "moved"
    shutil.copytree(unbroken, moved)  # where things lie is no difference
    data = {**plan["datasets"][0], "cache": "off"}  # type: ignore[index]
    file.write_text(
        yaml.safe_dump(
            {**plan, "datasets": [data], "train": {"epochs": 5, "batch_size": 20, "precision": "float32"}}
        )
    )
    assert main(["benchmark", "--config", str(file), "--results", str(moved)]) == 2
    said = capsys.readouterr().err
    assert "other settings: train.epochs was 2, now it is 5. Use another results folder." in said
    file.write_text(yaml.safe_dump({**plan, "split_seed": 7}))
    assert main(["benchmark", "--config", str(file), "--results", str(unbroken)]) == 2
    assert "split_seed 0, now it is 7" in capsys.readouterr().err


@pytest.mark.parametrize("recorded", ["float32", "bfloat16"])
def test_a_record_from_a_machine_that_computed_in_another_precision_counts(
    recorded: str,
    plan: dict[str, object],
    unbroken: Path,
    own_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    results, file = tmp_path / "results", tmp_path / "plan.yaml"
    shutil.copytree(unbroken, results)
    if recorded == "bfloat16":
        _record_bfloat16(Results(results))
    content = {**plan, "train": {"epochs": 2, "batch_size": 20}}  # precision: auto
    file.write_text(yaml.safe_dump(content))
    pretend_processor(monkeypatch, "faster" if recorded == "float32" else "illegal instruction")
    assert main(["benchmark", "--config", str(file), "--results", str(results)]) == 0
    assert "6 of 6 runs have scores, 0 were trained now" in capsys.readouterr().out
    content["train"] = {"epochs": 2, "batch_size": 20, "precision": "float32"}
    file.write_text(yaml.safe_dump(content))
    done = main(["benchmark", "--config", str(file), "--results", str(results)])
    assert done == (0 if recorded == "float32" else 2)


def _record_bfloat16(results: Results) -> None:
    """As if another machine had trained the runs."""
    for record in results.records():
        config = Config.from_dict(record.config)
        config = replace(config, train=replace(config.train, precision="bfloat16"))
        hashed = config_hash(config, record.split_checksum)
        results.save(replace(record, config=config.to_dict(), config_hash=hashed))


def test_a_damaged_record_is_named(
    plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "damaged"
    record = results / "records" / "comparison" / "manifest-marc-seed0.json"
    record.parent.mkdir(parents=True)
    record.write_text('{"format": 1')
    assert main(["benchmark", "--config", str(plan_file), "--results", str(results)]) == 2
    assert f"{record}: not a record of marcir benchmark" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("setting", 3),
        ("seed", "0"),
        ("references", None),
        ("config", []),
        ("config", {"train": 1}),
        ("versions", {"torch": 2}),
        ("seconds", "x"),
        ("best_epoch", True),
        ("labels", [["tree", 1]]),
        ("split_checksum", 5),
    ],
)
def test_a_record_with_a_field_of_another_type_is_named(
    field: str, value: object, unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = unbroken / "records" / "comparison" / "manifest-marc-seed0.json"
    record = tmp_path / "records" / "comparison" / whole.name
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({**json.loads(whole.read_text()), field: value}))
    assert main(["report", "--results", str(tmp_path)]) == 2
    assert f"{record}: not a record of marcir benchmark ({field}" in capsys.readouterr().err


@pytest.fixture(scope="module")
def begun(plan: dict[str, object], cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results of a run that was stopped, and its plan beside it."""
    folder = tmp_path_factory.mktemp("begun")
    train = {"epochs": 100_000, "batch_size": 20, "precision": "float32"}
    content = {**plan, "seeds": [0], "losses": ["mulsupcon"], "train": train}
    (folder / "plan.yaml").write_text(yaml.safe_dump(content))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARCIR_CACHE", str(cache))
        patch.setattr(marcir.experiments.benchmark, "perform_all", perform_here)
        interrupted(folder)
    return folder


def interrupted(folder: Path) -> None:
    """The benchmark of a folder, stopped after the first epoch."""
    arguments = ["--config", str(folder / "plan.yaml"), "--results", str(folder / "results")]
    with interrupted_after_an_epoch():
        assert main(["benchmark", *arguments]) == 130


def test_a_run_that_was_begun_with_other_settings_is_refused_before_anything_is_trained(
    begun: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = yaml.safe_load((begun / "plan.yaml").read_text())
    plan["train"]["epochs"] = 2
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump(plan))
    assert main(["benchmark", "--config", str(file), "--results", str(begun / "results")]) == 2
    assert "train.epochs was 100000, now it is 2. Use another results folder." in capsys.readouterr().err


def test_a_run_goes_on_where_results_and_archive_were_moved(
    begun: Path, archive: Path, tmp_path: Path
) -> None:
    shutil.copytree(begun, tmp_path / "moved")
    shutil.copytree(archive, tmp_path / "archive")
    file, results = tmp_path / "moved" / "plan.yaml", tmp_path / "moved" / "results"
    plan = yaml.safe_load(file.read_text())
    plan["datasets"][0]["root"] = str(tmp_path / "archive")
    file.write_text(yaml.safe_dump(plan))
    (history,) = results.glob("runs/*/*/history.csv")
    before = len(history.read_text().splitlines())
    interrupted(tmp_path / "moved")
    assert len(history.read_text().splitlines()) == before + 1
    settings = yaml.safe_load((history.parent / "config.yaml").read_text())
    assert settings["data"]["root"] == str(tmp_path / "archive")
    assert settings["data"]["split"] == str(results / "splits" / "manifest.json")


def test_a_record_with_scores_is_never_replaced_by_a_failure(unbroken: Path, tmp_path: Path) -> None:
    results = Results(tmp_path)
    done = records(unbroken)["comparison/manifest-marc-seed0"]
    results.save(done)
    refused = perform(replace(done, config_hash="another", scores=None), results)
    assert "another command has recorded other settings" in str(refused.error)
    results.save_failure(failed(done, "its process was killed by signal 9"))
    found = results.load("comparison", done.name)
    assert found is not None
    assert found.done
    results.save(failed(replace(done, scores=None), "first"))
    results.save_failure(failed(replace(done, scores=None), "second"))
    found = results.load("comparison", done.name)
    assert found is not None
    assert found.error == "second"


def test_a_run_that_was_begun_with_another_split_is_not_recorded_as_this_one(
    unbroken: Path, tmp_path: Path
) -> None:
    record = records(unbroken)["comparison/manifest-mulsupcon-seed0"]
    other = perform(replace(record, scores=None, split_checksum="another"), Results(tmp_path))
    assert "was begun with another split" in str(other.error)


def test_a_batch_of_more_images_than_there_are_is_refused_before_anything_is_trained(
    plan: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump({**plan, "train": {"batch_size": 500}}))
    assert main(["benchmark", "--config", str(file), "--results", str(tmp_path / "r")]) == 2
    assert "train.batch_size = 500: manifest has only 63 training images." in capsys.readouterr().err


def test_ablations_take_over_what_was_trained_with_the_same_settings(
    plan: dict[str, object], unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, results = tmp_path / "plan.yaml", Path(shutil.copytree(unbroken, tmp_path / "results"))
    file.write_text(yaml.safe_dump({**plan, "seeds": [0]}))
    arguments = ["ablate", "--config", str(file), "--results", str(results), "--study", "anchor-frequency"]
    assert main(arguments) == 0
    assert "2 of 2 runs have scores, 1 were trained now" in capsys.readouterr().out
    found = records(results)
    taken = found["anchor-frequency/manifest-marc-anchor_frequency=mean-seed0"]
    assert same_scores(taken, found["comparison/manifest-marc-seed0"])
    assert taken.setting == {"anchor_frequency": "mean"}
    assert found["anchor-frequency/manifest-marc-anchor_frequency=min-seed0"].done
    assert not list((results / "runs" / "anchor-frequency").glob("*"))


def test_a_plan_says_what_its_runs_compute_in_and_why(
    plan: dict[str, object],
    own_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pretend_processor(monkeypatch, "illegal instruction")
    train = {"epochs": 1, "batch_size": 20}
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump({**plan, "seeds": [0], "losses": ["marc"], "train": train}))
    assert main(["benchmark", "--config", str(file), "--results", str(tmp_path / "results")]) == 0
    why = "bfloat16 ends with an illegal instruction on this processor"
    assert f"new runs compute in float32: {why}\n" in capsys.readouterr().err


def test_bfloat16_that_cannot_be_used_is_refused_before_anything_is_written(
    plan: dict[str, object],
    own_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pretend_processor(monkeypatch, "illegal instruction")
    file, results = tmp_path / "plan.yaml", tmp_path / "results"
    file.write_text(yaml.safe_dump({**plan, "train": {"epochs": 1, "precision": "bfloat16"}}))
    assert main(["benchmark", "--config", str(file), "--results", str(results)]) == 2
    assert "train.precision bfloat16: bfloat16 ends with an illegal instruction" in capsys.readouterr().err
    assert not results.exists()


def test_where_all_records_are_removed_all_runs_are_done_again(
    plan: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, results = tmp_path / "plan.yaml", tmp_path / "a folder with ünicode"
    (results / "records" / "comparison").mkdir(parents=True)
    file.write_text(yaml.safe_dump({**plan, "seeds": [0], "losses": ["marc"]}))
    assert main(["benchmark", "--config", str(file), "--results", str(results)]) == 0
    said = capsys.readouterr().out
    assert "1 of 1 runs have scores, 1 were trained now" in said
    assert f"marcir report --results '{results}'" in said


def test_scores_are_taken_over_where_vectors_were_removed(
    plan: dict[str, object], unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, results = tmp_path / "plan.yaml", tmp_path / "results"
    shutil.copytree(unbroken / "records" / "comparison", results / "records" / "comparison")
    shutil.copytree(unbroken / "splits", results / "splits")
    file.write_text(yaml.safe_dump({**plan, "seeds": [0]}))
    arguments = ["ablate", "--config", str(file), "--results", str(results), "--study", "anchor-frequency"]
    assert main(arguments) == 0
    assert "2 of 2 runs have scores, 1 were trained now" in capsys.readouterr().out


def test_a_comparison_takes_nothing_over_from_ablations_which_leave_no_model(
    plan: dict[str, object], unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, results = tmp_path / "plan.yaml", Results(tmp_path / "results")
    shutil.copytree(unbroken / "splits", results.path / "splits")
    trained = records(unbroken)["comparison/manifest-marc-seed0"]
    results.save(replace(trained, study="tau-mode", setting={"tau_mode": "direct"}))
    file.write_text(yaml.safe_dump({**plan, "seeds": [0], "losses": ["marc"]}))
    assert main(["benchmark", "--config", str(file), "--results", str(results.path)]) == 0
    assert "1 were trained now" in capsys.readouterr().out
    assert (results.run_folder("comparison", "manifest-marc-seed0") / "model.safetensors").exists()


def test_broken_images_are_skipped_where_the_plan_says_so(
    plan: dict[str, object], archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, results, damaged = tmp_path / "plan.yaml", tmp_path / "results", tmp_path / "damaged"
    shutil.copytree(archive, damaged)
    (damaged / "images" / "000003.png").write_bytes(b"no image")
    data = {"name": "manifest", "root": str(damaged), "size": 16, "on_broken": "skip"}
    file.write_text(yaml.safe_dump({**plan, "datasets": [data], "seeds": [0], "losses": ["marc"]}))
    for done in (0, 1):
        assert main(["benchmark", "--config", str(file), "--results", str(results)]) == 0
        told = capsys.readouterr().err
        assert f"1 runs, {done} of them are done" in told
        assert "skipped" in told
        assert "000003.png" in told
    assert main(["report", "--results", str(results)]) == 0
    assert (results / "report" / "figures" / "manifest-influence.png").exists()


def test_an_archive_without_test_images_is_refused_before_anything_is_trained(
    plan: dict[str, object], archive: Path, unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, split = tmp_path / "plan.yaml", tmp_path / "split.json"
    drawn = json.loads((unbroken / "splits" / "manifest.json").read_text())
    split.write_text(json.dumps({**drawn, "train": drawn["train"] + drawn["test"], "test": []}))
    data = {"name": "manifest", "root": str(archive), "size": 16, "split": str(split)}
    file.write_text(yaml.safe_dump({**plan, "datasets": [data]}))
    assert main(["benchmark", "--config", str(file), "--results", str(tmp_path / "r")]) == 2
    assert "split.json: there are fewer than two test images" in capsys.readouterr().err


@pytest.mark.slow
def test_two_benchmarks_of_one_results_folder_wait_for_each_other(
    plan: dict[str, object], cache: Path, tmp_path: Path
) -> None:
    file, results = tmp_path / "plan.yaml", tmp_path / "shared"
    train = {"epochs": 10, "batch_size": 20, "precision": "float32"}
    file.write_text(yaml.safe_dump({**plan, "seeds": [0], "losses": ["mulsupcon", "marc"], "train": train}))
    both = [start("benchmark", file, results, cache) for _ in range(2)]
    for each in both:
        out, heard = each.communicate(timeout=300)
        assert each.returncode == 0, heard
        assert "2 of 2 runs have scores" in out


@pytest.mark.slow
def test_ctrl_c_reaches_every_run_at_once(plan: dict[str, object], cache: Path, tmp_path: Path) -> None:
    file, results = tmp_path / "plan.yaml", tmp_path / "at-once"
    train = {"epochs": 100_000, "batch_size": 20, "precision": "float32"}
    file.write_text(yaml.safe_dump({**plan, "seeds": [0], "losses": ["mulsupcon", "marc"], "train": train}))
    running = start("benchmark", file, results, cache, "--jobs", "2")
    deadline = time.monotonic() + 60
    while len(list(results.glob("runs/*/*/history.csv"))) < 2:
        assert time.monotonic() < deadline, "the runs do not begin"
        time.sleep(0.05)  # polling another process
    first, second = sorted(workers_of(results))
    os.kill(first, signal.SIGSTOP)  # it takes its time to save itself
    running.send_signal(signal.SIGINT)
    try:
        while second in workers_of(results):
            assert time.monotonic() < deadline, "the second run was not told"
            time.sleep(0.05)
    finally:
        os.kill(first, signal.SIGCONT)
        _, heard = running.communicate(timeout=60)
    assert (running.returncode, heard.splitlines()[-1]) == (130, "marcir: stopped.")
    assert not workers_of(results)


@pytest.mark.slow
def test_files_of_the_users_folder_are_not_taken_for_modules(
    plan: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('this is not the queue')")
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump({**plan, "seeds": [0], "losses": ["marc"]}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(marcir.experiments.benchmark, "perform_all", perform_all)  # real workers
    assert main(["benchmark", "--config", "plan.yaml", "--results", "results"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--study", "tauu"], "unknown study 'tauu'. Did you mean 'tau'?"),
        (["--study", "pretraining"], "it needs first weights to compare with none"),
        (["--study", "lr", "--jobs", "0"], "--jobs = 0: must be a whole number from 1 to 64"),
    ],
)
def test_mistakes_of_ablate_are_one_line(
    arguments: list[str], said: str, plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["ablate", "--config", str(plan_file), "--results", str(tmp_path / "r"), *arguments])
    heard = capsys.readouterr().err
    assert (code, heard.count("\n")) == (2, 1)
    assert said in heard
