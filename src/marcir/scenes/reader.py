"""Read the generated archive of aerial-like scenes; generate it if it is missing."""

from pathlib import Path

from marcir.data.archive import Archive
from marcir.data.label_csv import Unlisted
from marcir.data.readers.base import DatasetReader
from marcir.data.readers.manifest import read_manifest
from marcir.data.readers.table_reader import spellings
from marcir.errors import DataError
from marcir.scenes.canvas import SCENE_LABELS
from marcir.scenes.write import SETTINGS, TABLE, VERSION, SceneSettings, write_scenes

DEFAULT = SceneSettings(images=2000, size=64, seed=0)


class Scenes(DatasetReader):
    """Procedural scenes in the layout of `manifest`; generated in a missing or empty folder."""

    NAME = "scenes"
    LAYOUT = "images/000000.png ... and labels.csv, as `marcir data scenes` writes them"
    LABELS = SCENE_LABELS

    def read_folder(self, root: Path, labels: Path | None, unlisted: Unlisted | None) -> Archive:
        """Read the scenes below root; generate the default ones, or finish an interrupted archive."""
        if labels is not None:
            raise DataError("scenes: they come with their labels; leave --labels out.")
        self.refuse_unlisted(unlisted)
        started = (root / SETTINGS).is_file()
        settings = SceneSettings.load(root / SETTINGS) if started else DEFAULT
        if settings.version != VERSION:
            raise DataError(
                f"{root / SETTINGS}: these scenes are of version {settings.version} of the drawing, this is "
                f"{VERSION}. Remove the folder and draw them again, or read it with --dataset manifest."
            )
        if not started or not (root / TABLE).is_file():
            write_scenes(root, settings.images, settings.size, settings.seed)
        table, paths = read_manifest(root, root / TABLE, spellings(self.LABELS))
        if len(table.rows) != settings.images:
            raise DataError(
                f"{root / TABLE}: lists {len(table.rows)} images, but {SETTINGS} has {settings.images}. "
                "Restore it, or remove the folder and draw the scenes again."
            )
        return self.archive_of_table(root, paths, table)
