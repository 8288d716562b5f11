"""Base class of all losses: sums over anchors, divided by counts."""

import inspect
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from marcir.errors import BatchError
from marcir.losses.inputs import Comparison, prepare


class MultiLabelLoss(nn.Module, ABC):
    """A loss on embeddings and multi-hot labels.

    A subclass gives `terms`: sums and counts, kept apart so that they can be added up over processes.
    """

    # Set by losses with parameters or counts per label.
    num_labels: int | None = None
    embedding_dim: int | None = None
    # Whether labels may be unknown (-1).
    takes_unknown: bool = True

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        ref_embeddings: Tensor | None = None,
        ref_labels: Tensor | None = None,
        self_index: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss of a batch, a scalar; a differentiable zero where nothing is valid.

        Computed in float32 (float64 stays), whatever the input and under autocast.

        Args:
            embeddings: z, of any length, normalised here. (N, D), or several views of each image (N, n, D)
            labels: y, 0 absent, 1 present, -1 unknown, of any dtype. (N, L)
            ref_embeddings: Comparisons other than the batch itself. (A, D), or several views of each
            ref_labels: Their labels. (A, L)
            self_index: The row of ref_embeddings that is the anchor itself, left out of its comparisons; -1
                for none. (B,), one for each view
        """
        device = embeddings.device.type if isinstance(embeddings, Tensor) else "cpu"
        with torch.autocast(device, enabled=False):
            comparison = prepare(embeddings, labels, ref_embeddings, ref_labels, self_index)
            self.check_sizes(comparison)
            return self.reduce(*self.terms(comparison))

    @abstractmethod
    def terms(self, comparison: Comparison) -> tuple[Tensor, Tensor]:
        """Sums and counts of the loss's groups, the input of `reduce`.

        Most losses have one group; OML has one for each label, Prototype MARC has two. (G,), (G,)
        """

    def reduce(self, total: Tensor, count: Tensor) -> Tensor:
        """The loss from its sums and counts: the mean over groups with a count of total / count."""
        return mean_of_groups(total, count)

    def valid_anchors(self, comparison: Comparison) -> Tensor:
        """Which anchors add to the loss, bool: by default the labelled ones. (B,)"""
        return comparison.present.sum(1) > 0

    def extra_repr(self) -> str:
        """The options, for `print(loss)`."""
        names = inspect.signature(type(self)).parameters
        plain = [(name, getattr(self, name, None)) for name in names]
        return ", ".join(f"{name}={value!r}" for name, value in plain if isinstance(value, int | float | str))

    def check_sizes(self, comparison: Comparison) -> None:
        """Refuse labels or embeddings of another size than this loss was made for."""
        for name, found, wanted in (
            ("labels has {} columns", comparison.y.shape[1], self.num_labels),
            ("embeddings has {} dimensions", comparison.z.shape[1], self.embedding_dim),
        ):
            if wanted not in (None, found):
                raise BatchError(f"{name.format(found)}, but this loss was made for {wanted}.")


def mean_of_groups(total: Tensor, count: Tensor) -> Tensor:
    """Mean over the groups that have a count of total / count; zero where none has (Reading R2)."""
    groups = (count > 0).sum().clamp_min(1)
    return (total / count.clamp_min(1)).sum() / groups
