"""The retrieval scores agree with their loops, query by query, on data with every awkward case."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import marcir
from paper import metric_loops as loops

VARIANTS = [
    loops.Variants(*chosen)
    for chosen in itertools.product(("gallery", "retrieved"), ("any", "threshold"), ("sum", "trapezoid"))
]
EXAMPLES = settings(max_examples=60)


# ---- Data ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Queries and a gallery by their seed; without a gallery the queries are each other's."""

    seed: int
    queries: int = 30
    gallery: int | None = None
    whole: bool = True
    num_labels: int = 8
    dim: int = 3
    hidden: float = 0.0  # share of labels that are unknown


@dataclass(frozen=True, eq=False)
class Data:
    z: Tensor
    y: Tensor
    v: Tensor | None = None
    u: Tensor | None = None

    def by_marcir(self, variants: loops.Variants | None = None, **more: Any) -> Any:
        chosen = None if variants is None else vars(variants)
        return marcir.retrieval_scores(
            self.z, self.y, gallery_embeddings=self.v, gallery_labels=self.u, variants=chosen, **more
        )

    def by_loops(
        self, variants: loops.Variants | None = None, training_counts: Sequence[int] | None = None
    ) -> loops.Judged:
        gallery = None
        if self.v is not None and self.u is not None:
            gallery = (self.v.tolist(), loops.label_sets(self.u.tolist()))
        return loops.retrieval_scores(
            self.z.tolist(),
            loops.label_sets(self.y.tolist()),
            self.y.shape[1],
            gallery,
            variants or loops.Variants(),
            training_counts,
        )


@cache
def draw(case: Case) -> Data:
    """Vectors with ties, unlabelled images, labels of one image alone; values are the same in every run."""
    generator = torch.Generator().manual_seed(case.seed)
    z, y = images(case, case.queries, generator)
    if case.gallery is None:
        return Data(z, y)
    return Data(z, y, *images(case, case.gallery, generator))


def images(case: Case, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    if case.whole:  # small whole numbers: different cosines are far apart, and many are equal
        z = torch.randint(-2, 3, (count, case.dim), generator=generator).double()
        z[(z == 0).all(1), 0] = 1.0
    else:
        z = torch.randn(count, case.dim, generator=generator, dtype=torch.float64)
    y = (torch.rand(count, case.num_labels, generator=generator) < 0.3).long()
    y[:, -2:] = 0
    if count >= 10:
        rows = torch.randperm(count, generator=generator)
        z[rows[0]] = z[rows[1]] = z[rows[2]]  # repeated
        z[rows[3]] = 2 * z[rows[4]]  # equal cosines of different vectors
        z[rows[5]] = -z[rows[6]]
        y[rows[7]] = y[rows[1]] = 0  # unlabelled
        y[rows[8]] = 0
        y[rows[8], -1] = 1  # a label of this image alone
        y[rows[9]] = y[rows[2]]  # equal label sets
    if case.hidden:
        y[torch.rand(y.shape, generator=generator) < case.hidden] = -1
        y[0] = -1  # nothing is known
    return z, y


CASES = {
    "leave-one-out with ties": Case(0),
    "leave-one-out, cosines all different": Case(1, whole=False, dim=6),
    "a gallery of its own": Case(2, queries=12, gallery=45),
    "a gallery with cosines all different": Case(3, queries=12, gallery=45, whole=False, dim=6),
    "more images than 100": Case(4, queries=5, gallery=160),
    "two dimensions, ties everywhere": Case(5, queries=25, dim=2),
    "one dimension": Case(6, queries=12, dim=1),
    "many labels": Case(7, queries=20, num_labels=40),
    "leave-one-out above 100": Case(8, queries=112, num_labels=5),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
every_variant = pytest.mark.parametrize(
    "variants", VARIANTS, ids=lambda each: f"{each.ideal} {each.wap} {each.ap}"
)


# ---- The two sides of the comparison -------------------------------------------------------------


def numbers(scores: Sequence[loops.Score]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([math.nan if score is None else score for score in scores], dtype=np.float64)


def assert_same(found: Any, wanted: loops.Judged) -> None:
    assert list(found) == list(loops.COLUMNS)
    for column in loops.COLUMNS:
        per_query = found.per_query[column]
        assert per_query.dtype == np.float64
        close(per_query, numbers(wanted.per_query[column]), column)
        close(found[column], numbers([wanted.mean(column)])[0], column)
        assert found.left_out[column] == wanted.left_out(column), column
    close(found.per_label, numbers(wanted.per_label), "per label")
    close(found.tail, numbers([wanted.tail])[0], "tail")
    assert found.pairs_left_out == wanted.pairs_left_out


def close(found: Any, wanted: Any, what: str) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9, err_msg=what)


def compare(data: Data, variants: loops.Variants | None = None) -> None:
    assert_same(data.by_marcir(variants), data.by_loops(variants))


def data_of(z: object, y: object, v: object = None, u: object = None) -> Data:
    def tensor(rows: object, dtype: torch.dtype) -> Tensor:
        return torch.tensor(rows, dtype=dtype)

    first = tensor(z, torch.float64), tensor(y, torch.int64)
    return Data(*first) if v is None else Data(*first, tensor(v, torch.float64), tensor(u, torch.int64))


# ---- Random data ---------------------------------------------------------------------------------


def test_the_data_hold_every_awkward_case() -> None:
    data = draw(CASES["leave-one-out with ties"])
    judged = data.by_loops()
    assert (data.y.sum(1) == 0).sum() >= 2
    left_out = [judged.left_out(column) for column in loops.COLUMNS]
    assert all(0 < count < len(data.z) for count in left_out)
    assert left_out[0] < left_out[3] < left_out[4]
    assert None in judged.per_label
    # The order of ties matters: with the gallery turned round the scores are others.
    turned = Data(data.z, data.y, data.z.flip(0), data.y.flip(0)).by_loops()
    straight = Data(data.z, data.y, data.z, data.y).by_loops()
    assert all(turned.mean(column) != straight.mean(column) for column in loops.COLUMNS)


@every_variant
@every_case
def test_the_scores_agree_with_the_loops(case: Case, variants: loops.Variants) -> None:
    compare(draw(case), variants)


@pytest.mark.parametrize("seed", range(20, 32))
def test_the_scores_agree_with_the_loops_on_more_data(seed: int) -> None:
    compare(draw(Case(seed, queries=12 + seed % 5, gallery=None if seed % 2 else 10 + seed % 7)))


@every_variant
@pytest.mark.parametrize(
    "case",
    [
        Case(40, hidden=0.1),
        Case(41, hidden=0.6),
        Case(42, queries=12, gallery=45, hidden=0.3),
        Case(43, queries=5, gallery=160, whole=False, hidden=0.3),
        Case(44, queries=112, num_labels=5, hidden=0.3),
    ],
    ids=str,
)
def test_the_scores_agree_with_the_loops_where_labels_are_unknown(
    case: Case, variants: loops.Variants
) -> None:
    data = draw(case)
    compare(data, variants)
    found = data.by_marcir(variants)
    assert 0 < found.pairs_left_out < len(found.ids) * found.gallery
    assert found.share_of_pairs_left_out == found.pairs_left_out / (len(found.ids) * found.gallery)


@pytest.mark.parametrize("side", ["queries", "gallery"])
def test_labels_may_be_unknown_on_one_side_alone(side: str) -> None:
    known, hidden = draw(Case(45, queries=12, gallery=30)), draw(Case(45, queries=12, gallery=30, hidden=0.4))
    y, u = (hidden.y, known.u) if side == "queries" else (known.y, hidden.u)
    compare(Data(known.z, y, known.v, u))


@pytest.mark.parametrize("gallery", [None, 30])
def test_the_oracle_agrees_with_its_loops_where_labels_are_unknown(gallery: int | None) -> None:
    data = draw(Case(46, queries=25, gallery=gallery, num_labels=5, hidden=0.3))
    found = marcir.oracle_scores(data.y, gallery_labels=data.u)
    y, u = loops.label_sets(data.y.tolist()), None if data.u is None else loops.label_sets(data.u.tolist())
    wanted = [loops.oracle_query(y_q, g) for y_q, g in zip(y, loops.galleries(y, u), strict=True)]
    for column in loops.COLUMNS:
        close(found.per_query[column], numbers([scores[column] for scores in wanted]), column)
    assert found.pairs_left_out == data.by_marcir().pairs_left_out


def test_chance_agrees_with_what_is_expected_where_labels_are_unknown() -> None:
    data = draw(Case(47, queries=60, num_labels=5, hidden=0.3))
    found = marcir.chance_scores(data.y)
    y = loops.label_sets(data.y.tolist())
    wanted = [loops.chance_query(y_q, g) for y_q, g in zip(y, loops.galleries(y, None), strict=True)]
    for column in loops.COLUMNS:
        mean = loops.mean([scores[column] for scores in wanted])
        assert found[column] == pytest.approx(mean, abs=0.02), column
    assert found.pairs_left_out == data.by_marcir().pairs_left_out


def test_labels_that_are_all_unknown_leave_out_nothing_and_find_nothing() -> None:
    found = marcir.retrieval_scores(torch.eye(4), torch.full((4, 3), -1))
    assert found.pairs_left_out == 0
    assert found.left_out == dict.fromkeys(loops.COLUMNS, 4)


@every_case
def test_the_defaults_are_the_definitions_of_the_spec(case: Case) -> None:
    found = draw(case).by_marcir()
    named = draw(case).by_marcir(loops.Variants("gallery", "any", "sum"))
    for column in loops.COLUMNS:
        np.testing.assert_array_equal(found.per_query[column], named.per_query[column])


@every_variant
def test_every_variant_changes_its_own_columns_alone(variants: loops.Variants) -> None:
    data = draw(CASES["more images than 100"])
    plain, varied = data.by_marcir(), data.by_marcir(variants)
    expected = set()
    if variants.ideal != "gallery":
        expected |= {"nDCG(sim)@100", "nDCG@100"}
    if variants.wap != "any":
        expected |= {"wAP@100"}
    if variants.ap != "sum":
        expected |= {"mAP@J0.4", "mAP@J0.6", "mAP@J0.8"}
    changed = {
        column
        for column in loops.COLUMNS
        if not np.array_equal(plain.per_query[column], varied.per_query[column], equal_nan=True)
    }
    assert changed == expected


@EXAMPLES
@given(st.data())
def test_small_cases_agree_with_the_loops(draws: st.DataObject) -> None:
    D, L = draws.draw(st.integers(1, 3), "D"), draws.draw(st.integers(1, 4), "L")
    vectors = st.tuples(*[st.integers(-2, 2)] * D).filter(any)
    labels = st.tuples(*[st.integers(0, 1)] * L)

    def side(least: int, name: str) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        rows = draws.draw(st.lists(st.tuples(vectors, labels), min_size=least, max_size=7), name)
        return [z for z, _ in rows], [y for _, y in rows]

    separate = draws.draw(st.booleans(), "separate gallery")
    sides = [*side(1, "queries"), *side(1, "gallery")] if separate else side(2, "images")
    compare(data_of(*sides), draws.draw(st.sampled_from(VARIANTS), "variants"))


# ---- Sizes ---------------------------------------------------------------------------------------


@every_variant
@pytest.mark.parametrize(
    "labels", [(1, 1, 0), (1, 0, 0), (0, 0, 1), (0, 0, 0)], ids=["equal", "half", "none", "unlabelled"]
)
def test_a_gallery_of_one_image(labels: tuple[int, ...], variants: loops.Variants) -> None:
    compare(data_of([(1, 2), (-1, 0)], [(1, 1, 0), (0, 0, 0)], [(-1, 1)], [labels]), variants)


@every_variant
def test_two_images_are_each_others_gallery(variants: loops.Variants) -> None:
    compare(data_of([(1, 2), (-1, -2)], [(1, 1, 0), (1, 1, 0)]), variants)
    compare(data_of([(1, 2), (-1, -2)], [(1, 1, 0), (0, 1, 1)]), variants)
    compare(data_of([(1, 2), (-1, -2)], [(1, 1, 0), (0, 0, 0)]), variants)


@every_variant
@pytest.mark.parametrize("images", [99, 100, 101, 102])
def test_galleries_about_as_large_as_the_cut(images: int, variants: loops.Variants) -> None:
    compare(draw(Case(9, queries=3, gallery=images, num_labels=5)), variants)


# Relevant images at both sides of the cuts: the ranks of the images with each of five labels.
DEEP_RANKS = [(5001,), (1, 5000, 5001), (5000,), (101, 5040), (100, 101)]


@cache
def deep() -> tuple[Data, Tensor]:
    """Queries along the x axis and 5,040 images on an arc from there; their labels in ranked order."""
    N = 5040
    v = torch.tensor(
        [(math.cos(math.pi * i / (N + 1)), math.sin(math.pi * i / (N + 1))) for i in range(1, N + 1)]
    )
    ranked = torch.zeros(N, 5, dtype=torch.int64)
    for label, ranks in enumerate(DEEP_RANKS):
        ranked[[rank - 1 for rank in ranks], label] = 1
    y = torch.cat([torch.eye(5, dtype=torch.int64), torch.tensor([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]])])
    z = torch.tensor([(3.0, 0.0)], dtype=torch.float64).repeat(len(y), 1)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(0))
    return Data(z, y, v.double()[order], ranked[order]), ranked


@pytest.mark.parametrize("variants", [VARIANTS[0], VARIANTS[-1]], ids=["plain", "all variants"])
def test_a_gallery_larger_than_every_cut(variants: loops.Variants) -> None:
    data, ranked = deep()
    y, u = loops.label_sets(data.y.tolist()), loops.label_sets(ranked.tolist())
    wanted = loops.judge(y, [u] * len(y), 5, variants, ranked.sum(0).tolist())
    assert_same(data.by_marcir(variants), wanted)


def test_relevant_images_below_the_cut_score_zero_and_are_not_left_out() -> None:
    scores = deep()[0].by_marcir()
    wanted = [0.0, (1 + 2 / 5000) / 2, 1 / 5000, 1 / 101]
    np.testing.assert_allclose(scores.per_query["mAP(sim)@5000"][:4], wanted, atol=1e-9)
    # The image at rank 5,001 has two labels, one of them the first query's.
    assert scores.per_query["mAP@J0.4"][0] == pytest.approx(1 / 5001, abs=1e-9)
    assert math.isnan(scores.per_query["mAP@J0.8"][0])
    for column in ("nDCG(sim)@100", "nDCG@100", "wAP@100"):
        assert [x > 0 for x in scores.per_query[column][:5]] == [False, True, False, False, True]
    assert all(scores.left_out[column] == 0 for column in ("mAP(sim)@5000", "nDCG@100", "wAP@100"))


def test_where_every_query_is_left_out_the_score_is_nan() -> None:
    scores = data_of([(1, 0), (0, 1), (1, 1)], [(1, 0, 0), (0, 1, 0), (0, 0, 0)]).by_marcir()
    for column in loops.COLUMNS:
        assert math.isnan(scores[column])
        assert scores.left_out[column] == 3
    assert np.isnan(scores.per_label).all()
    assert math.isnan(scores.tail)


# ---- Ties ----------------------------------------------------------------------------------------


def test_images_of_equal_cosine_keep_the_order_of_the_gallery() -> None:
    """Copies at any place of a large matrix product must tie, whatever their last bits are."""
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(12, 67, generator=generator, dtype=torch.float64)
    v = v[torch.randint(12, (157,), generator=generator)]
    u = (torch.rand(157, 6, generator=generator) < 0.3).long()
    wanted = Data(v, u).by_loops()
    assert_same(Data(v, u).by_marcir(), wanted)
    compare(Data(v[:9], u[:9], v, u))
    compare(Data(v[:1], u[:1], v, u))
    for scale in (0.1, 3.0, 1e-6, 1e6):  # cosines do not see lengths
        scales = torch.where(torch.rand(157, 1, generator=generator) < 0.5, scale, 1.0)
        assert_same(Data(v * scales, u).by_marcir(), wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_equal_vectors_leave_the_order_of_the_gallery(dtype: torch.dtype) -> None:
    z = torch.full((40, 33), 0.1, dtype=dtype)
    y = (torch.rand(40, 5, generator=torch.Generator().manual_seed(1)) < 0.4).long()
    sets = loops.label_sets(y.tolist())
    wanted = [loops.query_scores(q, rest) for q, rest in zip(sets, loops.galleries(sets, None), strict=True)]
    scores = Data(z, y).by_marcir()
    for column in loops.COLUMNS:
        close(scores.per_query[column], numbers([each[column] for each in wanted]), column)


# ---- What must not show --------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_pairs", [1, 200])
@every_case
def test_chunks_of_any_size_change_nothing(case: Case, chunk_pairs: int) -> None:
    data = draw(case)
    for variants in (VARIANTS[0], VARIANTS[-1]):
        whole, split = data.by_marcir(variants), data.by_marcir(variants, chunk_pairs=chunk_pairs)
        for column in loops.COLUMNS:
            np.testing.assert_allclose(split.per_query[column], whole.per_query[column], 1e-12, 0)
            np.testing.assert_allclose(split[column], whole[column], 1e-12, 0)
            assert split.left_out[column] == whole.left_out[column]
        np.testing.assert_allclose(split.per_label, whole.per_label, 1e-12, 0)
        np.testing.assert_allclose(split.tail, whole.tail, 1e-12, 0)


@pytest.mark.parametrize("case", [Case(0), Case(8, queries=112, num_labels=5)], ids=["few", "many"])
def test_a_query_scores_the_same_to_the_last_bit_in_chunks_of_any_size(case: Case) -> None:
    """Two runs of one model must not differ where they are compared query by query."""
    whole = draw(case).by_marcir()
    for chunk_pairs in (1, 37, 200):
        split = draw(case).by_marcir(chunk_pairs=chunk_pairs)
        for column in loops.COLUMNS:
            np.testing.assert_array_equal(split.per_query[column], whole.per_query[column], column)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("labels", [torch.bool, torch.uint8, torch.float32], ids=str)
def test_the_kind_of_numbers_changes_nothing(dtype: torch.dtype, labels: torch.dtype) -> None:
    for case in (Case(0), Case(2, queries=12, gallery=45)):
        data = draw(case)
        wanted = data.by_loops()
        other = Data(
            data.z.to(dtype),
            data.y.to(labels),
            None if data.v is None else data.v.to(dtype),
            None if data.u is None else data.u.to(labels),
        )
        assert_same(other.by_marcir(), wanted)


def test_arrays_score_as_tensors_do() -> None:
    for case in (Case(0), Case(2, queries=12, gallery=45)):
        data = draw(case)
        found = marcir.retrieval_scores(
            data.z.numpy(),
            data.y.numpy(),
            gallery_embeddings=None if data.v is None else data.v.numpy(),
            gallery_labels=None if data.u is None else data.u.numpy(),
        )
        assert_same(found, data.by_loops())


def test_arrays_that_cannot_be_written_are_scored() -> None:
    """Columns of a parquet file and memory-mapped arrays are such."""
    data = draw(Case(0))
    z, y = data.z.numpy().copy(), data.y.numpy().copy()
    z.flags.writeable = y.flags.writeable = False
    assert_same(marcir.retrieval_scores(z, y), data.by_loops())


def test_scoring_leaves_its_inputs_and_the_random_state_alone() -> None:
    data = draw(Case(2, queries=12, gallery=45))
    assert data.v is not None
    assert data.u is not None
    before = [x.clone() for x in (data.z, data.y, data.v, data.u)]
    state = torch.get_rng_state()
    first = data.by_marcir()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(x, y) for x, y in zip(before, (data.z, data.y, data.v, data.u), strict=True))
    assert_same(first, data.by_loops())


def test_the_queries_themselves_as_a_gallery_are_not_left_out() -> None:
    data = draw(Case(0))
    compare(replace(data, v=data.z, u=data.y))


# ---- Labels and the tail -------------------------------------------------------------------------


def test_the_tail_follows_the_training_counts_where_they_are_given() -> None:
    data = draw(Case(10, queries=60, num_labels=9))
    tails = set()
    for counts in (range(9), range(9, 0, -1), [5] * 9, [3, 1, 3, 1, 3, 1, 3, 1, 3]):
        wanted = data.by_loops(training_counts=list(counts))
        found = data.by_marcir(training_counts=torch.tensor(list(counts)))
        assert_same(found, wanted)
        tails.add(found.tail)
    assert len(tails) >= 3
    assert_same(data.by_marcir(), data.by_loops())


@pytest.mark.parametrize("num_labels", [1, 2, 3, 4, 6, 7])
def test_the_tail_is_the_rarest_third_rounded_up(num_labels: int) -> None:
    z, y = images(Case(0, num_labels=num_labels + 2), 25, torch.Generator().manual_seed(num_labels))
    compare(Data(z, y[:, :num_labels]))


def test_a_label_of_the_rarest_third_without_a_score_is_skipped() -> None:
    # Labels by count: 0 (one image: no score), 1 (two images), 2 and 3 (four and three): the tail is 0 and 1.
    y = [(1, 0, 1, 0), (0, 1, 1, 1), (0, 1, 0, 1), (0, 0, 1, 1), (0, 0, 1, 0)]
    data = data_of([(1, 0), (2, 1), (-1, 2), (0, -1), (1, -1)], y)
    scores = data.by_marcir()
    assert math.isnan(scores.per_label[0])
    assert scores.tail == pytest.approx(scores.per_label[1], abs=1e-12)
    assert_same(scores, data.by_loops())
