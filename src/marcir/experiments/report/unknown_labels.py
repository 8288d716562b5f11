"""The study of unknown labels: scores by share of hidden labels and by what unknown labels count as."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from marcir.experiments.plan import PLACES
from marcir.experiments.record import Record
from marcir.experiments.report.ablation import study_title
from marcir.experiments.report.comparison import column_marks, failures, seeds_note
from marcir.experiments.report.page import Block, Figure
from marcir.experiments.report.runs import CHOSEN_BY, Row, Spread, Study, means_and_sds
from marcir.experiments.report.summary import flat
from marcir.experiments.report.table import Cell, Line, Table, score_cell
from marcir.figures.setting_curves import Curve, CurvePanel, draw_setting_curves
from marcir.metrics.retrieval_metrics import METRICS
from marcir.training.run_folder import NEUTRAL_SETTINGS

NONE_HIDDEN = "none hidden"
MEAN = "mean of the seven columns"
PANELS_PER_ROW = 3
# By `how` and `unknown` of a run's setting; `how` is missing where unknown labels count as absent.
TREATMENTS = {
    ("uniform", "aware"): "unknown, hidden uniformly",
    ("present-only", "aware"): "unknown, only present stated",
    (None, "absent"): "taken for absent",
}
_WAYS = (
    "Labels of training images alone were hidden: validation and test labels are as before. "
    "Hidden uniformly: the share is that of present and of absent labels. Only present stated: the share is "
    "that of present labels, and all absent labels are unknown. Taken for absent: both ways then give the "
    "same training labels, so there is one row for both. "
    "All losses and seeds have the same hidden labels. The best of a loss at a share is in bold."
)


def unknown_labels_blocks(study: Study, comparison: Study | None, figures: Path) -> list[Block]:
    """The table and the figure of a study that has finished runs.

    Args:
        study: The runs with hidden labels.
        comparison: The comparison on the same dataset, whose runs have all labels.
        figures: Folder of the figure.
    """
    references, notes = _references(study, comparison)
    return [_table(study, references, notes), _figure(study, references, figures)]


def _mean_of_columns(run: Record) -> float | None:
    return None if run.scores is None else float(np.mean([run.scores.get(name, np.nan) for name in METRICS]))


def _mean(row: Row) -> Spread:
    return row.spread(_mean_of_columns)


MEASURES: dict[str, Callable[[Row], Spread]] = {MEAN: _mean, CHOSEN_BY: partial(Row.column, name=CHOSEN_BY)}


def _treatment(row: Row) -> str:
    return TREATMENTS[row.setting.get("how"), row.setting["unknown"]]


def _by_method(study: Study) -> dict[str, dict[str, dict[float, Row]]]:
    """Rows by method, treatment and share; treatments in the order of `TREATMENTS`."""
    found: dict[str, dict[str, dict[float, Row]]] = {}
    order = list(TREATMENTS.values())
    rows = sorted(study.done, key=lambda row: order.index(_treatment(row)))
    for method in dict.fromkeys(row.method for row in study.done):
        own = found.setdefault(method, {})
        for row in rows:
            if row.method == method:
                own.setdefault(_treatment(row), {})[float(row.setting["hide"])] = row
    return found


def _references(study: Study, comparison: Study | None) -> tuple[dict[str, Row], list[str]]:
    """By method, its runs with all labels; and why some are missing."""
    found: dict[str, Row] = {}
    missing, notes = [], []
    for method, treatments in _by_method(study).items():
        runs = [run for rows in treatments.values() for row in rows.values() for run in row.runs]
        seeds = {run.seed for run in runs}
        row = comparison.row(method) if comparison is not None else None
        shared = () if row is None else tuple(run for run in row.runs if run.seed in seeds)
        if row is None or not shared:
            missing.append(method)
        elif differs := ", ".join(dict.fromkeys(name for run in shared for name in _differing(run, runs[0]))):
            notes.append(f"{row.name}: {NONE_HIDDEN} is left out, those runs differ in {differs}.")
        else:
            found[method] = replace(row, runs=shared)
    if missing:
        notes.append(f"No runs with all labels: {', '.join(missing)}. Plan them with labels: {{hide: 0}}.")
    return found, notes


def _differing(one: Record, other: Record) -> Iterator[str]:
    """What differs between two runs besides seed and hidden labels."""
    for what in ("split_checksum", "judged_by"):
        if getattr(one, what) != getattr(other, what):
            yield what
    settings, others = flat(one.config), flat(other.config)
    for name, value in settings.items():
        ignored = name in NEUTRAL_SETTINGS | PLACES | {"train.seed"} or name.startswith("labels.")
        if not ignored and name in others and others[name] != value:
            yield name


def _table(study: Study, references: Mapping[str, Row], notes: Sequence[str]) -> Table:
    """One row per loss and treatment, one column per share."""
    methods = _by_method(study)
    shares = sorted({share for rows in methods.values() for own in rows.values() for share in own})
    lines: list[Line] = []
    for measure, value in MEASURES.items():
        for method, treatments in methods.items():
            lines += _lines(treatments, references.get(method), shares, measure, value)
    columns = (
        "",
        "training labels",
        "seeds",
        NONE_HIDDEN,
        *(f"{100 * share:g} % hidden" for share in shares),
    )
    title = f"{study_title(study.name)}, {study.dataset_title}, test images, percent"
    below = (_WAYS, *notes, seeds_note(study), *failures(study))
    return Table(study.file_name(study.name), title, columns, tuple(lines), below)


def _lines(
    treatments: Mapping[str, Mapping[float, Row]],
    reference: Row | None,
    shares: Sequence[float],
    measure: str,
    value: Callable[[Row], Spread],
) -> Iterator[Line]:
    nothing = Spread.from_values([])
    spreads = {
        name: [value(rows[share]) if share in rows else nothing for share in shares]
        for name, rows in treatments.items()
    }
    marks = [column_marks(column) for column in zip(*spreads.values(), strict=True)]
    for place, (name, rows) in enumerate(treatments.items()):
        some = next(iter(rows.values()))
        seeds = sorted({len(row.runs) for row in rows.values()})
        cells = [
            Cell(some.name),
            Cell(name),
            Cell(" to ".join(map(str, sorted({seeds[0], seeds[-1]})))),
            Cell("-") if reference is None else score_cell(value(reference)),
        ]
        for column, spread in enumerate(spreads[name]):
            several = sum(bool(each) for each in marks[column]) > 1
            cells.append(score_cell(spread, "best" if several and marks[column][place] == "best" else ""))
        yield Line(tuple(cells), measure)


def _figure(study: Study, references: Mapping[str, Row], folder: Path) -> Figure:
    """One panel per loss, one line per treatment."""
    panels = []
    for method, treatments in _by_method(study).items():
        curves = {name: _curve(rows) for name, rows in treatments.items()}
        level = {NONE_HIDDEN: _mean(references[method]).mean} if method in references else {}
        name = next(iter(next(iter(treatments.values())).values())).name
        panels.append(
            CurvePanel(name, "share of the labels hidden", curves, level, measure="seven columns, mean")
        )
    rows = [panels[start : start + PANELS_PER_ROW] for start in range(0, len(panels), PANELS_PER_ROW)]
    path = folder / f"{study.file_name(study.name)}.png"
    draw_setting_curves(rows, path, same_range=True)
    several = any(len(row.runs) > 1 for row in study.done)
    spread = ", with the standard deviation over seeds" if several else "; one seed"
    return Figure(path, f"{study.name} on {study.dataset_title}: {MEAN}, test images{spread}.")


def _curve(rows: Mapping[float, Row]) -> Curve:
    shares = sorted(rows)
    return Curve(np.array(shares), *means_and_sds(_mean(rows[share]) for share in shares))
