"""How a generated scene looks: season, sun and camera, drawn anew for every image.

The tones of different surfaces overlap on purpose (dry grass and bare soil, grey water and asphalt), and
the camera changes all of them together: shape and texture tell what is in a scene, colour alone does not.
"""

import cmath
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marcir.errors import needs

with needs("train"):
    from PIL import Image, ImageFilter

Colour = NDArray[np.float64]
Pixels = NDArray[np.floating[Any]]

# Tones between which a colour is mixed, the most common first.
TONES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "bare soil": ((165, 115, 80), (185, 158, 122), (125, 100, 78), (142, 126, 106), (105, 80, 62)),
    "grass": ((80, 122, 58), (100, 128, 66), (62, 98, 50), (125, 130, 80), (150, 140, 95), (118, 110, 78)),
    "pavement": ((125, 125, 127), (100, 100, 104), (160, 158, 154), (75, 75, 80), (165, 152, 135)),
    "sand": ((220, 200, 158), (205, 188, 152), (228, 216, 190), (180, 172, 158), (185, 155, 120)),
    "sea": ((45, 85, 115), (60, 110, 120), (35, 60, 85), (105, 118, 120), (85, 100, 90)),
    "water": ((45, 75, 90), (40, 60, 75), (60, 88, 78), (25, 34, 40), (112, 106, 85), (115, 122, 124)),
    "tree": ((45, 80, 42), (35, 62, 36), (65, 90, 48), (145, 95, 48), (110, 102, 90), (60, 70, 60)),
    "chaparral": ((60, 70, 45), (90, 80, 55), (45, 50, 45), (105, 100, 80), (75, 55, 45)),
    "metal": ((235, 235, 230), (200, 200, 198), (150, 120, 100), (120, 130, 135), (215, 205, 180)),
    "plank": ((150, 135, 115), (190, 185, 175), (110, 100, 90), (215, 212, 205)),
    "field": ((80, 130, 60), (180, 165, 95), (120, 95, 65), (60, 95, 55), (150, 140, 115), (125, 120, 125)),
    "roof": (
        (165, 85, 65), (120, 75, 60), (100, 100, 105), (210, 208, 200), (150, 140, 125),
        (75, 90, 115), (90, 110, 95), (60, 58, 60), (190, 165, 130),
    ),
    "pale": ((235, 235, 232), (215, 210, 195), (190, 200, 205), (225, 215, 205), (170, 172, 175)),
    "car": (
        (235, 235, 235), (190, 192, 196), (30, 30, 34), (110, 112, 116), (170, 35, 35),
        (40, 65, 130), (225, 225, 220), (60, 80, 65), (200, 170, 60),
    ),
    "hull": ((240, 240, 240), (220, 215, 205), (40, 50, 80), (130, 60, 50), (90, 95, 100), (235, 232, 225)),
    "court": ((60, 110, 75), (55, 85, 135), (165, 85, 65), (125, 120, 115), (85, 130, 125), (150, 110, 80)),
    "glass": ((38, 44, 52),),
    "white": ((228, 228, 222),),
    "yellow": ((214, 178, 66),),
}  # fmt: skip
# These keep one colour all over a scene, and their first tones come more often than their last.
OF_A_SCENE = ("bare soil", "grass", "pavement", "sand", "sea", "water", "tree", "chaparral", "metal", "plank")
_ARRAYS: dict[str, Colour] = {name: np.array(tones, dtype=np.float64) for name, tones in TONES.items()}


class Look:
    """The tones and the sun of one scene.

    Args:
        rng: Source of everything random in the scene.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._tones = {name: self._mixed(name, 4.0) for name in OF_A_SCENE}
        # Where shadows fall, times their length for an object of height 1.
        self.sun = cmath.rect(rng.uniform(0.35, 1.3), rng.uniform(0, math.tau))
        overcast = rng.random() < 0.2
        self.shade = rng.uniform(0.1, 0.25) if overcast else rng.uniform(0.35, 0.7)  # depth of shadows

    def tone(self, name: str, spread: float = 8.0) -> Colour:
        """A colour of a name in 0..255, a little different each time. (3,)"""
        colour = self._tones[name] if name in self._tones else self._mixed(name, 1.0)
        moves = self._rng.normal(0, spread, 4)
        moved: Colour = np.minimum(np.maximum(colour + moves[0] + moves[1:] / 2, 8), 248)
        return moved

    def _mixed(self, name: str, exponent: float) -> Colour:
        """A colour between two tones; an exponent above 1 favours the first ones. (3,)"""
        rng, tones = self._rng, _ARRAYS[name]
        first, second = tones[int(len(tones) * rng.random() ** exponent)], tones[rng.integers(len(tones))]
        mixed: Colour = first + rng.uniform(0, 0.5) * (second - first)
        return mixed


def photograph(rng: np.random.Generator, scene: Image.Image, clouds: Pixels) -> NDArray[np.uint8]:
    """The scene as a camera sees it: blur, tint, exposure, contrast, haze, noise. (size, size, 3)

    Args:
        rng: Source of the settings.
        scene: The scene in plain light.
        clouds: Smooth noise; where it is above 0, a cloud may cast its shadow. (size, size)
    """
    blur, depth = max(0.0, rng.uniform(-0.6, 0.45)), max(0.0, rng.uniform(-0.8, 0.4))
    saturation = 0.0 if rng.random() < 0.08 else rng.uniform(0.45, 1.05)  # 0: panchromatic
    blurred = scene.filter(ImageFilter.GaussianBlur(blur * scene.width / 64))
    seen: Pixels = np.asarray(blurred, dtype=np.float32) * (1 - depth * np.clip(clouds * 2, 0, 1))[..., None]
    grey = seen @ np.array([0.3, 0.59, 0.11], dtype=np.float32)
    hues = (seen - grey[..., None]) * saturation
    stretch = rng.uniform(0.8, 1.15) * (42 / max(float(grey.std()), 12)) ** 0.7
    grey = (grey - grey.mean()) * stretch + rng.uniform(95, 145)
    seen = (grey[..., None] + hues * math.sqrt(stretch)) * np.exp(rng.normal(0, 0.035, 3)).astype(np.float32)
    seen = 255 * np.clip(seen / 255, 0, 1) ** math.exp(rng.uniform(-0.2, 0.2))
    seen = seen + max(0.0, rng.uniform(-0.3, 0.16)) * (205 - seen)
    seen = seen + rng.uniform(0.5, 4.5) * rng.standard_normal(seen.shape, dtype=np.float32)
    image: NDArray[np.uint8] = np.clip(seen + 0.5, 0, 255).astype(np.uint8)
    return image
