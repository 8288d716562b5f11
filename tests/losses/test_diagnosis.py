"""What a loss does to a batch, against pairs looked at one by one."""

import json
import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from marcir.catalog import LOSSES, create_loss
from marcir.errors import ConfigError
from marcir.labels import LabelStatistics
from marcir.losses import (
    CrossBatchMemory,
    DistributedLoss,
    LossDiagnosis,
    MulSupConLoss,
    MultiLabelLoss,
    PairLoss,
    diagnose,
    pair_influence,
)
from marcir.losses.diagnosis import JACCARD_BINS
from paper import loops

LABELS, DIMENSIONS = 6, 4
WITHOUT_PAIRS = ["lproto", "lmsc", "oml", "l-wo-reg", "lreg"]
WITH_PROTOTYPES = ["lproto", "lmsc", "l-wo-reg", "lreg", "marc-proto"]
WITH_PAIRS = [name for name in LOSSES if name not in WITHOUT_PAIRS]
WRAPPERS: dict[str, Callable[[MultiLabelLoss], MultiLabelLoss]] = {
    "memory": lambda loss: CrossBatchMemory(loss, 50),
    "processes": DistributedLoss,
    "processes around memory": lambda loss: DistributedLoss(CrossBatchMemory(loss, 50)),
}

LabelSet = frozenset[int]
Labels = list[LabelSet]


def batch(images: int = 24, seed: int = 0, num_labels: int = LABELS) -> tuple[Tensor, Tensor]:
    """Embeddings of any length, and labels with every kind of overlap, two unlabelled images among them."""
    generator = torch.Generator().manual_seed(seed)
    z = 3 * torch.randn(images, DIMENSIONS, generator=generator, dtype=torch.float64)
    y = torch.rand(images, num_labels, generator=generator) < 0.55
    y[:2] = False
    y[4] = y[3]
    y[5] = torch.arange(num_labels) < 5
    y[6] = torch.arange(num_labels) < 4
    return z, y.double()


def training_labels() -> Tensor:
    return torch.cat([batch(seed=seed)[1] for seed in range(1, 5)])


def make_loss(name: str, **options: object) -> MultiLabelLoss:
    statistics = LabelStatistics.from_labels(training_labels())
    return create_loss(name, statistics=statistics, embedding_dim=DIMENSIONS, **options)


def sets_of(y: Tensor) -> Labels:
    return [frozenset(labels) for labels in loops.label_sets(y)]


# ---- The same, pair by pair ----------------------------------------------------------------------


def overlap(one: LabelSet, other: LabelSet) -> Fraction:
    return Fraction(len(one & other), len(one | other)) if one | other else Fraction(0)


def bin_of(J: Fraction) -> str:
    if J == 0:
        return "J=0"
    if J == 1:
        return "J=1"
    quarters = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1)]
    return ["0<J<=.25", ".25<J<=.5", ".5<J<=.75", ".75<J<1"][
        [quarter >= J for quarter in quarters].index(True)
    ]


def means_by_bin(y: Labels, value: Callable[[int, int], float | None]) -> dict[str, float | None]:
    """The mean of what pairs of two images have, in each bin; pairs that have None do not count."""
    found: dict[str, list[float]] = {name: [] for name in JACCARD_BINS}
    for i in range(len(y)):
        for j in range(len(y)):
            x = value(i, j) if i != j else None
            if x is not None:
                found[bin_of(overlap(y[i], y[j]))].append(x)
    return {name: math.fsum(xs) / len(xs) if xs else None for name, xs in found.items()}


def pair_value(name: str, one: LabelSet, other: LabelSet) -> float | None:
    """gamma = w/T of a positive pair, with every loss's default options; None for other pairs."""
    if not one & other or (name == "supcon-all" and one != other):
        return None
    if name in ("marc", "wg-marc"):
        marc = loops.Marc(train=sets_of(training_labels()))
        return marc.w(one, other) / marc.T(one, other)
    if name in ("marc-calibrated", "marc-proto"):
        tau = {"marc-calibrated": 0.2, "marc-proto": 0.3}[name]
        return 1 / (tau * math.exp(-0.5 * (1 - overlap(one, other))))
    if name == "sim-dis":
        return len(one & other) / len(one) / (1 + len(other - one)) / 0.3
    return 1 / 0.3


def is_valid(name: str, y: Labels, i: int) -> bool:
    """Whether image i adds to the loss."""
    others = [y[j] for j in range(len(y)) if j != i]
    if name == "supcon-all":
        return bool(y[i]) and y[i] in others
    if name in WITH_PROTOTYPES:
        return bool(y[i])
    return any(y[i] & other for other in others)


def approx(expected: dict[str, float | None]) -> object:
    return {
        name: None if x is None else pytest.approx(x, rel=1e-9, abs=1e-12) for name, x in expected.items()
    }


# ---- Values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_the_loss_is_the_loss(name: str) -> None:
    z, y = batch()
    loss = make_loss(name)
    assert diagnose(loss, z, y).loss == loss(z, y).item()


@pytest.mark.parametrize("name", LOSSES)
def test_cosines_are_means_over_the_pairs_of_each_bin(name: str) -> None:
    z, y = batch()
    cosine = cosines(z)
    expected = means_by_bin(sets_of(y), lambda i, j: cosine[i][j])
    assert None not in expected.values()
    assert diagnose(make_loss(name), z, y).cosine == approx(expected)


def cosines(z: Tensor) -> list[list[float]]:
    rows = z.tolist()
    return [
        [
            math.fsum(a * b for a, b in zip(one, other, strict=True)) / math.hypot(*one) / math.hypot(*other)
            for other in rows
        ]
        for one in rows
    ]


@pytest.mark.parametrize("name", WITH_PAIRS)
def test_influence_is_the_mean_of_w_over_t_of_positive_pairs_in_each_bin(name: str) -> None:
    z, y = batch()
    sets = sets_of(y)
    expected = means_by_bin(sets, lambda i, j: pair_value(name, sets[i], sets[j]))
    assert expected["J=1"] is not None
    assert diagnose(make_loss(name), z, y).influence == approx(expected)


@pytest.mark.parametrize("name", WITHOUT_PAIRS)
def test_a_loss_without_pairs_has_no_influence(name: str) -> None:
    assert diagnose(make_loss(name), *batch()).influence == dict.fromkeys(JACCARD_BINS)


@pytest.mark.parametrize("name", LOSSES)
def test_valid_anchors_are_the_share_of_images_that_add_to_the_loss(name: str) -> None:
    z, y = batch(images=9)
    sets = sets_of(y)
    expected = sum(is_valid(name, sets, i) for i in range(9)) / 9
    assert 0 < expected < 1
    assert diagnose(make_loss(name), z, y).valid_anchors == expected


@pytest.mark.parametrize("name", LOSSES)
def test_an_image_is_a_valid_anchor_exactly_where_it_has_a_gradient_as_the_only_anchor(name: str) -> None:
    z, y = batch(images=9)
    loss = make_loss(name)
    adding = 0
    for i in range(9):
        anchor = z[i : i + 1].clone().requires_grad_()
        value = loss(anchor, y[i : i + 1], z, y, torch.tensor([i]))
        (gradient,) = torch.autograd.grad(value, anchor)
        adding += bool(gradient.abs().sum() > 0)
    assert diagnose(loss, z, y).valid_anchors == adding / 9


@pytest.mark.parametrize("name", LOSSES)
def test_the_gradient_norm_is_that_of_the_embeddings_as_they_were_given(name: str) -> None:
    z, y = batch()
    loss = make_loss(name)
    leaf = z.clone().requires_grad_()
    loss(leaf, y).backward()
    expected = math.sqrt(math.fsum(g * g for g in leaf.grad.flatten().tolist()))  # type: ignore[union-attr]
    assert diagnose(loss, z, y).gradient_norm == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("norm", [0.25, 3, torch.tensor(0.25)], ids=str)
def test_a_gradient_norm_that_is_handed_in_is_recorded(norm: float) -> None:
    found = diagnose(MulSupConLoss(), *batch(), gradient_norm=norm).gradient_norm
    assert isinstance(found, float)
    assert found == float(norm)


def test_more_images_than_are_looked_at_together_give_the_same_means() -> None:
    z, y = batch(images=300)
    sets = sets_of(y)
    cosine = cosines(z)
    found = diagnose(make_loss("sim-dis"), z, y)
    assert found.cosine == approx(means_by_bin(sets, lambda i, j: cosine[i][j]))
    expected = means_by_bin(sets, lambda i, j: pair_value("sim-dis", sets[i], sets[j]))
    assert found.influence == approx(expected)


class LargestTensor(TorchDispatchMode):
    """Notes the number of elements of the largest tensor that any operation gives."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


@pytest.mark.parametrize("name", ["supcon-all", "mulsupcon", "marc"])
def test_a_whole_split_is_looked_at_without_a_matrix_of_all_pairs(name: str) -> None:
    images = 1600
    z, y = batch(images)
    loss = make_loss(name)
    with LargestTensor() as largest:
        diagnose(loss, z.float(), y.float())
    assert 0 < largest.elements < images * images


@pytest.mark.parametrize("name", LOSSES)
def test_views_are_looked_at_as_images_of_their_own(name: str) -> None:
    z, y = batch(images=24)
    seen = diagnose(make_loss(name), z.view(12, 2, DIMENSIONS), y[:12])
    flat = diagnose(make_loss(name), z, y[:12].repeat_interleave(2, 0))
    assert seen == flat


def test_the_edges_of_the_bins_belong_to_the_bin_below() -> None:
    """Label sets of sizes whose overlaps are 1/4, 1/2, 3/4 and 4/5 with the first, and disjoint pairs."""
    first = frozenset(range(4))
    for other, name in (
        ({0, 4, 5, 6, 7}, "0<J<=.25"),
        ({0}, "0<J<=.25"),
        ({0, 1}, ".25<J<=.5"),
        ({0, 1, 2}, ".5<J<=.75"),
        ({0, 1, 2, 3, 4}, ".75<J<1"),
        ({0, 1, 2, 3}, "J=1"),
        ({4, 5}, "J=0"),
        (set[int](), "J=0"),
    ):
        y = torch.zeros(2, 8)
        y[0, sorted(first)] = 1
        y[1, sorted(other)] = 1
        found = diagnose(MulSupConLoss(), torch.eye(2), y).cosine
        assert found == {**dict.fromkeys(JACCARD_BINS), name: 0.0}, other


# ---- Batches with little in them -----------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_one_image_has_no_pairs(name: str) -> None:
    z, y = batch()
    found = diagnose(make_loss(name), z[5:6], y[5:6])
    assert found.cosine == found.influence == dict.fromkeys(JACCARD_BINS)
    assert math.isfinite(found.loss)
    assert math.isfinite(found.gradient_norm)
    assert found.valid_anchors == (1 if name in WITH_PROTOTYPES else 0)


@pytest.mark.parametrize("images", [1, 5])
@pytest.mark.parametrize("name", LOSSES)
def test_unlabelled_images_have_no_loss_no_gradient_and_no_anchors(name: str, images: int) -> None:
    z, y = batch()
    found = diagnose(make_loss(name), z[:images], torch.zeros_like(y[:images]))
    assert (found.loss, found.valid_anchors, found.gradient_norm) == (0, 0, 0)
    assert found.influence == dict.fromkeys(JACCARD_BINS)
    apart = {bin_name: c for bin_name, c in found.cosine.items() if bin_name != "J=0"}
    assert set(apart.values()) == {None}
    assert (found.cosine["J=0"] is None) == (images == 1)


# ---- Wrapped losses ------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("name", [name for name in LOSSES if name != "lproto"])
def test_a_wrapped_loss_without_a_past_is_seen_as_the_loss_itself(name: str, wrapper: str) -> None:
    z, y = batch()
    assert diagnose(WRAPPERS[wrapper](make_loss(name)), z, y) == diagnose(make_loss(name), z, y)


def test_a_memory_is_seen_with_its_past() -> None:
    z, y = batch()
    loss = CrossBatchMemory(MulSupConLoss(), 50)
    loss(z, y)
    alone = diagnose(loss, z[5:6], y[5:6])
    assert alone.valid_anchors == 1
    assert alone.loss == pytest.approx(MulSupConLoss()(z[5:6], y[5:6], z, y).item(), rel=1e-9)
    assert alone.cosine == dict.fromkeys(JACCARD_BINS)


# ---- Nothing changes -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_looking_changes_nothing(name: str) -> None:
    z, y = batch()
    loss = make_loss(name)
    if name != "lproto":
        loss = CrossBatchMemory(loss, 30)
    assert_nothing_changes(loss, z, y)


def test_looking_at_lmsc_leaves_its_queue_alone() -> None:
    assert_nothing_changes(make_loss("lmsc", queue_size=30), *batch())


def assert_nothing_changes(loss: MultiLabelLoss, z: Tensor, y: Tensor) -> None:
    z = z.clone().requires_grad_()
    loss(z, y).backward()
    modules = list(loss.modules())
    modules[-1].eval()  # modes may differ from module to module

    def state() -> list[object]:
        tensors = {
            "z": z,
            "z.grad": z.grad,
            "y": y,
            "random": torch.get_rng_state(),
            **loss.state_dict(),
            **{f"{key}.grad": parameter.grad for key, parameter in loss.named_parameters()},
        }
        values = {key: tensor.detach().clone().tolist() for key, tensor in tensors.items()}
        modes = [module.training for module in modules]
        return [values, modes, torch.is_grad_enabled(), z.requires_grad, random.getstate()]

    before = state()
    first = diagnose(loss, z, y)
    assert state() == before
    assert diagnose(loss, z, y) == first


def test_modes_come_back_even_after_a_refused_batch() -> None:
    loss = CrossBatchMemory(MulSupConLoss(), 30)
    with pytest.raises(ValueError, match="embeddings"):
        diagnose(loss, torch.eye(3), torch.ones(2, 2))
    assert all(module.training for module in loss.modules())


def test_embeddings_without_gradient_and_no_grad_are_fine() -> None:
    z, y = batch()
    with torch.no_grad():
        found = diagnose(MulSupConLoss(), z, y)
    assert found == diagnose(MulSupConLoss(), z.clone().requires_grad_() * 1, y)
    assert found.gradient_norm > 0


# ---- The record ----------------------------------------------------------------------------------


@pytest.mark.parametrize("images", [1, 24])
@pytest.mark.parametrize("name", LOSSES)
def test_a_diagnosis_comes_back_from_json(name: str, images: int) -> None:
    z, y = batch()
    diagnosis = diagnose(make_loss(name), z[:images], y[:images])
    text = json.dumps(diagnosis.to_dict(), allow_nan=False)
    assert LossDiagnosis(**json.loads(text)) == diagnosis


# ---- pair_influence ------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapper", [None, *WRAPPERS])
@pytest.mark.parametrize("name", WITH_PAIRS)
def test_the_influence_of_a_pair_is_w_over_t_where_it_is_positive(name: str, wrapper: str | None) -> None:
    (_, y), (_, y_other) = batch(8), batch(9, seed=1)
    loss = make_loss(name) if wrapper is None else WRAPPERS[wrapper](make_loss(name))
    gamma = pair_influence(loss, y, y_other)
    assert gamma.dtype == torch.float64
    expected = [[pair_value(name, one, other) or 0.0 for other in sets_of(y_other)] for one in sets_of(y)]
    torch.testing.assert_close(gamma, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=0)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32], ids=str)
def test_the_influence_of_labels_of_other_dtypes_is_float32(dtype: torch.dtype) -> None:
    _, y = batch(8)
    loss = make_loss("marc")
    gamma = pair_influence(loss, y.to(dtype), y.to(dtype))
    assert gamma.dtype == torch.float32
    torch.testing.assert_close(gamma.double(), pair_influence(loss, y, y), rtol=1e-5, atol=0)


@pytest.mark.parametrize("wrapper", [None, "processes"])
@pytest.mark.parametrize("name", WITHOUT_PAIRS)
def test_a_loss_without_pairs_is_refused_with_its_name(name: str, wrapper: str | None) -> None:
    loss = make_loss(name)
    assert not isinstance(loss, PairLoss)
    with pytest.raises(ConfigError, match=f"^{type(loss).__name__} has no pair weights"):
        pair_influence(loss if wrapper is None else WRAPPERS[wrapper](loss), *[batch()[1]] * 2)
