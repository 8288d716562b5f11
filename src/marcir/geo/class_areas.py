"""Maps as polygons: GeoJSON or GeoParquet, with the class of each polygon in a field."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from marcir.errors import DataError, did_you_mean, needs
from marcir.files import reason
from marcir.geo.footprints import scene_footprint
from marcir.geo.reading import WindowPixels
from marcir.geo.scene import Scene
from marcir.geo.shares import Legend, Shares
from marcir.geo.windows import Window

with needs("geo"):
    import pyproj
    import shapely
    from pyproj.exceptions import ProjError
    from rasterio import features
    from shapely.geometry import shape

PARQUET = frozenset({".parquet", ".geoparquet", ".pq"})
JSON = frozenset({".geojson", ".json"})
_WGS84 = "OGC:CRS84"
# Pieces of edges before they are reprojected. The true edge is within centimetres of them.
_PIECE_METRES = 1000.0
_METRES_PER_DEGREE = 111_320.0
# Around a scene, as a share of its size: polygons are cut there before they are reprojected.
_MARGIN = 0.05
_POLYGONS = ("Polygon", "MultiPolygon")


class ClassAreas:
    """Polygons with classes, which may overlap.

    Args:
        path: GeoJSON, or GeoParquet with geometries as WKB.
        field: The field that has the class, or a list of classes.
        legend: Names of the classes.

    Attributes:
        repaired: Number of polygons that were not valid, such as those that cross themselves.

    Raises:
        DataError: If it is not such a file.
    """

    def __init__(self, path: Path, field: str, legend: Legend) -> None:
        self.path = path
        rows, crs = (_read_parquet if path.suffix.lower() in PARQUET else _read_geojson)(path, field)
        self.crs = _crs(crs, path)
        self._names: list[str] = []
        polygons = []
        for number, (polygon, value) in enumerate(rows, 1):
            where = f"{path} feature {number}"
            if polygon is None or polygon.is_empty or value is None:
                continue  # nothing is known there
            if polygon.geom_type not in _POLYGONS:
                raise DataError(f"{where}: a {polygon.geom_type}, which has no area. Keep polygons only.")
            for each in value if isinstance(value, list) else [value]:
                if name := legend.name(_text(each), where):
                    polygons.append(polygon)
                    self._names.append(name)
        if not polygons:
            raise DataError(f"{path}: there are no polygons with a value of '{field}'.")
        self._polygons = np.array(polygons, dtype=object)
        invalid = np.flatnonzero(~shapely.is_valid(self._polygons))
        self.repaired = len(set(self._polygons[invalid].tolist()))
        self._polygons[invalid] = shapely.make_valid(self._polygons[invalid])
        self._tree = shapely.STRtree(self._polygons)

    @contextmanager
    def on_scene(self, scene: Scene, _: float | None = None) -> Iterator[Callable[[WindowPixels], Shares]]:
        """A function that returns the shares of the classes in a window of this scene."""
        polygons, names = self._in_crs_of(scene)
        tree = shapely.STRtree(polygons)

        def shares(pixels: WindowPixels) -> Shares:
            ground = _ground(pixels)
            near = tree.query(ground, predicate="intersects")
            return _shares(shapely.intersection(polygons[near], ground), names[near], ground.area)

        yield shares

    def _in_crs_of(self, scene: Scene) -> tuple[np.ndarray, np.ndarray]:
        """Polygons near a scene in its CRS, and the names of their classes."""
        around = _around(scene, self.crs)
        near = self._tree.query(around, predicate="intersects")
        cut = shapely.intersection(self._polygons[near], around)
        piece = _PIECE_METRES / (_METRES_PER_DEGREE if self.crs.is_geographic else 1.0)
        moved = _reproject(shapely.segmentize(cut, piece), self.crs, pyproj.CRS.from_user_input(scene.crs))
        return shapely.make_valid(moved), np.array([self._names[k] for k in near], dtype=object)


def _shares(pieces: np.ndarray, names: np.ndarray, total: float) -> Shares:
    """Shares of an area, of pieces of polygons within it."""
    if not total:
        return Shares({}, 0.0)
    classes = {
        name: float(shapely.union_all(pieces[names == name]).area / total) for name in dict.fromkeys(names)
    }
    # Polygons that only touch a window have no area in it.
    return Shares(
        {name: share for name, share in classes.items() if share > 0},
        float(shapely.union_all(pieces).area / total),
    )


def _ground(pixels: WindowPixels) -> Any:
    """The part of a window that has pixels, in the CRS of the scene."""
    if pixels.mask.all():
        return _outline(pixels.window)
    mask = pixels.mask.astype(np.uint8)
    shapes = features.shapes(mask, mask=pixels.mask, transform=pixels.window.affine)
    return shapely.union_all([shape(polygon) for polygon, _ in shapes])


def _outline(window: Window) -> Any:
    corners = ((0, 0), (0, window.height), (window.width, window.height), (window.width, 0))
    return shapely.Polygon([window.affine @ corner for corner in corners])


def _around(scene: Scene, crs: pyproj.CRS) -> Any:
    """Boxes around the parts of a scene on either side of the date line, in another CRS."""
    footprint = scene_footprint(scene).geometry
    boxes = []
    for part in shapely.get_parts(footprint):
        west, south, east, north = _reproject(part, pyproj.CRS(_WGS84), crs).bounds
        margin = _MARGIN * max(east - west, north - south)
        boxes.append(shapely.box(west - margin, south - margin, east + margin, north + margin))
    return shapely.union_all(boxes)


def _reproject(geometries: Any, source: pyproj.CRS, target: pyproj.CRS) -> Any:
    transformer = pyproj.Transformer.from_crs(source, target, always_xy=True)

    def moved(points: np.ndarray) -> np.ndarray:
        try:
            return np.column_stack(transformer.transform(points[:, 0], points[:, 1], errcheck=True))
        except ProjError as error:
            raise DataError(
                f"the map and the scenes are too far apart to be brought into one CRS ({reason(error)})."
            ) from error

    return shapely.transform(shapely.force_2d(geometries), moved)


def _crs(found: Any, path: Path) -> pyproj.CRS:
    if found is None:
        raise DataError(f"{path}: there is no CRS in the map. Write the file again with one.")
    try:
        return pyproj.CRS.from_user_input(found)
    except ProjError as error:
        raise DataError(f"{path}: its CRS is not known ({reason(error)}).") from error


def _text(value: Any) -> str:
    """A value of a field as in a legend: 112, also where it is stored as 112.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _read_geojson(path: Path, field: str) -> tuple[list[tuple[Any, Any]], Any]:
    """Geometries and values of the field, and the CRS: WGS84 unless an older file names another."""
    try:
        content = json.loads(path.read_bytes())
        found = _features(content, path)
        properties = [feature.get("properties") or {} for feature in found]
        geometries = [
            None if feature.get("geometry") is None else shape(feature["geometry"]) for feature in found
        ]
        crs = content.get("crs", {"properties": {"name": _WGS84}})
        crs = None if crs is None else crs["properties"]["name"]
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such map. Give a file with --map.") from None
    except DataError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path}: not GeoJSON, a FeatureCollection or a Feature ({reason(error)})."
        ) from error
    except (shapely.errors.ShapelyError, IndexError) as error:
        raise DataError(f"{path}: a geometry cannot be read ({reason(error)}).") from error
    _check_field(path, field, list(dict.fromkeys(name for each in properties for name in each)))
    return list(zip(geometries, (each.get(field) for each in properties), strict=True)), crs


def _features(content: Any, path: Path) -> list[Any]:
    """The features of GeoJSON: those of a collection, or one alone."""
    kind = content["type"]
    if kind == "Feature":
        return [content]
    if "coordinates" in content or "geometries" in content:
        raise DataError(
            f"{path}: a {kind} without properties, so it has no class. Make it a Feature with the class in "
            "its properties, or a FeatureCollection of such."
        )
    found: list[Any] = content["features"]
    return found


def _read_parquet(path: Path, field: str) -> tuple[list[tuple[Any, Any]], Any]:
    """Geometries and values of the field, and the CRS."""
    with needs("store"):
        from pyarrow import ArrowException, parquet
    try:
        table = parquet.read_table(path)
        # Not of the schema of Arrow: it lacks what a writer added when it closed the file.
        metadata = json.loads(_geo_block(parquet.read_metadata(path).metadata))
        column = metadata["primary_column"]
        about = metadata["columns"][column]
        if about["encoding"].upper() != "WKB":
            raise ValueError(f"the encoding {about['encoding']} is not supported; write WKB")
        geometries = shapely.from_wkb(table[column].to_pylist()).tolist()
        crs = about.get("crs", _WGS84)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such map. Give a file with --map.") from None
    except KeyError as error:
        raise DataError(f"{path}: not GeoParquet; its metadata lack {reason(error)}.") from error
    except (OSError, ValueError, TypeError, AttributeError, ArrowException) as error:
        raise DataError(f"{path}: not GeoParquet ({reason(error)}).") from error
    except shapely.errors.ShapelyError as error:
        raise DataError(f"{path}: a geometry cannot be read ({reason(error)}).") from error
    _check_field(path, field, [name for name in table.column_names if name != column])
    return list(zip(geometries, table[field].to_pylist(), strict=True)), crs


def _geo_block(metadata: dict[bytes, bytes] | None) -> bytes:
    """The metadata of the geometries in those of a file."""
    if metadata is None or b"geo" not in metadata:
        raise KeyError("geo")
    return metadata[b"geo"]


def _check_field(path: Path, field: str, known: list[str]) -> None:
    if field not in known:
        raise DataError(f"{path}: there is no field '{field}'. {did_you_mean(field, known)}")
