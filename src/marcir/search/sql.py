"""Filters and ids as SQL conditions; every value is quoted, whatever it contains."""

from collections.abc import Iterable

from marcir.search.records import Filter


def text(value: str) -> str:
    """A value as a string literal.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def one_of(column: str, values: Iterable[str]) -> str:
    """The condition that a column has one of some values."""
    return f"{column} IN ({', '.join(map(text, values))})"


def condition_of(where: Filter | None) -> str | None:
    """The condition of a filter on labels and ids; None where it has none.

    >>> condition_of(Filter(all=("ship", "dock")))
    "array_has_all(labels, ['ship', 'dock'])"
    >>> condition_of(Filter(without=("it's.png",)))
    "NOT id IN ('it''s.png')"
    """
    if where is None:
        return None
    parts = []
    if where.any:
        parts.append(f"array_has_any(labels, {_list(where.any)})")
    if where.all:
        parts.append(f"array_has_all(labels, {_list(where.all)})")
    if where.none:
        parts.append(f"NOT array_has_any(labels, {_list(where.none)})")
    if where.without:
        parts.append(f"NOT {one_of('id', where.without)}")
    return " AND ".join(parts) or None


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(map(text, names))}]"
