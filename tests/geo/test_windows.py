"""Windows: every pixel once, ids, and order."""

from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from affine import Affine
from hypothesis import given
from hypothesis import strategies as st

from marcir.errors import ConfigError, DataError
from marcir.geo.scene import Band, Scene
from marcir.geo.windows import (
    Window,
    WindowGrid,
    count_windows,
    grid_size,
    parse_window_id,
    window_from_id,
    windows_of,
)

SIZES = st.integers(1, 90)


def scene(
    width: int, height: int, block: tuple[int, int] = (16, 16), resolution: tuple[float, float] = (10, 10)
) -> Scene:
    transform = (10.0, 0.0, 5e5, 0.0, -10.0, 5e6)
    return Scene(
        "a/b.tif", "EPSG:32614", transform, width, height, (Band("", 1),), "uint8", resolution, block=block
    )


def covered(of: Scene, grid: WindowGrid) -> np.ndarray:
    """How many windows each pixel is in."""
    width, height = grid_size(of, grid.resolution)
    counts = np.zeros((height, width), int)
    for window in windows_of(of, grid):
        assert window.width > 0
        assert window.height > 0
        assert window.x + window.width <= width
        assert window.y + window.height <= height
        counts[window.y : window.y + window.height, window.x : window.x + window.width] += 1
    return counts


@given(SIZES, SIZES, st.integers(1, 40), SIZES, SIZES)
def test_windows_cover_every_pixel_once_when_the_stride_is_the_window(
    width: int, height: int, window: int, tall: int, wide: int
) -> None:
    of = scene(width, height, (tall, wide))
    assert (covered(of, WindowGrid(window)) == 1).all()
    assert len(list(windows_of(of, WindowGrid(window)))) == count_windows(of, WindowGrid(window))


@given(SIZES, SIZES, st.integers(1, 40), st.floats(4, 60))
def test_windows_cover_every_pixel_once_at_any_resolution(
    width: int, height: int, window: int, resolution: float
) -> None:
    grid = WindowGrid(window, resolution=resolution)
    assert (covered(scene(width, height), grid) == 1).all()


@given(SIZES, SIZES, st.integers(1, 40), st.data())
def test_a_smaller_stride_covers_every_pixel_and_no_window_twice(
    width: int, height: int, window: int, data: st.DataObject
) -> None:
    grid = WindowGrid(window, data.draw(st.integers(1, window)))
    assert (covered(scene(width, height), grid) >= 1).all()
    ids = [each.id for each in windows_of(scene(width, height), grid)]
    assert len(ids) == len(set(ids)) == count_windows(scene(width, height), grid)


def test_a_larger_stride_leaves_gaps_and_no_empty_windows() -> None:
    found = [(each.x, each.width) for each in windows_of(scene(1000, 100), WindowGrid(256, 600))]
    assert found == [(0, 256), (600, 256)]


def test_a_scene_smaller_than_a_window_has_one_window() -> None:
    (window,) = windows_of(scene(30, 20), WindowGrid(256))
    assert (window.x, window.y, window.width, window.height) == (0, 0, 30, 20)


def test_windows_of_one_block_follow_each_other() -> None:
    found = [(each.x, each.y) for each in windows_of(scene(64, 32, block=(32, 32)), WindowGrid(16))]
    assert found == [(0, 0), (16, 0), (0, 16), (16, 16), (32, 0), (48, 0), (32, 16), (48, 16)]
    strips = [(each.x, each.y) for each in windows_of(scene(64, 32, block=(1, 64)), WindowGrid(16))]
    assert strips == [(x, y) for y in (0, 16) for x in (0, 16, 32, 48)]


def test_an_id_says_scene_and_window_and_needs_no_escape_in_a_path() -> None:
    of = scene(300, 300)
    last = list(windows_of(of, WindowGrid(256)))[-1]
    assert last.id == "a/b.tif@x=256,y=256,w=44,h=44"
    assert quote(last.id, safe="/@=,") == last.id
    coarse = list(windows_of(of, WindowGrid(256, resolution=12.5)))[-1]
    assert coarse.id == "a/b.tif@x=0,y=0,w=240,h=240,r=12.5"


@given(SIZES, SIZES, st.integers(1, 40), st.none() | st.floats(0.001, 1e6))
def test_a_window_is_found_by_its_id(width: int, height: int, size: int, resolution: float | None) -> None:
    of = scene(min(width, 5), min(height, 5))
    window = Window(of, 0, 0, 1, 1, resolution)
    again = window_from_id(of, window.id)
    assert again.id == window.id
    assert again.affine.almost_equals(window.affine, 1e-3)
    assert "e" not in window.id.partition("@")[2]


@pytest.mark.parametrize(
    "text",
    ["a.tif", "a.tif@x=1", "a.tif@x=-1,y=0,w=1,h=1", "a.tif@x=0,y=0,w=1,h=1,r=1.2.3", "@x=0,y=0,w=1,h=1"],
)
def test_other_texts_are_not_ids_of_windows(text: str) -> None:
    with pytest.raises(DataError, match="not the id of a window"):
        parse_window_id(text)


@pytest.mark.parametrize("part", ["x=290,y=0,w=20,h=20", "x=0,y=0,w=0,h=1", "x=0,y=0,w=200,h=20,r=20"])
def test_a_window_outside_of_its_scene_is_refused(part: str) -> None:
    with pytest.raises(DataError, match="not inside a/b.tif"):
        window_from_id(scene(300, 300), f"a/b.tif@{part}")


def test_coarser_pixels_cover_the_scene_exactly() -> None:
    of = scene(101, 67)
    for resolution in (10, 10.001, 33, 7, 5000):
        width, height = grid_size(of, resolution)
        right, bottom = Window(of, 0, 0, 1, 1, resolution).affine @ (width, height)
        assert (right, bottom) == pytest.approx(of.affine @ (101, 67))
    assert grid_size(of, 10.001) == (101, 67)
    assert grid_size(of, 20) == (50, 34)


def test_pixels_that_are_not_square_on_the_ground_become_square_at_a_resolution() -> None:
    of = scene(100, 100, resolution=(5, 10))
    assert grid_size(of, 10) == (50, 100)
    assert Window(of, 0, 0, 1, 1, 10).ground_resolution == (10, 10)
    assert Window(of, 0, 0, 1, 1).ground_resolution == (5, 10)


def test_the_geotransform_of_a_window_starts_at_its_corner() -> None:
    window = Window(scene(100, 100), 20, 30, 5, 5)
    assert window.affine == Affine(10, 0, 500_200, 0, -10, 4_999_700)
    assert window.source == (20, 30, 5, 5)


@pytest.mark.parametrize(
    "options", [{"window": 0}, {"stride": 0}, {"stride": -1}, {"resolution": 0}, {"resolution": float("nan")}]
)
def test_invalid_grids_are_refused(options: dict[str, float], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        WindowGrid(**options)  # type: ignore[arg-type]
