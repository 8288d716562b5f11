"""Maps as rasters: a GeoTIFF with one class per pixel, on any grid and in any CRS."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from marcir.errors import DataError, needs
from marcir.geo.datasets import broken_as, environment, open_dataset
from marcir.geo.reading import WindowPixels
from marcir.geo.scene import Scene
from marcir.geo.shares import Legend, Shares
from marcir.geo.windows import grid_size, pixel_scale

with needs("geo"):
    from affine import Affine
    from rasterio import windows as rasterio_windows
    from rasterio.enums import Resampling
    from rasterio.vrt import WarpedVRT


class ClassRaster:
    """A map of classes that is read on the grids of scenes: for each pixel, the nearest pixel of the map.

    Args:
        path: A GeoTIFF with one band of whole numbers.
        legend: Names of the numbers.

    Raises:
        DataError: If it is not such a map.
    """

    def __init__(self, path: Path, legend: Legend) -> None:
        self.path, self.legend = path, legend
        with environment(), open_dataset(str(path.absolute())) as dataset:
            if dataset.crs is None or dataset.transform.is_identity:
                what = "CRS" if dataset.crs is None else "geotransform"
                raise DataError(f"{path}: there is no {what} in the map. Add one with gdal_edit.py.")
            if dataset.count != 1 or np.dtype(dataset.dtypes[0]).kind not in "iu":
                raise DataError(
                    f"{path}: {dataset.count} band(s) of {dataset.dtypes[0]}. A map of classes has one band "
                    "of whole numbers."
                )

    @contextmanager
    def on_scene(
        self, scene: Scene, resolution: float | None = None
    ) -> Iterator[Callable[[WindowPixels], Shares]]:
        """A function that returns the shares of the classes in a window of this scene."""
        width, height = grid_size(scene, resolution)
        grid = {
            "crs": scene.crs,
            "transform": scene.affine @ Affine.scale(*pixel_scale(scene, resolution)),
            "width": width,
            "height": height,
        }
        where = str(self.path.absolute())
        with environment(), open_dataset(where) as dataset:
            with broken_as(where):
                # The alpha band marks where the map has data.
                warped = WarpedVRT(dataset, resampling=Resampling.nearest, add_alpha=True, **grid)
            with warped:
                yield lambda pixels: self._shares(warped, pixels)

    def _shares(self, warped: WarpedVRT, pixels: WindowPixels) -> Shares:
        window = pixels.window
        part = rasterio_windows.Window(window.x, window.y, window.width, window.height)
        with broken_as(str(self.path)):
            values, alpha = warped.read(window=part)
        total = max(1, int(np.count_nonzero(pixels.mask)))
        found, counts = np.unique(values[pixels.mask & (alpha > 0)], return_counts=True)
        classes: dict[str, float] = {}
        for value, count in zip(found.tolist(), counts.tolist(), strict=True):
            if name := self.legend.name(str(value), str(self.path)):
                classes[name] = classes.get(name, 0.0) + count / total
        return Shares(classes, sum(classes.values()))
