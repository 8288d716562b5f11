"""Train on the images and labels of a store: the dataset `store`."""

from pathlib import Path

from marcir.annotations.annotations import open_annotations
from marcir.annotations.merge import merged_table
from marcir.data.archive import Archive
from marcir.data.label_csv import Unlisted
from marcir.data.object_storage import S3Path, image_path
from marcir.data.readers.base import DatasetReader
from marcir.errors import DataError
from marcir.search.lance import LanceStore
from marcir.search.store import Store


def folder_of_images(store: Store) -> Path:
    """The folder of the images of a store.

    Raises:
        DataError: Where they are not files of a folder, so that they cannot be trained on.
    """
    if store.about.windows is not None:
        raise DataError(
            f"{store.uri}: its images are windows of scenes. Training on a store needs image files; windows "
            "with labels from a map are trained on with --dataset windows (marcir data windows)."
        )
    folder = image_path(store.about.root)
    if isinstance(folder, S3Path):
        raise DataError(f"{store.uri}: its images are on object storage. Training needs a folder.")
    return folder


class StoredArchive(DatasetReader):
    """The images of a store of which any label is known, with merged labels of its table and of the page."""

    NAME = "store"
    LAYOUT = "a store of marcir index, whose images are where they were indexed"

    def read_folder(self, root: Path, labels: Path | None, unlisted: Unlisted | None) -> Archive:
        """Read the labels of a store; every image must be a file of the folder that was indexed."""
        if labels is not None:
            raise DataError(
                f"{self.NAME}: its labels are those of the store and of the page; leave --labels out. "
                "A table goes with --dataset manifest --root DIR."
            )
        self.refuse_unlisted(unlisted)
        self.need(root / "about.lance", root)
        store = LanceStore(root)
        folder = folder_of_images(store)
        page = open_annotations(root).labels.states()
        table = store.read(lambda snapshot: merged_table(snapshot, page))
        if not table.rows:
            raise DataError(
                f"{root}: no label of any image is known. Label some on the page (marcir serve "
                "--allow-edits), or index with --labels CSV."
            )
        paths = [folder / row.image for row in table.rows]
        missing = [path for path in paths if not path.is_file()]
        if missing:
            raise DataError(
                f"{root}: {len(missing):,} of its {len(paths):,} labelled images are no files of {folder}, "
                f"such as {missing[0].name!r}. Put the files back, or bring the store up to date with marcir "
                "index (--prune, or --root-moved where the folder was moved)."
            )
        return self.archive_of_table(folder, paths, table)
