"""The canvas of a generated scene: an image and, for every pixel, the label of what was drawn last.

Scene coordinates are `along` and `across` a line through the scene, which may bend; the frame is about 1 wide
and its middle is near (0, 0). Points are complex numbers, so that turning and scaling is one product.
"""

import cmath
import math

import numpy as np
from numpy.typing import NDArray

from marcir.errors import needs
from marcir.scenes.look import Colour, Look, Pixels, photograph

with needs("train"):
    from PIL import Image, ImageDraw

# Minimum share of the frame that a label must cover to be assigned to the image.
MIN_SHARE: dict[str, float] = {
    "airplane": 0.008, "bare soil": 0.03, "building": 0.02, "car": 0.004, "chaparral": 0.02, "court": 0.02,
    "dock": 0.006, "field": 0.04, "grass": 0.03, "mobile home": 0.01, "pavement": 0.02, "sand": 0.02,
    "sea": 0.03, "ship": 0.004, "tank": 0.02, "tree": 0.015, "water": 0.03,
}  # fmt: skip
SCENE_LABELS = tuple(MIN_SHARE)

Mask = NDArray[np.bool_]
Shape = NDArray[np.complex128]
# A number, or the bounds between which one is drawn.
Span = float | tuple[float, float]

# Whatever the turn, the zoom and the bend, the frame lies within -FAR..FAR.
FAR = 1.25
# Twice the size is drawn and then averaged, which gives clean edges.
SUPERSAMPLING = 2
_NUMBER = {label: number for number, label in enumerate(SCENE_LABELS, start=1)}


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
        """The picture as a camera sees it. (size, size, 3)"""
        clouds = self.noise(2)[::SUPERSAMPLING, ::SUPERSAMPLING]
        return photograph(self.rng, self.picture.reduce(SUPERSAMPLING), clouds)

    def shares(self) -> dict[str, float]:
        """The share of the frame that each label covers."""
        counts = self.labels.histogram()
        return {label: counts[number] / self.side**2 for label, number in _NUMBER.items()}


def _flat(pixels: Shape) -> list[float]:
    flat: list[float] = np.ascontiguousarray(pixels).view(np.float64).tolist()
    return flat


def _bytes(colour: Colour) -> tuple[int, ...]:
    return tuple([0 if tone < 0 else 255 if tone > 255 else int(tone) for tone in colour.tolist()])
