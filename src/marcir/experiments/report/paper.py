"""What the paper printed, beside what was found here."""

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
# Whose rows of the paper stand beside a dataset: its own, or those of the same images.
_BESIDE = {"dlrsd": "dlrsd", "ml-aid": "ml-aid", "whdld": "whdld", "ucm": "dlrsd"}
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
    "ml-aid": "The paper's three Jaccard mAPs (55-60 / 36-39 / 14-15) are about those of a random ranking by "
    "its labels (58.2 / 36.5 / 15.1): those columns are no target.",
}


def paper_heading(dataset: str) -> str:
    """Under which words the paper's rows stand; empty where there are none."""
    if dataset not in _BESIDE:
        return ""
    same = _BESIDE[dataset] == dataset
    return f"paper, {DATASETS[_BESIDE[dataset]]}" + ("" if same else ": same images, other labels")


def paper_table(study: Study) -> Table | None:
    """The paper's row of each loss, and ours under it; None for a dataset that the paper does not have."""
    dataset = study.dataset
    if dataset not in _BESIDE:
        return None
    names = {published: loss for loss, published in PUBLISHED.items()}
    chance = (score_cell(reference(study, "chance", name)) for name in METRICS)
    lines = [Line((Cell("chance"), Cell("here"), *chance))]
    for row in _results("main", _BESIDE[dataset]):
        own = study.row(names[row["loss"]])
        lines.append(Line((Cell(row["loss"]), Cell("paper"), *_printed(row))))
        if own is not None:
            lines.append(
                Line((Cell(row["loss"]), Cell("here"), *(score_cell(own.column(name)) for name in METRICS)))
            )
    notes = [_JACCARD_NOTES[_BESIDE[dataset]]] if _BESIDE[dataset] in _JACCARD_NOTES else []
    if _BESIDE[dataset] != dataset:
        notes.insert(
            0, "The same images with other labels: levels cannot be compared, only the order of the losses."
        )
    notes.append(
        "The paper's protocol is not known in full (its nDCG fits an ideal of the retrieved images alone, "
        "its seeds and splits are not given)."
    )
    columns = ("", "", *METRICS)
    title = f"{paper_heading(dataset)}; beside what was found here"
    return Table(study.file_name("paper"), title, columns, tuple(lines), tuple(notes))


def paper_pretraining(dataset: str) -> list[tuple[str, str, tuple[Cell, ...]]]:
    """Loss, whether it was pretrained, and the seven columns of the paper's study of pretraining."""
    rows = _results("pretraining", _BESIDE.get(dataset, ""))
    return [(row["loss"], row["pretrained"], tuple(_printed(row))) for row in rows]


def paper_ablation(study: Study) -> Table | None:
    """What the paper printed of an ablation; None where it has no figure of it."""
    name = _STUDIES.get(study.name)
    rows = [row for row in _read("ablations.csv") if row["study"] == name]
    beside = [row for row in rows if row["dataset"] in (_BESIDE.get(study.dataset), "all")] or rows
    if not beside:
        return None
    lines = tuple(
        Line(
            (
                Cell(row["loss"]),
                Cell(_dataset(row["dataset"])),
                Cell(row["setting"]),
                Cell(row["metric"]),
                _value(row),
            )
        )
        for row in beside
    )
    columns = ("", "dataset", "setting", "column", "value")
    return Table(study.file_name(study.name, "paper"), f"The paper on {name}", columns, lines)


def _dataset(name: str) -> str:
    return DATASETS.get(name, name)


def _value(row: dict[str, str]) -> Cell:
    return Cell(row["value"] or "-")


def _printed(row: dict[str, str]) -> Iterable[Cell]:
    return (number_cell(float(row[name]), digits=2) for name in METRICS)


def _results(table: str, dataset: str) -> list[dict[str, str]]:
    return [row for row in _read("results.csv") if (row["table"], row["dataset"]) == (table, dataset)]


@cache
def _read(name: str) -> tuple[dict[str, str], ...]:
    with (_FOLDER / name).open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))
