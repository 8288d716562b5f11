"""Figures of a comparison from records alone: scores, rare labels, embedding maps."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from marcir.errors import DataError
from marcir.experiments.record import Record, Results
from marcir.experiments.report.comparison import mean_ranks, reference
from marcir.experiments.report.names import BASELINES, OF_INTEREST, OURS
from marcir.experiments.report.page import Block, Figure, Sentences
from marcir.experiments.report.runs import COLUMNS, TAIL, Row, Study, means_and_sds
from marcir.figures.bars import tail_start
from marcir.figures.embedding_map import GROUPS, draw_embedding_maps
from marcir.figures.heat_maps import Grid, draw_value_maps
from marcir.figures.score_dots import draw_score_dots
from marcir.metrics.ranking import unit_vectors

UNTRAINED = "untrained"


def draw_comparison(study: Study, folder: Path) -> list[Figure]:
    """Draw all methods over all metrics, and their AP of the rarest labels."""
    rows = study.done
    panels = {column: means_and_sds(row.column(column) for row in rows) for column in COLUMNS}
    shown = {column: reference(study, UNTRAINED, column).mean for column in COLUMNS}
    lines = {column: value for column, value in shown.items() if not math.isnan(value)}
    path = folder / study.file_name("comparison.png")
    special = [row.name for row in rows if row.method in OF_INTEREST]
    names, dashed = [row.name for row in rows], {UNTRAINED: lines} if lines else {}
    draw_score_dots(names, panels, path, highlighted=special, lines=dashed)
    caption = f"All losses over all columns on {study.dataset_title}, mean and standard deviation of seeds."
    figures = [Figure(path, f"{caption} Ranges differ.")]
    return figures + _tail(study, folder)


def _tail(study: Study, folder: Path) -> list[Figure]:
    """AP of the rarest third of the labels, by method."""
    rows = [row for row in study.done if row.column(TAIL).seeds]
    if not rows:
        return []
    first = rows[0].scores[0].label_scores
    if first is None or not first.names:
        return []
    order = np.argsort(first.counts, kind="stable")  # the rarest first
    rarest = order[: len(order) - tail_start(len(order))]
    values = []
    for row in rows:
        found = [scores.per_label for scores in row.scores if scores.label_scores is not None]
        values.append([*np.mean(found, axis=0)[rarest], row.column(TAIL).mean])
    names = [f"{first.names[label]} ({first.counts[label]:,})" for label in rarest]
    path = folder / study.file_name("tail.png")
    title = "AP of the rarest third of the labels (in brackets: their training images)"
    draw_value_maps(
        Grid([row.name for row in rows], [*names, "mean (tail)"]), {title: np.array(values)}, path
    )
    return [Figure(path, f"Rare labels on {study.dataset_title}, mean over seeds, percent.")]


def shown_methods(study: Study) -> list[Row]:
    """The methods whose vectors are shown: the best baseline by mean rank, MARC, and ours."""
    baselines = study.rows_of(BASELINES)
    ranks = mean_ranks(baselines)
    best = [row for row, rank in zip(baselines, ranks, strict=True) if rank == min(ranks)][:1]
    return best + study.rows_of(("marc", *OURS))


def unit_test_vectors(results: Results, record: Record) -> np.ndarray | None:
    """Unit vectors of a run's test images in the order of its scores; None where they are missing. (Q, D)"""
    try:
        kept = results.vectors(record)
    except DataError:
        return None
    place = {image: position for position, image in enumerate(kept.ids)}
    if record.scores is None or any(image not in place for image in record.scores.ids):
        return None
    order = [place[image] for image in record.scores.ids]
    return unit_vectors(kept.vectors[order], "vectors").numpy()


def draw_maps(study: Study, results: Results, folder: Path) -> list[Block]:
    """Draw the test images in two dimensions, coloured by their rarest label, one panel per method."""
    maps: dict[str, np.ndarray] = {}
    groups: list[str] = []
    shown: list[str] = []
    methods = shown_methods(study)
    for row in methods:
        record = row.runs[0]
        vectors = unit_test_vectors(results, record)
        own = [rarest_label(record, names) if names else "" for names in record.labels]
        if vectors is None or not own:
            continue
        if not groups:
            groups, ids = own, record.scores.ids if record.scores else ()
        elif record.scores is None or record.scores.ids != ids:
            continue
        points, share = principal_components(vectors)
        shown.append(row.name)
        maps[f"{row.name} ({100 * share:.0f} % of the variance)"] = points
    if not maps:
        return [Sentences((f"Maps are left out: {results.path} keeps no vectors of these methods.",))]
    counts = _counts(methods[0].runs[0])
    order = sorted(set(groups) - {""}, key=lambda name: (counts.get(name, 0), name))[:GROUPS]
    path = folder / study.file_name("map.png")
    draw_embedding_maps(maps, groups, order, path)
    missing = [row.name for row in methods if row.name not in shown]
    caption = (
        f"Test images of {study.dataset_title} by their two main directions (PCA of the unit "
        "vectors, first seed), coloured by the rarest label of each image, the rarest first."
        + (f" No vectors are kept of {' and '.join(missing)}." if missing else "")
    )
    return [Figure(path, caption)]


def principal_components(vectors: np.ndarray) -> tuple[np.ndarray, float]:
    """Project vectors on their first two principal components. (N, 2), share of the variance

    >>> principal_components(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))[1]
    1.0
    """
    centred = vectors - vectors.mean(0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(vectors), 2))
    points[:, : min(2, len(s))] = (u * s)[:, :2]
    # The sign of a component is arbitrary: the farthest point gets the positive side.
    far = np.abs(points).argmax(0)
    points *= np.where(points[far, [0, 1]] < 0, -1, 1)
    total = float((s**2).sum())
    return points, round(float((s[:2] ** 2).sum()) / total, 12) if total else 0.0


def _counts(record: Record) -> dict[str, int]:
    """Training images of each label."""
    found = record.scores.label_scores if record.scores is not None else None
    return {} if found is None else dict(zip(found.names, found.counts.tolist(), strict=True))


def rarest_label(record: Record, names: Sequence[str]) -> str:
    """The label that is rarest in training."""
    counts = _counts(record)
    return min(names, key=lambda name: (counts.get(name, 0), name))
