"""Collections: images that somebody has put together under a name."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from marcir.annotations.database import Database, now
from marcir.annotations.names import check_collection, check_images
from marcir.errors import AnnotationError, MissingCollectionError

MAX_COLLECTIONS = 10_000
MAX_MEMBERS = 100_000  # of one collection


@dataclass(frozen=True)
class Collection:
    """A collection.

    Attributes:
        name: Its name, which no other collection has.
        images: Number of its images, also of those that are no longer in the store.
        created: When it was made, in UTC.
        changed: When its name or its images were changed last.
        author: Who made it.
    """

    name: str
    images: int
    created: str
    changed: str
    author: str


@dataclass(frozen=True)
class Member:
    """An image of a collection, with the time and the author of its addition."""

    image: str
    added: str
    author: str


class CollectionTable:
    """The collections of a file of annotations.

    Whatever is changed is named by itself (one image more, another name), so that of two people who change
    the same collection at once neither undoes what the other does.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[Collection]:
        """All collections, by name."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT * FROM collections").fetchall()
            counts = dict(connection.execute("SELECT collection, count(*) FROM members GROUP BY collection"))
        found = [_collection(row, counts.get(row[0], 0)) for row in rows]
        return sorted(found, key=lambda each: (each.name.casefold(), each.name))

    def get(self, name: str) -> Collection:
        """One collection.

        Raises:
            MissingCollectionError: For an unknown name, with the nearest known one.
        """
        with self._database.reading() as connection:
            return _described(connection, name)

    def images(self, name: str) -> list[str]:
        """Ids of its images, in the order in which they were added."""
        with self._database.reading() as connection:
            return _images(connection, _find(connection, name)[0])

    def members(self, name: str, limit: int, offset: int = 0) -> list[Member]:
        """Some of its images, in the order in which they were added."""
        with self._database.reading() as connection:
            found = _find(connection, name)
            rows = connection.execute(
                "SELECT image, added, author FROM members WHERE collection = ? "
                "ORDER BY rowid LIMIT ? OFFSET ?",
                (found[0], limit, offset),
            )
            return [Member(*row) for row in rows]

    def create(self, name: str, images: Sequence[str] = (), author: str = "local") -> Collection:
        """Make a collection.

        Raises:
            AnnotationError: Where there is one of this name, and for too many images.
        """
        checked, members = check_collection(name), check_images(images)
        with self._database.writing() as connection:
            _refuse_duplicate(connection, checked)
            ((count,),) = connection.execute("SELECT count(*) FROM collections")
            if count >= MAX_COLLECTIONS:
                raise AnnotationError(f"there are {count:,} collections already. Delete some.")
            time = now()
            values = (checked, time, time, author)
            connection.execute(
                "INSERT INTO collections (name, created, changed, author) VALUES (?, ?, ?, ?)", values
            )
            _add(connection, checked, members, author)
            return _described(connection, checked)

    def rename(self, name: str, new_name: str) -> Collection:
        """Give a collection another name."""
        checked = check_collection(new_name)
        with self._database.writing() as connection:
            found = _find(connection, name)
            if checked != found[1]:
                _refuse_duplicate(connection, checked)
            values = (checked, now(), found[0])
            connection.execute("UPDATE collections SET name = ?, changed = ? WHERE id = ?", values)
            return _described(connection, checked)

    def delete(self, name: str) -> None:
        """Remove a collection; its images stay where they are, and so do their labels."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM collections WHERE id = ?", _find(connection, name)[:1])

    def add(self, name: str, images: Sequence[str], author: str = "local") -> tuple[Collection, int]:
        """Add images.

        Returns:
            The collection, and how many images were not in it before.
        """
        members = check_images(images)
        with self._database.writing() as connection:
            changed = _add(connection, name, members, author)
            return _described(connection, name), changed

    def remove(self, name: str, images: Sequence[str]) -> tuple[Collection, list[str]]:
        """Remove images.

        Returns:
            The collection, and the images that were in it before, in its order.
        """
        wanted = set(check_images(images))
        with self._database.writing() as connection:
            found = _find(connection, name)[0]
            removed = [image for image in _images(connection, found) if image in wanted]
            rows = [(found, image) for image in removed]
            connection.executemany("DELETE FROM members WHERE collection = ? AND image = ?", rows)
            _mark_changed(connection, found, len(removed))
            return _described(connection, name), removed


def _collection(row: Sequence[str], images: int) -> Collection:
    _, name, created, changed, author = row
    return Collection(name, images, created, changed, author)


def _find(connection: sqlite3.Connection, name: str) -> tuple[str, ...]:
    checked = check_collection(name)
    row: tuple[str, ...] | None = connection.execute(
        "SELECT * FROM collections WHERE name = ?", (checked,)
    ).fetchone()
    if row is None:
        names = [known for (known,) in connection.execute("SELECT name FROM collections")]
        raise MissingCollectionError(f"there is no collection '{checked}'. {_hint(checked, names)}")
    return row


def _hint(name: str, known: Sequence[str]) -> str:
    """The nearest name; not all of them, which may be thousands."""
    spelled = {each.lower(): each for each in known}
    if near := get_close_matches(name.lower(), spelled, n=1):
        return f"Did you mean '{spelled[near[0]]}'?"
    return "It may have been renamed or deleted; choose one of the list." if known else "There are none."


def _images(connection: sqlite3.Connection, collection: str) -> list[str]:
    rows = connection.execute("SELECT image FROM members WHERE collection = ? ORDER BY rowid", (collection,))
    return [image for (image,) in rows]


def _described(connection: sqlite3.Connection, name: str) -> Collection:
    row = _find(connection, name)
    ((images,),) = connection.execute("SELECT count(*) FROM members WHERE collection = ?", row[:1])
    return _collection(row, images)


def _refuse_duplicate(connection: sqlite3.Connection, name: str) -> None:
    if connection.execute("SELECT 1 FROM collections WHERE name = ?", (name,)).fetchone():
        raise AnnotationError(f"there is a collection '{name}' already. Choose another name.")


def _add(connection: sqlite3.Connection, name: str, images: Sequence[str], author: str) -> int:
    found, time = _find(connection, name)[0], now()
    rows = [(found, image, time, author) for image in images]
    ((before,),) = connection.execute("SELECT count(*) FROM members WHERE collection = ?", (found,))
    connection.executemany("INSERT OR IGNORE INTO members VALUES (?, ?, ?, ?)", rows)
    ((after,),) = connection.execute("SELECT count(*) FROM members WHERE collection = ?", (found,))
    if after > MAX_MEMBERS:
        raise AnnotationError(
            f"collection '{name}': it would have {after:,} images, and may have {MAX_MEMBERS:,}. Narrow the "
            "filter, or use several collections."
        )
    _mark_changed(connection, found, after - before)
    return int(after - before)


def _mark_changed(connection: sqlite3.Connection, collection: str, changes: int) -> None:
    if changes:
        connection.execute("UPDATE collections SET changed = ? WHERE id = ?", (now(), collection))
