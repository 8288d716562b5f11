"""Indexing by several processes: what it costs beside a plain run, as ratios within one run.

    python benchmarks/cluster.py [--images 2048] [--size 128] [--repeats 3] [--model RUN] [--only shards|ray]

Shards: a run over shard 0/2 of an archive, and a plain run over a folder of exactly the images of that shard,
in turns, best of all; each makes its store, without a map and without joining files, which shards leave to a
run over the whole. The shard also lists and hashes the other half. Without --model the network is the one
that `marcir index` takes for a new store.
Goal: a shard run takes at most 1.05 of the plain one.

Ray: the same files through one process and one actor, and twice as many through two actors, one thread each,
in turns, best of all. The time of actors begins after their first blocks, without the start of the cluster.
With 2,048 images or more the blocks have 8 batches, as those of a large archive; with fewer they are smaller.
Processes of Ray have the priority of this one.
Goals: one actor at 0.9 or more of the process, two actors on two processors at 1.6 or more of one. The rate
of the driver's commits is printed.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from marcir.cluster.connection import connect
from marcir.cluster.embedding import ClusterEmbedding
from marcir.data.image_folder import ImageFile, ImageFolder
from marcir.model.model import BATCH, Model, load_model, model_files
from marcir.model.pretrained import pretrained_model
from marcir.scenes.write import write_scenes
from marcir.search.image_rows import embed_rows
from marcir.search.index import index
from marcir.search.lance import LanceStore
from marcir.search.records import About, Row
from marcir.search.shard import Shard

SHARD_GOAL, ACTOR_GOAL, TWO_ACTORS_GOAL = 1.05, 0.9, 1.6
COMMIT = 1024  # rows of a commit of `marcir index`
PART = Shard(0, 2)


def seconds(images: Path, store: Path, model: str | None, shard: Shard) -> tuple[float, int]:
    """Time and number of images of an indexing run that makes its store, without its map and joined files."""
    shutil.rmtree(store, ignore_errors=True)
    with patch.object(LanceStore, "optimize", lambda *_: None):  # a shard does not do it for so few files
        start = time.perf_counter()
        done = index(images, store, model=model, shard=(shard.index, shard.count), map="none")
        return time.perf_counter() - start, done.added


def shards(folder: Path, count: int, size: int, repeats: int, model: str | None) -> bool:
    """Compare a shard run with a plain run over the same images; whether the goal is reached."""
    write_scenes(folder / "all", 2 * count, size, 0)
    for name in ImageFolder(folder / "all").ids:
        if PART.holds(name):
            link = folder / "part" / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.hardlink_to(folder / "all" / name)
    runs = {"plain": (folder / "part", Shard()), f"shard {PART}": (folder / "all", PART)}
    best = dict.fromkeys(runs, float("inf"))
    seconds(folder / "part", folder / "store", model, Shard())  # files and weights are in memory afterwards
    for _ in range(repeats):
        for name, (images, shard) in runs.items():
            took, added = seconds(images, folder / "store", model, shard)
            best[name] = min(best[name], took)
    plain, sharded = best.values()
    reached = sharded <= SHARD_GOAL * plain
    for name, took in best.items():
        print(f"{name:12} {took:8.2f} s  {added / took:8.1f} images/s")
    print(f"shard / plain {sharded / plain:.3f}, goal {SHARD_GOAL}: {'reached' if reached else 'missed'}")
    return reached


def inline_rate(model: Model, files: list[ImageFile]) -> float:
    """Images per second of one process with one thread that embeds and one that reads, as an actor has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    start = time.perf_counter()
    rows = sum(len(batch) for batch in embed_rows(model, files, BATCH, print, threads=1))
    took = time.perf_counter() - start
    torch.set_num_threads(threads)
    return rows / took


def actors_rate(weights: Mapping[str, bytes], files: list[ImageFile], actors: int) -> float:
    """Images per second that reach the driver from so many actors, after their first blocks."""
    with connect("local", cpus=actors) as ray:
        rows, start = 0, 0.0
        found = ClusterEmbedding(ray, "cpu").rows(weights, files, BATCH, print)
        for number, block in enumerate(found, start=1):
            if number > actors:
                rows += len(block)
            else:
                start = time.perf_counter()
        return rows / (time.perf_counter() - start)


def commit_rate(folder: Path, dim: int, commits: int = 8) -> float:
    """Rows per second that one process writes, with thumbnails of 10 kB."""
    rng = np.random.default_rng(0)
    store = LanceStore.create(folder / "commits", About("model", dim, "/"), {"config.json": b"{}"})
    took = 0.0
    for commit in range(commits):
        vectors = rng.normal(size=(COMMIT, dim)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        rows = [
            Row(f"{commit}/{place}", vector, thumbnail=rng.bytes(10_000), content="content")
            for place, vector in enumerate(vectors)
        ]
        start = time.perf_counter()
        store.add(rows)
        took += time.perf_counter() - start
    return commits * COMMIT / took


def on_ray(folder: Path, count: int, size: int, repeats: int, model: str | None) -> bool:
    """Compare actors with one process; whether both goals are reached."""
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  # Ray spells it so
    write_scenes(folder / "ray", 2 * count, size, 1)
    images = ImageFolder(folder / "ray")
    files = [images.image(place) for place in range(len(images))]
    if model is None:
        loaded, weights = pretrained_model(images, "cpu")
    else:
        loaded, weights = load_model(model, "cpu"), model_files(Path(model))
    best = dict.fromkeys(("inline", "one actor", "two actors"), 0.0)
    for _ in range(repeats):
        best["inline"] = max(best["inline"], inline_rate(loaded, files[:count]))
        best["one actor"] = max(best["one actor"], actors_rate(weights, files[:count], 1))
        best["two actors"] = max(best["two actors"], actors_rate(weights, files, 2))
    for name, rate in best.items():
        print(f"{name:12} {rate:8.1f} images/s")
    inline, one, two = best.values()
    ratios = {
        "one actor / inline": (one / inline, ACTOR_GOAL),
        "two actors / one": (two / one, TWO_ACTORS_GOAL),
    }
    for name, (ratio, goal) in ratios.items():
        print(f"{name} {ratio:.3f}, goal {goal}: {'reached' if ratio >= goal else 'missed'}")
    print(f"commits: {commit_rate(folder, loaded.dim):,.0f} rows/s")
    return all(ratio >= goal for ratio, goal in ratios.values())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=2048, help="images of a run")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--model")
    parser.add_argument("--only", choices=("shards", "ray"), help="one section")
    options = parser.parse_args()
    sections = {"shards": shards, "ray": on_ray}
    chosen = [options.only] if options.only else list(sections)
    reached = []
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            run = sections[name]
            reached.append(run(Path(folder), options.images, options.size, options.repeats, options.model))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    raise SystemExit(main())
