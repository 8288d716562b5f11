"""An archive at the edges: very many labels and very long names, or almost nothing."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np

from marcir.search.index import index
from marcir.search.lance import LanceStore
from serve.small_archive import SIDE, picture

LABELS = [f"label {number:03} {'of a long name ' * (number % 7 == 0)}".strip() for number in range(500)]
ONLY = "only.png"
LONG = f"{'a folder with a long name/' * 6}{'an-image-with-a-name-without-any-space-' * 5}.png"


def _write(folder: Path, names: list[str]) -> Path:
    rng = np.random.default_rng(0)
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)))
    return folder


def crowded(folder: Path, model: Path) -> tuple[Path, Path]:
    """30 images with 500 labels: 40 on the first, whose id is very long; and one without."""
    names = [LONG, *(f"{number:03}.png" for number in range(29))]
    images = _write(folder / "images", [*names, ONLY])
    with (folder / "labels.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "labels"])
        table.writerow([LONG, ";".join(LABELS[:40])])
        for at, name in enumerate(names[1:]):
            table.writerow([name, ";".join(["label 001", *LABELS[40 + at :: 29]])])
    index(images, folder / "store", model=model, labels=folder / "labels.csv")
    return folder / "store", images


def relabel(store: Path, image: str, *labels: str) -> None:
    """Give an image other labels; without any, it is not labelled."""
    archive = LanceStore(store)
    (row,) = archive.get([image])
    archive.add([replace(row, labels=labels, labelled=bool(labels))])


def keep_only(store: Path, *images: str) -> None:
    """Take all other images out."""
    archive = LanceStore(store)
    archive.delete([each for each in archive.ids() if each not in images])
