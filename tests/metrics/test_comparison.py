"""Intervals and tests over queries, against what is computed independently or counted in full."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from marcir.errors import ConfigError, DataError
from marcir.metrics import Scores, comparison
from marcir.metrics.comparison import RESAMPLES, bootstrap_intervals, compare_scores


def scores(values: Sequence[float], column: str = "wAP@100", **more: Any) -> Scores:
    ids = more.pop("ids", tuple(f"image {number}" for number in range(len(values))))
    return Scores({column: np.array(values, dtype=np.float64)}, ids, more.pop("gallery", 50), **more)


def random_values(queries: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(queries)


# ---- The bootstrap -------------------------------------------------------------------------------


def exact_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 2.5 % and 97.5 % quantiles of the mean over all n^n ways to draw again."""
    means = sorted(math.fsum(drawn) / len(values) for drawn in itertools.product(values, repeat=len(values)))
    return means[int(0.025 * len(means))], means[math.ceil(0.975 * len(means)) - 1]


@pytest.mark.parametrize("values", [[0.1, 0.4, 0.45, 0.7, 0.9, 1.0], [0.0, 0.0, 0.5, 0.6, 0.61, 0.9]])
def test_the_interval_of_few_queries_is_that_of_all_ways_to_draw_them(values: list[float]) -> None:
    interval = bootstrap_intervals(scores(values))["wAP@100"]
    low, high = exact_interval(values)
    assert interval.low == pytest.approx(low, abs=0.02)
    assert interval.high == pytest.approx(high, abs=0.02)


def test_the_interval_of_many_queries_is_that_of_the_normal_law() -> None:
    values = random_values(900)
    interval = bootstrap_intervals(scores(values))["wAP@100"]
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert interval.low == pytest.approx(values.mean() - half, abs=0.05 * half)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.05 * half)


def test_nineteen_of_twenty_intervals_hold_the_true_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "RESAMPLES", 1000)
    held = 0
    for seed in range(300):
        interval = bootstrap_intervals(scores(random_values(60, seed)), seed)["wAP@100"]
        held += interval.low <= 0.5 <= interval.high
    assert 0.91 <= held / 300 <= 0.98


def test_queries_left_out_do_not_count() -> None:
    values = random_values(40)
    with_gaps = np.full(80, np.nan)
    with_gaps[::2] = values
    assert bootstrap_intervals(scores(with_gaps)) == bootstrap_intervals(scores(values))
    nothing = bootstrap_intervals(scores([math.nan, math.nan]))["wAP@100"]
    assert math.isnan(nothing.low)
    assert math.isnan(nothing.high)


def test_one_query_or_equal_ones_have_an_interval_without_width() -> None:
    for values in ([0.3], [0.3] * 20):
        interval = bootstrap_intervals(scores(values))["wAP@100"]
        assert (interval.low, interval.high) == pytest.approx((0.3, 0.3))


def test_how_many_draws_are_held_at_a_time_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = scores(random_values(30)), scores(random_values(30, 1))
    at_once = compare_scores(first, second)
    monkeypatch.setattr(comparison, "_DRAWN", 1)
    monkeypatch.setattr(comparison, "RESAMPLES", 500)
    one_by_one = compare_scores(first, second)[0]
    assert one_by_one.interval.low == pytest.approx(at_once[0].interval.low, abs=0.03)
    assert one_by_one.p == pytest.approx(at_once[0].p, abs=0.08)


def test_the_seed_decides_the_draws_alone() -> None:
    first, second = scores(random_values(30)), scores(random_values(30, 1))
    np.random.seed(0)
    state = np.random.get_state()[1].copy()
    assert (
        compare_scores(first, second) == compare_scores(first, second, 0) != compare_scores(first, second, 1)
    )
    np.testing.assert_array_equal(np.random.get_state()[1], state)


@pytest.mark.parametrize("seed", [-1, 2**63, 0.5])
def test_a_seed_that_no_generator_takes_is_refused(seed: Any) -> None:
    with pytest.raises(ConfigError, match="seed"):
        bootstrap_intervals(scores([0.5]), seed)
    with pytest.raises(ConfigError, match="seed"):
        compare_scores(scores([0.5]), scores([0.6]), seed)


# ---- The randomisation test ----------------------------------------------------------------------


def exact_p(difference: Sequence[float]) -> float:
    """The share of all 2^n exchanges with a difference at least as large."""
    seen = abs(math.fsum(difference))
    sums = [
        abs(math.fsum(sign * each for sign, each in zip(signs, difference, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(difference))
    ]
    return sum(each >= seen - 1e-9 for each in sums) / len(sums)


@pytest.mark.parametrize("queries", [1, 2, 3, 5, 8, 11])
@pytest.mark.parametrize("shift", [0.0, 0.1, 0.3])
def test_p_is_the_share_of_all_exchanges(queries: int, shift: float) -> None:
    rng = np.random.default_rng(queries)
    first = rng.random(queries) * 0.6
    second = np.clip(first + rng.normal(shift, 0.1, queries), 0, 1)
    found, p = compare_scores(scores(first), scores(second))[0], exact_p(second - first)
    error = 4 * math.sqrt(p * (1 - p) / RESAMPLES) + 2 / RESAMPLES
    assert found.p == pytest.approx(p, abs=error)


def test_queries_of_a_group_change_places_and_are_drawn_together() -> None:
    """Twins say nothing new: the p and the interval are those of one of each pair."""
    single = random_values(9) - 0.3
    zeros, groups = np.zeros(9), list("abcdefghi")
    twice = compare_scores(
        scores(np.repeat(zeros, 2)),
        scores(np.repeat(single, 2)),
        groups=[key for key in groups for _ in "ab"],
    )[0]
    once = compare_scores(scores(zeros), scores(single))[0]
    assert (twice.queries, once.queries) == (18, 9)
    assert twice.p == once.p
    assert twice.p == pytest.approx(exact_p(single), abs=0.02)
    assert (twice.interval.low, twice.interval.high) == pytest.approx((once.interval.low, once.interval.high))
    alone = compare_scores(scores(np.repeat(zeros, 2)), scores(np.repeat(single, 2)))[0]
    assert alone.p < twice.p


def test_equal_differences_are_ties_however_they_are_rounded() -> None:
    # Up to rounding, 6 of 16 exchanges give 0, 8 give 0.2 either way, 2 give 0.4: p = 10/16.
    first, second = [0.1, 0.2, 0.3, 0.4], [0.2, 0.3, 0.4, 0.3]
    found = compare_scores(scores(first), scores(second))[0]
    assert found.p == pytest.approx(exact_p([0.1, 0.1, 0.1, -0.1]), abs=0.02)


def test_equal_models_have_no_difference_and_p_1() -> None:
    values = random_values(25)
    found = compare_scores(scores(values), scores(values))[0]
    assert (found.difference, found.p, found.interval.low, found.interval.high) == (0, 1, 0, 0)


def test_p_is_never_0() -> None:
    found = compare_scores(scores([0.1] * 60), scores([0.9] * 60))[0]
    assert found.p == 1 / (1 + RESAMPLES)


def test_p_below_a_twentieth_comes_once_in_twenty_where_models_do_not_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison, "RESAMPLES", 400)
    low = 0
    for seed in range(400):
        pair = scores(random_values(30, 2 * seed)), scores(random_values(30, 2 * seed + 1))
        low += compare_scores(*pair, seed=seed)[0].p <= 0.05
    assert 0.02 <= low / 400 <= 0.085


def test_the_models_change_places_and_only_the_sign_changes() -> None:
    first, second = scores(random_values(50)), scores(random_values(50, 1))
    there, back = compare_scores(first, second)[0], compare_scores(second, first)[0]
    assert there.difference == pytest.approx(-back.difference)
    assert there.p == back.p
    assert there.interval.low == pytest.approx(-back.interval.high, abs=0.005)
    assert (there.first, there.second, there.queries) == (back.second, back.first, 50)


# ---- What is compared ----------------------------------------------------------------------------


def test_the_order_of_the_queries_does_not_matter() -> None:
    first, second = random_values(20), random_values(20, 1)
    ids = tuple(f"q{number}" for number in range(20))
    order = np.random.default_rng(3).permutation(20)
    shuffled = scores(second[order], ids=tuple(ids[place] for place in order))
    assert compare_scores(scores(first, ids=ids), shuffled) == compare_scores(
        scores(first, ids=ids), scores(second, ids=ids)
    )


def test_queries_that_one_model_leaves_out_are_compared_by_none() -> None:
    nan = math.nan
    found = compare_scores(scores([0.1, nan, 0.3, 0.4]), scores([0.2, 0.3, nan, 0.8]))[0]
    assert found.queries == 2
    assert (found.first, found.second, found.difference) == pytest.approx((0.25, 0.5, 0.25))
    nothing = compare_scores(scores([nan, 0.1]), scores([0.1, nan]))[0]
    assert nothing.queries == 0
    assert all(map(math.isnan, (nothing.first, nothing.difference, nothing.p, nothing.interval.low)))


REFUSED = {
    "a query of the first alone": (
        scores([0.1, 0.2], ids=("a", "b")),
        "the query 'c' is in the second alone",
    ),
    "a query of the second alone": (
        scores([0.1, 0.2, 0.3, 0.4], ids=("a", "b", "c", "d")),
        "the query 'd' is in the first alone",
    ),
    "other queries": (
        scores([0.1, 0.2, 0.3], ids=("a", "b", "x y")),
        "the query 'x y' is in the first alone",
    ),
    "another gallery": (scores([0.1, 0.2, 0.3], ids=("a", "b", "c"), gallery=1200), "1,200 and 50 images"),
    "another variant": (
        scores([0.1, 0.2, 0.3], ids=("a", "b", "c"), variants={"ap": "trapezoid"}),
        "trapezoid",
    ),
    "other unknown labels": (
        scores([0.1, 0.2, 0.3], ids=("a", "b", "c"), pairs_left_out=7),
        "they leave out 7 and 0 pairs",
    ),
    "another column": (scores([0.1, 0.2, 0.3], "recall", ids=("a", "b", "c")), "recall and wAP@100"),
}


@pytest.mark.parametrize(("other", "text"), REFUSED.values(), ids=REFUSED)
def test_models_that_were_not_judged_alike_are_refused(other: Scores, text: str) -> None:
    with pytest.raises(DataError, match=text):
        compare_scores(other, scores([0.1, 0.2, 0.3], ids=("a", "b", "c")))
