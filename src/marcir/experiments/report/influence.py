"""Influence of pairs in MARC and calibrated MARC."""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marcir.catalog import create_loss, loss_options
from marcir.data.archive import Archive
from marcir.data.split import Split
from marcir.errors import DataError
from marcir.experiments.report.names import method_name
from marcir.experiments.report.page import Figure
from marcir.experiments.report.runs import Study
from marcir.figures.bars import draw_pair_influence
from marcir.labels import LabelStatistics
from marcir.losses.pair_loss import PairLoss
from marcir.losses.pairs import LabelSets

SIZES = (3, 4)  # labels of the anchor: its subsets are the partners, up to 15


def draw_influence(study: Study, archive: Archive, split: Split, path: Path) -> list[Figure]:
    """Draw gamma = w/T, weight over temperature, and temperature of one anchor's pairs."""
    y = archive.labels[split.positions(archive, "train")]
    statistics = LabelStatistics.from_labels(y)
    anchor = anchor_set(statistics)
    if anchor is None:
        raise DataError("no training image has two labels.")
    partners = _partners(anchor)
    sets = _sets(anchor, partners, statistics)
    losses = {method_name(loss, loss): _loss(study, loss, statistics) for loss in ("marc", "marc-calibrated")}
    weight, temperature = {}, {}
    for name, loss in losses.items():
        pairs = loss.pairs(sets)
        T = torch.as_tensor(pairs.T, dtype=torch.float64).expand_as(pairs.W)
        weight[name] = _of_partners(pairs.W / T, len(partners))
        temperature[name] = _of_partners(T, len(partners))
    marc = next(iter(losses))
    gamma = {marc: _of_partners(losses[marc].influence(sets), len(partners))}
    f = statistics.pair_frequency(anchor[None].double(), partners.double())[0].tolist()
    names = archive.vocabulary.decode(partners)
    texts = [f"{', '.join(labels)}  (f = {count:.0f})" for labels, count in zip(names, f, strict=True)]
    panels = {
        "gamma = w/T of the paper": gamma,
        "whole weight over temperature, full match = 1": {n: v / v[0] for n, v in weight.items()},
        "temperature T": temperature,
    }
    draw_pair_influence(", ".join(archive.vocabulary.decode(anchor[None])[0]), texts, panels, path)
    caption = (
        f"Pairs of one anchor on {study.dataset_title}: its label set is the most frequent of "
        "training with three or four labels, one of them from the rarest third; a partner has some of these "
        "labels and no other. f: training images that carry them all. Weights are those within the whole "
        f"training split. {' '.join(map(_direction, temperature, temperature.values()))}"
    )
    return [Figure(path, caption)]


def _direction(name: str, T: np.ndarray) -> str:
    """Whether the fullest match has a higher temperature than the poorest."""
    way = "rises" if T[0] > T[-1] else "falls" if T[0] < T[-1] else "stays"
    return f"With the overlap the temperature of {name} {way}."


def anchor_set(statistics: LabelStatistics) -> Tensor | None:
    """The most frequent training label set of three or four labels with a rare one; else of any two or more.

    Of equally frequent sets the first of the statistics. None where no image has two labels. (L,)
    """
    rows, counts = statistics.rows, statistics.counts
    sizes = rows.sum(1)
    order = statistics.label_counts.argsort(stable=True)
    rare = rows[:, order[: -(-len(order) // 3)]].any(1)
    for wanted in (rare & (sizes >= SIZES[0]) & (sizes <= SIZES[1]), (sizes > 1) & (sizes <= SIZES[1])):
        if wanted.any():
            return rows[int(torch.where(wanted, counts, -1).argmax())]
    return None


def _partners(anchor: Tensor) -> Tensor:
    """All non-empty subsets of a label set, the largest first. (P, L)"""
    labels = anchor.nonzero().flatten().tolist()
    chosen = [subset for size in range(len(labels), 0, -1) for subset in combinations(labels, size)]
    partners = torch.zeros(len(chosen), len(anchor), dtype=torch.bool)
    for place, subset in enumerate(chosen):
        partners[place, list(subset)] = True
    return partners


def _sets(anchor: Tensor, partners: Tensor, statistics: LabelStatistics) -> LabelSets:
    """The anchor, the partners as sets without images, and the training images as comparisons."""
    rows = torch.cat([partners, statistics.rows]).double()
    sizes = torch.cat([torch.zeros(len(partners), dtype=torch.long), statistics.counts])
    own = int((statistics.rows == anchor).all(1).nonzero()[0]) + len(partners)
    return LabelSets(anchor[None].double(), rows, sizes, torch.tensor([own]))


def _loss(study: Study, name: str, statistics: LabelStatistics) -> PairLoss:
    """The loss with the options of the study's runs, or with defaults."""
    row = study.row(name)
    given: dict[str, Any] = dict(row.runs[0].config.get("loss", {})) if row is not None else {}
    known = loss_options(name)
    loss = create_loss(
        name, statistics=statistics, **{key: value for key, value in given.items() if key in known}
    )
    assert isinstance(loss, PairLoss)  # noqa: S101  both are
    return loss


def _of_partners(matrix: Tensor, partners: int) -> np.ndarray:
    values: np.ndarray = matrix[0, :partners].numpy()
    return values
