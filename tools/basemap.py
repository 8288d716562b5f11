"""Make the offline base map of the page from Natural Earth's countries, 1:110m, in the public domain.

    pip download --no-deps geopandas==0.14.4
    python tools/basemap.py geopandas-0.14.4-py3-none-any.whl src/marcir/serve/page/vendor/basemap.json

The wheel of that version holds Natural Earth 5.1.1 as a shapefile.
"""

import json
import sys
from pathlib import Path
from typing import Any

import geopandas
import shapely

SHAPES = "geopandas/datasets/naturalearth_lowres/naturalearth_lowres.shp"
DECIMALS = 2  # of a degree: about 1 km, finer than the shapes are
# Where polygons are cut, and the rim of Antarctica: edges of the data, not of land.
CUTS = shapely.MultiLineString(
    [[(-180, -90), (-180, 90)], [(180, -90), (180, 90)], [(-180, -90), (180, -90)]]
)


def feature(kind: str, geometry: shapely.Geometry) -> dict[str, Any]:
    """A GeoJSON feature with rounded coordinates."""
    content = json.loads(shapely.to_geojson(geometry), parse_float=lambda text: round(float(text), DECIMALS))
    return {"type": "Feature", "properties": {"kind": kind}, "geometry": content}


def basemap(wheel: Path) -> dict[str, Any]:
    """Land as polygons, and coasts and borders as lines, each border once."""
    countries = geopandas.read_file(f"/vsizip/{{{wheel.resolve()}}}/{SHAPES}").geometry.to_numpy()
    grid = 10.0**-DECIMALS
    land = shapely.union_all(countries, grid_size=grid)
    lines = shapely.union_all(shapely.boundary(shapely.set_precision(countries, grid)), grid_size=grid)
    coasts = shapely.difference(shapely.boundary(land), CUTS, grid_size=grid)
    borders = shapely.difference(shapely.difference(lines, CUTS, grid_size=grid), coasts, grid_size=grid)
    features = [
        feature("land", land),
        feature("coast", shapely.line_merge(coasts)),
        feature("border", shapely.line_merge(borders)),
    ]
    return {"type": "FeatureCollection", "features": features}


if __name__ == "__main__":
    wheel, out = map(Path, sys.argv[1:])
    out.write_text(json.dumps(basemap(wheel), separators=(",", ":")) + "\n", "utf-8")
    print(f"{out}: {out.stat().st_size:,} bytes")
