"""Images that are read for the network, a batch at a time, in threads."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from os import cpu_count
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def read_batches(
    items: Iterable[Item], work: Callable[[Item], Result], size: int, ahead: int = 0
) -> Iterator[list[Result]]:
    """Results of some work on every item, in order, in batches.

    Threads, not processes: decoding and resizing release the interpreter's lock, and a fork is not safe
    beside a store that is open.

    Args:
        items: What to read.
        work: Reads one of them.
        size: Items of a batch.
        ahead: Batches that are read while the network works on one. On a CPU it should be 0: the threads of
            the network wait for each other, and each would wait for the one that a reader has pushed aside.

    >>> list(read_batches([1, 2, 3], lambda n: n * n, size=2))
    [[1, 4], [9]]
    """
    pool = ThreadPoolExecutor(cpu_count(), "read")
    try:
        reading = deque[list[Future[Result]]]()
        for batch in in_batches(items, size):
            reading.append([pool.submit(work, item) for item in batch])
            if len(reading) > ahead:
                yield [each.result() for each in reading.popleft()]
        while reading:
            yield [each.result() for each in reading.popleft()]
    finally:
        pool.shutdown(cancel_futures=True)


def in_batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Items in lists of one size; the last one may be shorter.

    >>> list(in_batches("abc", 2))
    [['a', 'b'], ['c']]
    """
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch
