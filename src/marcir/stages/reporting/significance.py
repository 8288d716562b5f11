"""Is it more than luck? Methods of interest against the best baseline of each column, query by query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from marcir.catalog import METRICS
from marcir.metrics.comparison import ColumnComparison, compare_scores
from marcir.metrics.scores import Scores
from marcir.stages.reporting.names import BASELINES, OF_INTEREST
from marcir.stages.reporting.runs import Row, Study
from marcir.stages.reporting.table import Cell, Line, Table, number_cell

LEVEL = 0.05
METHOD = (
    "Differences in points, with their 95 % bootstrap intervals over queries. p: paired randomisation test "
    "over queries, two-sided. Holm p: corrected for the columns of its table. better or worse: Holm "
    "p < 0.05, else level. The best baseline of a column is the best on these test images, which favours it. "
    "Queries are resampled, seeds are not: p says that these runs differ, and only several seeds can say "
    "that the losses do."
)


@dataclass(frozen=True)
class Match:
    """One column of a method against another's.

    Attributes:
        against: The other method.
        seeds: How many seeds both have; values of a query are means over them.
        found: Interval and p; the second is the method.
        holm: p, corrected for the other columns.
    """

    against: str
    seeds: int
    found: ColumnComparison
    holm: float

    @property
    def verdict(self) -> str:
        """In one word."""
        if not self.holm < LEVEL:
            return "level"
        return "better" if self.found.difference > 0 else "worse"


@dataclass(frozen=True)
class Contest:
    """A method against others, column by column.

    Attributes:
        method: The method as the records call it.
        name: As tables call it.
        against: Whom it meets: a method's name, or "the best baseline".
        matches: One a column that both have.
    """

    method: str
    name: str
    against: str
    matches: tuple[Match, ...]

    @property
    def sentence(self) -> str:
        """The verdicts, counted."""
        verdicts = [match.verdict for match in self.matches]
        counted = [f"{word} in {verdicts.count(word)}" for word in ("better", "level", "worse")]
        said = [text for text in counted if not text.endswith(" 0")]
        whom = "the best baseline of each column" if self.against == _BEST else self.against
        return f"{self.name} against {whom}: {', '.join(said)} of {len(verdicts)} columns."

    def table(self, study: Study) -> Table:
        """One line a column."""
        columns = (
            "",
            "verdict",
            "against",
            "its mean",
            "own mean",
            "difference",
            "95 % from",
            "to",
            "p",
            "Holm p",
        )
        lines = tuple(_line(match) for match in self.matches)
        seeds = sorted({match.seeds for match in self.matches})
        values = "Values of a query are means over the seeds that both have"
        notes = (f"{self.sentence} {values} ({' to '.join(map(str, _ends(seeds)))}).",)
        name = study.file_name(
            self.method, "against", "best" if self.against == _BEST else self.against.lower()
        )
        return Table(name, f"{self.name} against {self.against}", columns, lines, notes)


_BEST = "the best baseline"


def contests(study: Study) -> list[Contest]:
    """The methods of interest against the best baseline, and ours against MARC."""
    rows = {method: row for method in OF_INTEREST if (row := study.row(method)) is not None}
    baselines = [row for loss in BASELINES if (row := study.row(loss)) is not None]
    found = [
        _contest(row, _BEST, {name: best_of(baselines, name, row) for name in METRICS})
        for row in rows.values()
    ]
    if "marc" in rows and "marc-calibrated" in rows:
        against = dict.fromkeys(METRICS, rows["marc"])
        found.append(_contest(rows["marc-calibrated"], rows["marc"].name, against))
    return [contest for contest in found if contest.matches]


def best_of(rows: Sequence[Row], column: str, rival: Row | None = None) -> Row | None:
    """The row with the best mean of a column, among those that share a seed with the rival."""
    able = [row for row in rows if rival is None or set(row.seeds) & set(rival.seeds)]
    able = [row for row in able if row.column(column).seeds]
    return max(able, key=lambda row: row.column(column).mean, default=None)


def _contest(row: Row, against: str, others: Mapping[str, Row | None]) -> Contest:
    met: list[tuple[str, int, ColumnComparison]] = []
    for name in METRICS:
        other = others[name]
        seeds = sorted(set(row.seeds) & set(other.seeds)) if other is not None else []
        if other is None or not seeds or not row.column(name).seeds:
            continue
        first, second = seed_mean(other, seeds, name), seed_mean(row, seeds, name)
        met.append((other.name, len(seeds), compare_scores(first, second)[0]))
    corrected = holm([found.p for _, _, found in met])
    matches = [Match(*each, holm=p) for each, p in zip(met, corrected, strict=True)]
    return Contest(row.method, row.name, against, tuple(matches))


def seed_mean(row: Row, seeds: Sequence[int], column: str) -> Scores:
    """One column whose values are, query by query, the means over seeds."""
    runs = [run.scores for run in row.runs if run.seed in seeds and run.scores is not None]
    ids = runs[0].ids
    values = []
    for scores in runs:
        place = {image: position for position, image in enumerate(scores.ids)}
        values.append(scores.per_query[column][[place[image] for image in ids]])
    return Scores({column: np.mean(values, axis=0)}, ids, runs[0].gallery, None, runs[0].variants)


def holm(p: Sequence[float]) -> list[float]:
    """p-values corrected for their number, step by step from the smallest (Holm).

    >>> [round(value, 3) for value in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    corrected, least = [0.0] * len(p), 0.0
    for step, place in enumerate(sorted(range(len(p)), key=lambda place: p[place])):
        least = max(least, min(1.0, (len(p) - step) * p[place]))
        corrected[place] = least
    return corrected


def _line(match: Match) -> Line:
    found = match.found
    cells = (
        Cell(found.column),
        Cell(match.verdict),
        Cell(match.against),
        number_cell(100 * found.first),
        number_cell(100 * found.second),
        *(_signed(value) for value in (found.difference, found.interval.low, found.interval.high)),
        number_cell(found.p, digits=4),
        number_cell(match.holm, digits=4),
    )
    return Line(cells)


def _signed(value: float) -> Cell:
    return Cell(f"{100 * value:+.1f}", 100 * value)


def _ends(numbers: Sequence[int]) -> list[int]:
    return sorted({numbers[0], numbers[-1]})
