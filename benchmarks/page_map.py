"""How many frames a second the map of similarity of the page draws while it is panned.

    python benchmarks/page_map.py --points 100000

A headless Chromium opens the files of the page; what the service would answer is made here: an archive of
clusters with eight labels. A script holds the map and moves it by some pixels in every frame.
"""

import argparse
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from playwright.sync_api import sync_playwright

PAGE = Path(__file__).parents[1] / "src/marcir/serve/page"
LABELS = [f"label {number}" for number in range(8)]
SECONDS = 5
# Moves the pointer once per frame, as a hand does, and returns the milliseconds between frames.
_PAN = """seconds => new Promise(resolve => {
    const canvas = document.querySelector(".similarity-area canvas");
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const send = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, {
        pointerId: 1, button: 0, isPrimary: true, bubbles: true,
        clientX: left + width / 2 + x, clientY: top + height / 2 + y,
    }));
    canvas.setPointerCapture = () => {};
    send("pointerdown", 0, 0);
    const times = [performance.now()];
    const step = () => {
        const now = performance.now();
        times.push(now);
        const turn = (now - times[0]) / 400;
        send("pointermove", 120 * Math.sin(turn), 90 * Math.cos(turn));
        if (now - times[0] < 1000 * seconds) requestAnimationFrame(step);
        else resolve(times.slice(1).map((time, at) => time - times[at]));
    };
    requestAnimationFrame(step);
})"""


def points(size: int) -> bytes:
    """What GET /api/map would send: 40 clusters, each with its labels."""
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 40, size)
    places = rng.uniform(-0.8, 0.8, (40, 2))[cluster] + rng.normal(0, 0.07, (size, 2))
    places = np.clip(places, -1, 1).astype("<f4")
    labels = (1 << (cluster % 10)).astype("<u4") & 0xFF  # a fifth has none of the eight
    rows = np.arange(size, dtype="<u4")
    return b"".join(part.tobytes() for part in (places[:, 0].copy(), places[:, 1].copy(), rows, labels))


class _Service(SimpleHTTPRequestHandler):
    """The files of the page, and an archive that was made up."""

    def __init__(self, *given: Any, size: int) -> None:
        self._size = size
        super().__init__(*given, directory=str(PAGE))

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        labels = [{"name": name, "count": self._size // 10, "unknown": 0} for name in LABELS]
        answers: dict[str, Any] = {
            "/api/archive": {
                "name": "synthetic",
                "images": self._size,
                "labels": labels,
                "version": "",
                "has_map": True,
                "editable": False,
                "max_upload_bytes": 1,
            },
            "/api/labels": {"images": self._size, "labels": labels},
            "/api/collections": {"collections": []},
        }
        if path == "/api/map":
            numbers = {"X-Marcir-Points": self._size, "X-Marcir-Total": self._size, "X-Marcir-Version": "1"}
            self._send(points(self._size), "application/octet-stream", numbers)
        elif path in answers:
            self._send(json.dumps(answers[path]).encode(), "application/json", {})
        else:
            self.path = "/index.html" if path == "/" else path.removeprefix("/page")
            super().do_GET()

    def _send(self, content: bytes, kind: str, headers: dict[str, Any]) -> None:
        self.send_response(200)
        for name, value in {"Content-Type": kind, "Content-Length": len(content), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def measure(size: int, width: int, height: int, zoomed: int) -> list[float]:
    """Milliseconds between frames."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Service, size=size))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto(f"http://127.0.0.1:{server.server_port}/?view=similarity")
        page.get_by_text("none of these").wait_for()
        for _ in range(zoomed):
            page.get_by_role("button", name="Zoom in").click()
        times: list[float] = page.evaluate(_PAN, SECONDS)
        browser.close()
    server.shutdown()
    return times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--points", type=int, nargs="+", default=[20_000, 100_000, 200_000])
    parser.add_argument("--width", type=int, default=1440)
    parser.add_argument("--height", type=int, default=900)
    options = parser.parse_args()
    print("points    zoom   frames/s   slowest 5 % of frames")
    for size in options.points:
        for zoomed in (0, 6):
            times = np.array(measure(size, options.width, options.height, zoomed))
            print(
                f"{size:>7,}   {1.4**zoomed:>4.1f}   {1000 / times.mean():>8.1f}   "
                f"{1000 / np.quantile(times, 0.95):>8.1f} frames/s"
            )


if __name__ == "__main__":
    main()
