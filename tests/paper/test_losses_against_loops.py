"""Every loss agrees with its loops: values and gradients, on random batches in float64."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

import marcir
from marcir.catalog import LOSSES, loss_options
from marcir.labels import LabelStatistics
from marcir.losses import LMscLoss, MultiLabelLoss
from paper import loops

Options = tuple[tuple[str, Any], ...]

WITH_PROTOTYPES = {"lproto", "lmsc", "l-wo-reg", "lreg", "marc-proto"}
WITH_TRAINING = {"marc", "wg-marc", "marc-calibrated", "marc-proto"}
PAIR_LOSSES = {
    "supcon-all",
    "supcon-any",
    "lbase",
    "mulsupcon",
    "wg-mulsupcon",
    "sim-dis",
    *WITH_TRAINING,
}
# Where a formula has more parts than by default.
FULL: dict[str, dict[str, Any]] = {"marc-calibrated": {"plr": True}, "marc-proto": {"beta": 0.1}}
TEMPERATURES = [{}, {"tau": 0.07}]
OVERLAP_POWERS = [{"overlap_power": a} for a in (0.0, 0.5, 1.0, 2.0, -1.0)] + [{"tau": 0.1}]
MARC = [
    {},
    {"tau_mode": "scale"},
    {"tau_mode": "scale", "tau": 0.1, "anchor_frequency": "min"},
    {"pair_frequency": "pair_mean"},
    {"pair_frequency": "shared_mean"},
    {"pair_frequency": "shared_min"},
    {"anchor_frequency": "min"},
    {"frequency": "relative"},
    {"frequency": "relative", "pair_frequency": "pair_mean", "anchor_frequency": "min"},
    {"frequency": "relative", "pair_frequency": "shared_min"},
    {"plr": False},
    {"dts": False},
    {"dts": False, "tau": 0.1},
    {"plr": False, "dts": False},
    {"alpha": 0.0, "beta": 1.0, "eps": 0.5},
    {"alpha": -0.5, "beta": 0.0},
]
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "supcon-all": TEMPERATURES,
    "supcon-any": TEMPERATURES,
    "lbase": TEMPERATURES,
    "lproto": TEMPERATURES,
    "lmsc": [*TEMPERATURES, {"beta": 1.0}, {"beta": 2.5}],
    "oml": [{}, {"norm": "label"}, {"anneal": 0.1}, {"anneal": 0.1, "norm": "label"}],
    "mulsupcon": TEMPERATURES,
    "wg-mulsupcon": TEMPERATURES,
    "sim-dis": [*TEMPERATURES, {"placement": "inside"}, {"placement": "inside", "tau": 0.1}],
    "l-wo-reg": OVERLAP_POWERS,
    "lreg": OVERLAP_POWERS,
    "marc": MARC,
    "wg-marc": MARC,
    "marc-calibrated": [
        {},
        {"plr": True},
        {"plr": True, "mix": 0.0},
        {"mix": 1.0},
        {"gamma": 0.0, "delta": 0.0},
        {"gamma": 2.5, "tau": 0.1},
        {"delta": -0.5, "mix": 0.2},
    ],
    "marc-proto": [
        {},
        {"beta": 0.1},
        {"beta": 2.5, "prototype_anchors": False},
        {"prototype_anchors": False},
        {"lam": 0.0, "gamma": 0.0, "delta": 0.0, "mix": 0.0},
        {"lam": 1.0, "rarity": 0.0, "tau_proto": 0.1},
        {"rarity": 1.0, "tau": 0.1, "mix": 1.0},
        {"rarity": -0.5, "gamma": 2.5, "delta": -0.5, "mix": 0.2},
    ],
}

# ---- Batches -------------------------------------------------------------------------------------

IN_BATCH = "in-batch"
NO_SELF = "others, no self_index"
PERMUTED = "others, self_index a permutation"
SOME_SELF = "others, some without a row"
NO_ROW = "others, self_index all -1"
SIDES = (IN_BATCH, NO_SELF, PERMUTED, SOME_SELF, NO_ROW)
# Six to 60 labels: one, two and three words of 24, and joint counts with and without a table.
FEW = 6
MANY = (22, 30, 60)


@dataclass(frozen=True)
class Case:
    """A batch by its seed: everything in it is drawn again when it is needed."""

    seed: int
    side: str = IN_BATCH
    num_labels: int = FEW
    hidden: float = 0.0  # share of labels that are unknown


@dataclass(frozen=True, eq=False)
class Batch:
    z: Tensor
    y: Tensor
    z_other: Tensor | None
    y_other: Tensor | None
    self_index: Tensor | None
    prototypes: Tensor
    train: Tensor

    def inputs(self) -> list[Tensor]:
        """What a loss has gradients for."""
        return [x for x in (self.z, self.z_other, self.prototypes) if x is not None]

    def labels_of_others(self) -> list[loops.LabelSet] | None:
        return None if self.y_other is None else loops.label_sets(self.y_other)

    def row_numbers(self) -> list[int] | None:
        return None if self.self_index is None else self.self_index.tolist()


def draw(case: Case) -> Batch:
    """Seven images in four dimensions; the comparison sides hold nine or five."""
    generator = torch.Generator().manual_seed(case.seed)

    def normal(*shape: int) -> Tensor:
        x = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return (x * (0.5 + torch.rand(shape[0], 1, generator=generator))).requires_grad_()

    def bernoulli(rows: int, density: float) -> Tensor:
        return (torch.rand(rows, case.num_labels, generator=generator) < density).long()

    L = case.num_labels
    # Where there are many labels some are common, in every word of 24, so that rows share labels there.
    common = torch.linspace(0, L - 3, 6).round().long()
    y = bernoulli(7, 0.08)
    y[:, common] = bernoulli(7, 0.45)[:, common]
    y[:, -2:] = 0
    y[1] = y[0] = torch.zeros(L).long().index_fill(0, common[[0, 2, 5]], 1)  # duplicates
    y[2] = 0  # unlabelled
    y[3:5, -2] = 1  # a label that training never saw
    y[5, -1] = 1  # a label, and so a set, of one row alone
    y[6] = y[0].index_fill(0, common[-1:], 0)  # differs from row 0 in the last word alone
    train = torch.cat([y[:4], y[3:], bernoulli(12, 0.3)])
    train[:, -2] = 0
    if case.hidden:
        hidden = bernoulli(7, case.hidden)
        hidden[2] = hidden[1] = hidden[0]  # equal sets with equal unknowns, and an unlabelled row with some
        y = y.masked_fill(hidden > 0, -1)
        y[6] = -1  # nothing is known
        train[:7] = y
    z, prototypes = normal(7, 4), normal(L, 4)
    order = torch.randperm(7, generator=generator)
    z_other = y_other = self_index = None
    if case.side in (NO_SELF, NO_ROW):
        # None is unlabelled: the first of the distinct label sets is one that matters.
        z_other, y_other = normal(5, 4), y[[6, 0, 3, 5, 1]]
        self_index = None if case.side == NO_SELF else torch.full((7,), -1)
    elif case.side != IN_BATCH:
        # The batch's rows in another order, and two past ones of which one is unlabelled.
        z_other, y_other = normal(9, 4), torch.cat([y[order], y[[3, 2]]])
        self_index = order.argsort()
        if case.side == SOME_SELF:
            self_index[[0, 4]] = -1
    return Batch(z, y, z_other, y_other, self_index, prototypes, train)


# ---- The two sides of the comparison -------------------------------------------------------------


@cache
def by_loops(name: str, options: Options, case: Case) -> tuple[Tensor, ...]:
    """Value and gradients by the loops."""
    batch = draw(case)
    given: dict[str, Any] = dict(options)
    if name in WITH_PROTOTYPES:
        given["prototypes"] = batch.prototypes
    if name in WITH_TRAINING:
        given["train"] = loops.label_sets(batch.train)
    value = getattr(loops, name.replace("-", "_"))(
        batch.z,
        loops.label_sets(batch.y),
        z_other=batch.z_other,
        y_other=batch.labels_of_others(),
        self_index=batch.row_numbers(),
        **given,
    )
    return value.detach(), *gradients(value, batch)


def by_loss(name: str, options: Options, case: Case, **more: Any) -> tuple[Tensor, ...]:
    """Value and gradients by the loss of the catalog."""
    batch = draw(case)
    loss = make_loss(name, batch, **dict(options), **more)
    prototypes = {"prototypes": batch.prototypes} if name in WITH_PROTOTYPES else {}
    value = functional_call(
        loss, prototypes, (batch.z, batch.y, batch.z_other, batch.y_other, batch.self_index)
    )
    return value.detach(), *gradients(value, batch)


def make_loss(name: str, batch: Batch, **options: Any) -> MultiLabelLoss:
    statistics = LabelStatistics.from_labels(batch.train)
    return marcir.create_loss(name, statistics=statistics, embedding_dim=4, **options).double()


def gradients(value: Tensor, batch: Batch) -> tuple[Tensor, ...]:
    return torch.autograd.grad(value, batch.inputs(), allow_unused=True, materialize_grads=True)


def assert_same(found: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> None:
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def options_of(setting: dict[str, Any]) -> Options:
    return tuple(sorted(setting.items()))


def every_setting(names: set[str]) -> list[object]:
    return [
        pytest.param(
            name, options_of(setting), id=" ".join([name, *(f"{k}={v}" for k, v in setting.items())])
        )
        for name in sorted(names)
        for setting in SETTINGS[name]
    ]


# ---- The tests -----------------------------------------------------------------------------------


def test_every_loss_of_the_catalog_is_compared() -> None:
    assert set(SETTINGS) == set(LOSSES)


@pytest.mark.parametrize("num_labels", [FEW, *MANY])
def test_the_batches_hold_every_kind_of_label_set(num_labels: int) -> None:
    for seed in range(4):
        batch = draw(Case(seed, PERMUTED, num_labels))
        y, seen = batch.y, batch.train.sum(0)
        rows = [tuple(row) for row in y.tolist()]
        assert rows.count(rows[0]) >= 2
        assert y[2].sum() == 0
        assert (y.sum(0)[seen == 0] >= 2).any()
        assert (y.sum(0) == 1).any()
        assert (y[0] != y[6]).nonzero().tolist() == [[num_labels - 3]]
        assert batch.y_other is not None
        assert batch.self_index is not None
        assert torch.equal(batch.y_other[batch.self_index], y)


@pytest.mark.parametrize("side", [IN_BATCH, NO_SELF, SOME_SELF])
@pytest.mark.parametrize(("name", "options"), every_setting(set(LOSSES)))
def test_a_loss_agrees_with_its_loops(name: str, options: Options, side: str) -> None:
    case = Case(SIDES.index(side), side)
    assert_same(by_loss(name, options, case), by_loops(name, options, case))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_agrees_with_its_loops_on_more_batches(name: str, side: str) -> None:
    for seed in (10, 11):
        case = Case(seed, side)
        assert_same(by_loss(name, (), case), by_loops(name, (), case))


@pytest.mark.parametrize("side", [IN_BATCH, SOME_SELF])
@pytest.mark.parametrize("num_labels", MANY)
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_agrees_with_its_loops_for_many_labels(name: str, num_labels: int, side: str) -> None:
    options = options_of(FULL.get(name, {}))
    case = Case(20, side, num_labels)
    assert_same(by_loss(name, options, case), by_loops(name, options, case))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("name", "options"), every_setting(set(LOSSES) - {"oml"}))
def test_a_loss_agrees_with_its_loops_where_labels_are_unknown(
    name: str, options: Options, side: str
) -> None:
    for seed, hidden in enumerate((0.3, 0.7)):
        case = Case(40 + seed, side, hidden=hidden)
        chunk = {"chunk_size": 3} if seed and name in PAIR_LOSSES else {}
        assert_same(by_loss(name, options, case, **chunk), by_loops(name, options, case))


@pytest.mark.parametrize("num_labels", MANY)
@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"oml"}))
def test_a_loss_agrees_with_its_loops_for_many_labels_of_which_some_are_unknown(
    name: str, num_labels: int
) -> None:
    options = options_of(FULL.get(name, {}))
    case = Case(43, SOME_SELF, num_labels, hidden=0.3)
    assert_same(by_loss(name, options, case), by_loops(name, options, case))


@pytest.mark.parametrize("num_labels", [FEW, *MANY])
@pytest.mark.parametrize("pair_frequency", ["joint", "pair_mean", "shared_mean", "shared_min"])
def test_every_pair_frequency_agrees_for_many_labels(pair_frequency: str, num_labels: int) -> None:
    options = options_of({"pair_frequency": pair_frequency, "frequency": "relative"})
    case = Case(21, SOME_SELF, num_labels)
    assert_same(by_loss("marc", options, case), by_loops("marc", options, case))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_nearly_equal_label_sets_are_not_equal(dtype: torch.dtype) -> None:
    y = torch.ones(5, 400, dtype=torch.int64)
    y[2, 399] = y[3, 0] = y[4, 200] = 0
    z = draw(Case(33)).z[:5].detach()
    wanted = loops.supcon_all(z, loops.label_sets(y))
    found = marcir.create_loss("supcon-all")(z.to(dtype), y)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)


def test_joint_counts_on_demand_stay_right_from_batch_to_batch() -> None:
    loss = make_loss("marc", draw(Case(30, IN_BATCH, 30)))
    train = loops.label_sets(draw(Case(30, IN_BATCH, 30)).train)
    for seed in (31, 32, 31):
        batch = draw(Case(seed, IN_BATCH, 30))
        wanted = loops.marc(batch.z, loops.label_sets(batch.y), train)
        torch.testing.assert_close(loss(batch.z, batch.y), wanted, rtol=1e-9, atol=1e-9)


# ---- Splits that must not show -------------------------------------------------------------------


def test_the_losses_over_pairs_are_the_ones_that_are_split() -> None:
    assert {name for name in LOSSES if "chunk_size" in loss_options(name)} == PAIR_LOSSES


@pytest.mark.parametrize(("chunk_size", "side"), [(3, IN_BATCH), (1, SOME_SELF)])
@pytest.mark.parametrize(("name", "options"), every_setting(PAIR_LOSSES))
def test_anchors_in_chunks_change_nothing(name: str, options: Options, chunk_size: int, side: str) -> None:
    case = Case(SIDES.index(side), side)
    assert_same(by_loss(name, options, case, chunk_size=chunk_size), by_loops(name, options, case))


# Every two values meet. With nine comparisons, and six more where prototypes are among them: one label set
# per table, or two and more.
@pytest.mark.parametrize(
    ("side", "chunk_size", "table_elements"),
    [
        (IN_BATCH, None, 1),
        (IN_BATCH, 1, 30),
        (IN_BATCH, 3, 1),
        (NO_ROW, None, 30),
        (NO_ROW, 1, 1),
        (NO_ROW, 3, 30),
        (SOME_SELF, None, 1),
        (SOME_SELF, 1, 30),
        (SOME_SELF, 3, 1),
    ],
)
@pytest.mark.parametrize("name", sorted(PAIR_LOSSES))
def test_several_tables_change_nothing(
    name: str,
    side: str,
    chunk_size: int | None,
    table_elements: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("marcir.losses.pair_loss._TABLE_ELEMENTS", table_elements)
    case = Case(SIDES.index(side), side)
    options = options_of(FULL.get(name, {}))
    assert_same(by_loss(name, options, case, chunk_size=chunk_size), by_loops(name, options, case))


def test_several_tables_keep_the_constant_of_sim_dis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marcir.losses.pair_loss._TABLE_ELEMENTS", 1)
    options = options_of({"placement": "inside"})
    for seed, side in enumerate(SIDES):
        case = Case(seed, side)
        assert_same(by_loss("sim-dis", options, case), by_loops("sim-dis", options, case))


@pytest.mark.parametrize("name", sorted(PAIR_LOSSES))
def test_blocks_too_large_to_be_kept_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marcir.losses.contrast.KEPT_ELEMENTS", 1)
    options = options_of(FULL.get(name, {}))
    for seed, side in enumerate(SIDES):
        case = Case(seed, side)
        assert_same(by_loss(name, options, case), by_loops(name, options, case))


@pytest.mark.parametrize("name", sorted(PAIR_LOSSES))
def test_chunks_of_every_size_change_nothing(name: str) -> None:
    options = options_of(FULL.get(name, {}))
    for seed, side in enumerate(SIDES):
        for chunk_size in (1, 2, 7, 100):
            case = Case(seed, side)
            assert_same(by_loss(name, options, case, chunk_size=chunk_size), by_loops(name, options, case))


@pytest.mark.parametrize("name", sorted(PAIR_LOSSES))
def test_chunks_agree_with_the_dense_gradient_in_single_precision(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(120, 16, generator=generator, requires_grad=True)
    y = (torch.rand(120, 8, generator=generator) < 0.3).long()
    statistics = LabelStatistics.from_labels(y)

    def value_and_gradient(chunk_size: int | None) -> tuple[Tensor, Tensor]:
        loss = marcir.create_loss(name, statistics=statistics, embedding_dim=16, chunk_size=chunk_size)
        value = loss(z, y)
        return value.detach(), *torch.autograd.grad(value, z)

    dense_value, dense_gradient = value_and_gradient(None)
    for chunk_size in (7, 64, 120):
        value, gradient = value_and_gradient(chunk_size)
        torch.testing.assert_close(value, dense_value, rtol=1e-5, atol=1e-5)
        # Gradients of single rows are small: what counts is the error beside the largest.
        assert (gradient - dense_gradient).abs().max() <= 1e-5 * dense_gradient.abs().max()


# Blocks of one query, and of two with an odd one left over.
@pytest.mark.parametrize("elements", [1, 2 * 9 * 9])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("name", "options"), every_setting({"oml"}))
def test_oml_in_blocks_changes_nothing(
    name: str, options: Options, side: str, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marcir.losses.oml._ELEMENTS", elements)
    case = Case(SIDES.index(side), side)
    assert_same(by_loss(name, options, case), by_loops(name, options, case))


# ---- Only one side has a gradient ----------------------------------------------------------------


@pytest.mark.parametrize("side", ["z", "z_other"])
@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"lproto"}))
def test_a_side_without_a_gradient_leaves_the_other_as_it_is(name: str, side: str) -> None:
    case = Case(2, PERMUTED)
    wanted = dict(zip(("z", "z_other"), by_loops(name, (), case)[1:], strict=False))
    batch = draw(case)
    assert batch.z_other is not None
    loss = make_loss(name, batch)
    if name in WITH_PROTOTYPES:
        loss.prototypes.data.copy_(batch.prototypes.detach())
        loss.prototypes.requires_grad_(False)
    inputs = {"z": batch.z.detach(), "z_other": batch.z_other.detach()}
    inputs[side].requires_grad_()
    value = loss(inputs["z"], batch.y, inputs["z_other"], batch.y_other, batch.self_index)
    (found,) = torch.autograd.grad(value, inputs[side])
    torch.testing.assert_close(found, wanted[side], rtol=1e-9, atol=1e-9)


# ---- LMsc's queue --------------------------------------------------------------------------------


def lmsc_with_queue(size: int) -> LMscLoss:
    loss = make_loss("lmsc", draw(Case(40)), queue_size=size)
    assert isinstance(loss, LMscLoss)
    return loss


def joined(batches: list[Batch]) -> tuple[Tensor, Tensor]:
    return torch.cat([batch.z.detach() for batch in batches]), torch.cat([batch.y for batch in batches])


@pytest.mark.parametrize("side", [IN_BATCH, SOME_SELF])
@pytest.mark.parametrize("size", [3, 7, 10, 100])
def test_lmsc_compares_with_the_last_rows_of_past_batches(size: int, side: str) -> None:
    loss = lmsc_with_queue(size)
    past = [draw(Case(seed)) for seed in (41, 42)]
    for batch in past:
        loss(batch.z, batch.y)
    z_queue, y_queue = (rows[-size:] for rows in joined(past))
    batch = draw(Case(43, side))
    value = loss(batch.z, batch.y, batch.z_other, batch.y_other, batch.self_index)
    wanted = loops.lmsc(
        batch.z,
        loops.label_sets(batch.y),
        prototypes := loss.prototypes.detach().clone().requires_grad_(),
        z_queue=z_queue,
        y_queue=loops.label_sets(y_queue),
        z_other=batch.z_other,
        y_other=batch.labels_of_others(),
        self_index=batch.row_numbers(),
    )
    sides = [x for x in (batch.z, batch.z_other) if x is not None]
    found_gradients = torch.autograd.grad(value, [*sides, loss.prototypes])
    wanted_gradients = torch.autograd.grad(wanted, [*sides, prototypes])
    assert_same((value, *found_gradients), (wanted, *wanted_gradients))


def test_lmsc_passes_no_gradient_to_its_queue() -> None:
    loss = lmsc_with_queue(7)
    first, second = draw(Case(41)), draw(Case(42))
    loss(first.z, first.y)
    value = loss(second.z, second.y)
    (gradient,) = torch.autograd.grad(value, first.z, allow_unused=True)
    assert gradient is None


def test_lmsc_fills_its_queue_in_training_only_and_after_the_loss() -> None:
    loss, plain = lmsc_with_queue(7), lmsc_with_queue(0)
    batch = draw(Case(41))
    wanted = plain(batch.z, batch.y)
    assert torch.equal(loss.eval()(batch.z, batch.y), wanted)
    assert torch.equal(loss.train()(batch.z, batch.y), wanted)
    assert not torch.equal(loss(batch.z, batch.y), wanted)
    assert not len(plain.queue.z)
