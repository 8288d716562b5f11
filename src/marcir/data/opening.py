"""Open an archive by the name of its dataset."""

from pathlib import Path

from marcir.catalog import create_reader
from marcir.data.archive import Archive
from marcir.data.readers.base import DatasetReader
from marcir.errors import ConfigError, DataError
from marcir.files import cache_folder

# Images are read at 1.25 times the size that training sees, so that crops can be taken from them.
MARGIN = 1.25


def open_archive(
    dataset: str, root: str | Path | None, labels: str | Path | None = None
) -> tuple[Archive, DatasetReader]:
    """Read an archive by the dataset's name; only `scenes` has a folder of its own."""
    reader = create_reader(dataset)
    if root is None:
        if dataset != "scenes":
            raise ConfigError(f"dataset '{dataset}' needs --root, the folder with: {reader.LAYOUT}.")
        root = cache_folder() / "scenes"
    root = Path(root)
    if dataset != "scenes" and not root.is_dir():
        raise DataError(f"{dataset}: root={root} is not a folder. Expected there: {reader.LAYOUT}.")
    archive = reader.read(root, Path(labels) if labels is not None else None)
    if not len(archive):
        raise DataError(f"{dataset}: the label table of {root} names no images.")
    return archive, reader
