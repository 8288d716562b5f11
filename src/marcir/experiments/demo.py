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
from marcir.progress import duration
from marcir.scenes.write import write_scenes
from marcir.search.index import index
from marcir.search.queries import SearchResult, open_store
from marcir.training.evaluation_figures import draw_models
from marcir.types import Embeddings

SIZE = 128
# The model of the first is used for search.
LOSSES = ("marc-calibrated", "mulsupcon")
_VIEWS = 2  # augmented versions of each image
_HITS = 6
_QUERIES = 3  # in the picture
_LABELS = 3  # minimum of a query
_STEPS = 5


@dataclass(frozen=True)
class Demo:
    """Files and search result of the demo.

    Attributes:
        report: Tables and figures.
        store: The indexed archive.
        images: The archive's folder.
        picture: Hits of some test images, before and after training.
        query: Id of the query image.
        result: Its hits.
        seconds: Run time.
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
    """Generate an archive, train on it, compare, report, index, search; resumes where it was stopped.

    Args:
        out: The output folder.
        images: Number of scenes.
        epochs: Epochs for each loss.
        seed: Seed of everything.
    """
    check_int("--images", images, 200, 100_000)
    check_int("--epochs", epochs, 1)
    check_seed(seed)
    started = time.monotonic()
    out = Path(out)
    archive, results, store = out / "archive", Results(out / "results"), out / "store"
    _print_step(1, f"an archive of {images:,} generated scenes")
    write_scenes(archive, images, SIZE, seed)
    _print_step(2, f"heads on features of {Config().encoder.backbone}, {epochs} epochs for each loss")
    opened = open_archive("scenes", archive)
    _train(opened, results, epochs, seed)
    _print_step(3, "the report")
    written = report(results.path)
    _print_step(4, "the index of the archive")
    run = results.run_folder(COMPARISON, run_name("scenes", LOSSES[0], {}, seed))
    index(archive, store, model=run, labels=archive / "labels.csv")
    _print_step(5, "a search")
    positions = Split.load(results.split_file("scenes"), opened).positions(opened, "test")
    several = [k for k in positions if int(opened.labels[k].sum()) >= _LABELS]
    queries = [opened.ids[k] for k in (several or positions)[:_QUERIES]]
    result = open_store(store).by_id(queries[0], _HITS)
    picture = out / "before-and-after.png"
    _draw(run, opened, positions, queries, picture)
    return Demo(written, store, archive, picture, queries[0], result, time.monotonic() - started)


def _train(archive: Archive, results: Results, epochs: int, seed: int) -> None:
    base = Config()
    base = replace(
        base,
        data=replace(base.data, name="scenes", root=str(archive.root), size=SIZE),
        encoder=replace(base.encoder, frozen=True, frozen_views=_VIEWS),
        train=replace(base.train, epochs=epochs, batch_size=min(128, len(archive) // 10), schedule="cosine"),
    )
    plan = Plan((base,), tuple((loss, LossConfig(loss)) for loss in LOSSES), (seed,), seed)
    done = perform_runs(plan.runs(), plan, results, jobs=1, verbose=True)
    for name, why in done.failed.items():
        raise TrainingError(f"{name}: {why}. Started again, the demo tries it once more.")


def _draw(run: Path, archive: Archive, positions: Sequence[int], queries: Sequence[str], out: Path) -> None:
    """Draw the hits of queries among the test images, with the backbone's features and the trained head."""
    model, ids = load_model(run), tuple(archive.ids[k] for k in positions)
    found = {}
    for name, embedding in (("before", "backbone"), ("after", "projection")):
        model.encoder.embedding = embedding  # type: ignore[assignment]  # the backbone was frozen: its own features
        vectors = model.embed([archive.paths[k] for k in positions])
        found[name] = LabelledEmbeddings(
            Embeddings(ids, vectors), archive.labels[list(positions)], archive.vocabulary
        )
    draw_models(found, archive.root, out, queries, _HITS)


def _print_step(step: int, what: str) -> None:
    print(f"\n[{step}/{_STEPS}] {what}", file=sys.stderr, flush=True)
