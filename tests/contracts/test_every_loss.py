"""What every loss of the catalog keeps."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.func import functional_call

import marcir
from marcir.catalog import LOSSES, loss_options
from marcir.errors import ConfigError
from marcir.labels import LabelStatistics
from marcir.losses import MultiLabelLoss

Result = TypeVar("Result")

D = 6
TAKES_CHUNKS = {
    "supcon-all",
    "supcon-any",
    "lbase",
    "mulsupcon",
    "wg-mulsupcon",
    "sim-dis",
    "marc",
    "wg-marc",
    "marc-calibrated",
    "marc-proto",
}
WITH_PROTOTYPES = {"lproto", "lmsc", "l-wo-reg", "lreg", "marc-proto"}
# The last label is never seen in training.
TRAINING = torch.tensor([[1, 0, 1, 0], [1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 0], [0, 1, 0, 0]])
LABELS = torch.tensor([[1, 0, 1, 0], [1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1], [1, 1, 0, 1]])

every_loss = pytest.mark.parametrize("name", LOSSES)


@pytest.fixture(autouse=True, scope="module")
def _one_core() -> Iterator[None]:
    """Six images keep one core busy; where the other has work to do, waiting for it takes longer."""
    cores = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(cores)


def make(name: str, training: Tensor = TRAINING, embedding_dim: int = D, **options: Any) -> MultiLabelLoss:
    statistics = LabelStatistics.from_labels(training)
    return marcir.create_loss(name, statistics=statistics, embedding_dim=embedding_dim, **options)


def variants(name: str) -> list[dict[str, Any]]:
    """The default, the sharpest temperature that is promised, and options with formulas of their own."""
    sharp = [{"tau": 0.05}] if "tau" in loss_options(name) else [{"anneal": 0.001}]
    more: dict[str, list[dict[str, Any]]] = {
        "oml": [{"norm": "label"}],
        "sim-dis": [{"tau": 0.05, "placement": "inside"}],
        "l-wo-reg": [{"tau": 0.05, "overlap_power": a} for a in (1.0, -1.0)],
        "lreg": [{"tau": 0.05, "overlap_power": a} for a in (1.0, -1.0)],
        "lmsc": [{"tau": 0.05, "queue_size": 4}],
        "marc-calibrated": [{"tau": 0.05, "plr": True, "mix": mix} for mix in (0.0, 1.0)],
        "marc-proto": [
            {"tau": 0.05, "tau_proto": 0.05, "rarity": 50.0, "beta": 0.1},
            {"lam": 0.0, "prototype_anchors": False},
        ],
    }
    marc = [{"tau": 0.05, "tau_mode": "scale", "frequency": "relative"}, {"tau": 0.05, "dts": False}]
    marc += [
        {"pair_frequency": f, "anchor_frequency": "min"} for f in ("pair_mean", "shared_mean", "shared_min")
    ]
    return [{}, *sharp, *more.get(name, marc if name in ("marc", "wg-marc") else [])]


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def value_and_gradients(loss: MultiLabelLoss, z: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
    """The value, the gradient of z, and that of the prototypes where there are any."""
    z = z.detach().requires_grad_()
    value = loss(z, *rest)
    return value.detach(), *torch.autograd.grad(value, [z, *loss.parameters()])


def assert_close(found: tuple[Tensor, ...], wanted: tuple[Tensor, ...], tolerance: float = 1e-9) -> None:
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def in_a_thread_of_its_own(run: Callable[[], Result]) -> Result:
    """As the first thing that a process does: nothing is kept from earlier calls of this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


# ---- Gradients -----------------------------------------------------------------------------------


# LReg's gradient is not that of its value: a part of it is held fixed (a stop-gradient).
@pytest.mark.parametrize("name", [name for name in LOSSES if name != "lreg"])
@pytest.mark.parametrize("compared_with", ["the batch", "others"])
def test_the_gradient_is_that_of_the_value(name: str, compared_with: str) -> None:
    # A sigmoid of 1/100 is a step for finite differences.
    options = {"anneal": 0.1} if name == "oml" else {}
    loss = make(name, embedding_dim=3, **options).double()
    sides = [normal(6, 3)]
    more: tuple[Tensor, ...] = ()
    if compared_with == "others":
        sides.append(normal(5, 3, seed=2))
        more = LABELS[[2, 1, 4, 5, 5]], torch.tensor([-1, 1, 0, -1, 2, 3])

    def value(*inputs: Tensor) -> Tensor:
        z, *others = inputs[: len(sides)]
        prototypes = {"prototypes": inputs[-1]} if name in WITH_PROTOTYPES else {}
        return functional_call(loss, prototypes, (z, LABELS, *others, *more))

    prototypes = [normal(4, 3, seed=1)] if name in WITH_PROTOTYPES else []
    assert torch.autograd.gradcheck(value, [x.requires_grad_() for x in (*sides, *prototypes)])


@every_loss
def test_the_gradient_scales_with_what_comes_from_above_and_comes_again(name: str) -> None:
    loss = make(name).double()
    _, wanted, *_ = value_and_gradients(loss, normal(6, D), LABELS)
    z = normal(6, D).requires_grad_()
    value = loss(z, LABELS)
    (3 * value).backward(retain_graph=True)
    value.backward()
    assert_close((z.grad,), (4 * wanted,))


# ---- Nothing is NaN or infinite ------------------------------------------------------------------

UNSEEN = torch.tensor([[0, 0, 0, 1], [0, 0, 0, 1], [1, 0, 0, 1], [0, 1, 0, 1]])
HARD_CASES: dict[str, tuple[Tensor, Tensor]] = {
    "duplicates": (normal(1, D).repeat(6, 1), LABELS),
    "two kinds of duplicates": (normal(2, D).repeat(3, 1), LABELS),
    "opposites": (torch.cat([normal(3, D), -normal(3, D)]), LABELS),
    "one image": (normal(1, D), LABELS[:1]),
    "one image without labels": (normal(1, D), LABELS[3:4]),
    "two images that share labels": (normal(2, D), LABELS[[0, 2]]),
    "two images that share nothing": (normal(2, D), TRAINING[[1, 4]]),
    "two equal images": (normal(1, D).repeat(2, 1), LABELS[:2]),
    "all labels equal": (normal(6, D), LABELS[:1].repeat(6, 1)),
    "all labels unique": (normal(4, D), torch.eye(4)),
    "all label sets unique": (normal(5, D), TRAINING),
    "all images have all labels": (normal(6, D), torch.ones(6, 4)),
    "unlabelled rows": (normal(6, D), LABELS * torch.tensor([1, 0, 1, 0, 1, 0])[:, None]),
    "all unlabelled": (normal(6, D), torch.zeros(6, 4)),
    "labels never seen in training": (normal(4, D), UNSEEN),
    "a zero vector": (normal(6, D) * torch.tensor([1, 0, 1, 1, 1, 1])[:, None], LABELS),
    "all zero vectors": (torch.zeros(6, D, dtype=torch.float64), LABELS),
    "short vectors": (normal(6, D) * 1e-3, LABELS),
    "long vectors": (normal(6, D) * 1e4, LABELS),
}
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@every_loss
def test_values_and_gradients_are_finite_in_every_hard_case(name: str) -> None:
    """The default in every dtype; the other variants in one after the other, so that every two meet."""
    for number, options in enumerate(variants(name)):
        for place, (case, (z, y)) in enumerate(HARD_CASES.items()):
            loss = make(name, **options)
            for dtype in DTYPES if not options else [DTYPES[(number + place) % len(DTYPES)]]:
                for tensor in value_and_gradients(loss, z.to(dtype), y):
                    assert tensor.isfinite().all(), (case, options, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@every_loss
def test_the_result_is_in_single_precision_unless_the_input_is_double(name: str, dtype: torch.dtype) -> None:
    value, gradient, *of_prototypes = value_and_gradients(make(name), normal(6, D).to(dtype), LABELS)
    assert value.shape == ()
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert gradient.dtype == dtype
    assert all(other.dtype == torch.float32 for other in of_prototypes)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@every_loss
def test_half_precision_input_is_worked_on_in_single_precision(name: str, dtype: torch.dtype) -> None:
    loss, z = make(name), normal(6, D).to(dtype)
    found = value_and_gradients(loss, z, LABELS)
    wanted = value_and_gradients(loss, z.float(), LABELS)
    assert torch.equal(found[0], wanted[0])
    assert torch.equal(found[1], wanted[1].to(dtype))


NO_LABELS = {
    "all unlabelled": (normal(6, D), torch.zeros(6, 4)),
    "one image without labels": (normal(1, D), torch.zeros(1, 4)),
}
NO_PARTNERS = {
    "one image": (normal(1, D), LABELS[:1]),
    "nothing shared": (normal(4, D), torch.eye(4)),
    "unlabelled partners": (normal(3, D), LABELS[[0, 3, 3]]),
}
# Every labelled image has its prototypes for partners.
NOTHING_VALID = [(name, case) for name in LOSSES for case in NO_LABELS]
NOTHING_VALID += [(name, case) for name in LOSSES if name not in WITH_PROTOTYPES for case in NO_PARTNERS]


@pytest.mark.parametrize(("name", "case"), NOTHING_VALID)
def test_where_nothing_is_valid_the_loss_is_a_zero_that_backward_accepts(name: str, case: str) -> None:
    z, y = {**NO_LABELS, **NO_PARTNERS}[case]
    for options in variants(name):
        loss, anchors = make(name, **options), z.clone().requires_grad_()
        value = loss(anchors, y)
        value.backward()
        assert value.item() == 0.0
        assert torch.equal(anchors.grad, torch.zeros_like(anchors))


# ---- The ways to call ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@every_loss
def test_autocast_changes_nothing(name: str, dtype: torch.dtype) -> None:
    loss, z = make(name), normal(6, D).to(dtype)
    wanted = value_and_gradients(loss, z, LABELS)
    z.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(z, LABELS)
    found = value, *torch.autograd.grad(value, [z, *loss.parameters()])
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)


@every_loss
def test_a_loss_made_under_autocast_is_the_same_loss(name: str) -> None:
    # Twelve labels: more than bfloat16 has digits.
    y = torch.rand(60, 12, generator=torch.Generator().manual_seed(0)) < 0.4
    z = normal(60, D)
    wanted = make(name, y)(z, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = make(name, y)(z, y)
    assert torch.equal(found, wanted)


@every_loss
def test_no_grad_gives_the_value_alone(name: str) -> None:
    loss, z = make(name), normal(6, D)
    wanted, *_ = value_and_gradients(loss, z, LABELS)
    with torch.no_grad():
        value = loss(z.requires_grad_(), LABELS)
    assert not value.requires_grad
    assert torch.equal(value, wanted)


@every_loss
def test_inference_mode_gives_the_value_and_leaves_training_possible(name: str) -> None:
    def look_then_train() -> tuple[Tensor, ...]:
        loss, z = make(name), normal(6, D)
        with torch.inference_mode():
            value = loss(z, LABELS).item()
        return torch.tensor(value, dtype=torch.float64), *value_and_gradients(loss, z, LABELS)

    looked, trained, gradient, *_ = in_a_thread_of_its_own(look_then_train)
    assert torch.equal(looked, trained)
    assert_close((gradient,), value_and_gradients(make(name), normal(6, D), LABELS)[1:2])


@every_loss
def test_embeddings_without_a_gradient_are_welcome(name: str) -> None:
    loss, z = make(name), normal(6, D)
    value = loss(z, LABELS)
    assert torch.equal(value.detach(), value_and_gradients(loss, z, LABELS)[0])
    assert value.requires_grad == (name in WITH_PROTOTYPES)


@every_loss
def test_views_are_the_flattened_batch_with_repeated_labels(name: str) -> None:
    loss, views = make(name).double(), normal(6, 3, D)
    value, gradient, *of_prototypes = value_and_gradients(loss, views, LABELS)
    flat = value_and_gradients(loss, views.flatten(0, 1), LABELS.repeat_interleave(3, 0))
    assert_close((value, gradient.flatten(0, 1), *of_prototypes), flat)


@every_loss
def test_the_comparison_side_may_be_views_too(name: str) -> None:
    loss, z, views = make(name).double(), normal(6, D), normal(6, 2, D, seed=1)
    found = value_and_gradients(loss, z, LABELS, views, LABELS)
    wanted = value_and_gradients(loss, z, LABELS, views.flatten(0, 1), LABELS.repeat_interleave(2, 0))
    assert_close(found, wanted)


@every_loss
def test_the_batch_as_its_own_comparison_side_is_the_batch_alone(name: str) -> None:
    loss = make(name).double()
    wanted = value_and_gradients(loss, normal(6, D), LABELS)
    z = normal(6, D).requires_grad_()
    value = loss(z, LABELS, z, LABELS, torch.arange(6))
    assert_close((value.detach(), *torch.autograd.grad(value, [z, *loss.parameters()])), wanted)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int32, torch.float16, torch.float64], ids=str
)
@every_loss
def test_labels_may_have_any_dtype(name: str, dtype: torch.dtype) -> None:
    loss, z = make(name), normal(6, D)
    wanted = value_and_gradients(loss, z, LABELS)
    for found, other in zip(value_and_gradients(loss, z, LABELS.to(dtype)), wanted, strict=True):
        assert torch.equal(found, other)


@every_loss
def test_embeddings_and_labels_need_not_be_contiguous(name: str) -> None:
    loss, z = make(name).double(), normal(6, D)
    columns = z.T.contiguous().T
    strided_labels = LABELS.repeat_interleave(2, 1)[:, ::2]
    assert not columns.is_contiguous()
    assert not strided_labels.is_contiguous()
    wanted = value_and_gradients(loss, z, LABELS)
    assert_close(value_and_gradients(loss, columns, strided_labels), wanted)


# ---- Any batch -----------------------------------------------------------------------------------

EXAMPLES = settings(max_examples=15)


def multi_hot(bits: int, rows: int, columns: int) -> Tensor:
    """The label matrix whose entries are the bits of a whole number."""
    return torch.tensor([bits >> k & 1 for k in range(rows * columns)]).view(rows, columns)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings, labels, training labels.

    The embeddings are of few whole numbers, so that duplicates and zero vectors are common.
    """
    N, width, L = draw(st.integers(1, 9)), draw(st.integers(1, 6)), draw(st.integers(1, 5))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    z = torch.randint(-2, 3, (N, width), generator=generator).double()
    y = multi_hot(draw(st.integers(0, 2 ** (N * L) - 1)), N, L)
    return z, y, multi_hot(draw(st.integers(0, 2 ** (4 * L) - 1)), 4, L)


def made_for(name: str, z: Tensor, training: Tensor) -> MultiLabelLoss:
    """OML with a smooth step: at 1/100, rounding alone orders equal similarities."""
    options = {"anneal": 0.1} if name == "oml" else {}
    return make(name, training, z.shape[1], **options).double()


@EXAMPLES
@given(batch=batches())
@every_loss
def test_any_batch_has_a_finite_value_and_gradient(name: str, batch: tuple[Tensor, Tensor, Tensor]) -> None:
    z, y, training = batch
    for dtype in (torch.float64, torch.float32):
        for tensor in value_and_gradients(make(name, training, z.shape[1]), z.to(dtype), y):
            assert tensor.isfinite().all()


@EXAMPLES
@given(batch=batches(), seed=st.integers(0, 99))
@every_loss
def test_the_order_of_the_images_does_not_matter(
    name: str, batch: tuple[Tensor, Tensor, Tensor], seed: int
) -> None:
    z, y, training = batch
    loss = made_for(name, z, training)
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))
    value, gradient, *of_prototypes = value_and_gradients(loss, z, y)
    assert_close(value_and_gradients(loss, z[order], y[order]), (value, gradient[order], *of_prototypes))


@EXAMPLES
@given(batch=batches(), seed=st.integers(0, 99))
@every_loss
def test_the_order_of_the_labels_does_not_matter(
    name: str, batch: tuple[Tensor, Tensor, Tensor], seed: int
) -> None:
    z, y, training = batch
    order = torch.randperm(y.shape[1], generator=torch.Generator().manual_seed(seed))
    loss, reordered = made_for(name, z, training), made_for(name, z, training[:, order])
    for mine, theirs in zip(reordered.parameters(), loss.parameters(), strict=True):
        mine.data.copy_(theirs.data[order])
    value, gradient, *of_prototypes = value_and_gradients(loss, z, y)
    wanted = value, gradient, *(other[order] for other in of_prototypes)
    assert_close(value_and_gradients(reordered, z, y[:, order]), wanted)


@EXAMPLES
@given(batch=batches(), seed=st.integers(0, 99))
@every_loss
def test_a_common_rotation_changes_nothing(
    name: str, batch: tuple[Tensor, Tensor, Tensor], seed: int
) -> None:
    z, y, training = batch
    rotation, _ = torch.linalg.qr(normal(z.shape[1], z.shape[1], seed=seed))
    loss, rotated = made_for(name, z, training), made_for(name, z, training)
    for mine, theirs in zip(rotated.parameters(), loss.parameters(), strict=True):
        mine.data.copy_(theirs.data @ rotation)
    value, *gradients = value_and_gradients(loss, z, y)
    wanted = value, *(gradient @ rotation for gradient in gradients)
    assert_close(value_and_gradients(rotated, z @ rotation, y), wanted)


@EXAMPLES
@given(batch=batches(), scales=st.lists(st.floats(1e-3, 1e3), min_size=9, max_size=9))
@every_loss
def test_the_lengths_of_embeddings_and_prototypes_do_not_matter(
    name: str, batch: tuple[Tensor, Tensor, Tensor], scales: list[float]
) -> None:
    z, y, training = batch
    scale = torch.tensor(scales, dtype=torch.float64)[:, None]
    loss, scaled = made_for(name, z, training), made_for(name, z, training)
    for prototypes in scaled.parameters():
        prototypes.data.mul_(scale[: len(prototypes)])
    found, _, *_ = value_and_gradients(scaled, z * scale[: len(z)], y)
    wanted, gradient, *_ = value_and_gradients(loss, z, y)
    assert_close((found,), (wanted,))
    # So the gradient has no part along the embedding.
    assert_close(((gradient * z).sum(1),), (torch.zeros(len(z), dtype=torch.float64),))


# ---- What a call leaves behind -------------------------------------------------------------------


@every_loss
def test_the_input_is_not_modified(name: str) -> None:
    loss = make(name)
    given = [normal(6, D), LABELS.double(), normal(6, D, seed=1), LABELS.double(), torch.arange(6)]
    copies = [tensor.clone() for tensor in given]
    value_and_gradients(loss, *given[:2])
    value_and_gradients(loss, *given)
    for tensor, before in zip(given, copies, strict=True):
        assert torch.equal(tensor, before)


@every_loss
def test_the_statistics_are_not_modified(name: str) -> None:
    statistics = LabelStatistics.from_labels(TRAINING)
    rows, counts = statistics.rows.clone(), statistics.counts.clone()
    loss = marcir.create_loss(name, statistics=statistics, embedding_dim=D)
    value_and_gradients(loss, normal(6, D), LABELS)
    loss.load_state_dict(make(name, LABELS).state_dict())
    assert torch.equal(statistics.rows, rows)
    assert torch.equal(statistics.counts, counts)


@every_loss
def test_global_randomness_is_left_alone(name: str) -> None:
    before = torch.get_rng_state()
    value_and_gradients(make(name), normal(6, D), LABELS)
    assert torch.equal(torch.get_rng_state(), before)


@every_loss
def test_prototypes_come_from_the_generator_that_is_handed_in(name: str) -> None:
    def state(seed: int) -> dict[str, Tensor]:
        return make(name, generator=torch.Generator().manual_seed(seed)).state_dict()

    one, same, other = state(1), state(1), state(2)
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert ("prototypes" in one) == (name in WITH_PROTOTYPES)
    if name in WITH_PROTOTYPES:
        assert not torch.equal(one["prototypes"], other["prototypes"])


@every_loss
def test_a_later_call_leaves_earlier_results_as_they_are(name: str) -> None:
    loss = make(name)
    z, z_later = normal(6, D).requires_grad_(), normal(5, D, seed=1).requires_grad_()
    wanted = value_and_gradients(make(name), z, LABELS)
    value = loss(z, LABELS)
    later = loss(z_later, LABELS[1:])
    value.backward()  # what it needs must have outlived the second call
    assert_close((value.detach(), z.grad), wanted[:2])
    kept = value.detach().clone(), z.grad.clone()
    later.backward()
    loss(z_later, LABELS[1:]).backward()
    assert torch.equal(value.detach(), kept[0])
    assert torch.equal(z.grad, kept[1])


@pytest.mark.parametrize("num_labels", [4, 25])
@every_loss
def test_two_threads_may_call_one_loss(name: str, num_labels: int) -> None:
    generator = torch.Generator().manual_seed(0)
    y = [(torch.rand(n, num_labels, generator=generator) < 0.3).long() for n in (12, 9)]
    z = [normal(len(labels), D, seed=seed) for seed, labels in enumerate(y)]
    alone = make(name, y[0]).double()
    wanted = [value_and_gradients(alone, *batch) for batch in zip(z, y, strict=True)]
    loss, start = make(name, y[0]).double(), threading.Barrier(2, timeout=30)

    def call(batch: int) -> list[tuple[Tensor, ...]]:
        start.wait()
        return [value_and_gradients(loss, z[batch], y[batch]) for _ in range(5)]

    with ThreadPoolExecutor(2) as pool:
        for batch, results in enumerate(pool.map(call, range(2))):
            for result in results:
                assert_close(result, wanted[batch])


# ---- Saved, copied -------------------------------------------------------------------------------


@every_loss
def test_a_saved_state_makes_another_loss_the_same(name: str, tmp_path: Path) -> None:
    options = {"plr": True} if name == "marc-calibrated" else {}
    z, path = normal(6, D, dtype=torch.float32), tmp_path / "loss.safetensors"
    loss = make(name, **options, generator=torch.Generator().manual_seed(1))
    other = make(name, LABELS, **options, generator=torch.Generator().manual_seed(2))
    other(z, LABELS)  # whatever it derived from its own statistics must go
    save_file(loss.state_dict(), path)
    other.load_state_dict(load_file(path))
    found, wanted = value_and_gradients(other, z, LABELS), value_and_gradients(loss, z, LABELS)
    assert_close(found, wanted, tolerance=0.0)
    if loss.state_dict():
        fresh = make(name, LABELS, **options, generator=torch.Generator().manual_seed(2))
        assert not torch.equal(fresh(z, LABELS), wanted[0])


def test_lmscs_queue_is_saved_with_it(tmp_path: Path) -> None:
    z, path = normal(6, D, dtype=torch.float32), tmp_path / "loss.safetensors"
    loss, other = make("lmsc", queue_size=4), make("lmsc", queue_size=4)
    loss(z, LABELS)
    save_file(loss.state_dict(), path)
    other.load_state_dict(load_file(path))
    assert torch.equal(other(z, LABELS), loss(z, LABELS))


@every_loss
def test_a_copy_is_the_same_loss(name: str) -> None:
    loss, z = make(name), normal(6, D)
    wanted = value_and_gradients(loss, z, LABELS)
    for again in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):  # noqa: S301 (our own bytes)
        assert_close(value_and_gradients(again, z, LABELS), wanted, tolerance=0.0)


# ---- Names and options ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(TAKES_CHUNKS))
def test_a_loss_over_pairs_takes_its_anchors_in_chunks(name: str) -> None:
    whole = value_and_gradients(make(name).double(), normal(6, D), LABELS)
    for chunk_size in (1, 4, 6, 100):
        loss = make(name, chunk_size=chunk_size).double()
        assert_close(value_and_gradients(loss, normal(6, D), LABELS), whole)


@pytest.mark.parametrize("name", sorted(set(LOSSES) - TAKES_CHUNKS))
def test_the_other_losses_refuse_chunks(name: str) -> None:
    with pytest.raises(ConfigError, match=f"loss '{name}' has no option 'chunk_size'"):
        make(name, chunk_size=2)


@every_loss
def test_a_mistyped_name_is_refused_with_the_nearest_known_one(name: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown loss '{name}x'. Did you mean '{name}'"):
        make(name + "x")


@every_loss
def test_a_mistyped_option_is_refused_with_the_nearest_known_one(name: str) -> None:
    for option in loss_options(name):
        with pytest.raises(ConfigError, match=f"'{name}' has no option '{option}x'. Did you mean '{option}'"):
            make(name, **{option + "x": 1})
