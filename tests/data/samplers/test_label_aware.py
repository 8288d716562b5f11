"""Label-aware batches against Reading R13, sentence by sentence."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from marcir.data.samplers import LabelAwareBatches
from marcir.errors import ConfigError, LabelError

Batches = list[list[int]]
Draws = Callable[[list[set[int]], int, int, int, int], Batches]


def the_sampler(images: list[set[int]], num_labels: int, batch_size: int, minimum: int, seed: int) -> Batches:
    return list(LabelAwareBatches(multi_hot(images, num_labels), batch_size, seed=seed, minimum=minimum))


def the_definition(
    images: list[set[int]], num_labels: int, batch_size: int, minimum: int, seed: int
) -> Batches:
    """Reading R13 as slow loops."""
    rng = random.Random(seed)
    unseen = list(range(len(images)))
    shuffled = {c: [i for i in unseen if c in images[i]] for c in range(num_labels)}
    for c in range(num_labels):
        rng.shuffle(shuffled[c])
    order = sorted(range(num_labels), key=lambda c: len(shuffled[c]))
    batches: Batches = []
    number_of_batches = len(images) // batch_size
    for number in range(number_of_batches):
        batch: list[int] = []
        for c in order:
            for image in shuffled[c]:
                if len(batch) < batch_size and image in unseen:
                    if sum(c in images[i] for i in batch) >= minimum:
                        break
                    unseen.remove(image)
                    batch.append(image)
        while len(batch) < batch_size:
            allowed = spare_images(images, unseen, minimum * (number_of_batches - number - 1))
            image = rng.choice(allowed or unseen)
            unseen.remove(image)
            batch.append(image)
        batches.append(batch)
    return batches


def spare_images(images: list[set[int]], unseen: list[int], reserve: int) -> list[int]:
    """Those that leave each of their labels at least `reserve` unseen images."""
    left = {c: sum(c in images[i] for i in unseen) for c in set().union(*images)}
    return [image for image in unseen if all(left[c] - 1 >= reserve for c in images[image])]


def multi_hot(images: list[set[int]], num_labels: int) -> Tensor:
    y = torch.zeros(len(images), num_labels)
    for image, labels in enumerate(images):
        y[image, sorted(labels)] = 1
    return y


BOTH = pytest.mark.parametrize("draws", [the_sampler, the_definition])
seeds = st.integers(0, 10_000)


@st.composite
def archives(draw: st.DrawFn, most_labels: int = 5, labels_per_image: int = 5) -> tuple[list[set[int]], int]:
    """Images as sets of labels, many of them equal, some empty; and how many labels there are."""
    num_labels = draw(st.integers(0, most_labels))
    label_set = (
        st.sets(st.integers(0, num_labels - 1), max_size=labels_per_image) if num_labels else st.just(set())
    )
    kinds = draw(st.lists(label_set, min_size=1, max_size=6))
    return draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=45)), num_labels


@st.composite
def roomy(
    draw: st.DrawFn, labels_per_image: int, most_labels: int = 4
) -> tuple[list[set[int]], int, int, int]:
    """An archive, a batch size with room for all labels, and a minimum; counts are near to what is needed."""
    num_labels = draw(st.integers(1, most_labels))
    minimum = draw(st.integers(1, 3))
    batch_size = minimum * num_labels + draw(st.integers(0, 4))
    number = draw(st.integers(1, 5))
    images: list[set[int]] = [
        set() for _ in range(number * batch_size + draw(st.integers(0, batch_size - 1)))
    ]
    places = draw(st.permutations(range(len(images))))
    for label in range(num_labels):
        count = min(len(images), max(0, number * minimum + draw(st.integers(-2, 3))))
        free = [place for place in places if len(images[place]) < labels_per_image]
        for place in free[:count]:
            images[place].add(label)
        places = places[label * 3 + 1 :] + places[: label * 3 + 1]
    return images, num_labels, batch_size, minimum


def crowded(seed: int) -> tuple[list[set[int]], int, int, int]:
    """An archive at random, mostly with batches that are small for its labels, and a minimum."""
    rng = random.Random(seed)
    num_labels, minimum, most = rng.randint(2, 6), rng.randint(1, 3), rng.randint(1, 4)
    images = [
        set(rng.sample(range(num_labels), rng.randint(0, min(most, num_labels))))
        for _ in range(rng.randint(20, 60))
    ]
    return images, num_labels, rng.randint(2, min(len(images), minimum * num_labels + 4)), minimum


# What holds for every archive.


@BOTH
@given(archives(), st.data(), seeds)
def test_every_image_is_drawn_at_most_once_in_full_batches(
    draws: Draws, archive: tuple[list[set[int]], int], data: st.DataObject, seed: int
) -> None:
    images, num_labels = archive
    batch_size = data.draw(st.integers(1, len(images)))
    batches = draws(images, num_labels, batch_size, data.draw(st.integers(1, 3)), seed)
    drawn = [image for batch in batches for image in batch]
    assert [len(batch) for batch in batches] == [batch_size] * (len(images) // batch_size)
    assert len(set(drawn)) == len(drawn)
    assert set(drawn) <= set(range(len(images)))


@BOTH
@given(archives(), st.data(), seeds)
def test_every_draw_is_one_that_the_definition_allows(
    draws: Draws, archive: tuple[list[set[int]], int], data: st.DataObject, seed: int
) -> None:
    """The batches are in the order of the draws, so that each can be judged by itself."""
    images, num_labels = archive
    batch_size = data.draw(st.integers(1, len(images)))
    minimum = data.draw(st.integers(1, 3))
    batches = draws(images, num_labels, batch_size, minimum, seed)
    order = sorted(range(num_labels), key=lambda c: sum(c in labels for labels in images))
    unseen = list(range(len(images)))
    for number, batch in enumerate(batches):
        to_draw = list(batch)
        for c in order:
            while (
                to_draw
                and sum(c in images[i] for i in batch[: len(batch) - len(to_draw)]) < minimum
                and any(c in images[i] for i in unseen)
            ):
                image = to_draw.pop(0)
                assert c in images[image]
                unseen.remove(image)
        for image in to_draw:
            allowed = spare_images(images, unseen, minimum * (len(batches) - number - 1))
            assert image in (allowed or unseen)
            if batch_size >= minimum * num_labels:
                assert allowed
            unseen.remove(image)


@BOTH
@given(archives(), st.data(), seeds)
def test_a_batch_has_the_minimum_of_each_label_or_all_that_are_left(
    draws: Draws, archive: tuple[list[set[int]], int], data: st.DataObject, seed: int
) -> None:
    images, num_labels = archive
    minimum = data.draw(st.integers(1, 3))
    batch_size = min(len(images), minimum * num_labels + data.draw(st.integers(1, 6)))
    unseen = set(range(len(images)))
    for batch in draws(images, num_labels, batch_size, minimum, seed):
        if batch_size >= minimum * num_labels:
            for c in range(num_labels):
                left = sum(c in images[i] for i in unseen)
                assert sum(c in images[i] for i in batch) >= min(minimum, left)
        unseen -= set(batch)


# What holds for every batch of an epoch, where the counts suffice.


@BOTH
@given(roomy(labels_per_image=1), seeds)
def test_with_one_label_an_image_every_batch_gets_its_part_of_each_label(
    draws: Draws, archive: tuple[list[set[int]], int, int, int], seed: int
) -> None:
    images, num_labels, batch_size, minimum = archive
    for number, batch in enumerate(draws(images, num_labels, batch_size, minimum, seed)):
        for c in range(num_labels):
            left = sum(c in labels for labels in images) - minimum * number
            assert sum(c in images[i] for i in batch) >= min(minimum, left)


@given(roomy(labels_per_image=2, most_labels=2), seeds)
def test_two_labels_that_are_frequent_enough_are_in_every_batch(
    archive: tuple[list[set[int]], int, int, int], seed: int
) -> None:
    images, num_labels, batch_size, minimum = archive
    batches = the_sampler(images, num_labels, batch_size, minimum, seed)
    counts = [sum(c in labels for labels in images) for c in range(num_labels)]
    if all(count >= minimum * len(batches) for count in counts):
        for batch in batches:
            assert all(sum(c in images[i] for i in batch) >= minimum for c in range(num_labels))


@given(roomy(labels_per_image=3), seeds)
def test_a_label_goes_short_only_if_another_had_no_other_image_to_draw(
    archive: tuple[list[set[int]], int, int, int], seed: int
) -> None:
    assert_no_needless_draws(*archive, seed)


def test_in_crowded_batches_too_a_label_goes_short_only_if_another_had_no_other_image_to_draw() -> None:
    for seed in range(500):
        assert_no_needless_draws(*crowded(seed), seed)


def assert_no_needless_draws(
    images: list[set[int]], num_labels: int, batch_size: int, minimum: int, seed: int
) -> None:
    """A draw, or a filling, may cost a label its reserve only if every image it could be would cost one."""
    batches = the_sampler(images, num_labels, batch_size, minimum, seed)
    order = sorted(range(num_labels), key=lambda c: sum(c in labels for labels in images))
    unseen = set(range(len(images)))
    for number, batch in enumerate(batches):
        reserve = minimum * (len(batches) - number - 1)
        for place, image in enumerate(batch):
            held = [sum(c in images[i] for i in batch[:place]) for c in range(num_labels)]
            left = [sum(c in images[i] for i in unseen) for c in range(num_labels)]
            scarce = {c for c in range(num_labels) if held[c] >= minimum and left[c] <= reserve}
            if images[image] & scarce:
                wanting = [c for c in order if held[c] < minimum and left[c]]
                assert all(images[i] & scarce for i in unseen if not wanting or wanting[0] in images[i])
            unseen.remove(image)


def test_a_label_with_two_images_has_both_in_one_batch() -> None:
    images = [{0}, {0}] + [{1}] * 98
    for seed in range(20):
        batches = the_sampler(images, 2, 10, 2, seed)
        assert [sum(0 in images[i] for i in batch) for batch in batches] == [2] + [0] * 9


def test_a_batch_too_small_for_all_labels_serves_the_rarest_first() -> None:
    images = [{0}] * 30 + [{1}] * 9 + [{2}] * 6
    for seed in range(20):
        batches = the_sampler(images, 3, 3, 2, seed)
        held = [[sum(c in images[i] for i in batch) for c in range(3)] for batch in batches]
        assert held[:3] == [[0, 1, 2]] * 3
        assert held[3:6] == [[1, 2, 0]] * 3
        assert held[6:] == [[3, 0, 0]] * 9


def test_images_without_labels_and_labels_without_images_are_no_error() -> None:
    assert sorted(i for batch in the_sampler([set()] * 6, 0, 3, 2, 0) for i in batch) == list(range(6))
    assert sorted(i for batch in the_sampler([set()] * 6, 2, 3, 2, 0) for i in batch) == list(range(6))
    images = [{0}] * 4 + [set()] * 16
    drawn = the_sampler(images, 1, 10, 2, 0)
    assert sorted(i for batch in drawn for i in batch) == list(range(20))
    assert [sum(0 in images[i] for i in batch) for batch in drawn] == [2, 2]


def test_filling_is_uniform_over_the_images_that_may_be_used() -> None:
    """Label 0 is needed in full; of the others, 4 of 12 are in the first batch and 8 are left."""
    labels = multi_hot([{0}] * 4 + [set()] * 6 + [{1}] * 6, 2)
    batches = LabelAwareBatches(labels, 8, seed=0, minimum=2)
    times = np.zeros((2, 16))
    for epoch in range(3000):
        batches.set_epoch(epoch)
        for number, batch in enumerate(batches):
            times[number, batch] += 1
    assert (times[:, :4].sum(0) == 3000).all()
    bound = 5 * (3000 / 4) ** 0.5
    assert abs(times[0, :4] - 1500).max() < bound
    # Two of label 1 are drawn for it, then four more of the ten left, of which four have label 1.
    assert abs(times[0, 4:10] - 3000 * 4 / 10).max() < bound
    assert abs(times[0, 10:] - 3000 * (2 / 6 + 4 / 6 * 4 / 10)).max() < bound


# Randomness and shards.


def skewed_labels() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return (torch.rand(120, 5, generator=generator) < torch.tensor([0.2, 0.25, 0.3, 0.5, 0.8])).long()


@given(seeds, st.integers(0, 1000))
def test_an_epoch_depends_on_seed_and_epoch_alone(seed: int, epoch: int) -> None:
    used, fresh = (LabelAwareBatches(skewed_labels(), 16, seed=seed) for _ in range(2))
    for earlier in range(2):
        used.set_epoch(earlier)
        list(used)
    torch.manual_seed(seed)
    used.set_epoch(epoch)
    fresh.set_epoch(epoch)
    assert list(used) == list(fresh) == list(fresh)
    fresh.set_epoch(epoch + 1)
    assert list(used) != list(fresh)
    other = LabelAwareBatches(skewed_labels(), 16, seed=seed + 1)
    other.set_epoch(epoch)
    assert list(used) != list(other)


@pytest.mark.parametrize("processes", [1, 2, 4])
@given(archive=archives(), seed=seeds, data=st.data())
def test_the_shards_join_to_the_batches_of_one_process(
    processes: int, archive: tuple[list[set[int]], int], seed: int, data: st.DataObject
) -> None:
    images, num_labels = archive
    images = images * 4
    batch_size = 4 * data.draw(st.integers(1, len(images) // 4))
    y = multi_hot(images, num_labels)
    joined = list(LabelAwareBatches(y, batch_size, seed=seed))
    shards = [
        list(LabelAwareBatches(y, batch_size, seed=seed, rank=rank, processes=processes))
        for rank in range(processes)
    ]
    for number, batch in enumerate(joined):
        shares = [shard[number] for shard in shards]
        assert {len(share) for share in shares} == {batch_size // processes}
        assert [image for share in shares for image in share] == batch
    assert {len(shard) for shard in shards} == {len(joined)}


def test_another_process_draws_the_same_batches() -> None:
    script = (
        "import torch; from marcir.data.samplers import LabelAwareBatches;"
        "y = (torch.arange(120)[:, None] % torch.tensor([2, 3, 5, 7, 11]) == 0);"
        "print(list(LabelAwareBatches(y, 16, seed=7)))"
    )
    environment = os.environ | {"PYTHONHASHSEED": "123"}
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    y = torch.arange(120)[:, None] % torch.tensor([2, 3, 5, 7, 11]) == 0
    assert told.stdout.strip() == str(list(LabelAwareBatches(y, 16, seed=7)))


def test_no_global_random_state_is_read_or_changed() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    list(LabelAwareBatches(skewed_labels(), 16, seed=0))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]
    assert random.getstate() == before[2]


def test_two_iterations_at_once_do_not_disturb_each_other_or_the_labels() -> None:
    y = skewed_labels()
    batches = LabelAwareBatches(y, 16, seed=0)
    expected = list(batches)
    pairs = list(zip(batches, batches, strict=True))
    assert [one for one, _ in pairs] == [other for _, other in pairs] == expected
    assert torch.equal(y, skewed_labels())
    y.zero_()
    assert list(batches) == expected


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.float32, torch.bfloat16], ids=str)
def test_the_dtype_of_the_labels_makes_no_difference(dtype: torch.dtype) -> None:
    of_dtype = LabelAwareBatches(skewed_labels().to(dtype), 16, seed=0)
    assert list(of_dtype) == list(LabelAwareBatches(skewed_labels(), 16, seed=0))


def test_it_works_in_a_data_loader() -> None:
    y = skewed_labels()
    batches = LabelAwareBatches(y, 16, seed=0)
    loader = DataLoader(TensorDataset(torch.arange(len(y)), y), batch_sampler=batches)
    assert len(loader) == len(batches) == 120 // 16
    loaded = list(loader)
    assert [images.tolist() for images, _ in loaded] == list(batches)
    assert all((labels.sum(0) >= 2).all() for _, labels in loaded)


# Real labels.


@pytest.fixture(scope="module")
def ucm(shared: Path) -> Tensor:
    """The multi-labels of UC Merced. (2100, 17)"""
    text = (shared / "data/ucmerced-multilabel/LandUse_Multilabeled.txt").read_text("utf-8")
    rows = [line.split("\t")[1:] for line in text.splitlines()[1:]]
    return torch.tensor([[int(entry) for entry in row] for row in rows])


def training_split(y: Tensor, seed: int) -> Tensor:
    """A random split of the size of DLRSD's training split."""
    return y[torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))[:1475]]


def assert_two_of_each(y: Tensor, batches: Batches) -> None:
    assert (y.sum(0) >= 2 * len(batches)).all()
    for batch in batches:
        assert (y[batch].sum(0) >= 2).all()


@pytest.mark.parametrize("seed", range(10))
def test_every_batch_of_ucm_has_two_of_each_label(ucm: Tensor, seed: int) -> None:
    for y in (ucm, training_split(ucm, seed)):
        batches = LabelAwareBatches(y, 128, seed=seed)
        for epoch in range(3):
            batches.set_epoch(epoch)
            assert_two_of_each(y, list(batches))
    assert len(LabelAwareBatches(ucm, 128, seed=0)) == 16


@pytest.mark.parametrize("batch_size", [64, 50, 44])
def test_smaller_batches_of_ucm_have_two_of_each_label_as_well(ucm: Tensor, batch_size: int) -> None:
    """The rarest label has 100 images, and up to 94 of them are needed."""
    for seed in range(10):
        assert_two_of_each(ucm, list(LabelAwareBatches(ucm, batch_size, seed=seed)))


def test_the_definition_as_loops_has_two_of_each_label_of_ucm_as_well(ucm: Tensor) -> None:
    y = ucm[::5]  # every label has its 20 images or more, for 3 batches
    images = [set(row.nonzero().flatten().tolist()) for row in y]
    for seed in range(3):
        assert_two_of_each(y, the_definition(images, 17, 128, 2, seed))


def test_an_epoch_of_ucm_is_drawn_in_a_moment(ucm: Tensor) -> None:
    assert seconds(LabelAwareBatches(ucm, 128, seed=0), attempts=5) < 0.2


@pytest.mark.slow
def test_an_epoch_of_a_hundred_thousand_images_is_drawn_in_seconds() -> None:
    """Long-tailed labels, and batches too small to give every label its two."""
    share = 1 / torch.arange(1, 61)
    y = torch.rand(100_000, 60, generator=torch.Generator().manual_seed(0)) < share
    for batch_size in (128, 64):
        assert seconds(LabelAwareBatches(y, batch_size, seed=0), attempts=1) < 10


def seconds(batches: LabelAwareBatches, attempts: int) -> float:
    """Processor time of an epoch, the best of some."""
    times = []
    for _ in range(attempts):
        start = time.process_time()
        assert len(list(batches)) == len(batches)
        times.append(time.process_time() - start)
    return min(times)


# Bad input.


def test_only_labels_known_to_be_present_are_served() -> None:
    labels = torch.tensor([[1, 0]] * 4 + [[-1, 1]] * 28)
    for batch in LabelAwareBatches(labels, 16, seed=0):
        assert (labels[batch][:, 0] == 1).sum() == 2


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ([0, 1, 1], "labels: expected multi-hot labels (N, L), found (3,). Give one row per image."),
        ([[[0, 1]]], "labels: expected multi-hot labels (N, L), found (1, 1, 2). Give one row per image."),
        (
            [[0, 1], [1, 2]],
            "labels: labels must be 0, 1 or -1 (unknown), found 2 in row 1, column 1.",
        ),
        (
            [[0.5, 1.0]],
            "labels: labels must be 0, 1 or -1 (unknown), found 0.5 in row 0, column 0.",
        ),
        (
            [[0.0, float("nan")]],
            "labels: labels must be 0, 1 or -1 (unknown), found nan in row 0, column 1.",
        ),
    ],
)
def test_labels_that_are_not_multi_hot_are_refused(labels: list[object], text: str) -> None:
    with pytest.raises(LabelError) as caught:
        LabelAwareBatches(torch.tensor(labels), 1, seed=0)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch_size": 5}, "batch_size = 5: there are only 4 images. Use a smaller batch."),
        ({"batch_size": 0}, "batch_size = 0: must be a whole number of 1 or more."),
        ({"minimum": 0}, "minimum = 0: must be a whole number of 1 or more."),
        ({"minimum": 1.5}, "minimum = 1.5: must be a whole number of 1 or more."),
        ({"rank": 1}, "rank = 1: must be below the number of processes, 1."),
        (
            {"processes": 3},
            "batch_size = 4: cannot be shared equally by 3 processes. Use a multiple of 3, such as 6.",
        ),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        LabelAwareBatches(torch.eye(4), **{"batch_size": 4, "seed": 0} | options)
    assert str(caught.value) == text
