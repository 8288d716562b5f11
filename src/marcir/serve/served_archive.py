"""The archive of the service: builds the responses of requests; runs in worker threads."""

import base64
import binascii
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import quote

import numpy as np
from fastapi import Response

from marcir import __version__
from marcir.errors import StoreError
from marcir.search.hits import Hit, as_csv, as_geojson, label_shares
from marcir.search.lance import PAGED
from marcir.search.queries import Query, QueryMaker, SearchableArchive, query_by_examples, query_by_id
from marcir.search.store import Snapshot
from marcir.serve import schemas
from marcir.serve.errors import RequestError
from marcir.serve.parameters import FilterParameters, PageParameters, SampleParameters, SearchParameters
from marcir.serve.request_log import RequestNotes
from marcir.serve.settings import MAX_RESULTS, MAX_UPLOAD_BYTES

_Kind = Literal["id", "vector", "examples", "labels"]
# How hits are exported: function, media type, file name.
_EXPORTS: dict[str, tuple[Callable[[Sequence[Hit]], bytes], str, str]] = {
    "csv": (as_csv, "text/csv; charset=utf-8", "marcir-search.csv"),
    "geojson": (as_geojson, "application/geo+json", "marcir-search.geojson"),
}


class ServedArchive:
    """An opened, resident store as the service shows it, with or without files; threads may share it."""

    def __init__(self, archive: SearchableArchive, has_originals: bool) -> None:
        self.archive, self.store, self.has_originals = archive, archive.store, has_originals

    def health(self) -> schemas.HealthResponse:
        """That the store can be read."""
        return schemas.HealthResponse(status="ok", images=self.store.count(), model=self.store.about.model)

    def about(self) -> schemas.ArchiveResponse:
        """What the archive holds."""

        def describe(snapshot: Snapshot) -> schemas.ArchiveResponse:
            return schemas.ArchiveResponse(
                name=PurePosixPath(self.store.uri).name,
                images=snapshot.count(),
                labels=schemas.LabelCount.most_common(snapshot.label_counts(), snapshot.unknown_counts()),
                dim=self.store.about.dim,
                model=self.store.about.model,
                version=__version__,
                has_bbox=snapshot.knows("bbox"),
                has_originals=self.has_originals,
                dates=snapshot.knows("date"),
                max_upload_bytes=MAX_UPLOAD_BYTES,
                max_results=_max_results(snapshot),
            )

        return self.store.read(describe)

    def labels(self, parameters: FilterParameters) -> schemas.LabelsResponse:
        """Labels of the images that pass a filter."""
        where = parameters.filter
        return self.store.read(
            lambda snapshot: schemas.LabelsResponse(
                images=snapshot.count(where),
                labels=schemas.LabelCount.most_common(
                    snapshot.label_counts(where), snapshot.unknown_counts(where)
                ),
            )
        )

    def sample(self, parameters: SampleParameters) -> schemas.SampleResponse:
        """Random images."""
        where = parameters.filter

        def draw(snapshot: Snapshot) -> schemas.SampleResponse:
            rows = snapshot.describe(snapshot.sample(parameters.limit, parameters.seed, where))
            hits = [schemas.HitResponse.from_hit(Hit.from_row(row)) for row in rows]
            return schemas.SampleResponse(hits=hits, total=snapshot.count(where))

        return self.store.read(draw)

    def image(self, image: str) -> schemas.ImageResponse:
        """One image."""
        (row,) = self.store.describe([image])
        url = f"/api/original?id={quote(image, safe='')}"
        original = schemas.OriginalResponse(url=url) if self.has_originals else None
        return schemas.ImageResponse.from_hit(Hit.from_row(row), original=original)

    def search(self, parameters: SearchParameters, notes: RequestNotes) -> schemas.SearchResponse | Response:
        """A page of hits."""
        kind, query = self._query(parameters)
        return self._page(parameters, kind, query, notes)

    def search_vector(
        self, vector: np.ndarray, parameters: PageParameters, notes: RequestNotes
    ) -> schemas.SearchResponse | Response:
        """A page of hits of an uploaded image. (D,)"""
        return self._page(parameters, "vector", lambda _: Query(vector), notes)

    def _query(self, parameters: SearchParameters) -> tuple[_Kind, QueryMaker]:
        if (image := parameters.id) is not None:
            return "id", lambda snapshot: query_by_id(snapshot, image)
        if parameters.vector is not None:
            vector = decode_vector(parameters.vector, self.store.about.dim)
            return "vector", lambda _: Query(vector)
        if labels := parameters.label:
            return "labels", lambda snapshot: Query(snapshot.centroid(labels), tuple(labels))
        like = [self._example(each) for each in parameters.like]
        unlike = [self._example(each) for each in parameters.unlike]
        return "examples", lambda snapshot: query_by_examples(snapshot, like, unlike)

    def _example(self, text: str) -> str | np.ndarray:
        kind, colon, value = text.partition(":")
        if kind == "vector" and colon:
            return decode_vector(value, self.store.about.dim)
        if kind == "id" and value:
            return value
        raise StoreError(f"'{text[:80]}': an example is id:ID or vector:VECTOR.")

    def _page(
        self, parameters: PageParameters, kind: _Kind, query: QueryMaker, notes: RequestNotes
    ) -> schemas.SearchResponse | Response:
        offset, limit, most = parameters.offset, parameters.limit, _max_results(self.store)
        if offset + limit > most:
            raise RequestError(
                422,
                f"offset + limit = {offset + limit}: at most {most} can be asked for. "
                "Narrow the search with a filter.",
            )
        with notes.timed("search"):
            # One more than is shown: is there another page?
            result = self.archive.search(query, limit + 1, parameters.filter, offset)
        hits = result.hits[:limit]
        notes.hits = len(hits)
        if parameters.format in _EXPORTS:
            write, media_type, name = _EXPORTS[parameters.format]
            headers = {"Content-Disposition": f'attachment; filename="{name}"'}
            return Response(write(hits), media_type=media_type, headers=headers)
        return schemas.SearchResponse(
            hits=[schemas.HitResponse.from_hit(hit) for hit in hits],
            offset=offset,
            limit=limit,
            total=result.total,
            more=len(result.hits) > limit and offset + limit < most,
            query=schemas.QueryResponse(
                kind=kind, labels=list(result.query_labels), unknown=list(result.query_unknown)
            ),
            label_shares=label_shares(hits),
        )


def _max_results(snapshot: Snapshot) -> int:
    """Largest offset + limit."""
    return MAX_RESULTS if snapshot.exact else PAGED - 1


def encode_vector(vector: np.ndarray) -> str:
    """A vector as text for URLs: little-endian 32-bit floats in URL-safe base64. (D,)

    >>> encode_vector(np.array([1, 0], "f4"))
    'AACAPwAAAAA'
    """
    return base64.urlsafe_b64encode(np.asarray(vector, "<f4").tobytes()).decode().rstrip("=")


def decode_vector(text: str, dim: int) -> np.ndarray:
    """The vector in a text. (D,)

    Raises:
        StoreError: Where it is not a vector of this length with a direction.

    >>> decode_vector("AACAPwAAAAA", 2)
    array([1., 0.], dtype=float32)
    """
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError):
        content = b""
    vector = np.frombuffer(content, "<f4") if len(content) == 4 * dim else np.zeros(0, np.float32)
    if not len(vector) or not np.isfinite(vector).all() or not vector.any():
        raise StoreError(
            f"vector: not a vector of {dim} numbers as /api/embed gives it. Upload the image again."
        )
    return vector.astype(np.float32)
