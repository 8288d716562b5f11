"""Filters as conditions in SQL."""

from collections.abc import Iterable

from marcir.search.area import Box, parts_of
from marcir.search.arrow import UNKNOWN
from marcir.search.records import Filter

# Ids that one condition names: LanceDB reads 100,000 in seconds.
IDS_PER_QUERY = 500


def one_of(column: str, values: Iterable[str]) -> str:
    """The condition that a column has one of some values."""
    return f"{column} IN ({texts(values)})"


def condition_of(where: Filter | None, has_unknown: bool = False) -> str | None:
    """The condition of a filter on labels, ids, boxes and dates; None where it has none.

    Args:
        where: The filter.
        has_unknown: Whether the table has the column of unknown labels.

    >>> condition_of(Filter(all=("ship", "dock")))
    "array_has_all(labels, ['ship', 'dock'])"
    >>> condition_of(Filter(without=("it's.png",)))
    "NOT id IN ('it''s.png')"
    >>> condition_of(Filter(among=("a.png", "b.png"))), condition_of(Filter(among=()))
    ("id IN ('a.png', 'b.png')", 'false')
    >>> condition_of(Filter(none=("ship",), none_unknown_ok=True))
    "(labels IS NULL OR NOT array_has_any(labels, ['ship']))"
    >>> condition_of(Filter(none=("ship",)))
    "labels IS NOT NULL AND NOT array_has_any(labels, ['ship'])"
    """
    if where is None:
        return None
    parts = []
    if where.any:
        parts.append(f"array_has_any(labels, [{texts(where.any)}])")
    if where.all:
        parts.append(f"array_has_all(labels, [{texts(where.all)}])")
    if where.none:
        # `labels` is null where an image is not labelled.
        absent = f"NOT array_has_any(labels, [{texts(where.none)}])"
        if where.none_unknown_ok:
            parts.append(f"(labels IS NULL OR {absent})")
        else:
            parts += ["labels IS NOT NULL", absent]
            if has_unknown:
                unknown = f"array_has_any({UNKNOWN}, [{texts(where.none)}])"
                parts.append(f"({UNKNOWN} IS NULL OR NOT {unknown})")
    if where.among is not None:
        parts.append(one_of("id", where.among) if where.among else "false")
    if where.without:
        parts.append(f"NOT {one_of('id', where.without)}")
    if where.bbox is not None:
        parts.append(_near(parts_of(where.bbox)))
    if where.within is not None:
        parts.append(_near(where.within.boxes))
    if where.date_from is not None:
        parts.append(f"date >= DATE '{where.date_from}'")
    if where.date_to is not None:
        parts.append(f"date <= DATE '{where.date_to}'")
    return " AND ".join(parts) or None


def _near(boxes: Iterable[Box]) -> str:
    """The condition that a row's box has a point in common with one of the boxes, which have west <= east."""
    parts = [
        f"(south <= {n!r} AND north >= {s!r} AND ((west <= {e!r} AND east >= {w!r}) "
        f"OR (west > east AND (west <= {e!r} OR east >= {w!r}))))"
        for w, s, e, n in boxes
    ]
    return f"({' OR '.join(parts)})"


def texts(values: Iterable[str]) -> str:
    """Values as string literals of SQL, quoted whatever they contain."""
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values)
