"""What there is of a LanceDB store, the errors of its library, and locks against other writers."""

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from marcir.errors import StoreError, UnusableStoreError, needs
from marcir.files import reason
from marcir.schema import parse
from marcir.search.records import About
from marcir.search.shard import WHOLE, Shard

with needs("train"):
    from filelock import FileLock, Timeout

# In the order in which they are made: of several processes that start at once, the first header decides of
# which model the store is.
TABLES = ("about", "model", "images")
_LOCK = ".lock"  # the names of all locks begin with it
_LOOK_SECONDS = 2.0  # within which others, which only look whether a lock is held, release it
TRIES = 10  # of an operation that fails because another process changes the store meanwhile
# What LanceDB 0.40 and S3 say where another process has changed the store or removed an old version of it.
_CONFLICT = (
    "commit conflict for version",
    "incompatible transaction: ",
    "too many concurrent writ",
    "409 conflict",
    "conditionalrequestconflict",
)
_GONE = ("not found: ", "was not found", "404 not found", "no such file")
# Waiting after a conflict, in seconds: at most the first time, and ever.
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 5.0


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
    return _says(error, _GONE)


def is_conflict(error: UnusableStoreError) -> bool:
    """Whether a commit failed because of those of other processes; nothing of it was written."""
    return _says(error, _CONFLICT)


def _says(error: UnusableStoreError, phrases: tuple[str, ...]) -> bool:
    """Whether the store's library says one of some things: outside paths, which may have any words."""
    text = re.sub(r"\S*/\S*", "", str(error.__cause__).lower())
    return any(phrase in text for phrase in phrases)


def back_off(failures: int) -> None:
    """Wait after a conflict: longer each time, and for random times, so that writers do not meet again."""
    time.sleep(random.uniform(0, min(_LONGEST_WAIT, _FIRST_WAIT * 2**failures)))  # noqa: S311


def again_after_conflicts(work: Callable[[], None]) -> None:
    """Do something, again where the commits of other processes come between."""
    for failures in range(1, TRIES + 1):
        try:
            work()
            return
        except UnusableStoreError as error:
            if failures == TRIES or not is_conflict(error):
                raise
        back_off(failures)


@contextmanager
def sole_writer(uri: str | Path, shard: Shard = WHOLE) -> Iterator[None]:
    """Keep other writers of the same images out of a folder; readers are not affected.

    Shards of one archive are written side by side, but not beside a run over the whole: that one removes old
    versions at once. Object storage has no locks, and needs none: there old versions stay for an hour.

    Args:
        uri: A folder, or `s3://bucket/path`.
        shard: What is written; the whole archive by default.

    Raises:
        StoreError: Where another process is writing, and for a folder that holds other things.
    """
    if "://" in str(uri):
        yield
        return
    refuse_other_folder(str(uri))
    with ExitStack() as held:
        try:
            Path(uri).mkdir(parents=True, exist_ok=True)
            _lock_out_others(Path(uri), shard, held)
        except Timeout:
            raise StoreError(
                f"{uri}: another marcir index is at work on it. Wait until it is done."
            ) from None
        except OSError as error:
            raise StoreError(f"{uri}: cannot be written ({reason(error)}). Use another --store.") from error
        yield


def _lock_out_others(folder: Path, shard: Shard, held: ExitStack) -> None:
    if shard.is_whole:
        held.enter_context(FileLock(folder / _LOCK, timeout=0))
        for path in folder.glob(f"{_LOCK}-*-of-*"):
            # No run over a shard; a later one will find our lock. All of them may be too many to hold.
            with FileLock(path, timeout=0):
                pass
        return
    held.enter_context(FileLock(folder / f"{_LOCK}-{shard.index}-of-{shard.count}", timeout=0))
    with FileLock(folder / _LOCK, timeout=_LOOK_SECONDS):
        pass  # no run over the whole archive; a later one will find our lock


@contextmanager
def sole_optimizer(uri: str) -> Iterator[bool]:
    """Whether no other process optimizes the store; on object storage this is unknown."""
    with ExitStack() as held:
        sole = True
        if "://" not in uri:
            try:
                held.enter_context(FileLock(Path(uri) / f"{_LOCK}-optimize", timeout=0))
            except Timeout:
                sole = False
        yield sole


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
    others = [
        path.name for path in folder.iterdir() if path.suffix != ".lance" and not path.name.startswith(_LOCK)
    ]
    if others:
        raise StoreError(f"{uri}: the folder holds other things, such as '{others[0]}'. Use another --store.")


def table_names(db: Any) -> set[str]:
    """Tables that are there, be it in part."""
    return set(db.list_tables(limit=100).tables)


def whole_tables(db: Any) -> set[str]:
    """Tables that are whole: killed while making one, a process leaves a folder without any version."""
    return {name for name in table_names(db) if name in TABLES and _is_whole(db, name)}


def _is_whole(db: Any, name: str) -> bool:
    try:
        db.open_table(name)
    except ValueError as error:
        if "was not found" in str(error):
            return False
        raise
    return True


def read_about(uri: str, db: Any, version: int | None = None) -> About:
    """Read the header of a store; by default the newest version of it."""
    try:
        table = db.open_table("about")
        if version is not None:
            table.checkout(version)
        return parse(About, table.to_arrow()["about"][0].as_py())
    except (KeyError, IndexError, ValueError) as error:
        raise StoreError(f"{uri}: its header cannot be read ({reason(error)}).") from error
