"""Learning rates by epoch."""

import math

import pytest

from marcir.training.loop import learning_rate


def test_restarts_have_the_published_values() -> None:
    wanted = {0: 1e-3, 7: 5.52e-4, 14: 1.1e-5, 15: 8e-4, 30: 6.4e-4, 90: 2.62e-4, 99: 9.1e-5}
    for epoch, rate in wanted.items():
        assert learning_rate("restarts", 1e-3, epoch, 100) == pytest.approx(rate, rel=0.01)


def test_steps_keep_the_rate_for_15_epochs() -> None:
    rates = [learning_rate("step", 1.0, epoch, 100) for epoch in range(31)]
    assert rates[:15] == [1.0] * 15
    assert rates[15:30] == [0.8] * 15
    assert rates[30] == pytest.approx(0.64)


def test_a_cosine_falls_from_the_first_rate_towards_zero() -> None:
    rates = [learning_rate("cosine", 2.0, epoch, 10) for epoch in range(10)]
    assert rates[0] == 2.0
    assert rates[5] == pytest.approx(1.0)
    assert rates[9] == pytest.approx(1 + math.cos(0.9 * math.pi))
    assert rates == sorted(rates, reverse=True)
