"""The validated input of a loss: anchors, comparisons, and each anchor's own row among them."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from marcir.errors import BatchError
from marcir.labels.sets import first_wrong_label


@dataclass(frozen=True, eq=False)
class Comparison:
    """Anchors and the rows they are compared with (Reading R1), embeddings at unit length.

    Attributes:
        z: Anchors. (B, D)
        y: Their labels, 0, 1 or -1 (unknown), in the dtype of z. (B, L)
        z_other: Comparisons; the batch itself is the usual case. (A, D)
        y_other: Their labels. (A, L)
        own: The comparison that is the anchor itself and is left out of A(i); -1 for none. (B,)
        process: This process's number and how many there are: of the anchors that all of them hold
            (prototypes), each counts its own part.
        unknowns: Whether a label may be unknown.
    """

    z: Tensor
    y: Tensor
    z_other: Tensor
    y_other: Tensor
    own: Tensor
    process: tuple[int, int] = (0, 1)
    unknowns: bool = False

    @property
    def present(self) -> Tensor:
        """The labels that anchors are known to have, 0 or 1. (B, L)"""
        return self.y.clamp_min(0) if self.unknowns else self.y

    def with_others(self, z_other: Tensor, y_other: Tensor, **changes: Any) -> "Comparison":
        """The same anchors with other comparisons, which may be the first with unknown labels."""
        unknowns = self.unknowns or bool((y_other < 0).any())
        return replace(self, z_other=z_other, y_other=y_other, unknowns=unknowns, **changes)


def prepare(
    z: Tensor,
    y: Tensor,
    z_other: Tensor | None,
    y_other: Tensor | None,
    self_index: Tensor | None,
) -> Comparison:
    """Validate the input of a loss, flatten views, and normalise embeddings in float32.

    Raises:
        BatchError: For invalid shapes, dtypes or values.
    """
    z, y, unknowns = _rows(z, y, "embeddings", "labels")
    if z_other is None and y_other is None:
        if self_index is not None:
            raise BatchError("self_index was given without ref_embeddings: it names rows of ref_embeddings.")
        return Comparison(z, y, z, y, torch.arange(len(z), device=z.device), unknowns=unknowns)
    if z_other is None or y_other is None:
        given, missing = (
            ("ref_embeddings", "ref_labels") if y_other is None else ("ref_labels", "ref_embeddings")
        )
        raise BatchError(f"{given} was given without {missing}. Pass both or neither.")
    z_other, y_other, more_unknowns = _rows(z_other, y_other, "ref_embeddings", "ref_labels")
    z_other, y_other = z_other.to(z.dtype), y_other.to(z.dtype)
    for axis, what, mine, others in (
        ("D", "embedding size", z, z_other),
        ("L", "label count", y, y_other),
    ):
        if mine.shape[1] != others.shape[1]:
            raise BatchError(
                f"the anchors' {what} {axis} is {mine.shape[1]} and the comparisons' is "
                f"{others.shape[1]}. They must be equal."
            )
    own = _own_rows(self_index, y, y_other)
    return Comparison(z, y, z_other, y_other, own, unknowns=unknowns or more_unknowns)


def unit_length(z: Tensor) -> Tensor:
    """z_i / |z_i|; a zero vector stays zero, with a finite gradient.

    >>> unit_length(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    unit: Tensor = _UnitLength.apply(z)  # type: ignore[no-untyped-call]
    return unit


class _UnitLength(torch.autograd.Function):
    """Normalisation with a closed-form gradient; second derivatives use the composed form."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        length = _length(z)
        unit = z / length
        ctx.save_for_backward(z, unit, length)
        return unit

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        z, unit, length = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient itself will be differentiated
            length = _length(z)
            unit = z / length
        along = (grad * unit).sum(1, keepdim=True)  # (B, 1)
        gradient: Tensor = torch.addcmul(grad, unit, along, value=-1) / length
        return gradient


def _length(z: Tensor) -> Tensor:
    """|z_i|, 1 for a zero vector. (B, 1)"""
    length = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    if not ((length > 1e-15) & (length < 1e15)).all():  # squares may have left the range of floats
        largest = z.abs().amax(1, keepdim=True)
        largest = torch.where(largest > 0, largest, 1)
        length = largest * torch.linalg.vector_norm(z / largest, dim=1, keepdim=True)
    return torch.where(length > 0, length, 1)


def _rows(z: Tensor, y: Tensor, z_name: str, y_name: str) -> tuple[Tensor, Tensor, bool]:
    """Unit embeddings (B, D), labels (B, L) in their dtype, and whether some are unknown.

    The views of an image share its labels.
    """
    for name, value in ((z_name, z), (y_name, y)):
        if not isinstance(value, Tensor):
            raise BatchError(f"{name}: expected a torch.Tensor, found {type(value).__name__}.")
    if z.ndim not in (2, 3) or not z.is_floating_point():
        raise BatchError(
            f"{z_name}: expected floating-point embeddings (N, D) or views (N, n, D), found "
            f"{tuple(z.shape)} of {z.dtype}."
        )
    if y.ndim != 2:
        raise BatchError(
            f"{y_name}: expected multi-hot labels (N, L), found {tuple(y.shape)}. "
            "For one class per image use torch.nn.functional.one_hot."
        )
    if len(z) != len(y):
        raise BatchError(
            f"{z_name} has {len(z)} rows and {y_name} has {len(y)}: every embedding needs its labels."
        )
    if not z.numel():
        raise BatchError(f"{z_name} is empty: found {tuple(z.shape)}.")
    z = z if z.dtype == torch.float64 else z.float()
    y = y.to(z.device, z.dtype)
    unknowns = _check_labels(y, y_name)
    if z.ndim == 3:
        y = y.repeat_interleave(z.shape[1], 0)
        z = z.flatten(0, 1)
    _check_finite(z, z_name)
    return unit_length(z), y, unknowns


def _check_labels(y: Tensor, y_name: str) -> bool:
    """Whether some labels are unknown."""
    if ((y == 0) | (y == 1)).all():
        return False
    if (found := first_wrong_label(y)) is not None:
        raise BatchError(f"{y_name}: must be {found}.")
    return True


def _check_finite(z: Tensor, z_name: str) -> None:
    # One sum is finite only if all its terms are; sums that overflow are checked term by term.
    if not torch.isfinite(z.detach().sum()) and not (finite := torch.isfinite(z)).all():
        bad = (~finite).any(1).nonzero().flatten()
        raise BatchError(
            f"{z_name} has NaN or infinite values in {len(bad)} of {len(z)} rows, first row "
            f"{int(bad[0])}. Look at the encoder's output and the learning rate."
        )


def _own_rows(self_index: Tensor | None, y: Tensor, y_other: Tensor) -> Tensor:
    """The row of each anchor among the comparisons, -1 where it has none. (B,)"""
    if self_index is None:
        return torch.full((len(y),), -1, device=y.device)
    try:
        own = torch.as_tensor(self_index, device=y.device)
    except (TypeError, ValueError, RuntimeError):
        raise BatchError(
            f"self_index: expected {len(y)} row numbers, found {type(self_index).__name__}."
        ) from None
    if own.shape != y.shape[:1] or own.is_floating_point() or own.dtype == torch.bool:
        raise BatchError(
            f"self_index: expected {len(y)} row numbers, one for each anchor, found "
            f"{tuple(own.shape)} of {own.dtype}."
        )
    own = own.long()
    if ((own < -1) | (own >= len(y_other))).any():
        raise BatchError(
            f"self_index: row numbers go from 0 to {len(y_other) - 1} (-1 for none), found "
            f"{int(own.min())} to {int(own.max())}."
        )
    differs = (y_other[own] != y).any(1) & (own >= 0)
    if differs.any():
        i = int(differs.nonzero()[0])
        raise BatchError(f"self_index: anchor {i} and its own row {int(own[i])} of ref_labels differ.")
    return own
