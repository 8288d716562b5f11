"""Labels from maps: the same as counted pixel by pixel and drawn by hand; what is not mapped is unknown."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyproj
import pytest
import rasterio
import shapely
from affine import Affine
from pyarrow import parquet

from geo.tiffs import UTM, ramp, write_tiff
from marcir.cli import main
from marcir.errors import ConfigError, DataError, MarcirError
from marcir.geo.labelling import label_windows
from marcir.geo.shares import Legend, Shares
from marcir.search import MemoryStore, Row
from marcir.search.geoparquet import write_geoparquet
from marcir.search.records import About

NAMES = {1: "field", 2: "forest", 3: "water", 4: "town"}


def patches(height: int, width: int, seed: int = 0, side: int = 7) -> np.ndarray:
    """Random rectangles of the classes 1 to 4. (H, W)"""
    rows, columns = -(-height // side), -(-width // side)
    coarse = np.random.default_rng(seed).integers(1, 5, (rows, columns))
    return np.kron(coarse, np.ones((side, side), int))[:height, :width].astype(np.uint8)


def write_legend(path: Path, names: dict[int, str] = NAMES) -> Path:
    path.write_text("value,name\n" + "".join(f"{value},{name}\n" for value, name in names.items()))
    return path


def rows_of(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "windows.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def labels_of(folder: Path) -> dict[str, set[str]]:
    return {name: set(filter(None, row["labels"].split(";"))) for name, row in rows_of(folder).items()}


def write_areas(path: Path, areas: list[tuple[Any, Any]], **more: Any) -> Path:
    """GeoJSON of geometries and the field `cover`."""
    features = [
        {"type": "Feature", "properties": {"cover": value}, "geometry": shapely.geometry.mapping(area)}
        for area, value in areas
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features, **more}))
    return path


def utm_box(left: float, top: float, right: float, bottom: float) -> Any:
    """A box in pixels of scenes with the geotransform `UTM`, in its CRS."""
    (x0, y0), (x1, y1) = UTM @ (left, top), UTM @ (right, bottom)
    return shapely.box(x0, y1, x1, y0)


IN_UTM = {"crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32614"}}}


@pytest.mark.parametrize(("window", "stride"), [(32, None), (32, 20), (200, None)])
def test_labels_of_a_raster_are_those_of_a_loop_over_the_pixels(
    tmp_path: Path, window: int, stride: int | None
) -> None:
    classes, pixels = patches(100, 130), ramp(3, 100, 130)
    pixels[:, 40:60, 10:30] = 0  # missing
    write_tiff(tmp_path / "scenes/a.tif", pixels, nodata=0)
    write_tiff(tmp_path / "map.tif", classes[None])
    legend = write_legend(tmp_path / "legend.csv")
    made = label_windows(
        tmp_path / "scenes",
        tmp_path / "map.tif",
        tmp_path / "out",
        legend=legend,
        min_share=0.2,
        window=window,
        stride=stride,
        nodata_max=0.5,
    )
    rows = rows_of(tmp_path / "out")
    assert len(rows) == made.windows > 0
    for row in rows.values():
        x, y, width, height = (int(row[name]) for name in ("x", "y", "width", "height"))
        counts, seen = dict.fromkeys(NAMES, 0), 0
        for j in range(y, y + height):
            for i in range(x, x + width):
                if pixels[:, j, i].any():
                    seen += 1
                    counts[int(classes[j, i])] += 1
        wanted = {NAMES[value] for value, count in counts.items() if count >= 0.2 * seen}
        assert set(filter(None, row["labels"].split(";"))) == wanted, row["id"]


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:3857", "EPSG:32613"])
@pytest.mark.parametrize("turn", [0, 20])
def test_a_map_in_another_crs_is_read_where_the_windows_are(tmp_path: Path, crs: str, turn: float) -> None:
    transform = UTM @ Affine.rotation(turn)
    write_tiff(tmp_path / "scenes/a.tif", ramp(1, 96, 96), transform=transform)
    to_map = pyproj.Transformer.from_crs("EPSG:32614", crs, always_xy=True)
    corners = np.array([transform @ corner for corner in ((0, 0), (96, 0), (0, 96), (96, 96))])
    xs, ys = to_map.transform(corners[:, 0], corners[:, 1])
    step = (max(xs) - min(xs)) / 60
    place = Affine(step, 0, min(xs) - step, 0, -step, max(ys) + step)
    classes = patches(120, 70, side=9)
    write_tiff(tmp_path / "map.tif", classes[None], crs=crs, transform=place)
    label_windows(tmp_path / "scenes", tmp_path / "map.tif", tmp_path / "out", min_share=0.1, window=32)
    rows = rows_of(tmp_path / "out")
    assert len(rows) == 9
    for row in rows.values():
        x, y = int(row["x"]), int(row["y"])
        counts = dict.fromkeys(NAMES, 0)
        for j in range(y, y + 32):
            for i in range(x, x + 32):
                column, line = ~place @ to_map.transform(*(transform @ (i + 0.5, j + 0.5)))
                counts[int(classes[int(line), int(column)])] += 1
        # GDAL interpolates coordinates within an eighth of a pixel.
        clear = {value: n for value, n in counts.items() if abs(n / 1024 - 0.1) > 0.01}
        found = set(row["labels"].split(";"))
        assert {str(value) for value, n in clear.items() if n > 102} <= found
        assert not {str(value) for value, n in clear.items() if n < 102} & found


def test_labels_of_a_real_crop_map_are_those_of_a_loop(tmp_path: Path, shared: Path) -> None:
    crops = shared / "data/geo/other/CDL_2016_19_train.tif"
    if not crops.is_file():
        pytest.skip(f"{crops} is missing")
    place = Affine(0.0004, 0, -93.2, 0, -0.0003, 42.85)  # about 33 m, in degrees
    write_tiff(tmp_path / "scenes/a.tif", ramp(3, 64, 64), crs="EPSG:4326", transform=place)
    label_windows(tmp_path / "scenes", crops, tmp_path / "out", window=32, min_share=0.05)
    to_map = pyproj.Transformer.from_crs("EPSG:4326", "EPSG:32615", always_xy=True)
    labels = labels_of(tmp_path / "out")
    assert len(labels) == 4
    with rasterio.open(crops) as file:
        for name, found in labels.items():
            x, y = (int(part[2:]) for part in name.partition("@")[2].split(",")[:2])
            points = [
                to_map.transform(*(place @ (i + 0.5, j + 0.5)))
                for j in range(y, y + 32)
                for i in range(x, x + 32)
            ]
            values, counts = np.unique([int(value[0]) for value in file.sample(points)], return_counts=True)
            shares = {str(value): n / 1024 for value, n in zip(values, counts, strict=True)}
            known = {value for value in shares if value != str(int(file.nodata or -1))}
            assert {value for value in known if shares[value] > 0.06} <= found
            assert not {value for value in known if shares[value] < 0.04} & found


def test_a_map_is_read_at_the_resolution_of_the_windows(tmp_path: Path) -> None:
    write_tiff(tmp_path / "scenes/a.tif", ramp(1, 128, 128))
    classes = np.ones((1, 128, 128), np.uint8)
    classes[:, 64:, 64:] = 2
    write_tiff(tmp_path / "map.tif", classes)
    label_windows(tmp_path / "scenes", tmp_path / "map.tif", tmp_path / "out", window=32, resolution=20)
    labels = labels_of(tmp_path / "out")
    assert labels["a.tif@x=0,y=0,w=32,h=32,r=20"] == {"1"}
    assert labels["a.tif@x=32,y=32,w=32,h=32,r=20"] == {"2"}


def test_what_the_map_does_not_cover_is_unknown(tmp_path: Path) -> None:
    write_tiff(tmp_path / "scenes/a.tif", ramp(1, 40, 160))
    classes = np.ones((1, 40, 100), np.uint8)  # ends within the third window of four
    classes[:, :, 60:70] = 2
    classes[:, 0, 0] = 9  # nodata: 1 of 1600 pixels, less than the smallest share
    write_tiff(tmp_path / "map.tif", classes, nodata=9)
    made = label_windows(tmp_path / "scenes", tmp_path / "map.tif", tmp_path / "out", window=40)
    labels = labels_of(tmp_path / "out")
    assert labels == {
        "a.tif@x=0,y=0,w=40,h=40": {"1"},
        "a.tif@x=40,y=0,w=40,h=40": {"1", "2"},
        "a.tif@x=80,y=0,w=40,h=40": {"1", "?2"},
    }
    assert (made.windows, made.unmapped) == (3, 1)
    assert made.unknown == pytest.approx(1 / 6)
    assert "left out: 1 windows where the map has no data" in str(made)
    label_windows(tmp_path / "scenes", tmp_path / "map.tif", tmp_path / "all", window=40, unmapped="absent")
    assert labels_of(tmp_path / "all") == {
        **labels,
        "a.tif@x=80,y=0,w=40,h=40": {"1"},
        "a.tif@x=120,y=0,w=40,h=40": set(),
    }


def test_a_class_below_the_share_is_unknown_only_if_the_rest_could_make_up_for_it() -> None:
    shares = Shares({"a": 0.006, "b": 0.5}, covered=0.995)
    assert shares.present(0.01) == {"b"}
    assert shares.unknown(["a", "b", "c"], 0.01) == ["a"]
    assert Shares({"a": 0.01 - 1e-12}, 1.0).present(0.01) == {"a"}


def test_labels_of_polygons_are_those_drawn_by_hand(tmp_path: Path) -> None:
    pixels = ramp(1, 40, 120)
    pixels[:, :20, 80:] = 0  # the upper half of the third window is missing
    write_tiff(tmp_path / "scenes/a.tif", pixels, nodata=0)
    areas = [
        (utm_box(-10, -10, 130, 50), "land"),
        (utm_box(0, 0, 4, 3.9), "pond"),  # 15.6 of 1600 pixels
        (utm_box(40, 0, 44, 4), "pond"),  # 16 of 1600 pixels: one per cent
        (utm_box(80, 0, 120, 19), "lake"),  # where pixels are missing
        (utm_box(80, 20, 84, 22), "park"),  # 8 of the 800 pixels that are there
    ]
    path = write_areas(tmp_path / "areas.geojson", areas, **IN_UTM)
    label_windows(tmp_path / "scenes", path, tmp_path / "out", field="cover", window=40, nodata_max=0.5)
    assert labels_of(tmp_path / "out") == {
        "a.tif@x=0,y=0,w=40,h=40": {"land"},
        "a.tif@x=40,y=0,w=40,h=40": {"land", "pond"},
        "a.tif@x=80,y=0,w=40,h=40": {"land", "park"},
    }


def test_polygons_that_overlap_are_counted_once_and_invalid_ones_repaired(tmp_path: Path) -> None:
    write_tiff(tmp_path / "scenes/a.tif", ramp(1, 40, 40))
    bow = shapely.Polygon([UTM @ corner for corner in ((0, 0), (40, 40), (40, 0), (0, 40))])
    areas = [
        (utm_box(0, 0, 20, 8), "a"),
        (utm_box(0, 0, 20, 8), "a"),  # 10 % and not 20 %
        (bow, "b"),  # half of the window
        (utm_box(0, 0, 40, 40), None),
    ]
    path = write_areas(tmp_path / "areas.geojson", areas, **IN_UTM)
    options = {"field": "cover", "window": 40, "min_share": 0.15}
    made = label_windows(tmp_path / "scenes", path, tmp_path / "out", **options)  # type: ignore[arg-type]
    assert made.repaired == 1
    assert labels_of(tmp_path / "out") == {"a.tif@x=0,y=0,w=40,h=40": {"b"}}
    assert made.counts == {"b": 1}


def test_geojson_in_degrees_and_geoparquet_have_the_same_labels(tmp_path: Path) -> None:
    geopandas = pytest.importorskip("geopandas")
    write_tiff(tmp_path / "scenes/a.tif", ramp(1, 80, 80))
    areas = [(utm_box(-5, -5, 40.5, 85), 112.0), (utm_box(40.5, -5, 85, 85), 211.0)]
    frame = geopandas.GeoDataFrame(
        {"cover": [value for _, value in areas]}, geometry=[area for area, _ in areas], crs="EPSG:32614"
    )
    frame.to_parquet(tmp_path / "areas.parquet")
    frame.to_crs("EPSG:4326").to_file(tmp_path / "areas.geojson", driver="GeoJSON")
    legend = write_legend(tmp_path / "legend.csv", {112: "town", 211: "field"})
    found = []
    for name in ("areas.parquet", "areas.geojson"):
        out = tmp_path / name.replace(".", "-")
        options: Any = {"field": "cover", "legend": legend, "window": 40, "min_share": 0.005}
        label_windows(tmp_path / "scenes", tmp_path / name, out, **options)
        found.append(labels_of(out))
    assert found[0] == found[1]
    assert found[0]["a.tif@x=0,y=0,w=40,h=40"] == {"town"}
    assert found[0]["a.tif@x=40,y=0,w=40,h=40"] == {"field", "town"}


def test_an_export_of_an_archive_is_a_map_and_its_labels_are_classes(tmp_path: Path) -> None:
    write_tiff(tmp_path / "scenes/a.tif", ramp(1, 40, 120))
    forth = pyproj.Transformer.from_crs("EPSG:32614", "EPSG:4326", always_xy=True)

    def row(name: str, left: float, right: float, *labels: str) -> Row:
        place = shapely.transform(
            utm_box(left, -5, right, 45), lambda points: np.stack(forth.transform(*points.T), 1)
        )
        wkb = shapely.to_wkb(place)
        return Row(name, np.array([1, 0], np.float32), labels, bbox=place.bounds, footprint=wkb)

    rows = [row("one", -5, 40.5, "lake", "wood"), row("two", 40.5, 80.5, "lake"), row("three", 80, 200)]
    store = MemoryStore(About("0123456789abcdef", 2, "archive"))
    store.add([*rows, Row("nowhere", np.array([1, 0], np.float32), ("lake",))])
    write_geoparquet(store, tmp_path / "archive.parquet")
    options: Any = {"field": "labels", "window": 40, "min_share": 0.05}
    label_windows(tmp_path / "scenes", tmp_path / "archive.parquet", tmp_path / "out", **options)
    assert labels_of(tmp_path / "out") == {
        "a.tif@x=0,y=0,w=40,h=40": {"lake", "wood"},
        "a.tif@x=40,y=0,w=40,h=40": {"lake"},
        "a.tif@x=80,y=0,w=40,h=40": {"?lake", "?wood"},
    }


def test_a_feature_alone_is_a_map(tmp_path: Path) -> None:
    write_tiff(tmp_path / "scenes/a.tif", ramp(1, 40, 40))
    content = json.loads(write_areas(tmp_path / "areas.geojson", [(utm_box(0, 0, 40, 40), "a")]).read_text())
    (tmp_path / "area.geojson").write_text(json.dumps({**content["features"][0], **IN_UTM}))
    label_windows(tmp_path / "scenes", tmp_path / "area.geojson", tmp_path / "out", field="cover", window=40)
    assert labels_of(tmp_path / "out") == {"a.tif@x=0,y=0,w=40,h=40": {"a"}}


def test_polygons_of_the_whole_earth_fit_a_scene_at_the_date_line(tmp_path: Path) -> None:
    place = Affine(100, 0, 830_000, 0, -100, 100_000)  # about 180 degrees east, in the zone that ends there
    write_tiff(tmp_path / "scenes/a.tif", ramp(1, 80, 160), crs="EPSG:32660", transform=place)
    areas = [
        (shapely.box(-180, -90, 0, 90), "west"),
        (shapely.box(0, -90, 180, 90), "east"),
    ]
    path = write_areas(tmp_path / "areas.geojson", areas)
    label_windows(tmp_path / "scenes", path, tmp_path / "out", field="cover", window=80)
    rows = rows_of(tmp_path / "out")
    assert {name: row["labels"] for name, row in rows.items()} == {
        "a.tif@x=0,y=0,w=80,h=80": "east;west",
        "a.tif@x=80,y=0,w=80,h=80": "west",
    }
    assert float(rows["a.tif@x=0,y=0,w=80,h=80"]["west"]) > float(rows["a.tif@x=0,y=0,w=80,h=80"]["east"])


def test_a_legend_joins_classes_and_leaves_values_out(tmp_path: Path) -> None:
    write_tiff(tmp_path / "scenes/a.tif", ramp(1, 10, 40))
    classes = np.repeat(np.array([[[1, 2, 3, 0]]], np.uint8), 10, 2).repeat(10, 1)
    write_tiff(tmp_path / "map.tif", classes)
    legend = tmp_path / "legend.csv"
    legend.write_text("\ufeffvalue,name\r\n1,wood\r\n2,wood\r\n3,water\r\n0,\r\n", "utf-8")
    made = label_windows(
        tmp_path / "scenes", tmp_path / "map.tif", tmp_path / "out", legend=legend, window=20
    )
    assert labels_of(tmp_path / "out") == {
        "a.tif@x=0,y=0,w=20,h=10": {"wood"},
        "a.tif@x=20,y=0,w=20,h=10": {"water", "?wood"},
    }
    assert made.counts == {"water": 1, "wood": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("number,name\n1,a\n", "line 1: found number,name. The header must be: value,name"),
        ("value,name\n1,a\n1,b\n", "line 3: duplicate value '1'"),
        ("value,name\n1,a,b\n", "line 2: expected value,name, found 3 columns"),
        ("value,name\n1,a;b\n", "line 2: 'a;b' cannot be a label"),
        ("value,name\n1,?a\n", "line 2: '?a' cannot be a label"),
        ("", "the file is empty"),
    ],
)
def test_a_mistake_in_a_legend_is_named_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "legend.csv"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        Legend.load(path)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


FAR = Affine(10, 0, 800_000, 0, -10, 4_000_000)


def bad_inputs(folder: Path) -> dict[str, tuple[dict[str, Any], str]]:
    """Options by name, and what the error says."""
    classes = np.ones((1, 40, 40), np.uint8)
    legend = write_legend(folder / "legend.csv", {2: "b"})
    write_tiff(folder / "map.tif", classes)
    write_tiff(folder / "far.tif", classes, transform=FAR)
    write_tiff(folder / "nocrs.tif", classes, crs=None)
    write_tiff(folder / "float.tif", classes.astype("float32"))
    write_tiff(folder / "rgb.tif", np.repeat(classes, 3, 0))
    inside = utm_box(0, 0, 40, 40)
    write_areas(folder / "a.geojson", [(inside, "a")], **IN_UTM)
    write_areas(folder / "far.geojson", [(shapely.box(0, 0, 1, 1), "a")])
    write_areas(folder / "line.geojson", [(shapely.LineString([(0, 0), (1, 1)]), "a")])
    write_areas(folder / "small.geojson", [(utm_box(0, 0, 1, 1), "a")], **IN_UTM)
    write_areas(folder / "null.geojson", [(inside, "a")], crs=None)
    write_areas(folder / "odd.geojson", [(inside, "a")], crs={"properties": {"name": "EPSG:0"}})
    (folder / "text.geojson").write_text("{")
    (folder / "text.parquet").write_text("{")
    (folder / "bare.geojson").write_text(shapely.to_geojson(inside))
    parquet.write_table(pa.table({"cover": ["a"]}), folder / "plain.parquet")
    (folder / "full").mkdir()
    (folder / "full/mine.txt").write_text("mine")
    field = {"field": "cover"}
    return {
        "a legend without the value": ({"legend": legend}, "the value '1' of .*map.tif is not in it"),
        "no legend there": ({"legend": "none.csv"}, "none.csv: there is no such legend"),
        "no map there": ({"map": "none.tif"}, "none.tif: there is no such map"),
        "a map elsewhere": ({"map": "far.tif"}, "far.tif: the map does not overlap the scenes"),
        "a map without a crs": ({"map": "nocrs.tif"}, "nocrs.tif: there is no CRS in the map"),
        "a map of floats": ({"map": "float.tif"}, r"1 band\(s\) of float32. A map of classes"),
        "a map in colour": ({"map": "rgb.tif"}, r"3 band\(s\) of uint8"),
        "an unknown kind of map": ({"map": "legend.csv"}, "not a kind of map"),
        "a raster with a field": (field, "--field cover: goes with polygons"),
        "polygons without a field": ({"map": "a.geojson"}, "polygons need --field"),
        "another field": ({"map": "a.geojson", "field": "covr"}, "no field 'covr'. Did you mean 'cover'"),
        "polygons elsewhere": ({"map": "far.geojson", **field}, "does not overlap the scenes"),
        "lines": ({"map": "line.geojson", **field}, "feature 1: a LineString, which has no area"),
        "too small": ({"map": "small.geojson", **field}, "no class covers 1.0 % of any window"),
        "crs null": ({"map": "null.geojson", **field}, "there is no CRS in the map"),
        "crs unknown": ({"map": "odd.geojson", **field}, "its CRS is not known"),
        "no json": ({"map": "text.geojson", **field}, "not GeoJSON, a FeatureCollection or a Feature"),
        "no parquet": ({"map": "text.parquet", **field}, "not GeoParquet"),
        "a polygon alone": ({"map": "bare.geojson", **field}, "a Polygon without properties, .* a Feature"),
        "no geometries": ({"map": "plain.parquet", **field}, "not GeoParquet; its metadata lack 'geo'"),
        "a full folder": ({"out": "full"}, "is there already and not an empty folder"),
        "a share of 0": ({"min_share": 0}, "min_share = 0: must be above 0"),
        "a share of 2": ({"min_share": 2}, "min_share = 2.0: must lie between 0 and 1"),
        "blocks below 0": ({"split_blocks": -1}, "split_blocks = -1: must be 0 or more"),
        "no such band": ({"bands": (4,)}, "there is no band 4; it has 2"),
        "no scenes": ({"scenes": "none"}, "none: there is no such folder or file"),
        "only the map": ({"scenes": "map.tif"}, "there are no scenes besides the map"),
        "all pixels missing": ({"scenes": "empty"}, "too many pixels are missing in all windows"),
        "several dtypes": ({"scenes": "mixed"}, "the scenes differ in dtype.* A model needs them alike"),
    }


CASES = [
    *("a legend without the value", "no legend there", "no map there", "a map elsewhere"),
    *("a map without a crs", "a map of floats", "a map in colour", "an unknown kind of map"),
    *("a raster with a field", "polygons without a field", "another field", "polygons elsewhere", "lines"),
    *(
        "too small",
        "crs null",
        "crs unknown",
        "no json",
        "no parquet",
        "a polygon alone",
        "no geometries",
        "a full folder",
        "a share of 0",
    ),
    *("a share of 2", "blocks below 0", "no such band", "no scenes", "only the map", "all pixels missing"),
    "several dtypes",
]


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line_and_leaves_nothing_behind(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tiff(tmp_path / "scenes/a.tif", ramp(2, 40, 40))
    write_tiff(tmp_path / "empty/a.tif", np.zeros((1, 40, 40), np.uint8), nodata=0)
    write_tiff(tmp_path / "mixed/a.tif", ramp(2, 40, 40))
    write_tiff(tmp_path / "mixed/b.tif", ramp(2, 40, 40, "uint16"))
    cases = bad_inputs(tmp_path)
    assert list(cases) == CASES
    options, expected = cases[case]
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(MarcirError, match=expected) as caught:
        label_windows(**{"scenes": "scenes", "map": "map.tif", "out": "out", "window": 40, **options})
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_broken_scene_is_listed_and_the_others_are_labelled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tiff(tmp_path / "scenes/a.tif", ramp(1, 64, 64))
    broken = write_tiff(tmp_path / "scenes/b.tif", ramp(1, 64, 64), tiled=True, blockxsize=16, blockysize=16)
    broken.write_bytes(broken.read_bytes()[:-2000])
    (tmp_path / "scenes/c.tif").write_text("no image")
    write_tiff(tmp_path / "scenes/map.tif", np.ones((1, 64, 64), np.uint8))
    options = ["--scenes", str(tmp_path / "scenes"), "--map", str(tmp_path / "scenes/map.tif")]
    code = main(["data", "windows", *options, "--window", "32", "--out", str(tmp_path / "out")])
    printed = capsys.readouterr()
    assert code == 1
    assert "b.tif" in printed.err
    assert "c.tif" in printed.err
    assert {row["scene"] for row in rows_of(tmp_path / "out").values()} == {"a.tif"}
    assert "4 windows of 1 scenes" in printed.out
    assert "WARNING: 1 block(s) of 5000 m are too few" in printed.out


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    write_tiff(tmp_path / "scenes/a.tif", ramp(1, 40, 40))
    write_tiff(tmp_path / "map.tif", np.ones((1, 40, 40), np.uint8))
    (tmp_path / "out").mkdir()
    label_windows(tmp_path / "scenes", tmp_path / "map.tif", tmp_path / "out", window=40)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["windows.csv", "windows.json"]
    with pytest.raises(ConfigError, match="not an empty folder"):
        label_windows(tmp_path / "scenes", tmp_path / "map.tif", tmp_path / "out", window=40)
