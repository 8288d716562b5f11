"""Search an indexed archive: by image, by id, by examples and counter-examples, by labels."""

import secrets
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from marcir.checks import whole
from marcir.errors import StoreError
from marcir.files import cache_outside, reason
from marcir.stages.index import fingerprint_of_model
from marcir.stages.model import Model, load_model
from marcir.store.lance import LanceStore
from marcir.store.records import Filter, Hit, Row

# How much a counter-example pushes, beside what an example pulls (Rocchio).
UNLIKE = 0.5
# Times that a search is done while others remove what it finds.
_TRIES = 5


@dataclass(frozen=True, eq=False)
class Answer:
    """What a search found.

    Attributes:
        hits: Images, best first.
        rows: All that is known of them, in the same order.
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
    """A store and the model that its vectors are of.

    Args:
        store: An opened store.
    """

    def __init__(self, store: LanceStore) -> None:
        self.store = store

    @cached_property
    def model(self) -> Model:
        """The model that was copied into the store."""
        return unpacked_model(self.store)

    def by_image(self, image: Any, k: int = 10, where: Filter | None = None) -> Answer:
        """Images like a file, a PIL image or an array."""
        return self.by_vector(self.model.embed([image])[0], k, where)

    def by_id(self, image: str, k: int = 10, where: Filter | None = None) -> Answer:
        """Images like one of the archive, which is not among the hits."""
        (row,) = self.store.get([image])
        return self.by_vector(row.vector, k, where, without=[image], query_labels=row.labels)

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
        if not like:
            raise StoreError("a search needs at least one example (--like).")
        pull, push = [self._vector(each) for each in like], [self._vector(each) for each in unlike]
        vector = np.mean([each for each, _ in pull], axis=0)
        if push:
            vector = vector - UNLIKE * np.mean([each for each, _ in push], axis=0)
        known = [image for _, image in (*pull, *push) if image is not None]
        return self.by_vector(vector, k, where, without=known)

    def by_labels(
        self,
        labels: Sequence[str],
        k: int = 10,
        where: Filter | None = None,
        labels_from: "SearchableArchive | None" = None,
    ) -> Answer:
        """Images near the centre of those that carry all of the labels, in this archive or in another.

        Args:
            labels: Label names.
            k: How many.
            where: Which may be found.
            labels_from: A labelled archive of the same model, to search an unlabelled one with.
        """
        source = labels_from or self
        if source.store.about.model != self.store.about.model:
            raise StoreError(
                f"{source.store.uri} holds vectors of another model than {self.store.uri}: index both "
                "with one."
            )
        return self.by_vector(source.store.centroid(labels), k, where, query_labels=tuple(labels))

    def by_vector(
        self,
        vector: np.ndarray,
        k: int = 10,
        where: Filter | None = None,
        *,
        without: Sequence[str] = (),
        query_labels: tuple[str, ...] = (),
    ) -> Answer:
        """Images near a vector. (D,)"""
        whole("k", k, 1)
        for left in reversed(range(_TRIES)):
            (found,) = self.store.search(np.asarray(vector)[None], k + len(without), where)
            hits = tuple(hit for hit in found if hit.id not in without)[:k]
            try:
                rows = tuple(self.store.get([hit.id for hit in hits]))
                break
            except StoreError:  # somebody removed one of them in between
                if not left:
                    raise
        return Answer(hits, rows, self.store.about.root, query_labels)

    def _vector(self, example: Any) -> tuple[np.ndarray, str | None]:
        """The vector of an example, and its id where it is of the archive."""
        if isinstance(example, str) and not Path(example).is_file():
            try:
                (row,) = self.store.get([example])
            except StoreError as error:
                raise StoreError(f"'{example}' is no file, and {error}") from None
            return row.vector, example
        vector: np.ndarray = self.model.embed([example])[0]
        return vector, None


def open_store(uri: str | Path, approximate: bool = False) -> SearchableArchive:
    """Open an indexed archive: a folder, or `s3://bucket/path`.

    Raises:
        StoreError: Where there is no such store.
    """
    return SearchableArchive(LanceStore(uri, approximate))


def unpacked_model(store: LanceStore) -> Model:
    """The store's model, unpacked into the cache once.

    Raises:
        StoreError: Where its files are not those that the vectors were made with.
    """
    folder = cache_outside(Path(store.about.root)) / "models" / store.about.model
    if not folder.exists():
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
    return load_model(folder)
