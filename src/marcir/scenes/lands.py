"""Kinds of generated scenes inland and in the open: woods, farms, dry country, parks."""

import math

import numpy as np

from marcir.scenes.buildings import hall
from marcir.scenes.canvas import Canvas
from marcir.scenes.grounds import (
    flood,
    open_ground,
    road,
    road_traffic,
    side_road,
    spot,
    straight,
    upright,
)
from marcir.scenes.plants import avenue, grove, shrubs, wood
from marcir.scenes.shapes import FAR, circle, pick, place, rectangle, steps, winding
from marcir.scenes.surfaces import bare_soil, field, grass, sand


def forest(canvas: Canvas) -> None:
    """Trees crown to crown, with a clearing or a road now and then."""
    rng = canvas.rng
    open_ground(canvas, grass_share=0.8, mixed_share=0.05)
    if rng.random() < 0.12:
        side_road(canvas)
    radius = rng.uniform(0.045, 0.085)
    south = FAR if rng.random() < 0.6 else rng.uniform(0.5, 0.9)
    wood(canvas, radius * rng.uniform(1.4, 1.9), radius, south, rng.uniform(0.75, 1.0))


def farmland(canvas: Canvas) -> None:
    """A patchwork of fields with farm tracks, hedges and a barn."""
    rng = canvas.rng
    canvas.paint(field(canvas), "field")
    (u, v), split, cut = canvas.uv, rng.uniform(0.3, 0.7), rng.uniform(0.3, 0.7)
    if rng.random() < 0.75:
        canvas.paint(field(canvas), "field", u > split)
    if rng.random() < 0.5:
        canvas.paint(field(canvas), "field", (v > cut) & (u > split))
    if rng.random() < 0.25:
        canvas.paint(field(canvas), "field", canvas.inside(circle(*spot(canvas, 0.25), 0.36, 40)))
    border = rng.random()
    if border < 0.3:
        canvas.paint(bare_soil(canvas), "bare soil", np.abs(u - split) < 0.035)
    elif border < 0.55:
        canvas.paint(grass(canvas), "grass", np.abs(v - cut) < 0.05)
    elif border < 0.65:
        road(canvas, upright(straight(split)), 0.09, 2)
    if rng.random() < 0.3:
        avenue(canvas, cut, rng.uniform(0.07, 0.1), 0.055)
    if rng.random() < 0.12:
        hall(canvas, *spot(canvas, 0.15), 0.28, 0.18, pick(rng, [0.0, math.pi / 2]))


def dry_country(canvas: Canvas) -> None:
    """Chaparral on sand or bare soil, sometimes with a road."""
    rng = canvas.rng
    ground, label = pick(rng, [(sand, "sand"), (sand, "sand"), (bare_soil, "bare soil")])
    canvas.paint(ground(canvas), label)
    if rng.random() < 0.12:
        side_road(canvas)
    shrubs(canvas, int(rng.integers(260, 560)), rng.uniform(0.017, 0.027))


def wasteland(canvas: Canvas) -> None:
    """Bare ground with ruts and stones, with grass, a road or a lone building."""
    rng = canvas.rng
    canvas.paint(bare_soil(canvas), "bare soil")
    if rng.random() < 0.25:
        canvas.paint(grass(canvas), "grass", canvas.patch(*spot(canvas, 0), 0.4))
    if rng.random() < 0.25:
        side_road(canvas)
    if rng.random() < 0.15:
        hall(canvas, *spot(canvas, 0.2), 0.34, 0.24, rng.uniform(0, math.pi))


def golf_course(canvas: Canvas) -> None:
    """Fairways with bunkers of sand, groups of trees and sometimes a pond."""
    rng = canvas.rng
    canvas.paint(grass(canvas), "grass")
    canvas.paint(grass(canvas) * 1.12, "grass", canvas.patch(*spot(canvas, 0.2), 0.4, 0.3))
    if rng.random() < 0.2:
        flood(canvas, canvas.patch(*spot(canvas, 0), 0.28, 0.3))
    bunkers = sand(canvas) * 1.05
    for _ in range(rng.integers(1, 5)):
        where = canvas.patch(*spot(canvas, 0.15), rng.uniform(0.09, 0.17), 0.35)
        canvas.shade_around(where, 0.02, 0.25)
        canvas.paint(bunkers, "sand", where)
    if rng.random() < 0.15:
        road(canvas, winding(rng, rng.uniform(0.2, 0.8), 0.1), 0.06, 1)
    for _ in range(rng.integers(2, 4)):
        grove(canvas, *spot(canvas, 0), 0.26, int(rng.integers(6, 12)), rng.uniform(0.06, 0.08))


def ball_field(canvas: Canvas) -> None:
    """A baseball diamond: a fan of earth with a square of grass in it, and foul lines."""
    rng = canvas.rng
    canvas.paint(grass(canvas), "grass")
    earth, lawn, turn = bare_soil(canvas), grass(canvas), math.pi / 4
    (x, y), reach = spot(canvas, 0.3), rng.uniform(0.5, 0.65)
    x -= 0.2
    bow = [(reach * math.cos(t), reach * math.sin(t)) for t in steps(-turn, turn + 0.01, turn / 8)]
    canvas.paint(earth, "bare soil", canvas.inside(place([(-0.06, 0), *bow], x, y)))
    canvas.paint(lawn, "grass", canvas.inside(rectangle(x + reach * 0.46, y, reach * 0.5, reach * 0.5, turn)))
    for cx in (x + reach * 0.46, x + 0.03):
        canvas.paint(earth, "bare soil", canvas.inside(circle(cx, y, reach * 0.09)))
    chalk = np.full(3, rng.uniform(200, 240))
    for side in (-1, 1):
        canvas.line([(x, y), (x + 0.9, y + side * 0.9)], 0.009, chalk, "grass")
    if rng.random() < 0.15:
        way = upright(straight(-0.08))
        road(canvas, way, 0.2, 2)
        road_traffic(canvas, way, 0.2, 2, 0.25)
    if rng.random() < 0.25:
        grove(canvas, 1.0, rng.uniform(0, 1), 0.4, int(rng.integers(9, 16)), 0.07)
