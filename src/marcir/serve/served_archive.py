"""The archive of the service: builds the responses of requests; runs in worker threads."""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
from fastapi import Response

from marcir import __version__
from marcir.annotations.annotated_store import AnnotatedStore
from marcir.errors import StoreError
from marcir.search.area import parse_point
from marcir.search.geoparquet import as_geoparquet
from marcir.search.hits import Hit, as_csv, as_geojson, label_shares
from marcir.search.lance import PAGED
from marcir.search.queries import (
    Query,
    QueryMaker,
    SearchableArchive,
    query_by_examples,
    query_by_id,
    query_by_place,
)
from marcir.search.records import Filter
from marcir.search.store import Snapshot
from marcir.serve import schemas
from marcir.serve.basemap import Basemap
from marcir.serve.browse_parameters import ListParameters
from marcir.serve.browse_schemas import ListResponse
from marcir.serve.errors import RequestError
from marcir.serve.parameters import FilterParameters, PageParameters, SampleParameters, SearchParameters
from marcir.serve.request_log import RequestNotes
from marcir.serve.settings import MAX_COLLECTION_EXAMPLES, MAX_RESULTS, MAX_UPLOAD_BYTES

if TYPE_CHECKING:
    from marcir.serve.scenes import ServedScenes

# How hits are exported: function, media type, file name.
_EXPORTS: dict[str, tuple[Callable[[Sequence[Hit]], bytes], str, str]] = {
    "csv": (as_csv, "text/csv; charset=utf-8", "marcir-search.csv"),
    "geojson": (as_geojson, "application/geo+json", "marcir-search.geojson"),
    "geoparquet": (as_geoparquet, "application/vnd.apache.parquet", "hits.parquet"),
}


class ServedArchive:
    """An opened, resident store as the service shows it, with or without files; threads may share it."""

    def __init__(
        self,
        store: AnnotatedStore,
        has_originals: bool,
        scenes: "ServedScenes | None" = None,
        basemap: Basemap | None = None,
        device: str = "auto",
    ) -> None:
        self.store, self.annotations = store, store.annotations
        self.archive = SearchableArchive(store, device)
        self.has_originals, self._scenes, self._basemap = has_originals, scenes, basemap

    def where(self, parameters: FilterParameters) -> Filter:
        """The filter of some parameters, with that by a collection."""
        if (name := parameters.collection) is None:
            return parameters.filter
        return replace(parameters.filter, among=tuple(self.annotations.collections.images(name)))

    def health(self) -> schemas.HealthResponse:
        """That the store can be read."""
        return schemas.HealthResponse(status="ok", images=self.store.count(), model=self.store.about.model)

    def about(self) -> schemas.ArchiveResponse:
        """What the archive holds."""
        has_map = self.store.read_map() is not None
        table_labels = self.store.plain.read(lambda snapshot: snapshot.label_counts())

        def describe(snapshot: Snapshot) -> schemas.ArchiveResponse:
            extent, labels = snapshot.extent(), snapshot.label_counts()
            return schemas.ArchiveResponse(
                name=PurePosixPath(self.store.uri).name,
                images=snapshot.count(),
                labels=schemas.LabelCount.most_common(labels, snapshot.unknown_counts()),
                page_labels=sorted(set(labels) - set(table_labels)),
                dim=self.store.about.dim,
                model=self.store.about.model,
                version=__version__,
                has_bbox=snapshot.knows("bbox"),
                has_originals=self.has_originals,
                editable=self.annotations.writable,
                dates=snapshot.knows("date"),
                extent=extent.bbox,
                first_date=None if extent.first is None else extent.first.isoformat(),
                last_date=None if extent.last is None else extent.last.isoformat(),
                basemap=None if self._basemap is None else self._basemap.url,
                max_upload_bytes=MAX_UPLOAD_BYTES,
                max_results=_max_results(snapshot),
                has_map=has_map,
            )

        return self.store.read(describe)

    def labels(self, parameters: FilterParameters) -> schemas.LabelsResponse:
        """Labels of the images that pass a filter."""
        where = self.where(parameters)
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
        where = self.where(parameters)

        def draw(snapshot: Snapshot) -> schemas.SampleResponse:
            rows = snapshot.describe(snapshot.sample(parameters.limit, parameters.seed, where))
            hits = [schemas.HitResponse.from_hit(Hit.from_row(row)) for row in rows]
            return schemas.SampleResponse(hits=hits, total=snapshot.count(where))

        return self.store.read(draw)

    def images(self, parameters: ListParameters) -> ListResponse:
        """A page of all images that pass a filter."""
        if (sort := parameters.sort) == "similarity":
            raise RequestError(
                422, "sort=similarity: needs a query. Ask /api/search with id, vector, like or label."
            )
        offset, limit, where = parameters.offset, parameters.limit, self.where(parameters)

        def read(snapshot: Snapshot) -> ListResponse:
            listed = snapshot.page(offset, limit, where, sort, parameters.order == "desc")
            hits = [Hit.from_row(row) for row in snapshot.describe(listed.ids)]
            return ListResponse(
                hits=[schemas.HitResponse.from_hit(hit) for hit in hits],
                offset=offset,
                limit=limit,
                total=listed.total,
                more=offset + limit < listed.total,
            )

        return self.store.read(read)

    def image(self, image: str) -> schemas.ImageResponse:
        """One image."""
        (row,) = self.store.describe([image])
        url = f"/api/original?id={quote(image, safe='')}"
        original = schemas.OriginalResponse(url=url) if self.has_originals else None
        (plain,) = self.store.plain.describe([image])
        return schemas.ImageResponse.from_hit(
            Hit.from_row(row),
            original=original,
            scene=None if self._scenes is None else self._scenes.describe(image),
            page_labels=self.annotations.labels.states([image]).get(image, {}),
            table_labels=schemas.TableLabels(
                labels=list(plain.labels), unknown=list(plain.unknown), labelled=plain.labelled
            ),
        )

    def search(self, parameters: SearchParameters, notes: RequestNotes) -> schemas.SearchResponse | Response:
        """A page of hits."""
        kind, query = self._query(parameters)
        return self._page(parameters, kind, query, notes)

    def search_vector(
        self, vector: np.ndarray, parameters: PageParameters, notes: RequestNotes
    ) -> schemas.SearchResponse | Response:
        """A page of hits of an uploaded image. (D,)"""
        return self._page(parameters, "vector", lambda _: Query(vector), notes)

    def _query(self, parameters: SearchParameters) -> tuple[schemas.QueryKind, QueryMaker]:
        if (image := parameters.id) is not None:
            return "id", lambda snapshot: query_by_id(snapshot, image)
        if parameters.vector is not None:
            vector = decode_vector(parameters.vector, self.store.about.dim)
            return "vector", lambda _: Query(vector)
        if labels := parameters.label:
            return "labels", lambda snapshot: Query(snapshot.centroid(labels), tuple(labels))
        if parameters.at is not None:
            longitude, latitude = parse_point(parameters.at)
            where = parameters.filter
            return "place", lambda snapshot: query_by_place(snapshot, longitude, latitude, where)
        like = [each for text in parameters.like for each in self._examples(text)]
        unlike = [each for text in parameters.unlike for each in self._examples(text)]
        return "examples", lambda snapshot: query_by_examples(snapshot, like, unlike)

    def _examples(self, text: str) -> list[str | np.ndarray]:
        kind, _, name = text.partition(":")
        if kind != "collection" or not name:
            return [self._example(text)]
        images = self.annotations.collections.images(name)
        gone = set(self.store.missing(images))
        known: list[str | np.ndarray] = [image for image in images if image not in gone]
        if not known:
            raise StoreError(f"collection '{name}': none of its images is in the store. Add some.")
        if len(known) > MAX_COLLECTION_EXAMPLES:
            raise StoreError(
                f"collection '{name}': {len(known):,} images, and at most {MAX_COLLECTION_EXAMPLES:,} can be "
                "examples. Use a part of them."
            )
        return known

    def _example(self, text: str) -> str | np.ndarray:
        kind, colon, value = text.partition(":")
        if kind == "vector" and colon:
            return decode_vector(value, self.store.about.dim)
        if kind == "id" and value:
            return value
        raise StoreError(f"'{text[:80]}': an example is id:ID, vector:VECTOR or collection:NAME.")

    def _page(
        self, parameters: PageParameters, kind: schemas.QueryKind, query: QueryMaker, notes: RequestNotes
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
            result = self.archive.search(query, limit + 1, self.where(parameters), offset)
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
                kind=kind,
                images=list(result.query_images),
                labels=list(result.query_labels),
                unknown=list(result.query_unknown),
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
