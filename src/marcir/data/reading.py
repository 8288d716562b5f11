"""Files that are read for the network, a batch at a time."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from os import cpu_count
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def read_batches(items: Iterable[Item], work: Callable[[Item], Result], size: int) -> Iterator[Result]:
    """Results of some work on every item, in order; a batch is read by all processors, then used.

    Reading ahead while the network works would be slower on a processor: the network's threads wait for each
    other, and each would wait for the one that a reader has pushed aside.

    >>> list(read_batches([1, 2, 3], lambda n: n * n, size=2))
    [1, 4, 9]
    """
    remaining = iter(items)
    with ThreadPoolExecutor(cpu_count()) as pool:
        while batch := list(islice(remaining, size)):
            yield from list(pool.map(work, batch))
