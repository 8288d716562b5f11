"""The demo: the whole way, from a generated archive to a search, with nothing but this command."""

import shlex
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from marcir.checks import seed_number, whole
from marcir.config import Config, LossConfig
from marcir.data.scene_writing import write_scenes
from marcir.data.split import Split
from marcir.errors import TrainingError
from marcir.stages.benchmark import perform_runs
from marcir.stages.benchmarking.plan import Plan
from marcir.stages.benchmarking.record import COMPARISON, Results, run_name
from marcir.stages.data import open_archive
from marcir.stages.index import index
from marcir.stages.report import Report, report
from marcir.stages.search import Answer, open_store
from marcir.stages.search_sheet import draw_answer
from marcir.stages.training.reporter import duration

SIZE = 64
# The first is the one that is searched with; the last is trained if there is time.
LOSSES = ("marc-calibrated", "mulsupcon", "marc")
# Seconds after which it is not begun: it, the report, the index and the search must fit into four minutes.
LATE = 130
_HITS = 8
_STEPS = 5


@dataclass(frozen=True)
class Demo:
    """What the demo made.

    Attributes:
        report: Tables and figures.
        store: The indexed archive.
        images: The archive's folder.
        sheet: A picture of what the query found.
        query: The id that was searched with.
        answer: What was found.
        seconds: How long it took.
    """

    report: Report
    store: Path
    images: Path
    sheet: Path
    query: str
    answer: Answer
    seconds: float

    def __str__(self) -> str:
        words = ["marcir", "serve", "--store", str(self.store), "--images", str(self.images)]
        return "\n".join(
            [
                str(self.report),
                "",
                f"Images like {self.query} ({', '.join(self.answer.query_labels)}), a test image:",
                str(self.answer),
                f"{self.sheet}: the same as a picture",
                "",
                f"Done in {duration(self.seconds)}. Look at the archive in a browser with:",
                f"    {shlex.join(words)}",
            ]
        )


def demo(out: str | Path, images: int = 1000, epochs: int = 9, seed: int = 0) -> Demo:
    """Make an archive, train on it, compare, report, index, search. Begun again, it goes on.

    Args:
        out: Where everything goes.
        images: Scenes of the archive.
        epochs: Passes over the training images, for each loss.
        seed: Fixes everything.
    """
    whole("--images", images, 200, 100_000)
    whole("--epochs", epochs, 1)
    seed_number(seed)
    started = time.monotonic()
    out = Path(out)
    archive, results, store = out / "archive", Results(out / "results"), out / "store"
    _say(1, f"an archive of {images:,} generated scenes")
    write_scenes(archive, images, SIZE, seed)
    _say(2, f"a ResNet-18 from random weights, {epochs} epochs for each loss")
    _train(archive, results, epochs, seed, started)
    _say(3, "the report")
    written = report(results.path)
    _say(4, "the index of the archive")
    name = run_name("scenes", LOSSES[0], {}, seed)
    index(results.run_folder(COMPARISON, name), archive, store, labels=archive / "labels.csv")
    _say(5, "a search")
    query = _query(archive, results)
    opened = open_store(store)
    answer = opened.by_id(query, _HITS)
    draw_answer(opened, answer, out / "search.png", query=query)
    return Demo(written, store, archive, out / "search.png", query, answer, time.monotonic() - started)


def _train(archive: Path, results: Results, epochs: int, seed: int, started: float) -> None:
    base = Config()
    base = replace(
        base,
        data=replace(base.data, name="scenes", root=str(archive), size=SIZE),
        train=replace(base.train, epochs=epochs, batch_size=_batch(archive), schedule="cosine"),
    )
    for loss in LOSSES:
        spent = time.monotonic() - started
        if loss == LOSSES[-1] and spent > LATE:
            print(f"without {loss}: {duration(spent)} are spent already", file=sys.stderr)
            return
        plan = Plan((base,), ((loss, LossConfig(loss)),), (seed,), seed)
        done = perform_runs(plan.runs(), plan, results, jobs=1, tell=True)
        for name, why in done.failed.items():
            raise TrainingError(f"{name}: {why}. Started again, the demo tries it once more.")


def _batch(archive: Path) -> int:
    """A batch that the training images of a small archive fill some times."""
    opened, _ = open_archive("scenes", archive)
    return min(128, len(opened) // 10)


def _query(archive: Path, results: Results) -> str:
    """The first test image with several labels: the model has not seen it."""
    opened, _ = open_archive("scenes", archive)
    split = Split.load(results.split_file("scenes"), opened)
    several = (k for k in split.positions(opened, "test") if int(opened.labels[k].sum()) >= 3)
    return opened.ids[next(several, split.positions(opened, "test")[0])]


def _say(step: int, what: str) -> None:
    print(f"\n[{step}/{_STEPS}] {what}", file=sys.stderr, flush=True)
