"""The service under load: 16 clients search 100,000 images by id, with a mix of filters and pages.

    python benchmarks/serve.py [--seconds 60] [--clients 16] [--rows 100000]

Random unit vectors of 128 numbers, labels, places, small JPEG thumbnails; the store is made once, in the
cache ($MARCIR_CACHE). The service is a process of its own; clients are threads of this one, each with a
connection that stays open, and take their part of the processors. Where a request's time on the server goes
is told by its Server-Timing header: the search (all of the archive.by_... call), the wait for a free worker,
and the rest.
Goals: no error; the rest below 30 % of search and rest together.
"""

import argparse
import datetime
import http.client
import io
import json
import os
import random
import re
import statistics
import subprocess
import sysconfig
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import numpy as np
from PIL import Image

from marcir.files import cache_folder
from marcir.search import Row
from marcir.search.lance import LanceStore
from marcir.search.records import About

DIM, LABELS, GOAL = 128, 20, 0.30
MARCIR = Path(sysconfig.get_path("scripts")) / "marcir"
PART = re.compile(r"(\w+);dur=([\d.]+)")


def make_store(rows: int) -> Path:
    folder = cache_folder() / "benchmarks" / f"serve-{rows}.store"
    if folder.exists():
        return folder
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(rows, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    thumbnails = [thumbnail(rng) for _ in range(64)]
    with tempfile.TemporaryDirectory(dir=cache_folder()) as temporary:
        made = Path(temporary) / "store"
        store = LanceStore.create(
            made, About("0" * 64, DIM, ""), {"config.json": b"", "model.safetensors": b""}
        )
        for start in range(0, rows, 10_000):
            places = range(start, min(start + 10_000, rows))
            store.add([row(place, vectors[place], thumbnails, rng) for place in places])
        store.optimize()
        folder.parent.mkdir(parents=True, exist_ok=True)
        made.rename(folder)
    return folder


def thumbnail(rng: np.random.Generator) -> bytes:
    out = io.BytesIO()
    pixels = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((128, 128)).save(out, "JPEG")
    return out.getvalue()


def row(place: int, vector: np.ndarray, thumbnails: list[bytes], rng: np.random.Generator) -> Row:
    labels = sorted({f"label {number}" for number in rng.integers(0, LABELS, 3)})
    return Row(
        name(place),
        vector,
        tuple(labels),
        width=128,
        height=128,
        thumbnail=thumbnails[place % len(thumbnails)],
        metadata={"sensor": "S2", "number": str(place)},
        bbox=(place % 300 - 150.0, 0.0, place % 300 - 149.0, 1.0),
        date=datetime.date(2024, 1, 1 + place % 28),
    )


def name(place: int) -> str:
    return f"{place % 100:02}/{place:06}.jpg"


def question(rng: random.Random, rows: int) -> str:
    """A search by id: half without a filter, half with one of four; every third not the first page."""
    asked: list[tuple[str, object]] = [("id", name(rng.randrange(rows)))]
    one, two = (f"label {number}" for number in rng.sample(range(LABELS), 2))
    asked += rng.choice(
        [[]] * 4 + [[("any", one)], [("any", one), ("any", two)], [("all", one)], [("none", one)]]
    )
    if not rng.randrange(3):
        asked.append(("offset", 24 * rng.randrange(1, 10)))
    if not rng.randrange(5):
        asked.append(("min_similarity", 0.1))
    return f"/api/search?{urlencode(asked)}"


@dataclass
class Seen:
    """What a client saw: seconds of each request, milliseconds of its parts, errors."""

    seconds: list[float] = field(default_factory=list)
    parts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)


def ask(address: str, seed: int, rows: int, until: float, seen: Seen) -> None:
    rng, parts = random.Random(seed), urlsplit(address)  # noqa: S311
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    while time.perf_counter() < until:
        start = time.perf_counter()
        try:
            connection.request("GET", question(rng, rows))
            response = connection.getresponse()
            body = response.read()
            if response.status != 200 or "hits" not in json.loads(body):
                raise ValueError(f"{response.status} {body[:200]!r}")
            seen.seconds.append(time.perf_counter() - start)
            seen.parts.update(
                {part: float(took) for part, took in PART.findall(response.headers["Server-Timing"])}
            )
        except (OSError, ValueError, http.client.HTTPException) as error:
            seen.errors.append(repr(error))
            connection.close()
    connection.close()


def load(address: str, clients: int, rows: int, seconds: float) -> Seen:
    until, seen = time.perf_counter() + seconds, [Seen() for _ in range(clients)]
    threads = [
        threading.Thread(target=ask, args=(address, seed, rows, until, each))
        for seed, each in enumerate(seen)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Seen(
        [took for each in seen for took in each.seconds],
        sum((each.parts for each in seen), Counter()),
        [error for each in seen for error in each.errors],
    )


def report(seen: Seen, seconds: float) -> None:
    ordered = sorted(seen.seconds)
    p50, p99 = statistics.median(ordered), ordered[int(0.99 * len(ordered))]
    print(f"{len(ordered) / seconds:.0f} requests/s, p50 {1000 * p50:.1f} ms, p99 {1000 * p99:.1f} ms")
    means = {part: took / len(ordered) for part, took in seen.parts.items()}
    search, wait = means["search"], means["wait"]
    rest = means["total"] - search - wait
    print(f"on the server: search {search:.2f} ms, wait for a worker {wait:.2f} ms, rest {rest:.2f} ms")
    share = rest / (search + rest)
    print(f"goal: errors 0: {len(seen.errors)} {'MISSED' if seen.errors else 'met'} {seen.errors[:3] or ''}")
    print(f"goal: rest / (search + rest) below {GOAL}: {share:.3f} {'met' if share < GOAL else 'MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--rows", type=int, default=100_000)
    arguments = parser.parse_args()
    cache_folder().mkdir(parents=True, exist_ok=True)
    store = make_store(arguments.rows)
    command = [str(MARCIR), "serve", "--store", str(store), "--port", "0"]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(  # noqa: S603
            command, stdout=subprocess.PIPE, stderr=log, text=True
        ) as server,
    ):
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[0]
            load(address, arguments.clients, arguments.rows, 2)  # everything is read once
            print(
                f"{arguments.rows:,} rows, {arguments.clients} clients, {os.cpu_count()} processors",
                flush=True,
            )
            report(load(address, arguments.clients, arguments.rows, arguments.seconds), arguments.seconds)
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
