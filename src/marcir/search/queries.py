"""Search an indexed archive: by image, by id, by examples and counter-examples, by labels."""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marcir.data.object_storage import image_path
from marcir.errors import StoreError
from marcir.search.area import Box, centre_of, inner_point
from marcir.search.hits import Hit, file_below, label_shares
from marcir.search.lance import LanceStore
from marcir.search.records import Filter, Row
from marcir.search.store import Snapshot, Store
from marcir.search.stored_model import unpacked_model

if TYPE_CHECKING:
    from marcir.model.model import Model

# Weight of the counter-examples beside the examples (Rocchio).
UNLIKE = 0.5


@dataclass(frozen=True, eq=False)
class Query:
    """What is searched for."""

    vector: np.ndarray  # of any length (D,)
    labels: tuple[str, ...] = ()  # of the query, as far as they are known
    unknown: tuple[str, ...] = ()  # labels of which it is not known whether the query has them
    without: tuple[str, ...] = ()  # ids that are not among the hits: the images of the query itself


# Makes the query of a search from the snapshot that is searched.
QueryMaker = Callable[[Snapshot], Query]


def query_by_id(snapshot: Snapshot, image: str) -> Query:
    """Images like one of the archive."""
    row = snapshot.look_up(image)
    return Query(row.vector, row.labels, row.unknown, (image,))


def query_by_examples(
    snapshot: Snapshot, like: Sequence[str | np.ndarray], unlike: Sequence[str | np.ndarray] = ()
) -> Query:
    """Images like some and unlike others: mean of the examples less half that of the counter-examples.

    Args:
        snapshot: What is searched.
        like: Ids of the archive, and vectors; at least one. (D,)
        unlike: Likewise.
    """
    if not like:
        raise StoreError("a search needs at least one example (--like).")
    known = tuple(each for each in (*like, *unlike) if isinstance(each, str))
    found = dict(zip(known, snapshot.look_up_all(known), strict=True))
    pull, push = (
        [found[each].vector if isinstance(each, str) else each for each in ids] for ids in (like, unlike)
    )
    vector = np.mean(pull, axis=0)
    if push:
        vector = vector - UNLIKE * np.mean(push, axis=0)
    examples = [found[each] for each in like if isinstance(each, str)]
    labels = dict.fromkeys(label for row in examples for label in row.labels)
    unknown = dict.fromkeys(label for row in examples for label in row.unknown if label not in labels)
    return Query(vector, tuple(labels), tuple(unknown), known)


def query_by_place(
    snapshot: Snapshot, longitude: float, latitude: float, where: Filter | None = None
) -> Query:
    """Images like the one that shows a point on the ground.

    Of several, it is the newest one, and of those of one day the one whose centre is nearest.

    Args:
        snapshot: What is searched.
        longitude: In degrees (WGS84).
        latitude: In degrees.
        where: Its dates are those of the query, too.

    Raises:
        StoreError: Where no image shows the point.
    """
    dates = Filter() if where is None else Filter(date_from=where.date_from, date_to=where.date_to)
    at = replace(dates, bbox=(longitude, latitude, longitude, latitude))
    rows = snapshot.describe(snapshot.ids(at))
    if not rows:
        when = " on these dates" if dates.by_place_or_date else ""
        raise StoreError(f"no image of the store shows {longitude:g},{latitude:g}{when}.")

    def preference(row: Row) -> tuple[int, float, str]:
        days = 0 if row.date is None else row.date.toordinal()
        return -days, _distance(row.bbox, longitude, latitude), row.id

    return query_by_id(snapshot, min(rows, key=preference).id)


def _distance(bbox: Box | None, longitude: float, latitude: float) -> float:
    """From a point to the centre of a box, in degrees of latitude."""
    if bbox is None:
        return math.inf
    middle, height = centre_of(bbox)
    across = (longitude - middle + 180) % 360 - 180
    return math.hypot(across * math.cos(math.radians(latitude)), latitude - height)


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        hits: Images, best first.
        root: Folder that the ids are relative to, or `s3://bucket/prefix`.
        query_labels: Labels of the query, as far as they are known.
        query_unknown: Labels of which it is not known whether the query has them.
        total: Number of images that pass the filter, without those of the query and whatever their
            similarity; None where they are too many to be counted.
        query_images: Ids of images that the query consists of; they are not among the hits.
    """

    hits: tuple[Hit, ...]
    root: str
    query_labels: tuple[str, ...] = ()
    total: int | None = None
    query_unknown: tuple[str, ...] = ()
    query_images: tuple[str, ...] = ()

    @property
    def label_shares(self) -> dict[str, float]:
        """The share of the hits that have each label; the most common first."""
        return label_shares(self.hits)

    def as_json(self) -> dict[str, Any]:
        """Hits with their paths, best first, the shares of labels among them, and the images of the query.

        The path of a window is that of its scene; None in a STAC catalog, where ids are not paths.
        """
        hits = [{**hit.as_json(), "path": self._path(hit)} for hit in self.hits]
        return {"hits": hits, "label_shares": self.label_shares, "query_images": list(self.query_images)}

    def _path(self, hit: Hit) -> str | None:
        file = file_below(self.root, hit.id, hit.metadata)
        return None if file is None else str(image_path(self.root) / file)

    def __str__(self) -> str:
        if not self.hits:
            return "nothing found"
        width = max(len(hit.id) for hit in self.hits)
        places = [_place_text(hit) for hit in self.hits]
        across = max(map(len, places))
        lines = [
            f"{rank:4}  {hit.similarity:6.3f}  {hit.id:{width}}  {place:{across}}{_labels_text(hit)}"
            for rank, (hit, place) in enumerate(zip(self.hits, places, strict=True), 1)
        ]
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in self.label_shares.items())
        return "\n".join([*lines, f"labels among the hits: {shares or 'none'}"])


def _place_text(hit: Hit) -> str:
    """Date and a point of a hit, as `--at` takes it; empty where neither is known."""
    point = "" if hit.bbox is None else "{:.5f},{:.5f}".format(*inner_point(hit.bbox, hit.footprint))
    known = [text for text in (hit.date and hit.date.isoformat(), point) if text]
    return "  ".join([*known, ""])


def _labels_text(hit: Hit) -> str:
    """The labels of a hit; unknown ones may be very many and are only counted."""
    labels = ", ".join(hit.labels) or "-"
    return f"{labels} ({len(hit.unknown)} unknown)" if hit.unknown else labels


class SearchableArchive:
    """A store and the model that made its vectors; threads may share it.

    Args:
        store: An opened store.
        device: Where its model runs.
    """

    def __init__(self, store: Store, device: str = "auto") -> None:
        self.store, self._device = store, device
        self._model: Model | None = None
        self._loading = threading.Lock()

    @property
    def model(self) -> "Model":
        """The model that was copied into the store; loaded when it is first needed."""
        with self._loading:
            if self._model is None:
                self._model = unpacked_model(self.store, self._device)
            return self._model

    def by_image(self, image: Any, k: int = 10, where: Filter | None = None) -> SearchResult:
        """Images like a file, a PIL image or an array."""
        return self.by_vector(self.model.embed([image])[0], k, where)

    def by_vector(
        self, vector: np.ndarray, k: int = 10, where: Filter | None = None, offset: int = 0
    ) -> SearchResult:
        """Images near a vector. (D,)"""
        return self.search(lambda _: Query(vector), k, where, offset)

    def by_id(self, image: str, k: int = 10, where: Filter | None = None, offset: int = 0) -> SearchResult:
        """Images like one of the archive, by its id; it is not among the hits."""
        return self.search(lambda snapshot: query_by_id(snapshot, image), k, where, offset)

    def by_place(
        self, longitude: float, latitude: float, k: int = 10, where: Filter | None = None, offset: int = 0
    ) -> SearchResult:
        """Images like the one that shows a point on the ground, see `query_by_place`."""
        return self.search(lambda here: query_by_place(here, longitude, latitude, where), k, where, offset)

    def by_examples(
        self,
        like: Sequence[Any],
        unlike: Sequence[Any] = (),
        k: int = 10,
        where: Filter | None = None,
        offset: int = 0,
    ) -> SearchResult:
        """Images like some and unlike others: mean of the examples less half that of the counter-examples.

        Args:
            like: Ids of the archive, files, PIL images or arrays; at least one.
            unlike: Likewise.
            k: Number of hits.
            where: Which images may be found.
            offset: Number of the best images that are skipped: the next page.
        """
        pull, push = [self._example(each) for each in like], [self._example(each) for each in unlike]
        return self.search(lambda snapshot: query_by_examples(snapshot, pull, push), k, where, offset)

    def by_labels(
        self,
        labels: Sequence[str],
        k: int = 10,
        where: Filter | None = None,
        labels_from: "SearchableArchive | None" = None,
        offset: int = 0,
    ) -> SearchResult:
        """Images near the centroid of those that have all of the labels, in this archive or in another.

        Args:
            labels: Label names.
            k: Number of hits.
            where: Which images may be found.
            labels_from: A labelled archive of the same model, to search an unlabelled one with.
            offset: Number of the best images that are skipped.
        """
        if labels_from is None:
            return self.search(lambda here: Query(here.centroid(labels), tuple(labels)), k, where, offset)
        source = labels_from.store
        if source.about.model != self.store.about.model:
            raise StoreError(
                f"{source.uri} holds vectors of another model than {self.store.uri}: index both with one."
            )
        query = Query(source.centroid(labels), tuple(labels))
        return self.search(lambda _: query, k, where, offset)

    def search(
        self, query: QueryMaker, k: int = 10, where: Filter | None = None, offset: int = 0
    ) -> SearchResult:
        """The nearest images of a query, which is made from the same snapshot as they are."""

        def find(snapshot: Snapshot) -> SearchResult:
            made = query(snapshot)
            given = where or Filter()
            allowed = replace(given, without=(*given.without, *made.without))
            (found,) = snapshot.search(np.asarray(made.vector)[None], k, allowed, offset)
            rows = snapshot.describe([each.id for each in found])
            hits = tuple(
                Hit.from_row(row, each.similarity, made.labels, made.unknown)
                for row, each in zip(rows, found, strict=True)
            )
            counted = snapshot.exact or not (allowed.by_labels or allowed.by_place_or_date)
            total = snapshot.count(allowed) if counted else None
            return SearchResult(hits, self.store.about.root, made.labels, total, made.unknown, made.without)

        return self.store.read(find)

    def _example(self, example: Any) -> str | np.ndarray:
        """An example as an id of the archive, or as a vector."""
        if not isinstance(example, str) or Path(example).is_file():
            vector: np.ndarray = self.model.embed([example])[0]
            return vector
        try:
            self.store.look_up(example)
        except StoreError as error:
            raise StoreError(f"'{example}' is no file, and {error}") from None
        return example


def open_store(
    uri: str | Path, approximate: bool = False, resident: bool = False, device: str = "auto"
) -> SearchableArchive:
    """Open an indexed archive: a folder, or `s3://bucket/path`.

    >>> store = open_store("archive.store")  # doctest: +SKIP
    >>> print(store.by_image("query.jpg", k=5, where=Filter(any=("ship",))))  # doctest: +SKIP

    Args:
        uri: Where it is.
        approximate: Use the approximate index even where the vectors fit into memory.
        resident: For a process that answers many searches, see `LanceStore`.
        device: Where its model runs, once an image must be embedded.

    Raises:
        StoreError: Where there is no such store.
    """
    return SearchableArchive(LanceStore(uri, approximate, resident), device)
