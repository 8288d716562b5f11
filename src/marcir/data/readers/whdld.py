"""WHDLD: 4,940 images of Wuhan with masks of six classes."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from marcir.data.readers.mask_reader import MaskReader
from marcir.errors import DataError

if TYPE_CHECKING:
    from PIL import Image

Colours = list[tuple[int, int, int]]


class WHDLD(MaskReader):
    """The Wuhan dense labelling dataset: masks in six colours, or indexed 1..6 in the same order.

    The colours of a palette come first: a mask that another program saved may have them in another order.
    """

    NAME = "whdld"
    LAYOUT = "Images/wh0001.jpg and ImagesPNG/wh0001.png"
    IMAGE_FOLDER = "Images"
    MASK_FOLDER = "ImagesPNG"
    LABELS = ("building", "road", "pavement", "vegetation", "bare soil", "water")
    COLOURS = ((255, 0, 0), (255, 255, 0), (192, 192, 0), (0, 255, 0), (128, 128, 128), (0, 0, 255))
    IMAGES = 4940
    COUNTS = (3722, 3162, 3881, 4631, 3539, 3886)
    SPLIT = (3444, 518, 978)

    def labels_of(self, mask: "Image.Image", path: Path) -> list[str]:
        """The labels whose colours or values occur."""
        if mask.mode in ("P", "L", "I", "I;16"):
            values = np.unique(np.asarray(mask))
            colours = _palette_colours(mask, values) if mask.mode == "P" else []
            if self._has_published_order(mask) or not set(colours) & set(self.COLOURS):
                return self.labels_of_values(values, path)
        else:
            pixels = np.asarray(mask.convert("RGB")).reshape(-1, 3).astype(np.int64)
            codes = np.unique(pixels @ (1 << 16, 1 << 8, 1)).tolist()
            colours = [(code >> 16, code >> 8 & 255, code & 255) for code in codes]
        return self._labels_of_colours(colours, path)

    def _has_published_order(self, mask: "Image.Image") -> bool:
        """Whether a palette holds the six colours at 1..6."""
        order = np.arange(1, 1 + len(self.COLOURS))
        return mask.mode == "P" and _palette_colours(mask, order) == list(self.COLOURS)

    def _labels_of_colours(self, colours: Colours, path: Path) -> list[str]:
        known = dict(zip(self.COLOURS, self.LABELS, strict=True))
        strange = next((colour for colour in colours if colour not in known), None)
        if strange is not None:
            raise DataError(
                f"{path}: the mask has the colour {', '.join(map(str, strange))}, which is no label of "
                f"{self.NAME}. Use the published masks."
            )
        return [known[colour] for colour in colours]


def _palette_colours(mask: "Image.Image", values: np.ndarray) -> Colours:
    """The colours of some values of a palette; values beyond its end are black."""
    palette = [*(mask.getpalette("RGB") or []), *([0] * 768)]
    return [(palette[3 * v], palette[3 * v + 1], palette[3 * v + 2]) for v in values.tolist()]
