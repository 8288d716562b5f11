"""Cutting and indexing scenes, and search with filters by place and time, as ratios.

    python benchmarks/geo.py [--size 10000] [--index-size 8192] [--footprints 1000000] [--repeats 5]
                             [--only cutting|indexing|search]

A tiled GeoTIFF of size x size x 4 bytes is cut into windows of 256 pixels: with rasterio's windowed reads
alone, with `WindowReader` (mask of missing pixels, windows with many of them skipped, edges mirrored), and
with footprints in addition. Every contestant is timed in turn in every round, best of all. Goal:
`WindowReader` at 0.9 or more of the bare reads, compressed (as archives are) or not.

Indexing: three bands of a scene, compressed, go through `marcir index` into a new store (reading, mirroring,
footprints, thumbnails, ImageNet features, commits); beside it, the same windows lie in memory and are
embedded with `Model.embed`. Goal: indexing at 0.85 or more of embedding.

Images at random places and days are searched exactly, in memory, without a filter and with filters by box and
dates that let few or many through. Goal: at most 1.3 times the search without a filter. Beside it, filters by
areas that are no boxes.
"""

import argparse
import datetime
import json
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import rasterio
from affine import Affine
from rasterio import windows as rasterio_windows

from marcir.geo import SceneArchive, WindowGrid, WindowReader, footprints_of, list_scenes, windows_of
from marcir.geo.reading import CACHE_BYTES, read_windows
from marcir.geo.scene import Scene
from marcir.model.pretrained import pretrained_model
from marcir.search.area import Area
from marcir.search.area_grid import grid_of
from marcir.search.arrow import CORNERS, FOOTPRINT
from marcir.search.exact import ExactSearch
from marcir.search.index import index
from marcir.search.records import Filter

BANDS, WINDOW, BLOCK = 4, 256, 512
DIM = 128


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


def indexing(size: int, repeats: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scene.tif"
        write_scene(path, size, "deflate")
        source = SceneArchive(path, WindowGrid(WINDOW), bands=(1, 2, 3))
        model, files = pretrained_model(source)
        run = Path(folder) / "model"
        run.mkdir()
        for name, content in files.items():
            (run / name).write_bytes(content)
        pixels = [source.read(position) for position in range(len(source))]
        best = {"embedding from memory": 0.0, "indexing the scene": 0.0}
        for number in range(repeats):
            start = time.perf_counter()
            model.embed(pixels)
            middle = time.perf_counter()
            done = index(source, Path(folder) / f"{number}.store", model=run)
            end = time.perf_counter()
            assert done.added == len(source)
            for name, seconds in zip(best, (middle - start, end - middle), strict=True):
                best[name] = max(best[name], len(source) / seconds)
    print(f"{size:,} x {size:,} x 3, compression deflate, {len(source):,} windows of {WINDOW}")
    for name, speed in best.items():
        ratio = speed / best["embedding from memory"]
        print(f"{name:30} {speed:8.1f} windows/s   {ratio:.2f} of embedding")


def footprints(corners: np.ndarray) -> pa.Array:
    """Boxes, slightly turned as windows of UTM scenes are, as WKB. (N, 4)"""
    kind = np.dtype(
        [("order", "u1"), ("kind", "<u4"), ("rings", "<u4"), ("size", "<u4"), ("ring", "<f8", (5, 2))]
    )
    west, south, east, north = corners.T
    turn = 0.02 * (east - west)
    x = np.stack([west, east - turn, east, west + turn, west], 1)
    y = np.stack([south + turn, south, north - turn, north, south + turn], 1)
    found = np.zeros(len(corners), kind)
    found["order"], found["kind"], found["rings"], found["size"] = 1, 3, 1, 5
    found["ring"] = np.stack([x, y], 2)
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(kind.itemsize), len(found), [None, pa.py_buffer(found.tobytes())]
    )
    return fixed.cast(pa.binary())


def placed_archive(count: int, rng: np.random.Generator) -> ExactSearch:
    """Windows of 0.02 degrees at random places on land-like latitudes, within ten years."""
    vectors = rng.normal(size=(count, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    corners = rng.uniform([-180, -60], [179.9, 70], (count, 2))
    corners = np.concatenate([corners, corners + 0.02], 1)
    days = rng.integers(16_000, 19_650, count).astype(np.int32)
    columns = {
        "id": pa.array([f"{n:08}" for n in range(count)]),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIM),
        "labels": pa.nulls(count, pa.list_(pa.string())),
        "unknown": pa.nulls(count, pa.list_(pa.string())),
        **{name: pa.array(corners[:, place]) for place, name in enumerate(CORNERS)},
        "date": pa.array(days).cast(pa.date32()),
        FOOTPRINT: footprints(corners),
    }
    return ExactSearch(pa.table(columns))


def around(longitude: float, latitude: float, radius: float) -> Area:
    """An area with a rugged border of 400 points; its height is 0.9 of its width."""
    angles = np.linspace(0, 2 * np.pi, 401)
    away = radius * (0.85 + 0.1 * np.sin(7 * angles) + 0.05 * np.sin(61 * angles))
    points = np.stack([longitude + away * np.cos(angles), latitude + 0.9 * away * np.sin(angles)], 1)
    points[-1] = points[0]
    return Area.from_geojson(json.dumps({"type": "Polygon", "coordinates": [points.tolist()]}))


def filtered_search(count: int, repeats: int) -> None:
    rng = np.random.default_rng(0)
    archive = placed_archive(count, rng)
    query = rng.normal(size=(1, DIM))
    first, last = datetime.date(2016, 1, 1), datetime.date(2020, 12, 31)
    filters: dict[str, Filter | None] = {
        "no filter": None,
        "a town": Filter(bbox=(11.0, 48.0, 11.5, 48.5), date_from=first, date_to=last),
        "a country": Filter(bbox=(-10.0, 36.0, 4.0, 44.0), date_from=first, date_to=last),
        "a continent": Filter(bbox=(-130.0, 10.0, -60.0, 60.0), date_from=first, date_to=last),
        "the Earth": Filter(bbox=(-180.0, -90.0, 180.0, 90.0), date_from=first, date_to=last),
        "dates alone": Filter(date_from=first, date_to=last),
        "within a continent": Filter(within=around(-95.0, 35.0, 35.0), date_from=first, date_to=last),
        "within half of the Earth": Filter(within=around(0.0, 5.0, 90.0), date_from=first, date_to=last),
    }
    best = dict.fromkeys(filters, math.inf)
    for _ in range(repeats):
        for name, where in filters.items():
            grid_of.cache_clear()  # as for the first search in an area
            start = time.perf_counter()
            archive.search(query, 10, where)
            best[name] = min(best[name], time.perf_counter() - start)
    print(f"exact search over {count:,} footprints, vectors of {DIM}; five of ten years and")
    for name, seconds in best.items():
        passing = archive.count(filters[name])
        print(
            f"{name:30} {1000 * seconds:8.1f} ms   {seconds / best['no filter']:.2f} of no filter   "
            f"{passing:,} images pass"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=10_000, help="side of the scene in pixels")
    parser.add_argument("--index-size", type=int, default=8192, help="side of the scene that is indexed")
    parser.add_argument("--footprints", type=int, default=1_000_000, help="images that are searched")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=["cutting", "indexing", "search"], help="one part")
    options = parser.parse_args()
    if options.only in (None, "cutting"):
        for compress in ("deflate", "none"):
            cutting(options.size, options.repeats, compress)
    if options.only in (None, "indexing"):
        indexing(options.index_size, options.repeats)
    if options.only in (None, "search"):
        filtered_search(options.footprints, options.repeats)


if __name__ == "__main__":
    main()
