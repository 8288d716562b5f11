"""What `marcir index` says of tables, of folders that moved, and when it is stopped."""

import re
import shutil
import signal
from pathlib import Path

import pytest
from torch import Tensor

from marcir.cli import main
from marcir.data.label_csv import read_label_table
from marcir.model.encoder import Encoder
from marcir.search.index import index
from marcir.search.queries import open_store


@pytest.fixture(autouse=True)
def _use_cache(own_cache: Path) -> None:
    """A cache outside of the archives."""


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["path,labels", *lines]) + "\n")
    return path


def test_a_table_that_names_few_images_or_unknown_ones_is_mentioned(
    model: Path, scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = written(tmp_path / "few.csv", "images/000000.png,sea", "images/000001.png,sea", "x/no.png,sea")
    command = ["index", "--model", str(model), "--images", str(scenes), "--store", str(tmp_path / "store")]
    assert main([*command, "--labels", str(table)]) == 0
    said = capsys.readouterr().out
    assert f"{table} names 2 of the 40 images; nothing is known of the labels of the others\n" in said
    assert f"{table} names 1 that are not images below {scenes}, for example 'x/no.png'" in said


def test_a_table_that_names_every_image_is_not_mentioned(model: Path, scenes: Path, tmp_path: Path) -> None:
    assert index(scenes, tmp_path / "store", model=model, labels=scenes / "labels.csv").notes == ()


def test_absolute_paths_below_the_folder_are_those_of_its_images(
    model: Path, scenes: Path, tmp_path: Path
) -> None:
    rows, *_ = read_label_table(scenes / "labels.csv")
    lines = [f"{scenes / row.image},{';'.join(row.labels)}" for row in rows]
    done = index(scenes, tmp_path / "store", model=model, labels=written(tmp_path / "absolute.csv", *lines))
    assert done.notes == ()
    labelled = {row.image: row.labels for row in rows}
    store = open_store(tmp_path / "store").store
    assert {row.id: set(row.labels) for row in store.describe(store.ids())} == {
        image: set(labels) for image, labels in labelled.items()
    }
    metadata = tmp_path / "more.csv"
    metadata.write_text(f"path,sensor\n{scenes / rows[0].image},A\n")
    assert index(scenes, tmp_path / "store", model=model, metadata=metadata).relabelled == 1


def test_training_takes_absolute_paths_below_the_folder(
    images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, *_ = read_label_table(images / "labels.csv")
    lines = [f"{images.absolute() / row.image},{';'.join(row.labels)}" for row in rows]
    written(images / "labels.csv", *lines)
    assert main(["data", "inspect", "--dataset", "manifest", "--root", str(images)]) == 0
    assert "40 images" in capsys.readouterr().out
    written(images / "labels.csv", "/etc/passwd,sea")
    assert main(["data", "inspect", "--dataset", "manifest", "--root", str(images)]) == 2
    assert "leaves the archive" in capsys.readouterr().err


def test_images_of_another_folder_need_a_word(
    model: Path, scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, moved = tmp_path / "store", Path(shutil.copytree(scenes, tmp_path / "moved"))
    index(scenes, store, model=model)
    command = ["index", "--model", str(model), "--images", str(moved), "--store", str(store)]
    assert main(command) == 2
    assert f"holds the images of {scenes}, not of {moved}." in capsys.readouterr().err
    assert open_store(store).store.about.root == str(scenes)
    assert main([*command, "--root-moved"]) == 0
    assert "0 new, 0 changed, 0 with other labels or metadata, 40 up to date" in capsys.readouterr().out
    assert open_store(store).store.about.root == str(moved)


def test_without_a_model_a_store_is_followed_with_its_own(
    model: Path, scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index(scenes, tmp_path / "store", model=model)
    assert main(["index", "--images", str(scenes), "--store", str(tmp_path / "store")]) == 0
    said = capsys.readouterr().out
    assert "40 up to date" in said
    assert "ImageNet" not in said


def test_ctrl_c_keeps_what_is_embedded_and_the_same_command_goes_on(
    model: Path,
    scenes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    embedded, embed = [0], Encoder.embed

    def interrupted(self: Encoder, images: Tensor) -> Tensor:
        if embedded[0] == 32:
            signal.raise_signal(signal.SIGINT)
        embedded[0] += len(images)
        return embed(self, images)

    monkeypatch.setattr(Encoder, "embed", interrupted)
    # Whoever runs the tests in the background may have Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    command = ["index", "--model", str(model), "--images", str(scenes), "--store", str(tmp_path / "store")]
    command += ["--batch-size", "8"]
    try:
        assert main(command) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    said = re.search(
        r"stopping: (\d+) images are in the store. The same command continues.", capsys.readouterr().err
    )
    assert said is not None
    stored = int(said[1])
    assert 0 < stored <= 32  # all but the batches that were being embedded
    monkeypatch.undo()
    monkeypatch.setenv("MARCIR_CACHE", str(tmp_path / "cache"))
    assert main(command) == 0
    line = f"{40 - stored} new, 0 changed, 0 with other labels or metadata, {stored} up to date"
    assert line in capsys.readouterr().out
