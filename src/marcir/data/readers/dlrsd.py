"""DLRSD: the images of UC Merced with dense masks."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from marcir.data.readers.base import LAND_COVER
from marcir.data.readers.mask_reader import MaskReader
from marcir.errors import DataError

if TYPE_CHECKING:
    from PIL import Image


class DLRSD(MaskReader):
    """The dense labelling remote sensing dataset: indexed masks, value v is label v of 1..17."""

    NAME = "dlrsd"
    LAYOUT = "Images/<scene>/<name>.tif and Labels/<scene>/<name>.png"
    IMAGE_FOLDER = "Images"
    MASK_FOLDER = "Labels"
    LABELS = LAND_COVER
    IMAGES = 2100
    COUNTS = (100, 754, 713, 897, 116, 105, 100, 103, 977, 102, 1331, 291, 101, 103, 100, 1021, 208)
    SPLIT = (1475, 214, 411)

    def labels_of(self, mask: "Image.Image", path: Path) -> list[str]:
        """The labels whose values occur."""
        if mask.mode not in ("P", "L"):
            raise DataError(f"{path}: expected an indexed mask, found a {mask.mode} image.")
        return self.labels_of_values(np.unique(np.asarray(mask)), path)
