"""Score embeddings of any model against the labels."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from marcir.checks import check_int
from marcir.errors import BatchError
from marcir.metrics.ranking import PAIRS, ranked_blocks, unit_vectors
from marcir.metrics.relevance import GroundTruth
from marcir.metrics.retrieval_metrics import METRICS, LabelPrecision, MetricValues, Observer, observe
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
    """Score a model with the seven metrics: every query ranks the gallery by cosine.

    Args:
        embeddings: One vector per query, of any length. (Q, D)
        labels: Their labels: 0 absent, 1 present, -1 unknown. (Q, L)
        gallery_embeddings: Vectors of the gallery. By default the queries are the gallery, and each is left
            out of its own ranking. (N, D)
        gallery_labels: Labels of the gallery. (N, L)
        ids: Names of the queries; their positions by default.
        label_names: Names of the labels; their positions by default.
        training_counts: Images per label in the training split, which define the rare labels; by
            default the gallery is counted. (L,)
        variants: Named variants, such as {"ideal": "retrieved"}.
        per_label: Score every label, too.
        observers: Called with the relevance of every ranked block, such as `CurveSums`.
        chunk_pairs: Query-gallery pairs held at a time. Changes memory and time, not values.

    >>> z = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> scores = retrieval_scores(z, torch.tensor([[1, 0], [1, 1], [0, 1]]))
    >>> round(scores["nDCG@100"], 4)
    1.0
    """
    if (gallery_embeddings is None) != (gallery_labels is None):
        raise BatchError("a gallery needs both its embeddings and its labels: give both, or neither.")
    truth = GroundTruth.from_labels(labels, gallery_labels, Variants.from_mapping(variants))
    z = g = unit_vectors(embeddings, "embeddings")
    _check_rows("embeddings", len(z), len(truth.y))
    if gallery_embeddings is not None:
        g = unit_vectors(gallery_embeddings, "gallery embeddings")
        _check_rows("gallery embeddings", len(g), len(truth.y_gallery))
        if g.shape[1] != z.shape[1]:
            raise BatchError(f"embeddings have {z.shape[1]} values, those of the gallery {g.shape[1]}.")
    pairs = PAIRS if chunk_pairs is None else check_int("chunk_pairs", chunk_pairs, 1)
    ids = _names("ids", ids, len(z))
    label_names = _names("label_names", label_names, truth.y.shape[1])
    counts = _counts(training_counts, truth.y_gallery)
    values, by_label = MetricValues(METRICS, len(z)), LabelPrecision(truth.y.shape[1])
    left_out = torch.arange(len(z)) if truth.leave_one_out else None
    blocks = ranked_blocks(lambda rows: z[rows] @ g.T, len(z), len(g), left_out, pairs)
    shown = track(blocks, -(-len(z) // max(1, pairs // len(g))), "ranking")
    observe(truth, shown, [values, *([by_label] if per_label else []), *observers])
    label_scores = LabelScores(label_names, by_label.means(), counts) if per_label else None
    return Scores(
        values.per_query,
        ids,
        truth.gallery,
        label_scores,
        truth.variants.non_default(),
        pairs_left_out=int(values.pairs_left_out.sum()),
    )


def _check_rows(what: str, vectors: int, labels: int) -> None:
    if vectors != labels:
        raise BatchError(
            f"{what}: {vectors} vectors, but {labels} rows of labels. Give one of each per image."
        )


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
