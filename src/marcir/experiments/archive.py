"""The images that the runs on a dataset share."""

from collections.abc import Mapping

from marcir.config import DataConfig
from marcir.data.archive import Archive
from marcir.data.dataset import open_images
from marcir.data.opening import MARGIN, open_archive
from marcir.training.task import image_size


def trained_archive(data: DataConfig) -> tuple[Archive, Mapping[str, str]]:
    """An archive as training sees it, and the broken images that are left out where they are skipped."""
    archive, _ = open_archive(data.name, data.root, data.labels)
    if data.on_broken != "skip":
        return archive, {}
    source = open_images(archive, round(MARGIN * image_size(data)), "skip", data.cache == "packed")
    return source.archive, source.broken
