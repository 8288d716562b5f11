"""A store whose images have the labels of the page beside those of its table."""
# ruff: noqa: D102  (documented in `Store`)

import threading
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from marcir.annotations.annotations import Annotations
from marcir.annotations.label_log import PageLabels, Statement
from marcir.annotations.merge import LabelNames, as_label_states, merged_states
from marcir.errors import StoreError
from marcir.search.embedding_map import EmbeddingMap
from marcir.search.records import LabelStates, Row
from marcir.search.store import RowTable, Snapshot, Store

T = TypeVar("T")


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
        self._lock = threading.Lock()
        self._version = ("", 0)
        self._page: PageLabels = {}
        self._merged: tuple[Snapshot, tuple[str, int], Snapshot] | None = None  # from, version, result
        self._states: dict[str, LabelStates] = {}  # of the images of that snapshot
        self._names: LabelNames | None = None  # of these states

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
        with self._lock:
            changed = self._follow_page()
            if not self._page:
                self._merged = None
                return snapshot
            if self._merged is not None and self._merged[:2] == (snapshot, self._version):
                return self._merged[2]
            before = None if self._merged is None else self._merged[0]
            self._merge(snapshot, changed if before is snapshot else None)
            names = self._names
            assert names is not None  # noqa: S101
            merged = snapshot.with_labels(dict(self._states), names.page)
            self._merged = snapshot, self._version, merged
            return merged

    def _follow_page(self) -> list[str] | None:
        """Bring the statements of the page up to date; returns changed images, None where all may be."""
        before = self._version
        self._version, changes = self.annotations.labels.changes_since(before)
        if self._version[0] != before[0]:  # another file
            self._page, self._names = {}, None
        for image, label, state in changes:
            _apply(self._page, image, label, state)
        return None if self._names is None else [image for image, _, _ in changes]

    def _merge(self, snapshot: Snapshot, changed: Sequence[str] | None) -> None:
        """Merge the labels of the images that changed; of all where the snapshot or the names are others."""
        names = LabelNames.of(snapshot.label_counts(), self._page.values())
        if changed is None or names != self._names:
            changed, self._states = list(self._page), {}
        self._names = names
        ids = list(dict.fromkeys(changed))
        gone = set(snapshot.missing(ids))
        there = [image for image in ids if image not in gone]
        for image in ids:
            self._states.pop(image, None)
        stated = [image for image in there if image in self._page]
        for row in snapshot.look_up_all(stated):
            self._states[row.id] = as_label_states(merged_states(row, self._page[row.id], names))


def _apply(page: PageLabels, image: str, label: str, state: Statement) -> None:
    if state != "cleared":
        page.setdefault(image, {})[label] = state
    elif image in page:
        page[image].pop(label, None)
        if not page[image]:
            del page[image]
