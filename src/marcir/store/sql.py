"""Filters and ids as conditions: everything that comes from outside is quoted, whatever it holds."""

from collections.abc import Iterable

from marcir.store.records import Filter


def text(value: str) -> str:
    """A value as a literal.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def one_of(column: str, values: Iterable[str]) -> str:
    """That a column has one of some values."""
    return f"{column} IN ({', '.join(map(text, values))})"


def labels_allow(where: Filter | None) -> str | None:
    """What a filter says of labels; None where it says nothing.

    >>> labels_allow(Filter(all=("ship", "dock")))
    "array_has_all(labels, ['ship', 'dock'])"
    """
    if where is None or not where.by_labels:
        return None
    parts = []
    if where.any:
        parts.append(f"array_has_any(labels, {_list(where.any)})")
    if where.all:
        parts.append(f"array_has_all(labels, {_list(where.all)})")
    if where.none:
        parts.append(f"NOT array_has_any(labels, {_list(where.none)})")
    return " AND ".join(parts)


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(map(text, names))}]"
