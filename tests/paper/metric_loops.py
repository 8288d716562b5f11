"""The retrieval metrics as plain loops over queries, ranks and labels: reference values.

Written from the definitions alone. Notation: query q with label set y_q; its gallery in ranked order,
the image at rank i (from 1) with label set u_i; r_i = |y_q n u_i| shared labels; J_i their Jaccard
overlap, an exact fraction. A score is None where the query is left out: no image of its whole gallery is
relevant (reading R22). Where labels are unknown (reading R24), J counts what both images know, and an image
that shares no known label but may share one is not ranked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction

LabelSet = AbstractSet[int]
LabelSets = Sequence[LabelSet]
Vector = Sequence[float]
Score = float | None

COLUMNS = (
    "mAP(sim)@5000",
    "nDCG(sim)@100",
    "mAP@J0.4",
    "mAP@J0.6",
    "mAP@J0.8",
    "nDCG@100",
    "wAP@100",
)
EASY, MEDIUM, HARD = Fraction(4, 10), Fraction(6, 10), Fraction(8, 10)


@dataclass(frozen=True)
class Variants:
    """The named variants; the defaults are the spec's."""

    ideal: str = "gallery"
    wap: str = "any"
    ap: str = "sum"


PLAIN = Variants()


# ---- Labels --------------------------------------------------------------------------------------


class Labels(frozenset[int]):
    """A label set with the labels that are unknown."""

    unknown: frozenset[int]


def label_sets(rows: Sequence[Sequence[float]]) -> list[LabelSet]:
    """Turn rows (N, L) of 0, 1 and -1 (unknown) into label sets."""
    sets = []
    for row in rows:
        labels = Labels(k for k, value in enumerate(row) if value == 1)
        labels.unknown = frozenset(k for k, value in enumerate(row) if value == -1)
        sets.append(labels)
    return sets


def unknown(y: LabelSet) -> LabelSet:
    """The labels that are unknown for an image."""
    return y.unknown if isinstance(y, Labels) else frozenset()


def may_share(y_q: LabelSet, u: LabelSet) -> bool:
    """Whether they share no known label, but one that is present in one and unknown in the other."""
    return not y_q & u and any(k in unknown(u) for k in y_q) | any(k in unknown(y_q) for k in u)


def shared(y_q: LabelSet, u: LabelSet) -> int:
    """r = |y_q n u|."""
    return sum(1 for k in y_q if k in u)


def jaccard(y_q: LabelSet, u: LabelSet) -> Fraction:
    """J = |y_q n u| / |y_q u u|, of the labels that both know; 0 for two empty sets."""
    r = shared(y_q, u)
    union = len([k for k in y_q if k not in unknown(u)]) + len([k for k in u if k not in unknown(y_q)]) - r
    return Fraction(r, union) if union else Fraction(0)


# ---- The order -----------------------------------------------------------------------------------


def nearness(z: Vector, v: Vector) -> float:
    """cos |cos| |z|^2, which orders a gallery as its cosines with z do.

    For small whole numbers the products are exact and the quotient is rounded once: equal cosines are equal.
    """
    dot = math.fsum(a * b for a, b in zip(z, v, strict=True))
    return dot * abs(dot) / math.fsum(b * b for b in v)


def ranking(z: Vector, gallery: Sequence[Vector], own: int | None = None) -> list[int]:
    """The gallery's rows without the query's own, nearest first; equal ones keep the gallery's order."""
    near = [nearness(z, v) for v in gallery]
    rows = [i for i in range(len(gallery)) if i != own]
    return sorted(rows, key=lambda i: (-near[i], i))


def oracle_order(values: Sequence[Fraction | int]) -> list[int]:
    """The rows from the largest value to the smallest."""
    return sorted(range(len(values)), key=lambda i: (-values[i], i))


# ---- One query: its gallery in ranked order ------------------------------------------------------


def average_precision(relevant: Sequence[bool], total: int) -> Score:
    """1/total sum over ranks n of P@n rel_n; None where total is 0."""
    if total == 0:
        return None
    found, precisions = 0, []
    for n, hit in enumerate(relevant, start=1):
        if hit:
            found += 1
            precisions.append(found / n)
    return math.fsum(precisions) / total


def average_precision_of_found(relevant: Sequence[bool], K: int) -> Score:
    """AP@K divided by the relevant images in the top K; 0 where they all lie deeper."""
    if not any(relevant):
        return None
    top = relevant[:K]
    return average_precision(top, sum(top)) if any(top) else 0.0


def trapezoid_average_precision(relevant: Sequence[bool]) -> Score:
    """1/R sum over the relevant ranks n of (P@(n-1) + P@n) / 2, with P@0 = 1."""
    R = sum(relevant)
    if R == 0:
        return None
    found, areas = 0, []
    for n, hit in enumerate(relevant, start=1):
        before = found / (n - 1) if n > 1 else 1.0
        if hit:
            found += 1
            areas.append((before + found / n) / 2)
    return math.fsum(areas) / R


def dcg(gains: Sequence[float]) -> float:
    """Sum over ranks n of gain_n / log2(1 + n)."""
    return math.fsum(gain / math.log2(1 + n) for n, gain in enumerate(gains, start=1))


def ndcg(grades: Sequence[Fraction | int], K: int, ideal: str = "gallery") -> Score:
    """DCG@K of the gains 2^grade - 1 by the best one: of the whole gallery, or of the retrieved top K."""
    gains = [2.0**grade - 1.0 for grade in grades]
    if not any(gains):
        return None
    candidates = gains if ideal == "gallery" else gains[:K]
    best = dcg(sorted(candidates, reverse=True)[:K])
    return dcg(gains[:K]) / best if best else 0.0


def weighted_average_precision(J: Sequence[Fraction], K: int) -> Score:
    """1/N_phi@K sum over ranks i <= K of phi_i (1/i) sum_{j <= i} J_j, phi = [J > 0] (readings R21, R23)."""
    if not any(J):
        return None
    phi = [overlap > 0 for overlap in J[:K]]
    return math.fsum(prefix_means(J[:K], phi)) / sum(phi) if any(phi) else 0.0


def threshold_weighted_average_precision(J: Sequence[Fraction], K: int) -> Score:
    """The variant: phi = [J >= 0.4], divided by min(K, gallery)."""
    phi = [overlap >= EASY for overlap in J]
    if not any(phi):
        return None
    return math.fsum(prefix_means(J[:K], phi[:K])) / min(K, len(J))


def prefix_means(J: Sequence[Fraction], phi: Sequence[bool]) -> list[float]:
    """(1/i) sum_{j <= i} J_j for every rank i with phi_i."""
    means, total = [], Fraction(0)
    for i, overlap in enumerate(J, start=1):
        total += overlap
        if phi[i - 1]:
            means.append(float(total / i))
    return means


def query_scores(y_q: LabelSet, ranked: LabelSets, variants: Variants = PLAIN) -> dict[str, Score]:
    """The seven columns of one query; `ranked` are the label sets of its gallery, nearest first."""
    ranked = [u for u in ranked if not may_share(y_q, u)]
    r = [shared(y_q, u) for u in ranked]
    J = [jaccard(y_q, u) for u in ranked]
    wap = weighted_average_precision if variants.wap == "any" else threshold_weighted_average_precision
    easy, medium, hard = (threshold_score(J, t, variants) for t in (EASY, MEDIUM, HARD))
    scores = (
        average_precision_of_found([count > 0 for count in r], 5000),
        ndcg(r, 100, variants.ideal),
        easy,
        medium,
        hard,
        ndcg(J, 100, variants.ideal),
        wap(J, 100),
    )
    return dict(zip(COLUMNS, scores, strict=True))


def threshold_score(J: Sequence[Fraction], threshold: Fraction, variants: Variants) -> Score:
    """AP over the whole gallery where J >= threshold is relevant.

    The trapezoid variant drops a query without a hard positive at every threshold.
    """
    relevant = [overlap >= threshold for overlap in J]
    if variants.ap == "sum":
        return average_precision(relevant, sum(relevant))
    if not any(overlap >= HARD for overlap in J):
        return None
    return trapezoid_average_precision(relevant)


# ---- All queries ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """What the queries score: a list for each column, and the per-label APs with their tail."""

    per_query: dict[str, list[Score]]
    per_label: list[Score]
    tail: Score
    pairs_left_out: int

    def mean(self, column: str) -> Score:
        """The mean over the queries that are not left out."""
        return mean(self.per_query[column])

    def left_out(self, column: str) -> int:
        """How many queries the column leaves out."""
        return sum(1 for score in self.per_query[column] if score is None)


def retrieval_scores(
    z: Sequence[Vector],
    y: LabelSets,
    num_labels: int,
    gallery: tuple[Sequence[Vector], LabelSets] | None = None,
    variants: Variants = PLAIN,
    training_counts: Sequence[int] | None = None,
) -> Judged:
    """Every query against the gallery, or, without one, against the other queries."""
    v, u = (z, y) if gallery is None else gallery
    ranked = []
    for q in range(len(z)):
        rows = ranking(z[q], v, own=q if gallery is None else None)
        ranked.append([u[i] for i in rows])
    counts = [sum(1 for labels in u if k in labels) for k in range(num_labels)]
    return judge(y, ranked, num_labels, variants, counts if training_counts is None else training_counts)


def judge(
    y: LabelSets,
    ranked: Sequence[LabelSets],
    num_labels: int,
    variants: Variants,
    counts: Sequence[int],
) -> Judged:
    """The scores of the queries, each with the label sets of its own ranked gallery."""
    scores = [query_scores(y_q, gallery, variants) for y_q, gallery in zip(y, ranked, strict=True)]
    per_query = {column: [score[column] for score in scores] for column in COLUMNS}
    per_label = [label_score(k, y, ranked) for k in range(num_labels)]
    pairs = [may_share(y_q, u) for y_q, gallery in zip(y, ranked, strict=True) for u in gallery]
    return Judged(per_query, per_label, tail(per_label, counts), sum(pairs))


def label_score(k: int, y: LabelSets, ranked: Sequence[LabelSets]) -> Score:
    """Mean AP of the queries with label k, where the images with label k are relevant."""
    scores = []
    for y_q, gallery in zip(y, ranked, strict=True):
        if k in y_q:
            relevant = [k in u for u in gallery if k not in unknown(u)]
            scores.append(average_precision(relevant, sum(relevant)))
    return mean(scores)


def tail(per_label: Sequence[Score], counts: Sequence[int]) -> Score:
    """The mean over the rarest third of the labels, those without a score skipped."""
    L = len(per_label)
    rarest = sorted(range(L), key=lambda k: (counts[k], k))[: (L + 2) // 3]
    return mean([per_label[k] for k in rarest])


def mean(scores: Sequence[Score]) -> Score:
    """The mean of the scores that are not None; None of none."""
    kept = [score for score in scores if score is not None]
    return math.fsum(kept) / len(kept) if kept else None


# ---- The rows shown beside a result --------------------------------------------------------------


def galleries(y: LabelSets, u: LabelSets | None) -> list[list[LabelSet]]:
    """The label sets of each query's gallery, in the gallery's order."""
    if u is not None:
        return [list(u) for _ in y]
    return [[y[i] for i in range(len(y)) if i != q] for q in range(len(y))]


def oracle_query(y_q: LabelSet, gallery: LabelSets, variants: Variants = PLAIN) -> dict[str, Score]:
    """The columns of a query whose gallery is ranked by J, for nDCG(sim) by r."""
    by_J = [gallery[i] for i in oracle_order([jaccard(y_q, u) for u in gallery])]
    by_r = [gallery[i] for i in oracle_order([shared(y_q, u) for u in gallery])]
    scores = query_scores(y_q, by_J, variants)
    return scores | {"nDCG(sim)@100": query_scores(y_q, by_r, variants)["nDCG(sim)@100"]}


def expected_average_precision(N: int, R: int) -> Score:
    """E AP over all orders of N images, R of them relevant.

    Rank n is relevant with probability R/N; another rank is then relevant with probability (R-1)/(N-1).
    """
    if R == 0:
        return None
    other = (R - 1) / (N - 1) if N > 1 else 0.0
    return math.fsum((1 + (n - 1) * other) / n for n in range(1, N + 1)) / N


def expected_ndcg(grades: Sequence[Fraction | int], K: int) -> Score:
    """E nDCG@K over all orders, by the gallery's ideal: every rank has the mean gain."""
    gains = [2.0**grade - 1.0 for grade in grades]
    if not any(gains):
        return None
    gain = math.fsum(gains) / len(gains)
    return dcg([gain] * min(K, len(gains))) / dcg(sorted(gains, reverse=True)[:K])


def expected_weighted_average_precision(J: Sequence[Fraction]) -> Score:
    """E wAP over all orders where K reaches the whole gallery.

    sum_i phi_i/i (J_i + sum_{j < i} J_j): a relevant rank has the mean J of the relevant images, R a/N of all
    ranks; another rank has J_b beside a relevant a with sum over a /= b = R S - S of N (N-1) pairs.
    """
    N, R, S = len(J), sum(1 for overlap in J if overlap), sum(J)
    if R == 0:
        return None
    own = float(S / N)
    other = float((R * S - S) / (N * (N - 1))) if N > 1 else 0.0
    return math.fsum((own + (n - 1) * other) / n for n in range(1, N + 1)) / R


def chance_query(y_q: LabelSet, gallery: LabelSets) -> dict[str, Score]:
    """The expected columns of a random ranking; wAP only where the gallery has at most 100 images."""
    gallery = [u for u in gallery if not may_share(y_q, u)]
    r = [shared(y_q, u) for u in gallery]
    J = [jaccard(y_q, u) for u in gallery]
    N = len(gallery)
    scores = (
        expected_average_precision(N, sum(1 for count in r if count)),
        expected_ndcg(r, 100),
        *(expected_average_precision(N, sum(1 for x in J if x >= t)) for t in (EASY, MEDIUM, HARD)),
        expected_ndcg(J, 100),
        expected_weighted_average_precision(J),
    )
    return dict(zip(COLUMNS, scores, strict=True))
