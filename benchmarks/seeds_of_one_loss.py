"""How often do two draws of one and the same loss get a verdict? By queries alone, and by the report's rule.

    python benchmarks/seeds_of_one_loss.py results/ucm-frozen

Needs a comparison with seeds 0 to 4. Counted: columns of all losses that differ after Holm's correction.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from marcir.experiments.record import COMPARISON, Results
from marcir.experiments.report.runs import Row, group_records
from marcir.experiments.report.significance import LEVEL, holm, seed_mean, welch
from marcir.metrics.comparison import compare_scores
from marcir.metrics.retrieval_metrics import METRICS

ONE_AND_ONE = [((a,), (b,)) for a, b in combinations(range(5), 2)]
TWO_AND_TWO = [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]


def scores(row: Row, seeds: Sequence[int], column: str) -> list[float]:
    own = replace(row, runs=tuple(run for run in row.runs if run.seed in seeds))
    return [each[column] for each in own.scores]


def verdicts(row: Row, first: Sequence[int], second: Sequence[int]) -> Iterator[tuple[bool, bool]]:
    """By column: whether they differ by queries alone, and by the rule of the report."""
    alone, both = [], []
    for column in METRICS:
        means = seed_mean(row, first, column), seed_mean(row, second, column)
        alone.append(compare_scores(*means)[0].p)
        together = compare_scores(*means, groups=row.runs[0].labels)[0].p
        both.append(max(together, welch(scores(row, first, column), scores(row, second, column))))
    for p, q in zip(holm(alone), holm(both), strict=True):
        yield p < LEVEL, q < LEVEL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="a folder of marcir benchmark")
    folder = parser.parse_args().results
    records = [each for each in Results(folder).records() if each.study == COMPARISON]
    rows = [row for own in group_records(records).values() for row in own[0].done]
    if not rows:
        parser.error(f"{folder}: no finished runs of a comparison")
    for row in rows:
        if not set(range(5)) <= {run.seed for run in row.runs}:
            parser.error(f"{folder}: {row.name} has not the seeds 0 to 4")
    for name, draws in (("one seed and one", ONE_AND_ONE), ("two seeds and two", TWO_AND_TWO)):
        found = [each for row in rows for first, second in draws for each in verdicts(row, first, second)]
        alone, both = (sum(column) for column in zip(*found, strict=True))
        rule = f", {both} by the report's rule" if draws is TWO_AND_TWO else ""
        print(f"{name}: of {len(found)} columns {alone} differ by queries alone{rule}")


if __name__ == "__main__":
    main()
