"""Batches that are read in threads."""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marcir.data.prefetch import read_batches


@given(items=st.lists(st.integers(), max_size=20), size=st.integers(1, 7), ahead=st.integers(0, 3))
def test_batches_keep_the_order_whatever_is_read_ahead(items: list[int], size: int, ahead: int) -> None:
    found = list(read_batches(items, lambda n: n + 1, size, ahead))
    assert [n for batch in found for n in batch] == [n + 1 for n in items]
    assert all(len(batch) == size for batch in found[:-1])


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_only_so_many_batches_are_read_ahead(ahead: int) -> None:
    taken = list[int]()

    def items() -> Iterator[int]:
        for n in range(12):
            taken.append(n)
            yield n

    batches = read_batches(items(), lambda n: n, 2, ahead)
    assert next(batches) == [0, 1]
    assert len(taken) == 2 * (ahead + 1)
    batches.close()  # type: ignore[attr-defined]  # a generator


def test_an_error_in_a_thread_reaches_whoever_reads_and_ends_the_threads() -> None:
    def work(n: int) -> int:
        if n == 3:
            raise ValueError("broken")
        return n

    batches = read_batches(range(10), work, 2, ahead=1)
    assert next(batches) == [0, 1]
    with pytest.raises(ValueError, match="broken"):
        next(batches)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read")]
