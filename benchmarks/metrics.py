"""How long the seven columns take, beside what any ranking needs and beside torchmetrics.

    python benchmarks/metrics.py [--images 5000] [--repeats 3]
    python benchmarks/metrics.py --images 50000 --large

The floor is the similarity product plus one stable sort, both by torch. Goals: all seven columns of one
model in at most 2.5 floors; 20 times faster than torchmetrics on the columns that it has; with --large (ours
alone, by query chunks) less than 3 GiB. Labels are drawn with the label frequencies of UC Merced.
"""

import argparse
import resource
import time
from collections.abc import Callable

import torch

import marcir
from marcir.torchvision_shim import torchvision  # noqa: F401  # torchmetrics imports it

from torchmetrics.functional.retrieval import (  # isort: skip
    retrieval_average_precision,
    retrieval_normalized_dcg,
)

UCM = (100, 718, 691, 886, 115, 105, 100, 103, 975, 102, 1300, 294, 100, 102, 100, 1009, 203)
DIMENSION = 128
SAMPLED = 100  # queries that torchmetrics is timed on; its time grows linearly with them


def best_time(work: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def floor(z: torch.Tensor) -> None:
    (z @ z.T).sort(dim=1, descending=True, stable=True)


def torchmetrics_columns(z: torch.Tensor, y: torch.Tensor) -> None:
    """AP at any shared label and three thresholds, and nDCG by r and by J, for the sampled queries."""
    similarity, r = z[:SAMPLED] @ z.T, marcir.labels.shared_labels(y[:SAMPLED], y)
    overlap = marcir.jaccard(y[:SAMPLED], y)
    for query in range(SAMPLED):
        others = torch.arange(len(z)) != query
        scores, j = similarity[query][others] + 1, overlap[query][others]  # it drops what is not positive
        for relevant in (j > 0, j >= 0.4, j >= 0.6, j >= 0.8):
            retrieval_average_precision(scores, relevant)
        for grades in (r[query][others], j):
            retrieval_normalized_dcg(scores, grades, top_k=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="time and memory of marcir alone, once")
    arguments = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    z = torch.nn.functional.normalize(torch.randn(arguments.images, DIMENSION, generator=generator), dim=1)
    y = torch.rand(arguments.images, len(UCM), generator=generator) < torch.tensor(UCM) / 2100
    if arguments.large:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds = best_time(lambda: marcir.retrieval_scores(z, y), 1)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"{len(z):,} x {len(z):,}: {seconds:.0f} s, peak {after / 2**20:.2f} GiB of which")
        print(f"{(after - before) / 2**20:.2f} GiB more than before")
        return
    lowest = best_time(lambda: floor(z), arguments.repeats)
    ours = best_time(lambda: marcir.retrieval_scores(z, y, per_label=False), arguments.repeats)
    by_label = best_time(lambda: marcir.retrieval_scores(z, y), arguments.repeats)
    theirs = best_time(lambda: torchmetrics_columns(z, y), 1) * len(z) / SAMPLED
    print(f"floor (product and sort): {lowest:.2f} s")
    print(f"seven columns: {ours:.2f} s, {ours / lowest:.2f} floors (goal 2.5)")
    print(f"seven columns and every label's AP: {by_label:.2f} s, {by_label / lowest:.2f} floors")
    print(f"torchmetrics, six columns: {theirs:.1f} s, {theirs / ours:.0f} times as long (goal 20)")


if __name__ == "__main__":
    main()
