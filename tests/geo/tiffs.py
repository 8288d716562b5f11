"""Small GeoTIFFs, and a server for them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine

UTM = Affine(10, 0, 500_000, 0, -10, 5_000_000)


def ramp(bands: int, height: int, width: int, dtype: str = "uint8") -> np.ndarray:
    """Pixels that differ from place to place and from band to band, none of them 0. (C, H, W)"""
    values = np.arange(bands * height * width).reshape(bands, height, width) % 250 + 1
    return values.astype(dtype)


def write_tiff(
    path: Path,
    pixels: np.ndarray,
    crs: str | None = "EPSG:32614",
    transform: Affine | None = UTM,
    time: str = "",
    mask: np.ndarray | None = None,
    names: tuple[str, ...] = (),
    **options: Any,
) -> Path:
    """Write pixels (C, H, W) as a GeoTIFF."""
    path.parent.mkdir(parents=True, exist_ok=True)
    bands, height, width = pixels.shape
    place = {} if transform is None else {"transform": transform}
    shape: dict[str, Any] = {"count": bands, "height": height, "width": width, "dtype": pixels.dtype}
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(path, "w", driver="GTiff", crs=crs, **place, **shape, **options) as file,
    ):
        file.write(pixels)
        if time:
            file.update_tags(TIFFTAG_DATETIME=time)
        if mask is not None:
            file.write_mask(mask)
        for index, name in enumerate(names, 1):
            file.set_band_description(index, name)
    return path


class _Handler(SimpleHTTPRequestHandler):
    """Files of a folder, with ranges, as GDAL needs them."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        asked = self.headers.get("Range")
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        if self.path.startswith("/redirect?"):
            self.send_response(302)
            self.send_header("Location", self.path.partition("?")[2])
            return self.end_headers()
        if not asked or not path.is_file() or not self.server.ranges:  # type: ignore[attr-defined]
            return super().do_GET()
        content = path.read_bytes()
        first, _, last = asked.removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last or len(content)) + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}")
        self.send_header("Last-Modified", self.date_time_string(int(path.stat().st_mtime)))
        self.send_header("ETag", f'"{len(content)}-{path.stat().st_mtime_ns}"')
        self.end_headers()
        self.wfile.write(part)
        return None

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path, ranges: bool = True) -> Iterator[tuple[str, list[str]]]:
    """Address of a server for a folder, and the paths that were asked for."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: _Handler(*a, directory=str(folder)))
    server.asked, server.ranges = [], ranges  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.asked  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
