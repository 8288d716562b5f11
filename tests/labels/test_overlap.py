"""Jaccard overlap and shared labels against Python sets."""

from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from marcir.errors import LabelError
from marcir.labels import jaccard, shared_labels

DTYPES = [torch.bool, torch.uint8, torch.int64, torch.float32, torch.float64]


@st.composite
def two_sides(draw: st.DrawFn) -> tuple[int, list[set[int]], list[set[int]]]:
    """A number of labels up to 1000, and the label sets of two sides."""
    num_labels = draw(st.one_of(st.integers(1, 6), st.sampled_from([17, 43, 1000])))
    sets = st.lists(st.sets(st.integers(0, num_labels - 1), max_size=40), max_size=6)
    return num_labels, draw(sets), draw(sets)


def multi_hot(sets: list[set[int]], num_labels: int) -> Tensor:
    y = torch.zeros(len(sets), num_labels, dtype=torch.bool)
    for i, labels in enumerate(sets):
        y[i, sorted(labels)] = True
    return y


def overlap(one: set[int], other: set[int]) -> Fraction:
    return Fraction(len(one & other), len(one | other)) if one | other else Fraction(0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@settings(max_examples=30)
@given(sides=two_sides())
def test_shared_labels_are_those_in_both_sets(
    dtype: torch.dtype, sides: tuple[int, list[set[int]], list[set[int]]]
) -> None:
    num_labels, ours, theirs = sides
    r = shared_labels(multi_hot(ours, num_labels).to(dtype), multi_hot(theirs, num_labels))
    assert r.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert r.shape == (len(ours), len(theirs))
    assert r.tolist() == [[len(one & other) for other in theirs] for one in ours]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@settings(max_examples=30)
@given(sides=two_sides())
def test_jaccard_is_the_shared_part_of_the_union(
    dtype: torch.dtype, sides: tuple[int, list[set[int]], list[set[int]]]
) -> None:
    num_labels, ours, theirs = sides
    J = jaccard(multi_hot(ours, num_labels).to(dtype), multi_hot(theirs, num_labels).to(dtype))
    expected = torch.tensor([[float(overlap(a, b)) for b in theirs] for a in ours], dtype=torch.float64)
    # The nearest number of the dtype: one division of whole numbers is rounded once.
    assert torch.equal(J, expected.reshape(len(ours), len(theirs)).to(J.dtype))


@given(two_sides())
def test_jaccard_is_symmetric(sides: tuple[int, list[set[int]], list[set[int]]]) -> None:
    num_labels, ours, theirs = sides
    y, y_other = multi_hot(ours, num_labels), multi_hot(theirs, num_labels)
    assert torch.equal(jaccard(y, y_other), jaccard(y_other, y).T)


@pytest.mark.parametrize("num_labels", [1, 3, 17, 1000])
def test_equal_sets_overlap_by_exactly_one_and_empty_ones_by_zero(num_labels: int) -> None:
    y = torch.ones(num_labels, num_labels).tril()
    assert jaccard(y, y.clone()).diagonal().eq(1).all()
    assert jaccard(torch.zeros(1, num_labels), torch.zeros(1, num_labels)).item() == 0
    assert jaccard(torch.zeros(1, num_labels), y).eq(0).all()


def test_only_equal_sets_overlap_by_one_even_among_a_thousand_labels() -> None:
    y = torch.ones(2, 1000)
    y[1, 0] = 0
    assert jaccard(y, y).tolist() == [[1, pytest.approx(0.999)], [pytest.approx(0.999), 1]]
    assert (jaccard(y, y) == 1).sum() == 2


@pytest.mark.parametrize("function", [jaccard, shared_labels])
@pytest.mark.parametrize(
    ("bad", "found"),
    [
        (torch.tensor([[0, 2]]), "found 2 in row 0, column 1"),
        (torch.tensor([[0.5, 1]]), "found 0.5 in row 0, column 0"),
        (torch.tensor([[1, torch.nan]]), "found nan in row 0, column 1"),
        (torch.tensor([1, 0]), "expected multi-hot labels \\(N, L\\), found \\(2,\\)"),
    ],
)
def test_what_is_no_label_is_refused_on_either_side(
    function: Callable[[Tensor, Tensor], Tensor], bad: Tensor, found: str
) -> None:
    good = torch.tensor([[1, 0]])
    with pytest.raises(LabelError, match=f"^y: .*{found}"):
        function(bad, good)
    with pytest.raises(LabelError, match=f"^y_other: .*{found}"):
        function(good, bad)
