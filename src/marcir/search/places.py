"""Where and when the rows of a table were taken, as filters need it."""

import datetime
from functools import cached_property

import numpy as np

from marcir.errors import needs
from marcir.search.area import Area, Box, box_wkb, enclosing_box, parts_of
from marcir.search.area_grid import grid_of
from marcir.search.records import Filter

with needs("store"):
    import pyarrow as pa
    import pyarrow.compute as pc

    from marcir.search.arrow import CORNERS, FOOTPRINT

_EPOCH = datetime.date(1970, 1, 1)
# Rows from which on a grid over an area is faster than to test each footprint.
_MANY = 10_000
# Rows whose boxes are compared at a time: they stay in the processor's cache.
_BLOCK = 2**16


class PlaceIndex:
    """Bounding boxes, footprints and dates of rows.

    Args:
        table: Its columns `CORNERS`, `date` and `FOOTPRINT`.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @cached_property
    def corners(self) -> np.ndarray:
        """West, south, east and north; nan for rows without a place. (4, N)"""
        return np.stack([_numbers(self._table[corner]) for corner in CORNERS])

    @cached_property
    def days(self) -> np.ndarray:
        """Days since 1970; the smallest number for rows without a date. (N,)"""
        days = self._table["date"].cast(pa.int32())
        return np.asarray(pc.fill_null(days, np.iinfo(np.int32).min))

    def mask(self, where: Filter) -> np.ndarray:
        """Rows that pass the filters by place and date, bool. (N,)"""
        mask = np.ones(self._table.num_rows, dtype=bool)
        if where.date_from is not None or where.date_to is not None:
            first = _day(where.date_from) if where.date_from else np.iinfo(np.int32).min + 1
            last = _day(where.date_to) if where.date_to else np.iinfo(np.int32).max
            mask &= (self.days >= first) & (self.days <= last)
        if where.bbox is not None:
            mask &= self._in_box(where.bbox, mask)
        if where.within is not None:
            mask &= self._in_area(where.within, mask)
        return mask

    def extent(self) -> Box | None:
        """The smallest box around all rows; None where no row has a place."""
        return enclosing_box(self.corners[:, ~np.isnan(self.corners[0])].T)

    def dates(self) -> tuple[datetime.date | None, datetime.date | None]:
        """The first and the last date."""
        found = pc.min_max(self._table["date"]).as_py()
        return found["min"], found["max"]

    def _in_box(self, box: Box, mask: np.ndarray) -> np.ndarray:
        """Rows of a mask whose footprint, or else box, has a point in common with a box. (N,)"""
        parts = parts_of(box)
        near, inside = np.zeros_like(mask), np.zeros_like(mask)
        for start in range(0, len(mask), _BLOCK):
            block = slice(start, start + _BLOCK)
            near[block] = mask[block] & self._near(parts, block)
            inside[block] = self._inside(parts, block)
        # A row is certain if its own box is inside, or if it has nothing but its box.
        rows = np.flatnonzero(near & ~inside & self._has_footprint)
        if len(rows):
            near[rows] = Area(box_wkb(box), tuple(parts)).touches(self._geometries(rows))
        return near

    def _in_area(self, area: Area, mask: np.ndarray) -> np.ndarray:
        """Rows of a mask whose footprint, or else box, has a point in common with an area. (N,)"""
        near: np.ndarray = mask & self._near(list(area.boxes))
        rows = np.flatnonzero(near)
        if len(rows) > _MANY:
            rows = rows[self._unplaced(rows, area, near)]
        if len(rows):
            near[rows] = area.touches(self._geometries(rows))
        return near

    def _unplaced(self, rows: np.ndarray, area: Area, near: np.ndarray) -> np.ndarray:
        """Which rows a grid over an area cannot decide; those outside of it leave a mask. (M,)"""
        corners = self.corners[:, rows]
        inside, outside = grid_of(area).place(corners)
        whole = corners[0] <= corners[2]  # not across the date line
        near[rows[whole & outside]] = False
        unplaced: np.ndarray = ~(whole & (inside | outside))
        return unplaced

    def _near(self, boxes: list[Box], rows: slice = slice(None)) -> np.ndarray:
        """Rows whose box has a point in common with one of the boxes, which have west <= east. (M,)"""
        west, south, east, north = self.corners[:, rows]
        found = np.zeros(len(west), dtype=bool)
        for w, s, e, n in boxes:
            across = (west <= e) & (east >= w)
            if self._any_crosses:
                across = np.where(west > east, (west <= e) | (east >= w), across)
            found |= across & (south <= n) & (north >= s)
        return found

    def _inside(self, boxes: list[Box], rows: slice) -> np.ndarray:
        """Rows whose box is certainly inside one of the boxes, which have west <= east. (M,)"""
        west, south, east, north = self.corners[:, rows]
        found = np.zeros(len(west), dtype=bool)
        for w, s, e, n in boxes:
            found |= (west >= w) & (east <= e) & (south >= s) & (north <= n)
        return found & (west <= east) if self._any_crosses else found

    @cached_property
    def _any_crosses(self) -> bool:
        """Whether a box is across the date line."""
        return bool((self.corners[0] > self.corners[2]).any())

    @cached_property
    def _has_footprint(self) -> np.ndarray:
        return np.asarray(pc.is_valid(self._table[FOOTPRINT]))

    def _geometries(self, rows: np.ndarray) -> np.ndarray:
        """Footprints of rows as WKB; boxes where there are none. (M,)"""
        found = self._table[FOOTPRINT].take(pa.array(rows)).to_pylist()
        boxes = self.corners[:, rows].T.tolist()
        return np.array([wkb or box_wkb(tuple(box)) for wkb, box in zip(found, boxes, strict=True)], object)


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(pc.fill_null(column, np.nan), dtype=np.float64)


def _day(date: datetime.date) -> int:
    return (date - _EPOCH).days
