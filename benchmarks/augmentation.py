"""How fast packed images are made into augmented batches, beside how fast a ResNet-18 trains on them.

    python benchmarks/augmentation.py [--size 128] [--batch 128] [--repeats 20]

Real `ucm` images, found through MARCIR_SHARED. Goals: 660 images/s (on 2 cores, at 128 px), and ten times the
rate at which ResNet-18 trains here.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from marcir.data.archive import open_archive
from marcir.data.augment import Augmentation
from marcir.data.dataset import ImageFiles, PackedImages
from marcir.data.resize import packed_size
from marcir.torchvision_shim import timm

GOAL = 660
ROOT = Path(os.environ.get("MARCIR_SHARED", "../shared")) / "data/ucmerced-multilabel"


def images_a_second(step: Callable[[int], object], images: int, repeats: int) -> float:
    best = float("inf")
    for repeat in range(repeats):
        start = time.perf_counter()
        step(repeat)
        best = min(best, time.perf_counter() - start)
    return images / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    if not ROOT.is_dir():
        sys.exit(f"{ROOT} is missing: set MARCIR_SHARED to the folder that holds data/.")
    archive = open_archive("ucm", ROOT)
    side = packed_size(arguments.size)
    start = time.perf_counter()
    packed = PackedImages(archive, side)
    print(f"packed {len(archive)} images at {side} px: {time.perf_counter() - start:.1f} s (0: warm cache)")
    files, augment = ImageFiles(archive, side), Augmentation(arguments.size)
    generator = torch.Generator().manual_seed(0)
    batches = [
        torch.randperm(len(archive), generator=generator)[: arguments.batch].tolist()
        for _ in range(arguments.repeats)
    ]

    def augmented(repeat: int) -> torch.Tensor:
        positions = batches[repeat]
        return augment(packed.batch(positions), [archive.ids[i] for i in positions], seed=0, epoch=repeat)

    network = timm.create_model("resnet18", num_classes=128)
    optimiser = torch.optim.Adam(network.parameters())
    x = torch.rand(64, 3, arguments.size, arguments.size)

    def train(_: int) -> None:
        optimiser.zero_grad()
        network(x).sum().backward()
        optimiser.step()

    made = images_a_second(augmented, arguments.batch, arguments.repeats)
    read = images_a_second(lambda repeat: files.batch(batches[repeat][:32]), 32, 3)
    trained = images_a_second(train, 64, 4)
    print(f"packed and augmented at {arguments.size} px: {made:7.0f} images/s")
    print(f"read from files:                {read:7.0f} images/s")
    print(f"ResNet-18 trains (float32):     {trained:7.0f} images/s")
    print(f"goal: augmented >= {GOAL} images/s: {made:.0f} {verdict(made >= GOAL)}")
    print(f"goal: augmented / trained >= 10: {made / trained:.1f} {verdict(made >= 10 * trained)}")


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


if __name__ == "__main__":
    main()
