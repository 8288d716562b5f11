"""The rows shown beside a result: chance and the oracle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import marcir
from marcir.catalog import create_reader
from marcir.data.split import draw_split
from marcir.metrics.relevance import GroundTruth
from marcir.metrics.variants import Variants
from paper import metric_loops as loops

COLUMNS = loops.COLUMNS
CEILING = COLUMNS[:6]
WAP = "wAP@100"
# In percent, from the spec: mean over three splits and sd between splits.
UCM_CHANCE = (66.6, 35.2, 30.3, 13.5, 5.5, 37.5, 26.0)
UCM_SD = (2.5, 1.0, 2.1, 1.0, 0.35, 1.3, 1.3)


def labels(images: int, seed: int = 0, num_labels: int = 6, density: float = 0.35) -> Tensor:
    """Random labels, some of the images unlabelled."""
    y = (torch.rand(images, num_labels, generator=torch.Generator().manual_seed(seed)) < density).long()
    y[:: max(images // 4, 2)] = 0
    return y


def numbers(scores: Sequence[loops.Score]) -> Any:
    return np.array([math.nan if score is None else score for score in scores], dtype=np.float64)


def sides(y: Tensor, u: Tensor | None) -> tuple[list[set[int]], list[list[Any]]]:
    queries = loops.label_sets(y.tolist())
    return queries, loops.galleries(queries, None if u is None else loops.label_sets(u.tolist()))


def random_embeddings(images: int, seed: int, dim: int = 4) -> Tensor:
    return torch.randn(images, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---- Chance --------------------------------------------------------------------------------------


def test_chance_on_the_real_ucm_labels_is_as_published(shared: Path) -> None:
    reader = create_reader("ucm")
    archive = reader.read(shared / "data/ucmerced-multilabel")
    rows = []
    for seed in range(3):
        split = draw_split(archive, seed, "random", reader.SPLIT)
        chance = marcir.chance_scores(archive.labels[split.positions(archive, "test")])
        assert len(chance.per_query[WAP]) == 411
        rows.append([100 * chance[column] for column in COLUMNS])
    found = np.mean(rows, 0)
    for column, value, wanted, sd in zip(COLUMNS, found, UCM_CHANCE, UCM_SD, strict=True):
        assert abs(value - wanted) <= 3 * sd, f"{column}: {value:.2f}, published {wanted} with sd {sd}"


@pytest.mark.parametrize(("queries", "images"), [(80, None), (60, 90), (60, 130)])
def test_chance_is_near_what_a_random_ranking_is_expected_to_score(queries: int, images: int | None) -> None:
    y, u = labels(queries), None if images is None else labels(images, 1)
    chance = marcir.chance_scores(y, gallery_labels=u)
    expected = [loops.chance_query(y_q, gallery) for y_q, gallery in zip(*sides(y, u), strict=True)]
    for column in COLUMNS:
        wanted = numbers([each[column] for each in expected])
        assert chance.left_out[column] == np.isnan(wanted).sum()
        if column != WAP or images != 130:  # no closed form where the cut leaves images out
            assert chance[column] == pytest.approx(np.nanmean(wanted), abs=0.015), column


def test_chance_leaves_out_the_query_itself() -> None:
    # Two images with J = 4/5, each the other's whole gallery: every ranking is the same one.
    chance = marcir.chance_scores(torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]]))
    assert dict(chance) == pytest.approx({**dict.fromkeys(COLUMNS, 1.0), WAP: 0.8}, abs=1e-12)


@pytest.mark.parametrize("reference", ["chance_scores", "oracle_scores"])
def test_a_column_that_leaves_out_every_query_is_nan_beside_the_others(reference: str) -> None:
    scores = getattr(marcir, reference)(torch.tensor([[1, 1], [1, 0]]))  # J = 1/2
    wanted = {**dict.fromkeys(COLUMNS, 1.0), "mAP@J0.6": math.nan, "mAP@J0.8": math.nan, WAP: 0.5}
    assert dict(scores) == pytest.approx(wanted, abs=1e-12, nan_ok=True)
    assert [scores.left_out[column] for column in COLUMNS] == [0, 0, 0, 2, 2, 0, 0]


def test_chance_is_the_same_for_the_same_seed_alone() -> None:
    y = labels(30)
    state = torch.get_rng_state()
    one, same, other = (marcir.chance_scores(y, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    assert dict(one) == dict(same) == dict(marcir.chance_scores(y))
    assert all(one[column] != other[column] for column in COLUMNS)


@pytest.mark.parametrize("variants", [{"ideal": "retrieved"}, {"wap": "threshold"}, {"ap": "trapezoid"}])
def test_chance_follows_the_variants(variants: dict[str, str]) -> None:
    y, u = labels(20), labels(130, 1)
    plain = marcir.chance_scores(y, gallery_labels=u)
    varied = marcir.chance_scores(y, gallery_labels=u, variants=variants)
    changed = {column for column in COLUMNS if not math.isclose(plain[column], varied[column], abs_tol=1e-12)}
    own = {"ideal": {"nDCG(sim)@100", "nDCG@100"}, "wap": {WAP}, "ap": set(COLUMNS[2:5])}
    assert changed == own[next(iter(variants))]


# ---- The oracle ----------------------------------------------------------------------------------


@pytest.mark.parametrize("images", [None, 40, 130])
@pytest.mark.parametrize(
    "variants", [{}, {"ideal": "retrieved"}, {"wap": "threshold"}, {"ap": "trapezoid"}], ids=str
)
def test_the_oracle_agrees_with_the_loops(images: int | None, variants: dict[str, str]) -> None:
    y, u = labels(25), None if images is None else labels(images, 1)
    oracle = marcir.oracle_scores(y, gallery_labels=u, variants=variants)
    chosen = loops.Variants(**variants)
    wanted = [loops.oracle_query(y_q, gallery, chosen) for y_q, gallery in zip(*sides(y, u), strict=True)]
    for column in COLUMNS:
        values = numbers([each[column] for each in wanted])
        np.testing.assert_allclose(oracle.per_query[column], values, atol=1e-9, err_msg=column)
        assert oracle.left_out[column] == np.isnan(values).sum()


@settings(max_examples=30)
@given(
    st.integers(0, 2**16),
    st.integers(2, 30),
    st.one_of(st.none(), st.integers(1, 130)),
    st.sampled_from([{}, {"ideal": "retrieved"}, {"ap": "trapezoid"}]),
)
def test_the_oracle_is_the_maximum_of_the_first_six_columns(
    seed: int, queries: int, images: int | None, variants: dict[str, str]
) -> None:
    y, u = labels(queries, seed), None if images is None else labels(images, seed + 1)
    v = None if images is None else random_embeddings(images, seed + 2)
    z = random_embeddings(queries, seed + 3)
    scores = marcir.retrieval_scores(z, y, gallery_embeddings=v, gallery_labels=u, variants=variants)
    oracle = marcir.oracle_scores(y, gallery_labels=u, variants=variants)
    for column in CEILING:
        np.testing.assert_array_equal(
            np.isnan(scores.per_query[column]), np.isnan(oracle.per_query[column]), column
        )
        kept = ~np.isnan(scores.per_query[column])
        assert (scores.per_query[column][kept] <= oracle.per_query[column][kept] + 1e-12).all(), column
        np.testing.assert_allclose(oracle.per_query[column][kept], 1.0, atol=1e-12, err_msg=column)


def test_the_oracle_ranks_by_shared_labels_for_the_ndcg_of_shared_labels() -> None:
    # Against {a,b,c}: {a,b} overlaps by 2/3 and shares 2; {a,b,c} with five more by 3/8 and shares 3.
    y = torch.tensor([[1, 1, 1, 0, 0, 0, 0, 0]])
    u = torch.tensor([[1, 1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1]])
    oracle = marcir.oracle_scores(y, gallery_labels=u)
    assert oracle["nDCG(sim)@100"] == pytest.approx(1.0)
    assert oracle["nDCG@100"] == pytest.approx(1.0)


def test_the_oracle_of_weighted_precision_can_be_beaten_when_the_gallery_is_larger_than_the_cut() -> None:
    # One equal image, 99 that share nothing and 120 that share a label of ten: in this order the cut leaves
    # one relevant image, where the order by J has a hundred.
    query = [1] * 5 + [0] * 6
    some, none = [1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0], [0] * 10 + [1]
    u = torch.tensor([query] + [none] * 99 + [some] * 120)
    z, v = torch.ones(1, 3), torch.ones(len(u), 3)  # all tie: ranked as they stand
    scores = marcir.retrieval_scores(z, torch.tensor([query]), gallery_embeddings=v, gallery_labels=u)
    oracle = marcir.oracle_scores(torch.tensor([query]), gallery_labels=u)
    assert scores[WAP] == pytest.approx(1.0)
    assert oracle[WAP] < 0.2


@settings(max_examples=20)
@given(st.integers(0, 2**16), st.integers(1, 100))
def test_the_oracle_of_weighted_precision_is_the_maximum_where_the_cut_reaches_the_whole_gallery(
    seed: int, images: int
) -> None:
    y, u = labels(8, seed), labels(images, seed + 1)
    z, v = random_embeddings(8, seed), random_embeddings(images, seed + 1)
    scores = marcir.retrieval_scores(z, y, gallery_embeddings=v, gallery_labels=u).per_query[WAP]
    oracle = marcir.oracle_scores(y, gallery_labels=u).per_query[WAP]
    kept = ~np.isnan(oracle)
    assert (scores[kept] <= oracle[kept] + 1e-12).all()


@pytest.mark.parametrize("images", [None, 50])
def test_chance_lies_under_the_oracle_and_leaves_out_the_same_queries(images: int | None) -> None:
    y, u = labels(40), None if images is None else labels(images, 1)
    chance, oracle = marcir.chance_scores(y, gallery_labels=u), marcir.oracle_scores(y, gallery_labels=u)
    for column in COLUMNS:
        assert chance[column] < oracle[column]
        assert chance.left_out[column] == oracle.left_out[column]


# ---- Labels that cannot tell rankings apart ------------------------------------------------------


def overlaps_of(y: list[list[int]], u: list[list[int]] | None) -> list[set[float]]:
    """The different overlaps that each query ranks, with plain loops."""
    found = []
    for i, query in enumerate(y):
        overlaps = set()
        for a, image in enumerate(y if u is None else u):
            if u is None and a == i:
                continue
            pairs = list(zip(query, image, strict=True))
            shared = sum(pair == (1, 1) for pair in pairs)
            union = sum(1 in pair and -1 not in pair for pair in pairs)
            if shared or not any(1 in pair and -1 in pair for pair in pairs):
                overlaps.add(shared / max(union, 1))
        found.append(overlaps)
    return found


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([(0, 1), (-1, 1), (-1, 0, 1)]))
@settings(max_examples=100, deadline=None)
def test_rankings_differ_where_a_query_ranks_different_overlaps(
    seed: int, own_gallery: bool, states: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(seed)
    y = rng.choice(states, size=(rng.integers(2, 6), rng.integers(1, 4)))
    u = None if own_gallery else rng.choice(states, size=(rng.integers(1, 4), y.shape[1]))
    expected = any(len(each) > 1 for each in overlaps_of(y.tolist(), None if u is None else u.tolist()))
    truth = GroundTruth.from_labels(y, u, Variants())
    assert truth.rankings_differ is expected


def test_rankings_that_do_not_differ_score_the_same_by_chance_and_by_the_labels() -> None:
    y = torch.where(labels(40) > 0, 1, -1)
    assert not GroundTruth.from_labels(y, None, Variants()).rankings_differ
    chance, oracle = marcir.chance_scores(y), marcir.oracle_scores(y)
    assert chance["nDCG@100"] == oracle["nDCG@100"] == 1
