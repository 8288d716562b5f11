"""Open the annotations of a store."""

import os
from pathlib import Path

from marcir.annotations.collection_table import CollectionTable
from marcir.annotations.database import Database
from marcir.annotations.label_log import LabelLog
from marcir.errors import ConfigError, UnusableAnnotationsError

SUFFIX = ".annotations.sqlite"


class Annotations:
    """Collections and labels that people made; threads and processes of one machine may share the file.

    Args:
        path: The SQLite file; it need not exist. None: there is none, and nothing can be changed.
        writable: Whether it may be changed.

    Attributes:
        path: The file.
        collections: Images under a name.
        labels: Labels of images, and the log of their changes.
    """

    def __init__(self, path: Path | None, writable: bool = False) -> None:
        self.path, self._database = path, Database(path, writable)
        self.collections, self.labels = CollectionTable(self._database), LabelLog(self._database)

    @property
    def writable(self) -> bool:
        """Whether they may be changed."""
        return self._database.writable

    def check(self) -> None:
        """Open the file, as it will be used: make it if it may be changed.

        Raises:
            UnusableAnnotationsError: Where it cannot be used.
        """
        with self._database.writing() if self.writable else self._database.reading():
            pass


def annotations_path(store: str | Path) -> Path | None:
    """The file of annotations beside a store; None where the store is not on a disk.

    >>> annotations_path("data/archive.store/").name
    'archive.store.annotations.sqlite'
    """
    if "://" in str(store):
        return None
    folder = os.path.abspath(store)  # noqa: PTH100  `Path.absolute` keeps dots
    return Path(f"{folder}{SUFFIX}")


def open_annotations(
    store: str | Path, file: str | Path | None = None, *, writable: bool = False
) -> Annotations:
    """Open the annotations of a store.

    >>> annotations = open_annotations("archive.store")  # doctest: +SKIP
    >>> [collection.name for collection in annotations.collections.all()]  # doctest: +SKIP
    >>> annotations.collections.images("Ships"), annotations.labels.states()  # doctest: +SKIP

    Args:
        store: The store: a folder, or `s3://bucket/path`.
        file: The file of annotations; by default the one beside the store, which need not exist.
        writable: Whether they may be changed; the first change makes the file.

    Raises:
        ConfigError: For a store that is not on a disk, without a file.
        UnusableAnnotationsError: For a file that is named to be read, and is not there.
    """
    path = annotations_path(store) if file is None else Path(file)
    if path is None:
        raise ConfigError(f"{store}: not on a disk. Name the file of its annotations (--annotations FILE).")
    if file is not None and not writable and not path.exists():
        raise UnusableAnnotationsError(
            f"{file}: there is no such file. Name the one that has the annotations."
        )
    return Annotations(path, writable)
