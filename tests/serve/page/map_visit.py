"""A visit to the map: where places are on the screen, and what is drawn there."""

import io
import math
from dataclasses import dataclass

import numpy as np
from PIL import Image

from serve.page.browsing import Visit
from serve.server_process import until

_IS_DRAWN = """(() => {
    const place = document.querySelector(".map-canvas");
    return place?.querySelector("canvas") != null && !place.hasAttribute("aria-busy");
})()"""


@dataclass(frozen=True)
class Map:
    """The map of a page at a known view."""

    visit: Visit
    centre: tuple[float, float]
    zoom: float

    def wait(self) -> None:
        """Until everything is drawn."""
        # `wait_for_function` would evaluate a text, which the content policy forbids.
        until(lambda: self.visit.page.evaluate(_IS_DRAWN), "the map is drawn")

    def point(self, longitude: float, latitude: float) -> tuple[float, float]:
        """Where a place is on the screen: Web Mercator, 512 pixels for the globe at zoom 0."""

        def project(degrees: float, north: float) -> tuple[float, float]:
            y = math.log(math.tan(math.pi / 4 + math.radians(north) / 2))
            return (degrees + 180) / 360, (1 - y / math.pi) / 2

        (x, y), (x0, y0) = project(longitude, latitude), project(*self.centre)
        pixels = 512 * 2**self.zoom
        box = self.visit.page.locator(".map-canvas").bounding_box()
        assert box is not None
        return (
            box["x"] + box["width"] / 2 + (x - x0) * pixels,
            box["y"] + box["height"] / 2 + (y - y0) * pixels,
        )

    def hover(self, longitude: float, latitude: float) -> None:
        self.visit.page.mouse.move(*self.point(longitude, latitude))

    def pixels(self, *places: tuple[float, float]) -> np.ndarray:
        """The colours of places. (N, 3)"""
        self.wait()
        screen = np.asarray(Image.open(io.BytesIO(self.visit.page.screenshot())).convert("RGB"))
        points = [self.point(*place) for place in places]
        return np.array([screen[round(y), round(x)] for x, y in points], dtype=int)


def open_map(visit: Visit, view: str, **question: object) -> Map:
    """Open the page at a view LON,LAT,ZOOM of its map."""
    longitude, latitude, zoom = map(float, view.split(","))
    visit.open({**question, "map": view})
    found = Map(visit, (longitude, latitude), zoom)
    found.wait()
    return found
