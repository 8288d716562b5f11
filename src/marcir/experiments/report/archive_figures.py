"""Figures that need the archive: retrieved images, influence of pairs, augmented images."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from marcir.config import Config
from marcir.data.archive import Archive, open_archive
from marcir.data.split import Split
from marcir.errors import DataError, MarcirError
from marcir.experiments.inspect import show
from marcir.experiments.record import Record, Results
from marcir.experiments.report.comparison_figures import rarest_label, shown_methods, unit_test_vectors
from marcir.experiments.report.influence import draw_influence
from marcir.experiments.report.page import Block, Figure, Sentences
from marcir.experiments.report.runs import Row, Study
from marcir.figures.retrieval_sheet import SheetHit, SheetRow, draw_retrieval_sheet
from marcir.files import cache_folder
from marcir.metrics.ranking import rank
from marcir.training.task import open_training_archive

HITS = 6
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


def _archive(record: Record) -> Archive:
    data = record.config.get("data", {})
    name, root = data.get("name", record.dataset), data.get("root")
    if root is None and name == "scenes":
        root = cache_folder() / "scenes"
    if root is None or not Path(root).is_dir():  # generated scenes are not generated for a report
        raise DataError(f"the archive's folder {root} is not there.")
    return open_archive(name, root, data.get("labels"))


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
    means = {
        image: float(np.mean(each)) for image, each in values.items() if each and not np.isnan(each).any()
    }
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


def _influence(study: Study, results: Results, folder: Path) -> list[Figure]:
    """Influence of pairs, by the labels of the training images."""
    data = Config.from_dict(study.records[0].config).data
    file = results.split_file(study.dataset)  # also where the folder was moved
    if not file.exists() and data.split is not None:
        file = Path(data.split)  # given by the plan
    archive, _ = open_training_archive(data)
    split = Split.load(file, archive)
    if split.checksum != study.records[0].split_checksum:
        raise DataError(f"{file} is not the split of these runs.")
    return draw_influence(study, archive, split, folder / study.file_name("influence.png"))


def _samples(study: Study, record: Record, folder: Path) -> list[Figure]:
    data = record.config.get("data", {})
    path = folder / study.file_name("samples.png")
    root = data.get("root") or cache_folder() / "scenes"
    show(data.get("name", record.dataset), root, path, data.get("labels"), images=3, on_broken="skip")
    caption = f"Images of {study.dataset_title}, on the left, and what augmentation makes of them."
    return [Figure(path, caption)]
