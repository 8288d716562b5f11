"""One generated aerial-like scene with its labels, from a seed and an index."""

import math

import numpy as np
from numpy.typing import NDArray

from marcir.checks import check_int, check_seed
from marcir.scenes.canvas import MIN_SHARE, Canvas, Span
from marcir.scenes.layout import ACROSS, ANYWHERE, Patch, Road, Rows, Step

SIZES = range(16, 1025)
# An object's ground counts as seen with the object, however little of it the object leaves free.
GROUNDS = {
    "airplane": ("pavement",), "car": ("pavement",), "dock": ("water", "sea"), "ship": ("water", "sea"),
}  # fmt: skip
TREES = ("tree", "tree", "tree", "conifer")
ANY = (0.0, math.tau)
BERTHS = tuple(x / 16 for x in range(-5, 18))


def patch(surface: str | tuple[str, ...], size: Span, chance: float = 1.0, count: Span = 1) -> Patch:
    """A patch of ground with a natural edge, anywhere."""
    return Patch(surface, ANYWHERE, ANYWHERE, size, oval=True, wavy=0.35, count=count, chance=chance)


def ground(grass: int, mixed: float = 0.12) -> tuple[Step, ...]:
    """Grass in so many of ten scenes, else bare soil; sometimes with a patch of either."""
    names = ("grass",) * grass + ("bare soil",) * (10 - grass)
    return Patch(names), patch(("grass", "bare soil"), (0.2, 0.4), mixed)


def grove(chance: float, near: Span = (0.2, 0.4)) -> Rows:
    """Trees around a place."""
    return Rows(TREES, every=0.1, near=near, share=0.8, loose=0.5, chance=chance)


# How often each kind of scene is drawn (a weight), how far its line bends, and its steps in the order of
# drawing. The weights give the labels their long tail, the steps what occurs together.
KINDS: dict[str, tuple[float, Span, tuple[Step, ...]]] = {
    "residential": (2.6, (0, 0.05), (
        *ground(8), Road(lanes=1), Road((-0.6, 0.6), lanes=1, turned=True, chance=0.3),
        Rows("house", (0.24, 0.36), (-0.24, 0.24, -0.46, 0.46), share=(0.65, 1), loose=0.06),
        Rows("car", 0.16, (-0.035, 0.035), share=(0.1, 0.5), loose=0.1),
        Rows("tree", (0.14, 0.26), (-0.37, 0.37), loose=0.25),
    )),
    "homestead": (1.3, 0, (
        *ground(4), Road(ANYWHERE, turned=True, chance=0.3),
        Rows(TREES, 0.14, every=0.14, share=(0.4, 0.7), loose=0.5),
        Rows("house", along=(-0.28, 0.28), share=0.75, angle=ANY, loose=1, length=(0.24, 0.36)),
    )),
    "highway": (1.7, (0, 0.1), (
        *ground(7), Road(-0.16, (2, 3), (0.25, 0.6)), Road(0.16, (2, 3), (0.25, 0.6)), grove(0.25),
        Road((-0.3, 0.3), 2, 0.3, turned=True, raised=True, chance=0.35),
    )),
    "crossing": (1.4, 0, (
        *ground(3), Road(0, (2, 4), (0.3, 0.6), clear=0.2), Road(0, (2, 4), 0.4, turned=True, clear=0.2),
        Patch("pavement", 0, 0, 0.12), grove(0.15),
        Rows("hall", across=(-0.34, 0.34), along=(-0.36, 0.36), share=0.75, loose=0.3),
    )),
    "parking lot": (1.2, 0, (
        Patch("pavement"), Patch("grass", 0, -1, 9, (0.5, 0.7), chance=0.15),
        Rows("parked car", 0.062, (-0.06, 0.06), every=0.38, share=(0.4, 0.95), angle=(1.2, 1.9)),
        Rows("hall", across=(0.8,), along=(0,), length=(0.8, 1.2), chance=0.15),
        Rows("tree", (0.12, 0.18), (-0.38,), chance=0.2),
    )),
    "industry": (1.2, 0, (
        *ground(4), Patch("pavement", 0, 0, (0.55, 1), (0.55, 1)),
        Rows("hall", (0.45, 0.6), every=(0.45, 0.6), share=0.85, length=(0.25, 0.42)),
        Rows("car", 0.08, (0.25,), near=(0.3, 0.5), share=0.6, angle=ACROSS, chance=0.5),
    )),
    "mobile home park": (1.0, 0, (
        *ground(3, 0.05), Road(0.21, 1, every=0.42),
        Rows("mobile home", (0.11, 0.15), every=0.42, share=(0.6, 0.9), angle=(1.1, 2)),
        Rows("tree", 0.3, every=0.42, share=0.25, loose=0.1),
        Rows("car", 0.13, (0.18,), every=0.42, share=(0.1, 0.4)),
    )),
    "sports ground": (1.0, 0, (
        *ground(8), Patch("pavement", 0, 0, (0.35, 0.5), (0.5, 0.9), chance=0.3),
        Rows("court", along=(0,), every=0.5, share=0.8), grove(0.75, (0.15, 0.3)),
        Rows("hall", along=(-0.55, 0.55), chance=0.2),
    )),
    "airport": (1.0, 0, (
        Patch("pavement"), Patch(("grass", "grass", "bare soil"), 0, 1, 9, (0.6, 0.75), chance=0.6),
        Rows("hall", across=(-0.8,), along=(0,), length=(0.8, 1.2), chance=0.35),
        Rows("airplane", (0.5, 0.8), share=0.85, angle=(1.2, 1.9)),
        Rows("car", 0.15, (-0.36,), share=0.4, chance=0.35),
    )),
    "runway": (0.7, 0, (*ground(7), Road(0, (4, 6), dash=0.16))),
    "tank farm": (1.0, 0, (
        *ground(2), Patch("pavement", 0, 0, 0.55, (0.3, 0.7), chance=0.35),
        Rows("tank", (0.4, 0.5), every=(0.4, 0.5), share=0.9),
        Rows("hall", across=(0.5,), along=(-0.2,), chance=0.15),
    )),
    "forest": (1.1, 0, (
        *ground(8, 0.05), Road(ANYWHERE, turned=True, chance=0.12),
        Rows(TREES, (0.09, 0.13), every=0.09, share=(0.6, 1), loose=0.5),
    )),
    "farmland": (1.1, 0, (
        Patch("field"), Patch("field", 1, 0, (0.8, 1.2), 9, chance=0.75),
        Patch("field", 1, 1, (0.8, 1.2), (0.8, 1.2), chance=0.5),
        Patch("field", ANYWHERE, ANYWHERE, 0.36, oval=True, chance=0.25),
        Patch("bare soil", 0, 0, 0.035, 9, chance=0.3), Patch("grass", 0, 0, 9, 0.05, chance=0.25),
        Road(0, turned=True, chance=0.1), Rows("tree", (0.07, 0.1), loose=0.1, chance=0.3),
        Rows("hall", across=(-0.2,), along=(0.2,), angle=ANY, loose=2, chance=0.12),
    )),
    "dry country": (1.1, (0, 0.1), (
        Patch(("sand", "sand", "bare soil")), Road(ANYWHERE, chance=0.12),
        Rows("shrub", (0.045, 0.07), every=0.055, share=0.7, loose=0.9),
    )),
    "wasteland": (1.5, (0, 0.1), (
        Patch("bare soil"), patch("grass", (0.25, 0.45), 0.5), Road(ANYWHERE, chance=0.25),
        Rows("hall", along=(0,), angle=ANY, loose=2, chance=0.15), grove(0.1),
    )),
    "golf course": (1.3, (0, 0.1), (
        Patch("grass"), patch("grass", 0.35), patch("water", 0.25, 0.2),
        patch("sand", (0.08, 0.17), count=(1, 5)), Road(ANYWHERE, 1, chance=0.15),
        grove(1, (0.15, 0.3)), grove(0.6, (0.15, 0.3)),
    )),
    "river": (1.1, (0.05, 0.15), (
        *ground(8), Patch("sand", 0, 0, 9, (0.16, 0.25), wavy=0.1, chance=0.3),
        Patch("water", 0, 0, 9, (0.08, 0.17), wavy=0.1),
        Rows("tree", 0.07, (-0.25, 0.25), share=(0.4, 1), loose=0.7, chance=0.85),
        Road((-0.2, 0.2), 2, 0.3, turned=True, raised=True, chance=0.2),
        Rows("boat", 0.6, share=0.7, chance=0.12),
    )),
    "lake": (0.6, 0, (
        *ground(8), Patch("water", 0, 0, (0.3, 0.45), (0.3, 0.45), oval=True, wavy=0.25),
        Rows("tree", 0.12, (-0.55, -0.45, 0.45, 0.55), share=(0.3, 0.9), loose=0.5),
        Rows("house", 0.5, (-0.62,), chance=0.15), Rows("pier", along=(-0.3,), chance=0.3),
        Rows("boat", across=(-0.08, 0.08), along=(-0.15,), angle=ANY, share=0.6, chance=0.4),
    )),
    "harbour": (1.0, 0, (
        Patch("water"), Patch("pavement", -1, 0, (0.4, 0.65), 9),
        Rows("hall", 0.4, (-0.6,), turned=True, chance=0.2),
        Rows("car", 0.17, (-0.45,), share=0.5, turned=True, chance=0.25),
        Rows("finger", across=(-0.11, 0.11), along=BERTHS[::2], every=0.5, angle=ACROSS),
        Rows("boat", 0.06, (-0.13, 0.13), BERTHS[1::2], 0.5, share=(0.5, 0.95), angle=ACROSS),
        Rows("pier", along=(-0.3, 0, 0.3, 0.6, 0.9), every=0.5),
    )),
    "beach": (1.0, (0, 0.05), (
        Patch("sand"), Patch("sea", 0, 1, 9, (0.85, 1.2), wavy=0.04),
        Patch("grass", 0, -1, 9, (0.5, 0.75), wavy=0.04, chance=0.35), Road(-0.42, 2, 0.3, chance=0.2),
        Rows("tree", (0.1, 0.16), (-0.3,), loose=0.2, chance=0.2),
        Rows("freighter", 0.7, (0.45,), angle=ANY, length=(0.14, 0.2), chance=0.12),
    )),
    "sea lane": (0.4, 0, (
        Patch("sea", 0, 5, 9, 7),
        Rows("freighter", (0.6, 1), every=(0.6, 1), share=0.8, angle=ANY, loose=0.2),
    )),
}  # fmt: skip


def draw_scene(seed: int, index: int, size: int) -> tuple[NDArray[np.uint8], frozenset[str]]:
    """Scene `index` of the archive of a seed: its image and the labels that can be seen in it.

    Depends on the three arguments alone. The same scene at another size is the same place.

    Args:
        seed: Names the archive, 0 or more.
        index: Position in the archive, 0 or more.
        size: Width and height in pixels, 16 to 1024.

    Raises:
        ConfigError: For a seed, an index or a size out of range.

    >>> image, labels = draw_scene(seed=0, index=5, size=64)
    >>> image.shape, image.dtype, labels <= set(MIN_SHARE)
    ((64, 64, 3), dtype('uint8'), True)
    """
    check_seed(seed)
    check_int("index", index, 0)
    check_int("size", size, SIZES[0], SIZES[-1])
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))
    weights = np.array([weight for weight, _, _ in KINDS.values()])
    _, bend, steps = list(KINDS.values())[rng.choice(len(KINDS), p=weights / weights.sum())]
    canvas = Canvas(rng, size, bend)
    for step in steps:
        if rng.random() < step.chance:
            step.draw(canvas)
    return canvas.photograph(), seen_labels(canvas.shares())


def seen_labels(shares: dict[str, float]) -> frozenset[str]:
    """The labels whose share of the frame is large enough, and the ground of their objects.

    >>> sorted(seen_labels({"car": 0.01, "pavement": 0.01, "grass": 0.9, "tree": 0.001}))
    ['car', 'grass', 'pavement']
    """
    seen = {label for label, share in shares.items() if share >= MIN_SHARE[label]}
    grounds = {max(GROUNDS[label], key=lambda name: shares.get(name, 0.0)) for label in seen & GROUNDS.keys()}
    return frozenset(seen | grounds)
