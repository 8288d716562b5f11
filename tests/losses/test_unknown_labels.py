"""Labels that are unknown (-1) neither pull nor push; without any, nothing changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import marcir
from marcir.catalog import LOSSES
from marcir.errors import BatchError, LabelError
from marcir.labels import LabelStatistics, LabelVocabulary, jaccard, shared_labels
from marcir.losses import (
    CrossBatchMemory,
    DistributedLoss,
    MultiLabelLoss,
    diagnose,
    pair_influence,
    pair_loss,
)
from marcir.losses.inputs import prepare
from marcir.losses.pairs import LabelRows, LabelSets, labelwise_shares

L, D = 4, 5
WITH_PROTOTYPES = ("lproto", "lmsc", "l-wo-reg", "lreg", "marc-proto")
SUPPORTED = [name for name in LOSSES if name != "oml"]
every_supported_loss = pytest.mark.parametrize("name", SUPPORTED)


def make(name: str, **options: Any) -> MultiLabelLoss:
    training = (torch.rand(30, L, generator=torch.Generator().manual_seed(9)) < 0.4).long()
    statistics = LabelStatistics.from_labels(training)
    return marcir.create_loss(name, statistics=statistics, embedding_dim=D, **options).double()


def batch(seed: int = 0, rows: int = 8, hidden: float = 0.3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(rows, D, generator=generator, dtype=torch.float64)
    y = (torch.rand(rows, L, generator=generator) < 0.5).long()
    return z, y.masked_fill(torch.rand(rows, L, generator=generator) < hidden, -1)


def value_and_gradient(loss: MultiLabelLoss, z: Tensor, y: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
    z = z.detach().requires_grad_()
    value = loss(z, y, *more)
    (gradient,) = torch.autograd.grad(value, z)
    return value.detach(), gradient


def assert_close(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@every_supported_loss
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int32, torch.float16], ids=str)
def test_complete_labels_of_any_dtype_take_the_path_without_unknowns(name: str, dtype: torch.dtype) -> None:
    z, y = batch(hidden=0.0)
    loss = make(name)
    value, gradient = value_and_gradient(loss, z, y)
    found, its_gradient = value_and_gradient(loss, z, y.to(dtype))
    assert torch.equal(found, value)
    assert torch.equal(its_gradient, gradient)


@pytest.mark.parametrize("name", [name for name in SUPPORTED if name not in WITH_PROTOTYPES])
def test_an_unknown_label_that_nobody_has_changes_nothing(name: str) -> None:
    z, y = batch(hidden=0.0)
    y[:, -1] = 0
    hidden = y.clone()
    hidden[0, -1] = -1
    assert_close(value_and_gradient(make(name), z, hidden), value_and_gradient(make(name), z, y))


@every_supported_loss
@settings(max_examples=15)
@given(seed=st.integers(0, 1000), share=st.floats(0.05, 0.95))
def test_the_loss_is_finite_and_the_order_of_images_and_labels_does_not_matter(
    name: str, seed: int, share: float
) -> None:
    z, y = batch(seed, hidden=share)
    loss = make(name)
    value, gradient = value_and_gradient(loss, z, y)
    assert value.isfinite()
    assert gradient.isfinite().all()
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))
    found, its_gradient = value_and_gradient(loss, z[order], y[order])
    assert_close((found, its_gradient), (value, gradient[order]))


@every_supported_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("tau", [0.3, 0.05])
def test_duplicates_and_low_precision_stay_finite(name: str, dtype: torch.dtype, tau: float) -> None:
    z, y = batch()
    z = z[[0, 0, 0, 1, 1, 2, 3, 4]].to(dtype)
    value, gradient = value_and_gradient(make(name, tau=tau).float(), z, y)
    assert value.isfinite()
    assert gradient.isfinite().all()


@every_supported_loss
@pytest.mark.parametrize("rows", [1, 2, 6])
def test_a_batch_of_unknown_labels_has_a_zero_loss_that_backward_accepts(name: str, rows: int) -> None:
    z, y = batch(rows=rows, hidden=1.1)
    value, gradient = value_and_gradient(make(name), z, y)
    assert value == 0
    assert not gradient.any()


@every_supported_loss
def test_an_image_of_unknown_labels_changes_nothing_for_labelled_images(name: str) -> None:
    z, y = batch(hidden=0.0)
    y[:, 0] = 1
    more_z, more_y = torch.cat([z, -z[:1]]), torch.cat([y, torch.full((1, L), -1)])
    value, gradient = value_and_gradient(make(name), more_z, more_y)
    assert not gradient[-1].any()
    assert_close((value, gradient[:-1]), value_and_gradient(make(name), z, y))


@every_supported_loss
def test_what_is_hidden_and_revealed_gives_the_complete_loss(name: str) -> None:
    (z, y), (_, hidden) = batch(rows=16, hidden=0.0), batch(rows=16, hidden=0.2)
    revealed = torch.where(hidden < 0, y, hidden)
    loss = make(name)
    assert not torch.equal(loss(z, hidden), loss(z, y))
    assert torch.equal(loss(z, revealed), loss(z, y))


@every_supported_loss
def test_views_share_the_unknown_labels_of_their_image(name: str) -> None:
    z, y = batch()
    found = value_and_gradient(make(name), z.view(4, 2, D), y[:4])
    value, gradient = value_and_gradient(make(name), z, y[:4].repeat_interleave(2, 0))
    assert_close((found[0], found[1].view(8, D)), (value, gradient))


@pytest.mark.parametrize("name", [name for name in SUPPORTED if name != "lproto"])
@pytest.mark.parametrize("first_hidden", [0.0, 0.4])
def test_a_memory_keeps_which_labels_are_unknown(name: str, first_hidden: float) -> None:
    (past_z, past_y), (z, y) = batch(1, hidden=0.4 - first_hidden), batch(2, hidden=first_hidden)
    memory = CrossBatchMemory(make(name), 100)
    memory(past_z, past_y)
    found = value_and_gradient(memory, z, y)
    unit = torch.nn.functional.normalize
    z_leaf = z.clone().requires_grad_()
    others = torch.cat([unit(z_leaf), unit(past_z)]), torch.cat([y, past_y]), torch.arange(len(z))
    value = make(name)(z_leaf, y, *others)
    (gradient,) = torch.autograd.grad(value, z_leaf)
    assert_close(found, (value.detach(), gradient))


def test_lmsc_keeps_unknown_labels_in_its_queue() -> None:
    (past_z, past_y), (z, y) = batch(1), batch(2, hidden=0.0)
    loss = make("lmsc", queue_size=100)
    loss(past_z, past_y)
    wanted = make("lmsc")(z, y, torch.cat([z, past_z]), torch.cat([y, past_y]), torch.arange(len(z)))
    torch.testing.assert_close(loss(z, y), wanted)


@every_supported_loss
def test_a_diagnosis_leaves_out_pairs_that_may_match(name: str) -> None:
    z, y = batch()
    diagnosis = diagnose(make(name), z, y)
    none = LabelSets.from_rows(y.double(), y.double(), torch.arange(len(z)), unknowns=True).left_out
    assert none is not None
    none = none.bool()
    J = jaccard(y, y).fill_diagonal_(1)
    unit = torch.nn.functional.normalize(z)
    assert none.any()
    assert diagnosis.cosine["J=0"] == pytest.approx(float((unit @ unit.T)[(J == 0) & ~none].mean()))


def test_the_influence_of_a_pair_counts_what_both_know() -> None:
    loss = make("marc-calibrated", tau=0.5, delta=1.0)
    one, other = torch.tensor([[1, 0, -1, 0]]), torch.tensor([[1, 0, 1, 0], [0, 0, 1, 0]])
    assert pair_influence(loss, one.double(), other).tolist() == [[2.0, 0.0]]


def test_overlap_counts_what_both_know() -> None:
    y = torch.tensor([[1, 1, 0, -1]], dtype=torch.int8)
    others = torch.tensor([[1, -1, 1, 1], [-1, -1, 0, 1], [-1, -1, -1, -1]])
    assert shared_labels(y, others).tolist() == [[1, 0, 0]]
    assert jaccard(y, others).tolist() == [[0.5, 0, 0]]


def test_oml_refuses_unknown_labels_and_says_what_to_do() -> None:
    z, y = batch()
    for loss in (make("oml"), CrossBatchMemory(make("oml"), 10)):
        with pytest.raises(
            BatchError, match=r"unknown \(-1\)\. Set them to 0 \(absent\), or use another loss"
        ):
            loss(z, y)


def test_the_row_of_a_wrong_label_is_that_of_the_image() -> None:
    z, y = batch()
    y[1, 2] = 2
    with pytest.raises(
        BatchError, match=r"labels: must be 0, 1 or -1 \(unknown\), found 2 in row 1, column 2\."
    ):
        make("lbase")(z.repeat(1, 3).view(8, 3, D), y)


def test_names_are_those_of_labels_that_are_present() -> None:
    vocabulary = LabelVocabulary(["a", "b", "c"])
    assert vocabulary.decode(torch.tensor([[1, -1, 0]])) == [["a"]]
    with pytest.raises(LabelError, match="found 3 in row 0, column 1"):
        vocabulary.decode(torch.tensor([[1, 3, 0]]))


def test_a_wrapped_loss_takes_unknown_labels_if_the_loss_does() -> None:
    for name, takes in (("oml", False), ("mulsupcon", True)):
        loss = make(name)
        memory = CrossBatchMemory(make(name), 8)
        assert [each.takes_unknown for each in (loss, memory, DistributedLoss(memory))] == [takes] * 3


# ---- Label sets with unknowns: equal rows share a table, or every row has its own -----------------------


def with_tables(few: float, loss: MultiLabelLoss, z: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
    """Value and gradient with tables of label sets up to this many sets per row."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_loss, "_MANY_ROWS", 0)
        patch.setattr(pair_loss, "_FEW_SETS", few)
        return value_and_gradient(loss, z, *more)


@every_supported_loss
@settings(max_examples=15)
@given(seed=st.integers(0, 1000), share=st.floats(0.05, 0.95), kinds=st.integers(1, 12))
def test_equal_rows_may_share_a_table(name: str, seed: int, share: float, kinds: int) -> None:
    z, y = batch(seed, rows=12, hidden=share)
    y = y[torch.arange(12) % kinds]  # as many distinct rows
    own = torch.tensor([0, -1, 2])  # the second one is no comparison of itself
    for more in ((), (z, y, torch.arange(12)), (z[:5], y[:5], torch.cat([own, torch.full((9,), -1)]))):
        for options in ({}, {} if name in ("lproto", "lmsc", "l-wo-reg", "lreg") else {"chunk_size": 5}):
            loss = make(name, **options)
            assert_close(with_tables(0, loss, z, y, *more), with_tables(9, loss, z, y, *more))


def test_tables_are_of_label_sets_where_these_are_few() -> None:
    z, y = batch(rows=300)
    few = y[torch.arange(300) % 20]
    many = (torch.rand(300, 30, generator=torch.Generator().manual_seed(0)) < 0.5).long() - 1
    for labels, rows, expected in (
        (few, 300, pair_loss.Tables),
        (many, 300, pair_loss.RowTables),
        (few, 100, pair_loss.RowTables),
    ):
        comparison = prepare(z[:rows], labels[:rows], None, None, None)
        assert type(pair_loss.tables_of(make("mulsupcon"), comparison)) is expected


@given(seed=st.integers(0, 1000), share=st.floats(0, 0.9))
def test_rows_are_label_sets_whose_own_row_shares_nothing(seed: int, share: float) -> None:
    y = batch(seed, rows=9, hidden=share)[1].double()
    own = torch.tensor([4, -1, 2, 0, 8])  # of anchors that are the same rows
    anchors = torch.where((own < 0)[:, None], y[:5], y[own])
    sets, rows = (each.from_rows(anchors, y, own, unknowns=True) for each in (LabelSets, LabelRows))
    not_own = (torch.arange(9) != own[:, None]).double()
    assert torch.equal(rows.shared, sets.shared * not_own)
    assert torch.equal(rows.J, sets.J * not_own)
    assert torch.equal(rows.partners, sets.partners)
    assert torch.equal(labelwise_shares(rows), labelwise_shares(sets) * not_own)
    assert torch.equal(rows.sum_over_others(rows.shared), sets.sum_over_others(sets.shared))
    assert torch.equal(rows.share_of_others(rows.J), sets.share_of_others(sets.J) * not_own)
    statistics = LabelStatistics.from_labels(y > 0)
    assert torch.equal(rows.pairwise(statistics.pair_frequency), sets.pairwise(statistics.pair_frequency))
    assert not (sets.left_out * sets.shared).any()  # so that no sum needs to know what is left out


@pytest.mark.parametrize("few", [0, 9])
@pytest.mark.parametrize("name", [*(name for name in SUPPORTED if name not in WITH_PROTOTYPES), "marc-proto"])
def test_what_every_anchor_leaves_out_gets_exactly_no_gradient(name: str, few: float) -> None:
    z, y = batch(rows=6, hidden=0.0)
    y[:, 0], y[:, 1:] = 1, 0
    others = y.clone()
    others[2] = torch.tensor([-1, 1, 0, 0])  # shares nothing, and may share the first label
    ref = torch.randn(6, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ref.requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_loss, "_MANY_ROWS", 0)
        patch.setattr(pair_loss, "_FEW_SETS", few)
        loss = make(name, **({"prototype_anchors": False} if name == "marc-proto" else {}))
        (gradient,) = torch.autograd.grad(loss(z, y, ref, others), ref)
    assert not gradient[2].any()
    assert gradient[3].any()


@pytest.mark.parametrize(
    ("name", "options"),
    [("mulsupcon", {}), ("marc", {}), ("marc-calibrated", {"plr": True}), ("marc-proto", {"beta": 0.5})],
)
def test_tables_of_rows_may_be_of_any_size(name: str, options: dict[str, Any]) -> None:
    z, y = batch(rows=20)
    loss = make(name, **options)
    found = []
    for elements in (1, 70, 1 << 19):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pair_loss, "_ROW_TABLE_ELEMENTS", elements)
            found.append(value_and_gradient(loss, z, y))
    assert_close(found[0], found[2])
    assert_close(found[1], found[2])
