"""Label sets as whole numbers, against Python sets."""

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from marcir.labels.sets import BITS, distinct_sets, equal_rows, label_words

# One label, around the ends of the first words, and many.
WIDTHS = [1, 2, 17, 20, 21, 23, 24, 25, 43, 47, 48, 49, 60, 72, 73, 1000]
DTYPES = [torch.bool, torch.uint8, torch.int64, torch.float32, torch.float64]


@st.composite
def label_rows(draw: st.DrawFn) -> tuple[int, list[frozenset[int]]]:
    """A number of labels, and images of which many have the same label set."""
    num_labels = draw(st.sampled_from(WIDTHS))
    label = st.one_of(st.integers(0, num_labels - 1), st.sampled_from([0, num_labels - 1]))
    kinds = draw(st.lists(st.frozensets(label, max_size=num_labels), min_size=1, max_size=5))
    return num_labels, draw(st.lists(st.sampled_from(kinds), max_size=12))


def multi_hot(sets: list[frozenset[int]], num_labels: int) -> Tensor:
    y = torch.zeros(len(sets), num_labels, dtype=torch.bool)
    for i, labels in enumerate(sets):
        y[i, sorted(labels)] = True
    return y


def set_of(words: Tensor) -> frozenset[int]:
    return frozenset(
        BITS * w + bit for w, word in enumerate(words.tolist()) for bit in range(BITS) if word >> bit & 1
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@settings(max_examples=30)
@given(rows=label_rows())
def test_the_bits_of_words_are_the_labels(dtype: torch.dtype, rows: tuple[int, list[frozenset[int]]]) -> None:
    num_labels, sets = rows
    words = label_words(multi_hot(sets, num_labels).to(dtype))
    assert words.dtype == torch.int64
    assert words.shape == (len(sets), -(-num_labels // BITS))
    assert [set_of(row) for row in words] == sets


@pytest.mark.parametrize("num_labels", WIDTHS)
def test_words_of_all_labels_and_of_each_one_are_exact(num_labels: int) -> None:
    y = torch.cat([torch.eye(num_labels), torch.ones(1, num_labels)])
    everything = frozenset(range(num_labels))
    assert [set_of(row) for row in label_words(y)] == [*({k} for k in range(num_labels)), everything]


@given(label_rows())
def test_the_and_of_two_words_is_the_intersection(rows: tuple[int, list[frozenset[int]]]) -> None:
    num_labels, sets = rows
    words = label_words(multi_hot(sets, num_labels))
    for one, words_of_one in zip(sets, words, strict=True):
        for other, words_of_other in zip(sets, words, strict=True):
            assert set_of(words_of_one & words_of_other) == one & other


@given(label_rows())
def test_rows_get_the_same_number_exactly_where_their_sets_are_equal(
    rows: tuple[int, list[frozenset[int]]],
) -> None:
    num_labels, sets = rows
    numbers = equal_rows(label_words(multi_hot(sets, num_labels))).tolist()
    assert sorted(set(numbers)) == list(range(len(set(sets))))
    assert len(set(zip(numbers, sets, strict=True))) == len(set(sets))


@given(label_rows())
def test_distinct_sets_are_found_with_their_sizes(rows: tuple[int, list[frozenset[int]]]) -> None:
    num_labels, sets = rows
    found = distinct_sets(multi_hot(sets, num_labels))
    of_number = [sets[i] for i in found.first.tolist()]
    assert len(set(of_number)) == len(of_number)
    assert [of_number[number] for number in found.index.tolist()] == sets
    assert dict(zip(of_number, found.sizes.tolist(), strict=True)) == Counter(sets)


def test_sets_that_differ_in_the_last_of_a_thousand_labels_are_distinct() -> None:
    y = torch.ones(3, 1000)
    y[1, -1] = 0
    y[2, 0] = 0
    assert sorted(distinct_sets(y).index.tolist()) == [0, 1, 2]


def test_many_distinct_sets_of_many_labels_keep_their_numbers_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.rand(5000, 200, generator=generator) < 0.5
    y = torch.cat([y, y])
    found = distinct_sets(y)
    assert len(found.sizes) == 5000
    assert found.sizes.eq(2).all()
    assert torch.equal(y[found.first][found.index], y)
