"""A store whose images have the labels of the page beside those of its table."""
# ruff: noqa: D102  (documented in `Store`)

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from marcir.annotations.annotations import Annotations
from marcir.annotations.label_log import LogVersion, PageLabels, Statement
from marcir.annotations.merge import LabelNames, as_label_states, merged_states, rows_with_labels
from marcir.errors import StoreError
from marcir.search.embedding_map import EmbeddingMap
from marcir.search.records import LabelStates, Row
from marcir.search.store import RowTable, Snapshot, Store

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class _Merged:
    """A snapshot with the labels of the page; never changed.

    Attributes:
        snapshot: With the labels of the table.
        version: Of the labels of the page.
        page: What the page states.
        names: The labels of both.
        states: Merged labels of the images of the snapshot of which the page states something.
        result: The snapshot with these labels.
    """

    snapshot: Snapshot
    version: LogVersion
    page: PageLabels
    names: LabelNames
    states: dict[str, LabelStates]
    result: Snapshot


class AnnotatedStore(Store):
    """Reads a store with merged labels: in rows, in counts and in filters; threads may share it.

    Changes of annotations are seen by the next read, also those of other processes. The store itself is
    never changed through it.

    Args:
        store: The store.
        annotations: What people said about its images.
    """

    def __init__(self, store: Store, annotations: Annotations) -> None:
        self.uri, self.about = store.uri, store.about
        self.plain, self.annotations = store, annotations
        self._merging = threading.Lock()
        self._merged: _Merged | None = None

    def read(self, work: Callable[[Snapshot], T]) -> T:
        return self.plain.read(lambda snapshot: work(self._with_page(snapshot)))

    def read_table(self, work: Callable[[RowTable], T]) -> T:
        """All rows, with the labels of the table alone."""
        return self.plain.read_table(work)

    def get(self, ids: Sequence[str]) -> list[Row]:
        return self.plain.get(ids)

    def thumbnail(self, image: str) -> bytes:
        return self.plain.thumbnail(image)

    def contents(self) -> dict[str, str]:
        return self.plain.contents()

    def model_files(self) -> dict[str, bytes]:
        return self.plain.model_files()

    def read_map(self) -> EmbeddingMap | None:
        return self.plain.read_map()

    def write_map(self, found: EmbeddingMap) -> NoReturn:
        raise StoreError(f"{self.uri}: opened for reading.")

    def search_method(self) -> str:
        return self.plain.search_method()

    def add(self, rows: Sequence[Row]) -> NoReturn:
        raise StoreError(f"{self.uri}: opened for reading.")

    def delete(self, ids: Sequence[str]) -> NoReturn:
        raise StoreError(f"{self.uri}: opened for reading.")

    def optimize(self) -> NoReturn:
        raise StoreError(f"{self.uri}: opened for reading.")

    def _with_page(self, snapshot: Snapshot) -> Snapshot:
        merged, version = self._merged, self.annotations.labels.version()
        if merged is None or merged.snapshot is not snapshot or merged.version != version:
            with self._merging:  # for those that need it; the others read on
                merged = self._merged = self._follow(snapshot, self._merged)
        return merged.result

    def _follow(self, snapshot: Snapshot, before: _Merged | None) -> _Merged:
        """Merge a snapshot with the page as it is now; an error leaves `before` as it was."""
        version, restarted, changes = self.annotations.labels.changes_since(
            LogVersion() if before is None else before.version
        )
        page = {} if before is None or restarted else dict(before.page)
        for image, label, state in changes:
            _apply(page, image, label, state)
        if not page:
            return _Merged(snapshot, version, {}, LabelNames((), ()), {}, snapshot)
        if before is None or before.snapshot is not snapshot or not before.page:
            before, table = None, tuple(snapshot.label_counts())
        else:
            table = before.names.table
        names = LabelNames.of(table, page.values())
        if before is not None and before.names == names and not restarted:
            changed = {image for image, _, _ in changes}
            states = {image: of for image, of in before.states.items() if image not in changed}
            states |= _merge(snapshot, [image for image in changed if image in page], page, names)
        else:
            states = _merge(snapshot, list(page), page, names)
        return _Merged(snapshot, version, page, names, states, snapshot.with_labels(states, names.page))


def _merge(
    snapshot: Snapshot, images: Sequence[str], page: PageLabels, names: LabelNames
) -> dict[str, LabelStates]:
    """Merged labels of those of some images that are in the store."""
    gone = set(snapshot.missing(images))
    there = [image for image in images if image not in gone]
    return {
        row.id: as_label_states(merged_states(row, page[row.id], names))
        for row in rows_with_labels(snapshot, there)
    }


def _apply(page: PageLabels, image: str, label: str, state: Statement) -> None:
    """Note a statement; earlier pages keep the dictionary that an image has there."""
    states = {name: known for name, known in page.get(image, {}).items() if name != label}
    if state != "cleared":
        states[label] = state
    if states:
        page[image] = states
    else:
        page.pop(image, None)
