"""What every loss wants: free embeddings of a small generated batch, moved by the loss alone.

python benchmarks/free_embeddings.py [STEPS]
"""

import sys
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from marcir.catalog import LOSSES, create_loss
from marcir.labels import LabelStatistics, jaccard
from marcir.losses import MultiLabelLoss, diagnose
from marcir.losses.diagnosis import JACCARD_BINS

NAMES = ("building", "road", "tree", "grass", "water", "ship", "dock", "tank")
# Long-tailed, as in real archives: the chance of each scene, and the labels it may show.
SCENES = (
    (0.40, {"building": 0.9, "road": 0.9, "tree": 0.6, "grass": 0.4}),
    (0.30, {"tree": 0.9, "grass": 0.8, "road": 0.3, "water": 0.2}),
    (0.15, {"water": 0.9, "tree": 0.5, "grass": 0.5}),
    (0.10, {"water": 1.0, "ship": 0.9, "dock": 0.8, "building": 0.3}),
    (0.05, {"tank": 1.0, "road": 0.7, "building": 0.5}),
)
EMBEDDING_DIM = 32


@dataclass(frozen=True)
class Moved:
    """What one loss did to the embeddings of the batch."""

    name: str
    before: float
    after: float
    milliseconds: float
    cosine: dict[str, float | None]
    neighbours: float


def generate_labels(images: int, generator: torch.Generator) -> Tensor:
    """Multi-hot labels of scenes drawn at random, bool. (N, L)"""
    chances = torch.tensor([[labels.get(name, 0.0) for name in NAMES] for _, labels in SCENES])
    scene = torch.multinomial(
        torch.tensor([chance for chance, _ in SCENES]), images, True, generator=generator
    )
    return torch.rand(images, len(NAMES), generator=generator) < chances[scene]


def train_embeddings(loss: MultiLabelLoss, z: Tensor, y: Tensor, steps: int) -> tuple[Tensor, float]:
    """Free embeddings, moved by the loss alone: what it wants, without a network in between."""
    z = z.clone().requires_grad_()
    optimiser = torch.optim.Adam([z, *loss.parameters()], lr=0.05)
    start = time.perf_counter()
    for _ in range(steps):
        optimiser.zero_grad()
        loss(z, y).backward()
        optimiser.step()
    return z.detach(), 1e3 * (time.perf_counter() - start) / steps


def mean_overlap_of_neighbours(z: Tensor, y: Tensor, k: int = 5) -> float:
    """Mean Jaccard overlap of an image with its k nearest ones."""
    z = torch.nn.functional.normalize(z)
    similarity = (z @ z.T).fill_diagonal_(-torch.inf)
    nearest = similarity.topk(k, 1).indices  # (N, k)
    return float(jaccard(y, y).gather(1, nearest).mean())


def moved_by_all(steps: int, seed: int, images: int = 128) -> list[Moved]:
    """Every loss of the catalog on the same labels and the same first embeddings."""
    generator = torch.Generator().manual_seed(seed)
    statistics = LabelStatistics.from_labels(generate_labels(2000, generator))
    y = generate_labels(images, generator)
    first = torch.randn(images, EMBEDDING_DIM, generator=generator)
    torch.set_num_threads(1)  # tensors this small gain nothing from a second one
    return [
        moved_by(name, create_loss(name, statistics=statistics, embedding_dim=EMBEDDING_DIM), first, y, steps)
        for name in LOSSES
    ]


def moved_by(name: str, loss: MultiLabelLoss, first: Tensor, y: Tensor, steps: int) -> Moved:
    """What one loss does in so many steps."""
    before = diagnose(loss, first, y).loss
    z, milliseconds = train_embeddings(loss, first, y, steps)
    seen = diagnose(loss, z, y)
    return Moved(name, before, seen.loss, milliseconds, seen.cosine, mean_overlap_of_neighbours(z, y))


def table(steps: int = 150, seed: int = 0) -> str:
    """A table and how to read it."""
    rows = moved_by_all(steps, seed)
    head = f"{'loss':16}{'before':>8}{'after':>8}{'ms/step':>9}{'top-5 J':>9}   mean cosine of pairs with"
    bins = f"{'':50}   " + "".join(f"{name:>10}" for name in JACCARD_BINS)
    lines = [
        f"Every loss moved the same 128 free embeddings ({EMBEDDING_DIM} dimensions, {len(NAMES)} labels) "
        f"for {steps} steps.",
        "",
        head,
        bins,
    ]
    for row in rows:
        cosines = "".join(f"{'-' if c is None else f'{c:.2f}':>10}" for c in row.cosine.values())
        lines.append(
            f"{row.name:16}{row.before:8.3f}{row.after:8.3f}{row.milliseconds:9.2f}{row.neighbours:9.3f}   "
            f"{cosines}"
        )
    lines += [
        "",
        "top-5 J: mean label overlap of an image with its five nearest. Cosines should rise to the right.",
        "Values of different losses cannot be compared, only what they do to the embeddings.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(*map(int, sys.argv[1:2])))
