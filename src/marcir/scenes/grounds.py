"""Parts that several kinds of generated scenes share: open ground, roads, parking, rows of houses."""

import math

import numpy as np

from marcir.scenes.buildings import house
from marcir.scenes.canvas import Canvas, Mask
from marcir.scenes.look import Pixels, mixed_tone
from marcir.scenes.shapes import (
    FAR,
    NEAR,
    Point,
    Points,
    offset,
    pick,
    place,
    rectangle,
    steps,
    strip,
    walk,
    winding,
)
from marcir.scenes.surfaces import bare_soil, grass, pavement, water
from marcir.scenes.vehicles import car, traffic

WHITE = np.array([228.0, 228.0, 222.0])
YELLOW = np.array([214.0, 178.0, 66.0])


def spot(canvas: Canvas, margin: float = 0.1) -> Point:
    """A place in the frame, away from its edges."""
    return canvas.rng.uniform(margin, 1 - margin), canvas.rng.uniform(margin, 1 - margin)


def open_ground(canvas: Canvas, grass_share: float = 0.6, mixed_share: float = 0.12) -> None:
    """Grass or bare soil everywhere, sometimes with a patch of the other."""
    rng = canvas.rng
    surfaces = [(grass, "grass"), (bare_soil, "bare soil")]
    if rng.random() > grass_share:
        surfaces.reverse()
    (texture, label), (other, other_label) = surfaces
    canvas.paint(texture(canvas), label)
    if rng.random() < mixed_share:
        where = canvas.patch(*spot(canvas), rng.uniform(0.25, 0.45))
        canvas.paint(other(canvas), other_label, where)


def flood(canvas: Canvas, where: Mask) -> None:
    """Water with dark banks."""
    canvas.shade_around(where, 0.025, canvas.rng.uniform(0.3, 0.7))
    canvas.paint(water(canvas), "water", where)


def straight(y: float, slope: float = 0.0) -> Points:
    """A straight path across the frame at the height y."""
    return [(NEAR, y + slope * (NEAR - 0.5)), (FAR, y + slope * (FAR - 0.5))]


def upright(path: Points) -> Points:
    """The same path with x and y exchanged: from across the frame to along it."""
    return [(y, x) for x, y in path]


def road(canvas: Canvas, path: Points, width: float, lanes: int, texture: Pixels | None = None) -> None:
    """A paved band with lane markings."""
    rng = canvas.rng
    surface = pavement(canvas, joints=False) if texture is None else texture
    canvas.paint(surface, "pavement", canvas.inside(strip(path, width)))
    chalk, doubled = WHITE * rng.uniform(0.75, 1.05), rng.random() < 0.5
    for edge in (-0.46, 0.46):
        canvas.line(offset(path, edge * width), 0.007, chalk, "pavement")
    for k in range(1, lanes):
        lane = offset(path, (k / lanes - 0.5) * width)
        if k * 2 == lanes and doubled:
            canvas.line(lane, 0.014, YELLOW * rng.uniform(0.8, 1.05), "pavement")
            continue
        for x, y, direction in walk(lane, 0.1):
            if canvas.sees(x, y, 0.05):
                canvas.line(place([(0, 0), (0.045, 0)], x, y, direction), 0.009, chalk, "pavement")


def road_traffic(
    canvas: Canvas, path: Points, width: float, lanes: int, share: float, clear: Points | None = None
) -> None:
    """Cars in the lanes of a road, each half of it in its direction."""
    for k in range(lanes):
        lane = offset(path, ((k + 0.5) / lanes - 0.5) * width)
        traffic(canvas, lane if k * 2 < lanes else lane[::-1], share, clear)


def paved_yard(canvas: Canvas, length: float, width: float) -> None:
    """A paved rectangle in the middle of the frame."""
    yard = rectangle(0.5, 0.5, length, width)
    canvas.paint(pavement(canvas), "pavement", canvas.inside(yard))


def bridge(canvas: Canvas, away: float, slope: float, width: float, share: float) -> None:
    """A road of two lanes that crosses above everything drawn so far, `away` from the middle at most."""
    rng = canvas.rng
    path = upright(straight(rng.uniform(0.5 - away, 0.5 + away), rng.uniform(-slope, slope)))
    tone = mixed_tone(rng, "pavement")
    canvas.shadow(strip(path, width), 0.08)
    canvas.fill(strip(path, width), tone * 1.2, "pavement")
    canvas.fill(strip(path, width * 0.88), tone, "pavement")
    canvas.line(path, 0.01, WHITE, "pavement")
    road_traffic(canvas, path, width * 0.9, 2, share)


def parking(canvas: Canvas, x: float, y: float, columns: int, rows: int, share: float) -> None:
    """Rows of marked stalls with cars in some of them."""
    rng = canvas.rng
    stall, depth, aisle = 0.062, 0.115, rng.uniform(0.1, 0.14)
    slant, chalk = pick(rng, [0.0, 0.35]) * depth, WHITE * rng.uniform(0.7, 1.0)
    heading = math.atan2(depth, slant)
    left, top = x - columns * stall / 2, y - rows * (depth + aisle / 2) / 2
    for row in range(rows):
        low = top + row * depth + (row // 2 + row % 2) * aisle
        for column in range(columns):
            sx = left + column * stall
            if not canvas.sees(sx, low, 0.2):
                continue
            canvas.line([(sx, low), (sx + slant, low + depth)], 0.007, chalk, "pavement")
            if rng.random() < share:
                dx, dy = rng.normal(0, 0.006, 2).tolist()
                turn = heading + pick(rng, [0.0, math.pi])
                car(canvas, sx + (stall + slant) / 2 + dx, low + depth / 2 + dy, turn)


def house_row(
    canvas: Canvas, y: float, towards: int, spacing: float, share: float, drive: Pixels, cars: float
) -> None:
    """Houses along a street at the height y, on the side `towards` (-1 or 1), with their driveways."""
    rng = canvas.rng
    roofs = [mixed_tone(rng, "roof") for _ in range(3)]
    for x in steps(NEAR + rng.uniform(0, spacing), FAR, spacing):
        if not canvas.sees(x, y + towards * 0.2, 0.4) or rng.random() > share:
            continue
        length, width = rng.uniform(0.54, 0.74) * spacing, rng.uniform(0.14, 0.19)
        if rng.random() < 0.55:
            drive_x = x + length * 0.55 + 0.03
            driveway = rectangle(drive_x, y + towards * 0.16, 0.065, 0.26)
            canvas.paint(drive, "pavement", canvas.inside(driveway))
            if rng.random() < cars:
                car(canvas, drive_x, y + towards * 0.19, math.pi / 2)
        turn = rng.normal(0, 0.06) + (math.pi / 2 if rng.random() < 0.35 else 0.0)
        roof = pick(rng, roofs) + rng.normal(0, 9)
        house(canvas, x, y + towards * rng.uniform(0.2, 0.26), length, min(width, length * 0.8), turn, roof)


def side_road(canvas: Canvas, texture: Pixels | None = None) -> None:
    """A small road somewhere across the frame, bent or straight."""
    rng = canvas.rng
    path = winding(rng, rng.uniform(0.2, 0.8), rng.uniform(0, 0.15))
    road(canvas, upright(path) if rng.random() < 0.5 else path, rng.uniform(0.09, 0.14), 2, texture)
