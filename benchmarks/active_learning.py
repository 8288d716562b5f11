"""Labels from suggestions: how good they get by rounds, and what a head learns from them.

    python benchmarks/active_learning.py ROOT_OF_UCM [--seeds 5]

Features of EfficientNet-Lite0 with ImageNet weights, computed once ($MARCIR_CACHE). For each label,
5 random training images that have it are labelled as present, and nothing else is: their other labels, and
all labels of the other images, are unknown. Then in each of 5 rounds, 20 training images per label are
labelled as present or absent, whichever is true: the most uncertain ones, the most confident ones, or random
ones. Where fewer than 20 are left, all are labelled.

AP of a label is measured on the images that are never labelled (validation and test), the same for all ways
of picking, and on the training images of which the label is still unknown ("rest"), which are others for
every way. Of the rest, those with a probability of at least 0.8 are what "accept all above 0.8" would label.

A head (the projection head of marcir train, loss marc-proto) is trained on these labels; unknown ones are
left open. The epoch is chosen on the validation images; the scores are those of the test images.

With --choices, also how strong the regularisation and the weak negatives should be; slower.
"""

import argparse
import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torch import nn
from torch.nn.functional import normalize

from marcir.annotations import suggest
from marcir.annotations.suggest import fit_classifier, probabilities, suggested_rows, weak_rows
from marcir.catalog import create_loss
from marcir.data.archive import open_archive
from marcir.data.split import draw_split
from marcir.files import cache_folder
from marcir.labels import LabelStatistics
from marcir.metrics.retrieval_metrics import METRICS
from marcir.metrics.retrieval_scores import retrieval_scores
from marcir.search.index import index
from marcir.search.lance import LanceStore

FIRST, ROUNDS, ASKED = 5, 5, 20
WAYS = ("uncertain", "confident", "random")
SURE = 0.8
EPOCHS, BATCH, DIM = 60, 128, 128


@dataclass(frozen=True, eq=False)
class Archive:
    """Vectors, true labels and the rows of the split."""

    vectors: np.ndarray
    labels: np.ndarray
    parts: dict[str, np.ndarray]


def read(root: Path) -> Archive:
    archive = open_archive("ucm", root)
    place = cache_folder() / "benchmarks" / "active-learning.store"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        index(root, place, map="none")
    ids = [str(file.relative_to(root.absolute())) for file in archive.files]
    split = draw_split(archive, 0, method="random")
    parts = {part: np.array(split.positions(archive, part)) for part in ("train", "validation", "test")}
    return Archive(
        np.stack([row.vector for row in LanceStore(place).get(ids)]),
        archive.labels.numpy().astype(int),
        parts,
    )


def start(truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """States of the training images: 5 present ones per label. (N, L)"""
    states = np.full(truth.shape, -1)
    for label in range(truth.shape[1]):
        states[rng.permutation(np.flatnonzero(truth[:, label]))[:FIRST], label] = 1
    return states


def pick(way: str, logits: np.ndarray, unknown: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if way == "random":
        return rng.permutation(unknown)[:ASKED]
    return suggested_rows(logits, unknown, way)[:ASKED]  # type: ignore[arg-type]


@dataclass(frozen=True)
class Measured:
    """Means over labels: AP on held-out images and on the rest, images that are known to have a label."""

    held_out: float
    rest: float
    present: float
    accepted: float  # of the rest, with a probability of at least 0.8
    right: float  # of these, that have the label


def one_round(
    archive: Archive, states: np.ndarray, way: str, rng: np.random.Generator
) -> tuple[Measured, np.ndarray]:
    """What is suggested now, and the states after the answers."""
    train, held = archive.parts["train"], np.concatenate([archive.parts[p] for p in ("validation", "test")])
    x, truth, after, found = archive.vectors[train], archive.labels[train], states.copy(), []
    for label in range(truth.shape[1]):
        own = states[:, label]
        known, unknown = np.flatnonzero(own >= 0), np.flatnonzero(own < 0)
        classifier = fit_classifier(x[known], own[known], x[weak_rows(own)])
        logits = classifier.logits(x)
        rest = truth[unknown, label]
        sure = rest[probabilities(logits[unknown]) >= SURE]
        found.append(
            (
                average_precision_score(
                    archive.labels[held, label], classifier.logits(archive.vectors[held])
                ),
                average_precision_score(rest, logits[unknown]) if rest.any() else np.nan,
                int(np.count_nonzero(own == 1)),
                len(sure),
                int(sure.sum()),
            )
        )
        asked = pick(way, logits, unknown, rng)
        after[asked, label] = truth[asked, label]
    return Measured(*np.nanmean(found, axis=0).tolist()), after


def train_head(archive: Archive, states: np.ndarray, seed: int) -> dict[str, float]:
    """Scores on the test images of a head that was trained on these labels. (N, L)"""
    torch.manual_seed(seed)
    scale = archive.vectors.shape[1] ** 0.5  # features of about 1, as those of a network are
    x = torch.from_numpy(archive.vectors) * scale
    y = torch.from_numpy(states).long()
    head = nn.Sequential(nn.Linear(x.shape[1], x.shape[1]), nn.ReLU(), nn.Linear(x.shape[1], DIM))
    loss = create_loss(
        "marc-proto",
        statistics=LabelStatistics.from_labels(y.clamp_min(0)),
        embedding_dim=DIM,
        generator=torch.Generator().manual_seed(seed),
    )
    optimiser = torch.optim.Adam([*head.parameters(), *loss.parameters()], lr=1e-3, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    usable = np.flatnonzero((states >= 0).any(1))  # others teach nothing
    train = torch.from_numpy(archive.parts["train"][usable])
    best: tuple[float, dict[str, float]] = (-1, {})
    for epoch in range(EPOCHS):
        order = torch.randperm(len(usable))
        for part in order.split(BATCH):
            if len(part) < 2:
                continue
            optimiser.zero_grad()
            loss(normalize(head(x[train[part]]), dim=1), y[usable[part]]).backward()
            optimiser.step()
        schedule.step()
        if epoch % 3 == 2:
            with torch.no_grad():
                embedded = normalize(head(x), dim=1)
            scores = {part: score(archive, embedded, part) for part in ("validation", "test")}
            best = max(best, (mean(scores["validation"]), scores["test"]), key=lambda each: each[0])
    return best[1]


def score(archive: Archive, embedded: torch.Tensor, part: str) -> dict[str, float]:
    rows = archive.parts[part]
    found = retrieval_scores(embedded[rows], archive.labels[rows], per_label=False)
    return {name: 100 * found[name] for name in METRICS}


def mean(scores: dict[str, float]) -> float:
    return float(np.mean(list(scores.values())))


def spread(values: list[float]) -> str:
    return f"{np.mean(values):.1f} +- {np.std(values, ddof=1):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def choices(archive: Archive, seeds: int) -> None:
    """AP from a few labels by the strength of the regularisation and the weight of the weak negatives."""
    print("\nC, weak negatives (number, weight): AP from 5 + 0, 5 + 5, 10 + 15, 50 + 50 labels")
    for c, (count, weight) in itertools.product(
        (1, 10, 100), ((0, 0.1), (20, 0.1), (200, 0.1), (200, 1), (1000, 0.02))
    ):
        suggest._C, suggest.WEAK, suggest._WEAK_WEIGHT = float(c), count, weight
        cells = [from_few(archive, *few, seeds) for few in ((5, 0), (5, 5), (10, 15), (50, 50))]
        print(f"{c:5} {count:5} {weight:5}  " + "  ".join(cells), flush=True)


def from_few(archive: Archive, present: int, absent: int, seeds: int) -> str:
    if not suggest.WEAK and not absent:
        return "   -"
    values = []
    for seed, label in itertools.product(range(seeds), range(archive.labels.shape[1])):
        rng, truth = np.random.default_rng([seed, label]), archive.labels[:, label]
        states = np.full(len(truth), -1)
        for state, count in ((1, present), (0, absent)):
            states[rng.permutation(np.flatnonzero(truth == state))[:count]] = state
        known, rest = np.flatnonzero(states >= 0), np.flatnonzero(states < 0)
        x = archive.vectors
        found = fit_classifier(x[known], states[known], x[weak_rows(states, seed)])
        values.append(average_precision_score(truth[rest], found.logits(x[rest])))
    return f"{100 * np.mean(values):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--choices", action="store_true")
    given = parser.parse_args()
    archive = read(given.root)
    if given.choices:
        choices(archive, 2)
        return
    train = archive.parts["train"]
    truth = archive.labels[train]
    print(f"{len(train)} training images, {truth.shape[1]} labels, {given.seeds} seeds; AP in percent\n")
    print("picking     round  AP held out    AP of the rest  known present  p >= 0.8  right of these")
    states: dict[tuple[str, int], np.ndarray] = {}
    for way in WAYS:
        rounds: list[list[Measured]] = [[] for _ in range(ROUNDS + 1)]
        for seed in range(given.seeds):
            rng = np.random.default_rng(seed)
            now = start(truth, rng)
            states["first", seed] = now
            for place in range(ROUNDS + 1):
                states[way, seed] = now  # at the end: after all rounds
                measured, now = one_round(archive, now, way, rng)
                rounds[place].append(measured)
        for place, found in enumerate(rounds):
            cells = [
                spread([100 * each.held_out for each in found]),
                spread([100 * each.rest for each in found]),
            ]
            present = np.mean([each.present for each in found])
            accepted = sum(each.accepted for each in found)
            right = sum(each.right for each in found)
            print(
                f"{way:10} {place:6}  {cells[0]:13}  {cells[1]:14}  {present:13.1f}  "
                f"{accepted / len(found):8.1f}  {100 * right / accepted if accepted else np.nan:14.1f}",
                flush=True,
            )
    share = np.mean([(states["uncertain", seed] >= 0).mean() for seed in range(given.seeds)])
    print(f"\nlabels that are known after all rounds: {100 * share:.1f} % of those of the training images")
    print("\nhead trained on             mean of 7      nDCG@100")
    heads = {"5 per label": "first", **{f"and 5 rounds, {way}": way for way in WAYS}}
    for name, way in heads.items():
        scores = [train_head(archive, states[way, seed], seed) for seed in range(given.seeds)]
        report(name, scores)
    report("all labels", [train_head(archive, truth, seed) for seed in range(given.seeds)])
    report("nothing (ImageNet features)", [score(archive, torch.from_numpy(archive.vectors), "test")])


def report(name: str, scores: list[dict[str, float]]) -> None:
    cells = spread([mean(each) for each in scores]), spread([each["nDCG@100"] for each in scores])
    print(f"{name:27} {cells[0]:14} {cells[1]}", flush=True)


if __name__ == "__main__":
    main()
