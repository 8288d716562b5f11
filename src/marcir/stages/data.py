"""Look at an archive, split it, show what augmentation does to it."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from marcir.catalog import create_reader
from marcir.data.archive import Archive
from marcir.data.augment import Augmentation
from marcir.data.cache import cache_folder
from marcir.data.dataset import DatasetReader
from marcir.data.sources import ImageFiles, OnBroken, broken_images, refuse_broken
from marcir.data.split import Method, Split, draw_split
from marcir.errors import ConfigError, DataError
from marcir.figures.cooccurrence import draw_cooccurrence
from marcir.figures.samples import draw_samples
from marcir.labels import LabelStatistics

# Images are read at 1.25 times the size that training sees, to leave room for crops.
MARGIN = 1.25


def open_archive(
    dataset: str, root: str | Path | None, labels: str | Path | None = None
) -> tuple[Archive, DatasetReader]:
    """Read an archive by the dataset's name; only `scenes` has a folder of its own."""
    reader = create_reader(dataset)
    if root is None:
        if dataset != "scenes":
            raise ConfigError(f"dataset '{dataset}' needs --root, the folder with: {reader.LAYOUT}.")
        root = cache_folder() / "scenes"
    root = Path(root)
    if dataset != "scenes" and not root.is_dir():
        raise DataError(f"{dataset}: root={root} is not a folder. Expected there: {reader.LAYOUT}.")
    archive = reader.read(root, Path(labels) if labels is not None else None)
    if not len(archive):
        raise DataError(f"{dataset}: the label table of {root} names no images.")
    return archive, reader


@dataclass(frozen=True)
class Inspection:
    """What is in an archive.

    Attributes:
        name: The dataset's name.
        root: Its folder.
        images: Number of images.
        expected_images: The published number, where there is one.
        counts: Images per label.
        expected: Published images per label, where there are any.
        labels_per_image: How many images have so many labels.
        distinct_sets: Number of distinct label sets.
        broken: What is wrong with images that cannot be read, by id.
    """

    name: str
    root: str
    images: int
    expected_images: int | None
    counts: dict[str, int]
    expected: dict[str, int] | None
    labels_per_image: dict[int, int]
    distinct_sets: int
    broken: dict[str, str]

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.images:,} images in {self.root}{_beside(self.images, self.expected_images)}"
        ]
        width = max(len(name) for name in self.counts) if self.counts else 0
        for name, count in self.counts.items():
            published = self.expected[name] if self.expected else None
            lines.append(f"  {name:{width}} {count:7,}{_beside(count, published)}")
        labelled = sum(count * images for count, images in self.labels_per_image.items())
        spread = ", ".join(f"{count}: {images:,}" for count, images in sorted(self.labels_per_image.items()))
        lines.append(f"labels an image: {labelled / max(self.images, 1):.2f} on average ({spread})")
        if unlabelled := self.labels_per_image.get(0):
            lines.append(f"without any label: {unlabelled:,} (kept; they are never anchors nor positives)")
        lines.append(f"distinct label sets: {self.distinct_sets:,}")
        lines.append(f"broken images: {len(self.broken):,}")
        lines += [f"  {problem}" for problem in self.broken.values()]
        return "\n".join(lines)


def _beside(found: int, published: int | None) -> str:
    if published is None or found == published:
        return "" if published is None else "   as published"
    return f"   WARNING: published {published:,}"


def inspect(
    dataset: str,
    root: str | Path | None,
    labels: str | Path | None = None,
    heat_map: str | Path | None = None,
) -> Inspection:
    """Count what is in an archive, read every image once, and draw which labels occur together."""
    archive, reader = open_archive(dataset, root, labels)
    statistics = LabelStatistics.from_labels(archive.labels)
    names = archive.vocabulary.names
    if heat_map is not None:
        draw_cooccurrence(statistics.cooccurrence.numpy(), names, heat_map)
    return Inspection(
        name=archive.name,
        root=str(archive.root),
        images=len(archive),
        expected_images=reader.IMAGES,
        counts=dict(zip(names, statistics.label_counts.tolist(), strict=True)),
        expected=dict(zip(reader.LABELS, reader.COUNTS, strict=True)) if reader.COUNTS else None,
        labels_per_image=dict(Counter(archive.labels.sum(1).tolist())),
        distinct_sets=len(statistics.rows),
        broken=broken_images(archive),
    )


def split(
    dataset: str,
    root: str | Path | None,
    out: str | Path,
    labels: str | Path | None = None,
    seed: int = 0,
    method: Method = "random",
) -> Split:
    """Draw a split, with the published sizes where the archive has the published number of images."""
    archive, reader = open_archive(dataset, root, labels)
    sizes = reader.SPLIT if len(archive) == reader.IMAGES else None
    drawn = draw_split(archive, seed, method, sizes)
    drawn.save(out)
    return drawn


def show(
    dataset: str,
    root: str | Path | None,
    out: str | Path,
    labels: str | Path | None = None,
    images: int = 6,
    views: int = 5,
    size: int = 128,
    seed: int = 0,
    on_broken: OnBroken = "error",
) -> dict[str, str]:
    """Draw some images beside their augmented versions; returns the broken images that were left out."""
    for name, value in (("--images", images), ("--views", views), ("--size", size)):
        if value < 1:
            raise ConfigError(f"{name} {value}: must be 1 or more.")
    archive, _ = open_archive(dataset, root, labels)
    source = ImageFiles(archive, round(MARGIN * size))
    augment = Augmentation(size)
    order = torch.randperm(len(archive), generator=torch.Generator().manual_seed(seed)).tolist()
    rows: list[list[np.ndarray]] = []
    titles, broken = [], {}
    for position in order:
        if len(rows) == images:
            break
        try:
            batch = source.batch([position])
        except DataError as error:
            broken[archive.ids[position]] = str(error)
            if on_broken == "error":
                refuse_broken(broken)
            continue
        name = archive.ids[position]
        made = [augment(batch, [name], seed=seed, epoch=0, view=view)[0] for view in range(views)]
        rows.append([batch[0].permute(1, 2, 0).numpy(), *(view.permute(1, 2, 0).numpy() for view in made)])
        titles.append(
            f"{name}: {', '.join(archive.vocabulary.decode(archive.labels[[position]])[0]) or 'no label'}"
        )
    draw_samples(rows, titles, out)
    return broken
