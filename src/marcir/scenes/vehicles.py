"""What moves in the generated scenes: cars, ships and airplanes."""

import math

import numpy as np

from marcir.scenes.canvas import Canvas
from marcir.scenes.look import mixed_tone
from marcir.scenes.shapes import Points, place, rectangle, scaled, steps, walk

GLASS = np.array([38.0, 44.0, 52.0])

# Outlines of length 1 and half-width 1, bow and bonnet to the right.
_BODY: Points = [(-0.5, -0.9), (0.4, -1), (0.5, -0.6), (0.5, 0.6), (0.4, 1), (-0.5, 0.9)]
_WINDOWS: tuple[Points, ...] = (
    [(0.21, -0.75), (0.06, -0.7), (0.06, 0.7), (0.21, 0.75)],
    [(-0.25, -0.75), (-0.36, -0.7), (-0.36, 0.7), (-0.25, 0.75)],
)
_HULL: Points = [(-0.5, -0.8), (0.18, -1), (0.38, -0.6), (0.5, 0), (0.38, 0.6), (0.18, 1), (-0.5, 0.8)]
_CABIN: Points = [(-0.18, -0.5), (0.15, -0.4), (0.15, 0.4), (-0.18, 0.5)]
_WINDSCREEN: Points = [(0.15, -0.45), (0.22, 0), (0.15, 0.45)]


def car(canvas: Canvas, x: float, y: float, angle: float, length: float = 0.085) -> None:
    """A car with two windows, or now and then a lorry."""
    if not canvas.sees(x, y, length):
        return
    rng = canvas.rng
    lorry = rng.random() < 0.07
    length *= 1.7 if lorry else rng.uniform(0.9, 1.12)
    half = length * (0.16 if lorry else 0.235)
    outline = place(scaled(_BODY, length, half), x, y, angle)
    canvas.shadow(outline, 0.018)
    canvas.fill(outline, mixed_tone(rng, "car", spread=12), "car")
    if lorry:
        ((gx, gy),) = place([(length * 0.3, 0)], x, y, angle)
        canvas.fill(rectangle(gx, gy, length * 0.05, half * 2, angle), GLASS, "car")
        return
    for window in _WINDOWS:
        canvas.fill(place(scaled(window, length, half), x, y, angle), GLASS, "car")


def traffic(canvas: Canvas, lane: Points, share: float, clear: Points | None = None) -> None:
    """Cars along a lane, at some of its stations, away from places that are to stay clear."""
    rng = canvas.rng
    for x, y, direction in walk(lane, 0.15, rng.uniform(0, 0.15)):
        free = all(math.hypot(x - a, y - b) > 0.2 for a, b in clear or [])
        if rng.random() < share and free:
            car(canvas, x, y, direction)


def ship(canvas: Canvas, x: float, y: float, length: float, angle: float, wake: str | None = None) -> None:
    """A hull with a bow, a deck and a cabin or cargo; under way it leaves a wake on water or sea."""
    if not canvas.sees(x, y, length * 2):
        return
    rng = canvas.rng
    cargo = length > 0.24
    half = length * (rng.uniform(0.1, 0.13) if cargo else rng.uniform(0.15, 0.19))
    tone, deck = mixed_tone(rng, "hull"), mixed_tone(rng, "plank")
    if wake is not None:
        _wake(canvas, x, y, length, half, angle, wake)
    outline = place(scaled(_HULL, length, half), x, y, angle)
    canvas.shadow(outline, 0.02)
    canvas.fill(outline, tone, "ship")
    canvas.fill(place(scaled(_HULL, length * 0.86, half * 0.68), x, y, angle), deck, "ship")
    if cargo:
        _cargo(canvas, x, y, length, half, angle)
    else:
        canvas.fill(place(scaled(_CABIN, length, half), x, y, angle), tone * 1.1, "ship")
        canvas.fill(place(scaled(_WINDSCREEN, length, half), x, y, angle), GLASS, "ship")


def _wake(canvas: Canvas, x: float, y: float, length: float, half: float, angle: float, label: str) -> None:
    """Foam astern that thins out, and the two arms of the bow wave."""
    plain = canvas.look.tones[label]
    foam, reach = plain * 0.55 + 95, 0.5 * length + 0.2
    for share, thin in ((1.0, 0.35), (0.55, 0.75)):
        end = -length * 0.45 - reach * share
        tail = [(-length * 0.45, -half * 0.6), (end, 0), (-length * 0.45, half * 0.6)]
        canvas.fill(place(tail, x, y, angle), plain + thin * (foam - plain), label)
    for side in (-1, 1):
        arm = [(length * 0.3, side * half * 0.9), (-length * 0.5 - 0.1, side * (half * 1.6 + 0.04))]
        canvas.line(place(arm, x, y, angle), 0.007, foam * 0.85, label)


def _cargo(canvas: Canvas, x: float, y: float, length: float, half: float, angle: float) -> None:
    """Containers in rows on the deck, and the bridge at the stern."""
    rng = canvas.rng
    for along in steps(-0.24, 0.34, 0.09):
        for across in (-0.34, 0.34):
            ((cx, cy),) = place([(along * length, across * half)], x, y, angle)
            box = rectangle(cx, cy, length * 0.078, half * 0.58, angle)
            canvas.fill(box, mixed_tone(rng, "car"), "ship")
    ((bx, by),) = place([(-0.38 * length, 0)], x, y, angle)
    canvas.fill(rectangle(bx, by, length * 0.1, half * 1.3, angle), np.full(3, 240.0), "ship")


def airplane(canvas: Canvas, x: float, y: float, length: float, angle: float) -> None:
    """A fuselage with swept or straight wings, a tail, engines, and its shadow on the apron."""
    if not canvas.sees(x, y, length):
        return
    rng = canvas.rng
    tone, thick = mixed_tone(rng, "pale", spread=5), rng.uniform(0.055, 0.075)
    swept = rng.random() < 0.7
    sweep, span = (rng.uniform(0.14, 0.24), rng.uniform(0.44, 0.52)) if swept else (0.01, 0.55)
    nose: Points = [(0.5, 0), (0.44, thick), (-0.36, thick), (-0.5, thick * 0.3)]
    parts: list[tuple[Points, float]] = []
    for side in (-1, 1):
        parts.append((rectangle(0.08 - sweep * 0.4, side * span * 0.42, 0.12, 0.05), 0.66))
        wing = [(0.13, 0), (0.1 - sweep, side * span), (0.02 - sweep, side * span), (-0.09, 0)]
        tail = [(-0.36, 0), (-0.44, side * 0.18), (-0.5, side * 0.18), (-0.48, 0)]
        parts += [(wing, 0.88), (tail, 0.88)]
    parts.append((nose + [(px, -py) for px, py in reversed(nose)], 1.0))
    for shape, _ in parts:
        canvas.hovering_shadow(place(scaled(shape, length), x, y, angle), length * 0.13)
    for shape, light in parts:
        canvas.fill(place(scaled(shape, length), x, y, angle), tone * light, "airplane")
    glass = [(0.45, -thick * 0.6), (0.41, -thick * 0.8), (0.41, thick * 0.8), (0.45, thick * 0.6)]
    canvas.fill(place(scaled(glass, length), x, y, angle), GLASS, "airplane")
    fin = place([(-0.5 * length, 0), (-0.32 * length, 0)], x, y, angle)
    canvas.line(fin, 0.05 * length, mixed_tone(rng, "car"), "airplane")
