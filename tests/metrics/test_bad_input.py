"""Bad input to the scores gets an error that says what was found."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import marcir
from marcir.errors import BatchError, ConfigError, LabelError, MarcirError

Y = torch.tensor([[1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]])


def z(rows: int = 4, dim: int = 5) -> Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(0))


def z_with(value: float) -> Tensor:
    embeddings = z()
    embeddings[2, 1] = value
    return embeddings


def z_with_zero_row() -> Tensor:
    embeddings = z()
    embeddings[2] = 0
    return embeddings


def y_with(value: float) -> Tensor:
    labels = Y.double()
    labels[1, 2] = value
    return labels


def as_gallery(embeddings: Tensor, labels: Tensor) -> dict[str, Tensor]:
    return {"gallery_embeddings": embeddings, "gallery_labels": labels}


# What is handed in: embeddings, labels and the named rest.
BAD: dict[str, Callable[[], tuple[Tensor, Tensor, dict[str, Any]]]] = {
    "NaN in a vector": lambda: (z_with(math.nan), Y, {}),
    "infinity in a vector": lambda: (z_with(math.inf), Y, {}),
    "a zero vector": lambda: (z_with_zero_row(), Y, {}),
    "NaN in the gallery": lambda: (z(), Y, as_gallery(z_with(math.nan), Y)),
    "-infinity in the gallery": lambda: (z(), Y, as_gallery(z_with(-math.inf), Y)),
    "a zero vector in the gallery": lambda: (z(), Y, as_gallery(z_with_zero_row(), Y)),
    "one vector without a batch": lambda: (z()[0], Y, {}),
    "embeddings of three axes": lambda: (z()[None], Y, {}),
    "labels of one axis": lambda: (z(), Y[:, 0], {}),
    "labels of three axes": lambda: (z(), Y[None], {}),
    "fewer labels than embeddings": lambda: (z(), Y[:3], {}),
    "more labels than embeddings": lambda: (z(3), Y, {}),
    "fewer labels than images in the gallery": lambda: (z(), Y, as_gallery(z(), Y[:3])),
    "vectors of another length in the gallery": lambda: (z(), Y, as_gallery(z(4, 6), Y)),
    "another number of labels in the gallery": lambda: (z(), Y, as_gallery(z(), Y[:, :2])),
    "gallery vectors without labels": lambda: (z(), Y, {"gallery_embeddings": z()}),
    "gallery labels without vectors": lambda: (z(), Y, {"gallery_labels": Y}),
    "a label of 2": lambda: (z(), y_with(2), {}),
    "a label of 0.5": lambda: (z(), y_with(0.5), {}),
    "a label of NaN": lambda: (z(), y_with(math.nan), {}),
    "a label of -2 in the gallery": lambda: (z(), Y, as_gallery(z(), y_with(-2))),
    "one image without a gallery": lambda: (z(1), Y[:1], {}),
    "no images": lambda: (z()[:0], Y[:0], {}),
    "an empty gallery": lambda: (z(), Y, as_gallery(z()[:0], Y[:0])),
    "too few training counts": lambda: (z(), Y, {"training_counts": [1, 2]}),
    "too few label names": lambda: (z(), Y, {"label_names": ["road", "water"]}),
    "too few ids": lambda: (z(), Y, {"ids": ["one", "two"]}),
}
BAD_REFERENCE_LABELS: dict[str, Callable[[], tuple[Tensor, dict[str, Any]]]] = {
    "one axis": lambda: (Y[:, 0], {}),
    "a label of 2": lambda: (y_with(2), {}),
    "another number of labels in the gallery": lambda: (Y, {"gallery_labels": Y[:, :2]}),
}
BAD_VARIANTS = {
    "a misspelt key": ({"idael": "retrieved"}, "Did you mean 'ideal'"),
    "a misspelt ideal": ({"ideal": "retreived"}, "Did you mean 'retrieved'"),
    "a misspelt wap": ({"wap": "treshold"}, "Did you mean 'threshold'"),
    "a misspelt ap": ({"ap": "trapezoidal"}, "Did you mean 'trapezoid'"),
    "a value of another key": ({"ap": "gallery"}, "(sum|trapezoid)"),
    "a name far from any": ({"zzz": "zzz"}, "ideal"),
}
every_variant = pytest.mark.parametrize(("variants", "text"), BAD_VARIANTS.values(), ids=BAD_VARIANTS)


@pytest.mark.parametrize("given", BAD.values(), ids=BAD)
def test_bad_embeddings_and_labels_are_refused(
    given: Callable[[], tuple[Tensor, Tensor, dict[str, Any]]],
) -> None:
    embeddings, labels, more = given()
    with pytest.raises((BatchError, LabelError, ConfigError)) as refusal:
        marcir.retrieval_scores(embeddings, labels, **more)
    assert isinstance(refusal.value, ValueError)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("row", ["NaN in a vector", "a zero vector", "NaN in the gallery"])
def test_an_error_of_a_vector_says_which_row(row: str) -> None:
    embeddings, labels, more = BAD[row]()
    with pytest.raises(BatchError, match=r"\b2\b"):
        marcir.retrieval_scores(embeddings, labels, **more)


@pytest.mark.parametrize("reference", ["chance_scores", "oracle_scores"])
@pytest.mark.parametrize("given", BAD_REFERENCE_LABELS.values(), ids=BAD_REFERENCE_LABELS)
def test_bad_labels_are_refused_by_the_references(
    given: Callable[[], tuple[Tensor, dict[str, Any]]], reference: str
) -> None:
    labels, more = given()
    with pytest.raises((BatchError, LabelError)):
        getattr(marcir, reference)(labels, **more)


@every_variant
def test_an_unknown_variant_is_refused_with_the_nearest_name(variants: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        marcir.retrieval_scores(z(), Y, variants=variants)


@every_variant
def test_an_unknown_variant_is_refused_by_the_references_too(variants: dict[str, str], text: str) -> None:
    with pytest.raises(MarcirError, match=text):
        marcir.chance_scores(Y, variants=variants)
    with pytest.raises(MarcirError, match=text):
        marcir.oracle_scores(Y, variants=variants)


def test_half_precision_vectors_too_long_for_their_squares_are_scored() -> None:
    long = (z() * 1e4).half()
    scores, wanted = marcir.retrieval_scores(long, Y), marcir.retrieval_scores(long.double(), Y)
    assert dict(scores) == pytest.approx(dict(wanted), nan_ok=True)
