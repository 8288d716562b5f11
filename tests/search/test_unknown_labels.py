"""Unknown labels from the table to the hits: indexing, relabelling, searching."""

import json
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from marcir.cli import main
from marcir.errors import ConfigError
from marcir.model.encoder import Encoder
from marcir.search import Filter
from marcir.search.index import index
from marcir.search.queries import open_store
from marcir.search.store_info import store_info

FIRST, SECOND, THIRD, *OTHERS, LAST = (f"images/{place:06}.png" for place in range(40))

pytestmark = pytest.mark.usefixtures("own_cache")


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["path,labels", *lines]) + "\n")
    return path


def states(store: Path, image: str) -> tuple[set[str], set[str]] | None:
    """Labels and unknown labels of an image; None where it is not labelled."""
    (row,) = open_store(store).store.get([image])
    return (set(row.labels), set(row.unknown)) if row.labelled else None


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of all images but the last; most of them have no labels."""
    labels = f"{FIRST},sea;?ship", f"{SECOND},ship", f"{THIRD},?sea;?ship;dock"
    return written(tmp_path / "table.csv", *labels, *(f"{image}," for image in OTHERS))


@pytest.fixture
def store(model: Path, scenes: Path, table: Path, tmp_path: Path) -> Path:
    """The scenes with the labels of the table."""
    index(scenes, tmp_path / "store", model=model, labels=table)
    return tmp_path / "store"


def test_labels_with_a_question_mark_are_unknown(store: Path) -> None:
    assert states(store, FIRST) == ({"sea"}, {"ship"})
    assert states(store, SECOND) == ({"ship"}, set())
    assert states(store, THIRD) == ({"dock"}, {"sea", "ship"})
    assert states(store, OTHERS[0]) == (set(), set())
    assert states(store, LAST) is None
    assert open_store(store).store.label_counts() == {"dock": 1, "sea": 1, "ship": 1}
    assert store_info(store).endswith(
        "labels: dock (1), sea (1), ship (1)\nunknown labels: dock (1), sea (2), ship (3)"
    )


def test_labels_that_a_table_does_not_list_are_unknown_where_it_is_said(
    model: Path, scenes: Path, table: Path, tmp_path: Path
) -> None:
    index(scenes, tmp_path / "store", model=model, labels=table, unlisted="unknown")
    assert states(tmp_path / "store", SECOND) == ({"ship"}, {"dock", "sea"})
    assert states(tmp_path / "store", OTHERS[0]) == (set(), {"dock", "sea", "ship"})
    assert states(tmp_path / "store", LAST) is None
    again = index(scenes, tmp_path / "store", labels=table, unlisted="absent")
    assert again.relabelled == 38  # THIRD lists all of the labels, LAST is in neither
    assert states(tmp_path / "store", OTHERS[0]) == (set(), set())


def test_a_matrix_and_the_first_line_of_a_list_say_what_is_unknown(
    model: Path, scenes: Path, tmp_path: Path
) -> None:
    table, store = tmp_path / "table.csv", tmp_path / "store"
    table.write_text(f"path,sea,ship\n{FIRST},1,?\n{SECOND},,0\n")
    index(scenes, store, model=model, labels=table)
    assert states(store, FIRST) == ({"sea"}, {"ship"})
    assert states(store, SECOND) == (set(), {"sea"})
    assert states(store, THIRD) is None
    table.write_text(f"# unlisted: unknown\npath,labels\n{FIRST},sea\n{SECOND},ship;!sea\n")
    index(scenes, store, labels=table)
    assert states(store, FIRST) == ({"sea"}, {"ship"})
    assert states(store, SECOND) == ({"ship"}, set())
    assert states(store, THIRD) is None


def test_an_image_is_labelled_while_a_table_names_it(model: Path, scenes: Path, tmp_path: Path) -> None:
    table, store = written(tmp_path / "table.csv", f"{FIRST},ship", f"{SECOND},"), tmp_path / "store"
    index(scenes, store, model=model)
    assert states(store, FIRST) is None
    done = index(scenes, store, labels=table)
    assert (done.relabelled, done.unchanged) == (2, 38)
    assert (states(store, FIRST), states(store, SECOND)) == (({"ship"}, set()), (set(), set()))
    assert states(store, THIRD) is None
    written(table, f"{FIRST},ship")
    assert index(scenes, store, labels=table).relabelled == 1
    assert states(store, SECOND) is None


def test_relabelling_with_unknown_labels_embeds_nothing(
    store: Path, scenes: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Encoder, images: Tensor) -> Tensor:
        raise AssertionError("embedded again")

    monkeypatch.setattr(Encoder, "embed", refuse)
    assert index(scenes, store, labels=table).unchanged == 40
    empty = [f"{image}," for image in OTHERS]
    written(table, f"{FIRST},?sea;ship", f"{SECOND},ship", f"{THIRD},?ship;?sea;dock", *empty)
    done = index(scenes, store, labels=table)
    assert (done.relabelled, done.unchanged) == (1, 39)
    assert states(store, FIRST) == ({"ship"}, {"sea"})
    assert index(scenes, store).unchanged == 40  # without a table, what is known stays
    assert states(store, FIRST) == ({"ship"}, {"sea"})


def test_a_table_without_unknown_labels_has_the_fingerprints_that_it_always_had(
    model: Path, scenes: Path, tmp_path: Path
) -> None:
    table = written(tmp_path / "plain.csv", f"{FIRST},ship;sea")
    index(scenes, tmp_path / "store", model=model, labels=table)
    contents = open_store(tmp_path / "store").store.contents()
    assert contents[FIRST].split(":")[1:] == ["102b7a69f5208f98", ""]
    assert contents[SECOND].split(":")[1:] == ["", ""]


def test_changed_bytes_leave_unknown_labels_as_they_are(
    model: Path, images: Path, table: Path, tmp_path: Path
) -> None:
    index(images, tmp_path / "store", model=model, labels=table)
    (images / FIRST).write_bytes((images / SECOND).read_bytes())
    assert index(images, tmp_path / "store").changed == 1
    assert states(tmp_path / "store", FIRST) == ({"sea"}, {"ship"})


def test_a_search_filters_by_what_is_known_and_shows_the_rest_apart(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def found(*options: str) -> dict[str, dict[str, object]]:
        capsys.readouterr()
        command = ["search", "--store", str(store), "--id", SECOND, "--k", "40", "--json", *options]
        assert main(command) == 0
        return {hit["id"]: hit for hit in json.loads(capsys.readouterr().out)["hits"]}

    everything = found()
    assert (everything[FIRST]["labels"], everything[FIRST]["unknown"]) == (["sea"], ["ship"])
    assert everything[FIRST]["agreement"] is None  # they may share the ship
    assert set(found("--any", "ship")) == set()  # but for the query
    assert (everything[LAST]["labelled"], everything[LAST]["agreement"]) == (False, None)
    assert set(found("--none", "ship")) == set(everything) - {FIRST, THIRD, LAST}
    assert set(found("--none", "ship", "--none-unknown-ok")) == set(everything)
    assert main(["search", "--store", str(store), "--id", SECOND, "--k", "40"]) == 0
    printed = capsys.readouterr().out
    assert "sea (1 unknown)\n" in printed
    assert "dock (2 unknown)\n" in printed


def test_every_kind_of_search_filters_alike(store: Path) -> None:
    for archive in (open_store(store), open_store(store, approximate=True)):
        for where, count in (
            (Filter(none=("ship",)), 36),
            (Filter(none=("ship",), none_unknown_ok=True), 39),
        ):
            assert len(archive.by_labels(["ship"], 40, where).hits) == count
            assert archive.store.count(where) == count


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("index", "--images", "x", "--unlisted", "unknown"), "--unlisted goes with --labels"),
        (("search", "--id", "x", "--none-unknown-ok"), "--none-unknown-ok goes with --none"),
    ],
)
def test_options_that_need_another_are_refused_without_it(
    store: Path, command: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([*command, "--store", str(store)])
    assert said in capsys.readouterr().err


def test_another_meaning_of_silence_is_refused(store: Path, scenes: Path, table: Path) -> None:
    with pytest.raises(ConfigError, match="unlisted = 'maybe': unknown. Known: absent, unknown."):
        index(scenes, store, labels=table, unlisted="maybe")
    with pytest.raises(ConfigError, match="unlisted: needs a label table"):
        index(scenes, store, unlisted="unknown")


def test_a_sheet_says_nothing_about_the_labels_of_an_example_that_is_not_labelled(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr("marcir.search.sheet.draw_retrieval_sheet", lambda rows, *_: drawn.extend(rows))
    examples = ["--like", LAST, "--like", OTHERS[0]]
    assert main(["search", "--store", str(store), *examples, "--sheet", str(tmp_path / "hits.png")]) == 0
    (row,) = drawn
    assert (row.labels, row.examples[0].labels) == (None, ())
