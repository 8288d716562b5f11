"""One generated aerial-like scene with its labels, from a seed and an index."""

import numpy as np
from numpy.typing import NDArray

from marcir.checks import check_int, check_seed
from marcir.scenes.canvas import SCENE_LABELS as SCENE_LABELS
from marcir.scenes.canvas import Canvas
from marcir.scenes.kinds import KINDS

# What must be seen of a label before the image carries it, as a share of the frame.
SEEN: dict[str, float] = {
    "airplane": 0.008,
    "bare soil": 0.03,
    "building": 0.02,
    "car": 0.004,
    "chaparral": 0.02,
    "court": 0.02,
    "dock": 0.006,
    "field": 0.04,
    "grass": 0.03,
    "mobile home": 0.01,
    "pavement": 0.02,
    "sand": 0.02,
    "sea": 0.03,
    "ship": 0.004,
    "tank": 0.02,
    "tree": 0.015,
    "water": 0.03,
}

# An object's ground counts as seen with the object, however little of it the object leaves free.
GROUNDS: dict[str, tuple[str, ...]] = {
    "airplane": ("pavement",),
    "car": ("pavement",),
    "dock": ("water", "sea"),
    "ship": ("water", "sea"),
}
SIZES = range(16, 1025)


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
    >>> image.shape, image.dtype, labels <= set(SCENE_LABELS)
    ((64, 64, 3), dtype('uint8'), True)
    """
    check_seed(seed)
    check_int("index", index, 0)
    check_int("size", size, SIZES[0], SIZES[-1])
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))
    weights = np.array([weight for _, weight in KINDS])
    kind = KINDS[rng.choice(len(KINDS), p=weights / weights.sum())][0]
    canvas = Canvas(rng, size)
    kind(canvas)
    image = canvas.photograph()
    return image, seen_labels(canvas.shares())


def seen_labels(shares: dict[str, float]) -> frozenset[str]:
    """The labels whose share of the frame is large enough, and the ground of their objects.

    >>> sorted(seen_labels({"car": 0.01, "pavement": 0.01, "grass": 0.9, "tree": 0.001}))
    ['car', 'grass', 'pavement']
    """
    seen = {label for label, share in shares.items() if share >= SEEN[label]}
    grounds = {max(GROUNDS[label], key=lambda name: shares.get(name, 0.0)) for label in seen & GROUNDS.keys()}
    return frozenset(seen | grounds)
