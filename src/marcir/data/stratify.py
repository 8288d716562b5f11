"""Iterative stratification for several labels per image (Sechidis, Tsoumakas and Vlahavas, 2011)."""

from collections.abc import Sequence

import numpy as np


def iterative_stratification(labels: np.ndarray, sizes: Sequence[int]) -> list[int]:
    """Assign every image to a part, so that each part keeps each label's frequency.

    The rarest label still unassigned goes first; each of its images goes to the part that wants that label
    most, then to the part that wants images most. Parts have exactly the wanted sizes.

    Args:
        labels: Multi-hot labels, in an order drawn by the caller. (N, L)
        sizes: Images of each part.

    Returns:
        The part of each image.
    """
    labels = labels.astype(bool)
    wanted = np.outer(np.array(sizes) / len(labels), labels.sum(0))  # (parts, L)
    room = np.array(sizes, dtype=np.int64)
    part_of = np.full(len(labels), -1)

    def assign(image: int, part: int) -> None:
        part_of[image] = part
        room[part] -= 1
        wanted[part] -= labels[image]

    while True:
        left = labels[part_of < 0].sum(0)
        if not left.any():
            break
        label = int(np.where(left > 0, left, np.iinfo(np.int64).max).argmin())
        for image in np.flatnonzero(labels[:, label] & (part_of < 0)):
            need = np.where(room > 0, wanted[:, label], -np.inf)
            # Ties by room: the part that is furthest from full.
            assign(int(image), int(np.lexsort((room, need))[-1]))
    for image in np.flatnonzero(part_of < 0):
        assign(int(image), int(room.argmax()))
    return [int(part) for part in part_of]
