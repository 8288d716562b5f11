"""The generated archive: aerial-like scenes, made where they are absent."""

from pathlib import Path

from marcir.data.archive import Archive
from marcir.data.dataset import DatasetReader
from marcir.data.manifest import read_manifest
from marcir.data.scene_canvas import SCENE_LABELS
from marcir.data.scene_writing import write_scenes
from marcir.errors import DataError

DEFAULT_IMAGES = 2000
DEFAULT_SIZE = 64
DEFAULT_SEED = 0


class Scenes(DatasetReader):
    """Procedural scenes in manifest form; naming the dataset makes them in an absent or empty folder."""

    NAME = "scenes"
    LAYOUT = "images/000000.png ... and labels.csv, as `marcir data scenes` writes them"
    LABELS = SCENE_LABELS

    def read(self, root: Path, labels: Path | None = None) -> Archive:
        """Read the scenes below root, or draw the default ones there first."""
        if labels is not None:
            raise DataError("scenes: they come with their labels; leave --labels out.")
        if not (root / "scenes.json").is_file():
            write_scenes(root, DEFAULT_IMAGES, DEFAULT_SIZE, DEFAULT_SEED)
        rows, _, paths = read_manifest(root, root / "labels.csv")
        return self.archive(root, [row.image for row in rows], paths, [row.labels for row in rows])
