"""Things of the generated scenes: what grows, what people build and what moves.

A thing is a list of parts, drawn one above the other. Shapes have a length of 1 along x and a width of 1
along y, around 0; the thing's length and width scale them.
"""

import cmath
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from marcir.scenes.canvas import Canvas, Shape, Span

Rng = np.random.Generator


class Part(NamedTuple):
    """A polygon or a line of a thing."""

    shape: Shape
    tone: float | str = 1.0  # light, as a multiple of the thing's colour, or the name of another tone
    line: float = 0.0  # width of a line, as a share of the thing's width; 0: a polygon
    own: bool = True  # its pixels carry the thing's label


@dataclass(frozen=True)
class Thing:
    """How a thing is drawn."""

    label: str
    tone: str  # name of its colour
    parts: tuple[Part, ...] | Callable[[Rng], Iterator[Part]]
    length: Span
    ratio: Span = 1.0  # width, as a share of the length
    height: Span = 0.0  # for the shadow of the first part, as a share of the width
    upright: bool = True  # stands on the ground; else its shadow lies apart
    relief: float = 0.0  # how much brighter the parts on the side of the sun are


def draw_thing(canvas: Canvas, name: str, at: complex, angle: float, length: Span | None = None) -> None:
    """Draw a thing with its shadow at a place `along + 1j * across`, if that is in the frame."""
    thing, look = THINGS[name], canvas.look
    long = canvas.draw(thing.length if length is None else length)
    wide = long * canvas.draw(thing.ratio)
    middle, turn = canvas.spot(at, angle)
    if not canvas.in_frame(middle, 1.2 * max(long, wide)):
        return
    colour, height = look.tone(thing.tone, spread=11), wide * canvas.draw(thing.height)
    parts = thing.parts if isinstance(thing.parts, tuple) else thing.parts(canvas.rng)
    for k, part in enumerate(parts):
        pixels = middle + turn * (long * part.shape.real + 1j * wide * part.shape.imag)
        if k == 0 and height:
            canvas.shadow(pixels, height, thing.upright)
        tone = look.tone(part.tone) if isinstance(part.tone, str) else colour * part.tone
        if thing.relief:
            towards = -((pixels.mean() - middle) / look.sun * abs(look.sun)).real / (wide * canvas.scale)
            tone = tone * (1 + thing.relief * (0.3 + look.shade) * max(-1.0, min(1.0, 4 * towards)))
        canvas.fill(pixels, tone, thing.label if part.own else None, part.line * wide)


def _shape(*points: complex) -> Shape:
    return np.array(points, dtype=np.complex128)


def _mirrored(*points: complex) -> Shape:
    """Half an outline, and the same on the other side of the x axis."""
    return np.concatenate([_shape(*points).conj(), _shape(*points)[::-1]])


def _box(x: float = 0.0, y: float = 0.0, length: float = 1.0, width: float = 1.0) -> Shape:
    return complex(x, y) + _mirrored(complex(-length, width) / 2, complex(length, width) / 2)


@cache
def _directions(corners: int) -> Shape:
    return np.array([cmath.rect(1, math.tau * k / corners) for k in range(corners)])


def _disc(radius: float = 0.5, corners: int = 20, middle: complex = 0) -> Shape:
    return middle + radius * _directions(corners)


def _loop(shape: Shape) -> Shape:
    """The closed line around a shape."""
    return np.append(shape, shape[0])


def _tree(rng: Rng) -> Iterator[Part]:
    """A dark rim, and clumps of leaves that are brighter towards the sun."""
    yield Part(_disc(corners=14) * rng.uniform(0.65, 1.25, 14), 0.68)
    yield Part(_disc(0.36, 12), 0.9)
    for x, y in rng.uniform(-0.27, 0.27, (5, 2)).tolist():
        yield Part(_disc(0.15, 8, complex(x, y)))


def _shrub(rng: Rng) -> Iterator[Part]:
    yield Part(_disc(corners=7) * rng.uniform(0.65, 1.25, 7))


def _house(rng: Rng) -> Iterator[Part]:
    """A gabled or a hipped roof, sometimes with a wing and a chimney."""
    ridge = float(rng.choice([0.5, 0.5, 0.3]))
    yield Part(_box())
    if rng.random() < 0.4:
        x, y = rng.uniform(-0.25, 0.25), float(rng.choice([-0.4, 0.4]))
        yield Part(_box(x - 0.12, y, 0.24, 0.7), 0.92)
        yield Part(_box(x + 0.12, y, 0.24, 0.7), 1.08)
    for side in (-0.5j, 0.5j):
        yield Part(_shape(-0.5 + side, 0.5 + side, ridge, -ridge))
    for end in (-1, 1) if ridge < 0.5 else ():
        yield Part(_shape(0.5 * end - 0.5j, 0.5 * end + 0.5j, ridge * end))
    yield Part(_shape(-ridge, ridge), 1.15, line=0.07)
    if rng.random() < 0.5:
        yield Part(_box(rng.uniform(-0.3, 0.3), 0.12, 0.07, 0.12), 0.5)


def _hall(rng: Rng) -> Iterator[Part]:
    """A large flat roof with a parapet, and sheds or vents on it."""
    yield Part(_box(), float(rng.choice([0.75, 1.22])))
    yield Part(_box(0, 0, 0.92, 0.9))
    if rng.random() < 0.35:
        for k in range(-2, 3):
            yield Part(_box(0, 0.17 * k, 0.92, 0.085), 0.8 if k % 2 else 1.12)
        return
    for x, y, vent in rng.uniform(
        (-0.38, -0.38, 0.06), (0.38, 0.38, 0.16), (rng.integers(3, 10), 3)
    ).tolist():
        yield Part(_box(x + 0.04, y + 0.04, vent, vent * 1.3), 0.55)
        yield Part(_box(x, y, vent, vent * 1.3), rng.uniform(0.6, 1.4))


def _mobile_home(rng: Rng) -> Iterator[Part]:
    """A long box with ribs across and a porch on its side."""
    yield Part(_box())
    if rng.random() < 0.6:
        yield Part(_box(rng.uniform(-0.2, 0.2), 0.7, 0.4, 0.5), 0.75)
    yield Part(_box(0, 0, 1, 0.12), 0.84)
    for x in (-0.45, -0.15, 0.15, 0.45):
        yield Part(_shape(x - 0.5j, x + 0.5j), 0.84, line=0.05)


def _tank(rng: Rng) -> Iterator[Part]:
    """A rim in its bund, a lid that is domed or sunk, and a stair."""
    yield Part(_disc(), 0.68)
    yield Part(_loop(_disc(0.58)), 0.8, line=0.03)
    yield Part(_disc(0.45))
    sunk = rng.random() < 0.5
    yield Part(_disc(0.42), 0.72 if sunk else 1.04)
    yield Part(_disc(0.32, middle=complex(*rng.uniform(-0.08, 0.08, 2))), 0.94 if sunk else 1.12)
    stair = cmath.rect(1, rng.uniform(0, math.tau))
    yield Part(_shape(0.15 * stair, 0.52 * stair), float(rng.choice([0.55, 1.25])), line=0.04)


def _court(rng: Rng) -> Iterator[Part]:
    """A tennis court or one with a circle in the middle: two colours and white lines."""
    yield Part(_box(0, 0, 1.24, 1.4))
    yield Part(_box(), "court")
    tennis = [_loop(_box(0, 0, 1, 0.74)), _loop(_box(0, 0, 0.54, 0.74)), _shape(-0.27, 0.27)]
    other = [_loop(_box(-0.4, 0, 0.2, 0.34)), _loop(_box(0.4, 0, 0.2, 0.34)), _loop(_disc(0.1))]
    for line in (_loop(_box()), _shape(-0.5j, 0.5j), *(tennis if rng.random() < 0.6 else other)):
        yield Part(line, "white", line=0.04)


def _airplane(rng: Rng) -> Iterator[Part]:
    """A fuselage with swept or straight wings, a tail and engines."""
    thick, sweep = rng.uniform(0.05, 0.07) * 1j, float(rng.choice([0.01, 0.15, 0.24]))
    wing = (0.13 + thick, 0.1 - sweep + 0.5j, 0.02 - sweep + 0.5j, -0.09 + thick)
    tail = (-0.36 + thick, -0.44 + 0.18j, -0.5 + 0.18j, -0.48)
    yield Part(_mirrored(0.5, 0.44 + thick, *wing, *tail), 0.88)
    for side in (-0.2, 0.2):
        yield Part(_box(0.1 - sweep * 0.4, side, 0.12, 0.05), 0.66)
    yield Part(_mirrored(0.5, 0.44 + thick, -0.36 + thick, -0.5 + 0.3 * thick))
    yield Part(_mirrored(0.45 + thick * 0.6, 0.41 + thick * 0.8), "glass")
    yield Part(_shape(-0.5, -0.32), "car", line=0.05)


_STAR = _disc(0.55, 14) * np.array([1.0, 0.55] * 7)
_CONIFER = (Part(_STAR, 0.66), Part(0.55 * _STAR, 1.35))
_PIER = (Part(_box()), *(Part(_shape(x - 0.5j, x + 0.5j), 0.82, line=0.1) for x in (-0.4, -0.2, 0, 0.2, 0.4)))
_CAR = (
    Part(_mirrored(-0.5 + 0.45j, 0.4 + 0.5j, 0.5 + 0.3j)),
    Part(_mirrored(0.21 + 0.38j, 0.06 + 0.35j), "glass"),
    Part(_mirrored(-0.25 + 0.38j, -0.36 + 0.35j), "glass"),
)
_PARKED_CAR = (
    *(part._replace(shape=0.76 * part.shape.real + 0.68j * part.shape.imag) for part in _CAR),
    *(Part(_shape(-0.5 + y, 0.5 + y), "white", line=0.1, own=False) for y in (-0.5j, 0.5j)),
)
_HULL = _mirrored(-0.5 + 0.4j, 0.18 + 0.5j, 0.38 + 0.3j, 0.5)
_DECK = Part(0.86 * _HULL.real + 0.68j * _HULL.imag, "plank")
_BOAT = (
    Part(_HULL),
    _DECK,
    Part(_mirrored(-0.18 + 0.25j, 0.15 + 0.2j), 1.1),
    Part(_mirrored(0.15 + 0.22j, 0.22), "glass"),
)
# Under way: with a wake, containers in two rows, and the bridge at the stern.
_FREIGHTER = (
    Part(_HULL),
    *(Part(_shape(0.3 + 0.45 * y, -0.8 + 1.2 * y), "white", line=0.08, own=False) for y in (-1j, 1j)),
    Part(_mirrored(-0.45 + 0.35j, -1.1), "pale", own=False),
    _DECK,
    *(Part(_box(0.09 * k - 0.24, y, 0.078, 0.29), "car") for k in range(7) for y in (-0.17, 0.17)),
    Part(_box(-0.38, 0, 0.1, 0.65), "white"),
)

THINGS: dict[str, Thing] = {
    "tree": Thing("tree", "tree", _tree, (0.1, 0.17), height=0.55, upright=False, relief=0.5),
    "conifer": Thing("tree", "tree", _CONIFER, (0.1, 0.17), height=0.7),
    "shrub": Thing("chaparral", "chaparral", _shrub, (0.02, 0.08), height=0.25, upright=False),
    "house": Thing("building", "roof", _house, (0.17, 0.25), (0.55, 0.8), 0.4, relief=0.4),
    "hall": Thing("building", "roof", _hall, (0.25, 0.4), (0.6, 1), (0.25, 0.6)),
    "mobile home": Thing("mobile home", "pale", _mobile_home, (0.2, 0.26), (0.27, 0.34), 0.4),
    "tank": Thing("tank", "metal", _tank, (0.2, 0.4), 1, (0.25, 0.5), relief=0.2),
    "court": Thing("court", "court", _court, (0.42, 0.62), (0.47, 0.56)),
    "pier": Thing("dock", "plank", _PIER, 0.31, (0.1, 0.17), 0.5),
    "finger": Thing("dock", "plank", _PIER, 0.2, 0.08, 0.5),
    "car": Thing("car", "car", _CAR, (0.075, 0.095), 0.47, 0.45),
    "parked car": Thing("car", "car", _PARKED_CAR, 0.115, 0.54, 0.4),
    "boat": Thing("ship", "hull", _BOAT, (0.13, 0.2), (0.3, 0.38), 0.3),
    "freighter": Thing("ship", "hull", _FREIGHTER, (0.16, 0.5), (0.2, 0.27), 0.3),
    "airplane": Thing("airplane", "pale", _airplane, (0.42, 0.7), 1, 0.13, upright=False),
}
