"""Indexing an archive: what is new, changed, gone and broken, and what a kill leaves."""

import io
import json
import math
import os
import random
import shutil
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from posixpath import normpath
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from marcir.cli import main
from marcir.data import image_folder
from marcir.data.image_source import SourceImage
from marcir.errors import ClusterError, DataError
from marcir.model.model import load_model
from marcir.search import index_run
from marcir.search import lance as lance_module
from marcir.search.image_rows import NotEmbedded, embed_rows, thumbnail
from marcir.search.index import Indexed, index
from marcir.search.lance import LanceStore
from marcir.search.lance_io import sole_writer
from marcir.search.metadata import read_metadata
from marcir.search.records import Row
from search.index_process import BATCH, STEPS, announcing_index
from search.processes import start_process

KILLS = int(os.environ.get("MARCIR_KILLS", "20"))
KILLS_OF_A_STORE = 3

pytestmark = pytest.mark.usefixtures("own_cache")


def counts(done: Indexed) -> tuple[int, ...]:
    """Added, changed, with other labels, up to date, pruned, gone."""
    return done.added, done.changed, done.relabelled, done.unchanged, done.pruned, done.gone


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Names, bytes and times of all that lies below a folder."""
    return {
        str(path.relative_to(folder)): (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns)
        for path in [folder, *folder.rglob("*")]
    }


def rows_of(store: Path) -> dict[str, Row]:
    opened = LanceStore(store)
    return {row.id: row for row in opened.get(opened.ids())}


def files_of(images: Path) -> list[Path]:
    return sorted(images.rglob("*.png"))


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that a refused command prints."""
    capsys.readouterr()
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as exit_:
        code = int(str(exit_.code))
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err.rstrip("\n")


# ---- Following an archive ------------------------------------------------------------------------


def test_every_image_is_indexed_once_with_all_that_is_known(
    model: Path, images: Path, tmp_path: Path
) -> None:
    before = snapshot(images)
    done = index(images, tmp_path / "store", model=model, labels=images / "labels.csv")
    assert counts(done) == (40, 0, 0, 0, 0, 0)
    assert done.rows == 40
    rows = rows_of(tmp_path / "store")
    assert sorted(rows) == [path.relative_to(images).as_posix() for path in files_of(images)]
    for row in rows.values():
        assert (row.width, row.height) == (24, 24)
        assert row.labels
        assert np.linalg.norm(row.vector) == pytest.approx(1, abs=1e-5)
        with Image.open(io.BytesIO(row.thumbnail)) as picture:
            assert (picture.format, picture.size) == ("JPEG", (24, 24))
    assert snapshot(images) == before
    assert LanceStore(tmp_path / "store").about.root == str(images)


def test_a_second_run_finds_everything_up_to_date_and_embeds_nothing(
    model: Path, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(images, tmp_path / "store", model=model, labels=images / "labels.csv")
    version = LanceStore(tmp_path / "store")._table.version
    monkeypatch.setattr(image_folder, "decode_image", None)
    for labels in (images / "labels.csv", None):
        assert counts(index(images, tmp_path / "store", model=model, labels=labels)) == (0, 0, 0, 40, 0, 0)
    assert LanceStore(tmp_path / "store")._table.version == version


def test_changed_bytes_replace_the_row_and_new_files_add_one(
    model: Path, images: Path, tmp_path: Path
) -> None:
    index(images, tmp_path / "store", model=model, labels=images / "labels.csv")
    before = rows_of(tmp_path / "store")
    first, second, *_ = files_of(images)
    shutil.copy(second, first)
    shutil.copy(second, images / "new.png")
    assert counts(index(images, tmp_path / "store", model=model)) == (1, 1, 0, 39, 0, 0)
    after = rows_of(tmp_path / "store")
    changed, source = (path.relative_to(images).as_posix() for path in (first, second))
    assert len(after) == 41
    assert not np.array_equal(before[changed].vector, after[changed].vector)
    assert np.allclose(after[changed].vector, after[source].vector, atol=1e-5)
    assert after[changed].labels == before[changed].labels, "without a table, labels stay"
    assert after["new.png"].labels == ()


def test_equal_bytes_under_two_paths_are_two_rows(model: Path, images: Path, tmp_path: Path) -> None:
    first = files_of(images)[0]
    (images / "deep/er").mkdir(parents=True)
    shutil.copy(first, images / "deep/er/copy.png")
    assert index(images, tmp_path / "store", model=model).rows == 41


def test_a_touched_file_is_up_to_date(model: Path, images: Path, tmp_path: Path) -> None:
    index(images, tmp_path / "store", model=model)
    for path in files_of(images):
        os.utime(path, (1, 1))
    assert counts(index(images, tmp_path / "store", model=model)) == (0, 0, 0, 40, 0, 0)


def test_an_archive_that_moved_is_up_to_date_and_has_its_new_root(
    model: Path, images: Path, tmp_path: Path
) -> None:
    index(images, tmp_path / "store", model=model)
    moved = images.rename(tmp_path / "moved")
    done = index(moved, tmp_path / "store", model=model, root_moved=True)
    assert counts(done) == (0, 0, 0, 40, 0, 0)
    assert LanceStore(tmp_path / "store").about.root == str(moved)


def test_missing_files_are_reported_and_removed_on_request(model: Path, images: Path, tmp_path: Path) -> None:
    index(images, tmp_path / "store", model=model)
    for path in files_of(images)[:3]:
        path.unlink()
    done = index(images, tmp_path / "store", model=model)
    assert counts(done) == (0, 0, 0, 37, 0, 3)
    assert "3 have no file any more; --prune removes them" in str(done)
    done = index(images, tmp_path / "store", model=model, prune=True)
    assert counts(done) == (0, 0, 0, 37, 3, 0)
    assert done.rows == 37
    assert "removed 3 whose files are gone" in str(done)


def test_a_folder_that_lost_all_images_prunes_nothing(model: Path, images: Path, tmp_path: Path) -> None:
    index(images, tmp_path / "store", model=model)
    shutil.rmtree(images)
    images.mkdir()
    with pytest.raises(DataError, match="no images below it"):
        index(images, tmp_path / "store", model=model, prune=True)
    assert LanceStore(tmp_path / "store").count() == 40


# ---- Labels and metadata -------------------------------------------------------------------------


def test_other_labels_and_metadata_are_taken_without_embedding(
    model: Path, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(images, tmp_path / "store", model=model, labels=images / "labels.csv")
    monkeypatch.setattr(image_folder, "decode_image", None)
    before = rows_of(tmp_path / "store")
    names = sorted(before)
    (tmp_path / "labels.csv").write_text(f"path,labels\n./{names[0]},it's new;ship\n{names[1]},\n")
    (tmp_path / "more.csv").write_text(
        f"path,sensor,west,south,east,north,date\n{names[0]},S2,1,2,3,4,2024-05-31\n{names[2]},,,,,,\n"
    )
    assert counts(index(images, tmp_path / "store", model=model, metadata=tmp_path / "more.csv"))[2:4] == (
        1,
        39,
    )
    row = rows_of(tmp_path / "store")[names[0]]
    assert (dict(row.metadata), row.bbox, str(row.date)) == ({"sensor": "S2"}, (1, 2, 3, 4), "2024-05-31")
    assert row.labels == before[names[0]].labels
    done = index(images, tmp_path / "store", model=model, labels=tmp_path / "labels.csv")
    assert done.relabelled == sum(bool(each.labels) for each in before.values())
    after = rows_of(tmp_path / "store")
    assert after[names[0]].labels == ("it's new", "ship")
    assert after[names[0]].bbox == (1, 2, 3, 4)
    assert all(after[name].labels == () for name in names[1:])
    for name in names:
        assert np.array_equal(after[name].vector, before[name].vector)
        assert after[name].thumbnail == before[name].thumbnail
    assert counts(index(images, tmp_path / "store", model=model, labels=tmp_path / "labels.csv"))[3] == 40


def test_what_a_lost_cluster_has_embedded_is_committed(model: Path, images: Path, tmp_path: Path) -> None:
    loaded = load_model(model)

    def embed(
        _: Mapping[str, bytes],
        files: Sequence[SourceImage],
        batch_size: int,
        note: Callable[[NotEmbedded], None],
    ) -> Iterator[list[Row]]:
        yield next(iter(embed_rows(loaded, files, batch_size, note)))
        raise ClusterError("the connection to the cluster was lost.")

    with pytest.raises(ClusterError):
        index(images, tmp_path / "store", model=model, batch_size=16, embed=embed)
    assert LanceStore(tmp_path / "store").count() == 16
    assert counts(index(images, tmp_path / "store", model=model, batch_size=16))[:1] == (24,)


def test_many_other_labels_are_written_in_several_commits(
    model: Path, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(images, tmp_path / "store", model=model)
    monkeypatch.setattr(index_run, "_COMMIT", 16)
    assert counts(index(images, tmp_path / "store", model=model, labels=images / "labels.csv")) == (
        0,
        0,
        40,
        0,
        0,
        0,
    )
    assert all(row.labels for row in rows_of(tmp_path / "store").values())


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "the file is empty"),
        ("path,a\nx.png,1,2\n", "line 2: expected 2 columns as in the header, found 3"),
        ("path,a\nx.png,1\n\nx.png,2\n", "line 4: duplicate 'x.png'"),
        ("path,a\nx.png,1\n./x.png,2\n", "line 3: duplicate 'x.png'"),
        ("path,west,south,east,north\nx.png,1,2,3,\n", "line 2: west, south, east, north are"),
        ("path,west,south\nx.png,1,2\n", "Give four numbers, or none"),
        ("path,west,south,east,north\nx.png,1,2,3,four\n", "Give four numbers, or none"),
        ("path,west,south,east,north\nx.png,1,3,3,2\n", "is no box in degrees"),
        ("path,west,south,east,north\nx.png,-181,2,3,4\n", "is no box in degrees"),
        ("path,west,south,east,north\nx.png,nan,2,3,4\n", "is no box in degrees"),
        ("path,date\nx.png,31.5.2024\n", "line 2: the date is '31.5.2024'. Write it as 2024-05-31"),
        ("path,date\nx.png,2024-02-30\n", "line 2: the date is '2024-02-30'"),
        ("path,a,a\nx.png,1,2\n", "line 1: duplicate column 'a'"),
        ("path,,a\nx.png,1,2\n", "line 1: column 2 has no name"),
        ("date,path\n2024-05-31,x.png\n", "the first column is 'date'"),
        ('path,a\n"x.png,1\n', "cannot be read as CSV"),
    ],
)
def test_a_table_of_metadata_with_a_mistake_is_refused_with_its_line(
    content: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / "more.csv").write_text(content)
    with pytest.raises(DataError) as error:
        read_metadata(tmp_path / "more.csv", normpath)
    assert text in str(error.value)
    assert str(error.value).startswith(f"{tmp_path / 'more.csv'}")


def test_a_table_of_metadata_that_is_missing_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such table"):
        read_metadata(tmp_path / "none.csv", normpath)
    (tmp_path / "more.csv").write_bytes(b"path,a\n\xff\xfe,1\n")
    with pytest.raises(DataError, match="UTF-8"):
        read_metadata(tmp_path / "more.csv", normpath)


def test_metadata_may_begin_with_a_mark_and_cross_the_date_line(tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_bytes(
        "\ufeffpath,west,south,east,north\r\na b.png,170,-10,-170,10\r\n".encode()
    )
    assert read_metadata(tmp_path / "more.csv", normpath)["a b.png"].bbox == (170, -10, -170, 10)


@pytest.mark.parametrize("option", ["--labels", "--metadata"])
def test_a_table_that_names_no_image_is_refused(
    option: str, model: Path, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "table.csv").write_text("path,labels\nelsewhere.png,ship\n")
    line = refusal(
        capsys, "index", "--model", model, "--images", images, "--store", tmp_path / "s", option,
        tmp_path / "table.csv",
    )  # fmt: skip
    assert "none of its paths is an image below" in line
    assert not (tmp_path / "s").exists()


# ---- Images of all kinds -------------------------------------------------------------------------


def test_broken_images_are_listed_and_the_exit_code_says_so(
    model: Path, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (images / "cut.png").write_bytes(files_of(images)[0].read_bytes()[:60])
    (images / "empty.jpg").write_bytes(b"")
    tifffile.imwrite(images / "deep.tif", np.zeros((8, 8, 5), np.uint16), photometric="minisblack")
    (images / "gone.png").symlink_to(tmp_path / "nowhere.png")
    arguments = ["index", "--model", str(model), "--images", str(images), "--store", str(tmp_path / "store")]
    assert main(arguments) == 1
    said = capsys.readouterr().out
    assert "40 images in the store: 40 new" in said
    assert "3 broken images were left out:" in said
    for name in ("cut.png", "empty.jpg", "deep.tif"):
        assert said.count(f"{images / name}: ") == 1
    for name in ("cut.png", "empty.jpg", "deep.tif"):
        (images / name).unlink()
    assert main(arguments) == 0


def test_a_name_that_is_not_text_is_listed_and_the_others_are_indexed(
    model: Path, images: Path, tmp_path: Path
) -> None:
    shutil.copy(files_of(images)[0], os.fsencode(images) + b"/caf\xe9.png")
    done = index(images, tmp_path / "store", model=model)
    assert done.rows == 40
    assert [text.endswith("its name is not UTF-8. Rename it.") for text in done.broken.values()] == [True]
    str(done).encode()


def test_an_image_that_is_removed_meanwhile_is_listed(
    model: Path, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = image_folder.images_of_folder(images)
    found[1][0].unlink()
    monkeypatch.setattr(image_folder, "images_of_folder", lambda folder: found)
    done = index(images, tmp_path / "store", model=model)
    assert (done.rows, list(done.broken)) == (39, [found[0][0]])
    assert "there is no such file" in str(done)


def test_links_are_followed_and_keep_their_own_ids(model: Path, images: Path, tmp_path: Path) -> None:
    (images / "linked.png").symlink_to(files_of(images)[0])
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(files_of(images)[1], tmp_path / "elsewhere/far.png")
    (images / "far").symlink_to(tmp_path / "elsewhere")
    (images / "round").symlink_to(images)
    done = index(tmp_path / "elsewhere" / ".." / "images", tmp_path / "store", model=model)
    assert done.rows == 42
    assert {"linked.png", "far/far.png"} <= rows_of(tmp_path / "store").keys()


def test_grey_and_transparent_images_are_indexed(model: Path, images: Path, tmp_path: Path) -> None:
    Image.new("L", (30, 10), 80).save(images / "grey.png")
    Image.new("RGBA", (10, 30), (9, 200, 9, 40)).save(images / "clear.png")
    done = index(images, tmp_path / "store", model=model)
    assert done.rows == 42
    assert rows_of(tmp_path / "store")["grey.png"].width == 30


@pytest.mark.parametrize(
    "pixels",
    [
        np.full((300, 400, 3), 7, np.uint8),
        np.arange(600 * 500, dtype=np.uint16).reshape(600, 500, 1),
        np.random.default_rng(0).normal(size=(40, 50, 12)).astype(np.float32),
        np.random.default_rng(0).integers(-500, 500, (1, 3000, 2)).astype(np.int16),
        np.full((5, 5, 4), 0.25, np.float32),
        np.full((2500, 3, 3), 60_000, np.uint16),
        np.zeros((1, 1, 1), np.uint8),
    ],
    ids=lambda pixels: f"{pixels.shape}-{pixels.dtype}",
)
def test_a_thumbnail_of_any_bands_and_type_is_a_small_jpeg(pixels: np.ndarray) -> None:
    with Image.open(io.BytesIO(thumbnail(pixels))) as picture:
        assert picture.format == "JPEG"
        assert max(picture.size) <= 256
        assert picture.mode == ("RGB" if pixels.shape[2] >= 3 else "L")


def test_a_small_jpeg_is_its_own_thumbnail_and_a_large_one_is_not() -> None:
    for side in (100, 600):
        out = io.BytesIO()
        Image.new("RGB", (side, side), (200, 10, 10)).save(out, "JPEG")
        pixels = np.full((side, side, 3), (200, 10, 10), np.uint8)
        assert (thumbnail(pixels, out.getvalue()) == out.getvalue()) == (side == 100)


# ---- Refusals ------------------------------------------------------------------------------------


def test_another_model_is_refused_and_the_store_stays(
    models: tuple[Path, Path], images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index(images, tmp_path / "store", model=models[0])
    line = refusal(capsys, "index", "--model", models[1], "--images", images, "--store", tmp_path / "store")
    assert "holds vectors of another model" in line
    assert LanceStore(tmp_path / "store").count() == 40


def test_a_store_inside_the_images_is_refused(
    model: Path, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(images)
    (tmp_path / "link").symlink_to(images)
    for place in (images / "store", images, tmp_path / "link" / "store", images / "x" / ".." / "store"):
        line = refusal(capsys, "index", "--model", model, "--images", images, "--store", place)
        assert "lies in the folder of images" in line
    assert snapshot(images) == before


def test_a_second_index_at_the_same_time_is_refused(
    model: Path, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sole_writer(tmp_path / "store"):
        line = refusal(capsys, "index", "--model", model, "--images", images, "--store", tmp_path / "store")
    assert line.endswith("another marcir index is at work on it. Wait until it is done.")


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"--model": "nowhere"}, "not a model folder"),
        ({"--images": "nowhere"}, "not a folder"),
        ({"--labels": "nowhere.csv"}, "no such label table"),
        ({"--metadata": "nowhere.csv"}, "no such table"),
        ({"--images": "gs://b/tiles"}, "--images gs://b/tiles: not a folder, and not an address s3://"),
        ({"--labels": "s3://b/labels.csv"}, "--labels s3://b/labels.csv: must be on a disk."),
        ({"--metadata": "s3://b/metadata.csv"}, "--metadata s3://b/metadata.csv: must be on a disk."),
        ({"--model": "s3://b/run"}, "--model s3://b/run: must be on a disk."),
        ({"--stor": "x"}, "Did you mean '--store'"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(
    changed: dict[str, str],
    text: str,
    model: Path,
    images: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = {"--model": model, "--images": images, "--store": tmp_path / "store", **changed}
    assert text in refusal(capsys, "index", *[each for pair in options.items() for each in pair])


def test_a_query_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(capsys, "search", "--store", tmp_path / "store", "--image", "s3://b/a.png")
    assert "--image s3://b/a.png: must be on a disk." in line


# ---- The approximate index -----------------------------------------------------------------------


def test_the_recall_of_an_approximate_index_is_printed(
    model: Path, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["index", "--model", str(model), "--images", str(images), "--store", str(tmp_path / "store")]
    assert main([*arguments, "--check-recall"]) == 0
    assert "approximate index: recall@10 1.000 over 40 queries" in capsys.readouterr().out


def test_recall_of_an_empty_store_is_refused(
    model: Path, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in files_of(images):
        path.write_bytes(b"broken")
    arguments = ["index", "--model", str(model), "--images", str(images), "--store", str(tmp_path / "store")]
    assert main([*arguments, "--check-recall"]) == 2
    printed = capsys.readouterr()
    assert "40 broken images were left out" in printed.out
    assert printed.err.endswith("no images, so there is nothing to make an index of.\n")


def test_more_vectors_than_memory_get_an_approximate_index(
    model: Path, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(images, tmp_path / "store", model=model)
    assert not LanceStore(tmp_path / "store").has_index
    monkeypatch.setattr(lance_module, "IN_MEMORY", 1000)
    index(images, tmp_path / "store", model=model)
    assert LanceStore(tmp_path / "store").has_index


# ---- Killed --------------------------------------------------------------------------------------


def assert_equal_to(whole: Path, store: Path) -> None:
    """Assert that a store holds the same images as one that was made without interruption, each once."""
    expected, rows = rows_of(whole), rows_of(store)
    assert sorted(rows) == sorted(expected)
    assert LanceStore(store).count() == len(expected)
    for name, row in expected.items():
        assert np.allclose(row.vector, rows[name].vector, atol=1e-5)
        assert (row.labels, row.content, row.thumbnail) == (
            rows[name].labels, rows[name].content, rows[name].thumbnail,
        )  # fmt: skip


def test_a_store_as_it_is_between_any_two_steps_is_finished_by_the_next_run(
    model: Path, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    begun: list[Path] = []

    def copied_before(step: Callable[..., None]) -> Callable[..., None]:
        def copy_and_run(*arguments: Any) -> None:
            begun.append(Path(shutil.copytree(store, tmp_path / f"begun {len(begun)}")))
            step(*arguments)

        return copy_and_run

    with monkeypatch.context() as patch:
        patch.setattr(index_run, "_COMMIT", 16)
        patch.setattr(LanceStore, "add", copied_before(LanceStore.add))
        patch.setattr(LanceStore, "optimize", copied_before(LanceStore.optimize))
        index(images, store, model=model, labels=images / "labels.csv", batch_size=8)
    for there, folder in zip((0, 16, 32, 40), begun, strict=True):
        assert LanceStore(folder).count() == there
        done = index(images, folder, model=model, labels=images / "labels.csv")
        assert counts(done) == (40 - there, 0, 0, there, 0, 0)
        assert_equal_to(store, folder)


# Seconds within which a process is killed after it announced a step: about as long as the step takes.
TAKES = {"create": 0.06, "embed": 0.006, "add": 0.015, "optimize": 0.02}


@pytest.mark.slow
def test_killed_at_any_moment_and_run_again_it_finishes_the_job(
    model: Path, images: Path, tmp_path: Path
) -> None:
    before = snapshot(images)
    chance = random.Random(os.environ.get("MARCIR_KILLS_SEED", "0"))
    stores = [tmp_path / f"store {number}" for number in range(math.ceil(KILLS / KILLS_OF_A_STORE))]
    waiting = deque(waiting_index() for _ in range(2))  # they import while another one is killed
    struck: list[str] = []
    for number, store in enumerate(stores):
        announced = 1 + 2 * (40 // BATCH) + 2  # create; embed and add each batch; add the rest and optimize
        # The first kills are spread evenly over a run; the next are anywhere in what is left of it.
        moment = round((announced - 1) * number / max(1, len(stores) - 1))
        for _ in range(min(KILLS_OF_A_STORE, KILLS - len(struck))):
            waiting.append(waiting_index())
            steps = killed_run(
                waiting.popleft(), (model, images, store, images / "labels.csv"), moment, chance
            )
            struck.append(steps[-1])
            if opens(store):
                names = LanceStore.create(store, LanceStore(store).about, {}).ids()
                assert len(names) == len(set(names))
            announced = max(3, announced - 2 * steps.count("add"))
            moment = chance.randrange(announced)
    for process, connection in waiting:
        process.kill()
        process.join()
        connection.close()
    assert len(struck) == KILLS
    if KILLS >= 20:
        assert set(struck) == set(STEPS)
    index(images, tmp_path / "whole", model=model, labels=images / "labels.csv")
    for store in stores:
        done = index(images, store, model=model, labels=images / "labels.csv")
        assert (done.rows, done.broken, done.gone) == (40, {}, 0)
        assert_equal_to(tmp_path / "whole", store)
    assert sorted(rows_of(tmp_path / "whole")) == [
        path.relative_to(images).as_posix() for path in files_of(images)
    ]
    assert snapshot(images) == before


def waiting_index() -> tuple[BaseProcess, Connection]:
    return start_process(announcing_index, imported=["marcir.model.model"])


def killed_run(
    begun: tuple[BaseProcess, Connection], arguments: tuple[Path, ...], moment: int, chance: random.Random
) -> list[str]:
    """Kill a process in the step after the first `moment` ones; returns the steps that it announced."""
    process, connection = begun
    assert connection.recv() == "ready"
    connection.send(arguments)
    steps = [connection.recv() for _ in range(moment + 1)]
    time.sleep(chance.uniform(0, TAKES[steps[-1]]))
    process.kill()
    process.join()
    connection.close()
    assert process.exitcode == -signal.SIGKILL
    return steps


def opens(store: Path) -> bool:
    try:
        LanceStore(store)
    except ValueError:
        return False
    return True


# ---- The command ---------------------------------------------------------------------------------


def test_the_program_says_what_it_did_and_info_shows_what_there_is(
    model: Path, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: object) -> str:
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out

    said = run(
        "index", "--model", model, "--images", images, "--store", tmp_path / "store",
        "--labels", images / "labels.csv",
    )  # fmt: skip
    assert said == (
        "40 images in the store: 40 new, 0 changed, 0 with other labels or metadata, 0 up to date\n"
    )
    shown = run("info", tmp_path / "store")
    assert f"{tmp_path / 'store'}: 40 images of {images}" in shown
    assert "vectors of 16 numbers, model " in shown
    assert "searched exactly, in memory (no approximate index)" in shown
    assert "labels: " in shown
    assert "size: " in shown
    found = json.loads(run("search", "--store", tmp_path / "store", "--id", "images/000000.png", "--json"))
    assert len(found["hits"]) == 10
