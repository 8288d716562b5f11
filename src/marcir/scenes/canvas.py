"""A generated scene under construction: ground, then shadows, then objects, with a label for every pixel."""

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from marcir.errors import needs
from marcir.scenes.look import Colour, Look, Pixels
from marcir.scenes.shapes import Points

with needs("train"):
    from PIL import Image, ImageDraw, ImageFilter

SCENE_LABELS: tuple[str, ...] = (
    "airplane",
    "bare soil",
    "building",
    "car",
    "chaparral",
    "court",
    "dock",
    "field",
    "grass",
    "mobile home",
    "pavement",
    "sand",
    "sea",
    "ship",
    "tank",
    "tree",
    "water",
)

Mask = NDArray[np.bool_]

# Twice the size is drawn and then averaged, which gives clean edges.
SUPERSAMPLING = 2
_NUMBER = {label: number for number, label in enumerate(SCENE_LABELS, start=1)}


class Canvas:
    """A scene seen at a random turn and zoom.

    Ground is painted at once. Objects are remembered and drawn by `photograph`, after all shadows, in the
    order in which they came. Every pixel keeps the label of what was painted there last.

    Args:
        rng: Source of everything random in the scene.
        size: Width and height of the image, in pixels.
    """

    def __init__(self, rng: np.random.Generator, size: int) -> None:
        self.rng = rng
        self.size = size
        self.side = SUPERSAMPLING * size
        self.look = Look.drawn(rng)
        turn, zoom = rng.uniform(0, math.tau), math.exp(rng.uniform(-0.2, 0.35))
        self.scale = zoom * self.side
        self._c, self._s = self.scale * math.cos(turn), self.scale * math.sin(turn)
        self.ground = np.zeros((3, self.side, self.side), dtype=np.float32)
        self.labels = Image.new("L", (self.side, self.side))
        self._shadows = Image.new("L", (self.side, self.side))
        self._shadow_pen = ImageDraw.Draw(self._shadows)
        self._strokes: list[tuple[list[float], tuple[int, ...], int, int | None]] = []

    # Coordinates

    def pixels(self, points: Points) -> list[float]:
        """Scene coordinates as a flat list x, y, x, y ... of pixels."""
        c, s = self._c, self._s
        right, down = self.side / 2 - 0.5 * (c - s), self.side / 2 - 0.5 * (s + c)
        return [value for x, y in points for value in (c * x - s * y + right, s * x + c * y + down)]

    def sees(self, x: float, y: float, reach: float) -> bool:
        """Whether anything within `reach` of a place can lie in the frame."""
        c, s, most = self._c, self._s, self.side / 2 + reach * self.scale
        x, y = x - 0.5, y - 0.5
        return abs(c * x - s * y) < most and abs(s * x + c * y) < most

    @cached_property
    def uv(self) -> tuple[Pixels, Pixels]:
        """The scene coordinates of every pixel. Two of (side, side)"""
        c, s = self._c / self.scale**2, self._s / self.scale**2
        centred = (np.arange(self.side) + 0.5 - self.side / 2).astype(np.float32)
        x, y = centred[None, :], centred[:, None]
        u: Pixels = c * x + s * y + 0.5
        v: Pixels = c * y - s * x + 0.5
        return u, v

    # Ground

    def noise(self, cells: int) -> Pixels:
        """Smooth noise in about -1..1, with a number of cells across the frame. (side, side)"""
        grid = self.rng.random((cells + 2, cells + 2), dtype=np.float32) * 2 - 1
        box = (1, 1, cells + 1, cells + 1)
        smooth = Image.fromarray(grid).resize((self.side, self.side), Image.Resampling.BICUBIC, box)
        return np.asarray(smooth)

    def inside(self, outline: Points) -> Mask:
        """The pixels inside a polygon. (side, side)"""
        mask = Image.new("L", (self.side, self.side))
        ImageDraw.Draw(mask).polygon(self.pixels(outline), fill=1)
        return np.asarray(mask, dtype=np.bool_)

    def patch(self, x: float, y: float, radius: float, wobble: float = 0.5) -> Mask:
        """The pixels of a natural patch: a circle with a wavering edge. (side, side)"""
        u, v = self.uv
        away = np.hypot(u - x, v - y) / radius
        near: Mask = away + wobble * (self.noise(4) + 0.4 * self.noise(10)) < 1
        return near

    def paint(self, texture: Pixels, label: str, where: Mask | None = None) -> None:
        """Lay a surface over the whole ground or over a part of it."""
        if where is None:
            self.ground[:] = texture
            self.labels.paste(_NUMBER[label], (0, 0, self.side, self.side))
        else:
            np.copyto(self.ground, texture, where=where)
            self.labels.paste(_NUMBER[label], (0, 0), Image.fromarray(where))

    def shade_around(self, where: Mask, width: float, depth: float) -> None:
        """Darken the ground in and around a part of it, softly: the banks of water."""
        around = Image.fromarray(where).convert("L").filter(ImageFilter.BoxBlur(width * self.scale))
        self.ground *= 1 - np.asarray(around, dtype=np.float32) * depth / 255

    # Objects

    def fill(self, outline: Points, colour: Colour, label: str) -> None:
        """Draw a polygon above the ground."""
        self._strokes.append((self.pixels(outline), _bytes(colour), _NUMBER[label], None))

    def line(self, path: Points, width: float, colour: Colour, label: str) -> None:
        """Draw a line above the ground, at least one drawn pixel wide."""
        pixels = max(1, round(width * self.scale))
        self._strokes.append((self.pixels(path), _bytes(colour), _NUMBER[label], pixels))

    def shadow(self, outline: Points, height: float) -> None:
        """Cast the shadow of an upright body with this outline."""
        dx, dy = self.look.sun[0] * height, self.look.sun[1] * height
        moved = [(x + dx, y + dy) for x, y in outline]
        self._shadow_pen.polygon(self.pixels(moved), fill=255)
        for k in range(len(outline)):
            side = [outline[k - 1], outline[k], moved[k], moved[k - 1]]
            self._shadow_pen.polygon(self.pixels(side), fill=255)

    def hovering_shadow(self, outline: Points, height: float) -> None:
        """Cast the shadow of something flat at a height: a crown, a wing."""
        dx, dy = self.look.sun[0] * height, self.look.sun[1] * height
        self._shadow_pen.polygon(self.pixels([(x + dx, y + dy) for x, y in outline]), fill=255)

    def facing(self, angle: float, strength: float = 0.3) -> float:
        """How bright a slope is that looks in a direction: above 1 towards the sun."""
        dx, dy = self.look.sun
        towards = -(math.cos(angle) * dx + math.sin(angle) * dy) / math.hypot(dx, dy)
        return 1 + strength * (0.3 + self.look.shade) * towards

    # The end

    def photograph(self) -> NDArray[np.uint8]:
        """Draw what was remembered, and take the picture. (size, size, 3)"""
        dark = np.asarray(self._shadows, dtype=np.float32) * self.look.shade / 255
        lit = np.clip(self.ground * (1 - dark), 0, 255).astype(np.uint8)
        scene = Image.merge("RGB", [Image.fromarray(plane) for plane in lit])
        pen, label_pen = ImageDraw.Draw(scene), ImageDraw.Draw(self.labels)
        for points, colour, number, width in self._strokes:
            if width is None:
                pen.polygon(points, fill=colour)
                label_pen.polygon(points, fill=number)
            else:
                pen.line(points, fill=colour, width=width)
                label_pen.line(points, fill=number, width=width)
        self._strokes.clear()
        small = scene.reduce(SUPERSAMPLING)
        clouds = self.noise(2)[::SUPERSAMPLING, ::SUPERSAMPLING]
        seen = self.look.photograph(self.rng, small, clouds)
        image: NDArray[np.uint8] = np.clip(seen + 0.5, 0, 255).astype(np.uint8)
        return image

    def shares(self) -> dict[str, float]:
        """The share of the frame that each label covers, after `photograph`."""
        counts = self.labels.histogram()
        return {label: counts[number] / self.side**2 for label, number in _NUMBER.items()}


def _bytes(colour: Colour) -> tuple[int, ...]:
    return tuple([0 if tone < 0 else 255 if tone > 255 else int(tone) for tone in colour.tolist()])
