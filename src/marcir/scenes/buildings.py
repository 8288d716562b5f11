"""What people build in the generated scenes: houses, halls, mobile homes, tanks, courts and docks."""

import math

import numpy as np

from marcir.scenes.canvas import Canvas
from marcir.scenes.look import Colour, mixed_tone
from marcir.scenes.shapes import Points, circle, pick, place, rectangle, scaled, steps


def house(
    canvas: Canvas, x: float, y: float, length: float, width: float, angle: float, tone: Colour
) -> None:
    """A house with a gabled or a hipped roof, sometimes with a wing, and its shadow."""
    if not canvas.sees(x, y, length):
        return
    rng = canvas.rng
    canvas.shadow(rectangle(x, y, length, width, angle), 0.4 * width)
    if rng.random() < 0.4:
        ((wx, wy),) = place([(rng.uniform(-0.25, 0.25) * length, 0.55 * width)], x, y, angle)
        across = angle + math.pi / 2
        canvas.shadow(rectangle(wx, wy, width * 0.9, width * 0.7, across), 0.35 * width)
        _roof(canvas, wx, wy, width * 0.9, width * 0.7, across, tone, hip=0.0)
    _roof(canvas, x, y, length, width, angle, tone, hip=pick(rng, [0.0, 0.0, 0.5]))
    if rng.random() < 0.5:
        ((cx, cy),) = place([(rng.uniform(-0.3, 0.3) * length, 0.12 * width)], x, y, angle)
        canvas.fill(rectangle(cx, cy, 0.12 * width, 0.12 * width, angle), tone * 0.5, "building")


def _roof(
    canvas: Canvas, x: float, y: float, length: float, width: float, angle: float, tone: Colour, hip: float
) -> None:
    """The slopes of a roof along its ridge; `hip` times the width is cut off the ridge at each end."""
    a, b = length / 2, width / 2
    r = a - hip * width
    slopes: list[tuple[Points, float]] = [
        ([(-a, -b), (a, -b), (r, 0), (-r, 0)], angle - math.pi / 2),
        ([(-a, b), (a, b), (r, 0), (-r, 0)], angle + math.pi / 2),
    ]
    if hip:
        slopes.append(([(a, -b), (a, b), (r, 0)], angle))
        slopes.append(([(-a, -b), (-a, b), (-r, 0)], angle + math.pi))
    for corners, direction in slopes:
        canvas.fill(place(corners, x, y, angle), tone * canvas.facing(direction, 0.4), "building")
    canvas.line(place([(-r, 0), (r, 0)], x, y, angle), 0.012, tone * 1.15, "building")


def hall(canvas: Canvas, x: float, y: float, length: float, width: float, angle: float) -> None:
    """A large flat roof with a parapet and vents, or a row of sheds; with a long shadow."""
    rng = canvas.rng
    tone = mixed_tone(rng, pick(rng, ["roof", "roof", "pale"]))
    outline = rectangle(x, y, length, width, angle)
    canvas.shadow(outline, rng.uniform(0.25, 0.6) * min(length, width, 0.4))
    canvas.fill(outline, tone * pick(rng, [0.75, 1.22]), "building")
    canvas.fill(rectangle(x, y, length - 0.026, width - 0.026, angle), tone, "building")
    if rng.random() < 0.35:
        for k, across in enumerate(steps(-width / 2 + 0.03, width / 2 - 0.03, 0.045)):
            shed = place([(-length / 2 + 0.01, across), (length / 2 - 0.01, across)], x, y, angle)
            canvas.line(shed, 0.02, tone * (0.8 if k % 2 else 1.12), "building")
        return
    for _ in range(rng.integers(3, 10)):
        along, across = rng.uniform(-0.38, 0.38, 2).tolist()
        ((vx, vy),) = place([(along * length, across * width)], x, y, angle)
        vent, grey = rng.uniform(0.02, 0.055), rng.uniform(70, 235)
        dx, dy = (0.014 * part for part in canvas.look.sun)
        canvas.fill(rectangle(vx + dx, vy + dy, vent, vent, angle), tone * 0.55, "building")
        canvas.fill(rectangle(vx, vy, vent, vent, angle), np.full(3, grey), "building")


def mobile_home(canvas: Canvas, x: float, y: float, length: float, angle: float) -> None:
    """A pale long box with ribs across, low, with a porch on its side."""
    if not canvas.sees(x, y, length):
        return
    rng = canvas.rng
    width, tone = length * rng.uniform(0.27, 0.34), mixed_tone(rng, "pale")
    outline = rectangle(x, y, length, width, angle)
    canvas.shadow(outline, 0.03)
    if rng.random() < 0.6:
        ((px, py),) = place([(rng.uniform(-0.2, 0.2) * length, 0.7 * width)], x, y, angle)
        canvas.fill(rectangle(px, py, length * 0.4, width * 0.5, angle), tone * 0.75, "mobile home")
    canvas.fill(outline, tone, "mobile home")
    canvas.fill(rectangle(x, y, length, width * 0.12, angle), tone * 0.84, "mobile home")
    for along in (-0.45, -0.15, 0.15, 0.45):
        rib = place([(along * length, -width / 2), (along * length, width / 2)], x, y, angle)
        canvas.line(rib, 0.004, tone * 0.84, "mobile home")


def tank(canvas: Canvas, x: float, y: float, radius: float, tone: Colour) -> None:
    """A round storage tank: a rim, a lid that is domed or sunk, a stair, and a shadow."""
    if not canvas.sees(x, y, radius * 2):
        return
    rng = canvas.rng
    outline = circle(x, y, radius, 26)
    canvas.shadow(outline, radius * rng.uniform(0.5, 1.0))
    dx, dy = (part * radius / math.hypot(*canvas.look.sun) for part in canvas.look.sun)
    canvas.fill(outline, tone * 0.68, "tank")
    canvas.fill(circle(x, y, radius * 0.9, 26), tone, "tank")
    if rng.random() < 0.5:  # sunk: the wall throws its shadow on the lid
        canvas.fill(circle(x, y, radius * 0.84, 26), tone * (0.9 - 0.5 * canvas.look.shade), "tank")
        canvas.fill(circle(x + dx * 0.18, y + dy * 0.18, radius * 0.66, 22), tone * 0.95, "tank")
    else:
        canvas.fill(circle(x - dx * 0.16, y - dy * 0.16, radius * 0.62, 22), tone * 1.1, "tank")
        canvas.fill(circle(x, y, radius * 0.12, 8), tone * 0.6, "tank")
    stair = place([(radius * 0.3, 0), (radius * 1.05, 0)], x, y, rng.uniform(0, math.tau))
    canvas.line(stair, radius * 0.07, tone * pick(rng, [0.55, 1.25]), "tank")


def court(canvas: Canvas, x: float, y: float, length: float, angle: float) -> None:
    """A tennis or a basketball court: two colours and white lines."""
    rng = canvas.rng
    ratio = pick(rng, [0.47, 0.47, 0.56])
    outer, inner = mixed_tone(rng, "court"), mixed_tone(rng, "court")
    chalk = np.full(3, rng.uniform(215, 250))
    canvas.fill(rectangle(x, y, length * 1.24, length * (ratio + 0.2), angle), outer, "court")
    canvas.fill(rectangle(x, y, length, length * ratio, angle), inner, "court")
    for path in _tennis_lines(ratio) if ratio < 0.5 else _basketball_lines(ratio):
        canvas.line(place(scaled(path, length), x, y, angle), 0.011, chalk, "court")


def _tennis_lines(ratio: float) -> list[Points]:
    """The lines of a court of length 1."""
    b, s = ratio / 2, ratio / 2 * 0.74
    return [
        [(-0.5, -b), (0.5, -b), (0.5, b), (-0.5, b), (-0.5, -b)],
        [(-0.5, -s), (0.5, -s)],
        [(-0.5, s), (0.5, s)],
        [(-0.27, -s), (-0.27, s)],
        [(0.27, -s), (0.27, s)],
        [(-0.27, 0), (0.27, 0)],
        [(0, -b * 1.15), (0, b * 1.15)],
    ]


def _basketball_lines(ratio: float) -> list[Points]:
    """The lines of a court of length 1."""
    b, ring = ratio / 2, circle(0, 0, 0.09, 14)
    lines: list[Points] = [
        [(-0.5, -b), (0.5, -b), (0.5, b), (-0.5, b), (-0.5, -b)],
        [(0, -b), (0, b)],
        [*ring, ring[0]],
    ]
    for end in (-0.5, 0.5):
        bow = [(end * (1 - 1.3 * b * math.cos(t)), b * 0.86 * math.sin(t)) for t in steps(-1.5, 1.6, 0.3)]
        lines += [[(end, -0.09), (end * 0.6, -0.09), (end * 0.6, 0.09), (end, 0.09)], bow]
    return lines


def pier(canvas: Canvas, ax: float, ay: float, bx: float, by: float, width: float, tone: Colour) -> None:
    """A straight piece of a dock: planks above the water, with a narrow shadow."""
    length, angle = math.hypot(bx - ax, by - ay), math.atan2(by - ay, bx - ax)
    if not canvas.sees((ax + bx) / 2, (ay + by) / 2, length):
        return
    outline = rectangle((ax + bx) / 2, (ay + by) / 2, length, width, angle)
    canvas.hovering_shadow(outline, 0.02)
    canvas.fill(outline, tone, "dock")
    if width > 0.02:
        for along in steps(0.02, length, 0.05):
            plank = place([(along, -width / 2), (along, width / 2)], ax, ay, angle)
            canvas.line(plank, 0.004, tone * 0.82, "dock")
