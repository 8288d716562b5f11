"""What the scores take: arrays and tensors of any kind, and nothing that could be misread."""

from typing import Any

import numpy as np
import pytest
import torch

import marcir
from marcir.errors import BatchError, ConfigError, LabelError, MarcirError
from marcir.metrics import (
    Scores,
    average_precision,
    dcg,
    ndcg,
    trapezoid_average_precision,
    weighted_average_precision,
)

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(9, 4))
Y = (RNG.random((9, 3)) < 0.6).astype(np.int64)
WANTED = dict(marcir.retrieval_scores(Z, Y))


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.setflags(write=False)
    return array


VECTORS: dict[str, Any] = {
    "a list": Z.tolist(),
    "a tensor": torch.tensor(Z),
    "a tensor with a gradient": torch.tensor(Z, requires_grad=True),
    "a read-only array": read_only(Z),
    "bytes in another order": Z.astype(">f8"),
    "columns first": np.asfortranarray(Z),
    "backwards": Z[::-1].copy()[::-1],
    "more digits": Z.astype(np.longdouble),
    "huge values": Z * 1e307,
    "tiny values": Z * 1e-300,
}
MULTI_HOT: dict[str, Any] = {
    "a list": Y.tolist(),
    "a tensor": torch.tensor(Y),
    "truth values": Y.astype(bool),
    "floats": Y.astype(np.float32),
    "small whole numbers": Y.astype(np.uint16),
    "a read-only array": read_only(Y),
    "bytes in another order": Y.astype(">i4"),
    "backwards": Y[::-1].copy()[::-1],
}


@pytest.mark.parametrize("z", VECTORS.values(), ids=VECTORS)
def test_vectors_may_be_given_in_any_form(z: Any) -> None:
    assert dict(marcir.retrieval_scores(z, Y)) == pytest.approx(WANTED, nan_ok=True)


@pytest.mark.parametrize("y", MULTI_HOT.values(), ids=MULTI_HOT)
def test_labels_may_be_given_in_any_form(y: Any) -> None:
    assert dict(marcir.retrieval_scores(Z, y)) == pytest.approx(WANTED, nan_ok=True)
    assert dict(marcir.oracle_scores(y)) == pytest.approx(dict(marcir.oracle_scores(Y)), nan_ok=True)


def test_what_is_given_is_not_changed() -> None:
    z, y = torch.tensor(Z), torch.tensor(Y)
    marcir.retrieval_scores(z, y, gallery_embeddings=z, gallery_labels=y)
    np.testing.assert_array_equal(z, Z)
    np.testing.assert_array_equal(y, Y)


@pytest.mark.parametrize(
    "labels",
    [[["road"], ["tree"]], [["road"], []], ["road", "tree"], [[1, 0], [1]], None, [[None], [1]]],
    ids=str,
)
def test_label_names_are_refused_with_how_to_turn_them_into_rows(labels: Any) -> None:
    with pytest.raises(LabelError, match="LabelVocabulary"):
        marcir.retrieval_scores(Z[:2], labels)


@pytest.mark.parametrize("vectors", [None, "a", Z.astype(complex), torch.tensor(Z).cfloat(), [["a"], ["b"]]])
def test_what_are_no_vectors_is_refused(vectors: Any) -> None:
    with pytest.raises(BatchError, match=r"expected vectors \(N, D\)"):
        marcir.retrieval_scores(vectors, Y)


@pytest.mark.parametrize(
    "counts",
    [[1.5, 2, 3], [-1, 2, 3], ["a", "b", "c"], [np.nan, 1, 2], [np.inf, 1, 2], [True, False, True]],
    ids=str,
)
def test_training_counts_that_count_nothing_are_refused(counts: Any) -> None:
    with pytest.raises(BatchError, match="training_counts"):
        marcir.retrieval_scores(Z, Y, training_counts=counts)


@pytest.mark.parametrize("counts", [[3, 1, 2], np.array([3.0, 1, 2]), torch.tensor([3, 1, 2])])
def test_training_counts_say_what_is_rare(counts: Any) -> None:
    scores = marcir.retrieval_scores(Z, Y, training_counts=counts)
    assert scores.tail == scores.per_label[1]


def test_a_double_id_or_label_name_is_refused_with_it() -> None:
    with pytest.raises(BatchError, match="ids: duplicate 'b'"):
        marcir.retrieval_scores(Z, Y, ids=list("abcdbefgh"))
    with pytest.raises(BatchError, match="label_names: duplicate 'x'"):
        marcir.retrieval_scores(Z, Y, label_names=["x", "y", "x"])


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, "1"])
def test_a_seed_that_no_generator_takes_is_refused(seed: Any) -> None:
    with pytest.raises(ConfigError, match="seed"):
        marcir.chance_scores(Y, seed=seed)


@pytest.mark.parametrize("variants", ["retrieved", ["ideal"], {"ideal": ["retrieved"]}, {"ideal": None}, 1])
def test_variants_that_are_no_mapping_of_names_are_refused(variants: Any) -> None:
    with pytest.raises(ConfigError, match=r"variants|ideal"):
        marcir.retrieval_scores(Z, Y, variants=variants)


def test_scores_per_label_that_were_not_asked_for_are_refused() -> None:
    scores = marcir.retrieval_scores(Z, Y, per_label=False)
    with pytest.raises(MarcirError, match="no values per label"):
        _ = scores.tail


def test_scores_are_a_mapping() -> None:
    scores = marcir.retrieval_scores(Z, Y)
    assert len(scores) == 7
    assert "wAP@100" in scores
    assert "wAP@10" not in scores
    assert repr(scores).startswith("Scores(mAP(sim)@5000=0.")


@pytest.mark.parametrize("more", [{}, {"variants": {"wap": "threshold"}}, {"per_label": False}], ids=str)
def test_scores_survive_the_way_through_json(more: dict[str, Any]) -> None:
    scores = marcir.retrieval_scores(Z, Y, **more)
    again = Scores.from_json(scores.as_json(), "here")
    assert again.as_json() == scores.as_json()
    assert "pairs_left_out" not in scores.as_json()
    chance = marcir.chance_scores(Y)
    assert Scores.from_json(chance.as_json(), "here").standard_error == chance.standard_error


def test_the_pairs_left_out_survive_the_way_through_json() -> None:
    scores = marcir.retrieval_scores(torch.eye(3), [[1, 0], [-1, 1], [0, 1]])
    assert scores.pairs_left_out == 2
    assert Scores.from_json(scores.as_json(), "here").pairs_left_out == 2


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.uint8, torch.float32])
def test_relevance_may_be_truth_values_or_0_and_1(dtype: torch.dtype) -> None:
    relevant = torch.tensor([[1, 0, 0, 1]]).to(dtype)
    assert average_precision(relevant).item() == pytest.approx((1 + 2 / 4) / 2)
    assert trapezoid_average_precision(relevant).item() == pytest.approx((1 + (1 / 3 + 2 / 4) / 2) / 2)


def test_formulas_take_tensors_with_a_gradient() -> None:
    J = torch.tensor([[0.5, 0.25]], requires_grad=True)
    assert weighted_average_precision(J).item() == pytest.approx((0.5 + 0.375) / 2)
    assert ndcg(J, J).item() == pytest.approx(1)
    assert dcg(J).item() == pytest.approx(0.5 + 0.25 / np.log2(3))
