"""The generated archive: aerial-like scenes, made where they are absent."""

from pathlib import Path

from marcir.data.archive import Archive
from marcir.data.readers.base import DatasetReader
from marcir.data.readers.manifest import read_manifest
from marcir.data.readers.table_reader import spellings
from marcir.errors import DataError
from marcir.scenes.canvas import SCENE_LABELS
from marcir.scenes.write import ABOUT, TABLE, VERSION, About, write_scenes

DEFAULT = About(images=2000, size=64, seed=0)


class Scenes(DatasetReader):
    """Procedural scenes in manifest form; naming the dataset makes them in an absent or empty folder."""

    NAME = "scenes"
    LAYOUT = "images/000000.png ... and labels.csv, as `marcir data scenes` writes them"
    LABELS = SCENE_LABELS

    def read_folder(self, root: Path, labels: Path | None) -> Archive:
        """Read the scenes below root; draw the default ones, or finish those begun, where there are none."""
        if labels is not None:
            raise DataError("scenes: they come with their labels; leave --labels out.")
        begun = (root / ABOUT).is_file()
        about = About.load(root / ABOUT) if begun else DEFAULT
        if about.version != VERSION:
            raise DataError(
                f"{root / ABOUT}: these scenes are of version {about.version} of the drawing, this is "
                f"{VERSION}. Remove the folder and draw them again, or read it with --dataset manifest."
            )
        if not begun or not (root / TABLE).is_file():
            write_scenes(root, about.images, about.size, about.seed)
        rows, _, paths = read_manifest(root, root / TABLE, spellings(self.LABELS))
        if len(rows) != about.images:
            raise DataError(
                f"{root / TABLE}: names {len(rows)} images, but {ABOUT} says {about.images}. Restore it, or "
                "remove the folder and draw the scenes again."
            )
        return self.archive(root, [row.image for row in rows], paths, [row.labels for row in rows])
