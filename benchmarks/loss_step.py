"""Time and memory of one loss step (forward + backward), side by side in one run, as ratios.

    python benchmarks/loss_step.py [--batch 128 1024 4096] [--repeats 15] [--memory-batch 32768]
    python benchmarks/loss_step.py --batch --memory-batch 0 --unknown-batch 128 256 512 1024

Floor F = forward + backward of log_softmax(z @ z.T / tau). D = 128, real `ucm` label rows (17 labels),
found through MARCIR_SHARED. Every contestant is timed in turn in every round, best of all rounds.

With --unknown-batch: a step with unknown labels over one with complete labels, one thread, processor time.
"""

import argparse
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from pytorch_metric_learning.losses import SupConLoss
from torch import Tensor

import marcir
from marcir.catalog import LOSSES
from marcir.labels.hide import hide_labels

TAU = 0.3
DIMENSIONS = 128
SHARED = Path(os.environ.get("MARCIR_SHARED", "../shared"))
# Goals at a batch size: (contestant, over what, at most).
GOALS = {
    1024: [
        ("marc", "floor", 1.4),
        ("marc", "pml-supcon", 1 / 3),
        ("marc", "expanded", 1 / 3),
        ("marc", "mulsupcon", 1.15),
        ("marc-proto", "marc-calibrated", 1.25),
        ("mulsupcon, unknown at random", "mulsupcon, complete", 1.5),
        ("marc, unknown at random", "marc, complete", 1.5),
        ("marc-calibrated, unknown at random", "marc-calibrated, complete", 1.5),
        ("marc-proto, unknown at random", "marc-proto, complete", 1.5),
    ],
    4096: [
        ("marc", "floor", 1.0),
        ("marc", "pml-supcon", 1 / 3),
        ("marc", "expanded", 1 / 3),
        ("marc", "mulsupcon", 1.15),
    ],
}
UNKNOWN_LOSSES = ["mulsupcon", "marc", "marc-calibrated", "marc-proto"]
# Those that take chunk_size.
MEMORY_LOSSES = [
    "supcon-all", "supcon-any", "lbase", "mulsupcon", "wg-mulsupcon", "sim-dis", "marc", "wg-marc",
    "marc-calibrated", "marc-proto",
]  # fmt: skip


def real_labels() -> Tensor:
    """The 2,100 label rows of `ucm`. (2100, 17)"""
    table = SHARED / "data/ucmerced-multilabel/LandUse_Multilabeled.txt"
    if not table.is_file():
        sys.exit(f"{table} is missing: set MARCIR_SHARED to the folder that holds data/.")
    rows = [line.split("\t")[1:] for line in table.read_text().splitlines()[1:] if line.strip()]
    return torch.tensor([[int(value) for value in row if value] for row in rows])


def expanded_mulsupcon(z: Tensor, y: Tensor) -> Tensor:
    """MulSupCon with one row for every (anchor, label), as it is commonly written."""
    own = torch.eye(len(z), dtype=torch.bool)
    log_p = torch.log_softmax((z @ z.T / TAU).masked_fill(own, -1e30), 1)
    anchor, label = y.nonzero(as_tuple=True)
    positives = (y.T[label] > 0) & ~own[anchor]  # (E, B)
    size = positives.sum(1)
    loss = -(log_p[anchor] * positives).sum(1) / size.clamp_min(1)
    return loss[size > 0].mean()


def contestants(z: Tensor, y: Tensor, statistics: marcir.LabelStatistics) -> dict[str, Callable[[], Tensor]]:
    pml = SupConLoss(temperature=TAU)
    classes = (y @ (2 ** torch.arange(y.shape[1]))).unique(return_inverse=True)[1]
    steps: dict[str, Callable[[], Tensor]] = {
        "floor": lambda: torch.log_softmax(z @ z.T / TAU, 1).sum(),
        "pml-supcon": lambda: pml(z, classes),
        "expanded": lambda: expanded_mulsupcon(z, y),
    }
    for name in LOSSES:
        if name == "oml" and len(z) > 128:  # cubic in the batch
            continue
        loss = marcir.create_loss(name, statistics=statistics, embedding_dim=DIMENSIONS)
        steps[name] = partial(loss, z, y)
    return steps


def milliseconds(
    z: Tensor,
    steps: dict[str, Callable[[], Tensor]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    best = dict.fromkeys(steps, math.inf)
    for _ in range(repeats):
        for name, step in steps.items():
            step().backward()  # untimed: nobody should pay for what the one before left in the caches
            z.grad = None
            start = clock()
            step().backward()
            best[name] = min(best[name], 1e3 * (clock() - start))
    return best


def compare(batch: int, repeats: int) -> None:
    generator = torch.Generator().manual_seed(0)
    labels = real_labels()
    z = torch.nn.functional.normalize(torch.randn(batch, DIMENSIONS, generator=generator)).requires_grad_()
    y = labels[torch.randint(len(labels), (batch,), generator=generator)]
    best = milliseconds(z, contestants(z, y, marcir.LabelStatistics.from_labels(labels)), repeats)
    print(f"\nB = {batch}, {torch.get_num_threads()} threads")
    print(f"{'':18}{'ms':>9}{'/ floor':>9}{'/ pml':>9}{'/ mulsupcon':>13}")
    for name, ms in best.items():
        print(
            f"{name:18}{ms:9.2f}{ms / best['floor']:9.2f}{ms / best['pml-supcon']:9.2f}"
            f"{ms / best['mulsupcon']:13.2f}"
        )
    print_goals(batch, best)


def print_goals(batch: int, best: dict[str, float]) -> None:
    for name, over, limit in GOALS.get(batch, []):
        if name not in best or over not in best:  # of the other comparison
            continue
        ratio = best[name] / best[over]
        verdict = "met" if ratio <= limit else "MISSED"
        print(f"goal: {name} / {over} <= {limit:.2f}: {ratio:.2f} {verdict}")


def joined_tables(y: Tensor, tables: int, generator: torch.Generator) -> Tensor:
    """Every image is of one of several tables, each of which lacks about 40 % of the labels. (B, L)"""
    lacking = torch.rand(tables, y.shape[1], generator=generator) < 0.4
    return y.masked_fill(lacking[torch.randint(tables, (len(y),), generator=generator)], -1)


def compare_unknown(batch: int, repeats: int) -> None:
    """Steps with unknown labels over those with complete labels."""
    torch.set_num_threads(1)
    torch.empty(31 << 20, dtype=torch.uint8)  # after training glibc keeps freed memory, too
    generator = torch.Generator().manual_seed(0)
    labels = real_labels()
    statistics = marcir.LabelStatistics.from_labels(labels)
    z = torch.nn.functional.normalize(torch.randn(batch, DIMENSIONS, generator=generator)).requires_grad_()
    y = labels[torch.randint(len(labels), (batch,), generator=generator)]
    unknown = {"unknown at random": hide_labels(y, 0.3).long()}
    unknown |= {f"{tables} tables": joined_tables(y, tables, generator) for tables in (2, 8, 16)}
    steps: dict[str, Callable[[], Tensor]] = {}
    for name in UNKNOWN_LOSSES:
        loss = marcir.create_loss(name, statistics=statistics, embedding_dim=DIMENSIONS)
        steps[f"{name}, complete"] = partial(loss, z, y)
        steps |= {f"{name}, {kind}": partial(loss, z, rows) for kind, rows in unknown.items()}
    best = milliseconds(z, steps, repeats, time.process_time)
    print(f"\nUnknown labels / complete labels, B = {batch}, one thread, processor time")
    print(f"{'':18}" + "".join(f"{name:>17}" for name in UNKNOWN_LOSSES))
    for kind in unknown:
        ratios = [best[f"{name}, {kind}"] / best[f"{name}, complete"] for name in UNKNOWN_LOSSES]
        print(f"{kind:18}" + "".join(f"{ratio:17.2f}" for ratio in ratios))
    print_goals(batch, best)


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_memory(name: str, batch: int) -> None:
    """In a process of its own: how far one step lifts the peak of resident memory."""
    generator = torch.Generator().manual_seed(0)
    labels = real_labels()
    statistics = marcir.LabelStatistics.from_labels(labels)
    loss = marcir.create_loss(name, statistics=statistics, embedding_dim=DIMENSIONS, chunk_size=256)
    z = torch.randn(batch, DIMENSIONS, generator=generator).requires_grad_()
    y = labels[torch.randint(len(labels), (batch,), generator=generator)]
    loss(z[:512], y[:512]).backward()  # libraries and threads are there before the measurement
    before, start = peak_megabytes(), time.perf_counter()
    loss(z, y).backward()
    print(
        f"{name:18}B = {batch}, chunk_size = 256: {peak_megabytes() - before:7.0f} MiB extra, "
        f"{time.perf_counter() - start:5.1f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--batch", type=int, nargs="*", default=[128, 1024, 4096])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--memory-batch", type=int, default=32768, help="0 leaves the memory part out")
    parser.add_argument("--unknown-batch", type=int, nargs="*", default=[], help="with unknown labels")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        measure_memory(arguments.memory_of, arguments.memory_batch)
        return
    for batch in arguments.batch:
        compare(batch, arguments.repeats)
    if arguments.memory_batch:
        print("\nMemory (goal: under 2048 MiB extra)", flush=True)
        for name in MEMORY_LOSSES:
            command = [
                sys.executable,
                __file__,
                "--memory-of",
                name,
                "--memory-batch",
                str(arguments.memory_batch),
            ]
            subprocess.run(command, check=True)  # noqa: S603
    for batch in arguments.unknown_batch:  # last: with one thread
        compare_unknown(batch, arguments.repeats)


if __name__ == "__main__":
    main()
