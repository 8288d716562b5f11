"""How a generated scene looks: season, sun and camera, drawn anew for every image.

The tones of different surfaces overlap on purpose (dry grass and bare soil, grey water and asphalt), and
the camera changes all of them together: shape and texture tell what is in a scene, colour alone does not.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marcir.errors import needs

with needs("train"):
    from PIL import Image, ImageFilter

Colour = NDArray[np.float64]
Pixels = NDArray[np.floating[Any]]

# Tones between which a surface's or an object's colour is mixed, the most common first.
TONES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "bare soil": ((165, 115, 80), (185, 158, 122), (125, 100, 78), (142, 126, 106), (105, 80, 62)),
    "grass": ((80, 122, 58), (100, 128, 66), (62, 98, 50), (125, 130, 80), (150, 140, 95), (118, 110, 78)),
    "pavement": ((125, 125, 127), (100, 100, 104), (160, 158, 154), (75, 75, 80), (165, 152, 135)),
    "sand": ((220, 200, 158), (205, 188, 152), (228, 216, 190), (180, 172, 158), (185, 155, 120)),
    "sea": ((45, 85, 115), (60, 110, 120), (35, 60, 85), (105, 118, 120), (85, 100, 90)),
    "water": ((45, 75, 90), (40, 60, 75), (60, 88, 78), (25, 34, 40), (112, 106, 85), (115, 122, 124)),
    "tree": ((45, 80, 42), (35, 62, 36), (65, 90, 48), (145, 95, 48), (110, 102, 90), (60, 70, 60)),
    "chaparral": ((60, 70, 45), (90, 80, 55), (45, 50, 45), (105, 100, 80), (75, 55, 45)),
    "crop": ((80, 130, 60), (180, 165, 95), (120, 95, 65), (60, 95, 55), (150, 140, 115), (125, 120, 125)),
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
    "plank": ((150, 135, 115), (190, 185, 175), (110, 100, 90), (215, 212, 205)),
    "metal": ((235, 235, 230), (200, 200, 198), (150, 120, 100), (120, 130, 135), (215, 205, 180)),
}  # fmt: skip
# Surfaces and plants, which keep one colour all over a scene; things that people make do not.
SEASONAL = ("bare soil", "grass", "pavement", "sand", "sea", "water", "tree", "chaparral")
COMMON = 4.0  # above 1, the first tones of a name come more often than its last
_ARRAYS: dict[str, Colour] = {name: np.array(tones, dtype=np.float64) for name, tones in TONES.items()}


def mixed_tone(rng: np.random.Generator, name: str, spread: float = 9.0) -> Colour:
    """A colour between two tones of a name, in 0..255, moved a little in light and in hue. (3,)"""
    tones = _ARRAYS[name]
    often = COMMON if name in SEASONAL else 1.0
    first, second = tones[int(len(tones) * rng.random() ** often)], tones[rng.integers(len(tones))]
    return _moved(rng, first + rng.uniform(0, 0.5) * (second - first), spread)


def _moved(rng: np.random.Generator, colour: Colour, spread: float) -> Colour:
    """A colour moved in light, and half as much in hue. (3,)"""
    moves = rng.normal(0, spread, 4)
    moved: Colour = np.minimum(np.maximum(colour + moves[0] + moves[1:] / 2, 8), 248)
    return moved


@dataclass(frozen=True)
class Look:
    """Season, sun and camera of one scene."""

    tones: dict[str, Colour]  # of surfaces and plants: one season for the whole scene
    sun: tuple[float, float]  # where shadows fall, times their length for an object of height 1
    shade: float  # how dark shadows are, 0..1
    gains: Colour  # (3,) tint
    saturation: float
    exposure: float  # the mean of the picture, in 0..255
    contrast: float
    gamma: float
    haze: float
    clouds: float  # depth of large soft shadows
    blur: float  # in pixels of a 64-pixel image
    noise: float  # standard deviation, in 0..255

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> "Look":
        """The look of one scene."""
        toward, length = rng.uniform(0, math.tau), rng.uniform(0.35, 1.3)
        overcast = rng.random() < 0.2
        panchromatic = rng.random() < 0.08
        return cls(
            tones={name: mixed_tone(rng, name) for name in SEASONAL},
            sun=(length * math.cos(toward), length * math.sin(toward)),
            shade=rng.uniform(0.1, 0.25) if overcast else rng.uniform(0.35, 0.7),
            gains=np.exp(rng.normal(0, 0.035, 3)),
            saturation=0.0 if panchromatic else rng.uniform(0.45, 1.05),
            exposure=rng.uniform(95, 145),
            contrast=rng.uniform(0.8, 1.15),
            gamma=math.exp(rng.uniform(-0.2, 0.2)),
            haze=max(0.0, rng.uniform(-0.3, 0.16)),
            clouds=max(0.0, rng.uniform(-0.8, 0.4)),
            blur=max(0.0, rng.uniform(-0.6, 0.45)),
            noise=rng.uniform(0.5, 4.5),
        )

    def tone(self, rng: np.random.Generator, name: str, spread: float = 5.0) -> Colour:
        """The scene's colour of a surface or a plant, a little different each time. (3,)"""
        return _moved(rng, self.tones[name], spread)

    def photograph(self, rng: np.random.Generator, scene: Image.Image, shadow_of_clouds: Pixels) -> Pixels:
        """The scene as the camera sees it, in 0..255. (size, size, 3)"""
        if self.blur > 0:
            scene = scene.filter(ImageFilter.GaussianBlur(self.blur * scene.width / 64))
        seen: Pixels = np.asarray(scene, dtype=np.float32)
        seen = seen * (1 - self.clouds * np.clip(shadow_of_clouds * 2, 0, 1))[..., None]
        grey = seen @ np.array([0.3, 0.59, 0.11], dtype=np.float32)
        hues = (seen - grey[..., None]) * self.saturation
        stretch = self.contrast * (42 / max(float(grey.std()), 12)) ** 0.7
        grey = (grey - grey.mean()) * stretch + self.exposure
        seen = (grey[..., None] + hues * math.sqrt(stretch)) * self.gains.astype(np.float32)
        seen = 255 * np.clip(seen / 255, 0, 1) ** self.gamma
        seen = seen + self.haze * (205 - seen)
        return seen + self.noise * rng.standard_normal(seen.shape, dtype=np.float32)
