"""Score embeddings against labels: the seven metrics beside chance and oracle, as a table and as JSON."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

import marcir
from marcir.checks import check_seed
from marcir.data.labelled_embeddings import LabelledEmbeddings, align_vocabularies
from marcir.errors import DataError
from marcir.files import atomic_write
from marcir.metrics.comparison import Interval, bootstrap_intervals
from marcir.metrics.curves import Curves, CurveSums
from marcir.metrics.ranking import PAIRS
from marcir.metrics.references import chance_scores, oracle_scores
from marcir.metrics.relevance import GroundTruth
from marcir.metrics.retrieval_scores import retrieval_scores
from marcir.metrics.scores import Scores
from marcir.metrics.variants import Variants
from marcir.schema import PlainValidator, load, record
from marcir.text_tables import aligned, markdown, nan_to_none, percent

# Share of the pairs of query and image above which scores of the others say little.
MOST_LEFT_OUT = 0.5


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The scores of a model beside reference scores.

    Attributes:
        name: Name of the model.
        model: Its scores.
        intervals: 95 % bootstrap intervals of its scores, over queries.
        references: Scores of chance, oracle and the untrained backbone, by name.
        curves: Data of the figures.
        judged_by: Fingerprint of the queries, the gallery and their labels.
        about: Further entries of the JSON file.
        rankings_differ: Whether some ranking is better than another by the labels.
    """

    name: str
    model: Scores
    intervals: dict[str, Interval]
    references: dict[str, Scores]
    curves: Curves
    judged_by: str
    about: dict[str, str] = field(default_factory=dict)
    rankings_differ: bool = True

    def rows(self) -> list[list[str]]:
        """The table: a header, the references, the model, its intervals, and queries left out."""
        scores = {**self.references, self.name: self.model}
        rows = [["", *self.model], *([name, *map(percent, row.values())] for name, row in scores.items())]
        rows.append(["  95 % from", *(percent(interval.low) for interval in self.intervals.values())])
        rows.append(["  to", *(percent(interval.high) for interval in self.intervals.values())])
        rows.append(["left out", *(str(number) for number in self.model.left_out.values())])
        return rows

    def notes(self) -> list[str]:
        """Remarks on the table, one paragraph each."""
        queries, gallery = len(self.model.ids), self.model.gallery
        lines = [
            f"{queries:,} queries, {gallery:,} gallery images each, percent. "
            "chance: the mean of 10 random rankings; oracle: ranked by the labels themselves "
            "(a ceiling but for wAP). left out: queries without a relevant image."
        ]
        if self.model.pairs_left_out:
            lines.append(
                f"Unknown labels leave out {self.model.pairs_left_out:,} of {queries * gallery:,} pairs of "
                f"query and image ({percent(self.model.share_of_pairs_left_out)} %), which share no known "
                "label but may share one. Not comparable with scores by other labels."
            )
        if not self.rankings_differ:
            lines.append(
                "By the labels that are known, no ranking is better than another: these scores, but for "
                "nDCG(sim), say nothing about the model."
            )
        chance = self.references.get("chance")
        if chance is not None and len(chance.ids) < queries and chance.standard_error is not None:
            error = percent(max(chance.standard_error.values(), default=math.nan), digits=2)
            lines.append(
                f"chance is from {len(chance.ids):,} sampled queries: standard error of at most {error}."
            )
        if self.model.variants:
            chosen = ", ".join(f"{name} = {value}" for name, value in self.model.variants.items())
            lines.append(f"Variants: {chosen}. Not comparable with scores by the default definitions.")
        if self.model.label_scores is not None:
            lines.append(f"Mean AP of the rarest third of the labels (tail): {percent(self.model.tail)}.")
        return lines

    def __str__(self) -> str:
        return "\n".join([aligned(self.rows()), "", *self.notes()])

    def markdown(self) -> str:
        """The table, its notes and every label's AP in Markdown."""
        parts = [f"# {self.name}", markdown(self.rows()), *self.notes()]
        if self.model.label_scores is not None:
            scores = self.model.label_scores
            order = np.argsort(scores.counts, kind="stable")[::-1]  # the tail comes last
            rows = [[scores.names[k], f"{scores.counts[k]:,}", percent(scores.precision[k])] for k in order]
            parts.append(markdown([["label", "images", "AP"], *rows]))
        return "\n\n".join(parts) + "\n"

    def as_json(self) -> dict[str, Any]:
        """The content of the JSON file that `marcir compare` reads."""
        return {
            "marcir": marcir.__version__,
            "name": self.name,
            "judged_by": self.judged_by,
            **self.about,
            "model": self.model.as_json(),
            "intervals": {name: nan_to_none(asdict(interval)) for name, interval in self.intervals.items()},
            "references": {name: _without_queries(row.as_json()) for name, row in self.references.items()},
            "curves": self.curves.as_json(),
        }

    def save_json(self, path: str | Path) -> None:
        """Write the JSON file atomically."""
        with atomic_write(Path(path)) as temporary:
            temporary.write_text(json.dumps(self.as_json(), allow_nan=False) + "\n", "utf-8")

    def save_markdown(self, path: str | Path) -> None:
        """Write the Markdown file atomically."""
        with atomic_write(Path(path)) as temporary:
            temporary.write_text(self.markdown(), "utf-8")


def share_of_pairs_left_out(labels: Tensor, gallery_labels: Tensor | None = None) -> float:
    """Share of the pairs of query and image that unknown labels leave out, 0..1; needs no vectors.

    Args:
        labels: Labels of the queries, -1 for unknown ones. (Q, L)
        gallery_labels: Labels of the gallery; by default the queries rank each other. (N, L)

    >>> share_of_pairs_left_out(torch.tensor([[1, 0], [-1, 1], [0, 1]]))
    0.3333333333333333
    """
    truth = GroundTruth.from_labels(labels, gallery_labels, Variants())
    rows = torch.arange(len(truth.y), device=truth.y.device).split(max(1, PAIRS // len(truth.y_gallery)))
    left_out = sum(int(each.sum()) for each in map(truth.left_out, rows) if each is not None)
    return left_out / (len(truth.y) * truth.gallery)


def rankings_differ(labels: Tensor, gallery_labels: Tensor | None = None) -> bool:
    """Whether some ranking of some query is better than another by the labels; needs no vectors.

    Where labels are only ever present or unknown, none is: J is 1 for all images that a query ranks.

    Args:
        labels: Labels of the queries, -1 for unknown ones. (Q, L)
        gallery_labels: Labels of the gallery; by default the queries rank each other. (N, L)

    >>> rankings_differ(torch.tensor([[1, -1], [1, -1], [-1, 1]]))
    False
    >>> rankings_differ(torch.tensor([[1, -1], [1, -1], [0, 0]]))
    True
    """
    return GroundTruth.from_labels(labels, gallery_labels, Variants()).rankings_differ


def refuse_incomplete(labels: Tensor, gallery_labels: Tensor | None = None) -> None:
    """Refuse labels of which so many are unknown that scores would say little or nothing.

    Raises:
        DataError: Where more than half of the pairs are left out, or no ranking is better than another.
    """
    share = share_of_pairs_left_out(labels, gallery_labels)
    if share > MOST_LEFT_OUT:
        raise DataError(
            f"unknown labels leave out {percent(share)} % of the pairs of query and image, and scores of the "
            "others say little. Score images with known labels, or give --allow-incomplete."
        )
    truth = GroundTruth.from_labels(labels, gallery_labels, Variants())
    if truth.known is not None and not truth.rankings_differ:
        raise DataError(
            "by the labels that are known, no ranking is better than another: all images that a query ranks "
            "are equally relevant. Score images with complete labels, or give --allow-incomplete."
        )


def evaluate_embeddings(
    name: str,
    queries: LabelledEmbeddings,
    gallery: LabelledEmbeddings | None = None,
    *,
    variants: Mapping[str, str] | None = None,
    training_counts: Sequence[int] | None = None,
    untrained: Tensor | None = None,
    seed: int = 0,
) -> Evaluation:
    """Score embeddings beside chance, oracle and, optionally, the untrained backbone.

    Args:
        name: Name of the model.
        queries: Vectors and labels of the queries.
        gallery: Those of the gallery; by default the queries rank each other.
        variants: Variants of the metrics by name.
        training_counts: Training images per label. (L,)
        untrained: Vectors of the queries before training.
        seed: Seed of the random rankings and the bootstrap.
    """
    check_seed(seed)
    name = " ".join(name.split())
    if name.lower() in ("chance", "oracle", *([] if untrained is None else ["untrained"])):
        name += " (model)"  # row names must be unique
    queries, gallery = align_vocabularies(queries, gallery)
    gallery_labels = None if gallery is None else gallery.labels

    def score(vectors: Tensor | np.ndarray, **options: Any) -> Scores:
        return retrieval_scores(
            vectors,
            queries.labels,
            ids=queries.embeddings.ids,
            label_names=queries.vocabulary.names,
            training_counts=training_counts,
            variants=variants,
            **options,
        )

    sums, vectors = CurveSums(), None if gallery is None else gallery.embeddings.vectors
    scores = score(
        queries.embeddings.vectors,
        gallery_embeddings=vectors,
        gallery_labels=gallery_labels,
        observers=[sums],
    )
    chance = chance_scores(queries.labels, gallery_labels=gallery_labels, variants=variants, seed=seed)
    oracle = oracle_scores(queries.labels, gallery_labels=gallery_labels, variants=variants)
    references = {"chance": chance, "oracle": oracle}
    if untrained is not None:
        references["untrained"] = score(untrained)
    judged_by = queries.fingerprint() + ("" if gallery is None else gallery.fingerprint())
    return Evaluation(
        name,
        scores,
        bootstrap_intervals(scores, seed),
        references,
        sums.curves(),
        judged_by,
        rankings_differ=rankings_differ(queries.labels, gallery_labels),
    )


def _without_queries(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name != "queries"}


def _as_scores(value: Any) -> Scores:
    return value if isinstance(value, Scores) else Scores.from_json(value, "scores")


StoredScores = Annotated[Scores, PlainValidator(_as_scores)]  # as a field of a record


@record(unknown="ignore")
class _Row:
    scores: Mapping[str, float | None]


@record(unknown="ignore", eq=False)
class EvaluationFile:
    """What is read of the JSON file of an evaluation; the attributes are those of `Evaluation`."""

    model: StoredScores
    references: Mapping[str, _Row] = field(default_factory=dict)
    name: str | None = None
    judged_by: str | None = None

    @classmethod
    def load(cls, path: str | Path) -> "EvaluationFile":
        """Read a file of `Evaluation.save_json`; a DataError if it is anything else."""
        return load(cls, path, "what `marcir evaluate --json` writes", "Make it with: marcir evaluate --json")
