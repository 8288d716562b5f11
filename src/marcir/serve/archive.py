"""The archive behind the service: what requests ask, done in threads."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np

from marcir import __version__
from marcir.errors import MissingImageError, StoreError
from marcir.search.lance import PAGED
from marcir.search.queries import Answer, SearchableArchive
from marcir.search.records import Filter, Row
from marcir.serve.errors import Refusal
from marcir.serve.parameters import PageParameters, SampleParameters, SearchParameters, Where
from marcir.serve.settings import MAX_RESULTS, MAX_UPLOAD_BYTES
from marcir.serve.vectors import decode_vector

# Search of one kind: (k, where, offset) -> Answer.
Way = Callable[[int, Filter, int], Answer]
Found = TypeVar("Found")
# Times that something is looked up anew because the store has changed meanwhile.
_TRIES = 3


class ServedArchive:
    """An archive as the service shows it; threads may share it.

    Args:
        archive: An opened, resident store.
        has_originals: Whether files are shown.
    """

    def __init__(self, archive: SearchableArchive, has_originals: bool) -> None:
        self.archive, self.store, self.has_originals = archive, archive.store, has_originals

    @property
    def max_results(self) -> int:
        """The deepest place of a hit that can be asked for."""
        return MAX_RESULTS if self.store.matrix is not None else PAGED - 1

    def health(self) -> dict[str, Any]:
        """That the store can be read."""
        return {"status": "ok", "images": self.store.count(), "model": self.store.about.model}

    def about(self) -> dict[str, Any]:
        """What the archive holds."""
        return {
            "name": PurePosixPath(self.store.uri).name,
            "images": self.store.count(),
            "labels": by_count(self.store.label_counts()),
            "dim": self.store.about.dim,
            "model": self.store.about.model,
            "version": __version__,
            "has_bbox": self.store.knows("bbox"),
            "has_originals": self.has_originals,
            "dates": self.store.knows("date"),
            "max_upload_bytes": MAX_UPLOAD_BYTES,
            "max_results": self.max_results,
        }

    def labels(self, where: Where) -> dict[str, Any]:
        """Labels among the images that a filter lets through."""
        return self._steady(
            lambda: {
                "images": self.store.count(where.filter),
                "labels": by_count(self.store.label_counts(where.filter)),
            }
        )

    def sample(self, asked: SampleParameters) -> dict[str, Any]:
        """Some images."""
        drawn, total = self._steady(
            lambda: (
                self.store.describe(self.store.sample(asked.limit, asked.seed, asked.filter)),
                self.store.count(asked.filter),
            )
        )
        return {"hits": [hit(row) for row in drawn], "total": total}

    def image(self, image: str) -> dict[str, Any]:
        """One image."""
        (row,) = self.store.describe([image])
        original = {"url": f"/api/original?id={quote(image, safe='')}"} if self.has_originals else None
        return {**hit(row), "original": original}

    def search(self, asked: SearchParameters, times: dict[str, float]) -> dict[str, Any]:
        """A page of hits."""
        kind, way, examples = self._way(asked)
        return self._page(asked, kind, way, examples, times)

    def search_vector(
        self, vector: np.ndarray, asked: PageParameters, times: dict[str, float]
    ) -> dict[str, Any]:
        """A page of hits of an uploaded image. (D,)"""

        def near(k: int, where: Filter, offset: int) -> Answer:
            return self.archive.by_vector(vector, k, where, offset=offset)

        return self._page(asked, "vector", near, (), times)

    def _way(self, asked: SearchParameters) -> tuple[str, Way, Sequence[str]]:
        archive = self.archive
        if asked.id is not None:
            image = asked.id
            return "id", lambda k, where, offset: archive.by_id(image, k, where, offset), [image]
        if asked.vector is not None:
            vector = decode_vector(asked.vector, self.store.about.dim)
            return "vector", lambda k, where, offset: archive.by_vector(vector, k, where, offset=offset), []
        if asked.label:
            names = asked.label
            return "labels", lambda k, where, offset: archive.by_labels(names, k, where, offset=offset), []
        like, unlike = (
            [self._reference(each) for each in asked.like],
            [self._reference(each) for each in asked.unlike],
        )
        known = [each for each in (*like, *unlike) if isinstance(each, str)]
        return (
            "examples",
            lambda k, where, offset: archive.by_references(like, unlike, k, where, offset),
            known,
        )

    def _reference(self, text: str) -> str | np.ndarray:
        kind, colon, value = text.partition(":")
        if kind == "vector" and colon:
            return decode_vector(value, self.store.about.dim)
        if kind == "id" and value:
            return value
        raise StoreError(f"'{text[:80]}': an example is id:ID or vector:VECTOR.")

    def _page(
        self, asked: PageParameters, kind: str, way: Way, examples: Sequence[str], times: dict[str, float]
    ) -> dict[str, Any]:
        deepest = self.max_results
        if asked.offset + asked.limit > deepest:
            raise Refusal(
                422,
                f"offset + limit = {asked.offset + asked.limit}: at most {deepest} can be asked for. "
                "Narrow the search with a filter.",
            )

        def find() -> tuple[Answer, int | None]:
            start = time.perf_counter()
            # One more than is shown tells whether there is another page.
            found = way(asked.limit + 1, asked.filter, asked.offset)
            times["search"] = time.perf_counter() - start
            return found, self._total(asked.filter, examples)

        found, total = self._steady(find)
        rows = found.rows[: asked.limit]
        hits = [
            hit(row, place.similarity, found.query_labels)
            for row, place in zip(rows, found.hits, strict=False)
        ]
        end = asked.offset + len(rows)
        return {
            "hits": hits,
            "offset": asked.offset,
            "limit": asked.limit,
            "total": total,
            "more": len(found.hits) > asked.limit and end < deepest,
            "query": {"kind": kind, "labels": list(found.query_labels)},
            "label_shares": shares(rows),
        }

    def _steady(self, work: Callable[[], Found]) -> Found:
        """Some work on one state of the store; done again where that has changed meanwhile."""
        for _ in range(_TRIES):
            before = self.store.matrix
            try:
                found = work()
            except MissingImageError:
                if self.store.matrix is before:
                    raise
            else:
                if self.store.matrix is before:
                    return found
        return work()

    def _total(self, where: Filter, examples: Sequence[str]) -> int | None:
        if self.store.matrix is None and where.by_labels:
            return None
        return self.store.count(replace(where, without=tuple(examples)))


def hit(row: Row, similarity: float | None = None, query_labels: Sequence[str] = ()) -> dict[str, Any]:
    """An image as the service shows it."""
    wanted = set(query_labels)
    return {
        "id": row.id,
        "similarity": similarity,
        "labels": list(row.labels),
        "shared": [label for label in row.labels if label in wanted],
        "agreement": len(wanted & set(row.labels)) / len(wanted | set(row.labels)) if wanted else None,
        "width": row.width,
        "height": row.height,
        "bbox": row.bbox,
        "date": None if row.date is None else row.date.isoformat(),
        "metadata": dict(row.metadata),
        "thumbnail": f"/api/thumbnail?id={quote(row.id, safe='')}",
    }


def shares(rows: Sequence[Row]) -> dict[str, float]:
    """Of some rows, the share that carries each label; the most common first."""
    counts = Counter(label for row in rows for label in row.labels)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {label: count / len(rows) for label, count in ordered}


def by_count(counts: dict[str, int]) -> list[dict[str, Any]]:
    """Labels, the most common first.

    >>> by_count({"a": 1, "b": 2})
    [{'name': 'b', 'count': 2}, {'name': 'a', 'count': 1}]
    """
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"name": name, "count": count} for name, count in ordered]
