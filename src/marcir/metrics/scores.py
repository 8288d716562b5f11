"""Scores of a model: means of the seven metrics, and their values per query."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from marcir.errors import DataError


@dataclass(frozen=True, eq=False)
class LabelScores:
    """AP of every label.

    Attributes:
        names: The labels.
        precision: Mean AP of the queries that carry the label, where images that carry it are relevant; over
            the whole gallery, divided by all relevant images; nan where no query has any. (L,)
        counts: Images with the label: in the training split where it is known, else in the gallery. (L,)
    """

    names: tuple[str, ...]
    precision: np.ndarray
    counts: np.ndarray

    @property
    def tail(self) -> float:
        """Mean over the rarest third of the labels."""
        rarest = np.argsort(self.counts, kind="stable")[: math.ceil(len(self.counts) / 3)]
        return _mean(self.precision[rarest])


@dataclass(frozen=True, eq=False)
class Scores(Mapping[str, float]):
    """A mapping from column names to values in 0..1: means over the queries that have a relevant image.

    Attributes:
        per_query: Column name to one value per query; nan where the query was left out. (Q,)
        ids: Ids of the queries.
        gallery: Number of gallery images (one less for each query when it is left out of its own gallery).
        label_scores: AP of every label.
        variants: Variants other than the default.
        standard_error: Standard error of each mean, where it was estimated from a sample.
        pairs_left_out: Pairs of query and image that share no known label but may share one, and so were not
            ranked; 0 where all labels are known.
    """

    per_query: dict[str, np.ndarray]
    ids: tuple[str, ...]
    gallery: int
    label_scores: LabelScores | None = None
    variants: dict[str, str] = field(default_factory=dict)
    standard_error: dict[str, float] | None = None
    pairs_left_out: int = 0

    def __getitem__(self, column: str) -> float:
        return _mean(self.per_query[column])

    def __iter__(self) -> Iterator[str]:
        return iter(self.per_query)

    def __len__(self) -> int:
        return len(self.per_query)

    def __repr__(self) -> str:
        return f"Scores({', '.join(f'{name}={value:.4f}' for name, value in self.items())})"

    @property
    def left_out(self) -> dict[str, int]:
        """Number of queries that each column excludes, because no image of the gallery is relevant."""
        return {name: int(np.isnan(values).sum()) for name, values in self.per_query.items()}

    @property
    def share_of_pairs_left_out(self) -> float:
        """`pairs_left_out` divided by all pairs of query and image, 0..1."""
        return self.pairs_left_out / (len(self.ids) * self.gallery)

    @property
    def per_label(self) -> np.ndarray:
        """AP of every label, see `LabelScores`. (L,)"""
        return _known(self.label_scores).precision

    @property
    def tail(self) -> float:
        """Mean AP of the rarest third of the labels, see `LabelScores`."""
        return _known(self.label_scores).tail

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON, with all digits, nan as null; `from_json` reads them back."""
        content: dict[str, Any] = {
            "scores": {name: _or_null(value) for name, value in self.items()},
            "left_out": self.left_out,
            "gallery": self.gallery,
            "variants": self.variants,
        }
        if self.standard_error is not None:
            content["standard_error"] = {name: _or_null(v) for name, v in self.standard_error.items()}
        if self.pairs_left_out:
            content["pairs_left_out"] = self.pairs_left_out
        if (own := self.label_scores) is not None:
            content["tail"] = _or_null(self.tail)
            content["labels"] = [
                {"label": name, "count": int(count), "AP": _or_null(value)}
                for name, count, value in zip(own.names, own.counts, own.precision, strict=True)
            ]
        content["queries"] = {
            "ids": list(self.ids),
            **{name: [_or_null(value) for value in values] for name, values in self.per_query.items()},
        }
        return content

    @classmethod
    def from_json(cls, content: Any, where: str) -> "Scores":
        """Read the output of `as_json`.

        Raises:
            DataError: For any other content.
        """
        try:
            queries = dict(content["queries"])
            ids = tuple(str(image) for image in queries.pop("ids"))
            per_query = {name: np.array(values, dtype=np.float64) for name, values in queries.items()}
            _check_queries(ids, per_query)
            labels, errors = content.get("labels"), content.get("standard_error")
            return cls(
                per_query,
                ids,
                int(content["gallery"]),
                None if labels is None else _label_scores(labels),
                dict(content["variants"]),
                None if errors is None else {name: _or_nan(value) for name, value in errors.items()},
                int(content.get("pairs_left_out", 0)),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DataError(f"{where}: not what `marcir evaluate --json` writes ({error!r}).") from error


def _check_queries(ids: tuple[str, ...], per_query: Mapping[str, np.ndarray]) -> None:
    if not per_query or any(values.shape != (len(ids),) for values in per_query.values()):
        raise ValueError("one value per query is needed")
    if len(set(ids)) < len(ids):
        raise ValueError("duplicate query")
    if any(((values < 0) | (values > 1 + 1e-9)).any() for values in per_query.values()):
        raise ValueError("values must lie in 0..1")


def _label_scores(rows: list[dict[str, Any]]) -> LabelScores:
    return LabelScores(
        tuple(str(row["label"]) for row in rows),
        np.array([row["AP"] for row in rows], dtype=np.float64),
        np.array([row["count"] for row in rows], dtype=np.int64),
    )


def _known(scores: LabelScores | None) -> LabelScores:
    if scores is None:
        raise DataError("these scores have no values per label: they were computed with per_label=False.")
    return scores


def _mean(values: np.ndarray) -> float:
    present = values[~np.isnan(values)]
    return float(present.mean()) if len(present) else math.nan


def _or_null(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else float(value)
