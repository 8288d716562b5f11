"""Score embeddings from any model against the labels, beside chance and ceiling."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marcir.catalog import METRICS, resolve
from marcir.checks import check_int, check_seed
from marcir.errors import BatchError, LabelError
from marcir.labels.sets import multi_hot
from marcir.metrics import references
from marcir.metrics.accumulators import Column, ColumnValues, LabelPrecision, Observer, observe
from marcir.metrics.ranking import PAIRS, ranked_blocks, unit_vectors
from marcir.metrics.relevance import Judge
from marcir.metrics.scores import LabelScores, Scores
from marcir.metrics.variants import Variants
from marcir.progress import track


def retrieval_scores(
    embeddings: Tensor | np.ndarray,
    labels: Tensor | np.ndarray,
    *,
    gallery_embeddings: Tensor | np.ndarray | None = None,
    gallery_labels: Tensor | np.ndarray | None = None,
    ids: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
    training_counts: Sequence[int] | None = None,
    variants: Mapping[str, str] | Variants | None = None,
    per_label: bool = True,
    observers: Sequence[Observer] = (),
    chunk_pairs: int | None = None,
) -> Scores:
    """The seven columns of a model: every query ranks the gallery by cosine, labels judge the ranking.

    Args:
        embeddings: One vector a query, of any length. (Q, D)
        labels: Their multi-hot labels. (Q, L)
        gallery_embeddings: Vectors of the gallery. By default the queries are the gallery, and each is left
            out of its own ranking. (N, D)
        gallery_labels: Labels of the gallery. (N, L)
        ids: Names of the queries; their positions by default.
        label_names: Names of the labels; their positions by default.
        training_counts: Images per label in the training split, which say what is rare; by default the
            gallery is counted. (L,)
        variants: Named variants, such as {"ideal": "retrieved"}.
        per_label: Score every label, too.
        observers: See every judged block too, such as what sums up curves.
        chunk_pairs: Query-gallery pairs held at a time. Changes memory and time, not values.

    >>> z = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> scores = retrieval_scores(z, torch.tensor([[1, 0], [1, 1], [0, 1]]))
    >>> round(scores["nDCG@100"], 4)
    1.0
    """
    given = _Labels.of(labels, gallery_labels, gallery_embeddings is not None)
    z = unit_vectors(embeddings, "embeddings")
    _check_rows("embeddings", len(z), len(given.y))
    g = z
    if gallery_embeddings is not None:
        g = unit_vectors(gallery_embeddings, "gallery embeddings")
        _check_rows("gallery embeddings", len(g), len(given.y_gallery))
        if g.shape[1] != z.shape[1]:
            raise BatchError(f"embeddings have {z.shape[1]} values, those of the gallery {g.shape[1]}.")
    pairs = PAIRS if chunk_pairs is None else check_int("chunk_pairs", chunk_pairs, 1)
    chosen = Variants.of(variants)
    values, by_label = ColumnValues(columns(), len(z)), LabelPrecision(given.y.shape[1])
    left_out = torch.arange(len(z)) if given.leave_one_out else None
    blocks = ranked_blocks(lambda rows: z[rows] @ g.T, len(z), len(g), left_out, pairs)
    shown = track(blocks, -(-len(z) // max(1, pairs // len(g))), "ranking")
    judge = Judge(given.y, given.y_gallery, given.leave_one_out, chosen)
    names = _names("label_names", label_names, given.y.shape[1])
    counts = _counts(training_counts, given.y_gallery)
    observe(judge, shown, [values, *([by_label] if per_label else []), *observers])
    label_scores = LabelScores(names, by_label.means(), counts) if per_label else None
    gallery = len(g) - given.leave_one_out
    return Scores(values.per_query, _names("ids", ids, len(z)), gallery, label_scores, chosen.named())


def chance_scores(
    labels: Tensor | np.ndarray,
    *,
    gallery_labels: Tensor | np.ndarray | None = None,
    variants: Mapping[str, str] | Variants | None = None,
    seed: int = 0,
) -> Scores:
    """The columns of random rankings: the mean of 10, with its standard error.

    Above 5,000 queries it comes from 1,000 sampled ones.

    >>> scores = chance_scores(torch.eye(4).repeat(25, 1))
    >>> 0.2 < scores["mAP(sim)@5000"] < 0.35
    True
    """
    return references.chance(*_judged(labels, gallery_labels, variants), check_seed(seed))


def oracle_scores(
    labels: Tensor | np.ndarray,
    *,
    gallery_labels: Tensor | np.ndarray | None = None,
    variants: Mapping[str, str] | Variants | None = None,
) -> Scores:
    """The columns of a ranking by the labels themselves: the ceiling of the first six.

    For wAP it is only the value of that order, which can be beaten where the gallery is larger than K.

    >>> oracle_scores(torch.eye(4).repeat(2, 1))["mAP@J0.8"]
    1.0
    """
    return references.oracle(*_judged(labels, gallery_labels, variants))


def _judged(
    labels: Tensor | np.ndarray,
    gallery_labels: Tensor | np.ndarray | None,
    variants: Mapping[str, str] | Variants | None,
) -> tuple[Tensor, Tensor, bool, dict[str, Column], Variants, tuple[str, ...]]:
    """What rankings without vectors are judged by."""
    given = _Labels.of(labels, gallery_labels, gallery_labels is not None)
    ids = _names("ids", None, len(given.y))
    return given.y, given.y_gallery, given.leave_one_out, columns(), Variants.of(variants), ids


def columns() -> dict[str, Column]:
    """The columns of the catalog, in its order."""
    return {name: resolve("metric", name, METRICS) for name in METRICS}


@dataclass(frozen=True, eq=False)
class _Labels:
    """Checked labels of queries and gallery."""

    y: Tensor
    y_gallery: Tensor
    leave_one_out: bool

    @classmethod
    def of(
        cls, labels: Tensor | np.ndarray, gallery_labels: Tensor | np.ndarray | None, has_gallery: bool
    ) -> "_Labels":
        y = multi_hot(_as_tensor(labels, "labels"), "labels")
        if has_gallery != (gallery_labels is not None):
            raise BatchError("a gallery needs both its embeddings and its labels: give both, or neither.")
        if gallery_labels is None:
            if len(y) < 2:
                raise BatchError(f"labels: {len(y)} images. A query needs at least one other image to find.")
            return cls(y, y, True)
        y_gallery = multi_hot(_as_tensor(gallery_labels, "gallery labels"), "gallery labels")
        if not len(y) or not len(y_gallery):
            raise BatchError(f"{len(y)} queries and {len(y_gallery)} gallery images. Give at least one each.")
        if y.shape[1] != y_gallery.shape[1]:
            raise BatchError(f"queries have {y.shape[1]} labels, the gallery {y_gallery.shape[1]}.")
        return cls(y, y_gallery, False)


def _as_tensor(labels: Tensor | np.ndarray, where: str) -> Tensor:
    if isinstance(labels, Tensor):
        return labels.detach().cpu()
    try:
        array = np.asarray(labels)
        # A copy of native bytes: the array may be read-only, reversed or from another machine.
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), order="C"))
    except (TypeError, ValueError) as error:
        raise LabelError(
            f"{where}: expected multi-hot labels (N, L) of 0 and 1, found what is no such array. "
            "Turn names into rows with marcir.LabelVocabulary(names).encode(rows)."
        ) from error


def _check_rows(what: str, vectors: int, labels: int) -> None:
    if vectors != labels:
        raise BatchError(f"{what}: {vectors} vectors, but {labels} rows of labels. Give one each an image.")


def _names(what: str, names: Sequence[str] | None, number: int) -> tuple[str, ...]:
    if names is None:
        return tuple(str(position) for position in range(number))
    if len(names) != number:
        raise BatchError(f"{what}: {len(names)} names for {number}. Give one each.")
    found = tuple(str(name) for name in names)
    if len(set(found)) < number:
        double = next(name for name, times in Counter(found).items() if times > 1)
        raise BatchError(f"{what}: duplicate '{double}'. Give each a name of its own.")
    return found


def _all_whole(counts: np.ndarray) -> bool:
    return bool(((counts >= 0) & (counts < 2**53) & (counts == np.floor(counts))).all())


def _counts(training_counts: Sequence[int] | None, y_gallery: Tensor) -> np.ndarray:
    if training_counts is None:
        return y_gallery.sum(0).numpy()
    counts = np.asarray(training_counts)
    if counts.shape != (y_gallery.shape[1],):
        raise BatchError(f"training_counts: {counts.shape} values for {y_gallery.shape[1]} labels.")
    if counts.dtype.kind not in "iuf" or not _all_whole(counts):
        raise BatchError(f"training_counts: {counts.tolist()}. Give the number of images with each label.")
    return counts.astype(np.int64)
