"""The curves of the figures against plain loops over queries, hits and pairs."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import marcir
from marcir.metrics.curves import EDGES, Curves, CurveSums
from paper import metric_loops as loops

Grid = list[list[int]]
TENTHS = [Fraction(tenth, 10) for tenth in range(1, 11)]


def world(images: int, seed: int, labels: int = 6) -> tuple[Grid, Grid]:
    """Small whole numbers as vectors, so that many cosines tie; labels, some images without any."""
    rng = np.random.default_rng(seed)
    z = rng.integers(-2, 3, (images, 3))
    z[~z.any(1)] = 1
    y = (rng.random((images, labels)) < 0.4).astype(int)
    y[:: max(images // 3, 2)] = 0
    return z.tolist(), y.tolist()


def curves_of(
    queries: tuple[Grid, Grid], gallery: tuple[Grid, Grid] | None = None, pairs: int | None = None
) -> Curves:
    sums = CurveSums()
    more: dict[str, Any] = {}
    if gallery is not None:
        more = {"gallery_embeddings": torch.tensor(gallery[0]), "gallery_labels": torch.tensor(gallery[1])}
    z, y = map(torch.tensor, queries)
    marcir.retrieval_scores(z, y, **more, observers=[sums], chunk_pairs=pairs)
    return sums.curves()


def ranked_overlaps(queries: tuple[Grid, Grid], gallery: tuple[Grid, Grid] | None) -> list[list[Fraction]]:
    """J of the hit at every rank, of every query that has labels."""
    z, y = queries[0], loops.label_sets(queries[1])
    v, u = (z, y) if gallery is None else (gallery[0], loops.label_sets(gallery[1]))
    found = []
    for q in range(len(z)):
        if y[q]:
            order = loops.ranking(z[q], v, own=q if gallery is None else None)
            order = [i for i in order if not loops.may_share(y[q], u[i])]
            found.append([loops.jaccard(y[q], u[i]) for i in order])
    return found


def mean(values: Sequence[Any]) -> float:
    return float(sum(values)) / len(values)


def share(overlaps: Sequence[Fraction], threshold: Fraction) -> float:
    return mean([overlap >= threshold for overlap in overlaps])


WORLDS = {
    "leave one out": (world(30, 0), None),
    "a gallery": (world(12, 1), world(25, 2)),
    "a gallery of more than a hundred": (world(8, 3), world(130, 4)),
    "fewer hits than ten": (world(5, 5), None),
    "one image as the gallery": (world(9, 6), world(1, 8)),
}
every_world = pytest.mark.parametrize(("queries", "gallery"), WORLDS.values(), ids=WORLDS)


@every_world
def test_precision_by_threshold_is_the_share_of_the_first_ten_hits(queries: Any, gallery: Any) -> None:
    curves, ranked = curves_of(queries, gallery), ranked_overlaps(queries, gallery)
    for place, t in enumerate(TENTHS):
        assert curves.precision[place] == pytest.approx(mean([share(J[:10], t) for J in ranked]), abs=1e-12)
        best = [sorted(J, reverse=True)[:10] for J in ranked]
        assert curves.precision_oracle[place] == pytest.approx(mean([share(J, t) for J in best]), abs=1e-12)
        assert curves.precision_chance[place] == pytest.approx(mean([share(J, t) for J in ranked]), abs=1e-12)


@every_world
def test_overlap_by_rank_is_the_mean_over_queries(queries: Any, gallery: Any) -> None:
    curves, ranked = curves_of(queries, gallery), ranked_overlaps(queries, gallery)
    K = min(100, len(ranked[0]))
    assert len(curves.overlap) == len(curves.overlap_oracle) == len(curves.overlap_chance) == K
    any_image = mean([mean(J) for J in ranked])
    for n in range(K):
        assert curves.overlap[n] == pytest.approx(mean([J[n] for J in ranked]), abs=1e-12)
        best = mean([sorted(J, reverse=True)[n] for J in ranked])
        assert curves.overlap_oracle[n] == pytest.approx(best, abs=1e-12)
        assert curves.overlap_chance[n] == pytest.approx(any_image, abs=1e-6)


@every_world
def test_cosines_are_gathered_by_bins_of_the_overlap(queries: Any, gallery: Any) -> None:
    curves = curves_of(queries, gallery)
    v, u = queries if gallery is None else gallery
    bins: list[list[float]] = [[] for _ in EDGES]
    for q, (z, y) in enumerate(zip(*queries, strict=True)):
        for i in range(len(v)):
            sets = loops.label_sets([y, u[i]])
            if (gallery is not None or i != q) and not loops.may_share(*sets):
                J = loops.jaccard(*sets)
                dot = sum(a * b for a, b in zip(z, v[i], strict=True))
                bins[math.ceil(10 * J)].append(dot / math.hypot(*z) / math.hypot(*v[i]))
    assert curves.pairs.tolist() == [len(cosines) for cosines in bins]
    for place, cosines in enumerate(bins):
        if cosines:
            sd = math.sqrt(mean([(cosine - mean(cosines)) ** 2 for cosine in cosines]))
            assert curves.similarity_mean[place] == pytest.approx(mean(cosines), abs=1e-9)
            assert curves.similarity_sd[place] == pytest.approx(sd, abs=1e-6)
        else:
            assert math.isnan(curves.similarity_mean[place])


def test_images_that_may_share_a_label_are_in_no_curve() -> None:
    z, y = world(30, 9)
    hidden = np.random.default_rng(9).random((30, 6)) < 0.2
    queries = z, np.where(hidden, -1, y).tolist()
    test_precision_by_threshold_is_the_share_of_the_first_ten_hits(queries, None)
    test_cosines_are_gathered_by_bins_of_the_overlap(queries, None)


@pytest.mark.parametrize("queries", [world(30, 0), world(40, 7, labels=10)])
def test_the_curves_do_not_depend_on_the_chunks(queries: tuple[Grid, Grid]) -> None:
    one, other = curves_of(queries, pairs=1), curves_of(queries, pairs=300)
    for name, values in vars(one).items():
        np.testing.assert_allclose(getattr(other, name), values, atol=1e-12, err_msg=name)


def test_overlaps_on_an_edge_belong_to_the_bin_that_ends_there() -> None:
    # Against ten labels: 1, 2 ... 10 shared are J = 0.1, 0.2 ... 1, each the last of its bin.
    gallery = [[1] * shared + [0] * (10 - shared) for shared in range(11)]
    z = [[1]] * 11
    curves = curves_of(([[1]], [[1] * 10]), (z, gallery))
    assert curves.pairs.tolist() == [1] * 11
    assert curves.precision_chance.tolist() == pytest.approx([(11 - tenth) / 11 for tenth in range(1, 11)])


def test_without_a_labelled_query_there_are_no_curves() -> None:
    curves = curves_of(([[1], [2]], [[0, 0], [0, 0]]))
    assert curves.overlap.size == 0
    assert np.isnan(curves.precision).all()
    assert curves.pairs.tolist() == [2, *[0] * 10]
    assert curves.as_json()["precision"] == [None] * 10
