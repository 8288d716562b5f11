"""Traps seen in other libraries, and agreement with those libraries where the definitions agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import marcir
from marcir.metrics import (
    average_precision,
    dcg,
    ndcg,
    trapezoid_average_precision,
    weighted_average_precision,
)

SIM_AP, SIM_NDCG, EASY, MEDIUM, HARD, NDCG, WAP = (
    "mAP(sim)@5000",
    "nDCG(sim)@100",
    "mAP@J0.4",
    "mAP@J0.6",
    "mAP@J0.8",
    "nDCG@100",
    "wAP@100",
)
COLUMNS = (SIM_AP, SIM_NDCG, EASY, MEDIUM, HARD, NDCG, WAP)
THRESHOLDS = {EASY: 0.4, MEDIUM: 0.6, HARD: 0.8}
Array = np.ndarray[Any, Any]


def scores_of(ranked: Sequence[Sequence[int]], query: Sequence[int], **more: Any) -> Any:
    """The scores of one query whose gallery has this ranking."""
    N = len(ranked)
    angles = [math.pi * (i + 1) / (N + 1) for i in range(N)]
    return marcir.retrieval_scores(
        torch.tensor([[1.0, 0.0]], dtype=torch.float64),
        torch.tensor([query]),
        gallery_embeddings=torch.tensor([(math.cos(a), math.sin(a)) for a in angles], dtype=torch.float64),
        gallery_labels=torch.tensor(ranked),
        **more,
    )


def draw(queries: int = 12, images: int = 150, labels: int = 6) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries and a gallery without ties, every image with a label."""
    generator = torch.Generator().manual_seed(0)

    def side(count: int) -> tuple[Tensor, Tensor]:
        y = torch.rand(count, labels, generator=generator) < 0.35
        y[torch.arange(count), torch.randint(labels, (count,), generator=generator)] = True
        return torch.randn(count, 9, generator=generator, dtype=torch.float64), y.long()

    return *side(queries), *side(images)


# ---- Negative cosines ----------------------------------------------------------------------------


def test_images_with_negative_cosines_count() -> None:
    z = torch.tensor([[1.0, 0.0]])
    v = torch.tensor([[-1.0, 0.5], [-1.0, 0.1], [-0.1, 1.0]])  # the last is nearest
    u = torch.tensor([[0, 1], [1, 0], [1, 0]])
    scores = marcir.retrieval_scores(z, torch.tensor([[1, 0]]), gallery_embeddings=v, gallery_labels=u)
    for column in (SIM_AP, EASY, MEDIUM, HARD):
        assert scores[column] == pytest.approx((1 + 2 / 3) / 2)
    assert scores[WAP] == pytest.approx((1 + 2 / 3) / 2)
    for column in (SIM_NDCG, NDCG):
        assert scores[column] == pytest.approx(1.5 / (1 + 1 / math.log2(3)))


def test_a_cosine_of_zero_counts() -> None:
    z, v = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0], [0.0, -1.0]])
    u = torch.tensor([[1, 0], [0, 1]])
    scores = marcir.retrieval_scores(z, torch.tensor([[1, 0]]), gallery_embeddings=v, gallery_labels=u)
    assert [scores[column] for column in COLUMNS] == [pytest.approx(1.0)] * 7


# ---- Queries stay apart --------------------------------------------------------------------------


def test_queries_scored_together_score_as_each_alone() -> None:
    z, y, v, u = draw()
    together = marcir.retrieval_scores(z, y, gallery_embeddings=v, gallery_labels=u)
    for q in range(len(z)):
        alone = marcir.retrieval_scores(z[q : q + 1], y[q : q + 1], gallery_embeddings=v, gallery_labels=u)
        for column in COLUMNS:
            np.testing.assert_allclose(together.per_query[column][q], alone[column], atol=1e-12)


def test_a_score_is_the_mean_over_queries_and_not_over_images() -> None:
    relevant = torch.tensor([[True, False, False, False], [False, True, True, True]])
    assert average_precision(relevant).tolist() == pytest.approx([1.0, (1 / 2 + 2 / 3 + 3 / 4) / 3])
    assert trapezoid_average_precision(relevant).tolist() == pytest.approx(
        [1.0, (1 / 4 + 7 / 12 + 17 / 24) / 3]
    )


def test_every_pure_function_gives_one_value_for_each_query() -> None:
    generator = torch.Generator().manual_seed(0)
    overlap = torch.rand(5, 7, generator=generator, dtype=torch.float64)
    hits, best = overlap > 0.5, overlap.sort(1, descending=True).values
    together = [
        average_precision(hits),
        trapezoid_average_precision(hits),
        dcg(overlap),
        ndcg(overlap, best),
        weighted_average_precision(overlap),
        weighted_average_precision(overlap, hits),
    ]
    alone = [
        [average_precision(hits[q : q + 1]) for q in range(5)],
        [trapezoid_average_precision(hits[q : q + 1]) for q in range(5)],
        [dcg(overlap[q : q + 1]) for q in range(5)],
        [ndcg(overlap[q : q + 1], best[q : q + 1]) for q in range(5)],
        [weighted_average_precision(overlap[q : q + 1]) for q in range(5)],
        [weighted_average_precision(overlap[q : q + 1], hits[q : q + 1]) for q in range(5)],
    ]
    for values, rows in zip(together, alone, strict=True):
        assert values.shape == (5,)
        torch.testing.assert_close(values, torch.cat(rows))


# ---- Gain ----------------------------------------------------------------------------------------


def test_the_gain_is_exponential() -> None:
    # r = 1, 3 gain 1, 7; a linear gain would be 1, 3.
    ranked = [[1, 0, 0], [1, 1, 1]]
    scores = scores_of(ranked, [1, 1, 1])
    log = math.log2(3)
    assert scores[SIM_NDCG] == pytest.approx((1 + 7 / log) / (7 + 1 / log), abs=1e-9)
    g = 2 ** (1 / 3) - 1  # of J = 1/3; J = 1 gains 1
    assert scores[NDCG] == pytest.approx((g + 1 / log) / (1 + g / log), abs=1e-9)


def test_many_shared_labels_gain_without_overflow() -> None:
    full = [1] * 60
    scores = scores_of([[1] + [0] * 59, full, full], full)
    log = [1 / math.log2(1 + n) for n in (1, 2, 3)]
    wanted = (log[0] + (2.0**60 - 1) * (log[1] + log[2])) / ((2.0**60 - 1) * (log[0] + log[1]) + log[2])
    assert scores[SIM_NDCG] == pytest.approx(wanted, rel=1e-9)


# ---- Thresholds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32], ids=str)
@pytest.mark.parametrize("union", [*range(1, 11), 15, 20, 25, 30, 35, 40])
def test_an_overlap_on_the_threshold_is_relevant_and_one_below_is_not(union: int, dtype: torch.dtype) -> None:
    y = torch.ones(1, union, dtype=dtype)
    u = torch.tril(torch.ones(union, union)).to(dtype)  # image i shares i + 1 of the query's labels
    z, v = torch.ones(1, 2), torch.ones(union, 2)  # all tie: image i has rank i + 1
    scores = marcir.retrieval_scores(z, y, gallery_embeddings=v, gallery_labels=u)
    for tenths, column in ((4, EASY), (6, MEDIUM), (8, HARD)):
        ranks = [i for i in range(1, union + 1) if 10 * i >= tenths * union]
        wanted = sum(n / rank for n, rank in enumerate(ranks, start=1)) / len(ranks)
        assert scores[column] == pytest.approx(wanted, abs=1e-9), column


@pytest.mark.parametrize("union", [5, 10, 15, 20, 25, 30, 35, 40])
def test_the_threshold_of_weighted_precision_is_exact_too(union: int) -> None:
    on, below = union * 2 // 5, union * 2 // 5 - 1
    ranked = [[1] * on + [0] * (union - on), [1] * below + [0] * (union - below)]
    scores = scores_of(ranked, [1] * union, variants={"wap": "threshold"})
    assert scores[WAP] == pytest.approx(0.4 / 2, abs=1e-9)


# ---- The cut -------------------------------------------------------------------------------------


def test_nothing_below_rank_100_counts_in_the_cut_columns() -> None:
    hit, miss = [1, 0], [0, 1]
    at_100 = scores_of([miss] * 99 + [hit] + [miss] * 20, [1, 0])
    at_101 = scores_of([miss] * 100 + [hit] + [miss] * 19, [1, 0])
    assert at_100[WAP] == pytest.approx(1 / 100)
    assert at_100[NDCG] == at_100[SIM_NDCG] == pytest.approx(1 / math.log2(101))
    assert [at_101[column] for column in (WAP, NDCG, SIM_NDCG)] == [0.0, 0.0, 0.0]
    assert at_101[SIM_AP] == at_101[HARD] == pytest.approx(1 / 101)
    assert set(at_101.left_out.values()) == {0}


def test_the_ideal_of_the_gallery_sees_what_was_not_retrieved() -> None:
    ranked = [[1, 0]] * 1 + [[0, 1]] * 99 + [[1, 0]] * 5
    discounts = [1 / math.log2(1 + n) for n in range(1, 7)]
    assert scores_of(ranked, [1, 0])[NDCG] == pytest.approx(1 / sum(discounts))
    assert scores_of(ranked, [1, 0], variants={"ideal": "retrieved"})[NDCG] == pytest.approx(1.0)


def test_weighted_precision_by_threshold_is_divided_by_a_small_gallery() -> None:
    scores = scores_of([[1, 0], [0, 1], [0, 1], [0, 1]], [1, 0], variants={"wap": "threshold"})
    assert scores[WAP] == pytest.approx(1 / 4)


def test_a_cut_of_nothing_is_not_a_cut_of_everything() -> None:
    relevant = torch.tensor([[True, True, False], [False, False, False]])
    none = relevant[:, :0]
    assert average_precision(none, relevant.sum(1))[0] == 0
    assert average_precision(none).isnan().all()
    assert dcg(relevant[:, :0].double()).tolist() == [0.0, 0.0]


def test_average_precision_is_divided_by_what_it_is_told() -> None:
    relevant = torch.tensor([[True, False, True], [False, False, False], [False, False, False]])
    found = average_precision(relevant)
    assert found[0] == pytest.approx((1 + 2 / 3) / 2)
    assert found[1:].isnan().all()
    whole = average_precision(relevant, torch.tensor([4, 2, 0]))
    assert whole[0] == pytest.approx((1 + 2 / 3) / 4)
    assert whole[1] == 0
    assert whole[2].isnan()


@pytest.mark.parametrize("chunk_pairs", [0, -1])
def test_a_chunk_of_no_pairs_is_refused(chunk_pairs: int) -> None:
    z, y, *_ = draw()
    with pytest.raises(ValueError, match="chunk_pairs"):
        marcir.retrieval_scores(z, y, chunk_pairs=chunk_pairs)


# ---- Unlabelled images ---------------------------------------------------------------------------


def test_two_unlabelled_images_do_not_match() -> None:
    scores = scores_of([[0, 0], [0, 0]], [0, 0])
    for column in COLUMNS:
        assert math.isnan(scores[column])
        assert scores.left_out[column] == 1


def test_an_unlabelled_query_is_left_out_and_an_unlabelled_image_is_a_miss() -> None:
    z, y, v, u = draw()
    y, u = y.clone(), u.clone()
    y[3] = 0
    u[::2] = 0
    scores = marcir.retrieval_scores(z, y, gallery_embeddings=v, gallery_labels=u)
    for column in COLUMNS:
        assert math.isnan(scores.per_query[column][3])
        assert scores.left_out[column] >= 1
        kept = np.delete(scores.per_query[column], 3)
        assert scores[column] == pytest.approx(np.nanmean(kept), abs=1e-12)


def test_the_trapezoid_drops_a_query_without_a_hard_positive_at_every_threshold() -> None:
    ranked = [[1, 1, 1, 0], [1, 1, 1, 1]]  # J = 3/5, 4/5 with the first query; 3/4, 1 with the second
    hard = scores_of(ranked, [1, 1, 1, 1], variants={"ap": "trapezoid"})
    assert [hard.left_out[column] for column in THRESHOLDS] == [0, 0, 0]
    assert hard[HARD] == pytest.approx((0 + 1 / 2) / 2)
    medium = scores_of([[1, 1, 1, 0], [0, 0, 0, 1]], [1, 1, 1, 1], variants={"ap": "trapezoid"})
    assert [medium.left_out[column] for column in COLUMNS] == [0, 0, 1, 1, 1, 0, 0]
    assert scores_of([[1, 1, 1, 0], [0, 0, 0, 1]], [1, 1, 1, 1])[MEDIUM] == pytest.approx(1.0)


# ---- Agreement with other libraries --------------------------------------------------------------


@cache
def without_ties() -> tuple[Array, Array, Array, Any]:
    """Cosines, shared labels and overlaps of queries and gallery, and the scores. (12, 150) each"""
    z, y, v, u = draw()
    cosines = torch.nn.functional.normalize(z) @ torch.nn.functional.normalize(v).T
    r = y @ u.T
    J = r.double() / (y.sum(1)[:, None] + u.sum(1) - r)
    scores = marcir.retrieval_scores(z, y, gallery_embeddings=v, gallery_labels=u)
    return cosines.numpy(), r.numpy(), J.numpy(), scores


def relevance(column: str) -> Array:
    J = without_ties()[2]
    least = 1e-9 if column == SIM_AP else THRESHOLDS[column] - 1e-9
    return np.greater_equal(J, least)


def sklearn() -> Any:
    """scikit-learn's metrics; it is no dependency of ours, but comes with pytorch-metric-learning."""
    return pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")


needs_torchmetrics = pytest.mark.skipif(
    find_spec("torchmetrics") is None or find_spec("torchvision") is None,
    reason="torchmetrics is not installed",
)


@pytest.mark.parametrize("column", [SIM_AP, EASY, MEDIUM, HARD])
def test_average_precision_agrees_with_scikit_learn(column: str) -> None:
    average_precision_score = sklearn().average_precision_score
    cosines, _, _, scores = without_ties()
    relevant = relevance(column)
    for q in np.flatnonzero(relevant.any(1)):
        wanted = average_precision_score(relevant[q], cosines[q])
        assert scores.per_query[column][q] == pytest.approx(wanted, abs=1e-9)
    np.testing.assert_array_equal(np.isnan(scores.per_query[column]), ~relevant.any(1))


@pytest.mark.parametrize("column", [SIM_NDCG, NDCG])
def test_ndcg_agrees_with_scikit_learn_given_exponential_gains(column: str) -> None:
    ndcg_score = sklearn().ndcg_score
    cosines, r, J, scores = without_ties()
    grades = r if column == SIM_NDCG else J
    wanted = [ndcg_score([2.0 ** grades[q] - 1], [cosines[q]], k=100) for q in range(len(grades))]
    np.testing.assert_allclose(scores.per_query[column], wanted, atol=1e-9)


@pytest.fixture(scope="module")
def theirs() -> Any:
    """torchmetrics' retrieval functions; they import torchvision, which may need its operators declared."""
    from marcir.torchvision_shim import declare_operators

    declare_operators()
    from torchmetrics.functional import retrieval

    return retrieval


@needs_torchmetrics
@pytest.mark.parametrize("column", [SIM_AP, EASY, MEDIUM, HARD])
def test_average_precision_agrees_with_torchmetrics_given_positive_similarities(
    column: str, theirs: Any
) -> None:
    cosines, _, _, scores = without_ties()
    relevant = torch.from_numpy(relevance(column))
    for q in relevant.any(1).nonzero().flatten().tolist():
        wanted = theirs.retrieval_average_precision(torch.from_numpy(cosines[q]) + 2, relevant[q])
        assert scores.per_query[column][q] == pytest.approx(wanted.item(), abs=1e-6)


@needs_torchmetrics
@pytest.mark.parametrize("column", [SIM_NDCG, NDCG])
def test_ndcg_agrees_with_torchmetrics_given_exponential_gains(column: str, theirs: Any) -> None:
    cosines, r, J, scores = without_ties()
    gains = torch.from_numpy(2.0 ** (r if column == SIM_NDCG else J) - 1)
    for q, row in enumerate(torch.from_numpy(cosines)):
        wanted = theirs.retrieval_normalized_dcg(row, gains[q], top_k=100)
        assert scores.per_query[column][q] == pytest.approx(wanted.item(), abs=1e-5)


@needs_torchmetrics
def test_torchmetrics_still_ignores_what_has_a_negative_similarity(theirs: Any) -> None:
    """The reason for the trap above; when this fails the trap is gone there, and the docs may say so."""
    cosines, *_ = without_ties()
    relevant = torch.from_numpy(relevance(SIM_AP))[0]
    row = torch.from_numpy(cosines[0])
    assert not torch.allclose(
        theirs.retrieval_average_precision(row, relevant),
        theirs.retrieval_average_precision(row + 2, relevant),
    )
