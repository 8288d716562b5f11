"""Iterative stratification of multi-label data (Sechidis, Tsoumakas and Vlahavas, 2011)."""

from collections.abc import Sequence

import numpy as np


def iterative_stratification(labels: np.ndarray, sizes: Sequence[int]) -> list[int]:
    """Assign every image to a part, so that each part keeps the frequency of each label.

    Labels are processed from the rarest remaining one. Each image goes to the part that lacks most images of
    the label; of several, to the one that lacks most images. Parts have exactly the given sizes.

    Args:
        labels: Multi-hot labels, shuffled by the caller. (N, L)
        sizes: Images per part.

    Returns:
        The part of each image.
    """
    labels = labels.astype(bool)
    wanted = np.outer(np.array(sizes) / len(labels), labels.sum(0))  # (parts, L)
    free = np.array(sizes, dtype=np.int64)
    part_of = np.full(len(labels), -1)

    def assign(image: int, part: int) -> None:
        part_of[image] = part
        free[part] -= 1
        wanted[part] -= labels[image]

    while True:
        remaining = labels[part_of < 0].sum(0)
        if not remaining.any():
            break
        label = int(np.where(remaining > 0, remaining, np.iinfo(np.int64).max).argmin())
        for image in np.flatnonzero(labels[:, label] & (part_of < 0)):
            need = np.where(free > 0, wanted[:, label], -np.inf)
            # Ties go to the part with the most free places.
            assign(int(image), int(np.lexsort((free, need))[-1]))
    for image in np.flatnonzero(part_of < 0):
        assign(int(image), int(free.argmax()))
    return [int(part) for part in part_of]
