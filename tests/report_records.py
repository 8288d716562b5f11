"""A results folder as `marcir benchmark` leaves it, with scores of made-up vectors."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from marcir.catalog import LOSSES
from marcir.experiments.record import COMPARISON, Record, Results
from marcir.labels import LabelVocabulary
from marcir.metrics import Scores
from marcir.metrics.references import chance_scores, oracle_scores
from marcir.metrics.retrieval_scores import retrieval_scores
from marcir.types import Embeddings

IMAGES = 60
NAMES = LabelVocabulary(["tree", "road", "car", "sea", "dock", "tank"])
RARITY = np.array([0.6, 0.5, 0.35, 0.25, 0.12, 0.1])
LABELS = np.random.default_rng(1).random((IMAGES, len(NAMES))) < RARITY
LABELS[~LABELS.any(1), 0] = True
LABEL_NAMES = tuple(map(tuple, NAMES.decode(LABELS)))
COUNTS = [210, 180, 120, 80, 40, 30]
IDS = tuple(f"image{number:02}" for number in range(IMAGES))
REFERENCES = {
    "chance": dict(chance_scores(LABELS)),
    "oracle": dict(oracle_scores(LABELS)),
}


def made_vectors(strength: float, seed: int) -> Embeddings:
    """Vectors that know the labels the better the stronger."""
    rng = np.random.default_rng([seed, round(1000 * strength)])
    towards = np.random.default_rng(7).normal(size=(len(NAMES), 12))
    return Embeddings(IDS, strength * LABELS @ towards + rng.normal(size=(IMAGES, 12)))


@cache
def made_scores(strength: float, seed: int) -> Scores:
    """Scores of such vectors."""
    vectors = made_vectors(strength, seed).vectors
    return retrieval_scores(vectors, LABELS, ids=IDS, label_names=NAMES.names, training_counts=COUNTS)


@cache
def _untrained(seed: int) -> dict[str, float]:
    return dict(retrieval_scores(made_vectors(0.2, seed).vectors, LABELS))


def made_record(
    loss: str,
    seed: int = 0,
    strength: float = 0.5,
    *,
    study: str = COMPARISON,
    setting: Mapping[str, Any] | None = None,
    results: Results | None = None,
    **other: Any,
) -> Record:
    """A finished run; saved with its vectors where a folder is given."""
    scores = made_scores(strength, seed)
    facts: dict[str, Any] = {
        "dataset": "ucm",
        "method": loss,
        "config": {
            "data": {"name": "ucm", "root": "/nowhere/to/be/found", "size": 64},
            "encoder": {"backbone": "resnet18", "frozen": False},
            "loss": {"name": loss},
            "train": {"epochs": 2, "seed": seed, "lr": 0.001},
        },
        "config_hash": "c" * 64,
        "split_checksum": "a" * 64,
        "seconds": 100.0 + seed,
        "loss_milliseconds": 2.0 + list(LOSSES).index(loss) / 10,
        "timed_idle": True,
        "best_epoch": 2,
        "validation": {name: value - 0.01 for name, value in scores.items()},
        "versions": {"marcir": "0.1.0", "torch": "2.0"},
        "judged_by": "b" * 64,
        "scores": scores,
        "references": {**REFERENCES, "untrained": _untrained(seed)},
        "labels": LABEL_NAMES,
    }
    made = Record(study=study, loss=loss, setting=setting or {}, seed=seed, **{**facts, **other})
    if results is not None:
        results.save(made, made_vectors(strength, seed))
    return made


def made_comparison(
    folder: Path, losses: Sequence[str] = tuple(LOSSES), seeds: Sequence[int] = (0, 1, 2)
) -> Results:
    """Every loss with every seed; later losses of the catalog are a little better."""
    results = Results(folder)
    for place, loss in enumerate(losses):
        for seed in seeds:
            made_record(loss, seed, 0.3 + 0.03 * place, results=results)
    return results


def made_ablations(results: Results) -> None:
    """One study of each shape: a surface, a curve with level lines, radars, categories."""
    for alpha in (0.0, 0.5, 1.5):
        for beta in (0.0, 0.1, 1.0):
            setting = {"alpha": alpha, "beta": beta}
            made_record(
                "marc",
                0,
                0.5 - 0.1 * alpha + 0.1 * beta,
                study="alpha-beta-t",
                setting=setting,
                results=results,
            )
    for loss in ("mulsupcon", "lbase", "marc"):
        for tau in (0.05, 0.1, 0.3):
            made_record(loss, 0, 0.3 + tau, study="tau", setting={"tau": tau}, results=results)
    made_record("marc", 0, 0.4, study="tau", setting={"tau_mode": "direct"}, results=results)
    for anneal in (0.01, 0.1):
        made_record("oml", 0, 0.4 + anneal, study="tau", setting={"anneal": anneal}, results=results)
    for loss in ("marc", "wg-marc"):
        for lr in (0.1, 0.01, 0.001):
            made_record(loss, 0, 0.5 - lr, study="lr", setting={"lr": lr}, results=results)
        for pretrained in ("yes", "no"):
            made_record(
                loss, 0, 0.5 if pretrained == "yes" else 0.3, study="pretraining",
                setting={"pretrained": pretrained}, results=results,
            )  # fmt: skip
    for method in ("restarts", "step"):
        made_record("marc", 0, 0.4, study="never heard of", setting={"schedule": method}, results=results)


def save_pixel(_: object, path: Path, **options: object) -> None:
    """Save a figure as one pixel: rendering takes most of the time of a report."""
    Image.new("L", (1, 1)).save(path, "PNG")
