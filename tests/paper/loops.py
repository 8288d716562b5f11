"""The loss family as plain loops over samples, labels and pairs: reference values and gradients.

Written from the definitions alone, in float64, one function a loss. Notation: anchors i with
embeddings z_i and label sets y_i; comparisons a with v_a and u_a (the batch itself unless a
separate comparison side is given); A(i) = all comparisons but the anchor's own row;
s_ia = z_i . v_a; n_i = |y_i|.

Only valid anchors (or anchor-label pairs) count; where none is valid the loss is a zero connected
to the graph (reading R2). An image without labels is never an anchor nor a positive (reading R3).

Labels may be unknown (reading R24): y_i are the labels present, K_i those known. Sizes of unions and
differences count what both images know. An image that shares no known label but may share one is not in A(i).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor

LabelSet = AbstractSet[int]
LabelSets = Sequence[LabelSet]


# ---- The batch -----------------------------------------------------------------------------------


class Labels(frozenset[int]):
    """A label set y_i with the labels that are unknown for i."""

    unknown: frozenset[int]


def label_sets(y: Tensor) -> list[LabelSet]:
    """Turn rows (N, C) into label sets: y_i = {k : Y_ik = 1}; -1 is unknown."""
    sets = []
    for row in y.tolist():
        labels = Labels(k for k, value in enumerate(row) if value == 1)
        labels.unknown = frozenset(k for k, value in enumerate(row) if value == -1)
        sets.append(labels)
    return sets


def unknown(y_i: LabelSet) -> LabelSet:
    """The labels outside K_i."""
    return y_i.unknown if isinstance(y_i, Labels) else frozenset()


def not_compared(y_i: LabelSet, y_j: LabelSet) -> bool:
    """Whether they share no known label, but one that is present in one and unknown in the other."""
    return not y_i & y_j and bool(y_i & unknown(y_j) or y_j & unknown(y_i))


def unit(x: Tensor) -> Tensor:
    """x / |x|; a zero vector stays zero and passes no gradient."""
    x = x.double()
    squared = x @ x
    return x / torch.sqrt(squared) if squared > 0 else x * 0.0


def units(x: Tensor) -> list[Tensor]:
    """Every row of x at unit length."""
    return [unit(x[i]) for i in range(x.shape[0])]


class Comparison(TypedDict, total=False):
    """The separate comparison side that every loss accepts (reading R1).

    self_index[i] is the row of z_other that is anchor i itself, -1 for none.
    """

    z_other: Tensor | None
    y_other: LabelSets | None
    self_index: Sequence[int] | None


@dataclass(frozen=True)
class Batch:
    """Anchors (z_i, y_i) against comparisons (v_a, u_a); own[i] is the anchor's own row or -1."""

    z: list[Tensor]
    y: list[LabelSet]
    v: list[Tensor]
    u: list[LabelSet]
    own: list[int]

    def others(self, i: int) -> list[int]:
        """A(i): all comparisons but the anchor's own row and those that may match."""
        rows = [a for a in range(len(self.v)) if a != self.own[i]]
        return [a for a in rows if not not_compared(self.y[i], self.u[a])]

    def sharing(self, i: int) -> list[int]:
        """P(i) = {p in A(i) : y_i and u_p share a label}."""
        return [p for p in self.others(i) if self.y[i] & self.u[p]]

    def having(self, i: int, k: int) -> list[int]:
        """P_k(i) = {p in A(i) : k in u_p}."""
        return [p for p in self.others(i) if k in self.u[p]]

    def s(self, i: int, a: int) -> Tensor:
        """s_ia = z_i . v_a."""
        return self.z[i] @ self.v[a]


def make_batch(
    z: Tensor,
    y: LabelSets,
    z_other: Tensor | None = None,
    y_other: LabelSets | None = None,
    self_index: Sequence[int] | None = None,
) -> Batch:
    """The batch against itself, or against the rows of z_other (reading R1)."""
    anchors = units(z)
    if z_other is None or y_other is None:
        return Batch(anchors, list(y), anchors, list(y), list(range(len(y))))
    own = [-1] * len(y) if self_index is None else list(self_index)
    return Batch(anchors, list(y), units(z_other), list(y_other), own)


def with_queue(batch: Batch, z_queue: Tensor | None, y_queue: LabelSets | None) -> Batch:
    """The batch with the detached rows of a memory queue as further comparisons."""
    if z_queue is None or y_queue is None:
        return batch
    v = batch.v + units(z_queue.detach())
    return Batch(batch.z, batch.y, v, batch.u + list(y_queue), batch.own)


def with_prototypes(batch: Batch, prototypes: Tensor) -> Batch:
    """The points V: prototype k, with the label set {k}, is a comparison and an anchor too."""
    c = units(prototypes)
    labels: list[LabelSet] = [{k} for k in range(len(c))]
    own = [len(batch.v) + k for k in range(len(c))]
    return Batch(batch.z + c, batch.y + labels, batch.v + c, batch.u + labels, batch.own + own)


# ---- What the losses share -----------------------------------------------------------------------


def jaccard(y_i: LabelSet, y_j: LabelSet) -> float:
    """J = |y_i n y_j| / |(y_i u y_j) n K_i n K_j|, 0 for an empty union."""
    union = known_union(y_i, y_j)
    return len(y_i & y_j) / len(union) if union else 0.0


def known_union(y_i: LabelSet, y_j: LabelSet) -> LabelSet:
    """(y_i u y_j) n K_i n K_j."""
    return (y_i | y_j) - unknown(y_i) - unknown(y_j)


def total(terms: Iterable[Tensor]) -> Tensor:
    """The sum of the terms, in float64; zero of none."""
    return sum(terms, start=torch.zeros((), dtype=torch.float64))


def mean(terms: list[Tensor]) -> Tensor:
    """The mean of one term or more."""
    return total(terms) / len(terms)


def log_softmax(batch: Batch, i: int, T: dict[int, float]) -> dict[int, Tensor]:
    """s_ip/T_ip - log sum_{a in A(i)} exp(s_ia/T_ia), for every p in A(i)."""
    logits = {a: batch.s(i, a) / T[a] for a in batch.others(i)}
    log_sum = torch.log(total(torch.exp(logit) for logit in logits.values()))
    return {p: logit - log_sum for p, logit in logits.items()}


def log_p(batch: Batch, i: int, tau: float) -> dict[int, Tensor]:
    """log p_ip = s_ip/tau - log sum_{a in A(i)} exp(s_ia/tau), for every p in A(i)."""
    return log_softmax(batch, i, dict.fromkeys(batch.others(i), tau))


def mean_of_valid(terms: list[Tensor], *inputs: Tensor) -> Tensor:
    """The mean of the valid terms; a zero connected to the inputs where there is none."""
    return mean(terms) if terms else total((x.double() * 0.0).sum() for x in inputs)


# ---- 1-3: SupCon ALL, SupCon ANY, LBase ----------------------------------------------------------


def supcon_all(z: Tensor, y: LabelSets, tau: float = 0.3, **comparison: Unpack[Comparison]) -> Tensor:
    """L_i = 1/|P(i)| sum_{p in P(i)} -log p_ip; mean over valid anchors.

    P(i) = {p in A(i) : u_p = y_i}, of the labels that both know.
    """
    batch = make_batch(z, y, **comparison)
    losses = []
    for i in range(len(batch.z)):
        P = [p for p in batch.sharing(i) if same_known(batch.u[p], batch.y[i])]
        if P:
            log = log_p(batch, i, tau)
            losses.append(mean([-log[p] for p in P]))
    return mean_of_valid(losses, z)


def same_known(y_i: LabelSet, y_j: LabelSet) -> bool:
    """Whether the sets are equal in the labels that both know."""
    return y_i - unknown(y_j) == y_j - unknown(y_i)


def supcon_any(z: Tensor, y: LabelSets, tau: float = 0.3, **comparison: Unpack[Comparison]) -> Tensor:
    """L_i = 1/|P(i)| sum_{p in P(i)} -log p_ip; mean over valid anchors.

    P(i) = {p in A(i) : u_p and y_i share a label}.
    """
    batch = make_batch(z, y, **comparison)
    losses = []
    for i in range(len(batch.z)):
        P = batch.sharing(i)
        if P:
            log = log_p(batch, i, tau)
            losses.append(mean([-log[p] for p in P]))
    return mean_of_valid(losses, z)


def lbase(z: Tensor, y: LabelSets, tau: float = 0.3, **comparison: Unpack[Comparison]) -> Tensor:
    """L_i = -sum_j w_ij log p_ij; mean over anchors with some J > 0.

    w_ij = J_ij / sum_{l in A(i)} J_il.
    """
    batch = make_batch(z, y, **comparison)
    losses = []
    for i in range(len(batch.z)):
        J = {j: jaccard(batch.y[i], batch.u[j]) for j in batch.others(i)}
        J_sum = sum(J.values())
        if J_sum > 0:
            log = log_p(batch, i, tau)
            losses.append(-total(J[j] / J_sum * log[j] for j in J))
    return mean_of_valid(losses, z)


# ---- 4-5: LProto, LMsc ---------------------------------------------------------------------------


def lproto(
    z: Tensor,
    y: LabelSets,
    prototypes: Tensor,
    tau: float = 0.3,
    **comparison: Unpack[Comparison],
) -> Tensor:
    """L_i = -1/n_i sum_{k in y_i} log q_ik; mean over labelled images.

    log q_ik = z_i . c_k / tau - log sum_l exp(z_i . c_l / tau), over the labels l in K_i. There are no
    comparisons: a separate comparison side changes nothing.
    """
    batch = make_batch(z, y, **comparison)
    c = units(prototypes)
    losses = []
    for i in range(len(batch.z)):
        if batch.y[i]:
            logits = [batch.z[i] @ c_l / tau for c_l in c]
            known = [m for m in range(len(c)) if m not in unknown(batch.y[i])]
            log_sum = torch.log(total(torch.exp(logits[m]) for m in known))
            losses.append(mean([-(logits[k] - log_sum) for k in sorted(batch.y[i])]))
    return mean_of_valid(losses, z, prototypes)


def lmsc(
    z: Tensor,
    y: LabelSets,
    prototypes: Tensor,
    tau: float = 0.3,
    beta: float = 0.1,
    z_queue: Tensor | None = None,
    y_queue: LabelSets | None = None,
    **comparison: Unpack[Comparison],
) -> Tensor:
    """L_i = -1/n_i sum_{k in y_i} 1/D_ik (log r_ik + sum_{j : k in u_j} log r_ij / |y_i u u_j|).

    log r_ij = s_ij/tau - log(beta sum_{a in A(i)} exp(s_ia/tau) + sum_l exp(z_i . c_l/tau)) for a
    sample j, log r_ik the same for prototype k; D_ik = 1 + sum_{j : k in u_j} 1/|y_i u u_j|. A(i)
    includes the queue. Mean over labelled images. Prototypes l and unions: of what is known.
    """
    batch = with_queue(make_batch(z, y, **comparison), z_queue, y_queue)
    c = units(prototypes)
    losses = []
    for i in range(len(batch.z)):
        if batch.y[i]:
            to_sample = {j: batch.s(i, j) / tau for j in batch.others(i)}
            to_prototype = [batch.z[i] @ c_l / tau for c_l in c]
            log_sum = torch.log(
                beta * total(torch.exp(logit) for logit in to_sample.values())
                + total(
                    torch.exp(logit) for m, logit in enumerate(to_prototype) if m not in unknown(batch.y[i])
                )
            )
            L_i = []
            for k in sorted(batch.y[i]):
                share = {j: 1 / len(known_union(batch.y[i], batch.u[j])) for j in batch.having(i, k)}
                D_ik = 1 + sum(share.values())
                weighted = total(share[j] * (to_sample[j] - log_sum) for j in share)
                L_i.append(-(to_prototype[k] - log_sum + weighted) / D_ik)
            losses.append(mean(L_i))
    return mean_of_valid(losses, z, prototypes)


# ---- 6: OML --------------------------------------------------------------------------------------


def smooth_step(x: Tensor, t: float) -> Tensor:
    """sigma_t(x) = sigmoid(clip(x/t, -50, 50))."""
    return torch.sigmoid(torch.clamp(x / t, -50.0, 50.0))


def smooth_rank(s: list[Tensor], j: int, among: list[int], t: float) -> Tensor:
    """R = 1 + sum_{m != j, m in among} sigma_t(s_qm - s_qj)."""
    return 1.0 + total(smooth_step(s[m] - s[j], t) for m in among if m != j)


def oml(
    z: Tensor,
    y: LabelSets,
    anneal: float = 0.01,
    norm: str = "batch",
    **comparison: Unpack[Comparison],
) -> Tensor:
    """L = mean over labels k of 1 - AP_k.

    AP_k = 1/(|Q_k| Z_k) sum_{q in Q_k} sum_{j in S_k} R_pos/R_all. Q_k: the queries with label k;
    S_k: the ranked rows with k, the query's own row among them. R_all ranks j among all rows, R_pos
    among S_k. Z_k is the number of ranked rows (norm "batch") or |S_k| ("label"). A label counts if
    |S_k| >= 2 and |Q_k| >= 1.
    """
    batch = make_batch(z, y, **comparison)
    ranked = list(range(len(batch.v)))
    losses = []
    for k in sorted(set().union(*batch.y)):
        Q_k = [q for q in range(len(batch.z)) if k in batch.y[q]]
        S_k = [j for j in ranked if k in batch.u[j]]
        if len(S_k) >= 2:
            Z_k = {"batch": len(ranked), "label": len(S_k)}[norm]
            precisions = []
            for q in Q_k:
                s = [batch.s(q, m) for m in ranked]
                for j in S_k:
                    R_pos = smooth_rank(s, j, S_k, anneal)
                    R_all = smooth_rank(s, j, ranked, anneal)
                    precisions.append(R_pos / R_all)
            losses.append(1.0 - total(precisions) / (len(Q_k) * Z_k))
    return mean_of_valid(losses, z)


# ---- 7-9: MulSupCon, Wg-MulSupCon, Sim-Dis -------------------------------------------------------


def mulsupcon_terms(batch: Batch, i: int, tau: float) -> list[Tensor]:
    """l_ik = 1/|P_k(i)| sum_{p in P_k(i)} -log p_ip, for every k in y_i with P_k(i) not empty."""
    P = {k: batch.having(i, k) for k in sorted(batch.y[i])}
    if not any(P.values()):
        return []
    log = log_p(batch, i, tau)
    return [mean([-log[p] for p in P_k]) for P_k in P.values() if P_k]


def mulsupcon(z: Tensor, y: LabelSets, tau: float = 0.3, **comparison: Unpack[Comparison]) -> Tensor:
    """L = mean of l_ik over all valid (i, k)."""
    batch = make_batch(z, y, **comparison)
    losses = []
    for i in range(len(batch.z)):
        losses.extend(mulsupcon_terms(batch, i, tau))
    return mean_of_valid(losses, z)


def wg_mulsupcon(z: Tensor, y: LabelSets, tau: float = 0.3, **comparison: Unpack[Comparison]) -> Tensor:
    """L_i = mean of l_ik over the valid labels of i; mean over valid i."""
    batch = make_batch(z, y, **comparison)
    losses = []
    for i in range(len(batch.z)):
        terms = mulsupcon_terms(batch, i, tau)
        if terms:
            losses.append(mean(terms))
    return mean_of_valid(losses, z)


def similarity_dissimilarity(y_i: LabelSet, y_p: LabelSet) -> float:
    r"""|y_i n y_p|/|y_i n K_p| * 1/(1 + |(y_p \ y_i) n K_i|)."""
    return len(y_i & y_p) / len(y_i - unknown(y_p)) / (1 + len(y_p - y_i - unknown(y_i)))


def sim_dis(
    z: Tensor,
    y: LabelSets,
    tau: float = 0.3,
    placement: str = "outside",
    **comparison: Unpack[Comparison],
) -> Tensor:
    r"""L_i = 1/|P(i)| sum_{p in P(i)} -w_ip log p_ip ("outside") or -log(w_ip p_ip) ("inside").

    w_ip = |y_i n u_p|/|y_i| * 1/(1 + |u_p \ y_i|), P(i) as in SupCon ANY; mean over valid i.
    """
    batch = make_batch(z, y, **comparison)
    losses = []
    for i in range(len(batch.z)):
        P = batch.sharing(i)
        if P:
            log = log_p(batch, i, tau)
            w = {p: similarity_dissimilarity(batch.y[i], batch.u[p]) for p in P}
            outside = [-w[p] * log[p] for p in P]
            inside = [-torch.log(w[p] * torch.exp(log[p])) for p in P]
            losses.append(mean({"outside": outside, "inside": inside}[placement]))
    return mean_of_valid(losses, z)


# ---- 10-11: L-W/O-Reg, LReg ----------------------------------------------------------------------


def overlap_ratio(y_i: LabelSet, y_j: LabelSet, a: float) -> float:
    """r_ij = (|y_i n y_j|/|y_j n K_i|)^a; for a < 0: 1 where y_j n K_i is inside y_i, else 0."""
    y_j = y_j - unknown(y_i)
    if a < 0:
        return 1.0 if y_j <= y_i else 0.0
    return math.pow(len(y_i & y_j) / len(y_j), a)


def overlap_weights(batch: Batch, i: int, a: float) -> dict[int, float]:
    """w_ij = 1/n_i sum_{k in y_i n u_j} r_ij / sum_{l in A(i), k in u_l} r_il, where above zero."""
    r = {j: overlap_ratio(batch.y[i], batch.u[j], a) for j in batch.sharing(i)}
    w = dict.fromkeys(r, 0.0)
    for k in sorted(batch.y[i]):
        r_sum = sum(r[j] for j in batch.having(i, k))
        for j in batch.having(i, k):
            if r[j] > 0:
                w[j] += r[j] / r_sum / len(batch.y[i])
    return {j: w_ij for j, w_ij in w.items() if w_ij > 0}


def l_wo_reg(
    z: Tensor,
    y: LabelSets,
    prototypes: Tensor,
    tau: float = 0.3,
    overlap_power: float = 0.0,
    **comparison: Unpack[Comparison],
) -> Tensor:
    """L = mean over anchors of V with any weight of -sum_j w_ij log p_ij.

    V = batch + prototypes, w_ij as in `overlap_weights`, a = overlap_power.
    """
    V = with_prototypes(make_batch(z, y, **comparison), prototypes)
    losses = []
    for i in range(len(V.z)):
        w = overlap_weights(V, i, overlap_power)
        if w:
            log = log_p(V, i, tau)
            losses.append(-total(w[j] * log[j] for j in w))
    return mean_of_valid(losses, z, prototypes)


def lreg(
    z: Tensor,
    y: LabelSets,
    prototypes: Tensor,
    tau: float = 0.3,
    overlap_power: float = 0.0,
    **comparison: Unpack[Comparison],
) -> Tensor:
    """L = L-W/O-Reg - 1/M sum_ij [w_ij > 0] max(stopgrad(p_ij) - w_ij, 0) s_ij/tau, M anchors."""
    V = with_prototypes(make_batch(z, y, **comparison), prototypes)
    regularisers = []
    for i in range(len(V.z)):
        w = overlap_weights(V, i, overlap_power)
        if w:
            log = log_p(V, i, tau)
            p = {j: torch.exp(log[j]).detach() for j in w}
            excess = {j: torch.clamp(p[j] - w[j], min=0.0) for j in w}
            regularisers.append(total(excess[j] * V.s(i, j) / tau for j in w))
    contrast = l_wo_reg(z, y, prototypes, tau, overlap_power, **comparison)
    return contrast - mean_of_valid(regularisers, z, prototypes)


# ---- 12-13: MARC, Wg-MARC ------------------------------------------------------------------------


def training_count(labels: LabelSet, train: LabelSets) -> int:
    """The number of training images that carry every one of the labels."""
    return sum(1 for y_t in train if labels <= y_t)


def label_count(k: int, train: LabelSets) -> int:
    """The number of training images with label k; an unseen label counts as one (reading R10)."""
    return max(1, training_count({k}, train))


def pair_frequency(y_i: LabelSet, y_p: LabelSet, train: LabelSets, kind: str = "joint") -> float:
    """f(y_i, y_p), a count of at least 1 (readings R4, R10).

    joint: images with every label of y_i n y_p. pair_mean: mean over a in y_i, b in y_p of the
    images with both; a pair never seen together counts as zero, only the mean is held at 1.
    shared_mean, shared_min: mean, minimum over k in y_i n y_p of the images with k.
    """
    if kind == "joint":
        return max(1, training_count(y_i & y_p, train))
    if kind == "pair_mean":
        both = [training_count({a, b}, train) for a in y_i for b in y_p]
        return max(1.0, sum(both) / len(both))
    shared = [label_count(k, train) for k in y_i & y_p]
    return {"shared_mean": sum(shared) / len(shared), "shared_min": min(shared)}[kind]


def anchor_frequency(y_i: LabelSet, train: LabelSets, kind: str = "mean") -> float:
    """h(y_i): mean or minimum over k in y_i of the training images with k, a count (reading R6)."""
    counts = [label_count(k, train) for k in y_i]
    return {"mean": sum(counts) / len(counts), "min": min(counts)}[kind]


def pair_weight(f: float, eps: float = 1e-8) -> float:
    """w_ip = 1/(log(1 + f(y_i, y_p)) + eps)."""
    return 1.0 / (math.log(1.0 + f) + eps)


def pair_temperature(J: float, h: float, alpha: float = 1.5, beta: float = 0.1) -> float:
    """T_ia = exp(-alpha J(y_i, y_a)) + beta / log(1 + h(y_i))."""
    return math.exp(-alpha * J) + beta / math.log(1.0 + h)


@dataclass(frozen=True)
class Marc:
    """The options of MARC and Wg-MARC, and the w and T of a pair under them."""

    train: LabelSets
    tau: float = 0.3
    alpha: float = 1.5
    beta: float = 0.1
    eps: float = 1e-8
    plr: bool = True
    dts: bool = True
    tau_mode: str = "direct"
    pair_frequency: str = "joint"
    anchor_frequency: str = "mean"
    frequency: str = "count"

    def w(self, y_i: LabelSet, y_p: LabelSet) -> float:
        """w_ip of a pair that shares a label; 1 with PLR off."""
        if not self.plr:
            return 1.0
        f = pair_frequency(y_i, y_p, self.train, self.pair_frequency)
        return pair_weight(f / self.unit_of_frequency(), self.eps)

    def T(self, y_i: LabelSet, y_a: LabelSet) -> float:
        """T_ia, times tau with tau_mode "scale"; tau alone with DTS off (reading R8)."""
        if not self.dts:
            return self.tau
        h = anchor_frequency(y_i, self.train, self.anchor_frequency) / self.unit_of_frequency()
        T = pair_temperature(jaccard(y_i, y_a), h, self.alpha, self.beta)
        return {"direct": T, "scale": self.tau * T}[self.tau_mode]

    def unit_of_frequency(self) -> int:
        """What counts are divided by: 1, or the number of training images (reading R5)."""
        return {"count": 1, "relative": len(self.train)}[self.frequency]


def marc_terms(batch: Batch, i: int, options: Marc) -> list[Tensor]:
    """l_ik = -1/|P_k(i)| sum_{p in P_k(i)} w_ip [s_ip/T_ip - log sum_{a in A(i)} exp(s_ia/T_ia)].

    For every k in y_i with P_k(i) not empty.
    """
    P = {k: batch.having(i, k) for k in sorted(batch.y[i])}
    if not any(P.values()):
        return []
    w = {p: options.w(batch.y[i], batch.u[p]) for p in batch.sharing(i)}
    T = {a: options.T(batch.y[i], batch.u[a]) for a in batch.others(i)}
    log = log_softmax(batch, i, T)
    return [mean([-w[p] * log[p] for p in P_k]) for P_k in P.values() if P_k]


def marc(
    z: Tensor,
    y: LabelSets,
    train: LabelSets,
    z_other: Tensor | None = None,
    y_other: LabelSets | None = None,
    self_index: Sequence[int] | None = None,
    **options: Any,
) -> Tensor:
    """L = mean of MARC's l_ik over all valid (i, k) (reading R9). Options: the fields of `Marc`."""
    batch = make_batch(z, y, z_other, y_other, self_index)
    losses = []
    for i in range(len(batch.z)):
        losses.extend(marc_terms(batch, i, Marc(train, **options)))
    return mean_of_valid(losses, z)


def wg_marc(
    z: Tensor,
    y: LabelSets,
    train: LabelSets,
    z_other: Tensor | None = None,
    y_other: LabelSets | None = None,
    self_index: Sequence[int] | None = None,
    **options: Any,
) -> Tensor:
    """L_i = mean of MARC's l_ik over the valid labels of i; mean over valid i (reading R9)."""
    batch = make_batch(z, y, z_other, y_other, self_index)
    losses = []
    for i in range(len(batch.z)):
        terms = marc_terms(batch, i, Marc(train, **options))
        if terms:
            losses.append(mean(terms))
    return mean_of_valid(losses, z)


# ---- Calibrated MARC -----------------------------------------------------------------------------


def normalised(x: dict[int, float]) -> dict[int, float]:
    """x_p / sum_q x_q."""
    return {p: x[p] / sum(x.values()) for p in x}


def marc_calibrated(
    z: Tensor,
    y: LabelSets,
    tau: float = 0.2,
    delta: float = 0.5,
    gamma: float = 1.0,
    mix: float = 0.5,
    plr: bool = False,
    train: LabelSets = (),
    **comparison: Unpack[Comparison],
) -> Tensor:
    """L_i = -sum_p W_ip log softmax_a(s_ia/T_ia)_p; mean over anchors with a positive.

    W_ip = (1 - mix) a_ip + mix b_ip; a_ip = c_ip w_ip J_ip^gamma and b_ip = |y_i n u_p|, both
    normalised over p; c_ip = sum over shared k of 1/|P_k(i)|; w_ip as PLR;
    T_ia = tau exp(-delta (1 - J_ia)).
    """
    batch = make_batch(z, y, **comparison)
    losses = []
    for i in range(len(batch.z)):
        P = batch.sharing(i)
        if P:
            y_i, u = batch.y[i], batch.u
            J = {a: jaccard(y_i, u[a]) for a in batch.others(i)}
            c = {p: sum(1 / len(batch.having(i, k)) for k in y_i & u[p]) for p in P}
            w = {p: pair_weight(pair_frequency(y_i, u[p], train)) if plr else 1.0 for p in P}
            a = normalised({p: c[p] * w[p] * J[p] ** gamma for p in P})
            b = normalised({p: float(len(y_i & u[p])) for p in P})
            log = log_softmax(batch, i, {j: tau * math.exp(-delta * (1 - J[j])) for j in J})
            losses.append(-total(((1 - mix) * a[p] + mix * b[p]) * log[p] for p in P))
    return mean_of_valid(losses, z)


# ---- Prototype MARC ------------------------------------------------------------------------------


def log_weighted_softmax(
    batch: Batch, i: int, T: dict[int, float], beta: dict[int, float]
) -> dict[int, Tensor]:
    """log q_ip, q_ia = beta_a exp(s_ia/T_ia) / sum_{b in A(i)} beta_b exp(s_ib/T_ib)."""
    terms = {a: beta[a] * torch.exp(batch.s(i, a) / T[a]) for a in batch.others(i)}
    return {a: torch.log(terms[a] / total(terms.values())) for a in terms}


def marc_proto_pairs(
    V: Batch, images: int, tau: float, delta: float, gamma: float, mix: float, beta: float
) -> list[Tensor]:
    """-sum_p W_ip log q_ip of every anchor with a positive; the first `images` comparisons weigh beta.

    W_ip = (1 - mix) a_ip + mix b_ip; a_ip = c_ip J_ip^gamma and b_ip = |y_i n u_p|, both normalised over
    p; c_ip = sum over shared k of 1/|P_k(i)|; T_ia = tau exp(-delta (1 - J_ia)).
    """
    losses = []
    for i in range(len(V.z)):
        positives = V.sharing(i)
        if not positives:
            continue
        overlap = {j: jaccard(V.y[i], V.u[j]) for j in V.others(i)}
        a, b = {}, {}
        for p in positives:
            both = V.y[i] & V.u[p]
            a[p] = sum(1 / len(V.having(i, k)) for k in both) * overlap[p] ** gamma
            b[p] = float(len(both))
        log_q = log_weighted_softmax(
            V,
            i,
            {j: tau * math.exp(delta * (overlap[j] - 1)) for j in overlap},
            {j: beta if j < images else 1.0 for j in overlap},
        )
        W = {p: (1 - mix) * normalised(a)[p] + mix * normalised(b)[p] for p in positives}
        losses.append(-total(W[p] * log_q[p] for p in positives))
    return losses


def marc_proto(
    z: Tensor,
    y: LabelSets,
    prototypes: Tensor,
    train: LabelSets,
    tau: float = 0.3,
    delta: float = 0.5,
    gamma: float = 1.0,
    mix: float = 0.5,
    lam: float = 0.6,
    tau_proto: float = 0.4,
    rarity: float = 0.25,
    beta: float = 1.0,
    prototype_anchors: bool = True,
    **comparison: Unpack[Comparison],
) -> Tensor:
    """L = (1 - lam) L_pair + lam L_proto.

    L_pair: the mean of `marc_proto_pairs` over V = batch + prototypes. L_proto: the mean over labelled
    images of -sum_k t_ik log softmax_l(z_i . c_l / tau_proto)_k, t_ik proportional to n_k^-rarity over
    the labels k of i, n_k the number of training images with k.
    """
    batch = make_batch(z, y, **comparison)
    V = with_prototypes(batch, prototypes)
    if not prototype_anchors:
        V = Batch(batch.z, batch.y, V.v, V.u, batch.own)
    pair_losses = marc_proto_pairs(V, len(batch.v), tau, delta, gamma, mix, beta)
    c = units(prototypes)
    proto_losses = []
    for z_i, y_i in zip(batch.z, batch.y, strict=True):
        if y_i:
            exps = {m: torch.exp(z_i @ c[m] / tau_proto) for m in range(len(c)) if m not in unknown(y_i)}
            t = normalised({k: label_count(k, train) ** -rarity for k in sorted(y_i)})
            proto_losses.append(-total(t[k] * torch.log(exps[k] / total(exps.values())) for k in t))
    pair = mean_of_valid(pair_losses, z, prototypes)
    proto = mean_of_valid(proto_losses, z, prototypes)
    return (1 - lam) * pair + lam * proto
