"""A run that is killed, interrupted or runs out of disk resumes exactly where it was."""

import resource
import signal
from pathlib import Path

import pytest
import torch

from marcir.cli import main
from training_runs import after_an_epoch, newest_state, progress_of, start, train, weights

ALWAYS_SAVED = ("--train.checkpoint_minutes", "0")


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def unbroken(settings: list[str], run: Path) -> Path:
    train(*settings, "--run", str(run))
    return run


@pytest.mark.parametrize(
    ("options", "killed_at"),
    [
        pytest.param([], "epoch 1/3", id="before the first checkpoint"),
        pytest.param([*ALWAYS_SAVED], "epoch 2/3", id="within an epoch"),
        pytest.param(
            ["--loss.name", "lmsc", "--loss.queue_size", "40", *ALWAYS_SAVED],
            "epoch 1/3",
            id="with a queue",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["--loss.name", "oml", "--train.sampler", "label-aware", "--train.views", "2", *ALWAYS_SAVED],
            "epoch 2/3",
            id="with other batches and views",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_killed_run_ends_with_the_same_bits_as_an_unbroken_one(
    options: list[str], killed_at: str, settings: list[str], cache: Path, tmp_path: Path
) -> None:
    arguments = [*settings, *options]
    whole = unbroken(arguments, tmp_path / "whole")
    with start([*arguments, "--run", str(tmp_path / "killed")], cache) as killed:
        assert killed.stderr is not None
        for line in killed.stderr:
            if killed_at in line:
                killed.send_signal(signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed" / "metrics.json").exists()
    train(*arguments, "--run", str(tmp_path / "killed"))
    assert same(weights(whole), weights(tmp_path / "killed"))
    assert same(newest_state(whole), newest_state(tmp_path / "killed"))


def test_an_interrupted_run_saves_within_the_epoch_and_says_how_to_go_on(
    settings: list[str], trained: Path, cache: Path, tmp_path: Path
) -> None:
    run = tmp_path / "interrupted"
    lines = []
    with start([*settings, "--run", str(run)], cache) as stopped:
        assert stopped.stderr is not None
        for line in stopped.stderr:
            lines.append(line)
            if "epoch 1/3" in line:
                stopped.send_signal(signal.SIGINT)
    assert stopped.returncode == 130
    assert "To resume: marcir train --data.name manifest" in "".join(lines)
    assert progress_of(run)["epoch"] in (1, 2)
    train(*settings, "--run", str(run))
    assert same(weights(trained), weights(run))


def test_a_full_disk_leaves_the_last_good_checkpoint(
    settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "full"
    train(*settings, "--train.epochs", "1", "--run", str(run))
    (run / "config.yaml").write_text((run / "config.yaml").read_text().replace("epochs: 1", "epochs: 3"))
    before = newest_state(run)
    limit = (run / "model.safetensors").stat().st_size // 2
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        assert main(["train", *settings, "--run", str(run)]) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    heard = capsys.readouterr().err
    assert "cannot be written (File too large)" in heard
    assert heard.strip().splitlines()[-1].startswith("marcir: ")
    assert same(before, newest_state(run))
    assert not list((run / "last").glob(".*"))
    train(*settings, "--run", str(run))


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(settings: list[str], tmp_path: Path) -> None:
    run = tmp_path / "damaged"
    train(*settings, *ALWAYS_SAVED, "--run", str(run))
    wanted = newest_state(run)
    newest = sorted((run / "last").iterdir())[-1]
    (newest / "state.safetensors").write_bytes(b"half")
    train(*settings, *ALWAYS_SAVED, "--run", str(run))
    assert same(wanted, newest_state(run))


def test_another_setting_in_the_same_folder_is_refused_with_its_name(
    settings: list[str], trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, said in (
        (["--train.lr", "0.01"], "train.lr = 0.001, now it is 0.01"),
        (["--loss.tau", "0.1"], "loss.tau = 0.3, now it is 0.1"),
        (["--loss.name", "marc"], "loss.name = mulsupcon, now it is marc"),
    ):
        assert main(["train", *settings, *options, "--run", str(trained)]) == 2
        heard = capsys.readouterr().err
        assert said in heard
        assert heard.count("\n") == 1


def test_settings_that_change_nothing_learned_may_differ(settings: list[str], trained: Path) -> None:
    train(*settings, "--train.keep", "5", "--data.cache", "off", "--run", str(trained))


def test_a_folder_with_something_else_in_it_is_refused(
    settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    assert main(["train", *settings, "--run", str(tmp_path)]) == 2
    assert "not empty and not a run" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_label_table_that_changed_is_refused(
    settings: list[str], archive: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = (archive / "labels.csv").read_text().splitlines()
    other = tmp_path / "other.csv"
    other.write_text("\n".join([*table[:-1], table[-1].split(",")[0] + ",sea;ship"]) + "\n")
    (trained / "config.yaml").write_text(
        (trained / "config.yaml").read_text().replace("labels: null", f"labels: {other}")
    )
    try:
        assert main(["train", *settings, "--data.labels", str(other), "--run", str(trained)]) == 2
    finally:
        text = (trained / "config.yaml").read_text()
        (trained / "config.yaml").write_text(text.replace(f"labels: {other}", "labels: null"))
    assert "is not the one that was split" in capsys.readouterr().err


def test_a_run_that_never_began_can_be_started_with_other_settings(
    settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    assert main(["train", *settings, "--encoder.weights", "/nowhere", "--run", run]) == 2
    assert main(["train", *settings, "--train.lr", "1e30", "--train.schedule", "step", "--run", run]) == 2
    train(*settings, "--run", run)
    capsys.readouterr()


def test_a_second_run_in_the_same_folder_is_refused(
    settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", *settings, "--train.epochs", "1", "--run", str(tmp_path / "run")]
    refused = []
    with after_an_epoch(lambda: refused.append(main(arguments))):
        assert main(arguments) == 0
    assert refused == [2]
    assert "another process is training there" in capsys.readouterr().err
