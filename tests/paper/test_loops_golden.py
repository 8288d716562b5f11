"""The loops give every golden value."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor

from paper import golden, loops

LOOPS: dict[str, Callable[..., Tensor]] = {
    "supcon-all": loops.supcon_all,
    "supcon-any": loops.supcon_any,
    "lbase": loops.lbase,
    "lproto": loops.lproto,
    "lmsc": loops.lmsc,
    "oml": loops.oml,
    "mulsupcon": loops.mulsupcon,
    "wg-mulsupcon": loops.wg_mulsupcon,
    "sim-dis": loops.sim_dis,
    "l-wo-reg": loops.l_wo_reg,
    "lreg": loops.lreg,
    "marc": loops.marc,
    "wg-marc": loops.wg_marc,
    "marc-calibrated": loops.marc_calibrated,
    "marc-proto": loops.marc_proto,
}
WITH_PROTOTYPES = {"lproto", "lmsc", "l-wo-reg", "lreg", "marc-proto"}
WITH_TRAINING = {"marc", "wg-marc", "marc-calibrated", "marc-proto"}


def loss_cases() -> list[object]:
    return [
        pytest.param(name, options, value, id=" ".join([name, *(f"{k}={v}" for k, v in options)]))
        for (name, options), value in golden.GOLDEN.items()
    ]


def pair_cases(symbol: str, values: dict[tuple[int, int], float]) -> list[object]:
    return [pytest.param((i, j), x, id=f"{symbol}_{i}{j}") for (i, j), x in values.items()]


def pair_labels(pair: tuple[int, int]) -> tuple[loops.LabelSet, loops.LabelSet]:
    y = loops.label_sets(golden.labels())
    return y[pair[0]], y[pair[1]]


def to_golden(value: float) -> object:
    return pytest.approx(value, abs=1e-7, rel=0.0)


def test_every_loss_has_a_golden_value() -> None:
    assert {name for name, _ in golden.GOLDEN} == set(LOOPS)


@pytest.mark.parametrize(("name", "options", "value"), loss_cases())
def test_a_loop_gives_its_golden_value(name: str, options: golden.Options, value: float) -> None:
    assert by_loop(name, options, golden.labels(), golden.training_labels()) == to_golden(value)


def by_loop(name: str, options: golden.Options, labels: Tensor, training: Tensor) -> float:
    given: dict[str, object] = dict(options)
    if name in WITH_PROTOTYPES:
        given["prototypes"] = golden.prototypes()
    if name in WITH_TRAINING:
        given["train"] = loops.label_sets(training)
    return LOOPS[name](golden.embeddings(), loops.label_sets(labels), **given).item()


@pytest.mark.parametrize(("name", "value"), golden.GOLDEN_WITH_UNKNOWNS.items())
def test_a_loop_with_unknown_labels_gives_its_golden_value(name: str, value: float) -> None:
    labels, training = golden.hide(golden.labels()), golden.hide(golden.training_labels())
    assert by_loop(name, (), labels, training) == to_golden(value)


def test_images_that_may_share_a_label_are_not_compared() -> None:
    y = loops.label_sets(golden.hide(golden.labels()))
    assert loops.not_compared(y[1], y[2])
    assert loops.jaccard(y[0], y[3]) == 1


@pytest.mark.parametrize(("pair", "value"), pair_cases("w", golden.GOLDEN_WEIGHTS))
def test_a_pair_weight_is_golden(pair: tuple[int, int], value: float) -> None:
    y_i, y_p = pair_labels(pair)
    f = loops.pair_frequency(y_i, y_p, loops.label_sets(golden.training_labels()))
    assert loops.pair_weight(f) == to_golden(value)


@pytest.mark.parametrize(("pair", "value"), pair_cases("T", golden.GOLDEN_TEMPERATURES))
def test_a_pair_temperature_is_golden(pair: tuple[int, int], value: float) -> None:
    y_i, y_a = pair_labels(pair)
    h = loops.anchor_frequency(y_i, loops.label_sets(golden.training_labels()))
    assert loops.pair_temperature(loops.jaccard(y_i, y_a), h) == to_golden(value)
