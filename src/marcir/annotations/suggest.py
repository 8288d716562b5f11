"""Suggestions: images that probably have a label, learned from those of which it is known.

One logistic regression per label, on the vectors of the store. A label of an image is present (1), absent
(0) or unknown (-1).
"""

from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

import numpy as np

from marcir.data.label_csv import State
from marcir.errors import StoreError, needs

with needs("serve"):
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import average_precision_score
    from sklearn.model_selection import StratifiedKFold

Order = Literal["uncertain", "confident"]
STATES: dict[State, int] = {"present": 1, "absent": 0, "unknown": -1}

# Inverse strength of the L2 regularisation, and images of unknown state that are taken for absent, with their
# weight beside an image that is known to be absent. AP on UC Merced from so many present and absent labels,
# two seeds (benchmarks/active_learning.py --choices):
#
#      C   taken for absent       5 + 0  5 + 5  10 + 15  50 + 50
#     10   none                          75.5   83.3     90.0
#     10   20 of weight 0.1       76.0   77.2   83.6     90.1
#     10   200 of weight 0.1      76.9   78.2   83.3     90.7
#     10   200 of weight 1        76.9   77.8   82.1     90.0
#     10   1,000 of weight 0.02   77.5   78.1   83.6     90.7
#      1   200 of weight 0.1      76.6   78.1   82.6     88.6
#    100   200 of weight 0.1      76.0   76.3   81.2     89.8
#
# 1,000 are no better beyond the noise, and slower to learn from.
_C = 10.0
WEAK, _WEAK_WEIGHT = 200, 0.1
# Known images that a classifier is learned from, and that it is scored with: of more, a random part.
LEARNED, SCORED = 5000, 1000
_FOLDS = 5
_FIRST_POINT = 10  # labels of the first point of a curve; every next point has twice as many


@dataclass(frozen=True, eq=False)
class LabelClassifier:
    """A logistic regression for one label: probability = 1 / (1 + exp(-(x . weights + bias))).

    Attributes:
        weights: float32. (D,)
        bias: The logit of a vector of zeros.
    """

    weights: np.ndarray
    bias: float

    def logits(self, vectors: np.ndarray) -> np.ndarray:
        """Logits of images, float32: above 0 where the label is probably present. (N, D) -> (N,)"""
        logits: np.ndarray = vectors @ self.weights + np.float32(self.bias)
        return logits


def fit_classifier(
    vectors: np.ndarray, states: np.ndarray, weak: np.ndarray | None = None
) -> LabelClassifier:
    """Learn a label from images of which it is known.

    Present and absent labels have the same weight together, however few there are of either.

    Args:
        vectors: Unit length, float32. (N, D)
        states: 1 where the label is present, 0 where it is absent. (N,)
        weak: Vectors of images of unknown state, which are taken for absent with a small weight. (M, D)

    Raises:
        StoreError: Where no label is present, or none is absent and there are no weak ones.

    >>> x = np.array([[1, 0], [0.8, 0.6], [0, 1]], np.float32)
    >>> fit_classifier(x, np.array([1, 1, 0])).logits(x) > 0
    array([ True,  True, False])
    """
    weak = vectors[:0] if weak is None else weak
    present = np.concatenate([states == 1, np.zeros(len(weak), bool)])
    weights = np.concatenate([np.ones(len(states)), np.full(len(weak), _WEAK_WEIGHT)])
    if not present.any():
        raise StoreError("suggestions need at least one image that is known to have the label.")
    if present.all():
        raise StoreError("suggestions need images that do not have the label, or of which it is unknown.")
    for group in (present, ~present):
        weights[group] *= len(states) / 2 / weights[group].sum()
    model = LogisticRegression(C=_C, max_iter=1000)
    model.fit(np.concatenate([vectors, weak]).astype(np.float64), present, sample_weight=weights)
    return LabelClassifier(model.coef_[0].astype(np.float32), float(model.intercept_[0]))


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Probabilities of logits, float64. (N,)

    >>> probabilities(np.array([0.0, 1e4, -1e4]))
    array([0.5, 1. , 0. ])
    """
    chances: np.ndarray = 0.5 * (1 + np.tanh(0.5 * logits.astype(np.float64)))
    return chances


def least_logit(probability: float) -> float:
    """The logit of a probability.

    >>> least_logit(0.5), least_logit(0.0), least_logit(1.0)
    (0.0, -inf, inf)
    """
    if probability in (0, 1):
        return float(np.inf if probability else -np.inf)
    return float(np.log(probability) - np.log1p(-probability))


def suggested_rows(
    logits: np.ndarray, candidates: np.ndarray, order: Order, most: int | None = None
) -> np.ndarray:
    """Candidates, the most uncertain or the most confident first; equal ones in the order of rows.

    Args:
        logits: Of all images. (N,)
        candidates: Rows that may be suggested, sorted. (M,)
        order: "uncertain": probabilities nearest to 1/2 first; "confident": largest probabilities first.
        most: How many; all by default.

    >>> suggested_rows(np.array([0.1, 3.0, -0.5]), np.arange(3), "uncertain")
    array([0, 2, 1])
    >>> suggested_rows(np.array([0.1, 3.0, -0.5]), np.arange(3), "confident", most=2)
    array([1, 0])
    """
    values = abs(logits[candidates]) if order == "uncertain" else -logits[candidates]
    if most is not None and 0 < most < len(values):  # a page is not worth sorting a million
        kept = values <= np.partition(values, most - 1)[most - 1]
        values, candidates = values[kept], candidates[kept]
    rows: np.ndarray = candidates[np.argsort(values, kind="stable")[:most]]
    return rows


def learned_rows(states: np.ndarray, most: int = LEARNED, seed: int = 0) -> np.ndarray:
    """Rows of known states to learn from, in their order: all, or of many a random half of each state.

    Args:
        states: 1 present, 0 absent, -1 unknown. (N,)
        most: How many, half of them present and half absent.
        seed: Which ones.

    >>> learned_rows(np.array([1, -1, 0, -1, 1]))
    array([0, 2, 4])
    """
    rng = np.random.default_rng(seed)
    return np.sort(
        np.concatenate([rng.permutation(np.flatnonzero(states == state))[: most // 2] for state in (0, 1)])
    )


def weak_rows(states: np.ndarray, seed: int = 0) -> np.ndarray:
    """Random rows of unknown states, which are taken for absent; at most `WEAK`. (N,)

    >>> weak_rows(np.array([1, -1, 0, -1]))
    array([1, 3])
    """
    rng = np.random.default_rng(seed)
    return np.sort(rng.permutation(np.flatnonzero(states < 0))[:WEAK])


@dataclass(frozen=True)
class CurvePoint:
    """Cross-validated average precision of what the first so many labels teach."""

    labels: int
    average_precision: float


def learning_curve(
    vectors: np.ndarray, states: np.ndarray, weak: np.ndarray | None = None
) -> tuple[CurvePoint, ...]:
    """Cross-validated AP of a label, as labels grow.

    Known images are split into five stratified folds. Each fold is ranked by a classifier that has learned
    from the others, for every point from those of its images that were labelled first. So all points are
    measured on the same images, and the last one is the usual cross-validated AP: the mean over the folds.

    Args:
        vectors: Of images of which the label is known, in the order in which they were labelled. (N, D)
        states: 1 present, 0 absent. (N,)
        weak: As of `fit_classifier`. (M, D)

    Returns:
        A point for 10, 20, 40 ... and all labels. None where fewer than five are present, or absent; points
        are left out where a fold would have nothing to learn from.
    """
    if min(np.count_nonzero(states == 1), np.count_nonzero(states == 0)) < _FOLDS:
        return ()
    folds = list(StratifiedKFold(_FOLDS, shuffle=True, random_state=0).split(vectors, states))
    points = []
    for count in _curve_counts(len(states)):
        scores = [_fold_score(vectors, states, weak, train[train < count], test) for train, test in folds]
        measured = [score for score in scores if score is not None]
        if len(measured) == _FOLDS:
            points.append(CurvePoint(count, float(np.mean(measured))))
    return tuple(points)


def _curve_counts(known: int) -> list[int]:
    """Numbers of labels of the points of a curve.

    >>> _curve_counts(45), _curve_counts(40)
    ([10, 20, 40, 45], [10, 20, 40])
    """
    doubled = takewhile(lambda count: count < known, (_FIRST_POINT << place for place in range(64)))
    return [*doubled, known]


def _fold_score(
    vectors: np.ndarray, states: np.ndarray, weak: np.ndarray | None, learned: np.ndarray, test: np.ndarray
) -> float | None:
    """AP of the test rows by what other rows teach; None where these are all present, or all absent."""
    has_absent = (states[learned] == 0).any() or (weak is not None and len(weak) > 0)
    if not (states[learned] == 1).any() or not has_absent:
        return None
    classifier = fit_classifier(vectors[learned], states[learned], weak)
    return float(average_precision_score(states[test], classifier.logits(vectors[test])))
