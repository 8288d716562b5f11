"""The generated archive: the same bytes from a seed, long-tailed, sensible, never over the user's files."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from multiprocessing import active_children
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest

from marcir.catalog import create_reader
from marcir.errors import ConfigError, DataError
from marcir.scenes import write as scene_writing
from marcir.scenes.canvas import SCENE_LABELS
from marcir.scenes.drawing import draw_scene
from marcir.scenes.write import VERSION, write_scenes


@pytest.fixture(scope="module")
def labels() -> list[frozenset[str]]:
    """The labels of 500 scenes."""
    return [draw_scene(0, index, 32)[1] for index in range(500)]


@pytest.mark.parametrize("size", [32, 64, 100])
def test_a_scene_depends_on_seed_and_index_alone(size: int) -> None:
    first, names = draw_scene(3, 7, size)
    draw_scene(0, 0, size)
    again, names_again = draw_scene(3, 7, size)
    assert first.shape == (size, size, 3)
    assert first.dtype == np.uint8
    assert (first == again).all()
    assert names == names_again
    assert (first != draw_scene(4, 7, size)[0]).any()
    assert (first != draw_scene(3, 8, size)[0]).any()


def test_scenes_have_several_labels_with_a_long_tail(labels: list[frozenset[str]]) -> None:
    counts = Counter(name for each in labels for name in each)
    assert set(counts) == set(SCENE_LABELS)
    assert len(SCENE_LABELS) >= 12
    assert max(counts.values()) >= 8 * min(counts.values())
    assert min(counts.values()) >= 0.01 * len(labels)
    assert 2.5 <= sum(map(len, labels)) / len(labels) <= 4.5
    assert all(labels)


@pytest.mark.parametrize(
    ("label", "with_one_of"),
    [
        ("ship", {"water", "sea"}),
        ("dock", {"water", "sea"}),
        ("airplane", {"pavement"}),
        ("mobile home", {"pavement", "grass", "bare soil"}),
    ],
)
def test_labels_occur_together_that_belong_together(
    label: str, with_one_of: set[str], labels: list[frozenset[str]]
) -> None:
    assert all(each & with_one_of for each in labels if label in each)


def test_an_archive_is_the_same_for_any_number_of_workers(tmp_path: Path) -> None:
    write_scenes(tmp_path / "one", 60, 32, 5, workers=1)
    write_scenes(tmp_path / "two", 60, 32, 5, workers=2)
    names = sorted(
        path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()
    )
    assert len(names) == 62
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_table_says_what_was_drawn_and_the_reader_reads_it(tmp_path: Path) -> None:
    write_scenes(tmp_path, 8, 32, 1, workers=1)
    with (tmp_path / "labels.csv").open() as table:
        rows = list(csv.DictReader(table))
    archive = create_reader("scenes").read(tmp_path)
    for index, row in enumerate(rows):
        image, names = draw_scene(1, index, 32)
        assert set(row["labels"].split(";")) == names
        assert set(archive.vocabulary.decode(archive.labels[[index]])[0]) == names
        assert (archive.read(index) == image).all()


def test_an_interrupted_archive_is_finished_by_the_same_call(tmp_path: Path) -> None:
    write_scenes(tmp_path / "whole", 10, 32, 0, workers=1)
    write_scenes(tmp_path / "broken", 10, 32, 0, workers=1)
    (tmp_path / "broken/labels.csv").unlink()
    (tmp_path / "broken/images/000004.png").unlink()
    write_scenes(tmp_path / "broken", 10, 32, 0, workers=1)
    for path in (tmp_path / "whole").rglob("*.*"):
        other = tmp_path / "broken" / path.relative_to(tmp_path / "whole")
        assert other.read_bytes() == path.read_bytes()


def test_naming_the_dataset_finishes_an_interrupted_archive(tmp_path: Path) -> None:
    write_scenes(tmp_path, 5, 32, 3, workers=1)
    table = (tmp_path / "labels.csv").read_bytes()
    (tmp_path / "labels.csv").unlink()
    (tmp_path / "images/000004.png").unlink()
    assert len(create_reader("scenes").read(tmp_path)) == 5
    assert (tmp_path / "labels.csv").read_bytes() == table


def test_a_folder_with_the_users_table_is_not_read_as_scenes(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("path,labels\n")
    with pytest.raises(ConfigError, match="not empty, and not an archive of scenes"):
        create_reader("scenes").read(tmp_path)


def test_a_scene_at_another_size_is_the_same_place() -> None:
    for index in range(4):
        small, large = (draw_scene(0, index, size)[0].astype(float) for size in (32, 64))
        coarse = large.reshape(32, 2, 32, 2, 3).mean((1, 3))
        assert np.corrcoef(small.ravel(), coarse.ravel())[0, 1] > 0.8


def test_nothing_of_the_users_is_overwritten(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="not empty, and not an archive of scenes"):
        write_scenes(mine, 5, 32, 0)
    assert [path.name for path in mine.iterdir()] == ["thesis.txt"]
    write_scenes(tmp_path / "other", 5, 32, 0, workers=1)
    with pytest.raises(ConfigError, match="holds scenes of images 5.*not of images 6"):
        write_scenes(tmp_path / "other", 6, 32, 0)


def test_an_archive_that_another_process_has_just_begun_is_no_strange_folder(tmp_path: Path) -> None:
    (tmp_path / ".scenes.json.abcd1234.part").write_bytes(b"")
    write_scenes(tmp_path, 4, 32, 0, workers=1)
    assert len(create_reader("scenes").read(tmp_path)) == 4


def test_what_a_killed_run_left_behind_is_tidied_up(tmp_path: Path) -> None:
    write_scenes(tmp_path, 4, 32, 0, workers=1)
    (tmp_path / "labels.csv").unlink()
    left = [tmp_path / ".labels.csv.abcd1234.part", tmp_path / "images/.000002.png.abcd1234.part"]
    for path in left:
        path.write_bytes(b"half")
    write_scenes(tmp_path, 4, 32, 0, workers=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "labels.csv", "scenes.json"]
    assert len(list((tmp_path / "images").iterdir())) == 4


@pytest.mark.parametrize(
    ("sign", "error", "message"),
    [
        ("{", ConfigError, "scenes.json: not the settings of generated scenes"),
        ("[]", ConfigError, "scenes.json: not the settings of generated scenes"),
        ('{"images": 3}', ConfigError, "scenes.json: not the settings of generated scenes"),
        ('{"images": "3", "size": 32, "seed": 0, "version": 1}', ConfigError, "not the settings"),
        ("[" * 100_000, ConfigError, "not the settings"),
        (
            '{"images": 3, "size": 32, "seed": 0, "version": 0}',
            DataError,
            "of version 0 of the drawing, this is",
        ),
        (
            f'{{"images": 9, "size": 32, "seed": 0, "version": {VERSION}}}',
            DataError,
            "labels.csv: lists 3 images, but scenes.json has 9",
        ),
    ],
)
def test_an_archive_of_other_scenes_is_refused(
    sign: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    write_scenes(tmp_path, 3, 32, 0, workers=1)
    (tmp_path / "scenes.json").write_text(sign)
    with pytest.raises(error, match=message):
        create_reader("scenes").read(tmp_path)


def test_an_unknown_label_of_scenes_is_named_with_its_line(tmp_path: Path) -> None:
    write_scenes(tmp_path, 3, 32, 0, workers=1)
    (tmp_path / "labels.csv").write_text("path,labels\nimages/000000.png,tree\nimages/000001.png,tre\n")
    with pytest.raises(DataError, match="labels.csv line 3: unknown label 'tre'. Did you mean 'tree'"):
        create_reader("scenes").read(tmp_path)


def test_drawing_shows_a_bar_to_a_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def track(items: Iterable[object], total: int, what: str) -> Iterator[object]:
        seen.append((total, what))
        yield from items

    monkeypatch.setattr("marcir.scenes.write.track", track)
    write_scenes(tmp_path, 60, 16, 0, workers=1)
    assert seen == [(2, "drawing scenes")]


@pytest.mark.parametrize(
    "change",
    [
        {"images": 0},
        {"size": 1},
        {"size": 32.0},
        {"seed": -1},
        {"seed": 2**63},
        {"seed": True},
        {"workers": 0},
    ],
)
def test_bad_numbers_are_refused(change: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=next(iter(change))):
        write_scenes(tmp_path / "new", **{"images": 4, "size": 32, "seed": 0, **change})
    assert not (tmp_path / "new").exists()


def test_a_drawing_process_that_is_killed_is_reported_with_what_it_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed() -> list[BaseProcess]:
        children = active_children()
        children[0].kill()
        return children

    monkeypatch.setattr(scene_writing, "active_children", killed)
    with pytest.raises(DataError, match="while drawing, its process was killed by SIGKILL: probably because"):
        write_scenes(tmp_path / "scenes", 200, 32, 0, workers=2)
    monkeypatch.undo()
    write_scenes(tmp_path / "scenes", 200, 32, 0, workers=1)  # it goes on
