"""Statistical significance: methods of interest against the best of the baselines."""

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
    "A difference can come from the choice of queries or from the seeds; a verdict needs both excluded. p"
    " of queries: paired randomisation test, in which queries with the same labels change places "
    "together; they are drawn together for the 95 % interval, too. p of seeds: Welch's t test on the "
    "scores of the seeds; by the test over queries alone, two seeds of one and the same loss often "
    "differ. Both are two-sided. Holm p: the larger one, corrected for the columns of its table. better "
    "or worse: Holm p < 0.05; level: anything else; open: one seed, which cannot tell. The best baseline "
    "is the best on these test images, which makes better a hard verdict and worse an easy one. All of it"
    " is about this split."
)


@dataclass(frozen=True)
class Match:
    """One column of a method against another's.

    Attributes:
        against: The other method.
        seeds: How many seeds both have; values of a query are means over them.
        found: Interval and p over queries; the second is the method.
        p_of_seeds: How often seeds alone would make such a difference; nan for fewer than two.
        holm: The larger p, corrected for the other columns.
    """

    against: str
    seeds: int
    found: ColumnComparison
    p_of_seeds: float
    holm: float

    @property
    def verdict(self) -> str:
        """In one word."""
        if math.isnan(self.p_of_seeds):
            return "open"
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
        matches: One per column that both have.
    """

    method: str
    name: str
    against: str
    matches: tuple[Match, ...]

    @property
    def sentence(self) -> str:
        """The verdicts, counted."""
        verdicts = [match.verdict for match in self.matches]
        counted = [f"{word} in {verdicts.count(word)}" for word in _VERDICTS]
        said = [text for text in counted if not text.endswith(" 0")]
        whom = "the best baseline of each column" if self.against == _BEST else self.against
        return f"{self.name} against {whom}: {', '.join(said)} of {len(verdicts)} columns."

    def table(self, study: Study) -> Table:
        """One line per column."""
        columns = (
            "",
            "verdict",
            "against",
            "its mean",
            "own mean",
            "difference",
            "95 % from",
            "to",
            "p of queries",
            "p of seeds",
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
_VERDICTS = ("better", "level", "worse", "open")


def contests(study: Study) -> list[Contest]:
    """The methods of interest against the best baseline, and ours against MARC."""
    rows = {method: row for method in OF_INTEREST if (row := study.row(method)) is not None}
    baselines = [row for loss in BASELINES if (row := study.row(loss)) is not None]
    found = [
        _contest(row, _BEST, {name: best_of(baselines, name, row) for name in METRICS})
        for row in rows.values()
    ]
    for loss in OURS:
        if "marc" in rows and loss in rows:
            against = dict.fromkeys(METRICS, rows["marc"])
            found.append(_contest(rows[loss], rows["marc"].name, against))
    return [contest for contest in found if contest.matches]


def best_of(rows: Sequence[Row], column: str, rival: Row) -> Row | None:
    """The best row in a column over the seeds it shares with the rival: two at least, where any has two."""
    shared = {id(row): _shared(row, rival) for row in rows if row.column(column).seeds}
    enough = min(2, max(map(len, shared.values()), default=0))
    able = [row for row in rows if enough and len(shared.get(id(row), ())) >= enough]
    return max(able, key=lambda row: np.mean(_by_seed(row, shared[id(row)], column)), default=None)


def _shared(row: Row, other: Row) -> list[int]:
    return sorted(set(row.seeds) & set(other.seeds))


def _contest(row: Row, against: str, others: Mapping[str, Row | None]) -> Contest:
    met: list[tuple[str, int, ColumnComparison, float]] = []
    for name in METRICS:
        other = others[name]
        seeds = _shared(row, other) if other is not None else []
        if other is None or not seeds or not row.column(name).seeds:
            continue
        labels = next(run.labels for run in other.runs if run.seed in seeds)
        first, second = seed_mean(other, seeds, name), seed_mean(row, seeds, name)
        found = compare_scores(first, second, groups=labels or None)[0]
        p_of_seeds = welch(_by_seed(other, seeds, name), _by_seed(row, seeds, name))
        met.append((other.name, len(seeds), found, p_of_seeds))
    corrected = holm([max(found.p, p) if not math.isnan(p) else math.nan for _, _, found, p in met])
    matches = [Match(*each, holm=p) for each, p in zip(met, corrected, strict=True)]
    return Contest(row.method, row.name, against, tuple(matches))


def _by_seed(row: Row, seeds: Sequence[int], column: str) -> list[float]:
    return [run.scores[column] for run in row.runs if run.seed in seeds and run.scores is not None]


def welch(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided p of Welch's t test: are the means different? nan for fewer than two values each.

    >>> round(welch([1.0, 2.0, 3.0], [4.0, 5.0, 7.0]), 4)
    0.0419
    """
    if min(len(first), len(second)) < 2:
        return math.nan
    facts = [(np.mean(values), np.std(values, ddof=1), len(values)) for values in (first, second)]
    p = float(ttest_ind_from_stats(*facts[0], *facts[1], equal_var=False).pvalue)
    return 1.0 if math.isnan(p) else p  # all values are the same


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
    """p-values corrected for their number, step by step from the smallest (Holm); nan stays out of it.

    >>> [round(value, 3) for value in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    known = sorted((place for place in range(len(p)) if not math.isnan(p[place])), key=lambda place: p[place])
    corrected, least = [math.nan] * len(p), 0.0
    for step, place in enumerate(known):
        least = max(least, min(1.0, (len(known) - step) * p[place]))
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
        number_cell(match.p_of_seeds, digits=4),
        number_cell(match.holm, digits=4),
    )
    return Line(cells)


def _signed(value: float) -> Cell:
    return Cell(f"{100 * value:+.1f}", 100 * value)


def _ends(numbers: Sequence[int]) -> list[int]:
    return sorted({numbers[0], numbers[-1]})
