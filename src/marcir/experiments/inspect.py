"""Inspect an archive, split it, and draw augmented images."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from marcir.catalog import create_reader
from marcir.checks import check_choice, check_int, check_seed
from marcir.data.archive import Archive, open_archive
from marcir.data.augment import Augmentation
from marcir.data.dataset import ImageFiles
from marcir.data.images import SUFFIXES
from marcir.data.label_csv import Unlisted
from marcir.data.resize import packed_size
from marcir.data.split import Method, Split, draw_split
from marcir.data.validation import (
    OnBroken,
    broken_images,
    check_on_broken,
    leave_out_broken,
    raise_if_broken,
    silence_warning,
    suspicious_label_names,
    unlisted_images,
    without_broken,
)
from marcir.errors import BrokenImageError, ConfigError
from marcir.figures.heat_maps import draw_cooccurrence
from marcir.figures.samples import draw_samples
from marcir.labels import LabelStatistics
from marcir.text_tables import percent

# Endings of files that readers of archives open.
_ARCHIVE_SUFFIXES = SUFFIXES | {".csv", ".tsv", ".txt"}


@dataclass(frozen=True)
class Inspection:
    """Contents of an archive.

    Attributes:
        name: The dataset's name.
        root: Its folder.
        images: Number of images.
        expected_images: The published number, if any.
        counts: Images in which each label is present.
        expected: Published images per label, if any.
        labels_per_image: Number of images by number of labels present.
        distinct_sets: Number of distinct sets of labels present.
        broken: Errors of unreadable images, by id.
        unnamed: Number of image files in the folder that the table does not name.
        doubts: Label names that look like typing errors, one sentence each.
        unknown: Images in which each label is unknown; empty where all labels are known.
        unlisted: What labels are that the label table does not list; None if it has a column for each.
        silence: A warning where these may be unknown instead.
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
    unnamed: int = 0
    doubts: tuple[str, ...] = ()
    unknown: dict[str, int] = field(default_factory=dict)
    unlisted: Unlisted | None = None
    silence: str | None = None

    @property
    def absent(self) -> dict[str, int]:
        """Images in which each label is known to be absent."""
        return {name: self.images - n - self.unknown.get(name, 0) for name, n in self.counts.items()}

    def __str__(self) -> str:
        published = _published_note(self.images, self.expected_images)
        lines = [f"{self.name}: {self.images:,} images in {self.root}{published}"]
        width = max(len(name) for name in self.counts) if self.counts else 0
        if self.unknown:
            lines.append(f"  {'':{width}} {'present':>9} {'absent':>9} {'unknown':>9}")
        for name, count in self.counts.items():
            expected = self.expected[name] if self.expected else None
            counted = f"{count:7,}"
            if self.unknown:
                counted = f"{count:9,} {self.absent[name]:9,} {self.unknown[name]:9,}"
            lines.append(f"  {name:{width}} {counted}{_published_note(count, expected)}")
        if self.unknown:
            share = sum(self.unknown.values()) / (self.images * len(self.counts))
            unlisted = f"; what is not listed is {self.unlisted}" if self.unlisted else ""
            lines.append(f"unknown: {percent(share)} % of the labels{unlisted}")
        if never := [repr(name) for name, images in self.unknown.items() if images == self.images]:
            lines.append(
                f"WARNING: unknown in every image: {', '.join(never)}. Nothing is learned from such a label."
            )
        labelled = sum(count * images for count, images in self.labels_per_image.items())
        spread = ", ".join(f"{count}: {images:,}" for count, images in sorted(self.labels_per_image.items()))
        lines.append(f"labels per image: {labelled / max(self.images, 1):.2f} on average ({spread})")
        if unlabelled := self.labels_per_image.get(0):
            lines.append(f"without any label: {unlabelled:,} (kept; they are never anchors nor positives)")
        if self.silence is not None:
            lines.append(f"WARNING: {self.silence}")
        lines.append(f"distinct label sets: {self.distinct_sets:,}")
        lines.append(f"broken images: {len(self.broken):,}")
        lines += [f"  {problem}" for problem in self.broken.values()]
        if self.unnamed:
            lines.append(f"WARNING: image files in the folder that the table does not name: {self.unnamed:,}")
        lines += [f"WARNING: label {doubt}" for doubt in self.doubts]
        # File names may have bytes that are not UTF-8, which no terminal can print.
        return "\n".join(lines).encode("utf-8", "backslashreplace").decode()


def _published_note(found: int, published: int | None) -> str:
    if published is None or found == published:
        return "" if published is None else "   as published"
    return f"   WARNING: published {published:,}"


def inspect(
    dataset: str,
    root: str | Path | None,
    labels: str | Path | None = None,
    heat_map: str | Path | None = None,
    on_broken: Literal["list", "skip"] = "list",
    report: Callable[[Inspection], object] | None = None,
    unlisted: Unlisted | None = None,
) -> Inspection:
    """Count images and labels, read every image once, and draw the co-occurrence of labels.

    Broken images are always listed; `skip` excludes their labels from the counts. `report` is called before
    the heat map is drawn, so that an error there hides nothing.
    """
    check_choice("on_broken", on_broken, ("list", "skip"))
    archive, reader = open_archive(dataset, root, labels, unlisted), create_reader(dataset)
    refuse_replacing(archive, labels, heat_map)
    broken = broken_images(archive)
    counted = without_broken(archive, broken, "skip") if on_broken == "skip" else archive
    names = counted.vocabulary.names
    statistics = LabelStatistics.from_labels(counted.labels)
    unknown = (counted.labels < 0).sum(0).tolist()
    found = Inspection(
        name=archive.name,
        root=str(archive.root),
        images=len(counted),
        expected_images=reader.IMAGES,
        counts=dict(zip(names, statistics.label_counts.tolist(), strict=True)),
        expected=dict(zip(reader.LABELS, reader.COUNTS, strict=True)) if reader.COUNTS else None,
        labels_per_image=dict(Counter((counted.labels > 0).sum(1).tolist())),
        distinct_sets=len(statistics.rows),
        broken=broken,
        unnamed=unlisted_images(archive, reader.IMAGE_FOLDER),
        doubts=tuple(suspicious_label_names(names)),
        unknown=dict(zip(names, unknown, strict=True)) if any(unknown) else {},
        unlisted=counted.unlisted if counted.lists_labels else None,
        silence=silence_warning(counted.labels, counted.unlisted),
    )
    if report is not None:
        report(found)
    if heat_map is not None:
        draw_cooccurrence(statistics.cooccurrence.numpy(), names, heat_map)
    return found


def split(
    dataset: str,
    root: str | Path | None,
    out: str | Path,
    labels: str | Path | None = None,
    seed: int = 0,
    method: Method | None = None,
    on_broken: OnBroken = "error",
    unlisted: Unlisted | None = None,
) -> tuple[Split, dict[str, str]]:
    """Draw a split, with the published sizes where the archive has the published number of images.

    The method is the dataset's default (`default_method`) unless one is given.

    Every image is read once: a broken one is an error, or left out of the split with `skip`.

    Returns:
        The split, and the broken images that were left out.
    """
    archive = open_archive(dataset, root, labels, unlisted)
    refuse_replacing(archive, labels, out)
    archive, broken = leave_out_broken(archive, on_broken)
    drawn = draw_split(archive, seed, method, archive.split_sizes)
    drawn.save(out)
    return drawn, broken


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
    unlisted: Unlisted | None = None,
) -> dict[str, str]:
    """Draw some images and their augmented versions; returns the broken images that were left out."""
    for name, value in (("images", images), ("views", views), ("size", size)):
        check_int(f"--{name}", value, 1)
    check_on_broken(on_broken)
    archive = open_archive(dataset, root, labels, unlisted)
    refuse_replacing(archive, labels, out)
    source = ImageFiles(archive, packed_size(size))
    order = torch.randperm(len(archive), generator=torch.Generator().manual_seed(check_seed(seed))).tolist()
    rows: list[list[np.ndarray]] = []
    titles, broken = [], {}
    for position in order:
        if len(rows) == images:
            break
        try:
            batch = source.batch([position])
        except BrokenImageError as error:
            broken[archive.ids[position]] = str(error)
            if on_broken == "error" or len(broken) == len(archive):
                raise_if_broken(broken)
            continue
        rows.append(_image_and_views(batch, archive.ids[position], views, size, seed))
        titles.append(_title(archive, position))
    draw_samples(rows, titles, out)
    return broken


def _image_and_views(batch: Tensor, name: str, views: int, size: int, seed: int) -> list[np.ndarray]:
    """An image and its augmented views. (H, W, C) each"""
    augment = Augmentation(size)
    made = [augment(batch, [name], seed=seed, epoch=0, view=view) for view in range(views)]
    return [image[0].permute(1, 2, 0).numpy() for image in (batch, *made)]


def _title(archive: Archive, position: int) -> str:
    labels = archive.vocabulary.decode(archive.labels[[position]])[0]
    return f"{archive.ids[position]}: {', '.join(labels) or 'no label'}"


def refuse_replacing(archive: Archive, labels: str | Path | None, out: str | Path | None) -> None:
    """Refuse to overwrite the label table, an image or any other file of the archive.

    New files in the archive's folder are allowed if no reader could take them for images or tables.

    Raises:
        ConfigError: Names the file.
    """
    if out is None:
        return
    out = Path(out)
    inside = out.resolve().is_relative_to(archive.root.resolve())
    if out.is_file() and any(_same(out, path) for path in (labels, *archive.files)):
        raise ConfigError(f"{out}: belongs to the archive and is not replaced. Choose another file.")
    if inside and out.suffix.lower() in _ARCHIVE_SUFFIXES:
        raise ConfigError(f"{out}: lies in the archive's folder {archive.root}. Choose a place outside.")
    if inside and out.is_file() and not _is_split(out):
        raise ConfigError(f"{out}: is there already, in the archive's folder. Choose another file.")


def _same(out: Path, path: str | Path | None) -> bool:
    try:
        return path is not None and out.samefile(path)
    except OSError:
        return False


def _is_split(path: Path) -> bool:
    """Whether a file is a split, which may be replaced by another."""
    try:
        return "label_checksum" in json.loads(path.read_bytes())
    except (OSError, ValueError, TypeError, RecursionError):
        return False
