"""Suggestions of the service: classifiers are learned once, and kept until their labels or images change.

Runs in one worker thread.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from marcir.annotations.suggest import (
    SCORED,
    CurvePoint,
    fit_classifier,
    learned_rows,
    learning_curve,
    least_logit,
    probabilities,
    suggested_rows,
    weak_rows,
)
from marcir.search.hits import Hit
from marcir.search.missing import unknown_label
from marcir.search.store import Snapshot
from marcir.serve.browse_parameters import SuggestionParameters, ThresholdParameters
from marcir.serve.browse_schemas import (
    CurvePointResponse,
    LabelScoreResponse,
    SuggestedIdsResponse,
    SuggestedResponse,
    SuggestionsResponse,
)
from marcir.serve.served_archive import ServedArchive

_MAX_IDS = 100_000  # as many as one change of labels may have
# Labels whose classifiers, of 5 bytes per image, and whose curves are kept.
_CLASSIFIERS, _CURVES = 8, 1000

T = TypeVar("T")
# What people have stated of a label, by image and in the order in which they did: 1 for present, 0 for
# absent, -1 for unknown.
Statements = Callable[[str], Mapping[str, int]]


@dataclass(frozen=True, eq=False)
class _Learned:
    """What a classifier says of all images.

    Attributes:
        states: 1 where the label is present, 0 absent, -1 unknown. (N,)
        logits: Of the label, float32. (N,)
        weak: Number of images of unknown state that were taken for absent.
    """

    states: np.ndarray
    logits: np.ndarray
    weak: int


class _Recent(Generic[T]):
    """The values that were used last."""

    def __init__(self, most: int) -> None:
        self._most, self._values = most, OrderedDict[Hashable, T]()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._values:
            self._values[key] = make()
        self._values.move_to_end(key)
        if len(self._values) > self._most:
            self._values.popitem(last=False)
        return self._values[key]


class Suggestions:
    """Suggests labels for the images of an archive.

    Args:
        archive: The archive.
        statements: What people have stated of a label; labels of the archive's table are known without it.
    """

    def __init__(self, archive: ServedArchive, statements: Statements) -> None:
        self._archive, self._statements = archive, statements
        self._learned = _Recent[_Learned](_CLASSIFIERS)
        self._curves = _Recent[tuple[CurvePoint, ...]](_CURVES)

    def page(self, parameters: SuggestionParameters) -> SuggestionsResponse:
        """A page of suggestions."""
        (label,) = parameters.label
        start, end = parameters.offset, parameters.offset + parameters.limit

        def suggest(snapshot: Snapshot) -> SuggestionsResponse:
            learned, candidates = self._candidates(snapshot, parameters)
            rows = suggested_rows(learned.logits, candidates, parameters.order, end)[start:]
            found = snapshot.describe(snapshot.ids_of(rows))
            chances = probabilities(learned.logits[rows]).tolist()
            return SuggestionsResponse(
                label=label,
                order=parameters.order,
                hits=[
                    SuggestedResponse.from_hit(Hit.from_row(row), probability=chance)
                    for row, chance in zip(found, chances, strict=True)
                ],
                offset=start,
                limit=parameters.limit,
                total=len(candidates),
                more=end < len(candidates),
                present=int(np.count_nonzero(learned.states == 1)),
                absent=int(np.count_nonzero(learned.states == 0)),
                weak=learned.weak,
            )

        return self._archive.store.read(suggest)

    def ids(self, parameters: ThresholdParameters) -> SuggestedIdsResponse:
        """Ids of all suggestions of at least some probability, as far as one change of labels may have."""
        (label,) = parameters.label

        def suggest(snapshot: Snapshot) -> SuggestedIdsResponse:
            learned, candidates = self._candidates(snapshot, parameters)
            rows = suggested_rows(learned.logits, candidates, "confident", _MAX_IDS)
            return SuggestedIdsResponse(label=label, ids=snapshot.ids_of(rows), total=len(candidates))

        return self._archive.store.read(suggest)

    def score(self, label: str) -> LabelScoreResponse:
        """How well a label can be suggested."""

        def measure(snapshot: Snapshot) -> LabelScoreResponse:
            stated = self._stated(snapshot, label)
            states = self._states(snapshot, stated, label)
            rows = _in_order(learned_rows(states, SCORED), snapshot.rows_of(list(stated)))
            key = (snapshot.version, label, _digest(states), _digest(rows))
            curve = self._curves.get(
                key,
                lambda: learning_curve(
                    snapshot.vectors(rows), states[rows], snapshot.vectors(weak_rows(states))
                ),
            )
            return LabelScoreResponse(
                label=label,
                present=int(np.count_nonzero(states == 1)),
                absent=int(np.count_nonzero(states == 0)),
                average_precision=curve[-1].average_precision if curve else None,
                chance=float(np.mean(states[rows] == 1)) if curve else None,
                curve=[CurvePointResponse(**vars(point)) for point in curve],
            )

        return self._archive.store.read(measure)

    def _candidates(self, snapshot: Snapshot, parameters: ThresholdParameters) -> tuple[_Learned, np.ndarray]:
        """The classifier of a label, and the rows that it may be suggested for. (M,)"""
        (label,) = parameters.label
        learned = self._learn(snapshot, label)
        rows = snapshot.rows(self._archive.where(parameters))
        least = least_logit(parameters.min_probability)
        return learned, rows[(learned.states[rows] < 0) & (learned.logits[rows] >= least)]

    def _learn(self, snapshot: Snapshot, label: str) -> _Learned:
        states = self._states(snapshot, self._stated(snapshot, label), label)

        def learn() -> _Learned:
            known, weak = learned_rows(states), weak_rows(states)
            classifier = fit_classifier(snapshot.vectors(known), states[known], snapshot.vectors(weak))
            logits = snapshot.products(classifier.weights) + np.float32(classifier.bias)
            return _Learned(states, logits, len(weak))

        return self._learned.get((snapshot.version, label, _digest(states)), learn)

    def _stated(self, snapshot: Snapshot, label: str) -> Mapping[str, int]:
        """What people have stated of a label.

        Raises:
            StoreError: For a label that nobody knows.
        """
        stated = self._statements(label)
        if not stated and label not in (known := snapshot.label_counts()):
            raise unknown_label(label, known)
        return stated

    @staticmethod
    def _states(snapshot: Snapshot, stated: Mapping[str, int], label: str) -> np.ndarray:
        """States of a label: those of the archive's table, and over them what people have stated. (N,)"""
        states = snapshot.states(label)
        if stated:
            rows, values = snapshot.rows_of(list(stated)), np.array(list(stated.values()), np.int8)
            states[rows[rows >= 0]] = values[rows >= 0]
        return states


def _in_order(rows: np.ndarray, stated: np.ndarray, seed: int = 0) -> np.ndarray:
    """Rows in the order in which they were labelled: those of the table first, then as they were stated.

    Those of the table have no time, and their ids are often sorted by class: they are in random order.

    >>> _in_order(np.array([1, 4, 6, 8]), np.array([8, 2, 4]))[2:]
    array([8, 4])
    """
    table = np.random.default_rng(seed).permutation(rows[~np.isin(rows, stated)])
    return np.concatenate([table, stated[np.isin(stated, rows)]])


def _digest(values: np.ndarray) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(values).data, digest_size=16).digest()
