"""A folder of --images that does not hold the files of the store causes a warning at the start."""

import shutil
from pathlib import Path

import pytest

from marcir.search import Store
from marcir.search.queries import open_store
from marcir.serve.image_files import Originals, files_warning
from serve.server_process import serving


@pytest.fixture
def store(served_store: Path) -> Store:
    return open_store(served_store, resident=True).store


def test_the_folder_that_was_indexed_is_no_reason_for_a_warning(store: Store, served_images: Path) -> None:
    assert files_warning(store, Originals(served_images), f"--images {served_images}", 1) is None


def test_a_folder_without_any_of_the_files_is_named_beside_the_one_that_was_indexed(
    store: Store, served_images: Path, tmp_path: Path
) -> None:
    assert files_warning(store, Originals(tmp_path), f"--images {tmp_path}", 1) == (
        f"WARNING: --images {tmp_path} holds none of the files of the store, which was indexed from "
        f"{served_images}: originals cannot be shown. Give the folder that was indexed."
    )


def test_a_folder_one_level_too_high_or_too_low_holds_none(store: Store, served_images: Path) -> None:
    for folder in (served_images.parent, served_images / "images"):
        assert "holds none" in str(files_warning(store, Originals(folder), f"--images {folder}", 1))


def test_a_folder_with_some_of_the_files_says_how_many_were_found(
    store: Store, served_images: Path, tmp_path: Path
) -> None:
    (tmp_path / "images").mkdir()
    for number in range(5):
        shutil.copy(served_images / f"images/{number:06}.png", tmp_path / "images")
    text = files_warning(store, Originals(tmp_path), f"--images {tmp_path}", 1)
    assert text == (
        f"WARNING: --images {tmp_path} holds 5 of 53 files of the store that were checked. "
        f"It was indexed from {served_images}: the other originals cannot be shown."
    )


def test_only_a_sample_of_the_files_is_checked(
    store: Store, served_images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marcir.serve.image_files._SAMPLE", 7)
    looked: list[str] = []

    def has(_: Originals, image: str) -> bool:
        looked.append(image)
        return len(looked) > 3

    monkeypatch.setattr(Originals, "has", has)
    assert "holds 4 of 7 files of the store" in str(
        files_warning(store, Originals(served_images), f"--images {served_images}", 1)
    )
    assert len(looked) == 7


def test_ids_that_lead_nowhere_are_not_there(tmp_path: Path) -> None:
    assert not Originals(tmp_path).has("nul\0.png")
    assert not Originals(tmp_path).has("x" * 5000)
    assert not Originals(tmp_path).has("../secret.png")


def test_the_service_starts_with_one_line_of_warning(
    served_store: Path, served_images: Path, served_model: Path, served_cache: Path, tmp_path: Path
) -> None:
    with serving(
        served_store, served_images, served_model, served_cache, "--images", str(tmp_path)
    ) as running:
        assert running.get("/health")["status"] == "ok"
        (line,) = running.log.read_text().splitlines()
    assert line.startswith(f"WARNING: --images {tmp_path} holds none of the files of the store")
