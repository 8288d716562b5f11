"""The losses of the catalog give every golden value."""

from __future__ import annotations

import pytest

import marcir
from marcir.catalog import LOSSES
from marcir.labels import LabelStatistics, jaccard
from marcir.losses import MultiLabelLoss, pair_temperatures, pair_weights
from paper import golden

GOLDEN_CASES = [
    pytest.param(name, options, value, id=" ".join([name, *(f"{k}={v}" for k, v in options)]))
    for (name, options), value in golden.GOLDEN.items()
]


def statistics() -> LabelStatistics:
    return LabelStatistics.from_labels(golden.training_labels())


def golden_loss(
    name: str, options: golden.Options = (), training: LabelStatistics | None = None
) -> MultiLabelLoss:
    training = training or statistics()
    loss = marcir.create_loss(name, statistics=training, embedding_dim=4, **dict(options)).double()
    if hasattr(loss, "prototypes"):
        loss.prototypes.data.copy_(golden.prototypes())
    return loss


def pair_cases(symbol: str, values: dict[tuple[int, int], float]) -> list[object]:
    return [pytest.param(i, j, x, id=f"{symbol}_{i}{j}") for (i, j), x in values.items()]


def to_golden(value: float) -> object:
    return pytest.approx(value, abs=1e-7, rel=0.0)


def test_every_loss_of_the_catalog_has_a_golden_value() -> None:
    assert {name for name, _ in golden.GOLDEN} == set(LOSSES)


@pytest.mark.parametrize(("name", "options", "value"), GOLDEN_CASES)
def test_a_loss_gives_its_golden_value(name: str, options: golden.Options, value: float) -> None:
    loss = golden_loss(name, options)
    assert loss(golden.embeddings(), golden.labels()).item() == to_golden(value)


@pytest.mark.parametrize(("name", "options", "value"), GOLDEN_CASES)
def test_a_loss_in_single_precision_is_near_its_golden_value(
    name: str, options: golden.Options, value: float
) -> None:
    loss = golden_loss(name, options).float()
    found = loss(golden.embeddings().float(), golden.labels())
    assert found.item() == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize(("name", "value"), golden.GOLDEN_WITH_UNKNOWNS.items())
def test_a_loss_with_unknown_labels_gives_its_golden_value(name: str, value: float) -> None:
    training = LabelStatistics.from_labels(golden.hide(golden.training_labels()))
    loss = golden_loss(name, training=training)
    assert loss(golden.embeddings(), golden.hide(golden.labels())).item() == to_golden(value)


def test_overlap_counts_what_both_images_know() -> None:
    y = golden.hide(golden.labels())
    assert jaccard(y, y)[0, 3] == 1


@pytest.mark.parametrize(("i", "p", "value"), pair_cases("w", golden.GOLDEN_WEIGHTS))
def test_a_pair_weight_is_golden(i: int, p: int, value: float) -> None:
    y = golden.labels().double()
    w = pair_weights(statistics().pair_frequency(y, y))  # (7, 7)
    assert w[i, p].item() == to_golden(value)


@pytest.mark.parametrize(("i", "a", "value"), pair_cases("T", golden.GOLDEN_TEMPERATURES))
def test_a_pair_temperature_is_golden(i: int, a: int, value: float) -> None:
    y = golden.labels().double()
    T = pair_temperatures(jaccard(y, y), statistics().anchor_frequency(y))  # (7, 7)
    assert T[i, a].item() == to_golden(value)
