"""The base class of dataset readers, and labels that several datasets share."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from marcir.data.archive import Archive
from marcir.data.label_csv import LabelTable, Unlisted
from marcir.errors import DataError
from marcir.labels import LabelVocabulary

# The 17 labels of DLRSD, ML-AID and UC Merced multi-label, in the order of DLRSD's masks.
LAND_COVER = (
    "airplane", "bare soil", "building", "car", "chaparral", "court", "dock", "field", "grass",
    "mobile home", "pavement", "sand", "sea", "ship", "tank", "tree", "water",
)  # fmt: skip


class DatasetReader(ABC):
    """Reads one kind of archive; facts about the dataset are class attributes.

    Attributes:
        NAME: The dataset's name on the command line.
        LAYOUT: The expected files, for errors.
        IMAGE_FOLDER: The folder of the images, relative to root; searched at any depth.
        LABELS: Label names in order; empty if the archive defines them.
        IMAGES: Number of images of the published archive.
        COUNTS: Published images per label, in the order of LABELS.
        SPLIT: Published sizes of the training, validation and test parts.
    """

    NAME: ClassVar[str]
    LAYOUT: ClassVar[str]
    IMAGE_FOLDER: ClassVar[str] = "."
    LABELS: ClassVar[tuple[str, ...]] = ()
    IMAGES: ClassVar[int | None] = None
    COUNTS: ClassVar[tuple[int, ...] | None] = None
    SPLIT: ClassVar[tuple[int, int, int] | None] = None

    def read(
        self, root: str | Path, labels: str | Path | None = None, unlisted: Unlisted | None = None
    ) -> Archive:
        """Read ids, paths and labels; images are opened later.

        Args:
            root: The archive's folder.
            labels: A label table outside the folder.
            unlisted: What labels are that the table does not list, `absent` or `unknown`; by default what it
                says itself, else absent.

        Raises:
            DataError: Names the folder, the file or the line.
        """
        return self.read_folder(Path(root), None if labels is None else Path(labels), unlisted)

    @abstractmethod
    def read_folder(self, root: Path, labels: Path | None, unlisted: Unlisted | None) -> Archive:
        """Implements `read`."""

    def archive(
        self, root: Path, ids: Sequence[str], paths: Sequence[Path], rows: Iterable[Sequence[str]]
    ) -> Archive:
        """Make an archive with this reader's labels, all of them known."""
        vocabulary = LabelVocabulary(self.LABELS)
        sizes = self.SPLIT if len(ids) == self.IMAGES else None
        return Archive(self.NAME, root, tuple(ids), tuple(paths), vocabulary.encode(rows), vocabulary, sizes)

    def archive_of_table(self, root: Path, paths: Sequence[Path], table: LabelTable) -> Archive:
        """Make an archive from the rows of a label table, with this reader's labels or those of the table."""
        vocabulary = LabelVocabulary(self.LABELS or table.names)
        ids = tuple(row.image for row in table.rows)
        labels = vocabulary.encode(
            (row.labels for row in table.rows), unknown=(row.unknown for row in table.rows)
        )
        sizes = self.SPLIT if len(ids) == self.IMAGES else None
        return Archive(
            self.NAME, root, ids, tuple(paths), labels, vocabulary, sizes, table.unlisted, table.is_list
        )

    def refuse_unlisted(self, unlisted: Unlisted | None) -> None:
        """Refuse unknown labels where the labels do not come from a table that may leave some out."""
        if unlisted == "unknown":
            raise DataError(f"{self.NAME}: all of its labels are known; leave --unlisted out.")

    def need(self, path: Path, root: Path) -> Path:
        """The path, if it exists."""
        if not path.exists():
            raise DataError(
                f"{self.NAME}: {path.name} was not found in root={root}. Expected: {self.LAYOUT}. "
                "Set --root to the folder that holds it."
            )
        return path
