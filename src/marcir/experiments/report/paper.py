"""Tables of the paper's published values next to ours."""

import csv
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from marcir.experiments.report.comparison import reference
from marcir.experiments.report.names import DATASETS, PUBLISHED
from marcir.experiments.report.runs import Study
from marcir.experiments.report.table import Cell, Line, Table, number_cell, score_cell
from marcir.metrics.retrieval_metrics import METRICS

_FOLDER = Path(__file__).parent / "published"
# The dataset of the paper that a dataset is compared with: the same, or one with the same images.
_PAPER_DATASET = {"dlrsd": "dlrsd", "ml-aid": "ml-aid", "whdld": "whdld", "ucm": "dlrsd"}
_STUDIES = {
    "alpha-beta-t": "alpha-beta (T only)",
    "alpha-beta-wt": "alpha-beta (w + T)",
    "w-alpha": "w with alpha",
    "w-beta": "w with beta",
    "lr": "learning rate",
    "tau": "temperature",
}
_JACCARD_NOTES = {
    "dlrsd": "The paper's three Jaccard mAPs (29-30 / 13-14 / 5-7) lie within the spread of a random ranking "
    "of these images by their UC Merced labels, but for MARC's own 6.85: those columns are no target. "
    "Its wAP lies below that of such a ranking, so that it must have been defined otherwise.",
    # chance_scores of the random splits with the seeds 0 to 4.
    "ml-aid": "The paper's three Jaccard mAPs (55-60 / 36-39 / 14-15) are about those of a random ranking by "
    "its labels (57-60 / 33-39 / 13-17 on the 600 test images of five random splits; the row of chance is of "
    "the test images here): those columns are no target.",
}


def paper_heading(dataset: str) -> str:
    """Heading of the paper's rows; empty for a dataset that the paper does not have."""
    if dataset not in _PAPER_DATASET:
        return ""
    published = _PAPER_DATASET[dataset]
    return f"paper, {DATASETS[published]}" + ("" if published == dataset else ": same images, other labels")


def paper_table(study: Study) -> Table | None:
    """The paper's row of each loss, and ours under it; None for a dataset that the paper does not have."""
    if study.dataset not in _PAPER_DATASET:
        return None
    published = _PAPER_DATASET[study.dataset]
    losses = {name: loss for loss, name in PUBLISHED.items()}
    chance = [score_cell(reference(study, "chance", name)) for name in METRICS]
    lines = [Line((Cell("chance"), Cell("here"), *chance))]
    for row in _results("main", published):
        lines.append(Line((Cell(row["loss"]), Cell("paper"), *_metric_cells(row))))
        for own in study.rows_of([losses[row["loss"]]]):
            scores = [score_cell(own.column(name)) for name in METRICS]
            lines.append(Line((Cell(row["loss"]), Cell("here"), *scores)))
    notes = [_JACCARD_NOTES[published]] if published in _JACCARD_NOTES else []
    if published != study.dataset:
        notes.insert(
            0, "The same images with other labels: levels cannot be compared, only the order of the losses."
        )
    notes.append(
        "The paper's protocol is not known in full (its nDCG fits an ideal of the retrieved images alone, "
        "its seeds and splits are not given)."
    )
    title = f"{paper_heading(study.dataset)}; with our results"
    return Table(study.file_name("paper"), title, ("", "", *METRICS), tuple(lines), tuple(notes))


def paper_pretraining(dataset: str) -> list[tuple[str, str, tuple[Cell, ...]]]:
    """Loss, pretrained or not, and the seven metrics of the paper's study of pretraining."""
    rows = _results("pretraining", _PAPER_DATASET.get(dataset, ""))
    return [(row["loss"], row["pretrained"], tuple(_metric_cells(row))) for row in rows]


def paper_ablation(study: Study) -> Table | None:
    """The paper's values of an ablation; None where it has none."""
    name = _STUDIES.get(study.name)
    rows = [row for row in _read("ablations.csv") if row["study"] == name]
    rows = [row for row in rows if row["dataset"] in (_PAPER_DATASET.get(study.dataset), "all")] or rows
    if not rows:
        return None
    lines = []
    for row in rows:
        dataset = DATASETS.get(row["dataset"], row["dataset"])
        texts = (row["loss"], dataset, row["setting"], row["metric"], row["value"] or "-")
        lines.append(Line(tuple(map(Cell, texts))))
    columns = ("", "dataset", "setting", "column", "value")
    return Table(study.file_name(study.name, "paper"), f"The paper on {name}", columns, tuple(lines))


def _metric_cells(row: dict[str, str]) -> Iterable[Cell]:
    return (number_cell(float(row[name]), digits=2) for name in METRICS)


def _results(table: str, dataset: str) -> list[dict[str, str]]:
    return [row for row in _read("results.csv") if (row["table"], row["dataset"]) == (table, dataset)]


@cache
def _read(name: str) -> tuple[dict[str, str], ...]:
    with (_FOLDER / name).open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))
