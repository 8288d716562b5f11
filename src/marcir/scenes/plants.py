"""Trees and shrubs of the generated scenes."""

import math

import numpy as np

from marcir.scenes.canvas import Canvas
from marcir.scenes.shapes import FAR, NEAR, circle, place, ragged, scaled, steps

_STAR = [(a * r, b * r) for (a, b), r in zip(circle(0, 0, 1, 14), [1.15, 0.6] * 7, strict=True)]


def tree(canvas: Canvas, x: float, y: float, radius: float) -> None:
    """A crown of leaves: a dark rim, clumps that are brighter towards the sun, and a shadow."""
    if not canvas.sees(x, y, radius * 3):
        return
    rng, look = canvas.rng, canvas.look
    leaves = look.tone(rng, "tree", spread=10)
    outline = ragged(rng, x, y, radius * 1.1, corners=14)
    canvas.hovering_shadow(outline, radius * 1.6)
    canvas.fill(outline, leaves * 0.66, "tree")
    dx, dy = (part / math.hypot(*look.sun) for part in look.sun)
    canvas.fill(
        circle(x - dx * radius * 0.15, y - dy * radius * 0.15, radius * 0.72, 12), leaves * 0.9, "tree"
    )
    for a, b in rng.uniform(-0.5, 0.5, (4, 2)).tolist():
        lit = 1 + (0.15 + 0.35 * look.shade) * (0.3 - 1.6 * (a * dx + b * dy))
        clump = circle(x + (a - dx * 0.12) * radius, y + (b - dy * 0.12) * radius, radius * 0.3, 8)
        canvas.fill(clump, leaves * lit, "tree")


def conifer(canvas: Canvas, x: float, y: float, radius: float) -> None:
    """A star of branches with a pointed shadow."""
    if not canvas.sees(x, y, radius * 4):
        return
    rng, look = canvas.rng, canvas.look
    leaves, turn = look.tone(rng, "tree", spread=10), rng.uniform(0, 1)
    dx, dy = (part * radius for part in look.sun)
    shadow = [(x - dy * 0.6, y + dx * 0.6), (x + dx * 3, y + dy * 3), (x + dy * 0.6, y - dx * 0.6)]
    canvas.hovering_shadow(shadow, 0.0)
    canvas.fill(place(scaled(_STAR, radius), x, y, turn), leaves * 0.62, "tree")
    crown = place(scaled(_STAR, radius * 0.55), x - dx * 0.15, y - dy * 0.15, turn)
    canvas.fill(crown, leaves * (1.1 + 0.4 * look.shade), "tree")


def grove(canvas: Canvas, x: float, y: float, reach: float, count: int, radius: float) -> None:
    """Trees of one kind around a place."""
    rng = canvas.rng
    kind = conifer if rng.random() < 0.25 else tree
    for dx, dy in rng.normal(0, reach / 2, (count, 2)).tolist():
        kind(canvas, x + dx, y + dy, radius * rng.uniform(0.7, 1.3))


def scattered_trees(canvas: Canvas, count: int, radius: float) -> None:
    """Single trees anywhere in the frame."""
    for x, y in canvas.rng.uniform(0.02, 0.98, (count, 2)).tolist():
        tree(canvas, x, y, radius * canvas.rng.uniform(0.75, 1.3))


def avenue(canvas: Canvas, y: float, spacing: float, radius: float, wobble: float = 0.01) -> None:
    """Trees in a row across the frame."""
    for x in steps(NEAR, FAR, spacing):
        dx, dy = canvas.rng.normal(0, wobble, 2).tolist()
        tree(canvas, x + dx, y + dy, radius * canvas.rng.uniform(0.75, 1.3))


def wood(canvas: Canvas, spacing: float, radius: float, south: float = FAR, share: float = 1.0) -> None:
    """Trees crown to crown, up to a height `south` of the scene."""
    rng = canvas.rng
    kind = conifer if rng.random() < 0.25 else tree
    for y in steps(NEAR + 0.05, south, spacing * 0.85):
        for x in steps(NEAR + 0.05, FAR, spacing):
            if canvas.sees(x, y, 2 * spacing) and rng.random() < share:
                dx, dy = rng.uniform(-0.45 * spacing, 0.45 * spacing, 2).tolist()
                kind(canvas, x + dx, y + dy, radius * rng.uniform(0.6, 1.35))


def shrubs(canvas: Canvas, count: int, radius: float) -> None:
    """Low dark clumps scattered over open ground, without lit crowns."""
    rng = canvas.rng
    sizes = (radius * np.exp(rng.normal(0, 0.45, count))).tolist()
    for (x, y), size in zip(rng.uniform(NEAR, FAR, (count, 2)).tolist(), sizes, strict=True):
        if canvas.sees(x, y, size * 2):
            outline = ragged(rng, x, y, size, corners=7)
            canvas.hovering_shadow(outline, size * 0.5)
            canvas.fill(outline, canvas.look.tone(rng, "chaparral", spread=8), "chaparral")
