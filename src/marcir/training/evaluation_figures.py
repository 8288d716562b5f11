"""Figures of an evaluation: curves, scores per label, and retrieved images."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

import numpy as np
import torch

from marcir.checks import check_int, check_seed
from marcir.data.images import SUFFIXES, read_image
from marcir.data.labelled_embeddings import LabelledEmbeddings, align_vocabularies
from marcir.errors import DataError, did_you_mean
from marcir.figures.bars import draw_label_bars
from marcir.figures.retrieval_curves import (
    draw_overlap_by_rank,
    draw_precision_by_threshold,
    draw_similarity_by_overlap,
)
from marcir.figures.retrieval_sheet import SheetHit, SheetRow, draw_retrieval_sheet
from marcir.files import refuse_address
from marcir.labels import jaccard
from marcir.labels.overlap import may_share
from marcir.metrics.curves import EDGES, HITS
from marcir.metrics.ranking import rank, unit_vectors
from marcir.training.evaluation import Evaluation


def draw_evaluation(evaluation: Evaluation, folder: str | Path) -> list[Path]:
    """Draw precision by threshold, overlap by rank, AP per label, and cosine by overlap; return the files."""
    folder, curves, name = Path(folder), evaluation.curves, evaluation.name
    drawn = [folder / "precision-by-threshold.png"]
    precision = {"oracle": curves.precision_oracle, name: curves.precision, "chance": curves.precision_chance}
    draw_precision_by_threshold(np.array(EDGES[1:]), precision, HITS, drawn[-1])
    if len(curves.overlap):  # some query has labels
        drawn.append(folder / "overlap-by-rank.png")
        overlap = {"oracle": curves.overlap_oracle, name: curves.overlap, "chance": curves.overlap_chance}
        draw_overlap_by_rank(overlap, drawn[-1])
    drawn.append(folder / "cosine-by-overlap.png")
    similarity = {name: (curves.similarity_mean, curves.similarity_sd, curves.pairs)}
    draw_similarity_by_overlap(np.array(EDGES), similarity, drawn[-1])
    scores = evaluation.model.label_scores
    if scores is not None and scores.names:
        drawn.append(folder / "labels.png")
        draw_label_bars(scores.names, scores.counts, {name: scores.precision}, drawn[-1])
    return drawn


def draw_hits(
    queries: LabelledEmbeddings,
    gallery: LabelledEmbeddings | None,
    images: str | Path,
    out: str | Path,
    *,
    chosen: Sequence[str] = (),
    rows: int = 5,
    hits: int = 8,
    seed: int = 0,
) -> None:
    """Draw the retrieved images of selected or random queries.

    Args:
        queries: Vectors and labels of the queries.
        gallery: Those of the gallery; by default the other queries.
        images: The image folder; an id is a path below it, or the name of a file anywhere below it.
        out: The PNG file.
        chosen: Ids of queries; random ones by default.
        rows: Number of random queries.
        hits: Hits per query.
        seed: Seed of the random queries.
    """
    check_int("rows", rows, 1), check_int("hits", hits, 1)
    queries, gallery = align_vocabularies(queries, gallery)
    files = _Files(images)
    position_of = {image: position for position, image in enumerate(queries.embeddings.ids)}
    for image in chosen:
        if image not in position_of:
            hint = did_you_mean(image, list(position_of)[:2000])
            raise DataError(f"--query '{image}' is not an id of the embeddings. {hint[:300]}")
    generator = torch.Generator().manual_seed(check_seed(seed))
    drawn = torch.randperm(len(position_of), generator=generator, device="cpu")[:rows].tolist()
    positions = [position_of[image] for image in chosen] or drawn
    draw_retrieval_sheet([_row(queries, gallery, position, hits, files) for position in positions], out)


def draw_models(
    models: Mapping[str, LabelledEmbeddings],
    images: str | Path,
    out: str | Path,
    chosen: Sequence[str],
    hits: int,
) -> None:
    """Draw the retrieved images of several models by name, one row per query and model; see `draw_hits`."""
    files, rows = _Files(images), []
    for image in chosen:
        for name, embedded in models.items():
            row = _row(embedded, None, embedded.embeddings.ids.index(image), hits, files)
            rows.append(replace(row, title=f"{name}: {Path(image).name}"))
    draw_retrieval_sheet(rows, out)


def _row(
    queries: LabelledEmbeddings, gallery: LabelledEmbeddings | None, position: int, hits: int, files: "_Files"
) -> SheetRow:
    ranked = gallery or queries
    z = unit_vectors(queries.embeddings.vectors[[position]], "embeddings")
    similarity = z @ unit_vectors(ranked.embeddings.vectors, "gallery embeddings").T
    own = torch.tensor([position], device="cpu") if gallery is None else None
    order = rank(similarity, own)[0, :hits].tolist()
    y, found = queries.labels[[position]], ranked.labels[order]
    overlap = jaccard(y.double(), found)[0]
    left_out = may_share(y > 0, y >= 0, found > 0, found >= 0)[0]  # neither relevant nor irrelevant
    shared = queries.vocabulary.decode((y > 0) & (found > 0))
    sheet_hits = tuple(
        SheetHit(
            files.read(ranked.embeddings.ids[hit]),
            ranked.embeddings.ids[hit],
            float(similarity[0, hit]),
            tuple(shared[k]),
            None if left_out[k] else float(overlap[k]),
            left_open=bool(left_out[k]),
        )
        for k, hit in enumerate(order)
    )
    name = queries.embeddings.ids[position]
    return SheetRow(files.read(name), name, tuple(queries.vocabulary.decode(y)[0]), sheet_hits)


class _Files:
    """Image files of a folder by path or by name, with or without extension."""

    def __init__(self, images: str | Path) -> None:
        refuse_address("--images", images)
        folder = Path(images)
        if not folder.is_dir():
            raise DataError(f"--images {folder}: not a folder.")
        self._folder = folder
        self._by_path: dict[str, list[Path]] = {}
        self._by_name: dict[str, list[Path]] = {}
        for path in sorted(folder.rglob("*")):
            if path.suffix.lower() in SUFFIXES:
                below = path.relative_to(folder)
                for key in (below.as_posix(), below.with_suffix("").as_posix()):
                    self._by_path.setdefault(key, []).append(path)
                for key in (path.name, path.stem):
                    self._by_name.setdefault(key, []).append(path)

    def read(self, image: str) -> np.ndarray:
        paths = self._by_path.get(PurePath(image).as_posix()) or self._by_name.get(image) or []
        if not paths:
            raise DataError(f"{self._folder}: no image for the id '{image}'. Set --images to its folder.")
        if len(paths) > 1:
            raise DataError(
                f"the id '{image}' may be {paths[0]} or {paths[1]}. Use paths below the folder as ids."
            )
        return read_image(paths[0])
