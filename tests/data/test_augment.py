"""Augmentation: keyed by image, the same for any number of processes, true to its limits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from marcir.data.augment import Augmentation, uniform_draws
from marcir.errors import BatchError, ConfigError

IDS = [f"image{i}" for i in range(6)]


def images(bands: int = 3, dtype: torch.dtype = torch.uint8, size: int = 20) -> torch.Tensor:
    x = torch.rand(6, bands, size, size, generator=torch.Generator().manual_seed(0))
    return x if dtype == torch.float32 else (x * (255 if dtype == torch.uint8 else 60000)).to(dtype)


def test_an_image_comes_out_the_same_in_any_batch() -> None:
    augment = Augmentation(16)
    whole = augment(images(), IDS, seed=0, epoch=3)
    for i in (0, 4):
        alone = augment(images()[[i]], [IDS[i]], seed=0, epoch=3)
        assert torch.equal(alone[0], whole[i])


@pytest.mark.parametrize("bands", [1, 3, 5])
def test_not_a_bit_depends_on_the_batch_or_the_number_of_threads(bands: int) -> None:
    augment, given_images = Augmentation(120), images(bands, size=150)
    whole = augment(given_images, IDS, seed=0, epoch=0)
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            for part in ([0], [3, 1], [5, 4, 2, 0, 1], [2, 3, 4, 5, 0, 1]):
                out = augment(given_images[part], [IDS[i] for i in part], seed=0, epoch=0)
                assert torch.equal(out, whole[part])
                channels_last = given_images[part].contiguous(memory_format=torch.channels_last)
                assert torch.equal(augment(channels_last, [IDS[i] for i in part], seed=0, epoch=0), out)
    finally:
        torch.set_num_threads(1)


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
    placed = Augmentation(16).affine_matrices(u)
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size = 0"),
        ({"size": 16.0}, "size = 16.0"),
        ({"scale": (2, 5)}, "scale = 5"),
        ({"scale": (0, 1)}, "scale = "),
        ({"scale": (0.8, 0.5)}, "scale = "),
        ({"scale": (0.5,)}, "scale = "),
        ({"ratio": 0}, "ratio = 0"),
        ({"ratio": float("nan")}, "ratio = nan"),
        ({"rotation": -1}, "rotation = -1"),
        ({"jitter": 5}, "jitter = 5"),
    ],
)
def test_strengths_that_mean_nothing_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Augmentation(**{"size": 16, **options})  # type: ignore[arg-type]


def test_a_batch_that_does_not_fit_its_ids_is_refused() -> None:
    with pytest.raises(BatchError, match="6 images with 5 ids"):
        Augmentation(16)(images(), IDS[:5], seed=0, epoch=0)
    with pytest.raises(BatchError, match=r"shape \(3, 20, 20\)"):
        Augmentation(16)(images()[0], IDS[:3], seed=0, epoch=0)


def test_an_empty_batch_stays_empty() -> None:
    assert Augmentation(16)(images()[:0], [], seed=0, epoch=0).shape == (0, 3, 16, 16)


def test_a_file_name_that_is_not_utf_8_is_a_name_too() -> None:
    assert uniform_draws(["a\udcff", "b"], 0, 0, 0).shape == (2, 10)
