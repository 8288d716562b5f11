"""Files that are read ahead of the network's work."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
_THREADS = 2
_AHEAD = 128


def read_ahead(items: Iterable[Item], work: Callable[[Item], Result]) -> Iterator[Result]:
    """Results of some work on every item, in order, made by threads that are a bounded number of items ahead.

    >>> list(read_ahead([1, 2, 3], lambda n: n * n))
    [1, 4, 9]
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(_THREADS) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
