"""Labels that people give to images: a log of changes, and the newest state of every label."""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from marcir.annotations.database import Database, now
from marcir.annotations.names import check_images, check_known_label
from marcir.checks import check_choice
from marcir.data.label_csv import State
from marcir.errors import AnnotationError

# What a person says of a label; `cleared` withdraws what was said before.
Statement = Literal["present", "absent", "unknown", "cleared"]
# Labels by image that the page states.
PageLabels = dict[str, dict[str, State]]
MAX_CHANGES = 100_000  # labels of images that one edit may change
MAX_LABELS = 1000  # names of labels
MAX_HISTORY = 1000


class LogVersion(NamedTuple):
    """A state of a log: equal ones mean equal labels.

    Attributes:
        identity: Of the file; empty where there is none.
        edit: Number of its last edit.
        time: When that one was made: a backup that was restored may use its number again.
    """

    identity: str = ""
    edit: int = 0
    time: str = ""


class NewChanges(NamedTuple):
    """What a log has that a reader lacks.

    Attributes:
        version: The version now.
        restarted: Whether what the reader has is not of this log, so that it must begin anew.
        changes: Image, label and state of the changes since the reader's version, or of all, in their order.
    """

    version: LogVersion
    restarted: bool
    changes: list[tuple[str, str, Statement]]


@dataclass(frozen=True)
class LabelChange:
    """One label of one image, as it was and as it became.

    Attributes:
        edit: Number of the edit; grows with time.
        time: When, in UTC.
        author: By whom.
        image: Id of the image.
        label: Name of the label.
        before: What the page stated before; `cleared` for nothing.
        state: What it states since.
        undoes: The edit that this one undoes.
    """

    edit: int
    time: str
    author: str
    image: str
    label: str
    before: Statement
    state: Statement
    undoes: int | None = None


@dataclass(frozen=True)
class Edit:
    """What one call changed.

    Attributes:
        edit: Its number; None where nothing had to be changed.
        changed: Labels of images that have another state now.
        unchanged: Those that had the state already.
    """

    edit: int | None
    changed: int
    unchanged: int


@dataclass(frozen=True)
class Undo:
    """What an undo changed.

    Attributes:
        edit: Its number; None where nothing was left to undo.
        undone: The edit that was undone.
        changed: Labels of images that have the state from before that edit again.
        kept: Those that were changed once more since, and are left as they are.
    """

    edit: int | None
    undone: int | None
    changed: int
    kept: int


class LabelLog:
    """The labels of a file of annotations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set(
        self,
        statements: Iterable[tuple[str, Statement, Sequence[str]]],
        author: str = "local",
        known: Collection[str] = (),
    ) -> Edit:
        """Give labels to images, as one edit.

        Args:
            statements: Label, state and ids of the images; those that are too many are not asked for.
            author: Who says so.
            known: Labels whose spelling is kept; others are written in the normal form NFC of Unicode.

        Raises:
            AnnotationError: For names that no label can have, contradictions, and too many changes.
        """
        wanted = _wanted(statements, known)
        with self._database.writing() as connection:
            changes = [
                (image, label, before, state)
                for (image, label), state in wanted.items()
                if (before := _state(connection, image, label)) != state
            ]
            _check_labels(connection, {label for _, label, _, _ in changes})
            edit = _log(connection, changes, author) if changes else None
        return Edit(edit, len(changes), len(wanted) - len(changes))

    def undo(self, author: str = "local", edit: int | None = None) -> Undo:
        """Take an edit back; labels changed since then stay.

        Args:
            author: Who does so.
            edit: Its number; None for the author's last edit that is not undone yet.

        Raises:
            AnnotationError: For a number of no edit, of an undo, or of an edit that is undone already.
        """
        with self._database.writing() as connection:
            undone = _last_edit(connection, author) if edit is None else _check_edit(connection, edit)
            if undone is None:
                return Undo(None, None, 0, 0)
            done = connection.execute(
                "SELECT image, label, state, before FROM changes WHERE edit = ?", (undone,)
            ).fetchall()
            back = [change for change in done if _state(connection, change[0], change[1]) == change[2]]
            made = _log(connection, back, author, undone)
        return Undo(made, undone, len(back), len(done) - len(back))

    def states(self, images: Iterable[str] | None = None) -> PageLabels:
        """What the page states, of all images or of some; images of which it states nothing are left out."""
        found: PageLabels = {}
        with self._database.reading() as connection:
            if images is None:
                rows: Iterable[tuple[str, str, State]] = connection.execute("SELECT * FROM states")
            else:
                rows = _rows_of(connection, images)
            for image, label, state in rows:
                found.setdefault(image, {})[label] = state
        return found

    def of_label(self, label: str) -> dict[str, State]:
        """What the page states of a label, by image; what was stated last comes last."""
        with self._database.reading() as connection:
            rows: Iterable[tuple[str, State]] = connection.execute(
                "SELECT image, state FROM states WHERE label = ?1 ORDER BY (SELECT max(edit) FROM changes "
                "WHERE changes.image = states.image AND changes.label = ?1), image",
                (label,),
            )
            return dict(rows)

    def history(self, image: str) -> list[LabelChange]:
        """The last 1,000 changes of an image, the newest first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT edit, time, author, image, label, before, state, undoes FROM changes "
                "JOIN edits ON edits.id = edit WHERE image = ? ORDER BY edit DESC, label LIMIT ?",
                (image, MAX_HISTORY),
            )
            return [LabelChange(*row) for row in rows]

    def version(self) -> LogVersion:
        """The version now."""
        with self._database.reading() as connection:
            return _version(connection)

    def changes_since(self, version: LogVersion) -> NewChanges:
        """The changes since another version.

        Where that one is of another file, or this file is a backup that was restored, these are all changes.
        """
        with self._database.reading() as connection:
            newest = _version(connection)
            restarted = newest.identity != version.identity or _time(connection, version.edit) != version.time
            rows = connection.execute(
                "SELECT image, label, state FROM changes WHERE edit > ? ORDER BY edit",
                (0 if restarted else version.edit,),
            )
            return NewChanges(newest, restarted, rows.fetchall())


def _last_edit(connection: sqlite3.Connection, author: str) -> int | None:
    row = connection.execute(
        "SELECT id FROM edits AS edit WHERE author = ? AND undoes IS NULL AND NOT EXISTS "
        "(SELECT 1 FROM edits WHERE undoes = edit.id) ORDER BY id DESC LIMIT 1",
        (author,),
    ).fetchone()
    return None if row is None else int(row[0])


def _check_edit(connection: sqlite3.Connection, edit: int) -> int:
    row = connection.execute(
        "SELECT undoes, EXISTS (SELECT 1 FROM edits WHERE undoes = ?1) FROM edits WHERE id = ?1", (edit,)
    ).fetchone()
    if row is None:
        raise AnnotationError(f"edit {edit}: there is no such change of labels. Give the number of one.")
    undoes, is_undone = row
    if undoes is not None:
        raise AnnotationError(f"edit {edit}: undoes another one. Set the labels again instead.")
    if is_undone:
        raise AnnotationError(f"edit {edit}: somebody undid it already. The labels stay as they are.")
    return edit


def _wanted(
    statements: Iterable[tuple[str, Statement, Sequence[str]]], known: Collection[str]
) -> dict[tuple[str, str], Statement]:
    wanted: dict[tuple[str, str], Statement] = {}
    for label, state, images in statements:
        name = check_known_label(label, known)
        check_choice("state", state, get_args(Statement))
        for image in check_images(images):
            if wanted.setdefault((image, name), state) != state:
                raise AnnotationError(
                    f"'{image}': the label '{name}' is to be {wanted[image, name]} and {state}. Give one."
                )
            if len(wanted) > MAX_CHANGES:
                raise AnnotationError(
                    f"more than {MAX_CHANGES:,} labels of images are to be changed at once. Choose fewer."
                )
    return wanted


def _state(connection: sqlite3.Connection, image: str, label: str) -> Statement:
    row = connection.execute(
        "SELECT state FROM states WHERE image = ? AND label = ?", (image, label)
    ).fetchone()
    return "cleared" if row is None else row[0]


def _log(
    connection: sqlite3.Connection,
    changes: Sequence[tuple[str, str, Statement, Statement]],
    author: str,
    undoes: int | None = None,
) -> int:
    """Write an edit, and keep the newest states; changes are image, label, state before and after."""
    edit = connection.execute(
        "INSERT INTO edits (time, author, undoes) VALUES (?, ?, ?)", (now(), author, undoes)
    ).lastrowid
    connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", [(edit, *each) for each in changes])
    stated = [(image, label, state) for image, label, _, state in changes if state != "cleared"]
    cleared = [(image, label) for image, label, _, state in changes if state == "cleared"]
    connection.executemany("INSERT OR REPLACE INTO states VALUES (?, ?, ?)", stated)
    connection.executemany("DELETE FROM states WHERE image = ? AND label = ?", cleared)
    return int(edit or 0)


def _check_labels(connection: sqlite3.Connection, names: Iterable[str]) -> None:
    known = "SELECT 1 FROM states WHERE label = ? LIMIT 1"
    new = [name for name in names if connection.execute(known, (name,)).fetchone() is None]
    if not new:
        return
    ((before,),) = connection.execute("SELECT count(DISTINCT label) FROM states")
    if (labels := before + len(new)) > MAX_LABELS:
        raise AnnotationError(
            f"there would be {labels:,} labels: at most {MAX_LABELS:,}. Use those there are."
        )


def _rows_of(connection: sqlite3.Connection, images: Iterable[str]) -> Iterator[tuple[str, str, State]]:
    for image in images:
        yield from connection.execute("SELECT * FROM states WHERE image = ?", (image,))


def _version(connection: sqlite3.Connection) -> LogVersion:
    ((identity,),) = connection.execute("SELECT identity FROM about")
    ((edit,),) = connection.execute("SELECT coalesce(max(id), 0) FROM edits")
    return LogVersion(identity, edit, _time(connection, edit))


def _time(connection: sqlite3.Connection, edit: int) -> str:
    """When an edit was made; empty where there is no such edit."""
    row = connection.execute("SELECT time FROM edits WHERE id = ?", (edit,)).fetchone()
    return "" if row is None else str(row[0])
