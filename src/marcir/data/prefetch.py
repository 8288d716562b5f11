"""Read batches in threads, ahead of their use."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from marcir.processes import processors

Item = TypeVar("Item")
Result = TypeVar("Result")


def read_batches(
    items: Iterable[Item],
    work: Callable[[Item], Result],
    size: int,
    ahead: int = 2,
    threads: int | None = None,
) -> Iterator[list[Result]]:
    """Apply a function to every item in threads; yield the results in order, in batches.

    Threads, not processes: decoding and resizing release the GIL, and forking is not safe while a store is
    open.

    Args:
        items: The items to read.
        work: Reads one item.
        size: Items per batch.
        ahead: Batches to read in advance.
        threads: Number of threads; None for one per processor.

    >>> list(read_batches([1, 2, 3], lambda n: n * n, size=2))
    [[1, 4], [9]]
    """
    pool = ThreadPoolExecutor(threads or processors(), "read")
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
