"""Statistical significance of MARC and our methods against the best baselines."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_ind_from_stats

from marcir.experiments.report.names import BASELINES, OF_INTEREST, OURS
from marcir.experiments.report.runs import Row, Study
from marcir.experiments.report.table import Cell, Line, Table, number_cell
from marcir.metrics.comparison import ColumnComparison, compare_scores
from marcir.metrics.retrieval_metrics import METRICS
from marcir.metrics.scores import Scores

LEVEL = 0.05
METHOD = (
    "Differences are tested over queries and over seeds; a verdict needs both. p of queries: paired "
    "randomisation test, in which queries with equal label sets are swapped together; the 95 % interval "
    "resamples them together, too. p of seeds: Welch's t test on the scores of the seeds, because the test "
    "over queries alone often separates two seeds of one loss. Both are two-sided. Holm p: the larger one, "
    "corrected for the columns of the table. better or worse: Holm p < 0.05; level: anything else; open: one "
    "seed, not testable. The best baseline is selected on these test images, which makes better harder and "
    "worse easier to reach. All results are for this split."
)


@dataclass(frozen=True)
class ColumnTest:
    """Tests of one column of two methods.

    Attributes:
        against: The other method.
        seeds: Number of seeds that both have; values of a query are means over them.
        over_queries: Interval and p over queries; the second is the method.
        p_of_seeds: p of Welch's t test over seeds; nan for fewer than two.
        holm: The larger p, corrected for the other columns.
    """

    against: str
    seeds: int
    over_queries: ColumnComparison
    p_of_seeds: float
    holm: float

    @property
    def verdict(self) -> str:
        """better, worse, level, or open."""
        if math.isnan(self.p_of_seeds):
            return "open"
        if not self.holm < LEVEL:
            return "level"
        return "better" if self.over_queries.difference > 0 else "worse"


@dataclass(frozen=True)
class MethodComparison:
    """Tests of a method against another, column by column.

    Attributes:
        method: Name of the method in the records.
        name: Its name in tables.
        against: Name of the other method, or "the best baseline".
        columns: One test per column that both have.
    """

    method: str
    name: str
    against: str
    columns: tuple[ColumnTest, ...]

    @property
    def sentence(self) -> str:
        """How many columns have each verdict."""
        verdicts = [each.verdict for each in self.columns]
        counts = [f"{word} in {verdicts.count(word)}" for word in _VERDICTS if word in verdicts]
        other = "the best baseline of each column" if self.against == _BEST else self.against
        return f"{self.name} against {other}: {', '.join(counts)} of {len(verdicts)} columns."

    def table(self, study: Study) -> Table:
        """One line per column."""
        seeds = [each.seeds for each in self.columns]
        ends = " to ".join(map(str, sorted({min(seeds), max(seeds)})))
        notes = (f"{self.sentence} Values of a query are means over the seeds that both have ({ends}).",)
        other = "best" if self.against == _BEST else self.against.lower()
        name = study.file_name(self.method, "against", other)
        title = f"{self.name} against {self.against}"
        return Table(name, title, _HEADER, tuple(map(_line, self.columns)), notes)


_BEST = "the best baseline"
_VERDICTS = ("better", "level", "worse", "open")
_HEADER = (
    *("", "verdict", "against", "its mean", "own mean", "difference"),
    *("95 % from", "to", "p of queries", "p of seeds", "Holm p"),
)


def compare_methods(study: Study) -> list[MethodComparison]:
    """Compare the methods of interest with the best baseline, and ours with MARC."""
    baselines, marc = study.rows_of(BASELINES), study.row("marc")
    found = [
        _compare(row, _BEST, {name: best_baseline(baselines, name, row) for name in METRICS})
        for row in study.rows_of(OF_INTEREST)
    ]
    if marc is not None:
        found += [_compare(row, marc.name, dict.fromkeys(METRICS, marc)) for row in study.rows_of(OURS)]
    return [each for each in found if each.columns]


def best_baseline(rows: Sequence[Row], column: str, method: Row) -> Row | None:
    """The best row in a column over the seeds shared with a method: at least two, where any row has two."""
    shared = {id(row): _shared_seeds(row, method) for row in rows if row.column(column).seeds}
    enough = min(2, max(map(len, shared.values()), default=0))
    able = [row for row in rows if enough and len(shared.get(id(row), ())) >= enough]
    return max(able, key=lambda row: np.mean(_by_seed(row, shared[id(row)], column)), default=None)


def _shared_seeds(row: Row, other: Row) -> list[int]:
    return sorted(set(row.seeds) & set(other.seeds))


def _compare(row: Row, against: str, others: Mapping[str, Row | None]) -> MethodComparison:
    tested: list[tuple[str, int, ColumnComparison, float]] = []
    for name in METRICS:
        other = others[name]
        seeds = _shared_seeds(row, other) if other is not None else []
        if other is None or not seeds or not row.column(name).seeds:
            continue
        labels = next(run.labels for run in other.runs if run.seed in seeds)
        first, second = seed_mean(other, seeds, name), seed_mean(row, seeds, name)
        over_queries = compare_scores(first, second, groups=labels or None)[0]
        p_of_seeds = welch(_by_seed(other, seeds, name), _by_seed(row, seeds, name))
        tested.append((other.name, len(seeds), over_queries, p_of_seeds))
    corrected = holm([math.nan if math.isnan(p) else max(each.p, p) for _, _, each, p in tested])
    columns = [ColumnTest(*each, holm=p) for each, p in zip(tested, corrected, strict=True)]
    return MethodComparison(row.method, row.name, against, tuple(columns))


def _scores(row: Row, seeds: Sequence[int]) -> list[Scores]:
    return [run.scores for run in row.runs if run.seed in seeds and run.scores is not None]


def _by_seed(row: Row, seeds: Sequence[int], column: str) -> list[float]:
    return [scores[column] for scores in _scores(row, seeds)]


def welch(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided p of Welch's t test; nan for fewer than two values each.

    >>> round(welch([1.0, 2.0, 3.0], [4.0, 5.0, 7.0]), 4)
    0.0419
    """
    if min(len(first), len(second)) < 2:
        return math.nan
    moments = [(np.mean(values), np.std(values, ddof=1), len(values)) for values in (first, second)]
    p = float(ttest_ind_from_stats(*moments[0], *moments[1], equal_var=False).pvalue)
    return 1.0 if math.isnan(p) else p  # all values are the same


def seed_mean(row: Row, seeds: Sequence[int], column: str) -> Scores:
    """Average a column over seeds, query by query."""
    runs = _scores(row, seeds)
    ids = runs[0].ids
    values = []
    for scores in runs:
        place = {image: position for position, image in enumerate(scores.ids)}
        values.append(scores.per_query[column][[place[image] for image in ids]])
    return Scores({column: np.mean(values, axis=0)}, ids, runs[0].gallery, None, runs[0].variants)


def holm(p: Sequence[float]) -> list[float]:
    """Correct p-values for multiple tests by Holm's step-down method; nan is left out.

    >>> [round(value, 3) for value in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    known = sorted((place for place in range(len(p)) if not math.isnan(p[place])), key=lambda place: p[place])
    corrected, least = [math.nan] * len(p), 0.0
    for step, place in enumerate(known):
        least = max(least, min(1.0, (len(known) - step) * p[place]))
        corrected[place] = least
    return corrected


def _line(test: ColumnTest) -> Line:
    found = test.over_queries
    signed = (found.difference, found.interval.low, found.interval.high)
    cells = (
        *map(Cell, (found.column, test.verdict, test.against)),
        *(number_cell(100 * value) for value in (found.first, found.second)),
        *(Cell(f"{100 * value:+.1f}", 100 * value) for value in signed),
        *(number_cell(p, digits=4) for p in (found.p, test.p_of_seeds, test.holm)),
    )
    return Line(cells)
