"""Augmentation: keyed by image, the same for any number of processes, true to its limits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from marcir.data.augment import Augmentation, uniform_draws

IDS = [f"image{i}" for i in range(6)]


def images(bands: int = 3, dtype: torch.dtype = torch.uint8, size: int = 20) -> torch.Tensor:
    x = torch.rand(6, bands, size, size, generator=torch.Generator().manual_seed(0))
    return x if dtype == torch.float32 else (x * (255 if dtype == torch.uint8 else 60000)).to(dtype)


def test_an_image_comes_out_the_same_in_any_batch() -> None:
    augment = Augmentation(16)
    whole = augment(images(), IDS, seed=0, epoch=3)
    for i in (0, 4):
        alone = augment(images()[[i]], [IDS[i]], seed=0, epoch=3)
        assert torch.allclose(alone[0], whole[i], atol=1e-6)


def test_two_copies_of_an_image_in_one_batch_come_out_different() -> None:
    pair = Augmentation(16)(images()[[0, 0]], ["a", "a"], seed=0, epoch=0)
    assert (pair[0] - pair[1]).abs().mean() > 0.01


@pytest.mark.parametrize("change", [{"seed": 1}, {"epoch": 1}, {"view": 1}])
def test_another_seed_epoch_or_view_is_another_picture(change: dict[str, int]) -> None:
    augment = Augmentation(16)
    first = augment(images(), IDS, seed=0, epoch=0)
    other = augment(images(), IDS, **{"seed": 0, "epoch": 0, **change})
    assert ((first - other).abs().mean((1, 2, 3)) > 0.001).all()


def test_the_global_random_state_and_the_images_are_left_alone() -> None:
    state, given_images = torch.get_rng_state(), images(dtype=torch.float32)
    before = given_images.clone()
    Augmentation(16)(given_images, IDS, seed=0, epoch=0)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(given_images, before)


@pytest.mark.parametrize("bands", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float32])
def test_any_bands_and_depths_are_augmented(bands: int, dtype: torch.dtype) -> None:
    out = Augmentation(16)(images(bands, dtype), IDS, seed=0, epoch=0)
    assert out.shape == (6, bands, 16, 16)
    assert out.dtype == torch.float32
    assert out.isfinite().all()
    if dtype != torch.float32:
        assert out.min() >= 0
        assert out.max() <= 1


def test_without_any_strength_only_flips_are_left() -> None:
    augment = Augmentation(20, scale=(1, 1), ratio=1, rotation=0, jitter=0)
    out = augment(images(), IDS, seed=0, epoch=0)
    for i, image in enumerate(images().float() / 255):
        flips = [image, image.flip(1), image.flip(2), image.flip(1, 2)]
        assert min((out[i] - flipped).abs().max().item() for flipped in flips) < 1e-4


def test_over_many_images_every_flip_happens_and_crops_keep_their_limits() -> None:
    u = torch.from_numpy(uniform_draws([str(i) for i in range(2000)], 0, 0, 0)).float()
    placed = Augmentation(16).placements(u)
    area = torch.linalg.det(placed[:, :, :2]).abs()
    assert area.min() >= 0.4
    assert area.max() <= 1 + 1e-5
    signs = {(bool(a), bool(b)) for a, b in zip(placed[:, 0, 0] > 0, placed[:, 1, 1] > 0, strict=True)}
    assert len(signs) == 4
    angle = torch.atan2(placed[:, 1, 0].abs(), placed[:, 0, 0].abs()).rad2deg()
    assert angle.max() <= 25


@given(st.lists(st.text(max_size=5), min_size=1, max_size=20), st.integers(0, 99), st.integers(0, 99))
def test_draws_are_in_the_unit_interval_and_differ_between_copies(
    ids: list[str], seed: int, epoch: int
) -> None:
    draws = uniform_draws(ids, seed, epoch, 0)
    assert draws.shape == (len(ids), 10)
    assert ((draws >= 0) & (draws < 1)).all()
    assert len(np.unique(draws, axis=0)) == len(ids)
