"""The golden example of the retrieval metrics, by the scores, by the pure functions and by the loops.

Query {a,b}; gallery in ranked order {a,b}, {c}, {a}, {a,b,c}, {b,d,e}:
J = 1, 0, 1/2, 2/3, 1/4; r = 2, 0, 1, 2, 1.

By hand:
- AP(sim), hits at ranks 1 3 4 5: (1 + 2/3 + 3/4 + 4/5) / 4 = .80416667.
- AP at .4, ranks 1 3 4: (1 + 2/3 + 3/4) / 3 = .80555556; at .6, ranks 1 4: (1 + 2/4) / 2 = .75;
  at .8, rank 1: 1.
- Trapezoid: a hit at rank n adds the mean of the precisions before and after it, P@(n-1) and P@n, with
  P@0 = 1. At .4: rank 1 adds (1 + 1)/2 = 1, rank 3 (1/2 + 2/3)/2 = 7/12, rank 4 (2/3 + 3/4)/2 = 17/24;
  (24 + 14 + 17)/24 / 3 = 55/72 = .76388889. At .6: rank 1 adds 1, rank 4 (1/3 + 2/4)/2 = 5/12;
  (17/12) / 2 = 17/24 = .70833333. At .8: 1.
- wAP@5: the prefix means of J are 1, 1/2, 1/2, 13/24, 29/60; those of the hits 1 3 4 5:
  (1 + 1/2 + 13/24 + 29/60) / 4 = .63125. Threshold variant, hits 1 3 4, divided by 5:
  (1 + 1/2 + 13/24) / 5 = .40833333.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest
import torch
from torch import Tensor

import marcir
from marcir.metrics import (
    average_precision,
    dcg,
    ndcg,
    trapezoid_average_precision,
    weighted_average_precision,
)
from paper import metric_loops as loops

QUERY = "ab"
RANKED = ("ab", "c", "a", "abc", "bde")
J = (Fraction(1), Fraction(0), Fraction(1, 2), Fraction(2, 3), Fraction(1, 4))
r = (2, 0, 1, 2, 1)

GOLDEN: dict[str, float] = {
    "mAP(sim)@5000": 0.80416667,
    "nDCG(sim)@100": 0.88931276,
    "mAP@J0.4": 0.80555556,
    "mAP@J0.6": 0.75,
    "mAP@J0.8": 1.0,
    "nDCG@100": 0.92410770,
    "wAP@100": 0.63125,
}
# All of the gallery is retrieved: its ideal is the ideal of what was retrieved.
GOLDEN_VARIANTS: list[tuple[dict[str, str], dict[str, float]]] = [
    ({}, GOLDEN),
    ({"ideal": "retrieved"}, GOLDEN),
    ({"wap": "threshold"}, GOLDEN | {"wAP@100": 0.40833333}),
    ({"ap": "trapezoid"}, GOLDEN | {"mAP@J0.4": 0.76388889, "mAP@J0.6": 0.70833333}),
]
every_variant = pytest.mark.parametrize(
    ("variants", "golden"), GOLDEN_VARIANTS, ids=lambda each: str(each)[:22]
)


def multi_hot(sets: Sequence[str]) -> Tensor:
    return torch.tensor([[int(label in labels) for label in "abcde"] for labels in sets])


def sets_of(rows: Sequence[str]) -> list[set[int]]:
    return [{ord(label) for label in labels} for labels in rows]


def to_golden(value: float) -> object:
    return pytest.approx(value, abs=5e-9, rel=0.0)


def row(values: Sequence[float | Fraction]) -> Tensor:
    """One query's values in ranked order. (1, K)"""
    return torch.tensor([[float(value) for value in values]], dtype=torch.float64)


def best_first(values: Tensor) -> Tensor:
    return values.sort(1, descending=True).values


# ---- The whole way -------------------------------------------------------------------------------


@every_variant
@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 0, 4, 1, 3)])
def test_the_scores_are_golden(
    variants: Mapping[str, str], golden: Mapping[str, float], order: tuple[int, ...]
) -> None:
    # The further down, the further from the query, and past rank 3 on its other side: negative cosines.
    angles = [0.2, 0.7, 1.2, 1.8, 2.9]
    v = torch.tensor([(math.cos(a), math.sin(a)) for a in angles], dtype=torch.float64)
    scores = marcir.retrieval_scores(
        torch.tensor([[2.0, 0.0]], dtype=torch.float64),
        multi_hot([QUERY]),
        gallery_embeddings=v[list(order)],
        gallery_labels=multi_hot(RANKED)[list(order)],
        variants=variants,
    )
    for column, value in golden.items():
        assert scores[column] == to_golden(value), column
        assert scores.per_query[column].tolist() == [scores[column]]
        assert scores.left_out[column] == 0


@every_variant
def test_the_loops_are_golden(variants: Mapping[str, str], golden: Mapping[str, float]) -> None:
    found = loops.query_scores(sets_of([QUERY])[0], sets_of(RANKED), loops.Variants(**variants))
    assert list(found) == list(golden)
    for column, value in golden.items():
        assert found[column] == to_golden(value), column


def test_the_overlaps_of_the_example_are_as_stated() -> None:
    (query,) = sets_of([QUERY])
    assert tuple(loops.jaccard(query, labels) for labels in sets_of(RANKED)) == J
    assert tuple(loops.shared(query, labels) for labels in sets_of(RANKED)) == r


# ---- The pure functions --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threshold", "value"), [(0.0, 0.80416667), (0.4, 0.80555556), (0.6, 0.75), (0.8, 1.0)]
)
def test_average_precision_is_golden(threshold: float, value: float) -> None:
    relevant = torch.tensor([[overlap > 0 and overlap >= threshold for overlap in J]])
    assert average_precision(relevant).tolist() == [to_golden(value)]
    assert average_precision(relevant, relevant.sum(1)).tolist() == [to_golden(value)]


@pytest.mark.parametrize(("threshold", "value"), [(0.4, 0.76388889), (0.6, 0.70833333), (0.8, 1.0)])
def test_trapezoid_average_precision_is_golden(threshold: float, value: float) -> None:
    relevant = torch.tensor([[overlap >= threshold for overlap in J]])
    assert trapezoid_average_precision(relevant).tolist() == [to_golden(value)]


@pytest.mark.parametrize(
    ("K", "grades", "by_gallery", "by_retrieved"),
    [
        (5, r, 0.88931276, 0.88931276),
        (5, J, 0.92410770, 0.92410770),
        (3, r, 0.64901479, 0.96394043),
        (3, J, 0.76509784, 0.95700375),
    ],
    ids=["nDCG(sim)@5", "nDCG@5", "nDCG(sim)@3", "nDCG@3"],
)
def test_ndcg_is_golden(
    K: int, grades: Sequence[int | Fraction], by_gallery: float, by_retrieved: float
) -> None:
    gains = 2 ** row(grades) - 1
    top = gains[:, :K]
    assert ndcg(top, best_first(gains)[:, :K]).tolist() == [to_golden(by_gallery)]
    assert ndcg(top, best_first(top)).tolist() == [to_golden(by_retrieved)]
    assert loops.ndcg(grades, K) == to_golden(by_gallery)
    assert loops.ndcg(grades, K, "retrieved") == to_golden(by_retrieved)


def test_dcg_discounts_by_the_logarithm_of_the_rank() -> None:
    assert dcg(row([3, 0, 1, 3, 1])).tolist() == [to_golden(3 + 1 / 2 + 3 / math.log2(5) + 1 / math.log2(6))]
    assert dcg(row([0, 0, 2])).tolist() == [to_golden(1.0)]


def test_weighted_average_precision_is_golden() -> None:
    assert weighted_average_precision(row(J)).tolist() == [to_golden(0.63125)]
    phi = torch.tensor([[overlap >= Fraction(4, 10) for overlap in J]])
    assert weighted_average_precision(row(J), phi).tolist() == [to_golden(0.40833333)]


def test_weighted_average_precision_of_the_first_three_ranks() -> None:
    # Prefix means 1, 1/2, 1/2; the hits are 1 and 3.
    assert weighted_average_precision(row(J[:3])).tolist() == [to_golden(0.75)]
    phi = torch.tensor([[True, False, True]])
    assert weighted_average_precision(row(J[:3]), phi).tolist() == [to_golden(0.5)]
