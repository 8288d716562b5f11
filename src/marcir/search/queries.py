"""Search an indexed archive: by image, by id, by examples and counter-examples, by labels."""

import secrets
import shutil
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marcir.errors import ConfigError, MissingImageError, StoreError
from marcir.files import cache_outside, reason
from marcir.search.lance import LanceStore
from marcir.search.records import Filter, Hit, Row

if TYPE_CHECKING:
    from marcir.model.model import Model

# How much a counter-example pushes, beside what an example pulls (Rocchio).
UNLIKE = 0.5
# Times that a search is done while others remove what it finds.
_TRIES = 5


@dataclass(frozen=True, eq=False)
class Answer:
    """What a search found.

    Attributes:
        hits: Images, best first.
        rows: What is known of them, in the same order; without vectors and thumbnails, which are large
            (`store.get` has them).
        root: The folder that ids start from.
        query_labels: Labels of the query, where it is in the store.
    """

    hits: tuple[Hit, ...]
    rows: tuple[Row, ...]
    root: str
    query_labels: tuple[str, ...] = ()

    @property
    def label_shares(self) -> dict[str, float]:
        """Of the hits, the share that carries each label; the most common first."""
        counts = Counter(label for hit in self.hits for label in hit.labels)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return {label: count / len(self.hits) for label, count in ordered}

    def as_json(self) -> dict[str, Any]:
        """Hits, best first, and the shares of labels among them."""
        hits = [
            {
                "id": hit.id,
                "similarity": hit.similarity,
                "labels": list(hit.labels),
                "path": str(Path(self.root) / hit.id),
                "width": row.width,
                "height": row.height,
                "bbox": row.bbox,
                "date": None if row.date is None else row.date.isoformat(),
                "metadata": dict(row.metadata),
            }
            for hit, row in zip(self.hits, self.rows, strict=True)
        ]
        return {"hits": hits, "label_shares": self.label_shares}

    def __str__(self) -> str:
        if not self.hits:
            return "nothing found"
        width = max(len(hit.id) for hit in self.hits)
        lines = [
            f"{place:4}  {hit.similarity:6.3f}  {hit.id:{width}}  {', '.join(hit.labels) or '-'}"
            for place, hit in enumerate(self.hits, 1)
        ]
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in self.label_shares.items())
        return "\n".join([*lines, f"labels among the hits: {shares or 'none'}"])


class SearchableArchive:
    """A store and the model that its vectors are of; threads may share it.

    Args:
        store: An opened store.
    """

    def __init__(self, store: LanceStore) -> None:
        self.store = store
        self._model: Model | None = None
        self._loading = threading.Lock()

    @property
    def model(self) -> "Model":
        """The model that was copied into the store; loaded when it is first needed."""
        with self._loading:
            if self._model is None:
                self._model = unpacked_model(self.store)
            return self._model

    def by_image(self, image: Any, k: int = 10, where: Filter | None = None) -> Answer:
        """Images like a file, a PIL image or an array."""
        return self.by_vector(self.model.embed([image])[0], k, where)

    def by_id(self, image: str, k: int = 10, where: Filter | None = None, offset: int = 0) -> Answer:
        """Images like one of the archive, which is not among the hits.

        Args:
            image: Its id.
            k: How many.
            where: Which may be found.
            offset: Of the best, how many are passed over: the next page.
        """
        vector, labels = self.store.look_up(image)
        return self.by_vector(vector, k, where, without=[image], query_labels=labels, offset=offset)

    def by_examples(
        self,
        like: Sequence[Any],
        unlike: Sequence[Any] = (),
        k: int = 10,
        where: Filter | None = None,
    ) -> Answer:
        """Images like some and unlike others: mean of the examples less half that of the counter-examples.

        Args:
            like: Ids of the archive, files, PIL images or arrays; at least one.
            unlike: Likewise.
            k: How many.
            where: Which may be found.
        """
        pull, push = [self._example(each) for each in like], [self._example(each) for each in unlike]
        return self.by_references(pull, push, k, where)

    def by_references(
        self,
        like: Sequence[str | np.ndarray],
        unlike: Sequence[str | np.ndarray] = (),
        k: int = 10,
        where: Filter | None = None,
        offset: int = 0,
    ) -> Answer:
        """As `by_examples`, of ids and vectors alone: a text is never taken for the name of a file.

        Args:
            like: Ids of the archive, and vectors; at least one. (D,)
            unlike: Likewise.
            k: How many.
            where: Which may be found.
            offset: Of the best, how many are passed over.
        """
        if not like:
            raise StoreError("a search needs at least one example (--like).")
        pull, push = [self._vector(each) for each in like], [self._vector(each) for each in unlike]
        vector = np.mean([each for each, _ in pull], axis=0)
        if push:
            vector = vector - UNLIKE * np.mean([each for each, _ in push], axis=0)
        labels = dict.fromkeys(label for _, names in pull for label in names)
        known = [each for each in (*like, *unlike) if isinstance(each, str)]
        return self.by_vector(vector, k, where, without=known, query_labels=tuple(labels), offset=offset)

    def by_labels(
        self,
        labels: Sequence[str],
        k: int = 10,
        where: Filter | None = None,
        labels_from: "SearchableArchive | None" = None,
        offset: int = 0,
    ) -> Answer:
        """Images near the centre of those that carry all of the labels, in this archive or in another.

        Args:
            labels: Label names.
            k: How many.
            where: Which may be found.
            labels_from: A labelled archive of the same model, to search an unlabelled one with.
            offset: Of the best, how many are passed over.
        """
        source = labels_from or self
        if source.store.about.model != self.store.about.model:
            raise StoreError(
                f"{source.store.uri} holds vectors of another model than {self.store.uri}: index both "
                "with one."
            )
        centre = source.store.centroid(labels)
        return self.by_vector(centre, k, where, query_labels=tuple(labels), offset=offset)

    def by_vector(
        self,
        vector: np.ndarray,
        k: int = 10,
        where: Filter | None = None,
        *,
        without: Sequence[str] = (),
        query_labels: tuple[str, ...] = (),
        offset: int = 0,
    ) -> Answer:
        """Images near a vector. (D,)"""
        where = replace(where or Filter(), without=tuple(without))
        for left in reversed(range(_TRIES)):
            (hits,) = self.store.search(np.asarray(vector)[None], k, where, offset)
            try:
                rows = tuple(self.store.describe([hit.id for hit in hits]))
                break
            except MissingImageError:  # somebody removed one of them in between
                if not left:
                    raise
                self.store.refresh()
        return Answer(tuple(hits), rows, self.store.about.root, query_labels)

    def _vector(self, reference: str | np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
        """Vector and labels of an example."""
        return self.store.look_up(reference) if isinstance(reference, str) else (reference, ())

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


def open_store(uri: str | Path, approximate: bool = False, resident: bool = False) -> SearchableArchive:
    """Open an indexed archive: a folder, or `s3://bucket/path`.

    Args:
        uri: Where it is.
        approximate: Use the approximate index even where the vectors fit into memory.
        resident: For a process that answers many questions, see `LanceStore`.

    Raises:
        StoreError: Where there is no such store.
    """
    return SearchableArchive(LanceStore(uri, approximate, resident))


def unpacked_model(store: LanceStore, device: str = "auto") -> "Model":
    """The store's model, unpacked into the cache once.

    Raises:
        StoreError: Where its files are not those that the vectors were made with, and where the cache cannot
            be used.
    """
    from marcir.model.model import load_model
    from marcir.search.index import fingerprint_of_model  # they import timm, which most searches do without

    try:
        folder = cache_outside(Path(store.about.root)) / "models" / store.about.model
        there = folder.is_dir()
    except (OSError, RuntimeError) as error:  # a folder that cannot be entered, and no home folder
        raise StoreError(
            f"the cache for the store's model cannot be used ({reason(error)}). "
            "Set MARCIR_CACHE to a folder that can be written."
        ) from error
    if not there:
        files = store.model_files()
        if fingerprint_of_model(files) != store.about.model:
            raise StoreError(
                f"{store.uri}: the model in the store is not the one that its vectors were made with."
            )
        temporary = folder.with_name(f".{secrets.token_hex(8)}.part")
        try:
            temporary.mkdir(parents=True)
            for name, content in files.items():
                (temporary / Path(name).name).write_bytes(content)
            temporary.rename(folder)
        except OSError as error:
            if not folder.is_dir():  # another process was first, otherwise
                raise StoreError(
                    f"{folder}: the store's model cannot be unpacked ({reason(error)}). "
                    "Set MARCIR_CACHE to a folder that can be written."
                ) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    try:
        return load_model(folder, device)
    except ConfigError as error:
        raise StoreError(
            f"{error} This is the copy of the store's model in the cache: remove it, or set MARCIR_CACHE to "
            "another folder."
        ) from error
