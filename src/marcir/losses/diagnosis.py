"""Diagnose what a loss does to a batch, as one small record that can be logged."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from marcir.errors import BatchError, ConfigError
from marcir.labels.sets import exact_float, present_and_known
from marcir.losses.base import MultiLabelLoss
from marcir.losses.cross_batch_memory import CrossBatchMemory
from marcir.losses.distributed import DistributedLoss
from marcir.losses.inputs import Comparison, prepare
from marcir.losses.marc_proto import PrototypeMARCLoss
from marcir.losses.pair_loss import PairLoss
from marcir.losses.pairs import LabelSets, no_comparison

# Disjoint pairs, four quarters of partial overlap, and full matches.
JACCARD_BINS = ("J=0", "0<J<=.25", ".25<J<=.5", ".5<J<=.75", ".75<J<1", "J=1")
_EDGES = (0.0, 0.25, 0.5, 0.75)
# Rows per block, which bounds memory for the embeddings of a whole split.
_ROWS = 256


@dataclass(frozen=True)
class LossDiagnosis:
    """Diagnosis of one batch or set of embeddings under a loss.

    Attributes:
        loss: The loss.
        valid_anchors: Share of the images that add to it, 0..1.
        gradient_norm: Norm of the gradient before clipping: of the parameters where it was handed in, else
            of the embeddings.
        cosine: Mean cosine of the pairs in each Jaccard bin; None where there is no pair. It should rise.
        influence: Mean gamma = w/T of the positive pairs in each bin; None where there is none, and for
            losses that do not weigh pairs.
    """

    loss: float
    valid_anchors: float
    gradient_norm: float
    cosine: dict[str, float | None]
    influence: dict[str, float | None]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; `LossDiagnosis(**d)` reads them back."""
        return asdict(self)


def diagnose(
    loss: MultiLabelLoss, z: Tensor, y: Tensor, *, gradient_norm: float | None = None
) -> LossDiagnosis:
    """Diagnose a batch, or the embeddings of a trained model, without side effects.

    Args:
        loss: Any loss.
        z: Embeddings. (N, D), or several views of each image (N, n, D)
        y: Labels, 0, 1 or -1 (unknown). (N, L)
        gradient_norm: What `clip_grad_norm_` returned, to record the norm over the network's parameters
            instead of the embeddings'.

    >>> from marcir.losses import MulSupConLoss
    >>> y = torch.tensor([[1, 0], [1, 0], [0, 1]])
    >>> diagnosis = diagnose(MulSupConLoss(), torch.eye(3), y)
    >>> round(diagnosis.valid_anchors, 3), diagnosis.cosine["J=1"], diagnosis.cosine["0<J<=.25"]
    (0.667, 0.0, None)
    """
    prepare(z, y, None, None, None)  # refuses what the loss would refuse
    exact = torch.autocast(z.device.type, enabled=False)
    with exact, torch.inference_mode(False), torch.enable_grad(), _as_it_is(loss):
        # A copy: embeddings of inference mode have no gradient, and those of half precision a coarse one.
        z = z.detach().clone().to(torch.promote_types(z.dtype, torch.float32)).requires_grad_()
        value = loss(z, y.clone())
        (gradient,) = torch.autograd.grad(value, z)
    with exact, torch.no_grad(), _as_it_is(loss):
        comparison = prepare(z, y, None, None, None)
        valid = loss.valid_anchors(comparison)
        cosine, influence = _by_overlap(loss, comparison)
    return LossDiagnosis(
        loss=float(value.detach()),
        valid_anchors=float(exact_float(valid).mean()),
        gradient_norm=float(gradient.norm()) if gradient_norm is None else float(gradient_norm),
        cosine=cosine,
        influence=influence,
    )


def pair_influence(loss: MultiLabelLoss, y: Tensor, y_other: Tensor) -> Tensor:
    """gamma_ip = w_ip / T_ip of positive pairs, 0 elsewhere: the influence of a pair.

    Args:
        loss: A loss over pairs (not LProto, LMsc, OML, LReg, L-W/O-Reg); of
            Prototype MARC the pairs of images.
        y: Labels of anchors, 0, 1 or -1 (unknown). (B, L)
        y_other: Labels of their partners. (A, L)

    >>> from marcir.losses import SupConAnyLoss
    >>> pair_influence(SupConAnyLoss(tau=0.5), torch.tensor([[1, 0]]), torch.tensor([[1, 1], [0, 1]]))
    tensor([[2., 0.]])
    """
    pair_loss = _pair_loss(loss)
    if pair_loss is None:
        name = type(_innermost(loss)).__name__
        raise ConfigError(f"{name} has no pair weights: it has no influence to show.")
    dtype = torch.promote_types(torch.as_tensor(y).dtype, torch.float32)
    known = (present_and_known(y, "y")[1], present_and_known(y_other, "y_other")[1])
    unknowns = any(k is not None for k in known)
    y, y_other = torch.as_tensor(y).to(dtype), torch.as_tensor(y_other).to(dtype)
    wanted = _innermost(loss).num_labels or y.shape[1]
    if y.shape[1] != wanted or y_other.shape[1] != wanted:
        raise BatchError(
            f"expected {wanted} labels, found {y.shape[1]} in y and {y_other.shape[1]} in y_other."
        )
    no_own = torch.full((len(y),), -1, device=y.device)
    with torch.autocast(y.device.type, enabled=False):
        return pair_loss.influence(LabelSets.from_rows(y, y_other, no_own, unknowns))


def _by_overlap(
    loss: MultiLabelLoss, comparison: Comparison
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """Mean cosine of all pairs, and mean influence of positive pairs, in each Jaccard bin."""
    z, y = comparison.z, comparison.y
    pair_loss = _pair_loss(loss)
    cosine, influence = _BinMeans(z), _BinMeans(z)
    for rows in torch.arange(len(z), device=z.device).split(_ROWS):
        own = comparison.own[rows]
        sets = LabelSets.from_rows(y[rows], y, own, comparison.unknowns)
        bins = _bins_of(sets.J)  # (R, B)
        bins.masked_fill_(no_comparison(sets), len(JACCARD_BINS))  # an extra bin, which is dropped
        cosine.add(bins, z[rows] @ z.T)
        if pair_loss is not None:
            gamma = pair_loss.influence(sets)
            influence.add(bins[gamma > 0], gamma[gamma > 0])
    return cosine.means(), influence.means()


def _bins_of(J: Tensor) -> Tensor:
    """The number of each pair's Jaccard bin. (R, B)"""
    edges = torch.tensor(_EDGES, dtype=J.dtype, device=J.device)
    return torch.bucketize(J, edges) + (J == 1)


class _BinMeans:
    """Means by bin, accumulated over blocks in double precision."""

    def __init__(self, like: Tensor) -> None:
        self.sums = exact_float(torch.zeros(len(JACCARD_BINS) + 1, device=like.device))
        self.counts = torch.zeros_like(self.sums)

    def add(self, bins: Tensor, values: Tensor) -> None:
        bins = bins.flatten()
        self.sums += torch.bincount(bins, exact_float(values.flatten()), minlength=len(self.sums))
        self.counts += torch.bincount(bins, minlength=len(self.sums))

    def means(self) -> dict[str, float | None]:
        pairs = zip(JACCARD_BINS, self.sums.tolist(), self.counts.tolist(), strict=False)
        return {name: total / count if count else None for name, total, count in pairs}


def _innermost(loss: MultiLabelLoss) -> MultiLabelLoss:
    while isinstance(loss, CrossBatchMemory | DistributedLoss):
        loss = loss.loss
    return loss


def _pair_loss(loss: MultiLabelLoss) -> PairLoss | None:
    """The loss, or the part of it, that weighs pairs."""
    inner = _innermost(loss)
    if isinstance(inner, PrototypeMARCLoss):
        return inner.pair_loss
    return inner if isinstance(inner, PairLoss) else None


@contextmanager
def _as_it_is(loss: MultiLabelLoss) -> Iterator[None]:
    """Temporary evaluation mode: a diagnosis must not fill a queue."""
    modes = [(module, module.training) for module in loss.modules()]
    loss.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
