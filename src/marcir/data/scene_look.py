"""How a generated scene looks: season, sun and camera, drawn anew for every image.

The tones of different surfaces overlap on purpose (dry grass and bare soil, grey water and asphalt), and
the camera changes all of them together: shape and texture tell what is in a scene, colour alone does not.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

Colour = NDArray[np.float64]
Pixels = NDArray[np.floating[Any]]

# Tones between which a surface's or an object's colour is mixed.
TONES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "bare soil": ((160, 105, 75), (185, 158, 122), (125, 100, 78), (142, 126, 106), (105, 80, 62)),
    "grass": ((75, 120, 55), (100, 126, 66), (60, 95, 50), (122, 128, 78), (150, 140, 95), (118, 110, 78)),
    "pavement": ((70, 70, 75), (120, 120, 120), (175, 172, 165), (160, 148, 130), (95, 90, 88)),
    "sand": ((215, 195, 150), (190, 175, 145), (225, 215, 195), (165, 160, 150), (180, 150, 115)),
    "sea": ((45, 80, 110), (70, 120, 120), (30, 45, 60), (115, 125, 125), (95, 105, 90)),
    "water": ((40, 65, 95), (60, 90, 70), (22, 30, 36), (115, 105, 80), (120, 125, 125), (75, 120, 120)),
    "tree": ((50, 85, 45), (28, 52, 32), (90, 100, 55), (150, 95, 45), (115, 105, 92), (60, 70, 60)),
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
_ARRAYS: dict[str, Colour] = {name: np.array(tones, dtype=np.float64) for name, tones in TONES.items()}


def mixed_tone(rng: np.random.Generator, name: str, spread: float = 9.0) -> Colour:
    """A colour between two tones of a name, in 0..255, moved a little in light and in hue. (3,)"""
    tones = _ARRAYS[name]
    first, second = tones[rng.integers(len(tones))], tones[rng.integers(len(tones))]
    return _moved(rng, first + rng.uniform(0, 0.6) * (second - first), spread)


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
            saturation=0.0 if panchromatic else rng.uniform(0.4, 1.1),
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
        seen = grey[..., None] + self.saturation * (seen - grey[..., None])
        seen = seen * self.gains.astype(np.float32)
        stretch = self.contrast * (42 / max(float(grey.std()), 12)) ** 0.7
        seen = (seen - grey.mean()) * stretch + self.exposure
        seen = 255 * np.clip(seen / 255, 0, 1) ** self.gamma
        seen = seen + self.haze * (205 - seen)
        return seen + self.noise * rng.standard_normal(seen.shape, dtype=np.float32)
