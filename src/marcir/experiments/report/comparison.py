"""The main table: every method over the seven columns, beside what results are held against."""

import math
from collections.abc import Sequence

import numpy as np

from marcir.experiments.report.names import REFERENCES, TITLED, group_of
from marcir.experiments.report.runs import Row, Spread, Study, setting_text, spread
from marcir.experiments.report.table import Cell, Line, Mark, Table, number_cell, score_cell
from marcir.metrics.retrieval_metrics import METRICS
from marcir.text_tables import percent

COST_OF = "mulsupcon"  # whose loss step is the unit of the others'
TAIL_NOTE = "tail: mean AP of the rarest third of the labels."


def comparison_table(study: Study) -> Table:
    """References, then methods with spread, tail, mean rank and cost."""
    rows = study.done
    columns = (
        "",
        "seeds",
        "mean rank",
        *METRICS,
        "tail",
        "training, s",
        "loss step, ms",
        "ratio to MulSupCon",
    )
    marks = {name: column_marks([row.column(name) for row in rows]) for name in METRICS}
    tails = column_marks([row.tail for row in rows])
    ranks = mean_ranks(rows)
    lines = [_reference_line(study, name) for name in REFERENCES if _has_reference(study, name)]
    for place, row in enumerate(rows):
        cells = [
            Cell(row.name),
            number_cell(len(row.runs), digits=0),
            number_cell(ranks[place], digits=2),
            *(score_cell(row.column(name), marks[name][place]) for name in METRICS),
            score_cell(row.tail, tails[place]),
            *_costs(study, row),
        ]
        lines.append(Line(tuple(cells), group_of(row.loss, row.method)))
    title = f"Comparison on {study.dataset_title}, test images, percent"
    return Table(study.file_name(study.name), title, columns, tuple(lines), _notes(study))


def brief_table(study: Study) -> Table:
    """What fits a terminal: means, marks and mean ranks."""
    whole = comparison_table(study)
    kept = range(3 + len(METRICS) + 1)
    lines = tuple(Line(tuple(_mean_only(line.cells[place]) for place in kept)) for line in whole.lines)
    return Table(whole.name, whole.title, tuple(whole.columns[place] for place in kept), lines)


def overall_table(studies: Sequence[Study]) -> Table | None:
    """Mean ranks over several datasets, of the methods that all of them have; None for one dataset.

    Methods are ranked anew among themselves, so that a dataset with more of them does not count differently.
    """
    if len(studies) < 2:
        return None
    shared = set.intersection(*({row.method for row in study.done} for study in studies))
    of_studies = [[row for row in study.done if row.method in shared] for study in studies]
    rows = of_studies[0]
    if len(rows) < 2:
        return None
    ranks = np.array([_ranks_by_method(rows, of) for of in of_studies])  # (studies, methods)
    means = ranks.mean(0)
    lines = []
    for place in np.argsort(means, kind="stable"):
        cells = [Cell(rows[place].name), number_cell(float(means[place]), digits=2)]
        cells += [number_cell(float(rank), digits=2) for rank in ranks[:, place]]
        lines.append(Line(tuple(cells)))
    columns = ("", "all datasets", *(study.dataset_title for study in studies))
    notes = ("Mean rank over the seven columns, 1 is best, among the methods that all datasets have.",)
    return Table("overall", "Mean ranks over all datasets", columns, tuple(lines), notes)


def _ranks_by_method(order: Sequence[Row], rows: Sequence[Row]) -> list[float]:
    """Mean ranks of rows, in the order of the methods of others."""
    ranks = dict(zip((row.method for row in rows), mean_ranks(rows), strict=True))
    return [ranks[row.method] for row in order]


def column_marks(of: Sequence[Spread]) -> list[Mark]:
    """The best mean and the second, as they are shown; equals share a mark.

    >>> column_marks([Spread(0.5, None, 1), Spread(0.7, None, 1), Spread(0.6999, None, 1)])
    ['second', 'best', 'best']
    """
    shown = [math.nan if math.isnan(each.mean) else float(percent(each.mean)) for each in of]
    known = sorted({value for value in shown if not math.isnan(value)}, reverse=True)
    names: dict[float, Mark] = dict(zip(known, ("best", "second"), strict=False))
    return [names.get(value, "") for value in shown]


def mean_ranks(rows: Sequence[Row]) -> list[float]:
    """Each row's rank in a column, 1 for the best and the mean of their places for equals; mean over columns.

    Columns in which a row has no value are left out of its mean; nan where it has none at all.
    """
    ranks = np.full((len(METRICS), len(rows)), np.nan)
    for place, name in enumerate(METRICS):
        means = np.array([row.column(name).mean for row in rows])
        known = ~np.isnan(means)
        above = (means[known][None, :] > means[known][:, None]).sum(1)
        equal = (means[known][None, :] == means[known][:, None]).sum(1)
        ranks[place, known] = above + (equal + 1) / 2
    return [float(own[~np.isnan(own)].mean()) if (~np.isnan(own)).any() else math.nan for own in ranks.T]


def reference(study: Study, name: str, column: str) -> Spread:
    """A reference's column: its mean over the seeds, one value per seed."""
    by_seed: dict[int, float] = {}
    for record in study.records:
        value = record.references.get(name, {}).get(column)
        if value is not None:
            by_seed.setdefault(record.seed, value)
    return Spread(spread(by_seed.values()).mean, None, len(by_seed))


def loss_step(study: Study, method: str) -> float:
    """Milliseconds of a method's loss step, see `_step`; nan where it was not measured."""
    row = study.row(method)
    return math.nan if row is None else _step(row)


def _step(row: Row) -> float:
    """The shortest of its runs' loss steps that were timed on an idle machine."""
    timed = [run.loss_milliseconds for run in row.runs if run.timed_idle]
    times = [each for each in timed if each is not None]
    return min(times, default=math.nan)


def _has_reference(study: Study, name: str) -> bool:
    return any(name in record.references for record in study.records)


def _reference_line(study: Study, name: str) -> Line:
    scores = [score_cell(reference(study, name, column)) for column in (*METRICS, "tail")]
    return Line((Cell(name), Cell("-"), Cell("-"), *scores, Cell("-"), Cell("-"), Cell("-")), "references")


def _costs(study: Study, row: Row) -> list[Cell]:
    own = _step(row)
    return [
        number_cell(row.of(lambda run: run.seconds).mean, digits=0),
        number_cell(own, digits=2),
        number_cell(own / (loss_step(study, COST_OF) or math.nan), digits=2),
    ]


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
            notes[0] += f" Left out for want of a relevant image: {left_out}."
        if scores.variants:
            chosen = ", ".join(f"{name} = {value}" for name, value in scores.variants.items())
            notes.append(f"Variants: {chosen}. Not comparable with scores by the default definitions.")
    notes += [seeds_note(study), *failures(study)]
    if any(group_of(row.loss, row.method) == TITLED for row in study.done):
        notes.append("Other settings stand among the ranks and marks like methods of their own.")
    return tuple(notes)


def failures(study: Study) -> list[str]:
    """Why runs have no scores, a sentence each."""
    return [
        f"Failed: {row.name}{f' ({setting_text(run.setting)})' if run.setting else ''}, seed {run.seed}: "
        + " ".join((run.error or "it left no scores").split())
        for row in study.rows
        for run in row.failed
    ]


def seeds_note(study: Study) -> str:
    """How much the spread can be trusted."""
    numbers = sorted({len(row.runs) for row in study.done})
    if numbers == [1]:
        return "One seed each: the spread between seeds is unknown."
    if len(numbers) == 1:
        return f"Mean ± sample standard deviation of {numbers[0]} seeds each."
    text = f"Mean ± sample standard deviation of {numbers[0]} to {numbers[-1]} seeds, as the column says."
    return text + (" Where there is one, the spread is unknown." if numbers[0] == 1 else "")


def margin(of: Spread, other: Spread) -> str:
    """A difference in points, with more digits where one would make it nothing, beside that of two seeds.

    >>> margin(Spread(0.854, None, 1), Spread(0.842, None, 1))
    '1.2 points'
    >>> margin(Spread(0.8442, None, 1), Spread(0.8439, None, 1))
    '0.03 points'
    >>> margin(Spread(0.854, 0.01, 5), Spread(0.842, 0.01, 5))
    '1.2 points (no more than seeds of one method differ)'
    """
    difference = of.mean - other.mean
    digits = 1 if abs(difference) >= 0.001 else 2
    text = "less than 0.01" if abs(difference) < 0.0001 else percent(difference, digits=digits)
    # Two seeds with standard deviation sd differ by about sqrt(2) sd.
    small = of.sd is not None and other.sd is not None and abs(difference) < math.hypot(of.sd, other.sd)
    return f"{text} points" + (" (no more than seeds of one method differ)" if small else "")
