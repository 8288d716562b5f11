"""The canvas of a generated scene: an image and, for every pixel, the label of what was drawn last.

Season, sun and camera are drawn anew for every image. The tones of different surfaces overlap on purpose
(dry grass and bare soil, grey water and asphalt), and the camera changes all of them together: shape and
texture tell what is in a scene, colour alone does not.

Scene coordinates are `along` and `across` a line through the scene, which may bend; the frame is about 1 wide
and its middle is near (0, 0). Points are complex numbers, so that turning and scaling is one product.
"""

import cmath
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marcir.errors import needs

with needs("train"):
    from PIL import Image, ImageDraw, ImageFilter

# Minimum share of the frame that a label must cover to be assigned to the image.
MIN_SHARE: dict[str, float] = {
    "airplane": 0.008, "bare soil": 0.03, "building": 0.02, "car": 0.004, "chaparral": 0.02, "court": 0.02,
    "dock": 0.006, "field": 0.04, "grass": 0.03, "mobile home": 0.01, "pavement": 0.02, "sand": 0.02,
    "sea": 0.03, "ship": 0.004, "tank": 0.02, "tree": 0.015, "water": 0.03,
}  # fmt: skip
SCENE_LABELS = tuple(MIN_SHARE)

Colour = NDArray[np.float64]
Pixels = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]
Shape = NDArray[np.complex128]
# A number, or the bounds between which one is drawn.
Span = float | tuple[float, float]

# Whatever the turn, the zoom and the bend, the frame lies within -FAR..FAR.
FAR = 1.25
# Twice the size is drawn and then averaged, which gives clean edges.
SUPERSAMPLING = 2
_NUMBER = {label: number for number, label in enumerate(SCENE_LABELS, start=1)}

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
    """The tones and the sun of one scene."""

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


class Canvas:
    """A scene with random rotation and zoom; later drawing covers earlier drawing.

    Args:
        rng: Source of everything random in the scene.
        size: Width and height of the image, in pixels.
        bend: How far the line through the scene swings.
    """

    def __init__(self, rng: np.random.Generator, size: int, bend: Span = 0.0) -> None:
        self.rng, self.look, side = rng, Look(rng), SUPERSAMPLING * size
        self.side = side
        self.scale = side * math.exp(rng.uniform(-0.2, 0.35))  # pixels of a length of 1
        self._turn = cmath.rect(self.scale, rng.uniform(0, math.tau))
        self._middle = complex(*rng.uniform(-0.15, 0.15, 2))
        self._bend, self._phase = self.draw(bend), rng.uniform(0, math.tau)
        self._frequency = rng.uniform(2, 7)
        self.start = rng.random()  # where rows of things start; the same for all of a scene
        self.picture, self.labels = Image.new("RGB", (side, side)), Image.new("L", (side, side))
        self._pen, self._label_pen = ImageDraw.Draw(self.picture, "RGBA"), ImageDraw.Draw(self.labels)
        pixels = (np.arange(side) + 0.5 - side / 2).astype(np.float32)
        places = (pixels[None, :] + 1j * pixels[:, None]) / self._turn + self._middle
        self.along: Pixels = places.real.copy()  # (side, side)
        swing = self._bend * np.sin(self._frequency * self.along + self._phase)
        self.across: Pixels = places.imag - swing  # (side, side)

    # Randomness

    def draw(self, span: Span) -> float:
        """Draw a number from a span."""
        return self.rng.uniform(*span) if isinstance(span, tuple) else span

    def noise(self, cells: int) -> Pixels:
        """Smooth noise in about -1..1, with a number of cells across the frame. (side, side)"""
        grid = self.rng.random((cells + 2, cells + 2), dtype=np.float32) * 2 - 1
        box = (1, 1, cells + 1, cells + 1)
        smooth = Image.fromarray(grid).resize((self.side, self.side), Image.Resampling.BICUBIC, box)
        return np.asarray(smooth)

    # Coordinates

    def spot(self, at: complex, angle: float) -> tuple[complex, complex]:
        """The pixel of a place `along + 1j * across`, and what a shape is multiplied by to lie there."""
        phase = self._frequency * at.real + self._phase
        slope = self._bend * self._frequency * math.cos(phase)
        place = at + 1j * self._bend * math.sin(phase) - self._middle
        middle = place * self._turn + complex(self.side, self.side) / 2
        return middle, self._turn * cmath.exp(1j * (angle + math.atan(slope)))

    def in_frame(self, pixel: complex, reach: float) -> bool:
        """Whether anything within `reach` of a pixel can lie in the frame."""
        low, high = -reach * self.scale, self.side + reach * self.scale
        return low < pixel.real < high and low < pixel.imag < high

    # Drawing

    def paint(self, texture: Pixels, label: str, where: Mask) -> None:
        """Lay a texture (3, side, side) over a part of the ground."""
        mask, planes = Image.fromarray(where), np.clip(texture, 0, 255).astype(np.uint8)
        self.picture.paste(Image.merge("RGB", [Image.fromarray(plane) for plane in planes]), mask=mask)
        self.labels.paste(_NUMBER[label], (0, 0), mask)

    def tint(self, colour: Colour, share: Pixels | Mask) -> None:
        """Mix a colour into the picture, with a share of 0..1 at each pixel, and leave the labels."""
        self.picture.paste(_bytes(colour), (0, 0), Image.fromarray((255 * share).astype(np.uint8)))

    def fill(self, pixels: Shape, colour: Colour, label: str | None, line: float = 0.0) -> None:
        """Draw a polygon, or a line of a width; without a label, the pixels keep theirs."""
        points = _flat(pixels)
        width = max(1, round(line * self.scale))
        pens = [(self._pen, _bytes(colour))] + ([(self._label_pen, _NUMBER[label])] if label else [])
        for pen, ink in pens:
            if line:
                pen.line(points, fill=ink, width=width)
            else:
                pen.polygon(points, fill=ink)

    def shadow(self, pixels: Shape, height: float, upright: bool) -> None:
        """Cast the shadow of a convex body that stands on the ground, or of any shape above it."""
        fall, ends = self.look.sun * height * self.scale, np.roll(pixels, -1)
        # The edges of an upright body that face the shadow's end move there, the others stay.
        far = ((ends - pixels).conj() * fall).imag < 0 if upright else np.ones(len(pixels))
        outline = np.stack([pixels + far * fall, ends + far * fall], axis=1).ravel()
        self._pen.polygon(_flat(outline), fill=(0, 0, 0, int(255 * self.look.shade)))

    # The end

    def photograph(self) -> NDArray[np.uint8]:
        """The picture as a camera sees it: blur, tint, exposure, contrast, haze, noise. (size, size, 3)"""
        rng, scene = self.rng, self.picture.reduce(SUPERSAMPLING)
        clouds = self.noise(2)[::SUPERSAMPLING, ::SUPERSAMPLING]  # above 0, one may cast its shadow
        blur, depth = max(0.0, rng.uniform(-0.6, 0.45)), max(0.0, rng.uniform(-0.8, 0.4))
        saturation = 0.0 if rng.random() < 0.08 else rng.uniform(0.45, 1.05)  # 0: panchromatic
        blurred = scene.filter(ImageFilter.GaussianBlur(blur * scene.width / 64))
        dimmed = 1 - depth * np.clip(clouds * 2, 0, 1)
        seen: Pixels = np.asarray(blurred, dtype=np.float32) * dimmed[..., None]
        grey = seen @ np.array([0.3, 0.59, 0.11], dtype=np.float32)
        hues = (seen - grey[..., None]) * saturation
        stretch = rng.uniform(0.8, 1.15) * (42 / max(float(grey.std()), 12)) ** 0.7
        grey = (grey - grey.mean()) * stretch + rng.uniform(95, 145)
        tint = np.exp(rng.normal(0, 0.035, 3)).astype(np.float32)
        seen = (grey[..., None] + hues * math.sqrt(stretch)) * tint
        seen = 255 * np.clip(seen / 255, 0, 1) ** math.exp(rng.uniform(-0.2, 0.2))
        seen = seen + max(0.0, rng.uniform(-0.3, 0.16)) * (205 - seen)
        seen = seen + rng.uniform(0.5, 4.5) * rng.standard_normal(seen.shape, dtype=np.float32)
        image: NDArray[np.uint8] = np.clip(seen + 0.5, 0, 255).astype(np.uint8)
        return image

    def shares(self) -> dict[str, float]:
        """The share of the frame that each label covers."""
        counts = self.labels.histogram()
        return {label: counts[number] / self.side**2 for label, number in _NUMBER.items()}


def _flat(pixels: Shape) -> list[float]:
    flat: list[float] = np.ascontiguousarray(pixels).view(np.float64).tolist()
    return flat


def _bytes(colour: Colour) -> tuple[int, ...]:
    return tuple([0 if tone < 0 else 255 if tone > 255 else int(tone) for tone in colour.tolist()])
