"""A store in memory: the reference that all other stores are tested against."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from marcir.search.exact import ExactSearch
from marcir.search.missing import missing
from marcir.search.records import About, Row, check_rows
from marcir.search.store import OptionalField, Snapshot, Store

T = TypeVar("T")


class MemoryStore(Store):
    """All rows in memory, searched exactly.

    Args:
        about: What it holds.
        model: The files of the model that made the vectors, by name.
    """

    def __init__(self, about: About, model: Mapping[str, bytes] | None = None) -> None:
        self.uri, self.about = "memory", about
        self._model = dict(model or {})
        self._rows: dict[str, Row] = {}

    def read(self, work: Callable[[Snapshot], T]) -> T:
        """The result of `work` on the rows."""
        return work(self._snapshot)

    def add(self, rows: Sequence[Row]) -> None:
        """Add images; an image whose id is there already is replaced."""
        check_rows(rows, self.about.dim)
        self._rows |= {row.id: row for row in rows}
        self.__dict__.pop("_snapshot", None)

    def delete(self, ids: Sequence[str]) -> int:
        """Remove images; returns how many there were."""
        found = [image for image in dict.fromkeys(ids) if self._rows.pop(image, None) is not None]
        self.__dict__.pop("_snapshot", None)
        return len(found)

    def get(self, ids: Sequence[str]) -> list[Row]:
        """Complete images, in the order of their ids."""
        for image in ids:
            if image not in self._rows:
                raise missing(image, sorted(self._rows))
        return [self._rows[image] for image in ids]

    def describe(self, ids: Sequence[str]) -> list[Row]:
        """Images in the order of their ids, without vector and thumbnail."""
        return [replace(row, vector=np.zeros(0, np.float32), thumbnail=b"") for row in self.get(ids)]

    def knows(self, what: OptionalField) -> bool:
        """Whether any image has a bounding box, or a date."""
        return any(getattr(row, what) is not None for row in self._rows.values())

    def thumbnail(self, image: str) -> bytes:
        """The JPEG of one image."""
        return self.get([image])[0].thumbnail

    def contents(self) -> dict[str, str]:
        """Fingerprint of the file of every image, by id."""
        return {image: row.content for image, row in self._rows.items()}

    def model_files(self) -> dict[str, bytes]:
        """The files of the model that made the vectors."""
        return dict(self._model)

    def optimize(self) -> None:
        """Nothing to do."""

    def search_method(self) -> str:
        """How vectors are searched."""
        return "exactly, in memory"

    @cached_property
    def _snapshot(self) -> ExactSearch:
        rows = [self._rows[image] for image in sorted(self._rows)]
        vectors = np.zeros((len(rows), self.about.dim), dtype=np.float32)
        for place, row in enumerate(rows):
            vectors[place] = row.vector
        return ExactSearch([row.id for row in rows], vectors, [row.labels for row in rows], self)
