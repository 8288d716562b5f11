"""The main table: references and every method over the seven metrics."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from marcir.experiments.report.names import REFERENCES, TITLED, row_group
from marcir.experiments.report.runs import COLUMNS, Row, Spread, Study, setting_text
from marcir.experiments.report.table import Cell, Line, Mark, Table, number_cell, score_cell
from marcir.metrics.retrieval_metrics import METRICS
from marcir.text_tables import percent

COST_UNIT = "mulsupcon"  # loss steps are shown as ratios to its loss step
TAIL_NOTE = "tail: mean AP of the rarest third of the labels."


def comparison_table(study: Study) -> Table:
    """References, then methods with mean rank, metrics, tail and cost."""
    rows = study.done
    costs = ("training, s", "loss step, ms", "ratio to MulSupCon")
    columns = ("", "seeds", "mean rank", *COLUMNS, *costs)
    marks = {name: column_marks([row.column(name) for row in rows]) for name in COLUMNS}
    ranks = mean_ranks(rows)
    known = {name for record in study.records for name in record.references}
    lines = [_reference_line(study, name) for name in REFERENCES if name in known]
    for place, row in enumerate(rows):
        cells = [
            Cell(row.name),
            number_cell(len(row.runs), digits=0),
            number_cell(ranks[place], digits=2),
            *(score_cell(row.column(name), marks[name][place]) for name in COLUMNS),
            number_cell(row.spread(lambda run: run.seconds).mean, digits=0),
            number_cell(row.loss_step, digits=2),
            number_cell(loss_step_ratio(study, row), digits=2),
        ]
        lines.append(Line(tuple(cells), row_group(row.loss, row.method)))
    title = f"Comparison on {study.dataset_title}, test images, percent"
    return Table(study.file_name(study.name), title, columns, tuple(lines), _notes(study))


def brief_table(study: Study) -> Table:
    """The table for a terminal: means, marks and mean ranks."""
    whole = comparison_table(study)
    kept = 3 + len(COLUMNS)
    lines = tuple(Line(tuple(map(_mean_only, line.cells[:kept]))) for line in whole.lines)
    return Table(whole.name, whole.title, whole.columns[:kept], lines)


def overall_table(studies: Sequence[Study]) -> Table | None:
    """Mean ranks over several datasets, of the methods that all of them have; None for one dataset.

    Methods are ranked anew among themselves, so that a dataset with more of them does not count differently.
    """
    if len(studies) < 2:
        return None
    shared = set.intersection(*({row.method for row in study.done} for study in studies))
    rows = [row for row in studies[0].done if row.method in shared]
    if len(rows) < 2:
        return None
    methods = [row.method for row in rows]
    ranks = np.array([mean_ranks(study.rows_of(methods)) for study in studies])  # (studies, methods)
    means = ranks.mean(0)
    lines = []
    for place in np.argsort(means, kind="stable"):
        cells = [Cell(rows[place].name), number_cell(float(means[place]), digits=2)]
        cells += [number_cell(float(rank), digits=2) for rank in ranks[:, place]]
        lines.append(Line(tuple(cells)))
    columns = ("", "all datasets", *(study.dataset_title for study in studies))
    notes = ("Mean rank over the seven columns, 1 is best, among the methods that all datasets have.",)
    return Table("overall", "Mean ranks over all datasets", columns, tuple(lines), notes)


def column_marks(column: Sequence[Spread]) -> list[Mark]:
    """Mark the best and the second mean, as rounded in the table; equal values share a mark.

    >>> column_marks([Spread(0.5, None, 1), Spread(0.7, None, 1), Spread(0.6999, None, 1)])
    ['second', 'best', 'best']
    """
    shown = [math.nan if math.isnan(each.mean) else float(percent(each.mean)) for each in column]
    known = sorted({value for value in shown if not math.isnan(value)}, reverse=True)
    names: dict[float, Mark] = dict(zip(known, ("best", "second"), strict=False))
    return [names.get(value, "") for value in shown]


def mean_ranks(rows: Sequence[Row]) -> list[float]:
    """Mean rank of each row over the metrics; 1 is best, ties get their average rank.

    A metric without a value is left out of the row's mean; nan for a row without values.
    """
    means = np.array([[row.column(name).mean for row in rows] for name in METRICS])  # (metrics, rows)
    ranks = rankdata(-means, axis=1, nan_policy="omit")
    return [Spread.from_values(own).mean for own in ranks.T]


def reference(study: Study, name: str, column: str) -> Spread:
    """A metric of a reference: mean over the seeds, one value per seed."""
    by_seed: dict[int, float] = {}
    for record in study.records:
        value = record.references.get(name, {}).get(column)
        if value is not None:
            by_seed.setdefault(record.seed, value)
    return Spread(Spread.from_values(by_seed.values()).mean, None, len(by_seed))


def loss_step_ratio(study: Study, row: Row) -> float:
    """A method's loss step divided by MulSupCon's; nan where one of them was not measured."""
    unit = study.row(COST_UNIT)
    return row.loss_step / (unit.loss_step or math.nan) if unit is not None else math.nan


def _reference_line(study: Study, name: str) -> Line:
    scores = [score_cell(reference(study, name, column)) for column in COLUMNS]
    return Line((Cell(name), *[Cell("-")] * 2, *scores, *[Cell("-")] * 3), "references")


def _mean_only(cell: Cell) -> Cell:
    return cell if cell.sd is None else Cell(cell.text.split(" ± ")[0], cell.value, None, cell.mark)


def _notes(study: Study) -> tuple[str, ...]:
    scores = study.records[0].scores if study.records else None
    notes = [
        "Best in bold, second underlined, as shown, among methods. "
        f"Mean rank: over the seven columns, 1 is best. {TAIL_NOTE} "
        "Loss step: forward and backward of the loss alone on one batch, the shortest of its runs."
    ]
    if scores is not None:
        left_out = ", ".join(f"{number} in {name}" for name, number in scores.left_out.items() if number)
        notes.insert(0, f"{len(scores.ids):,} queries, {scores.gallery:,} gallery images each.")
        if left_out:
            notes[0] += f" Excluded, no relevant image: {left_out}."
        if scores.variants:
            chosen = ", ".join(f"{name} = {value}" for name, value in scores.variants.items())
            notes.append(f"Variants: {chosen}. Not comparable with scores by the default definitions.")
    notes += [seeds_note(study), *failures(study)]
    if any(row_group(row.loss, row.method) == TITLED for row in study.done):
        notes.append("Other settings are ranked and marked like methods.")
    return tuple(notes)


def failures(study: Study) -> list[str]:
    """One sentence per failed run."""
    return [
        f"Failed: {row.name}{f' ({setting_text(run.setting)})' if run.setting else ''}, seed {run.seed}: "
        + " ".join((run.error or "it left no scores").split())
        for row in study.rows
        for run in row.failed
    ]


def seeds_note(study: Study) -> str:
    """Number of seeds behind means and standard deviations."""
    numbers = sorted({len(row.runs) for row in study.done})
    if numbers == [1]:
        return "One seed each: the spread between seeds is unknown."
    if len(numbers) == 1:
        return f"Mean ± sample standard deviation of {numbers[0]} seeds each."
    text = f"Mean ± sample standard deviation of {numbers[0]} to {numbers[-1]} seeds, see the column."
    return text + (" Where there is one, the spread is unknown." if numbers[0] == 1 else "")


def margin(one: Spread, other: Spread) -> str:
    """Format a difference in points, with a note where it is within that of two seeds.

    >>> margin(Spread(0.854, None, 1), Spread(0.842, None, 1))
    '1.2 points'
    >>> margin(Spread(0.8442, None, 1), Spread(0.8439, None, 1))
    '0.03 points'
    >>> margin(Spread(0.854, 0.01, 5), Spread(0.842, 0.01, 5))
    '1.2 points (no more than seeds of one method differ)'
    """
    difference = one.mean - other.mean
    digits = 1 if abs(difference) >= 0.001 else 2
    text = "less than 0.01" if abs(difference) < 0.0001 else percent(difference, digits=digits)
    # Two seeds with standard deviation sd differ by about sqrt(2) sd.
    small = one.sd is not None and other.sd is not None and abs(difference) < math.hypot(one.sd, other.sd)
    return f"{text} points" + (" (no more than seeds of one method differ)" if small else "")
