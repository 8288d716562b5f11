"""The Hilbert curve: an order of places in which neighbours on the Earth are mostly near each other."""

import numpy as np

# Cells per axis as a power of two: 2 cm at the equator, and the codes fit into 63 bits.
_BITS = 31
# The code of rows without a place: after all others.
NOWHERE = np.uint64(2**63)


def hilbert_codes(x: np.ndarray, y: np.ndarray, bits: int) -> np.ndarray:
    """Positions of cells along the Hilbert curve that visits all cells of a square grid. (N,)

    Args:
        x: Columns, 0 to 2^bits - 1. (N,)
        y: Rows, likewise. (N,)
        bits: Logarithm of the side of the grid, 1 to 31.

    >>> hilbert_codes(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0]), bits=1)
    array([0, 1, 2, 3], dtype=uint64)
    """
    x, y = np.asarray(x, np.int64).copy(), np.asarray(y, np.int64).copy()
    codes = np.zeros(x.shape, np.uint64)
    last = 2**bits - 1
    for bit in reversed(range(bits)):
        right, upper = (x >> bit) & 1, (y >> bit) & 1
        codes = (codes << np.uint64(2)) | ((3 * right) ^ upper).astype(np.uint64)
        # The curve inside of a lower quadrant is mirrored at the diagonal, and turned on the right.
        turned = (upper == 0) & (right == 1)
        x, y = np.where(turned, last - x, x), np.where(turned, last - y, y)
        x, y = np.where(upper == 0, y, x), np.where(upper == 0, x, y)
    return codes


def codes_of_boxes(corners: np.ndarray) -> np.ndarray:
    """Positions of the centres of boxes along a Hilbert curve over the Earth; `NOWHERE` for nan. (N,)

    Args:
        corners: West, south, east, north in degrees; west > east across the date line. (4, N)
    """
    west, south, east, north = corners
    known = ~np.isnan(corners).any(0)
    longitudes = west + np.where(east < west, east + 360 - west, east - west) / 2
    shares = np.stack([(longitudes + 180) % 360 / 360, (np.add(south, north) / 2 + 90) / 180])[:, known]
    cells = np.clip(shares * 2**_BITS, 0, 2**_BITS - 1).astype(np.int64)
    codes = np.full(corners.shape[1], NOWHERE)
    codes[known] = hilbert_codes(cells[0], cells[1], _BITS)
    return codes
