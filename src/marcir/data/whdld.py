"""WHDLD: 4,940 images of Wuhan with masks of six classes."""

from pathlib import Path

import numpy as np
from PIL import Image

from marcir.data.mask_reader import MaskReader
from marcir.errors import DataError


class WHDLD(MaskReader):
    """The Wuhan dense labelling dataset: masks in six colours, or indexed 1..6 in the same order."""

    NAME = "whdld"
    LAYOUT = "Images/wh0001.jpg and ImagesPNG/wh0001.png"
    IMAGE_FOLDER = "Images"
    MASK_FOLDER = "ImagesPNG"
    LABELS = ("building", "road", "pavement", "vegetation", "bare soil", "water")
    COLOURS = ((255, 0, 0), (255, 255, 0), (192, 192, 0), (0, 255, 0), (128, 128, 128), (0, 0, 255))
    IMAGES = 4940
    COUNTS = (3722, 3162, 3881, 4631, 3539, 3886)
    SPLIT = (3444, 518, 978)

    def labels_of(self, mask: Image.Image, path: Path) -> list[str]:
        """The labels whose values or colours occur."""
        if mask.mode in ("P", "L"):
            return self.labels_of_values(np.unique(np.asarray(mask)), path)
        pixels = np.asarray(mask.convert("RGB")).reshape(-1, 3).astype(np.int64)
        codes = np.unique(pixels @ (1 << 16, 1 << 8, 1))
        known = {
            (r << 16) + (g << 8) + b: name for (r, g, b), name in zip(self.COLOURS, self.LABELS, strict=True)
        }
        strange = next((code for code in codes.tolist() if code not in known), None)
        if strange is not None:
            colour = f"{strange >> 16}, {strange >> 8 & 255}, {strange & 255}"
            raise DataError(f"{path}: the mask has the colour {colour}, which is no label of {self.NAME}.")
        return [known[code] for code in codes.tolist()]
