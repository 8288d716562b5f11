"""The labels of the archive's table and those that the page states, merged.

- What a person stated on the page wins, label by label: present, absent or unknown.
- Where the page is silent on a label, the state of the table applies: the store has it.
- An image that no table names is not labelled: all labels of the table are unknown for it, not absent.
- Labels that only the page has are unknown where the page is silent.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from marcir.annotations.label_log import PageLabels
from marcir.data.label_csv import LabelRow, LabelTable, State
from marcir.search.records import LabelStates, Row
from marcir.search.store import Snapshot

# Rows of a store that are read at a time.
_ROWS = 10_000
# Of a label table with a first line that says what is not listed, and a header.
_FIRST_LINE = 3


@dataclass(frozen=True)
class LabelNames:
    """The labels of a store.

    Attributes:
        table: Names of the archive's table.
        page: Names that only the page has.
    """

    table: tuple[str, ...]
    page: tuple[str, ...]

    @classmethod
    def of(cls, table: Iterable[str], page: Iterable[Mapping[str, State]]) -> "LabelNames":
        """Names of the table, and those that the page states of any image."""
        known = set(table)
        stated = {name for states in page for name in states}
        return cls(tuple(sorted(known)), tuple(sorted(stated - known)))

    @property
    def all(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted((*self.table, *self.page)))


def merged_states(row: Row, page: Mapping[str, State], names: LabelNames) -> dict[str, State]:
    """The state of every label of an image, by the rules of this module.

    >>> import numpy as np
    >>> row = Row("a.png", np.zeros(0), ("ship",))
    >>> merged_states(row, {"ship": "absent"}, LabelNames(("dock", "ship"), ("barn",)))
    {'barn': 'unknown', 'dock': 'absent', 'ship': 'absent'}
    """
    present, unknown = set(row.labels), set(row.unknown)
    silent: State = "absent" if row.labelled else "unknown"
    table: dict[str, State] = {
        name: "present" if name in present else "unknown" if name in unknown else silent
        for name in names.table
    }
    merged: dict[str, State] = {**table, **dict.fromkeys(names.page, "unknown"), **page}
    return {name: merged[name] for name in names.all}


def as_label_states(states: Mapping[str, State]) -> LabelStates:
    """Present and unknown labels of an image, as a store has them."""
    return LabelStates(
        tuple(name for name, state in states.items() if state == "present"),
        tuple(name for name, state in states.items() if state == "unknown"),
    )


def merged_table(snapshot: Snapshot, page: PageLabels, with_table: bool = True) -> LabelTable:
    """The merged labels of all images of a store of which any label is known, as a label table.

    All others are unknown for every label: the table does not list them, and what it does not list is
    unknown.

    Args:
        snapshot: What the store holds, with the labels of its table.
        page: What the page states.
        with_table: Merge it with the labels of the archive's table.
    """
    names = LabelNames.of(snapshot.label_counts() if with_table else (), page.values())
    rows: list[LabelRow] = []
    for row in rows_with_labels(snapshot, snapshot.ids()):
        states = merged_states(row, page.get(row.id, {}), names)
        if any(state != "unknown" for state in states.values()):
            present, unknown = as_label_states(states)
            rows.append(LabelRow(row.id, present, len(rows) + _FIRST_LINE, unknown))
    return LabelTable(rows, names.all, "unknown", True)


def rows_with_labels(snapshot: Snapshot, ids: Sequence[str]) -> Iterator[Row]:
    """Images with their labels; other parts of them may be left out."""
    for start in range(0, len(ids), _ROWS):
        part = ids[start : start + _ROWS]
        # In memory, labels are found without all that describes an image.
        yield from snapshot.look_up_all(part) if snapshot.exact else snapshot.describe(part)
