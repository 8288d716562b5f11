"""Figures that need the archive: retrieved images, influence of pairs in MARC, augmented images."""

import os
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marcir.catalog import create_loss, loss_options
from marcir.config import Config
from marcir.data.archive import Archive, open_archive
from marcir.data.split import Split
from marcir.errors import DataError, MarcirError
from marcir.experiments.inspect import show
from marcir.experiments.record import Record, Results
from marcir.experiments.report.comparison_figures import rarest_label, shown_methods, unit_test_vectors
from marcir.experiments.report.names import method_name
from marcir.experiments.report.page import Block, Figure, Sentences
from marcir.experiments.report.runs import Row, Study
from marcir.figures.bars import draw_pair_influence
from marcir.figures.retrieval_sheet import SheetHit, SheetRow, draw_retrieval_sheet
from marcir.files import cache_folder
from marcir.labels import LabelStatistics
from marcir.losses.pair_loss import PairLoss
from marcir.losses.pairs import LabelSets
from marcir.metrics.ranking import rank
from marcir.training.task import open_training_archive

HITS = 6
SIZES = (3, 4)  # labels of the anchor: its subsets are the partners, up to 15
QUERY_METRIC = "nDCG@100"  # whose median selects a query


def draw_archive(study: Study, results: Results, folder: Path) -> list[Block]:
    """Draw sheets, influence and samples; a sentence replaces what cannot be drawn."""
    record = study.records[0]
    try:
        archive = _archive(record)
    except MarcirError as error:
        return [Sentences((f"Pictures of images and the influence of pairs are left out: {error}",))]
    parts: dict[str, Callable[[], list[Figure]]] = {
        "Retrieved images": lambda: _sheets(study, results, archive, folder),
        "The influence of pairs": lambda: _influence(study, results, folder),
        "Augmented images": lambda: _samples(study, record, folder),
    }
    drawn: list[Block] = []
    for what, draw in parts.items():
        try:
            drawn += draw()
        except MarcirError as error:
            drawn.append(Sentences((f"{what}: left out. {error}",)))
    return drawn


def _data(record: Record) -> dict[str, Any]:
    """The settings of the archive, with environment variables in paths expanded, as plans have them."""
    data = record.config.get("data", {})
    return {
        name: os.path.expandvars(value) if isinstance(value, str) else value for name, value in data.items()
    }


def _archive(record: Record) -> Archive:
    data = _data(record)
    name, root = data.get("name", record.dataset), data.get("root")
    if root is None and name == "scenes":
        root = cache_folder() / "scenes"
    if root is None or not Path(root).is_dir():  # generated scenes are not generated for a report
        raise DataError(f"the archive's folder {root} is not there.")
    return open_archive(name, root, data.get("labels"), data.get("unlisted"))


def _sheets(study: Study, results: Results, archive: Archive, folder: Path) -> list[Figure]:
    """Hits of several methods for the same queries."""
    found = [(row, unit_test_vectors(results, row.runs[0])) for row in shown_methods(study)]
    rows = [(row, vectors) for row, vectors in found if vectors is not None]
    if not rows or not rows[0][0].runs[0].labels:
        return []
    drawn = []
    for name, (query, rule) in _queries([row for row, _ in rows]).items():
        path = folder / study.file_name("found", f"{name}.png")
        draw_retrieval_sheet([_sheet_row(row, vectors, query, archive) for row, vectors in rows], path)
        methods = ", ".join(row.name for row, _ in rows)
        caption = (
            f"First {HITS} hits of {methods} (first seed; the baseline is the best by mean rank) for "
            f"{query}, {rule}. Under a hit: the labels that it shares with the query."
        )
        drawn.append(Figure(path, caption))
    return drawn


def _queries(rows: list[Row]) -> dict[str, tuple[str, str]]:
    """Select queries by a rule: the median one, and the median one with the rarest label."""
    record = rows[0].runs[0]
    labels = dict(zip(_ids(record), record.labels, strict=True))
    values: dict[str, list[float]] = {image: [] for image in labels}
    for row in rows:
        scores = row.runs[0].scores
        column = scores.per_query[QUERY_METRIC] if scores else ()
        for image, value in zip(_ids(row.runs[0]), column, strict=True):
            values.setdefault(image, []).append(float(value))
    known = {image: each for image, each in values.items() if each and not np.isnan(each).any()}
    means = {image: float(np.mean(each)) for image, each in known.items()}
    order = sorted(means, key=lambda image: (means[image], image))
    carried = sorted({name for image in order for name in labels.get(image, ())})
    if not carried:
        return {}
    rarest = rarest_label(record, carried)
    rare = [image for image in order if rarest in labels[image]]
    rule = f"by the mean {QUERY_METRIC} of these methods"
    return {
        "median": (order[(len(order) - 1) // 2], f"the median query {rule}"),
        "rare": (
            rare[(len(rare) - 1) // 2],
            f"the median {rule} of the queries with the rarest label, {rarest}",
        ),
    }


def _ids(record: Record) -> tuple[str, ...]:
    return () if record.scores is None else record.scores.ids


def _sheet_row(row: Row, vectors: np.ndarray, query: str, archive: Archive) -> SheetRow:
    record = row.runs[0]
    ids = _ids(record)
    place = ids.index(query)
    z = torch.from_numpy(vectors)
    similarity = z[[place]] @ z.T
    order = rank(similarity, torch.tensor([place]))[0, :HITS].tolist()
    own = record.labels[place]
    hits = []
    for hit in order:
        shared = tuple(name for name in own if name in record.labels[hit])
        union = set(own) | set(record.labels[hit])
        J = len(shared) / len(union) if union else 0.0
        hits.append(SheetHit(_pixels(archive, ids[hit]), ids[hit], float(similarity[0, hit]), shared, J))
    return SheetRow(_pixels(archive, query), f"by {row.name}", own, tuple(hits))


def _pixels(archive: Archive, image: str) -> np.ndarray:
    if image not in archive.position_of:
        raise DataError(f"{archive.root} has no image '{image}'.")
    return archive.read(archive.position_of[image])


def _training_archive(study: Study, results: Results) -> tuple[Archive, Split]:
    """The archive of the runs, without broken images, and their split."""
    data = Config.from_dict({**study.records[0].config, "data": _data(study.records[0])}).data
    file = results.split_file(study.dataset)  # also where the folder was moved
    if not file.exists() and data.split is not None:
        file = Path(data.split)  # given by the plan
    archive, _ = open_training_archive(data)
    split = Split.load(file, archive)
    if split.checksum != study.records[0].split_checksum:
        raise DataError(f"{file} is not the split of these runs.")
    return archive, split


def _samples(study: Study, record: Record, folder: Path) -> list[Figure]:
    data = _data(record)
    path = folder / study.file_name("samples.png")
    root = data.get("root") or cache_folder() / "scenes"
    show(data.get("name", record.dataset), root, path, data.get("labels"), images=3, on_broken="skip")
    caption = f"Images of {study.dataset_title}, on the left, and what augmentation makes of them."
    return [Figure(path, caption)]


def _influence(study: Study, results: Results, folder: Path) -> list[Figure]:
    """Draw gamma = w/T, weight over temperature, and temperature of one anchor's pairs."""
    archive, split = _training_archive(study, results)
    y = archive.labels[split.positions(archive, "train")]
    statistics = LabelStatistics.from_labels(y)
    anchor = _anchor_set(statistics)
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
    path = folder / study.file_name("influence.png")
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


def _anchor_set(statistics: LabelStatistics) -> Tensor | None:
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
    given = {} if row is None else row.runs[0].config.get("loss", {})
    known = loss_options(name)
    options = {key: value for key, value in given.items() if key in known}
    loss = create_loss(name, statistics=statistics, **options)
    assert isinstance(loss, PairLoss)  # noqa: S101  both are
    return loss


def _of_partners(matrix: Tensor, partners: int) -> np.ndarray:
    values: np.ndarray = matrix[0, :partners].numpy()
    return values
