"""The generated archive: aerial-like scenes, made where they are absent."""

from pathlib import Path

from marcir.data.archive import Archive
from marcir.data.readers.base import DatasetReader
from marcir.data.readers.manifest import read_manifest
from marcir.data.readers.table_reader import spellings
from marcir.errors import DataError
from marcir.scenes.canvas import SCENE_LABELS
from marcir.scenes.writing import COMPLETE, TABLE, VERSION, read_about, write_scenes

DEFAULT_IMAGES = 2000
DEFAULT_SIZE = 64
DEFAULT_SEED = 0


class Scenes(DatasetReader):
    """Procedural scenes in manifest form; naming the dataset makes them in an absent or empty folder."""

    NAME = "scenes"
    LAYOUT = "images/000000.png ... and labels.csv, as `marcir data scenes` writes them"
    LABELS = SCENE_LABELS

    def read_folder(self, root: Path, labels: Path | None) -> Archive:
        """Read the scenes below root, or draw the default ones there first."""
        if labels is not None:
            raise DataError("scenes: they come with their labels; leave --labels out.")
        if not (root / COMPLETE).is_file():
            write_scenes(root, DEFAULT_IMAGES, DEFAULT_SIZE, DEFAULT_SEED)
        images = _images_of(root / COMPLETE)
        rows, _, paths = read_manifest(root, root / TABLE, spellings(self.LABELS))
        if len(rows) != images:
            raise DataError(
                f"{root / TABLE}: names {len(rows)} images, but {COMPLETE} says {images}. Restore it, or "
                "remove the folder and draw the scenes again."
            )
        return self.archive(root, [row.image for row in rows], paths, [row.labels for row in rows])


def _images_of(sign: Path) -> int:
    """How many images there are, if this version drew them."""
    about = read_about(sign)
    if about["version"] != VERSION:
        raise DataError(
            f"{sign}: these scenes are of version {about['version']} of the drawing, this is {VERSION}. "
            "Remove the folder and draw them again, or read it with --dataset manifest."
        )
    return about["images"]
