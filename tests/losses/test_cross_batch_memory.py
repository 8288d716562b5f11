"""A memory of past batches: what it compares with, what it keeps, what it refuses."""

import copy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from marcir.catalog import LOSSES, create_loss
from marcir.errors import BatchError, ConfigError
from marcir.labels import LabelStatistics
from marcir.losses import CrossBatchMemory, LMscLoss, LProtoLoss, MulSupConLoss, MultiLabelLoss

LABELS, DIMENSIONS = 4, 3
COMPARING = [name for name in LOSSES if name != "lproto"]
Batch = tuple[Tensor, Tensor]


def batch(seed: int, images: int = 6, dtype: torch.dtype = torch.float64) -> Batch:
    """Embeddings with a gradient, and labels; one image has none."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(images, DIMENSIONS, generator=generator, dtype=torch.float64).to(dtype)
    y = (torch.rand(images, LABELS, generator=generator) < 0.5).long()
    y[0] = 0
    return z.requires_grad_(), y


def make_loss(name: str, **options: object) -> MultiLabelLoss:
    y = torch.cat([batch(seed)[1] for seed in range(10)])
    statistics = LabelStatistics.from_labels(y)
    return create_loss(name, statistics=statistics, embedding_dim=DIMENSIONS, **options)


def unit(z: Tensor) -> Tensor:
    return z.detach() / z.detach().norm(dim=1, keepdim=True)


def value_and_gradients(loss: MultiLabelLoss, z: Tensor, *rest: Tensor) -> list[Tensor]:
    value = loss(z, *rest)
    wanted = [z, *loss.parameters()]
    return [value.detach(), *torch.autograd.grad(value, wanted)]


def assert_same(found: list[Tensor], expected: list[Tensor]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


# ---- What is compared ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPARING)
def test_the_first_step_is_the_loss_itself(name: str) -> None:
    z, y = batch(1)
    assert_same(
        value_and_gradients(CrossBatchMemory(make_loss(name), 10), z, y),
        value_and_gradients(make_loss(name), z, y),
    )


@pytest.mark.parametrize("name", COMPARING)
def test_the_second_step_compares_with_the_batch_and_the_past_rows(name: str) -> None:
    (z_past, y_past), (z, y) = batch(1, 5), batch(2, 6)
    loss = make_loss(name)
    memory = CrossBatchMemory(loss, 100)
    memory(z_past, y_past)
    leaf = z.detach().requires_grad_()
    value = loss(leaf, y, torch.cat([leaf, z_past.detach()]), torch.cat([y, y_past]), torch.arange(6))
    expected = [value.detach(), *torch.autograd.grad(value, [leaf, *loss.parameters()])]
    found = value_and_gradients(memory, z, y)
    assert_same(found, expected)
    assert not torch.allclose(found[0], loss(z, y).detach())


def test_with_a_comparison_side_the_memory_adds_to_it_and_keeps_its_rows() -> None:
    (z, y), (z_other, y_other), (z_past, y_past) = batch(1, 4), batch(2, 5), batch(3, 6)
    loss = MulSupConLoss()
    memory = CrossBatchMemory(loss, 11)
    memory(z, y, z_past, y_past)
    value = memory(z, y, z_other, y_other)
    expected = loss(z, y, torch.cat([z_other, z_past]), torch.cat([y_other, y_past]))
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=0)
    assert torch.allclose(memory.memory.z, unit(torch.cat([z_past, z_other])))


def test_the_views_of_an_image_are_kept_as_rows() -> None:
    z, y = batch(1, 6)
    memory = CrossBatchMemory(MulSupConLoss(), 100)
    memory(z.view(3, 2, DIMENSIONS), y[:3])
    assert torch.allclose(memory.memory.z, unit(z))
    assert torch.equal(memory.memory.y, y[:3].repeat_interleave(2, 0).double())


@pytest.mark.parametrize("name", COMPARING)
def test_past_rows_get_no_gradient(name: str) -> None:
    memory = CrossBatchMemory(make_loss(name), 100)
    z_past, y_past = batch(1)
    memory(z_past, y_past)
    assert not memory.memory.z.requires_grad
    z, y = batch(2)
    memory(z, y).backward()
    assert z.grad is not None
    assert z.grad.abs().sum() > 0
    assert z_past.grad is None


def test_changing_a_past_batch_does_not_change_the_memory() -> None:
    z, y = batch(1)
    memory = CrossBatchMemory(MulSupConLoss(), 100)
    memory(z, y)
    kept_z, kept_y = memory.memory.z.clone(), memory.memory.y.clone()
    with torch.no_grad():
        z.zero_()
    y.fill_(1)
    assert torch.equal(memory.memory.z, kept_z)
    assert torch.equal(memory.memory.y, kept_y)


# ---- What is kept --------------------------------------------------------------------------------


def test_the_last_rows_are_kept_in_order_and_the_oldest_dropped() -> None:
    memory = CrossBatchMemory(MulSupConLoss(), 7)
    batches = [batch(seed, images) for seed, images in enumerate((3, 2, 4, 1, 5))]
    for step in range(len(batches)):
        memory(*batches[step])
        z = torch.cat([z for z, _ in batches[: step + 1]])[-7:]
        y = torch.cat([y for _, y in batches[: step + 1]])[-7:]
        assert len(memory.memory.z) == min(7, (3, 5, 9, 10, 15)[step])
        assert torch.allclose(memory.memory.z, unit(z), rtol=1e-12)
        assert torch.equal(memory.memory.y, y.double())


def test_of_a_batch_larger_than_the_memory_the_last_rows_are_kept() -> None:
    loss = MulSupConLoss()
    memory = CrossBatchMemory(loss, 3)
    z_past, y_past = batch(1, 8)
    memory(z_past, y_past)
    assert torch.allclose(memory.memory.z, unit(z_past)[-3:], rtol=1e-12)
    z, y = batch(2, 8)
    expected = loss(z, y, torch.cat([z, z_past[-3:]]), torch.cat([y, y_past[-3:]]), torch.arange(8))
    torch.testing.assert_close(memory(z, y), expected, rtol=1e-9, atol=0)


def test_a_memory_of_one_row_keeps_the_last_one() -> None:
    memory = CrossBatchMemory(MulSupConLoss(), 1)
    z, y = batch(1)
    memory(z, y)
    assert torch.allclose(memory.memory.z, unit(z)[-1:])


def test_in_evaluation_mode_the_memory_is_compared_with_but_not_filled() -> None:
    memory = CrossBatchMemory(MulSupConLoss(), 100)
    memory.eval()
    memory(*batch(1))
    assert len(memory.memory.z) == 0
    memory.train()
    memory(*batch(1))
    memory.eval()
    kept = memory.memory.z.clone()
    first, second = memory(*batch(2)), memory(*batch(2))
    assert torch.equal(memory.memory.z, kept)
    assert torch.equal(first, second)
    assert not torch.allclose(first, memory.loss(*batch(2)))


def test_a_refused_batch_leaves_the_memory_as_it_was() -> None:
    memory = CrossBatchMemory(MulSupConLoss(), 100)
    z, y = batch(1)
    memory(z, y)
    kept = memory.memory.z.clone()
    with pytest.raises(BatchError):
        memory(torch.full_like(z, torch.nan), y)
    assert torch.equal(memory.memory.z, kept)


# ---- What is saved -------------------------------------------------------------------------------


def goes_on(loss: MultiLabelLoss, dtype: torch.dtype) -> list[Tensor]:
    """Two more steps, and a look in evaluation mode."""
    steps = [value_and_gradients(loss, *batch(seed, 5, dtype)) for seed in (3, 4)]
    loss.eval()
    return [tensor for step in steps for tensor in step] + [loss(*batch(5, 5, dtype)).detach()]


def saved_and_loaded(loss: MultiLabelLoss, fresh: MultiLabelLoss, path: Path) -> None:
    save_file(loss.state_dict(), path)
    fresh.load_state_dict(load_file(path))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", COMPARING)
def test_a_saved_memory_goes_on_exactly_the_same(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    loss = CrossBatchMemory(make_loss(name), 8)
    for seed in (1, 2):
        loss(*batch(seed, 6, dtype))
    fresh = CrossBatchMemory(make_loss(name), 8)
    saved_and_loaded(loss, fresh, tmp_path / "loss.safetensors")
    for found, expected in zip(goes_on(fresh, dtype), goes_on(loss, dtype), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_saved_queue_goes_on_exactly_the_same(tmp_path: Path, dtype: torch.dtype) -> None:
    loss = make_loss("lmsc", queue_size=8)
    for seed in (1, 2):
        loss(*batch(seed, 6, dtype))
    fresh = make_loss("lmsc", queue_size=8, generator=torch.Generator().manual_seed(1))
    saved_and_loaded(loss, fresh, tmp_path / "loss.safetensors")
    for found, expected in zip(goes_on(fresh, dtype), goes_on(loss, dtype), strict=True):
        assert torch.equal(found, expected)


def test_a_memory_without_past_is_saved_and_loaded_over_one_with_a_past(tmp_path: Path) -> None:
    used = CrossBatchMemory(MulSupConLoss(), 8)
    used(*batch(1))
    saved_and_loaded(CrossBatchMemory(MulSupConLoss(), 8), used, tmp_path / "loss.safetensors")
    assert len(used.memory.z) == 0
    assert torch.equal(used(*batch(2)), MulSupConLoss()(*batch(2)))


@pytest.mark.parametrize("name", COMPARING)
def test_a_deep_copy_goes_on_by_itself(name: str) -> None:
    loss = CrossBatchMemory(make_loss(name), 8)
    loss(*batch(1))
    copied = copy.deepcopy(loss)
    kept = loss.memory.z.clone()
    found = goes_on(copied, torch.float64)
    assert torch.equal(loss.memory.z, kept)
    for one, other in zip(found, goes_on(loss, torch.float64), strict=True):
        assert torch.equal(one, other)


# ---- LMsc's own queue ----------------------------------------------------------------------------


def test_the_queue_of_lmsc_is_a_memory_of_past_batches() -> None:
    with_queue = make_loss("lmsc", queue_size=8)
    with_memory = CrossBatchMemory(make_loss("lmsc"), 8)
    for seed in (1, 2, 3):
        z, y = batch(seed)
        assert_same(value_and_gradients(with_queue, z, y), value_and_gradients(with_memory, z, y))


def test_the_queue_of_lmsc_is_not_filled_in_evaluation_mode() -> None:
    loss = make_loss("lmsc", queue_size=8)
    assert isinstance(loss, LMscLoss)
    loss.eval()
    loss(*batch(1))
    assert len(loss.queue.z) == 0


# ---- What is refused -----------------------------------------------------------------------------


def test_lproto_is_refused_with_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"^LProto compares images with prototypes only: .*\.$"):
        CrossBatchMemory(LProtoLoss(DIMENSIONS, LABELS), 8)


def test_lmsc_with_a_queue_of_its_own_is_refused_with_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"^LMsc has a queue of its own \(queue_size = 4\): .*\.$"):
        CrossBatchMemory(LMscLoss(DIMENSIONS, LABELS, queue_size=4), 8)


@pytest.mark.parametrize("size", [0, -1, 1.5, 4.0, True, "8", None])
def test_a_size_that_is_no_whole_number_of_one_or_more_is_refused(size: object) -> None:
    with pytest.raises(ConfigError, match=r"^size = .*must be a whole number of 1 or more\.$"):
        CrossBatchMemory(MulSupConLoss(), size)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["marc", "lmsc"])
def test_a_batch_with_another_number_of_labels_is_refused_as_by_the_loss(name: str) -> None:
    z, y = batch(1)
    with pytest.raises(BatchError, match="labels has 3 columns, but this loss was made for 4"):
        CrossBatchMemory(make_loss(name), 8)(z, y[:, :3])


def test_a_batch_of_another_width_than_the_past_is_refused() -> None:
    memory = CrossBatchMemory(MulSupConLoss(), 8)
    z, y = batch(1)
    memory(z, y)
    with pytest.raises(BatchError):
        memory(z[:, :2], y)
    with pytest.raises(BatchError):
        memory(z, y[:, :3])
