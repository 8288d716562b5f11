"""Embeddings joined with labels, for evaluation."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from marcir.data.label_csv import Unlisted, read_label_table
from marcir.errors import DataError, did_you_mean
from marcir.labels import LabelVocabulary
from marcir.types import Embeddings

Pair = tuple["LabelledEmbeddings", "LabelledEmbeddings | None"]


@dataclass(frozen=True, eq=False)
class LabelledEmbeddings:
    """Embeddings with labels.

    Attributes:
        embeddings: Ids and vectors.
        labels: Multi-hot labels in the same order, -1 for unknown ones. (N, L)
        vocabulary: Names of the labels.
        unlisted: What labels are that the vocabulary does not have.
    """

    embeddings: Embeddings
    labels: Tensor
    vocabulary: LabelVocabulary
    unlisted: Unlisted = "absent"

    @property
    def present(self) -> Tensor:
        """Which labels are present, bool. (N, L)"""
        return self.labels > 0

    def fingerprint(self) -> str:
        """A hash of ids and labels, present and unknown, not of vectors, independent of their order.

        Scores of two models are comparable if it is equal.
        """
        columns = [self.embeddings.ids, map(sorted, self.vocabulary.decode(self.present))]
        if (unknown := self.labels < 0).any():
            columns.append(map(sorted, self.vocabulary.decode(unknown)))
        rows = sorted(zip(*columns, strict=True))
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def read_queries_and_gallery(
    embeddings: str | Path,
    labels: str | Path,
    gallery_embeddings: str | Path | None = None,
    gallery_labels: str | Path | None = None,
    unlisted: Unlisted | None = None,
) -> Pair:
    """Read queries and an optional gallery, both with one common vocabulary.

    `unlisted` holds for both label tables; by default what each of them says itself, else absent.

    Raises:
        DataError: If a label table lacks an id, or if no image shares a label with another.
    """
    queries, gallery = read_labelled(embeddings, labels, unlisted), None
    if gallery_embeddings is not None and gallery_labels is not None:
        gallery = read_labelled(gallery_embeddings, gallery_labels, unlisted)
    queries, gallery = align_vocabularies(queries, gallery)
    _check_shared_labels(queries, gallery)
    return queries, gallery


def read_labelled(
    embeddings: str | Path, labels: str | Path, unlisted: Unlisted | None = None
) -> LabelledEmbeddings:
    """Read vectors and join them with a label table by id; a DataError names an id that it does not have."""
    vectors = Embeddings.load(embeddings)
    file = Path(labels)
    table = read_label_table(file, "\t" if file.suffix in (".tsv", ".txt") else ",", unlisted=unlisted)
    row_of = {row.image: row for row in table.rows}
    for image in vectors.ids:
        if image not in row_of:
            hint = did_you_mean(image, list(row_of)[:2000])
            raise DataError(
                f"{file}: no labels for the id '{image}' of {embeddings}. "
                + (hint if hint.startswith("Did") else "Ids must be those of the table's first column.")
            )
    vocabulary, rows = LabelVocabulary(table.names), [row_of[image] for image in vectors.ids]
    encoded = vocabulary.encode((row.labels for row in rows), unknown=(row.unknown for row in rows))
    return LabelledEmbeddings(vectors, encoded, vocabulary, table.unlisted)


def align_vocabularies(queries: LabelledEmbeddings, gallery: LabelledEmbeddings | None) -> Pair:
    """Bring queries and gallery to one common vocabulary."""
    if gallery is None or queries.vocabulary.names == gallery.vocabulary.names:
        return queries, gallery
    names = LabelVocabulary(sorted({*queries.vocabulary.names, *gallery.vocabulary.names}))
    widened = []
    for images in (queries, gallery):
        others = -1 if images.unlisted == "unknown" else 0
        columns = torch.full((len(images.labels), len(names)), others, dtype=torch.int8, device="cpu")
        columns[:, [names.index_of(name) for name in images.vocabulary.names]] = images.labels.to(torch.int8)
        widened.append(replace(images, labels=columns, vocabulary=names))
    return widened[0], widened[1]


def _check_shared_labels(queries: LabelledEmbeddings, gallery: LabelledEmbeddings | None) -> None:
    if gallery is None:
        if len(queries.labels) > 1 and not (queries.present.sum(0) > 1).any():
            raise DataError("no two images share a label: there is nothing to find. Check the label table.")
    elif not (queries.present.any(0) & gallery.present.any(0)).any():
        raise DataError(
            f"no gallery image shares a label with any query: queries have {_some_labels(queries)}, the "
            f"gallery has {_some_labels(gallery)}. Spell labels alike in both tables."
        )


def _some_labels(images: LabelledEmbeddings) -> str:
    used = images.present.any(0).nonzero().flatten().tolist()
    names = ", ".join(f"'{images.vocabulary[label]}'" for label in used[:3])
    return (names or "none") + (" ..." if len(used) > 3 else "")
