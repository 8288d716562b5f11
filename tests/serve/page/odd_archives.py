"""Archives at the edges: very many labels and very long names, or almost nothing."""

import csv
from pathlib import Path

import numpy as np

from marcir.stages.index import index
from marcir.store.lance import LanceStore
from serve.small_archive import SIDE, picture

LABELS = [f"label {number:03} {'of a long name ' * (number % 7 == 0)}".strip() for number in range(500)]
LONG = f"{'a folder with a long name/' * 6}{'an-image-with-a-name-without-any-space-' * 5}.png"


def _write(folder: Path, names: list[str]) -> Path:
    rng = np.random.default_rng(0)
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)))
    return folder


def crowded(folder: Path, model: Path) -> tuple[Path, Path]:
    """30 images with 500 labels: 40 on the first, whose id is very long; the others share the rest."""
    names = [LONG, *(f"{number:03}.png" for number in range(29))]
    images = _write(folder / "images", names)
    with (folder / "labels.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "labels"])
        table.writerow([LONG, ";".join(LABELS[:40])])
        for at, name in enumerate(names[1:]):
            table.writerow([name, ";".join(["label 001", *LABELS[40 + at :: 29]])])
    index(model, images, folder / "store", labels=folder / "labels.csv")
    return folder / "store", images


def lonely(folder: Path, model: Path) -> tuple[Path, Path]:
    """One image without labels."""
    images = _write(folder / "images", ["only.png"])
    index(model, images, folder / "store")
    return folder / "store", images


def empty(store: Path) -> None:
    """Take all images out."""
    archive = LanceStore(store)
    archive.delete(archive.ids())
