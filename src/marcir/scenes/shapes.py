"""Shapes of the generated scenes: points in scene coordinates, where the frame is about 0..1 wide.

Plain tuples: a scene has hundreds of shapes of a few points each, too small for arrays to pay.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import TypeVar

import numpy as np

Option = TypeVar("Option")
Point = tuple[float, float]
Points = list[Point]

# Whatever the turn and the zoom, the frame lies within these bounds of scene coordinates.
NEAR, FAR = -0.5, 1.5


def place(shape: Iterable[Point], x: float, y: float, angle: float = 0.0) -> Points:
    """A shape around (0, 0), turned by an angle and moved to (x, y).

    >>> place([(1, 0), (0, 1)], 5, 5)
    [(6.0, 5.0), (5.0, 6.0)]
    """
    c, s = math.cos(angle), math.sin(angle)
    return [(x + c * a - s * b, y + s * a + c * b) for a, b in shape]


def scaled(shape: Iterable[Point], along: float, across: float | None = None) -> Points:
    """A shape around (0, 0) made larger or smaller.

    >>> scaled([(1, 2)], 3)
    [(3, 6)]
    """
    across = along if across is None else across
    return [(along * a, across * b) for a, b in shape]


def rectangle(x: float, y: float, length: float, width: float, angle: float = 0.0) -> Points:
    """The corners of a rectangle around (x, y), its length along the angle.

    >>> rectangle(0, 0, 4, 2)
    [(-2.0, -1.0), (2.0, -1.0), (2.0, 1.0), (-2.0, 1.0)]
    """
    a, b = length / 2, width / 2
    return place([(-a, -b), (a, -b), (a, b), (-a, b)], x, y, angle)


@cache
def _directions(corners: int) -> tuple[Point, ...]:
    turns = [math.tau * k / corners for k in range(corners)]
    return tuple((math.cos(turn), math.sin(turn)) for turn in turns)


def circle(x: float, y: float, radius: float, corners: int = 20) -> Points:
    """A regular polygon that passes for a circle.

    >>> circle(1, 0, 2, corners=4)[0]
    (3.0, 0.0)
    """
    return [(x + radius * a, y + radius * b) for a, b in _directions(corners)]


def ragged(rng: np.random.Generator, x: float, y: float, radius: float, corners: int = 9) -> Points:
    """A circle whose radius wavers between 0.6 and 1.2 of the given one."""
    radii = (radius * rng.uniform(0.6, 1.2, corners)).tolist()
    return [(x + r * a, y + r * b) for r, (a, b) in zip(radii, _directions(corners), strict=True)]


def offset(path: Points, distance: float) -> Points:
    """A path moved to its left by a distance, point by point.

    >>> offset([(0.0, 0.0), (1.0, 0.0)], 0.5)
    [(0.0, 0.5), (1.0, 0.5)]
    """
    moved = []
    for k, (x, y) in enumerate(path):
        (ax, ay), (bx, by) = path[max(k - 1, 0)], path[min(k + 1, len(path) - 1)]
        share = distance / math.hypot(bx - ax, by - ay)
        moved.append((x - share * (by - ay), y + share * (bx - ax)))
    return moved


def strip(path: Points, width: float) -> Points:
    """The outline of a band along a path.

    >>> strip([(0.0, 0.0), (1.0, 0.0)], 1.0)
    [(0.0, 0.5), (1.0, 0.5), (1.0, -0.5), (0.0, -0.5)]
    """
    return offset(path, width / 2) + offset(path, -width / 2)[::-1]


def winding(rng: np.random.Generator, y: float, bend: float, points: int = 32) -> Points:
    """A path across the frame at the height y that swings by about `bend`."""
    slow, fast = rng.uniform(0.3, 1.0), rng.uniform(0.7, 1.8)
    first, second = rng.uniform(0, math.tau, 2)
    path = []
    for k in range(points):
        x = NEAR + (FAR - NEAR) * k / (points - 1)
        swing = math.sin(math.tau * slow * x + first) + 0.4 * math.sin(math.tau * fast * x + second)
        path.append((x, y + bend * swing / 1.4))
    return path


def walk(path: Points, spacing: float, start: float = 0.0) -> list[tuple[float, float, float]]:
    """Stations along a path at equal distances: x, y and the direction there.

    >>> walk([(0.0, 0.0), (1.0, 0.0)], 0.4)
    [(0.0, 0.0, 0.0), (0.4, 0.0, 0.0), (0.8, 0.0, 0.0)]
    """
    stations, left = [], start
    for (ax, ay), (bx, by) in pairwise(path):
        length, direction = math.hypot(bx - ax, by - ay), math.atan2(by - ay, bx - ax)
        while left < length:
            share = left / length
            stations.append((ax + share * (bx - ax), ay + share * (by - ay), direction))
            left += spacing
        left -= length
    return stations


def steps(start: float, stop: float, step: float) -> list[float]:
    """Numbers from start, below stop.

    >>> steps(0.0, 1.0, 0.4)
    [0.0, 0.4, 0.8]
    """
    return [start + k * step for k in range(max(0, math.ceil((stop - start) / step)))]


def pick(rng: np.random.Generator, options: Sequence[Option]) -> Option:
    """One of several options, each as likely."""
    return options[int(rng.integers(len(options)))]
