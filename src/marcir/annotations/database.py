"""The SQLite file of annotations: opened for every use, changed in transactions.

    about        identity of the file
    collections  name, when and by whom it was made, when it was changed
    members      images of collections; the order of `rowid` is that in which they were added
    edits        one row per call that changed labels: when, by whom, which edit it undoes
    changes      what an edit changed; rows of edits and changes are never changed or removed
    states       the newest state of every label that the page states, kept by the same transactions

Every transaction is durable before it is acknowledged (write-ahead log, synchronous = FULL): a process that
is killed loses nothing that it has reported. Several processes of one machine may use the file.
"""

import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from marcir.errors import AnnotationError, UnusableAnnotationsError
from marcir.files import reason

VERSION = 1
_APPLICATION = 0x6D617263  # "marc", in the header of the file
_BUSY_SECONDS = 20.0  # that a process waits for others
_SCHEMA = f"""
CREATE TABLE about (identity TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE collections (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    created TEXT NOT NULL,
    changed TEXT NOT NULL,
    author TEXT NOT NULL
);
CREATE TABLE members (
    collection INTEGER NOT NULL REFERENCES collections ON DELETE CASCADE,
    image TEXT NOT NULL,
    added TEXT NOT NULL,
    author TEXT NOT NULL,
    UNIQUE (collection, image)
);
CREATE TABLE edits (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    author TEXT NOT NULL,
    undoes INTEGER UNIQUE REFERENCES edits
);
CREATE INDEX edits_of_author ON edits (author, id);
CREATE TABLE changes (
    edit INTEGER NOT NULL REFERENCES edits,
    image TEXT NOT NULL,
    label TEXT NOT NULL,
    before TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('present', 'absent', 'unknown', 'cleared')),
    PRIMARY KEY (edit, image, label)
) WITHOUT ROWID;
CREATE INDEX changes_of_image ON changes (image, edit);
CREATE TABLE states (
    image TEXT NOT NULL,
    label TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('present', 'absent', 'unknown')),
    PRIMARY KEY (image, label)
) WITHOUT ROWID;
CREATE INDEX states_of_label ON states (label, image);
CREATE TRIGGER edits_stay BEFORE DELETE ON edits BEGIN SELECT RAISE(ABORT, 'edits are kept'); END;
CREATE TRIGGER edits_are_fixed BEFORE UPDATE ON edits BEGIN SELECT RAISE(ABORT, 'edits are kept'); END;
CREATE TRIGGER changes_stay BEFORE DELETE ON changes BEGIN SELECT RAISE(ABORT, 'changes are kept'); END;
CREATE TRIGGER changes_are_fixed BEFORE UPDATE ON changes BEGIN SELECT RAISE(ABORT, 'changes are kept'); END;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {VERSION};
"""


class Database:
    """A file of annotations; threads and processes of one machine may share it.

    Args:
        path: The file, made by the first change; None where there is none: nothing is in it.
        writable: Whether it may be changed.
    """

    def __init__(self, path: Path | None, writable: bool) -> None:
        self.writable = writable and path is not None
        self.path = Path("no file") if path is None else path
        self._exists = self.path.exists if path is not None else bool

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One state of the file; an empty one where there is no file.

        Raises:
            UnusableAnnotationsError: Where the file cannot be read.
        """
        with self._translated(), closing(self._open_to_read()) as connection:
            connection.execute("BEGIN")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it is durable at the end, or nothing of it happened.

        Raises:
            AnnotationError: Where the file must not be changed.
            UnusableAnnotationsError: Where it cannot be.
        """
        if not self.writable:
            raise AnnotationError(f"{self.path}: opened for reading only. Open it with writable=True.")
        with self._translated(), closing(self._open_to_write()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:  # where the disk is full, SQLite has taken it back already
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _open_to_read(self) -> sqlite3.Connection:
        if not self._exists():
            return _empty()
        try:
            return self._ready_or_empty("mode=ro")
        except sqlite3.OperationalError as error:
            # A folder that cannot be written has no place for the index of a write-ahead log. A file whose
            # log is empty, or was removed by its last user, is complete without.
            log = Path(f"{self.path}-wal")
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or (
                log.exists() and log.stat().st_size
            ):
                raise
        return self._ready_or_empty("mode=ro&immutable=1")

    def _ready_or_empty(self, mode: str) -> sqlite3.Connection:
        connection = self._connect(mode)
        ready = False
        try:
            ready = self._is_ready(connection)
        finally:
            if not ready:
                connection.close()
        return connection if ready else _empty()

    def _open_to_write(self) -> sqlite3.Connection:
        connection = self._connect("mode=rwc")
        try:
            if not self._is_ready(connection):
                self._create(connection)
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self, mode: str) -> sqlite3.Connection:
        # Transactions begin where this module says so.
        return sqlite3.connect(
            f"{self.path.absolute().as_uri()}?{mode}", _BUSY_SECONDS, isolation_level=None, uri=True
        )

    def _is_ready(self, connection: sqlite3.Connection) -> bool:
        """Whether the tables are there; a process that was killed may have left an empty file.

        Raises:
            UnusableAnnotationsError: For a database of another program or of a newer version.
        """
        connection.execute("BEGIN")  # of another process that makes the tables, all or nothing is seen
        ((application,),) = connection.execute("PRAGMA application_id").fetchall()
        ((version,),) = connection.execute("PRAGMA user_version").fetchall()
        ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        connection.execute("COMMIT")
        if not tables and not application:
            return False
        if application != _APPLICATION:
            raise UnusableAnnotationsError(f"{self.path}: a database of another program. Use another file.")
        if version != VERSION:
            raise UnusableAnnotationsError(
                f"{self.path}: annotations of version {version}, and this marcir knows {VERSION}. Update "
                "marcir."
            )
        return True

    def _create(self, connection: sqlite3.Connection) -> None:
        """Make the tables; of several processes that do so at once, one does."""
        deadline = time.monotonic() + _BUSY_SECONDS
        while True:  # SQLite does not wait for others here
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        connection.execute("BEGIN IMMEDIATE")
        ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        if not tables:
            _make_tables(connection, uuid.uuid4().hex)
        connection.execute("COMMIT")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Errors of SQLite and of the disk in one line."""
        try:
            yield
        except sqlite3.Error as error:
            raise UnusableAnnotationsError(f"{self.path}: {_problem(error)}") from error
        except OSError as error:
            raise UnusableAnnotationsError(f"{self.path}: cannot be used ({reason(error)}).") from error


def now() -> str:
    """The time, as it is stored.

    >>> now()[-1]
    'Z'
    """
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _make_tables(connection: sqlite3.Connection, identity: str) -> None:
    # Statement by statement: `executescript` would commit the transaction.
    statement = ""
    for line in _SCHEMA.splitlines():
        statement += f"{line}\n"
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    connection.execute("INSERT INTO about VALUES (?, ?)", (identity, now()))


def _empty() -> sqlite3.Connection:
    """A database in memory without annotations."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _make_tables(connection, identity="")
    return connection


def _problem(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"another process has been changing it for {_BUSY_SECONDS:.0f} s. Try again."
    if code == sqlite3.SQLITE_NOTADB:
        return "not a file of annotations. Use another file."
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return f"cannot be opened ({reason(error)}). Is its folder there, and may it be written?"
    return f"cannot be used ({reason(error)})."
