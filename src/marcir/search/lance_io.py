"""Opening and making the tables of a LanceDB store, and keeping a second writer out."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from marcir.errors import StoreError, UnusableStoreError, needs
from marcir.files import reason
from marcir.schema import parse
from marcir.search.records import About

with needs("train"):
    from filelock import FileLock, Timeout

TABLES = ("model", "about", "images")  # in the order in which they are made
_LOCK = ".lock"


@contextmanager
def translate_errors(uri: str) -> Iterator[None]:
    """Errors of the store's library in one line."""
    try:
        yield
    except (RuntimeError, ValueError, OSError, OverflowError) as error:
        if isinstance(error, StoreError):
            raise
        text = re.sub(r",? ?/\S+\.rs:\d+(:\d+)?", "", reason(error))[:300].rstrip(" .,")
        raise UnusableStoreError(f"{uri}: the store cannot be used ({text}).") from error


def file_is_gone(error: UnusableStoreError) -> bool:
    """Whether a store cannot be used because a file is missing: a writer may have removed an old version."""
    return "not found" in str(error.__cause__).lower()


@contextmanager
def sole_writer(uri: str | Path) -> Iterator[None]:
    """Keep other writers out of a folder; readers are not affected. Object storage has no locks.

    Raises:
        StoreError: Where another process is writing, and for a folder that holds other things.
    """
    folder = Path(uri)
    if "://" in str(uri):
        yield
        return
    refuse_other_folder(str(uri))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / _LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        raise StoreError(f"{uri}: another marcir index is at work on it. Wait until it is done.") from None
    except OSError as error:
        raise StoreError(f"{uri}: cannot be written ({reason(error)}). Use another --store.") from error
    try:
        yield
    finally:
        lock.release()


def is_store(uri: str | Path) -> bool:
    """Whether there is a store whose tables are all there."""
    with needs("store"):
        import lancedb
    if not may_exist(str(uri)):
        return False
    with translate_errors(str(uri)):
        return whole_tables(lancedb.connect(str(uri))) == set(TABLES)


def may_exist(uri: str) -> bool:
    """Whether there is a folder; object storage must be asked."""
    return "://" in uri or Path(uri).is_dir()


def refuse_other_folder(uri: str) -> None:
    """A folder with other things in it is not written into."""
    folder = Path(uri)
    if "://" in uri or not folder.exists():
        return
    if not folder.is_dir():
        raise StoreError(f"{uri}: not a folder. Use another --store.")
    others = [path.name for path in folder.iterdir() if path.suffix != ".lance" and path.name != _LOCK]
    if others:
        raise StoreError(f"{uri}: the folder holds other things, such as '{others[0]}'. Use another --store.")


def whole_tables(db: Any) -> set[str]:
    """Tables that are whole: killed while making one, a process leaves a folder without any version."""
    return {name for name in db.list_tables(limit=100).tables if name in TABLES and _is_whole(db, name)}


def _is_whole(db: Any, name: str) -> bool:
    try:
        db.open_table(name)
    except ValueError as error:
        if "was not found" in str(error):
            return False
        raise
    return True


def read_about(uri: str, db: Any) -> About:
    """Read the header of a store."""
    try:
        return parse(About, db.open_table("about").to_arrow()["about"][0].as_py())
    except (KeyError, IndexError, ValueError) as error:
        raise StoreError(f"{uri}: its header cannot be read ({reason(error)}).") from error
