"""Frequencies of labels and label sets in the training split: the paper's f and h."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from marcir.checks import check_choice
from marcir.errors import LabelError
from marcir.labels.overlap import intersection_sizes
from marcir.labels.sets import distinct_sets, exact_float, multi_hot
from marcir.labels.supersets import SupersetCounts

PairFrequency = Literal["joint", "pair_mean", "shared_mean", "shared_min"]
AnchorFrequency = Literal["mean", "min"]
PAIR_FREQUENCIES: tuple[PairFrequency, ...] = get_args(PairFrequency)
ANCHOR_FREQUENCIES: tuple[AnchorFrequency, ...] = get_args(AnchorFrequency)


@dataclass(frozen=True, eq=False)
class LabelStatistics:
    """Label statistics of the training split, derived from its distinct label rows.

    Attributes:
        rows: The distinct label rows of the training split, bool. (S, L)
        counts: How many training images have each row. (S,)

    >>> statistics = LabelStatistics.from_labels(torch.tensor([[1, 1], [1, 0], [1, 0]]))
    >>> statistics.label_counts
    tensor([3, 1])
    >>> statistics.num_images, statistics.num_labels
    (3, 2)
    """

    rows: Tensor
    counts: Tensor

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.counts.shape != self.rows.shape[:1]:
            raise LabelError(
                "label statistics: expected rows (S, L) and counts (S,), found "
                f"{tuple(self.rows.shape)} and {tuple(self.counts.shape)}."
            )
        if not len(self.rows):
            raise LabelError("label statistics: there are no training images to count.")

    @classmethod
    def from_labels(cls, y: Tensor) -> "LabelStatistics":
        """Count the labels of the training split, never of the test split; unknown is absent. (N, L)"""
        y = multi_hot(y, "label statistics")
        found = distinct_sets(y)
        return cls(y[found.first], found.sizes)

    @property
    def num_labels(self) -> int:
        """Number of labels, L."""
        return self.rows.shape[1]

    @cached_property
    def num_images(self) -> int:
        """Number of training images, N."""
        return int(self.counts.sum())

    @cached_property
    def label_counts(self) -> Tensor:
        """Training images that carry each label. (L,)"""
        return (self.rows * self.counts[:, None]).sum(0)

    @cached_property
    def _counts_of_seen(self) -> Tensor:
        """Label counts in which a label unseen in training counts as one. (L,)"""
        return exact_float(self.label_counts.clamp_min(1))

    @cached_property
    def cooccurrence(self) -> Tensor:
        """Training images that carry both of two labels; the diagonal is `label_counts`. (L, L)"""
        rows = exact_float(self.rows)  # counts beyond 2^24 stay exact
        return (rows.T @ (rows * self.counts[:, None])).long()

    @cached_property
    def _joint(self) -> SupersetCounts:
        return SupersetCounts(self.rows, self.counts)

    def pair_frequency(self, y: Tensor, y_other: Tensor, kind: PairFrequency = "joint") -> Tensor:
        """The paper's f(y_i, y_p): training frequency of the labels that two images share.

        Reading R4. `joint`: images that carry every shared label; `pair_mean`: mean over label pairs
        (a in y_i, b in y_p) of the images with both; `shared_mean`, `shared_min`: mean and minimum of
        the counts of the shared labels. At least 1 (Reading R10). Meaningful where a label is shared.

        Args:
            y: Multi-hot label sets. (U, L)
            y_other: Multi-hot label sets of the other side. (V, L)
            kind: Which of the four.

        Returns:
            Counts, in the floating dtype of `y` (float32 for other dtypes). (U, V)

        >>> statistics = LabelStatistics.from_labels(torch.tensor([[1, 1], [1, 0], [1, 0]]))
        >>> statistics.pair_frequency(torch.tensor([[1, 1]]), torch.tensor([[1, 1], [1, 0]]))
        tensor([[1., 3.]])
        """
        check_choice("pair_frequency", kind, PAIR_FREQUENCIES)
        formulas: dict[PairFrequency, Callable[[Tensor, Tensor], Tensor]] = {
            "joint": self._joint.of_intersections,
            "pair_mean": self._pair_mean,
            "shared_mean": self._shared_mean,
            "shared_min": self._shared_min,
        }
        self._check_width(y)
        self._check_width(y_other)
        y = _floating(y)
        return formulas[kind](y, y_other.to(y.dtype)).clamp_min(1)

    def anchor_frequency(self, y: Tensor, kind: AnchorFrequency = "mean") -> Tensor:
        """The paper's h(y_i): mean (or minimum) training count of the anchor's labels.

        Readings R6 and R10: a label unseen in training counts as one, and so does an empty set.

        >>> statistics = LabelStatistics.from_labels(torch.tensor([[1, 1], [1, 0], [1, 0]]))
        >>> statistics.anchor_frequency(torch.tensor([[1, 1], [0, 1]]))
        tensor([2., 1.])
        """
        check_choice("anchor_frequency", kind, ANCHOR_FREQUENCIES)
        self._check_width(y)
        y = _floating(y)
        n = self._counts_of_seen.to(y.dtype)  # (L,)
        if kind == "mean":
            return ((y @ n) / y.sum(1).clamp_min(1)).clamp_min(1)
        smallest = torch.where(y > 0, n, torch.inf).amin(1)
        return torch.where(smallest.isinf(), 1, smallest)

    def _check_width(self, y: Tensor) -> None:
        if y.ndim != 2 or y.shape[1] != self.num_labels:
            raise LabelError(f"expected labels of shape (B, {self.num_labels}), found {tuple(y.shape)}.")

    def _pair_mean(self, y: Tensor, y_other: Tensor) -> Tensor:
        sizes = y.sum(1)[:, None] * y_other.sum(1)[None, :]  # (U, V)
        return y @ self.cooccurrence.to(y.dtype) @ y_other.T / sizes.clamp_min(1)

    def _shared_mean(self, y: Tensor, y_other: Tensor) -> Tensor:
        n = self._counts_of_seen.to(y.dtype)
        return (y * n) @ y_other.T / intersection_sizes(y, y_other).clamp_min(1)

    def _shared_min(self, y: Tensor, y_other: Tensor) -> Tensor:
        """Write from the most frequent label to the rarest, so that the minimum remains."""
        f = y.new_ones(len(y), len(y_other))
        present = y.any(0) & y_other.any(0)
        order = self.label_counts.argsort(descending=True)
        for k in order[present[order]].tolist():
            shared = y[:, k, None].bool() & y_other[None, :, k].bool()
            f.masked_fill_(shared, float(self.label_counts[k]))
        return f

    def to(self, device: torch.device | str) -> "LabelStatistics":
        """The same statistics on another device."""
        return LabelStatistics(self.rows.to(device), self.counts.to(device))

    def save(self, path: str | Path) -> None:
        """Write the rows and their counts as one safetensors file."""
        tensors = {"rows": self.rows.cpu().contiguous(), "counts": self.counts.cpu().contiguous()}
        try:
            save_file(tensors, Path(path))
        except (OSError, SafetensorError) as error:
            raise LabelError(f"{path}: cannot write label statistics: {error}.") from error

    @classmethod
    def load(cls, path: str | Path) -> "LabelStatistics":
        """Load statistics written by `save`."""
        try:
            tensors = load_file(Path(path))
            return cls(tensors["rows"].bool(), tensors["counts"].long())
        except (OSError, SafetensorError) as error:
            raise LabelError(f"{path}: cannot read label statistics: {error}.") from error
        except KeyError as error:
            raise LabelError(f"{path}: not label statistics: {error} is missing.") from error
        except LabelError as error:
            raise LabelError(f"{path}: {error}") from error


def _floating(y: Tensor) -> Tensor:
    return y if y.is_floating_point() else y.float()
