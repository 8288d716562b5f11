"""From a scene with known classes to labels, a model, a store, a search on the ground, and GeoParquet."""

import csv
import datetime
import json
from pathlib import Path

import geopandas
import numpy as np
import pytest
import shapely

from geo.tiffs import UTM, write_tiff
from marcir.cli import main
from marcir.geo import Window, WindowGrid, footprints_of, list_scenes, windows_of
from marcir.search.lance import LanceStore
from training_runs import train

WINDOW, COLUMNS, ROWS = 32, 8, 6
COLOURS = {"water": (20, 40, 200), "forest": (20, 160, 40), "town": (200, 60, 60)}
DAY = datetime.date(2021, 6, 15)


def classes() -> np.ndarray:
    """The class of each window: 1 water, 2 forest, 3 town. (ROWS, COLUMNS)"""
    return np.random.default_rng(1).permutation(np.arange(ROWS * COLUMNS) % 3).reshape(ROWS, COLUMNS) + 1


def write_scene(folder: Path) -> None:
    """A scene in the colours of its classes, the map of the classes, and its legend."""
    land = np.kron(classes(), np.ones((WINDOW, WINDOW), int))
    colours = np.array([(0, 0, 0), *COLOURS.values()])
    noise = np.random.default_rng(0).normal(0, 10, (3, *land.shape))
    pixels = (colours[land].transpose(2, 0, 1) + noise).clip(1, 255).astype(np.uint8)
    write_tiff(folder / "scenes/a.tif", pixels, time=f"{DAY:%Y:%m:%d} 10:00:00", photometric="RGB")
    write_tiff(folder / "map.tif", land[None].astype(np.uint8))
    rows = [f"{value},{name}" for value, name in enumerate(COLOURS, 1)]
    (folder / "legend.csv").write_text("\n".join(["value,name", *rows]))


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_windows_are_trained_indexed_found_on_the_ground_and_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_scene(tmp_path)
    cut = ["--scenes", "scenes", "--window", str(WINDOW)]
    labels = ["--map", "map.tif", "--legend", "legend.csv", "--split-blocks", str(10 * WINDOW)]
    assert main(["data", "windows", *cut, *labels, "--out", "windows"]) == 0
    train(
        *("--data.name", "windows", "--data.root", "windows", "--data.size", str(WINDOW)),
        *("--encoder.backbone", "test_resnet", "--encoder.weights", "none", "--encoder.dim", "16"),
        *("--train.epochs", "30", "--train.batch_size", "16", "--train.precision", "float32"),
        *("--run", "run"),
    )
    assert main(["index", "--model", "run", *cut, "--labels", labelled(), "--store", "a.store"]) == 0
    expected = {window.id: name for window, name in named_windows(tmp_path)}
    assert {row.id: row.labels for row in LanceStore("a.store").get(list(expected))} == {
        window: (name,) for window, name in expected.items()
    }
    longitude, latitude, query = a_point_on(tmp_path, "water")
    at = f"{longitude:.7f},{latitude:.7f}"
    capsys.readouterr()
    assert main(["search", "--store", "a.store", "--json", "--at", at, "--k", "8"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["query_images"] == [query]
    assert [expected[hit["id"]] for hit in found["hits"]] == ["water"] * 8

    assert main(["export", "--store", "a.store", "--geoparquet", "a.parquet"]) == 0
    frame = geopandas.read_parquet("a.parquet").set_index("id")
    assert sorted(frame.index) == sorted(expected)
    assert {image: names.tolist() for image, names in frame["labels"].items()} == {
        window: [name] for window, name in expected.items()
    }
    assert set(frame["date"]) == {DAY}
    rows = LanceStore("a.store").get(list(frame.index))
    assert np.array_equal(np.stack(frame["embedding"]), np.stack([row.vector for row in rows]))
    check_places(tmp_path, frame)

    west, south, east, north = frame.geometry[query].buffer(1e-6).bounds
    capsys.readouterr()
    box = f"{west},{south},{east},{north}"
    assert main(["search", "--store", "a.store", "--json", "--at", at, "--bbox", box, "--k", "99"]) == 0
    hits = json.loads(capsys.readouterr().out)["hits"]
    near = frame.index[frame.intersects(shapely.box(west, south, east, north))]
    assert sorted(hit["id"] for hit in hits) == sorted(set(near) - {query})


def labelled() -> str:
    """The labels of the dataset as a table of windows."""
    with Path("windows/windows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with Path("labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "labels"), *((row["id"], row["labels"]) for row in rows)])
    return "labels.csv"


def named_windows(folder: Path) -> list[tuple[Window, str]]:
    (scene,) = list_scenes(folder / "scenes").scenes
    names = list(COLOURS)
    return [
        (window, names[classes()[window.y // WINDOW, window.x // WINDOW] - 1])
        for window in windows_of(scene, WindowGrid(WINDOW))
    ]


def a_point_on(folder: Path, wanted: str) -> tuple[float, float, str]:
    """Longitude and latitude near the centre of a window of a class, and the window's id."""
    window = next(window for window, name in named_windows(folder) if name == wanted)
    (footprint,) = footprints_of([window])
    return footprint.geometry.centroid.x, footprint.geometry.centroid.y, window.id


def check_places(folder: Path, frame: geopandas.GeoDataFrame) -> None:
    """Corners in the projection of the scene are those of the pixel windows."""
    ground = frame.to_crs("EPSG:32614").geometry
    for window, _ in named_windows(folder):
        first, last = UTM @ (window.x, window.y), UTM @ (window.x + WINDOW, window.y + WINDOW)
        bounds = (first[0], last[1], last[0], first[1])
        assert ground[window.id].bounds == pytest.approx(bounds, abs=0.2)
