"""A run is given more epochs, or resumed with an archive that was moved."""

import shutil
from pathlib import Path

import pytest
import yaml

from marcir.cli import main
from training_runs import newest_state, train, weights


def same(first: Path, second: Path) -> bool:
    a, b = weights(first) | newest_state(first), weights(second) | newest_state(second)
    return a.keys() == b.keys() and all(a[name].equal(b[name]) for name in a)


def history(run: Path) -> list[str]:
    """Epochs and losses, without times."""
    return [",".join(line.split(",")[:3]) for line in (run / "history.csv").read_text().splitlines()]


def test_more_epochs_end_with_the_bits_of_an_unbroken_run(
    settings: list[str], trained: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train(*settings, "--train.epochs", "1", "--run", str(run))
    train(*settings, "--run", str(run))  # three epochs
    assert same(run, trained)
    assert history(run) == history(trained)
    assert yaml.safe_load((run / "config.yaml").read_text())["train"]["epochs"] == 3


def test_a_cosine_schedule_is_stretched(settings: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    for epochs in ("1", "2"):
        train(*settings, "--train.schedule", "cosine", "--train.epochs", epochs, "--run", str(run))
    rates = [float(line.split(",")[1]) for line in history(run)[1:]]
    assert rates == pytest.approx([1e-3, 0.5e-3])  # the second of two epochs starts at half the rate


def test_fewer_epochs_are_refused(
    settings: list[str], trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *settings, "--train.epochs", "2", "--run", str(trained)]) == 2
    assert "train.epochs = 3, now it is 2" in capsys.readouterr().err


@pytest.mark.parametrize("packing", ["packed", "off"])
def test_a_run_goes_on_where_its_archive_was_moved(
    packing: str, settings: list[str], trained: Path, archive: Path, tmp_path: Path
) -> None:
    run, moved = tmp_path / "run", tmp_path / "moved"
    train(*settings, "--train.epochs", "1", "--data.cache", packing, "--run", str(run))
    shutil.copytree(archive, moved)
    train(*settings, "--data.root", str(moved), "--data.cache", packing, "--run", str(run))
    assert same(run, trained)
    assert yaml.safe_load((run / "config.yaml").read_text())["data"]["root"] == str(moved)


def test_a_run_is_refused_where_another_archive_lies(
    settings: list[str], trained: Path, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = Path(shutil.copytree(archive, tmp_path / "moved"))
    image, other = moved / "images" / "000000.png", moved / "images" / "000001.png"
    shutil.copy(other, image)
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    assert main(["train", *settings, "--data.root", str(moved), "--run", str(trained)]) == 2
    said = capsys.readouterr().err
    assert f"data.root = {archive}, now it is {moved}, and the images there are not the same" in said
    assert before == {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}


def test_a_run_that_did_not_record_its_images_stays_where_it_is(
    settings: list[str], trained: Path, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    (run / "images.sha256").unlink()
    moved = Path(shutil.copytree(archive, tmp_path / "moved"))
    assert main(["train", *settings, "--data.root", str(moved), "--run", str(run)]) == 2
    assert "has not recorded a checksum of its images to compare with" in capsys.readouterr().err
    train(*settings, "--run", str(run))


def test_images_that_were_changed_in_place_are_noticed(
    settings: list[str], archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, run = Path(shutil.copytree(archive, tmp_path / "own")), tmp_path / "run"
    train(*settings, "--data.root", str(own), "--train.epochs", "1", "--run", str(run))
    shutil.copy(own / "images" / "000001.png", own / "images" / "000000.png")
    assert main(["train", *settings, "--data.root", str(own), "--run", str(run)]) == 2
    assert f"{run} was trained on other images: " in capsys.readouterr().err


def test_another_archive_for_a_run_is_named_as_such(
    settings: list[str], trained: Path, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    shutil.copytree(archive / "images", other)
    lines = (archive / "labels.csv").read_text().replace("images/", "").splitlines()
    (other / "labels.csv").write_text("\n".join(lines) + "\n")
    assert main(["train", *settings, "--data.root", str(other), "--run", str(trained)]) == 2
    said = capsys.readouterr().err
    assert f"data.root = {archive}, now it is {other}, which is another archive: " in said
    assert said.endswith("Use another --run.\n")
    assert len(said.splitlines()) == 1


def test_another_split_for_a_run_is_refused_and_its_own_accepted(
    settings: list[str], trained: Path, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, other = Path(shutil.copytree(trained, tmp_path / "run")), tmp_path / "other.json"
    drawn = ["--dataset", "manifest", "--root", str(archive), "--seed", "5", "--out", str(other)]
    assert main(["data", "split", *drawn]) == 0
    capsys.readouterr()
    before = (run / "config.yaml").read_bytes()
    assert main(["train", *settings, "--data.split", str(other), "--run", str(run)]) == 2
    assert f"{run} was trained with another split than {other}. " in capsys.readouterr().err
    assert (run / "config.yaml").read_bytes() == before
    shutil.copy(run / "split.json", tmp_path / "same.json")
    train(*settings, "--data.split", str(tmp_path / "same.json"), "--run", str(run))
