"""Golden values of every loss on one small batch: N = 7 embeddings, d = 4, C = 4 labels, float64.

Where an option is not named the loss keeps its default, tau = 0.3 for all but calibrated MARC.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

Options = tuple[tuple[str, float | bool | str], ...]

BATCH_ROWS = ("1010", "1000", "0110", "1110", "0100", "0011", "1010")
UNKNOWN = ((0, 1), (1, 2), (2, 0), (3, 3), (4, 2), (5, 2), (6, 0))  # where `hide` puts -1: row, column
TRAINING_ROWS = (*BATCH_ROWS, *BATCH_ROWS[:4], "0010", "1010", "0110")


def embeddings() -> Tensor:
    """z_i = unit([sin((i+1)(k+1)) + 0.1 k] for k = 0..3), i = 0..6."""
    return unit_rows([[math.sin((i + 1) * (k + 1)) + 0.1 * k for k in range(4)] for i in range(7)])


def prototypes() -> Tensor:
    """c_j = unit([cos(0.7 (j+1)(k+1))] for k = 0..3), j = 0..3."""
    return unit_rows([[math.cos(0.7 * (j + 1) * (k + 1)) for k in range(4)] for j in range(4)])


def labels() -> Tensor:
    """The multi-hot labels of the batch."""
    return multi_hot(BATCH_ROWS)


def training_labels() -> Tensor:
    """The multi-hot labels of the training split, for f and h."""
    return multi_hot(TRAINING_ROWS)


def hide(y: Tensor) -> Tensor:
    """The batch's rows of a label matrix with some labels unknown (-1)."""
    y = y.clone()
    for row, column in UNKNOWN:
        y[row, column] = -1
    return y


def unit_rows(rows: list[list[float]]) -> Tensor:
    return torch.tensor([[x / math.hypot(*row) for x in row] for row in rows], dtype=torch.float64)


def multi_hot(rows: tuple[str, ...]) -> Tensor:
    return torch.tensor([[int(digit) for digit in row] for row in rows])


def options(**named: float | bool | str) -> Options:
    """Options as a key of `GOLDEN`: (name, value) pairs in the order of their names."""
    return tuple(sorted(named.items()))


GOLDEN: dict[tuple[str, Options], float] = {
    ("supcon-all", options()): 0.48654876,
    ("supcon-any", options()): 2.24577019,
    ("lbase", options()): 2.11116644,
    ("lproto", options()): 2.19479521,
    ("lmsc", options(beta=0.1)): 2.37421967,
    ("lmsc", options(beta=1.0)): 2.95622230,
    ("oml", options(norm="batch", anneal=0.01)): 0.52629350,
    ("oml", options(norm="label", anneal=0.01)): 0.19074457,
    ("mulsupcon", options()): 2.21442004,
    ("wg-mulsupcon", options()): 2.19556954,
    ("sim-dis", options()): 0.85586700,
    ("sim-dis", options(placement="inside")): 3.22462656,
    ("l-wo-reg", options(overlap_power=0.0)): 3.05566438,
    ("l-wo-reg", options(overlap_power=1.0)): 2.93990620,
    ("l-wo-reg", options(overlap_power=-1.0)): 2.60675075,
    ("lreg", options(overlap_power=0.0)): 2.64626127,
    ("lreg", options(overlap_power=1.0)): 2.55668519,
    ("lreg", options(overlap_power=-1.0)): 2.52135789,
    ("marc", options()): 0.98362896,
    ("marc", options(tau_mode="scale")): 1.93392434,
    ("marc", options(pair_frequency="pair_mean")): 1.09563211,
    ("marc", options(pair_frequency="shared_mean")): 0.90343584,
    ("marc", options(pair_frequency="shared_min")): 0.94251494,
    ("marc", options(anchor_frequency="min")): 0.97923628,
    ("marc", options(frequency="relative")): 4.69704535,
    ("marc", options(plr=False)): 2.05201554,
    ("marc", options(dts=False)): 1.06276002,
    ("wg-marc", options()): 0.95204654,
    ("wg-marc", options(tau_mode="scale")): 1.77456092,
    ("marc-calibrated", options(tau=0.2)): 2.99753988,
    ("marc-calibrated", options(tau=0.2, plr=True)): 2.99809871,
    ("marc-calibrated", options(tau=0.2, plr=True, mix=0.0)): 2.91601875,
    ("marc-calibrated", options(tau=0.2, mix=1.0)): 3.08017867,
    ("marc-proto", options()): 2.68766415,
    ("marc-proto", options(beta=0.1)): 2.98363715,
    ("marc-proto", options(lam=0.0)): 3.92244215,
    ("marc-proto", options(lam=1.0)): 1.86447881,
    ("marc-proto", options(rarity=1.0)): 2.71211865,
}

# Where the labels of `UNKNOWN` are unknown, in the batch and in training.
GOLDEN_WITH_UNKNOWNS: dict[str, float] = {
    "mulsupcon": 2.06870945,
    "wg-mulsupcon": 2.00000803,
    "lproto": 1.58659307,
    "marc-calibrated": 2.80651253,
    "marc-proto": 2.04364643,
}

GOLDEN_WEIGHTS: dict[tuple[int, int], float] = {
    (0, 1): 0.45511961,
    (0, 2): 0.40242960,
    (0, 6): 0.51389834,
}

GOLDEN_TEMPERATURES: dict[tuple[int, int], float] = {
    (0, 1): 0.51489486,
    (0, 4): 1.04252830,
    (0, 6): 0.26565846,
}
