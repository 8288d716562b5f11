"""The demo: from a generated archive to a trained model, a comparison, an index and a search."""

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from marcir.checks import check_int, check_seed
from marcir.config import Config, LossConfig
from marcir.data.archive import Archive, open_archive
from marcir.data.labelled_embeddings import LabelledEmbeddings
from marcir.data.split import Split
from marcir.errors import TrainingError
from marcir.experiments.benchmark import perform_runs
from marcir.experiments.plan import Plan
from marcir.experiments.record import COMPARISON, Results, run_name
from marcir.experiments.report.assemble import Report, report
from marcir.model.model import load_model
from marcir.scenes.write import write_scenes
from marcir.search.index import index
from marcir.search.queries import SearchResult, open_store
from marcir.training.evaluation_figures import draw_models
from marcir.training.reporter import duration
from marcir.types import Embeddings

SIZE = 128
# The first is the one that is searched with.
LOSSES = ("marc-proto", "mulsupcon")
_VIEWS = 2  # augmented versions of each image
_HITS = 6
_QUERIES = 3  # of the picture
_LABELS = 3  # that a query has at least
_STEPS = 5


@dataclass(frozen=True)
class Demo:
    """What the demo made.

    Attributes:
        report: Tables and figures.
        store: The indexed archive.
        images: The archive's folder.
        picture: What some test images find, untrained and trained.
        query: The id that was searched with.
        result: What was found.
        seconds: How long it took.
    """

    report: Report
    store: Path
    images: Path
    picture: Path
    query: str
    result: SearchResult
    seconds: float

    def __str__(self) -> str:
        words = ["marcir", "serve", "--store", str(self.store), "--images", str(self.images)]
        return "\n".join(
            [
                str(self.report),
                "",
                f"Images like {self.query} ({', '.join(self.result.query_labels)}), a test image:",
                str(self.result),
                f"{self.picture}: what {_QUERIES} test images find, before training and after",
                "",
                f"Done in {duration(self.seconds)}. Look at the archive in a browser with:",
                f"    {shlex.join(words)}",
            ]
        )


def demo(out: str | Path, images: int = 1000, epochs: int = 20, seed: int = 0) -> Demo:
    """Make an archive, train on it, compare, report, index, search. Started again, it goes on.

    Args:
        out: Where everything goes.
        images: Scenes of the archive.
        epochs: Passes over the training images, for each loss.
        seed: Fixes everything.
    """
    check_int("--images", images, 200, 100_000)
    check_int("--epochs", epochs, 1)
    check_seed(seed)
    started = time.monotonic()
    out = Path(out)
    archive, results, store = out / "archive", Results(out / "results"), out / "store"
    _say(1, f"an archive of {images:,} generated scenes")
    write_scenes(archive, images, SIZE, seed)
    _say(2, f"heads on features of {Config().encoder.backbone}, {epochs} epochs for each loss")
    _train(archive, results, epochs, seed)
    _say(3, "the report")
    written = report(results.path)
    _say(4, "the index of the archive")
    run = results.run_folder(COMPARISON, run_name("scenes", LOSSES[0], {}, seed))
    index(archive, store, model=run, labels=archive / "labels.csv")
    _say(5, "a search")
    queries = _queries(archive, results)
    result = open_store(store).by_id(queries[0], _HITS)
    picture = out / "before-and-after.png"
    _draw(run, archive, results, queries, picture)
    return Demo(written, store, archive, picture, queries[0], result, time.monotonic() - started)


def _train(archive: Path, results: Results, epochs: int, seed: int) -> None:
    base = Config()
    base = replace(
        base,
        data=replace(base.data, name="scenes", root=str(archive), size=SIZE),
        encoder=replace(base.encoder, frozen=True, frozen_views=_VIEWS),
        train=replace(base.train, epochs=epochs, batch_size=_batch(archive), schedule="cosine"),
    )
    plan = Plan((base,), tuple((loss, LossConfig(loss)) for loss in LOSSES), (seed,), seed)
    done = perform_runs(plan.runs(), plan, results, jobs=1, tell=True)
    for name, why in done.failed.items():
        raise TrainingError(f"{name}: {why}. Started again, the demo tries it once more.")


def _batch(archive: Path) -> int:
    """A batch that the training images of a small archive fill some times."""
    opened = open_archive("scenes", archive)
    return min(128, len(opened) // 10)


def _test_images(archive: Path, results: Results) -> tuple[Archive, list[int]]:
    """Images that the models have not seen: the archive, and where they stand in it."""
    opened = open_archive("scenes", archive)
    split = Split.load(results.split_file("scenes"), opened)
    return opened, split.positions(opened, "test")


def _queries(archive: Path, results: Results) -> list[str]:
    """The first test images that have several labels."""
    opened, positions = _test_images(archive, results)
    several = [k for k in positions if int(opened.labels[k].sum()) >= _LABELS]
    return [opened.ids[k] for k in (several or positions)[:_QUERIES]]


def _draw(run: Path, archive: Path, results: Results, queries: Sequence[str], out: Path) -> None:
    """What queries find among the test images, with the backbone's features and with the trained head."""
    opened, positions = _test_images(archive, results)
    model, ids = load_model(run), tuple(opened.ids[k] for k in positions)
    found = {}
    for name, embedding in (("before", "backbone"), ("after", "projection")):
        model.encoder.embedding = embedding  # type: ignore[assignment]  # the backbone was frozen: its own features
        vectors = model.embed([opened.paths[k] for k in positions])
        found[name] = LabelledEmbeddings(
            Embeddings(ids, vectors), opened.labels[positions], opened.vocabulary
        )
    draw_models(found, archive, out, queries, _HITS)


def _say(step: int, what: str) -> None:
    print(f"\n[{step}/{_STEPS}] {what}", file=sys.stderr, flush=True)
