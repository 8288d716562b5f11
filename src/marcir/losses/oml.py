"""OML: a smooth average precision for each label."""

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from marcir.checks import check_choice, check_positive
from marcir.errors import BatchError
from marcir.losses.base import MultiLabelLoss
from marcir.losses.inputs import Comparison

Norm = Literal["batch", "label"]
# Elements of one (queries, A, A) block; more blocks are recomputed in the backward pass.
_ELEMENTS = 1 << 24


class OMLLoss(MultiLabelLoss):
    """OML, the ordered multi-label loss: mean over labels of 1 - AP_k, with a sigmoid for the step.

    AP_k = 1/(|S_k| Z_k) sum_{q, j in S_k} R_pos/R_all, for labels with |S_k| >= 2, j = q included
    R_all = 1 + sum_{m != j} sigma(s_qm - s_qj), R_pos the same over m in S_k
    sigma(x) = sigmoid(clip(x/t, -50, 50))

    With a separate comparison side, the queries are z's rows and the ranked ones z_other's.

    Args:
        anneal: Temperature t of the sigmoid.
        norm: `batch` divides by the number of ranked images, as published; `label` by those with the label.
    """

    takes_unknown = False

    def __init__(self, anneal: float = 0.01, norm: Norm = "batch") -> None:
        super().__init__()
        self.anneal = check_positive("anneal", anneal)
        self.norm = check_choice("norm", norm, get_args(Norm))

    def terms(self, comparison: Comparison) -> tuple[Tensor, Tensor]:
        """For each label the sum over its queries of 1 - AP, and their number. (L,), (L,)"""
        if comparison.unknowns:
            raise BatchError(
                "OML ranks by complete labels, and some are unknown (-1). Set them to 0 (absent), or use "
                "another loss, such as marc-proto."
            )
        y, y_other = comparison.y, comparison.y_other
        ranked = y_other.sum(0)  # (L,)
        valid = (ranked >= 2).to(y.dtype)
        Z = ranked.clamp_min(1) if self.norm == "label" else torch.full_like(ranked, len(y_other))
        s = comparison.z @ comparison.z_other.T  # (B, A)
        rows = max(1, _ELEMENTS // len(y_other) ** 2)
        total = y.new_zeros(len(ranked))
        for s_rows, y_rows in zip(s.split(rows), y.split(rows), strict=True):
            precision = (
                checkpoint(self.precisions, s_rows, y_other, use_reentrant=False)
                if len(s_rows) < len(s)
                else self.precisions(s_rows, y_other)
            )  # (R, L)
            total = total + (y_rows * valid * (1 - precision / Z)).sum(0)
        return total, (y * valid).sum(0)

    def valid_anchors(self, comparison: Comparison) -> Tensor:
        """Queries with a label that at least two ranked images have. (B,)"""
        return (comparison.y * (comparison.y_other.sum(0) >= 2)).any(1)

    def precisions(self, s: Tensor, y_other: Tensor) -> Tensor:
        """sum_{j in S_k} R_pos/R_all of each query and label. (R, A) -> (R, L)"""
        x = (s[:, None, :] - s[:, :, None]) / self.anneal  # (R, A, A)  query, j, m
        above = torch.sigmoid(x.clamp(-50, 50))
        # The term m = j is sigma(0) = 1/2; with it taken out and the 1 added, 1/2 is left to add.
        R_all = 0.5 + above.sum(2)  # (R, A)
        R_pos = 0.5 + above @ y_other  # (R, A, L), meant where j has the label
        return (y_other * R_pos / R_all[:, :, None]).sum(1)
