"""Kinds of generated scenes at the water: rivers, lakes, harbours, beaches, the open sea."""

import math

import numpy as np

from marcir.scenes.buildings import hall, pier
from marcir.scenes.canvas import Canvas
from marcir.scenes.grounds import (
    bridge,
    flood,
    house_row,
    open_ground,
    road,
    road_traffic,
    spot,
    straight,
)
from marcir.scenes.look import Colour, mixed_tone
from marcir.scenes.plants import avenue, tree
from marcir.scenes.shapes import FAR, NEAR, pick, steps, strip, winding
from marcir.scenes.surfaces import grass, open_sea, pavement, sand, sea, water
from marcir.scenes.vehicles import car, ship


def river(canvas: Canvas) -> None:
    """A winding river between wooded, grassy or sandy banks, sometimes under a bridge."""
    rng = canvas.rng
    open_ground(canvas, grass_share=0.8)
    path, width = winding(rng, rng.uniform(0.35, 0.65), rng.uniform(0.06, 0.2)), rng.uniform(0.16, 0.36)
    if rng.random() < 0.3:
        canvas.paint(sand(canvas), "sand", canvas.inside(strip(path, width + rng.uniform(0.1, 0.2))))
    flood(canvas, canvas.inside(strip(path, width)))
    if rng.random() < 0.85:
        for x, y in path:
            for side in (-1, 1):
                away = width / 2 + abs(rng.normal(0.06, 0.05))
                if rng.random() < 0.7:
                    tree(canvas, x + rng.normal(0, 0.02), y + side * away, rng.uniform(0.045, 0.08))
    if rng.random() < 0.2:
        bridge(canvas, 0.2, 0.2, 0.16, 0.3)
    if rng.random() < 0.12:
        x, y = path[len(path) // 2]
        ship(canvas, x, y, rng.uniform(0.12, 0.18), pick(rng, [0.0, math.pi]), "water")


def lake(canvas: Canvas) -> None:
    """A lake or a pond with trees on its shore, a house, or a landing stage with a boat."""
    rng = canvas.rng
    open_ground(canvas, grass_share=0.85)
    (x, y), radius = spot(canvas, 0.3), rng.uniform(0.3, 0.45)
    flood(canvas, canvas.patch(x, y, radius, 0.3))
    for turn in rng.uniform(0, math.tau, rng.integers(12, 26)).tolist():
        away = radius * 1.35
        tree(canvas, x + away * math.cos(turn), y + away * math.sin(turn), rng.uniform(0.05, 0.08))
    if rng.random() < 0.15:
        house_row(canvas, y - radius - 0.45, 1, 0.4, 0.8, pavement(canvas), 0.0)
    if rng.random() < 0.3:
        pier(canvas, x - radius * 1.15, y, x - radius * 0.2, y, 0.05, mixed_tone(rng, "plank"))
        ship(canvas, x - radius * 0.4, y + 0.08, 0.17, rng.normal(0, 0.2))


def harbour(canvas: Canvas) -> None:
    """Docks with ships at their berths, before a quay."""
    rng = canvas.rng
    canvas.paint(water(canvas), "water")
    shore, busy = rng.uniform(-0.15, 0.15), rng.random() < 0.25
    canvas.paint(pavement(canvas), "pavement", canvas.uv[0] < shore)
    if rng.random() < 0.2:
        hall(canvas, shore - 0.14, rng.uniform(0.2, 0.8), 0.16, 0.4, 0)
    for y in steps(NEAR + 0.3, FAR - 0.3, 0.17):
        if busy and rng.random() < 0.5:
            car(canvas, shore - 0.06, y, math.pi / 2)
    length, tone, share = rng.uniform(0.14, 0.22), mixed_tone(rng, "plank"), rng.uniform(0.4, 0.9)
    gap = length * 2 + rng.uniform(0.12, 0.25)
    for y in steps(rng.uniform(-0.2, 0.2), 1.3, gap):
        _berths(canvas, shore, y, length, tone, share)


def _berths(canvas: Canvas, shore: float, y: float, length: float, tone: Colour, share: float) -> None:
    """One dock at the height y, with fingers and ships on both sides."""
    rng = canvas.rng
    end, pitch = rng.uniform(0.8, FAR), length * rng.uniform(0.5, 0.65)
    for side in (-1, 1):
        for k, x in enumerate(steps(shore + 0.08, end, pitch)):
            if k % 2 == 0:
                pier(canvas, x - pitch / 2, y, x - pitch / 2, y + side * length, 0.014, tone)
            if rng.random() < share:
                heading = side * math.pi / 2 + pick(rng, [0.0, math.pi])
                berth = y + side * (0.025 + length * 0.52)
                ship(canvas, x, berth, length * rng.uniform(0.75, 1.05), heading)
    pier(canvas, shore, y, end, y, rng.uniform(0.03, 0.055), tone)


def beach(canvas: Canvas) -> None:
    """Sea that breaks on sand; behind it dunes, a promenade or a road."""
    rng = canvas.rng
    canvas.paint(sand(canvas), "sand")
    shore = canvas.uv[1] - rng.uniform(0.3, 0.65) + 0.05 * canvas.noise(3) + 0.02 * canvas.noise(8)
    canvas.ground *= 1 - np.clip(1 + shore / 0.09, 0, 1) * rng.uniform(0.1, 0.3)
    canvas.paint(sea(canvas, shore, rng.uniform(0.12, 0.4)), "sea", shore > 0)
    behind = rng.random()
    if behind < 0.35:
        canvas.paint(grass(canvas), "grass", shore < rng.uniform(-0.3, -0.18))
    elif behind < 0.55:
        way = straight(rng.uniform(-0.02, 0.06))
        road(canvas, way, 0.14, 2)
        road_traffic(canvas, way, 0.12, 2, 0.3)
    if rng.random() < 0.2:
        avenue(canvas, rng.uniform(0.02, 0.1), rng.uniform(0.1, 0.16), 0.06, wobble=0.025)
    if rng.random() < 0.12:
        x, heading = rng.uniform(0.2, 0.8), rng.uniform(0, math.tau)
        ship(canvas, x, 0.88, rng.uniform(0.12, 0.2), heading, "sea")


def sea_lane(canvas: Canvas) -> None:
    """Ships under way on the open sea."""
    rng = canvas.rng
    canvas.paint(open_sea(canvas), "sea")
    for _ in range(rng.integers(1, 4)):
        ship(canvas, *spot(canvas, 0.2), rng.uniform(0.16, 0.55), rng.uniform(0, math.tau), "sea")
