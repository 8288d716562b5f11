"""Collections and labels in their file: what is kept, what is refused, and files that cannot be used."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import marcir
from marcir.annotations import Annotations
from marcir.annotations.annotations import annotations_path
from marcir.annotations.database import Database
from marcir.annotations.label_log import LogVersion, Statement
from marcir.annotations.names import check_label
from marcir.data.label_csv import parse_states
from marcir.errors import AnnotationError, ConfigError, MissingCollectionError, UnusableAnnotationsError


@pytest.fixture
def annotations(tmp_path: Path) -> Annotations:
    return marcir.open_annotations(tmp_path / "a.store", writable=True)


def test_the_file_lies_beside_the_store_and_is_made_by_the_first_change(annotations: Annotations) -> None:
    path = annotations.path
    assert path is not None
    assert path.name == "a.store.annotations.sqlite"
    assert annotations.collections.all() == []
    assert annotations.labels.states() == {}
    assert not path.exists(), "reading makes no file"
    annotations.collections.create("Ships")
    assert path.exists()


def test_a_store_that_is_not_on_a_disk_needs_a_file() -> None:
    assert annotations_path("s3://bucket/a.store") is None
    with pytest.raises(ConfigError, match="Name the file of its annotations"):
        marcir.open_annotations("s3://bucket/a.store")


def test_a_name_is_used_once_and_found_again(annotations: Annotations) -> None:
    annotations.collections.create("Ships")
    with pytest.raises(AnnotationError, match="there is a collection 'Ships' already"):
        annotations.collections.create("Ships ")
    annotations.collections.create("Boats")
    with pytest.raises(AnnotationError, match="already"):
        annotations.collections.rename("Boats", "Ships")
    assert annotations.collections.rename("Boats", "Boats").name == "Boats"
    with pytest.raises(MissingCollectionError, match="Did you mean 'Ships'?"):
        annotations.collections.images("Shps")


def test_members_keep_their_order_and_are_read_in_pages(annotations: Annotations) -> None:
    annotations.collections.create("Some", ["c", "a", "b"], "me")
    annotations.collections.remove("Some", ["a"])
    annotations.collections.add("Some", ["a", "c", "d"], "you")
    assert annotations.collections.images("Some") == ["c", "b", "a", "d"]
    page = annotations.collections.members("Some", limit=2, offset=1)
    assert [(each.image, each.author) for each in page] == [("b", "me"), ("a", "you")]


def test_an_undo_leaves_alone_what_others_changed_since(annotations: Annotations) -> None:
    annotations.labels.set([("ship", "present", ["a", "b"])], "me")
    annotations.labels.set([("ship", "absent", ["b"])], "you")
    undone = annotations.labels.undo("me")
    assert (undone.undone, undone.changed, undone.kept) == (1, 1, 1)
    assert annotations.labels.states() == {"b": {"ship": "absent"}}
    assert annotations.labels.undo("me").edit is None
    assert annotations.labels.undo("you").changed == 1
    assert annotations.labels.states() == {"b": {"ship": "present"}}


def test_an_edit_is_undone_by_its_number_whoever_made_the_last_one(annotations: Annotations) -> None:
    labels = annotations.labels
    labels.set([("ship", "present", ["a"])])
    labels.set([("dock", "present", ["a", "b"])])
    labels.set([("dock", "absent", ["b"])])
    undone = labels.undo(edit=2)
    assert (undone.edit, undone.undone, undone.changed, undone.kept) == (4, 2, 1, 1)
    assert labels.states() == {"a": {"ship": "present"}, "b": {"dock": "absent"}}
    for edit, problem in (
        (2, "edit 2: somebody undid it already"),
        (4, "edit 4: undoes another one"),
        (9, "edit 9: there is no such change"),
    ):
        with pytest.raises(AnnotationError, match=problem):
            labels.undo(edit=edit)
    assert labels.undo().undone == 3, "without a number the last one that is not undone"
    assert labels.undo(edit=1).changed == 1


def test_removed_images_are_those_that_were_there(annotations: Annotations) -> None:
    annotations.collections.create("Some", ["c", "a", "b"])
    collection, removed = annotations.collections.remove("Some", ["b", "never", "c"])
    assert (collection.images, removed) == (1, ["c", "b"]), "in the order of the collection"


def test_names_that_look_the_same_are_one_name(annotations: Annotations) -> None:
    composed, decomposed = "café", "cafe\u0301"
    annotations.collections.create(decomposed)
    with pytest.raises(AnnotationError, match="already"):
        annotations.collections.create(composed)
    assert annotations.collections.get(decomposed).name == composed
    annotations.labels.set([(composed, "present", ["a"])])
    assert annotations.labels.set([(decomposed, "present", ["a"])]).unchanged == 1
    annotations.labels.set([(composed, "absent", ["b"])], known=[decomposed])
    assert annotations.labels.states() == {"a": {composed: "present"}, "b": {decomposed: "absent"}}


def test_an_unknown_collection_is_refused_with_the_nearest_name_alone(annotations: Annotations) -> None:
    for number in range(120):
        annotations.collections.create(f"Survey {number:03}")
    with pytest.raises(MissingCollectionError) as error:
        annotations.collections.get("Survey 1190")
    assert str(error.value) == "there is no collection 'Survey 1190'. Did you mean 'Survey 119'?"
    with pytest.raises(MissingCollectionError) as error:
        annotations.collections.get("Harbours")
    assert str(error.value) == (
        "there is no collection 'Harbours'. It may have been renamed or deleted; choose one of the list."
    )


def test_changes_since_a_version_are_those_that_a_reader_lacks(annotations: Annotations) -> None:
    annotations.labels.set([("ship", "present", ["a"])])
    version = annotations.labels.version()
    annotations.labels.set([("ship", "cleared", ["a"]), ("dock", "unknown", ["b"])])
    newest, restarted, changes = annotations.labels.changes_since(version)
    assert newest == annotations.labels.version() != version
    assert not restarted
    assert sorted(changes) == [("a", "ship", "cleared"), ("b", "dock", "unknown")]
    other = annotations.labels.changes_since(LogVersion("another file", 1, version.time))
    assert other.restarted
    assert len(other.changes) == 3


@pytest.mark.parametrize("later", [0, 1, 5])
def test_all_changes_of_a_backup_that_was_restored_are_new(
    annotations: Annotations, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    """Also where as many edits, or more, were made since it was restored."""
    times = iter(range(100))
    monkeypatch.setattr("marcir.annotations.label_log.now", lambda: f"{next(times)}")
    annotations.labels.set([("ship", "present", ["a"])])
    assert annotations.path is not None
    backup = annotations.path.with_name("backup")
    shutil.copy(annotations.path, backup)
    annotations.labels.set([("dock", "present", ["a"])])
    version = annotations.labels.version()
    shutil.copy(backup, annotations.path)
    for place in range(later):
        annotations.labels.set([("tree", "present", [f"{place}"])])
    newest, restarted, changes = annotations.labels.changes_since(version)
    assert newest != version
    assert restarted
    assert [image for image, _, _ in changes] == ["a", *(f"{place}" for place in range(later))]


def test_a_disk_that_is_full_is_reported_as_such_and_nothing_of_the_change_happened(
    annotations: Annotations, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotations.labels.set([("ship", "present", ["a"])])
    open_to_write = Database._open_to_write

    def on_a_full_disk(self: Database) -> sqlite3.Connection:
        connection = open_to_write(self)
        connection.execute("PRAGMA max_page_count = 1")
        return connection

    monkeypatch.setattr(Database, "_open_to_write", on_a_full_disk)
    with pytest.raises(UnusableAnnotationsError, match=r"cannot be used \(database or disk is full\)"):
        annotations.labels.set([("ship", "present", [f"{place:099}" for place in range(1000)])])
    assert annotations.labels.states() == {"a": {"ship": "present"}}


def test_the_log_cannot_be_changed(annotations: Annotations) -> None:
    annotations.labels.set([("ship", "present", ["a"])])
    assert annotations.path is not None
    with closing(sqlite3.connect(annotations.path)) as connection:
        for statement in ("DELETE FROM changes", "UPDATE edits SET author = 'x'", "DELETE FROM edits"):
            with pytest.raises(sqlite3.IntegrityError, match="kept"):
                connection.execute(statement)


@given(st.text(max_size=8))
def test_a_label_that_is_accepted_is_read_back_from_a_table(name: str) -> None:
    try:
        label = check_label(name)
    except AnnotationError:
        return
    assert parse_states("here", f"{label};!x{label}", None) == {label: "present", f"x{label}": "absent"}


def test_too_much_is_refused(annotations: Annotations, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marcir.annotations.label_log.MAX_CHANGES", 2)
    monkeypatch.setattr("marcir.annotations.label_log.MAX_LABELS", 1)
    monkeypatch.setattr("marcir.annotations.collection_table.MAX_COLLECTIONS", 1)
    with pytest.raises(AnnotationError, match="more than 2 labels of images are to be changed at once"):
        annotations.labels.set([("ship", "present", ["a", "b", "c"])])

    def statements() -> Iterator[tuple[str, Statement, list[str]]]:
        yield "ship", "present", ["a", "b", "c"]
        pytest.fail("the images of the next statement are looked for")

    with pytest.raises(AnnotationError, match="more than 2 labels"):
        annotations.labels.set(statements())
    with pytest.raises(AnnotationError, match="there would be 2 labels: at most 1"):
        annotations.labels.set([("ship", "present", ["a"]), ("dock", "present", ["a"])])
    assert annotations.labels.states() == {}
    annotations.collections.create("one")
    with pytest.raises(AnnotationError, match="there are 1 collections already"):
        annotations.collections.create("two")
    with pytest.raises(AnnotationError, match="must be UTF-8"):
        annotations.collections.add("one", ["\udcff.png"])


def test_what_is_opened_for_reading_is_not_changed(annotations: Annotations) -> None:
    annotations.collections.create("Ships", ["a"])
    reading = Annotations(annotations.path)
    assert reading.collections.images("Ships") == ["a"]
    with pytest.raises(AnnotationError, match="opened for reading only"):
        reading.collections.add("Ships", ["b"])


def test_other_files_are_refused_in_one_line_and_stay_as_they_are(tmp_path: Path) -> None:
    text, other, newer = (tmp_path / name for name in ("text", "other", "newer"))
    text.write_bytes(b"not a database " * 100)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE mine (a)")
        connection.commit()
    Annotations(newer, writable=True).collections.create("x")
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute("PRAGMA user_version = 99")
    for file, problem in (
        (text, "not a file of annotations"),
        (other, "a database of another program"),
        (newer, "annotations of version 99, and this marcir knows 1"),
    ):
        before = file.read_bytes()
        with pytest.raises(UnusableAnnotationsError, match=problem):
            Annotations(file).collections.all()
        with pytest.raises(UnusableAnnotationsError, match=problem):
            Annotations(file, writable=True).check()
        assert file.read_bytes() == before


def test_an_empty_file_of_a_killed_process_is_used(tmp_path: Path) -> None:
    file = tmp_path / "a.sqlite"
    file.touch()
    assert Annotations(file).collections.all() == []
    assert Annotations(file, writable=True).collections.create("x").name == "x"


def test_a_file_that_another_process_keeps_locked_is_reported(
    annotations: Annotations, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotations.collections.create("x", ["a"])
    monkeypatch.setattr("marcir.annotations.database._BUSY_SECONDS", 0.05)
    assert annotations.path is not None
    with closing(sqlite3.connect(annotations.path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnusableAnnotationsError, match="another process has been changing it"):
            annotations.collections.add("x", ["b"])
        assert annotations.collections.images("x") == ["a"], "readers do not wait"


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnusableAnnotationsError, match="Is its folder there, and may it be written?"):
        Annotations(tmp_path / "no" / "a.sqlite", writable=True).collections.create("x")


def test_a_file_in_a_folder_that_cannot_be_written_is_read(
    annotations: Annotations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As SQLite refuses it there; a test that runs as root can write everywhere."""
    annotations.collections.create("x", ["a"])
    connect = Database._connect

    def refuse(self: Database, mode: str) -> sqlite3.Connection:
        if mode == "mode=ro":
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise error
        return connect(self, mode)

    monkeypatch.setattr(Database, "_connect", refuse)
    assert Annotations(annotations.path).collections.images("x") == ["a"]
    Path(f"{annotations.path}-wal").write_bytes(b"changes that are not in the file yet")
    with pytest.raises(UnusableAnnotationsError, match="cannot be opened"):
        Annotations(annotations.path).collections.images("x")
