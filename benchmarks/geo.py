"""Cutting scenes into windows beside bare rasterio, as ratios.

    python benchmarks/geo.py [--size 10000] [--repeats 5]

A tiled GeoTIFF of size x size x 4 bytes is cut into windows of 256 pixels: with rasterio's windowed reads
alone, with `WindowReader` (mask of missing pixels, windows with many of them skipped, edges mirrored), and
with footprints in addition. Every contestant is timed in turn in every round, best of all. Goal:
`WindowReader` at 0.9 or more of the bare reads, compressed (as archives are) or not.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import rasterio
from affine import Affine
from rasterio import windows as rasterio_windows

from marcir.geo import WindowGrid, WindowReader, footprints_of, list_scenes, windows_of
from marcir.geo.reading import CACHE_BYTES, read_windows
from marcir.geo.scene import Scene

BANDS, WINDOW, BLOCK = 4, 256, 512


def write_scene(path: Path, size: int, compress: str) -> None:
    rng = np.random.default_rng(0)
    shape = {"width": size, "height": size, "count": BANDS, "dtype": "uint8", "crs": "EPSG:32614"}
    tiles = {"tiled": True, "blockxsize": BLOCK, "blockysize": BLOCK, "photometric": "MINISBLACK"}
    tiles |= {"compress": compress}
    transform = Affine(5, 0, 400_000, 0, -5, 5_200_000)
    with rasterio.open(path, "w", driver="GTiff", transform=transform, nodata=0, **shape, **tiles) as file:
        for y in range(0, size, BLOCK):
            rows = min(BLOCK, size - y)
            pixels = rng.normal(120, 20, (BANDS, rows, size)).clip(1, 255).astype(np.uint8)
            file.write(pixels, window=rasterio_windows.Window(0, y, size, rows))


def bare(path: Path, size: int) -> int:
    count = 0
    with rasterio.Env(GDAL_CACHEMAX=CACHE_BYTES), rasterio.open(path) as file:
        for y in range(0, size, WINDOW):
            for x in range(0, size, WINDOW):
                window = rasterio_windows.Window(x, y, min(WINDOW, size - x), min(WINDOW, size - y))
                file.read(window=window)
                count += 1
    return count


def cut(scene: Scene) -> int:
    count = 0
    with WindowReader() as reader:
        for found in read_windows(reader, windows_of(scene, WindowGrid(WINDOW)), nodata_max=0.2):
            assert found.padded(WINDOW).pixels.shape == (WINDOW, WINDOW, BANDS)
            count += 1
    return count


def cut_with_footprints(scene: Scene) -> int:
    assert footprints_of(list(windows_of(scene, WindowGrid(WINDOW))))
    return cut(scene)


def cutting(size: int, repeats: int, compress: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scene.tif"
        write_scene(path, size, compress)
        (scene,) = list_scenes(path).scenes
        contestants: dict[str, Callable[[], int]] = {
            "bare rasterio": lambda: bare(path, size),
            "WindowReader": lambda: cut(scene),
            "WindowReader and footprints": lambda: cut_with_footprints(scene),
        }
        best = dict.fromkeys(contestants, 0.0)
        for _ in range(repeats):
            for name, run in contestants.items():
                start = time.perf_counter()
                count = run()
                best[name] = max(best[name], count / (time.perf_counter() - start))
    print(f"{size:,} x {size:,} x {BANDS}, compression {compress}, {count:,} windows of {WINDOW}")
    for name, speed in best.items():
        print(f"{name:30} {speed:8.0f} windows/s   {speed / best['bare rasterio']:.2f} of bare rasterio")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=10_000, help="side of the scene in pixels")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    for compress in ("deflate", "none"):
        cutting(options.size, options.repeats, compress)


if __name__ == "__main__":
    main()
