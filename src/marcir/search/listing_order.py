"""Orders in which the images of a snapshot are listed. Rows count from 0 in the order of ids."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

SortKey = Literal["id", "date"]
NO_DATE = np.iinfo(np.int32).min


@dataclass(frozen=True)
class Listed:
    """Some of the images that pass a filter, in an order.

    Attributes:
        ids: Their ids.
        total: How many pass the filter.
    """

    ids: tuple[str, ...]
    total: int


class ListingOrder:
    """The rows of a snapshot by id and by date.

    Args:
        days: Days since 1970; `NO_DATE` for rows without a date. (N,)

    >>> order = ListingOrder(np.array([7, NO_DATE, 5, 7], np.int32))
    >>> order.rows(None, "date"), order.rows(None, "date", descending=True)
    (array([2, 0, 3, 1]), array([0, 3, 2, 1]))
    >>> order.rows(np.array([True, True, False, False]), "id", descending=True)
    array([1, 0])
    """

    def __init__(self, days: np.ndarray) -> None:
        self._days = days

    def rows(self, allowed: np.ndarray | None, sort: SortKey, descending: bool = False) -> np.ndarray:
        """Rows in an order; equal dates in the order of ids, rows without a date last in both directions.

        Args:
            allowed: Which rows, bool; all by default. (N,)
            sort: What they are sorted by.
            descending: Whether the largest come first.
        """
        if sort == "date":
            order = self._newest_first if descending else self._oldest_first
            return order if allowed is None else order[allowed[order]]
        rows = np.arange(len(self._days)) if allowed is None else np.flatnonzero(allowed)
        return rows[::-1] if descending else rows

    # Sorting a million dates takes longer than all the rest of a page.
    @cached_property
    def _oldest_first(self) -> np.ndarray:
        return np.argsort(np.where(self._days == NO_DATE, np.iinfo(np.int32).max, self._days), kind="stable")

    @cached_property
    def _newest_first(self) -> np.ndarray:
        return np.argsort(-self._days.astype(np.int64), kind="stable")
