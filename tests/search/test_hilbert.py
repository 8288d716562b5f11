"""The order of places along the Hilbert curve."""

import numpy as np
import pytest

from marcir.search.hilbert import NOWHERE, codes_of_boxes, hilbert_codes


@pytest.mark.parametrize("bits", [1, 2, 3, 5])
def test_the_curve_visits_every_cell_once_and_every_step_leads_to_a_neighbour(bits: int) -> None:
    side = 2**bits
    x, y = (each.ravel() for each in np.meshgrid(np.arange(side), np.arange(side)))
    codes = hilbert_codes(x, y, bits)
    assert sorted(codes.tolist()) == list(range(side * side))
    order = np.argsort(codes)
    steps = np.abs(np.diff(x[order])) + np.abs(np.diff(y[order]))
    assert (steps == 1).all()


def reference(x: int, y: int, bits: int) -> int:
    """The position of a cell by the recursive definition: four smaller curves, two of them mirrored."""
    if bits == 0:
        return 0
    half = 2 ** (bits - 1)
    right, upper = x >= half, y >= half
    x, y = x % half, y % half
    if not right and not upper:
        return reference(y, x, bits - 1)
    if not right:
        return half**2 + reference(x, y, bits - 1)
    if upper:
        return 2 * half**2 + reference(x, y, bits - 1)
    return 3 * half**2 + reference(half - 1 - y, half - 1 - x, bits - 1)


def test_codes_are_those_of_the_recursive_definition() -> None:
    x, y = np.random.default_rng(0).integers(0, 2**31, (2, 50))
    expected = [reference(int(a), int(b), 31) for a, b in zip(x, y, strict=True)]
    assert hilbert_codes(x, y, 31).tolist() == expected


def test_boxes_without_a_place_come_last_and_corners_of_the_earth_have_a_code() -> None:
    nan = np.nan
    corners = np.array([[-180, -90, -180, -90], [180, 90, 180, 90], [nan] * 4, [0, 0, 1, 1]], float).T
    codes = codes_of_boxes(corners)
    assert codes[2] == NOWHERE
    assert (codes[[0, 1, 3]] < NOWHERE).all()


def test_the_centre_of_a_box_across_the_date_line_is_there_and_not_at_longitude_zero() -> None:
    corners = np.array([[178, 10, -178, 11], [-180, 10, -180, 11], [-1, 10, 1, 11]], float).T
    across, there, zero = codes_of_boxes(corners).tolist()
    assert across == there != zero
