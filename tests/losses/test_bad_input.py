"""Bad input gets an error that says what was found; every error is one of marcir's own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import marcir
from marcir.catalog import LOSSES, loss_options
from marcir.errors import BatchError, ConfigError, LabelError, MarcirError
from marcir.labels import LabelStatistics
from marcir.losses import CalibratedMARCLoss, LProtoLoss, MARCLoss, MultiLabelLoss, SupConAnyLoss

D, L = 4, 3
TRAINING = torch.tensor([[1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]])
WITH_PROTOTYPES = ["lproto", "lmsc", "l-wo-reg", "lreg", "marc-proto"]
KNOWS_ITS_LABELS = [*WITH_PROTOTYPES, "marc", "wg-marc"]
WITH_TAU = [name for name in LOSSES if "tau" in loss_options(name)]

every_loss = pytest.mark.parametrize("name", LOSSES)


def make(name: str, **options: Any) -> MultiLabelLoss:
    statistics = LabelStatistics.from_labels(TRAINING)
    return marcir.create_loss(name, statistics=statistics, embedding_dim=D, **options)


def z(rows: int = 4, dim: int = D) -> Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(0))


def y(rows: int = 4, labels: int = L) -> Tensor:
    return torch.cat([TRAINING, torch.zeros(4, 2).long()], 1).repeat(2, 1)[:rows, :labels]


def z_with(value: float, row: int = 2) -> Tensor:
    embeddings = z()
    embeddings[row, 1] = value
    return embeddings


def y_with(value: float, dtype: torch.dtype = torch.float64) -> Tensor:
    labels = y().to(dtype)
    labels[1, 2] = value
    return labels


# ---- Batches -------------------------------------------------------------------------------------

# What is handed in, and the part of the error that says what was found.
BAD_BATCHES: dict[str, tuple[Callable[[], tuple[Any, ...]], str]] = {
    "z is longer than y": (lambda: (z(4), y(3)), "embeddings has 4 rows and labels has 3"),
    "y is longer than z": (lambda: (z(3), y(4)), "embeddings has 3 rows and labels has 4"),
    "views and labels of each view": (
        lambda: (z(8).view(4, 2, D), y(8)),
        "embeddings has 4 rows and labels has 8",
    ),
    "a label of 2": (lambda: (z(), y_with(2, torch.int64)), "labels: must be 0, 1 or -1 (unknown), found 2"),
    "a label of -2": (lambda: (z(), y_with(-2, torch.int64)), "found -2 in row 1, column 2"),
    "a label of 0.5": (lambda: (z(), y_with(0.5)), "labels: must be 0, 1 or -1 (unknown), found 0.5"),
    "a label of NaN": (lambda: (z(), y_with(math.nan)), "labels: must be 0, 1 or -1 (unknown), found nan"),
    "a label of infinity": (
        lambda: (z(), y_with(math.inf)),
        "labels: must be 0, 1 or -1 (unknown), found inf",
    ),
    "a label of -infinity": (
        lambda: (z(), y_with(-math.inf)),
        "labels: must be 0, 1 or -1 (unknown), found -inf",
    ),
    "a label of 1e200": (lambda: (z(), y_with(1e200)), "labels: must be 0, 1 or -1 (unknown), found"),
    "a label of 255": (
        lambda: (z(), y_with(255, torch.uint8)),
        "labels: must be 0, 1 or -1 (unknown), found 255",
    ),
    "NaN in z": (
        lambda: (z_with(math.nan), y()),
        "embeddings has NaN or infinite values in 1 of 4 rows, first row 2",
    ),
    "infinity in z": (lambda: (z_with(math.inf, 0), y()), "1 of 4 rows, first row 0"),
    "-infinity in z": (lambda: (z_with(-math.inf, 3).half(), y()), "1 of 4 rows, first row 3"),
    "infinities that cancel": (
        lambda: (z_with(math.inf) - z_with(math.inf, 1), y()),
        "2 of 4 rows, first row 1",
    ),
    "NaN everywhere": (lambda: (z() * math.nan, y()), "4 of 4 rows, first row 0"),
    "z of one axis": (
        lambda: (z()[:, 0], y()),
        "embeddings: expected floating-point embeddings (N, D) or views",
    ),
    "z of four axes": (lambda: (z().view(4, 1, 1, D), y()), "found (4, 1, 1, 4) of torch.float32"),
    "z of no axis": (lambda: (torch.tensor(1.0), y()), "found () of torch.float32"),
    "whole numbers as z": (lambda: (z().long(), y()), "found (4, 4) of torch.int64"),
    "complex numbers as z": (lambda: (z().to(torch.complex64), y()), "found (4, 4) of torch.complex64"),
    "classes as y": (lambda: (z(), torch.arange(4)), "labels: expected multi-hot labels (N, L), found (4,)"),
    "y of no axis": (lambda: (z(), torch.tensor(1)), "labels: expected multi-hot labels (N, L), found ()"),
    "y of three axes": (
        lambda: (z(), y()[None]),
        "labels: expected multi-hot labels (N, L), found (1, 4, 3)",
    ),
    "an empty batch": (lambda: (z(0), y(0)), "embeddings is empty: found (0, 4)"),
    "embeddings of no dimension": (lambda: (z(4, 0), y()), "embeddings is empty: found (4, 0)"),
    "no views": (lambda: (torch.zeros(4, 0, D), y()), "embeddings is empty"),
    "z_other alone": (lambda: (z(), y(), z()), "ref_embeddings was given without ref_labels"),
    "y_other alone": (lambda: (z(), y(), None, y()), "ref_labels was given without ref_embeddings"),
    "others of different length": (
        lambda: (z(), y(), z(3), y(4)),
        "ref_embeddings has 3 rows and ref_labels has 4",
    ),
    "NaN in z_other": (
        lambda: (z(), y(), z_with(math.nan), y()),
        "ref_embeddings has NaN or infinite values in 1 of 4",
    ),
    "a label of 3 in y_other": (
        lambda: (z(), y(), z(), y_with(3)),
        "ref_labels: must be 0, 1 or -1 (unknown), found 3",
    ),
    "no others": (lambda: (z(), y(), z(0), y(0)), "ref_embeddings is empty: found (0, 4)"),
    "classes as y_other": (lambda: (z(), y(), z(), torch.arange(4)), "ref_labels: expected multi-hot labels"),
    "whole numbers as z_other": (
        lambda: (z(), y(), z().long(), y()),
        "ref_embeddings: expected floating-point",
    ),
    "others of another dimension": (
        lambda: (z(), y(), z(4, 5), y()),
        "embedding size D is 4 and the comparisons' is 5",
    ),
    "others of another label count": (
        lambda: (z(), y(), z(), y(4, 5)),
        "label count L is 3 and the comparisons' is 5",
    ),
    "self_index alone": (
        lambda: (z(), y(), None, None, torch.arange(4)),
        "self_index was given without ref_embeddings",
    ),
    "a short self_index": (
        lambda: (z(), y(), z(), y(), torch.arange(3)),
        "self_index: expected 4 row numbers, one for each anchor, found (3,)",
    ),
    "a self_index of two axes": (lambda: (z(), y(), z(), y(), torch.zeros(4, 1).long()), "found (4, 1)"),
    "a self_index of fractions": (lambda: (z(), y(), z(), y(), torch.arange(4.0)), "of torch.float32"),
    "a self_index that is a mask": (lambda: (z(), y(), z(), y(), torch.ones(4).bool()), "of torch.bool"),
    "a self_index beyond the others": (
        lambda: (z(), y(), z(), y(), torch.tensor([0, 1, 2, 4])),
        "row numbers go from 0 to 3 (-1 for none), found 0 to 4",
    ),
    "a self_index below -1": (lambda: (z(), y(), z(), y(), torch.tensor([0, 1, 2, -2])), "found -2 to 2"),
    "an own row with other labels": (
        lambda: (z(), y(), z(), y(), torch.tensor([0, 2, 1, 3])),
        "anchor 1 and its own row 2 of ref_labels differ",
    ),
}


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_every_loss_refuses_a_bad_batch_with_what_was_found(case: str) -> None:
    batch, text = BAD_BATCHES[case]
    for name in LOSSES:
        with pytest.raises(BatchError, match=re.escape(text)):
            make(name)(*batch())


NO_TENSORS: dict[str, tuple[Callable[[], tuple[Any, ...]], str, str]] = {
    "an array as z": (lambda: (z().numpy(), y()), "embeddings", "ndarray"),
    "an array as y": (lambda: (z(), y().numpy()), "labels", "ndarray"),
    "a list as z": (lambda: (z().tolist(), y()), "embeddings", "list"),
    "a list as y": (lambda: (z(), y().tolist()), "labels", "list"),
    "None as z": (lambda: (None, y()), "embeddings", "NoneType"),
    "None as y": (lambda: (z(), None), "labels", "NoneType"),
    "an array as z_other": (lambda: (z(), y(), z().numpy(), y()), "ref_embeddings", "ndarray"),
    "an array as y_other": (lambda: (z(), y(), z(), y().numpy()), "ref_labels", "ndarray"),
    "a list as z_other": (lambda: (z(), y(), z().tolist(), y()), "ref_embeddings", "list"),
    "a list as y_other": (lambda: (z(), y(), z(), y().tolist()), "ref_labels", "list"),
    "text as self_index": (lambda: (z(), y(), z(), y(), "0123"), "self_index", "str"),
}


@pytest.mark.parametrize("case", NO_TENSORS)
def test_every_loss_refuses_what_is_no_tensor_with_its_type(case: str) -> None:
    batch, argument, found = NO_TENSORS[case]
    for name in LOSSES:
        with pytest.raises(MarcirError, match=rf"\b{argument}\b.*{found}"):
            make(name)(*batch())


@every_loss
def test_large_numbers_are_not_taken_for_infinite_ones(name: str) -> None:
    large = torch.full((4, D), 1e38)
    assert make(name)(large, y()).isfinite()
    assert not large.sum().isfinite()


@every_loss
def test_row_numbers_may_be_a_list_or_an_array(name: str) -> None:
    loss = make(name)
    wanted = loss(z(), y(), z(), y(), torch.tensor([0, -1, 2, 3]))
    assert torch.equal(loss(z(), y(), z(), y(), [0, -1, 2, 3]), wanted)
    assert torch.equal(loss(z(), y(), z(), y(), np.array([0, -1, 2, 3])), wanted)


# ---- Sizes that the loss was made for ------------------------------------------------------------


@pytest.mark.parametrize("labels", [2, 5])
@pytest.mark.parametrize("name", KNOWS_ITS_LABELS)
def test_labels_of_another_count_are_refused(name: str, labels: int) -> None:
    with pytest.raises(BatchError, match=f"labels has {labels} columns, but this loss was made for 3"):
        make(name)(z(), y(4, labels))


def test_calibrated_marc_knows_its_labels_where_it_weighs_pairs() -> None:
    with pytest.raises(BatchError, match="labels has 5 columns, but this loss was made for 3"):
        make("marc-calibrated", plr=True)(z(), y(4, 5))
    assert make("marc-calibrated")(z(), y(4, 5)).isfinite()


@pytest.mark.parametrize("dim", [3, 5])
@pytest.mark.parametrize("name", WITH_PROTOTYPES)
def test_embeddings_of_another_size_than_the_prototypes_are_refused(name: str, dim: int) -> None:
    with pytest.raises(BatchError, match=f"embeddings has {dim} dimensions, but this loss was made for 4"):
        make(name)(z(4, dim), y())


@pytest.mark.parametrize("name", ["marc", "wg-marc", "marc-proto"])
def test_saved_statistics_of_another_label_count_are_refused(name: str) -> None:
    other = marcir.create_loss(name, statistics=LabelStatistics.from_labels(y(4, 5)), embedding_dim=D)
    with pytest.raises(LabelError, match="saved label statistics are of 5 labels, this loss is of 3"):
        make(name).load_state_dict(other.state_dict())


# ---- Options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "tau = 0: must be above 0"),
        (0.0, "tau = 0.0: must be above 0"),
        (-1, "tau = -1: must be above 0"),
        (math.nan, "tau = nan: must be a finite number"),
        (math.inf, "tau = inf: must be a finite number"),
        ("x", "tau = 'x': must be a finite number"),
        ("0.3", "tau = '0.3': must be a finite number"),
        (True, "tau = True: must be a finite number"),
        (None, "tau = None: must be a finite number"),
        ([0.3], r"tau = \[0.3\]: must be a finite number"),
        pytest.param(10**400, "tau = 1.*: must be a finite number", id="10^400"),
    ],
)
def test_a_temperature_must_be_a_finite_number_above_zero(value: object, text: str) -> None:
    for name in WITH_TAU:
        with pytest.raises(ConfigError, match=text):
            make(name, tau=value)


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("oml", {"anneal": 0}, "anneal = 0: must be above 0"),
        ("oml", {"anneal": math.nan}, "anneal = nan: must be a finite number"),
        ("oml", {"norm": "batches"}, "norm = 'batches': unknown. Did you mean 'batch'?"),
        ("lmsc", {"beta": 0}, "beta = 0: must be above 0"),
        ("lmsc", {"beta": "x"}, "beta = 'x': must be a finite number"),
        ("lmsc", {"queue_size": -1}, "queue_size = -1: must be a whole number of 0 or more"),
        ("lmsc", {"queue_size": 1.5}, "queue_size = 1.5: must be a whole number of 0 or more"),
        ("lmsc", {"queue_size": True}, "queue_size = True: must be a whole number of 0 or more"),
        ("sim-dis", {"placement": "insde"}, "placement = 'insde': unknown. Did you mean 'inside'?"),
        ("sim-dis", {"placement": "left"}, "placement = 'left': unknown. Known: inside, outside."),
        ("sim-dis", {"placement": None}, "placement = None: unknown. Known: inside, outside."),
        ("l-wo-reg", {"overlap_power": math.inf}, "overlap_power = inf: must be a finite number"),
        ("lreg", {"overlap_power": "x"}, "overlap_power = 'x': must be a finite number"),
        ("marc", {"alpha": math.nan}, "alpha = nan: must be a finite number"),
        ("marc", {"beta": -0.1}, "beta = -0.1: must be 0 or more"),
        ("marc", {"eps": -1e-8}, "eps = -1e-08: must be 0 or more"),
        ("marc", {"tau_mode": "scaled"}, "tau_mode = 'scaled': unknown. Did you mean 'scale'?"),
        ("marc", {"pair_frequency": "joins"}, "pair_frequency = 'joins': unknown. Did you mean 'joint'?"),
        ("wg-marc", {"pair_frequency": "pairmean"}, "unknown. Did you mean 'pair_mean'?"),
        (
            "wg-marc",
            {"anchor_frequency": "means"},
            "anchor_frequency = 'means': unknown. Did you mean 'mean'?",
        ),
        ("wg-marc", {"frequency": "relativ"}, "frequency = 'relativ': unknown. Did you mean 'relative'?"),
        ("marc-calibrated", {"mix": 2}, "mix = 2: must lie between 0 and 1"),
        ("marc-calibrated", {"mix": -0.1}, "mix = -0.1: must lie between 0 and 1"),
        ("marc-calibrated", {"mix": math.nan}, "mix = nan: must be a finite number"),
        ("marc-calibrated", {"gamma": -1}, "gamma = -1: must be 0 or more"),
        ("marc-calibrated", {"delta": math.inf}, "delta = inf: must be a finite number"),
        ("marc-calibrated", {"eps": "x"}, "eps = 'x': must be a finite number"),
        ("marc-proto", {"lam": 1.5}, "lam = 1.5: must lie between 0 and 1"),
        ("marc-proto", {"tau_proto": 0}, "tau_proto = 0: must be above 0"),
        ("marc-proto", {"rarity": math.inf}, "rarity = inf: must be a finite number"),
        ("marc-proto", {"rarity": 101}, "rarity = 101: must lie between -100 and 100"),
        ("marc-proto", {"beta": 0}, "beta = 0: must be above 0"),
        ("marc-proto", {"prototype_anchors": "no"}, "prototype_anchors = 'no': must be True or False"),
    ],
)
def test_a_bad_option_is_refused_with_its_name_and_value(
    name: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        make(name, **options)


@pytest.mark.parametrize("value", [0, -3, 1.5, "x", True])
@pytest.mark.parametrize("name", [name for name in LOSSES if "chunk_size" in loss_options(name)])
def test_a_chunk_is_a_whole_number_of_anchors(name: str, value: object) -> None:
    text = f"chunk_size = {value!r}: must be a whole number of 1 or more"
    with pytest.raises(ConfigError, match=re.escape(text)):
        make(name, chunk_size=value)


@pytest.mark.parametrize("option", ["plr", "dts"])
@pytest.mark.parametrize("value", ["off", None])
def test_a_switch_is_true_or_false(option: str, value: object) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"{option} = {value!r}")):
        make("marc", **{option: value})


# ---- What a loss needs ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["marc", "wg-marc", "marc-proto"])
def test_missing_statistics_are_asked_for(name: str) -> None:
    with pytest.raises(ConfigError, match=f"loss '{name}' needs `statistics`"):
        marcir.create_loss(name)


def test_missing_statistics_are_asked_for_where_calibrated_marc_weighs_pairs() -> None:
    with pytest.raises(ConfigError, match="plr = True needs `statistics`"):
        marcir.create_loss("marc-calibrated", plr=True)


def test_prototype_marc_asks_for_the_length_of_an_embedding() -> None:
    with pytest.raises(ConfigError, match="loss 'marc-proto' needs `embedding_dim`"):
        marcir.create_loss("marc-proto", statistics=LabelStatistics.from_labels(y()))


@pytest.mark.parametrize("name", [name for name in WITH_PROTOTYPES if name != "marc-proto"])
def test_the_sizes_of_prototypes_are_asked_for(name: str) -> None:
    with pytest.raises(ConfigError, match=f"loss '{name}' needs `embedding_dim`"):
        marcir.create_loss(name, num_labels=L)
    with pytest.raises(ConfigError, match=f"loss '{name}' needs `num_labels`"):
        marcir.create_loss(name, embedding_dim=D)


@pytest.mark.parametrize("value", [0, -1, 1.5, "x", True])
@pytest.mark.parametrize("size", ["embedding_dim", "num_labels"])
def test_the_sizes_of_prototypes_are_whole_numbers(size: str, value: object) -> None:
    sizes: dict[str, Any] = {"embedding_dim": D, "num_labels": L, size: value}
    with pytest.raises(ConfigError, match=re.escape(f"{size} = {value!r}: must be a whole number of 1")):
        marcir.create_loss("lproto", **sizes)
    with pytest.raises(ConfigError, match=re.escape(f"{size} = {value!r}: must be a whole number of 1")):
        LProtoLoss(**sizes)


@every_loss
def test_a_label_count_that_contradicts_the_statistics_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="num_labels = 5, but the statistics have 3 labels"):
        make(name, num_labels=5)
    assert make(name, num_labels=3)(z(), y()).isfinite()


@pytest.mark.parametrize("found", [TRAINING, TRAINING.tolist(), "labels.csv", {"rows": TRAINING}], ids=type)
def test_statistics_of_another_type_are_refused(found: object) -> None:
    for name in LOSSES:
        with pytest.raises(ConfigError, match=f"expected LabelStatistics, found {type(found).__name__}"):
            marcir.create_loss(name, statistics=found, embedding_dim=D)  # type: ignore[arg-type]


def test_a_loss_made_by_its_class_refuses_statistics_of_another_type() -> None:
    with pytest.raises(ConfigError, match="expected LabelStatistics, found Tensor"):
        MARCLoss(TRAINING)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expected LabelStatistics, found Tensor"):
        CalibratedMARCLoss(TRAINING, plr=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("found", [7, "seed"])
def test_a_generator_of_another_type_is_refused(found: object) -> None:
    with pytest.raises(ConfigError, match=f"generator.*found {type(found).__name__}"):
        make("lproto", generator=found)


# ---- Names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("MARC", "unknown loss 'MARC'. Did you mean 'marc'?"),
        ("wg_marc", "unknown loss 'wg_marc'. Did you mean 'wg-marc'?"),
        ("triplet", "unknown loss 'triplet'. Known: l-wo-reg, lbase"),
        ("", "unknown loss ''. Known: l-wo-reg, lbase"),
        (None, "unknown loss"),
        (["marc"], "unknown loss"),
    ],
)
def test_an_unknown_loss_is_refused(name: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        marcir.create_loss(name)


def test_an_unknown_option_is_refused_with_the_nearest_one_or_all() -> None:
    with pytest.raises(ConfigError, match=r"loss 'marc' has no option 'alfa'\. Did you mean 'alpha'"):
        make("marc", alfa=1.0)
    with pytest.raises(ConfigError, match=r"loss 'oml' has no option 'tau'\. Known: anneal, norm"):
        make("oml", tau=0.3)


def test_every_error_is_also_the_builtin_that_a_caller_expects() -> None:
    with pytest.raises(ValueError, match="embeddings has 4 rows"):
        SupConAnyLoss()(z(4), y(3))
    with pytest.raises(ValueError, match="tau = 0"):
        SupConAnyLoss(tau=0)
