"""Plain shuffling, and what it shares with the label-aware batches: seeds, epochs, shards, errors."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from marcir.data.samplers import ShuffledBatches
from marcir.errors import ConfigError


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int]:
    """Numbers of images and of images in a batch."""
    num_images = draw(st.integers(1, 60))
    return num_images, draw(st.integers(1, num_images))


seeds = st.integers(0, 2**40)
epochs = st.integers(0, 1000)


def epoch_of(batches: ShuffledBatches, epoch: int) -> list[list[int]]:
    batches.set_epoch(epoch)
    return list(batches)


@given(sizes(), seeds, epochs)
def test_every_image_is_drawn_at_most_once_in_full_batches(
    size: tuple[int, int], seed: int, epoch: int
) -> None:
    num_images, batch_size = size
    batches = epoch_of(ShuffledBatches(num_images, batch_size, seed=seed), epoch)
    images = [image for batch in batches for image in batch]
    assert [len(batch) for batch in batches] == [batch_size] * (num_images // batch_size)
    assert len(set(images)) == len(images)
    assert set(images) <= set(range(num_images))


@given(sizes(), seeds, epochs)
def test_with_the_last_batch_every_image_is_drawn_exactly_once(
    size: tuple[int, int], seed: int, epoch: int
) -> None:
    num_images, batch_size = size
    kept = ShuffledBatches(num_images, batch_size, seed=seed, drop_last=False)
    batches = epoch_of(kept, epoch)
    dropped = epoch_of(ShuffledBatches(num_images, batch_size, seed=seed), epoch)
    assert sorted(image for batch in batches for image in batch) == list(range(num_images))
    assert batches[: len(dropped)] == dropped
    assert len(batches) == len(kept) == -(-num_images // batch_size)


@given(sizes())
def test_the_length_is_the_number_of_batches(size: tuple[int, int]) -> None:
    batches = ShuffledBatches(*size, seed=0)
    assert len(batches) == len(list(batches)) == size[0] // size[1]


@given(seeds, epochs)
def test_the_order_depends_on_seed_and_epoch_alone(seed: int, epoch: int) -> None:
    used = ShuffledBatches(40, 8, seed=seed)
    for earlier in range(3):
        epoch_of(used, earlier)
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    assert epoch_of(used, epoch) == epoch_of(ShuffledBatches(40, 8, seed=seed), epoch)


@given(seeds, epochs)
def test_another_epoch_and_another_seed_are_other_orders(seed: int, epoch: int) -> None:
    batches = ShuffledBatches(40, 40, seed=seed)
    orders = [epoch_of(batches, epoch), epoch_of(batches, epoch + 1)]
    orders.append(epoch_of(ShuffledBatches(40, 40, seed=seed + 1), epoch))
    assert len({tuple(order[0]) for order in orders}) == 3


def test_the_next_seed_does_not_repeat_the_next_epoch() -> None:
    assert epoch_of(ShuffledBatches(40, 40, seed=0), 1) != epoch_of(ShuffledBatches(40, 40, seed=1), 0)


def test_a_large_seed_does_not_repeat_a_later_epoch_of_a_small_one() -> None:
    assert epoch_of(ShuffledBatches(40, 40, seed=2**32), 0) != epoch_of(ShuffledBatches(40, 40, seed=0), 1)


def test_the_epoch_does_not_move_by_itself() -> None:
    batches = ShuffledBatches(40, 8, seed=0)
    assert list(batches) == list(batches) == epoch_of(batches, 0)


def test_an_epoch_under_way_is_not_disturbed_by_the_next_one() -> None:
    batches = ShuffledBatches(40, 8, seed=0)
    expected = epoch_of(batches, 3)
    under_way = iter(batches)
    batches.set_epoch(4)
    assert list(under_way) == expected


@pytest.mark.parametrize("processes", [1, 2, 4])
@pytest.mark.parametrize("drop_last", [True, False])
@given(seed=seeds, num_images=st.integers(12, 60))
def test_the_shards_join_to_the_batches_of_one_process(
    processes: int, drop_last: bool, seed: int, num_images: int
) -> None:
    num_images -= num_images % 4  # so that the last batch has a share for each of four
    joined = list(ShuffledBatches(num_images, 12, seed=seed, drop_last=drop_last))
    shards = [
        list(ShuffledBatches(num_images, 12, seed=seed, rank=rank, processes=processes, drop_last=drop_last))
        for rank in range(processes)
    ]
    for number, batch in enumerate(joined):
        shares = [shard[number] for shard in shards]
        assert {len(share) for share in shares} == {len(batch) // processes}
        assert [image for share in shares for image in share] == batch
    assert {len(shard) for shard in shards} == {len(joined)}


def test_no_global_random_state_is_read_or_changed() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    epoch_of(ShuffledBatches(40, 8, seed=0), 1)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]
    assert random.getstate() == before[2]


def test_every_image_is_as_likely_as_any_other_in_every_batch() -> None:
    batches = ShuffledBatches(12, 4, seed=0)
    times = np.zeros((3, 12))
    for epoch in range(3000):
        for number, batch in enumerate(epoch_of(batches, epoch)):
            times[number, batch] += 1
    assert abs(times - 1000).max() < 5 * (3000 * 1 / 3 * 2 / 3) ** 0.5


def test_it_works_in_a_data_loader() -> None:
    batches = ShuffledBatches(10, 4, seed=0)
    loader = DataLoader(TensorDataset(torch.arange(10)), batch_sampler=batches)
    assert len(loader) == 2
    assert [images.tolist() for (images,) in loader] == list(batches)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_images": 3}, "batch_size = 4: there are only 3 images. Use a smaller batch."),
        ({"num_images": 0}, "batch_size = 4: there are only 0 images. Use a smaller batch."),
        ({"num_images": -1}, "num_images = -1: must be a whole number of 0 or more."),
        ({"batch_size": 0}, "batch_size = 0: must be a whole number of 1 or more."),
        ({"batch_size": 4.0}, "batch_size = 4.0: must be a whole number of 1 or more."),
        ({"batch_size": True}, "batch_size = True: must be a whole number of 1 or more."),
        ({"drop_last": "no"}, "drop_last = 'no': must be True or False."),
        ({"seed": -1}, "seed = -1: must be a whole number from 0 to 9223372036854775807."),
        ({"processes": 0}, "processes = 0: must be a whole number of 1 or more."),
        ({"rank": -1}, "rank = -1: must be a whole number of 0 or more."),
        ({"rank": 2, "processes": 2}, "rank = 2: must be below the number of processes, 2."),
        (
            {"processes": 3},
            "batch_size = 4: cannot be shared equally by 3 processes. Use a multiple of 3, such as 6.",
        ),
        (
            {"num_images": 9, "processes": 2, "drop_last": False},
            "drop_last = False: the last batch has 1 images for 2 processes. "
            "Use drop_last = True, or another batch_size.",
        ),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ShuffledBatches(**{"num_images": 10, "batch_size": 4, "seed": 0} | options)
    assert str(caught.value) == text


@pytest.mark.parametrize("epoch", [-1, 0.5, None])
def test_an_epoch_that_is_no_number_of_one_is_refused(epoch: object) -> None:
    with pytest.raises(ConfigError, match=r"^epoch = .*: must be a whole number of 0 or more\.$"):
        ShuffledBatches(10, 4, seed=0).set_epoch(epoch)
