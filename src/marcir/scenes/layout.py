"""The steps that a generated scene consists of: patches of ground, rows of things, and roads.

A surface is known by its texture: furrows are a field, swell and surf are the sea, stones bare soil. Its
colour is the scene's and may be that of another surface.
"""

import math
from dataclasses import dataclass

import numpy as np

from marcir.scenes.canvas import FAR, Canvas, Mask, Pixels, Span
from marcir.scenes.things import draw_thing

ANYWHERE = (-0.45, 0.45)
ACROSS = math.pi / 2
_LANE, _BLACK = 0.082, np.zeros(3)


@dataclass(frozen=True)
class Surface:
    """A texture: two tones that waves and blotches mix, a grain in the light, specks above."""

    grain: tuple[tuple[int, Span], ...]  # cells across the frame and strength of each noise in the light
    blotches: Span  # how much large noise mixes the tones
    second: float = 0.85  # light of the second tone; 0: it is the scene's bare soil
    waves: Span = 0.0  # how much parallel waves mix the tones
    frequency: Span = 10.0  # waves in a length of 1
    bent: float = 0.0  # how much noise bends them
    specks: tuple[int, Span, Span] | None = None  # cells, threshold and lightness of stones or foam
    crests: bool = False  # specks keep to the shore and to the crests of waves, which follow the shore
    shore: Span = 1.0  # its width inside the edge
    bank: Span = 0.0  # light that the shore takes
    joints: float = 0.0  # how often there are slabs with joints


SURFACES: dict[str, Surface] = {
    "bare soil": Surface(
        ((14, (0.05, 0.12)), (36, (0.04, 0.14))), 1.6, second=0.78, specks=(72, (0.7, 0.9), (50, 215))
    ),
    "field": Surface(
        ((70, 0.06), (5, 0.06)), 0.2, second=0, waves=(0.35, 0.9), frequency=(9, 22), bent=0.04
    ),
    "grass": Surface(((48, (0.14, 0.26)), (9, (0.02, 0.06))), 0.9),
    "pavement": Surface(((90, (0.02, 0.07)), (5, (0.02, 0.08))), (0.0, 0.6), second=0.92, joints=0.35),
    "sand": Surface(((80, 0.03),), (0.1, 0.6), waves=(0.1, 0.4), frequency=(12, 20), bent=0.9),
    "sea": Surface(
        ((70, 0.05),), 0.3, second=0.65, waves=(0.2, 0.5), frequency=(6, 11), bent=0.3,
        specks=(22, (1.6, 2.4), (205, 245)), crests=True, shore=(0.12, 0.4),
    ),
    "water": Surface(
        ((3, (0.05, 0.2)), (90, 0.02)), 0.3, waves=(0.0, 0.4), frequency=(18, 30), bent=0.8,
        shore=0.06, bank=(0.2, 0.5),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Patch:
    """A part of the ground: a box or an ellipse, with straight or natural edges."""

    surface: str | tuple[str, ...]  # of several, one is drawn
    along: Span = 0.0  # its middle
    across: Span = 0.0
    length: Span = 9.0  # half of it, along the line; by default, all of the scene
    width: Span | None = None  # half of it; None: like the length
    oval: bool = False  # an ellipse
    wavy: float = 0.0  # how far its edge wavers, as a share of the smaller size
    count: Span = 1
    chance: float = 1.0

    def draw(self, canvas: Canvas) -> None:
        """Paint it, with a wet edge around water and sea."""
        draw, name = canvas.draw, _one(canvas, self.surface)
        for _ in range(round(draw(self.count))):
            length = draw(self.length)
            width = length if self.width is None else draw(self.width)
            a, b = abs(canvas.along - draw(self.along)), abs(canvas.across - draw(self.across))
            depth = np.minimum(length - a, width - b)
            if self.oval:
                depth = min(length, width) * (1 - np.hypot(a / length, b / width))
            if self.wavy:
                depth += self.wavy * min(length, width) * (canvas.noise(4) + 0.4 * canvas.noise(10))
            if name in ("water", "sea"):
                canvas.tint(_BLACK, draw((0.1, 0.5)) * np.clip(1 + depth / draw((0.02, 0.09)), 0, 1))
            canvas.paint(texture(canvas, name, depth), name, depth > 0)


@dataclass(frozen=True)
class Rows:
    """Things of one kind in rows along the line through the scene."""

    thing: str | tuple[str, ...]  # of several, one is drawn
    step: Span = 0.1  # from thing to thing
    across: tuple[float, ...] = (0.0,)  # where the rows are
    along: tuple[float, ...] = ()  # where the things are, instead of at every step
    every: Span = 0.0  # from these rows to the next ones; 0: no others
    near: Span = 9.0  # only things within this distance of a place anywhere
    clear: float = 0.0  # no things within this distance of the middle of a row
    share: Span = 1.0  # of the places that are taken
    loose: float = 0.0  # how far things are from their places, as a share of the step
    angle: Span = 0.0
    length: Span | None = None  # of a thing; None: the usual one
    turned: bool = False  # rows across the line
    chance: float = 1.0

    def draw(self, canvas: Canvas) -> None:
        """Draw them, row by row."""
        rng, draw, name = canvas.rng, canvas.draw, _one(canvas, self.thing)
        step, every, near, angle = draw(self.step), draw(self.every), draw(self.near), draw(self.angle)
        middle, half = complex(draw(ANYWHERE), draw(ANYWHERE)), math.ceil(FAR / every) if every else 0
        rows = [each + every * k for k in range(-half, half + 1) for each in self.across]
        starts = self.along or np.arange(-FAR + canvas.start % step, FAR, step)
        places = np.add.outer(1j * np.array(rows), starts)
        places += (
            self.loose * step * (rng.uniform(-1, 1, places.shape) + 1j * rng.uniform(-1, 1, places.shape))
        )
        taken = (rng.random(places.shape) < draw(self.share)) & (abs(places.real) >= self.clear)
        if self.turned:
            places, angle = places.imag + 1j * places.real, angle + ACROSS
        for place in places[taken & (abs(places - middle) < near)].tolist():
            draw_thing(canvas, name, place, angle, self.length)


@dataclass(frozen=True)
class Road:
    """A paved band with lane markings and cars."""

    across: Span = 0.0  # its middle; along the line, if it is turned
    lanes: Span = 2
    cars: Span = 0.0  # share of places with a car
    turned: bool = False  # runs across the line
    clear: float = 0.0  # no cars within this distance of its middle
    raised: bool = False  # a bridge
    every: float = 0.0  # from this road to the next one; 0: no other
    dash: float = 0.05  # length of the dashes between lanes
    chance: float = 1.0

    def draw(self, canvas: Canvas) -> None:
        """Pave and mark it, then let cars drive on it."""
        look, at, lanes = canvas.look, canvas.draw(self.across), round(canvas.draw(self.lanes))
        along, across = canvas.along, canvas.across
        if self.turned:
            along, across = across, along
        off, width = across - at, _LANE * max(lanes, 1.4)
        if self.every:
            off = (off + self.every / 2) % self.every - self.every / 2
        if self.raised:
            canvas.tint(_BLACK, look.shade * (abs(off - 0.08 * look.sun.real) < width / 2))
        canvas.paint(texture(canvas, "pavement", width / 2 - abs(off)), "pavement", abs(off) < width / 2)
        thin, solid = max(0.004, 0.5 / canvas.scale), canvas.rng.random() < 0.5
        canvas.tint(look.tone("white"), abs(abs(off) - 0.47 * width) < thin)
        for k in range(1, lanes):
            middle = solid and 2 * k == lanes
            line = abs(off - (k / lanes - 0.5) * width) < thin
            dashed = line & (middle | (along % (2 * self.dash) < self.dash))
            canvas.tint(look.tone("yellow" if middle else "white"), dashed)
        places = tuple(at + ((k + 0.5) / lanes - 0.5) * width for k in range(lanes))
        Rows(
            "car",
            0.15,
            places,
            every=self.every,
            clear=self.clear,
            share=self.cars,
            loose=0.15,
            turned=self.turned,
        ).draw(canvas)


Step = Patch | Rows | Road


def _one(canvas: Canvas, names: str | tuple[str, ...]) -> str:
    """One of several names, each as likely."""
    return names if isinstance(names, str) else names[int(canvas.rng.integers(len(names)))]


def texture(canvas: Canvas, name: str, depth: Pixels) -> Pixels:
    """A surface over the whole frame, given the depth inside its edge, in 0..255. (3, side, side)"""
    draw, noise, surface = canvas.draw, canvas.noise, SURFACES[name]
    angle = draw((0, math.tau))
    way = depth if surface.crests else canvas.along * math.cos(angle) + canvas.across * math.sin(angle)
    wave = np.sin(math.tau * (draw(surface.frequency) * way + surface.bent * noise(6)))
    share = np.clip(0.5 + draw(surface.waves) * wave + draw(surface.blotches) * noise(5), 0, 1)
    shore = np.clip(1 - depth / draw(surface.shore), 0, 1)
    light = 1 - draw(surface.bank) * shore
    for cells, strength in surface.grain:
        light += draw(strength) * noise(cells)
    if canvas.rng.random() < surface.joints:
        light -= draw((0.08, 0.2)) * _joints(canvas, draw((0.11, 0.2)))
    first, second = _two_tones(canvas, name, surface.second)
    mixed: Pixels = (first + share * (second - first)) * light
    if surface.specks:
        cells, threshold, lightness = surface.specks
        height = noise(cells) + surface.crests * (wave + 0.5 * noise(60) + 1.3 * shore)
        mixed += np.clip((height - draw(threshold)) * 4, 0, 0.9) * (draw(lightness) - mixed)
    return mixed


def _two_tones(canvas: Canvas, name: str, light: float) -> tuple[Pixels, Pixels]:
    """The tones that are mixed. Two of (3, 1, 1)"""
    first = canvas.look.tone(name)
    second = canvas.look.tone(name if light else "bare soil", spread=13) * (light or 0.85)
    if not light:
        second = first + canvas.draw((0.35, 1)) * (second - first)
    return first.astype(np.float32).reshape(3, 1, 1), second.astype(np.float32).reshape(3, 1, 1)


def _joints(canvas: Canvas, spacing: float) -> Mask:
    """The joints between square slabs. (side, side)"""
    wide = 0.009 / spacing
    joints: Mask = (canvas.along / spacing % 1 < wide) | (canvas.across / spacing % 1 < wide)
    return joints
