"""Browsing and suggestions of a large archive: listing any page, suggestions, and the points of the map.

    python benchmarks/browse.py [--rows 1000000] [--dim 128] [--approximate]

Random unit vectors, labels, places and dates in a store without thumbnails, made once in the cache
($MARCIR_CACHE); a label is unknown for 99 of 100 images. The service answers in a process of its own; times
are those of its Server-Timing header, without the network, and the processor time of the process, which other
work on the machine changes less. With --approximate, the store is read as one whose
vectors do not fit into memory.
Goals, for 1,000,000 rows: every page of a listing below 100 ms, suggestions the first time below 5 s.
"""

import argparse
import datetime
import http.client
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import numpy as np

from marcir.files import cache_folder
from marcir.search import Row
from marcir.search.lance import LanceStore
from marcir.search.map_update import update_map
from marcir.search.records import About
from serve import LABELS, PART, name

PAGE_GOAL, SUGGESTION_GOAL = 100.0, 5000.0
MODEL = {"config.json": b"", "model.safetensors": b""}
UNKNOWN = "mostly unknown"
REPEATS = 20
# The service, with the limit of vectors in memory as it is, or without room for any.
SERVE = "import sys; from marcir.search import lance; lance.IN_MEMORY = {memory}; "
SERVE += "from marcir.cli import main; sys.exit(main(sys.argv[1:]))"


def make_store(rows: int, dim: int) -> Path:
    folder = cache_folder() / "benchmarks" / f"browse-{rows}-{dim}.store"
    if folder.exists():
        return folder
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as temporary:
        made = Path(temporary) / "store"
        store = LanceStore.create(made, About("0" * 64, dim, ""), MODEL)
        for start in range(0, rows, 50_000):
            count = min(50_000, rows - start)
            vectors = rng.normal(size=(count, dim)).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            store.add([row(start + place, vector, rng) for place, vector in enumerate(vectors)])
        store.optimize()
        store.build_index()
        begin = time.perf_counter()
        update_map(store, "pca")
        print(f"map of {rows:,} rows: {time.perf_counter() - begin:.1f} s")
        folder.parent.mkdir(parents=True, exist_ok=True)
        made.rename(folder)
    return folder


def row(place: int, vector: np.ndarray, rng: np.random.Generator) -> Row:
    labels = {f"label {number}" for number in rng.integers(0, LABELS, 3)}
    known = place % 100 == 0
    if known and vector[0] > 0:
        labels.add(UNKNOWN)
    return Row(
        name(place),
        vector,
        tuple(sorted(labels)),
        unknown=() if known else (UNKNOWN,),
        bbox=(place % 300 - 150.0, 0.0, place % 300 - 149.0, 1.0),
        date=datetime.date(2000, 1, 1) + datetime.timedelta(place % 9000) if place % 10 else None,
    )


def requests(rows: int) -> dict[str, list[tuple[str, object]]]:
    far = rows - 24
    return {
        "first page": [],
        "last page": [("offset", far)],
        "by date": [("sort", "date")],
        "by date, last": [("sort", "date"), ("order", "desc"), ("offset", far)],
        "one label": [("any", "label 1"), ("offset", rows // 20)],
        "one label, by date": [
            ("any", "label 1"),
            ("sort", "date"),
            ("order", "desc"),
            ("offset", rows // 20),
        ],
        "two labels, not a third": [("all", "label 1"), ("all", "label 2"), ("none", "label 3")],
        "200 of one label": [("any", "label 4"), ("limit", 200)],
    }


class Client:
    """Asks, and reads the time that the service took, in milliseconds."""

    def __init__(self, address: str, process: int) -> None:
        parts, self._process = urlsplit(address), process
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=600)

    def ask(self, path: str, asked: list[tuple[str, object]]) -> float:
        self._connection.request("GET", f"{path}?{urlencode(asked)}")
        response = self._connection.getresponse()
        body = response.read()
        assert response.status == 200, body[:300]
        return float(dict(PART.findall(response.headers["Server-Timing"]))["total"])

    def cpu(self) -> float:
        """Processor time of the service so far, in milliseconds."""
        fields = Path(f"/proc/{self._process}/stat").read_text().rpartition(")")[2].split()
        return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(client: Client, rows: int) -> None:
    worst = slowest = slowest_first = 0.0
    for what, asked in requests(rows).items():
        before = client.cpu()
        first = client.ask("/api/images", asked)
        learned = client.cpu()
        others = [client.ask("/api/images", asked) for _ in range(REPEATS)]
        used = (client.cpu() - learned) / REPEATS
        worst, slowest = max(worst, float(np.median(others))), max(slowest, *others)
        slowest_first = max(slowest_first, first)
        print(
            f"images, {what:25} first {first:7.0f} ms (processor {learned - before:5.0f}), then median "
            f"{np.median(others):6.1f}, largest {max(others):6.1f} (processor {used:5.1f})",
            flush=True,
        )
    for what, most in (("first requests", slowest_first), ("later ones", slowest), ("their medians", worst)):
        print(f"goal: {what} below {PAGE_GOAL:.0f} ms: {most:.0f} {'met' if most < PAGE_GOAL else 'MISSED'}")
    label: list[tuple[str, object]] = [("label", UNKNOWN)]
    before = client.cpu()
    took = [client.ask("/api/suggestions", [*label, ("offset", 24 * page)]) for page in range(4)]
    verdict = "met" if took[0] < SUGGESTION_GOAL else "MISSED"
    print(
        f"suggestions: first page {took[0]:.0f} ms, next pages {np.median(took[1:]):.0f} ms "
        f"(processor, four pages: {client.cpu() - before:.0f} ms)"
    )
    print(f"goal: suggestions below {SUGGESTION_GOAL:.0f} ms: {verdict}")
    for what, asked in (("filtered by a label", [*label, ("any", "label 1")]), ("confident", [*label])):
        order: list[tuple[str, object]] = [("order", "confident")]
        print(f"suggestions, {what}: {client.ask('/api/suggestions', asked + order):.0f} ms")
    print(f"scores of one label: {client.ask('/api/suggestions/scores', label):.0f} ms")
    points = [client.ask("/api/map", [("label", "label 1"), ("label", "label 2")]) for _ in range(3)]
    print(f"map: first {points[0]:.0f} ms, then {points[-1]:.0f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--approximate", action="store_true")
    given = parser.parse_args()
    cache_folder().mkdir(parents=True, exist_ok=True)
    store = make_store(given.rows, given.dim)
    code = SERVE.format(memory=0 if given.approximate else 4 * 2**30)
    command = [sys.executable, "-c", code, "serve", "--store", str(store), "--port", "0"]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as server,  # noqa: S603
    ):
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[0]
            print(f"{given.rows:,} rows of {given.dim}, {'approximate' if given.approximate else 'exact'}")
            measure(Client(address, server.pid), given.rows)
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
