"""Suggestions, against scikit-learn and the formulas by hand."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_score

from marcir.annotations.suggest import (
    LEARNED,
    WEAK,
    fit_classifier,
    learned_rows,
    learning_curve,
    least_logit,
    probabilities,
    suggested_rows,
    weak_rows,
)
from marcir.errors import StoreError


def unit(rng: np.random.Generator, count: int, dim: int = 8) -> np.ndarray:
    vectors = rng.normal(size=(count, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def labelled() -> tuple[np.ndarray, np.ndarray]:
    """90 images with 25 present labels, which follow a direction with noise."""
    rng = np.random.default_rng(0)
    vectors = unit(rng, 90)
    scores = vectors[:, 0] + rng.normal(scale=0.3, size=90)
    return vectors, (scores >= np.sort(scores)[-25]).astype(int)


def test_without_weak_ones_it_is_the_balanced_regression_of_scikit_learn(
    labelled: tuple[np.ndarray, np.ndarray],
) -> None:
    vectors, states = labelled
    ours = fit_classifier(vectors, states)
    theirs = LogisticRegression(C=10, class_weight="balanced", max_iter=1000).fit(
        vectors.astype(float), states
    )
    np.testing.assert_allclose(
        ours.logits(vectors), theirs.decision_function(vectors.astype(float)), atol=1e-4
    )
    np.testing.assert_allclose(
        probabilities(ours.logits(vectors)), theirs.predict_proba(vectors.astype(float))[:, 1], atol=1e-4
    )


def test_at_the_solution_the_gradient_of_the_weighted_loss_is_zero(
    labelled: tuple[np.ndarray, np.ndarray],
) -> None:
    """The loss by hand: sum of w_i log(1 + exp(-y_i f(x_i))) + |weights|^2 / (2 C), weak ones with 0.1."""
    vectors, states = labelled
    weak = unit(np.random.default_rng(1), 40)
    found = fit_classifier(vectors, states, weak)
    x = np.concatenate([vectors, weak]).astype(float)
    y = np.concatenate([states, np.zeros(40)])
    present, absent, known = 25, 65, 90
    w = np.where(y == 1, known / 2 / present, known / 2 / (absent + 40 * 0.1))
    w[known:] *= 0.1
    residuals = w * (probabilities(x @ found.weights + found.bias) - y)
    assert abs(residuals.sum()) < 2e-2
    assert np.abs(residuals @ x + found.weights / 10).max() < 2e-2
    assert w[y == 1].sum() == pytest.approx(w[y == 0].sum())


def test_of_present_labels_alone_the_unknown_ones_tell_the_difference() -> None:
    rng = np.random.default_rng(2)
    near = unit(rng, 1) + 0.05 * unit(rng, 30)
    found = fit_classifier(near[:5], np.ones(5), unit(rng, 100))
    assert found.logits(near[5:]).min() > np.median(found.logits(unit(rng, 100)))


@pytest.mark.parametrize("states", [[0, 0], [1, 1]])
def test_one_kind_of_label_alone_is_refused(states: list[int]) -> None:
    with pytest.raises(StoreError, match="suggestions need"):
        fit_classifier(unit(np.random.default_rng(0), 2), np.array(states))


def test_the_order_is_that_of_distance_to_one_half_or_of_probability() -> None:
    rng = np.random.default_rng(3)
    logits = rng.normal(size=50).round(1)  # with ties
    candidates = np.flatnonzero(rng.random(50) < 0.7)
    distances = abs(probabilities(logits) - 0.5).round(12)
    by_hand = sorted(candidates, key=lambda row: (distances[row], row))
    assert suggested_rows(logits, candidates, "uncertain").tolist() == by_hand
    for most in (1, 7, 30, len(candidates), 1000):
        assert suggested_rows(logits, candidates, "uncertain", most).tolist() == by_hand[:most]
    by_hand = sorted(candidates, key=lambda row: (-logits[row], row))
    assert suggested_rows(logits, candidates, "confident").tolist() == by_hand


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.5, 0.9, 0.999])
def test_the_least_logit_is_that_of_the_probability(probability: float) -> None:
    assert probabilities(np.array([least_logit(probability)]))[0] == pytest.approx(probability)


def test_of_many_known_images_a_random_half_of_each_state_is_learned_from() -> None:
    states = np.array([1] * 10_000 + [-1] * 1000 + [0] * 1000)
    rows = learned_rows(states)
    assert np.bincount(states[rows]).tolist() == [1000, LEARNED // 2]
    assert (np.diff(rows) > 0).all()
    assert rows.tolist() == learned_rows(states).tolist() != learned_rows(states, seed=1).tolist()
    weak = weak_rows(states)
    assert len(weak) == WEAK == len(set(weak.tolist()))
    assert (states[weak] == -1).all()


def test_the_last_point_of_a_curve_is_the_cross_validated_average_precision(
    labelled: tuple[np.ndarray, np.ndarray],
) -> None:
    vectors, states = labelled
    curve = learning_curve(vectors, states)
    assert [point.labels for point in curve] == [10, 20, 40, 80, 90]
    model = LogisticRegression(C=10, class_weight="balanced", max_iter=1000)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    scores = cross_val_score(model, vectors.astype(float), states, cv=folds, scoring="average_precision")
    assert curve[-1].average_precision == pytest.approx(scores.mean(), abs=1e-6)


def test_a_point_is_learned_from_the_first_labels_and_measured_on_all(
    labelled: tuple[np.ndarray, np.ndarray],
) -> None:
    vectors, states = labelled
    scores = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(vectors, states):
        first = [row for row in train if row < 40]
        model = LogisticRegression(C=10, class_weight="balanced", max_iter=1000)
        model.fit(vectors[first].astype(float), states[first])
        scores.append(average_precision_score(states[test], model.decision_function(vectors[test])))
    point = next(point for point in learning_curve(vectors, states) if point.labels == 40)
    assert point.average_precision == pytest.approx(np.mean(scores), abs=1e-6)


def test_there_is_no_curve_of_fewer_than_five_labels_of_either_state() -> None:
    vectors = unit(np.random.default_rng(4), 40)
    assert learning_curve(vectors, np.array([1] * 4 + [0] * 36)) == ()
    assert learning_curve(vectors, np.array([0] * 4 + [1] * 36)) == ()


def test_points_without_a_present_label_are_left_out_and_weak_ones_replace_absent_labels() -> None:
    rng = np.random.default_rng(5)
    vectors, weak = unit(rng, 40), unit(rng, 20)
    assert [point.labels for point in learning_curve(vectors, np.array([0] * 20 + [1] * 20))] == [40]
    present_first = np.array([1] * 20 + [0] * 20)
    assert [point.labels for point in learning_curve(vectors, present_first)] == [40]
    assert [point.labels for point in learning_curve(vectors, present_first, weak)] == [10, 20, 40]
