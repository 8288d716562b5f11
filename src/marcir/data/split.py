"""Training, validation and test parts of an archive: drawn from a seed, saved, and verified on loading."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, get_args

import numpy as np
import torch

from marcir.checks import check_choice, check_seed
from marcir.data.archive import Archive
from marcir.errors import ConfigError, DataError, did_you_mean
from marcir.schema import Field, load, record, save

Method = Literal["random", "stratified", "blocks"]
PARTS = ("train", "validation", "test")
# Default shares of the parts.
SHARES = (0.7, 0.1, 0.2)


@record(unknown="ignore")
class Split:
    """The ids of the training, validation and test images.

    Attributes:
        dataset: The dataset's name.
        method: `random`, `stratified` or `blocks`.
        seed: Seed of the draw.
        label_checksum: Checksum of the label table that was split.
        train: Ids of the training images.
        validation: Ids of the validation images.
        test: Ids of the test images.
        version: Version of the file format.
    """

    dataset: str
    method: Method
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)]
    label_checksum: str
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    version: Literal[1] = 1

    def positions(self, archive: Archive, part: str) -> list[int]:
        """Positions of a part's images in the archive.

        Raises:
            ConfigError: For an unknown part, with the nearest known one.
            DataError: For an image that is not in the archive.
        """
        images: tuple[str, ...] = getattr(self, check_choice("part", part, PARTS))
        unknown = next((image for image in images if image not in archive.position_of), None)
        if unknown is not None:
            raise DataError(_unknown_image("split", part, unknown, archive))
        return [archive.position_of[image] for image in images]

    def __str__(self) -> str:
        """The sizes of the parts, and a warning if one is empty."""
        sizes = {part: len(getattr(self, part)) for part in PARTS}
        text = " / ".join(str(size) for size in sizes.values())
        text += f" images to train / validate / test, labels {self.label_checksum[:12]}"
        if empty := [part for part, size in sizes.items() if not size]:
            text += f"\nWARNING: no images for {' and '.join(empty)}: the archive is too small to be split."
        return text

    @cached_property
    def checksum(self) -> str:
        """A checksum of the label table and the parts, independent of their order."""
        parts = [sorted(getattr(self, part)) for part in PARTS]
        return hashlib.sha256(json.dumps([self.label_checksum, *parts]).encode()).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the split as JSON, atomically."""
        save(path, self, indent=1)

    @classmethod
    def load(cls, path: str | Path, archive: Archive, other_labels: bool = False) -> "Split":
        """Read a split and `check` that it belongs to this archive."""
        split = load(cls, path, "a split", "Make it with: marcir data split")
        split.check(archive, path, other_labels)
        return split

    def check(self, archive: Archive, where: str | Path, other_labels: bool = False) -> None:
        """Refuse another dataset, overlapping parts, unknown images and, unless accepted, other labels."""
        if self.dataset != archive.name:
            raise DataError(
                f"{where}: a split of the dataset '{self.dataset}', but {archive.root} was read as "
                f"'{archive.name}'. Read the archive that was split, or split again."
            )
        seen: dict[str, str] = {}
        for part in PARTS:
            for image in getattr(self, part):
                if image in seen:
                    raise DataError(
                        f"{where}: '{image}' is in {seen[image]} and in {part}. Parts must not overlap."
                    )
                if image not in archive.position_of:
                    raise DataError(_unknown_image(where, part, image, archive))
                seen[image] = part
        self._check_blocks(archive, where)
        if not other_labels and self.label_checksum != archive.label_checksum:
            raise DataError(
                f"{where}: the label table of {archive.root} is not the one that was split: its checksum is "
                f"{archive.label_checksum[:12]}, not {self.label_checksum[:12]}. Restore it, or split again."
            )

    def _check_blocks(self, archive: Archive, where: str | Path) -> None:
        """Refuse parts that share a block of space."""
        if not archive.places:
            return
        part_of = {
            archive.places[position].block: part
            for part in PARTS
            for position in self.positions(archive, part)
        }
        for part in PARTS:
            for position in self.positions(archive, part):
                place = archive.places[position]
                if part_of[place.block] != part:
                    raise DataError(
                        f"{where}: the block {place.block} is in {part} and in {part_of[place.block]}. Split "
                        "again with the method blocks."
                    )


def _unknown_image(where: str | Path, part: str, image: str, archive: Archive) -> str:
    """The text of an error, with the nearest id if there is one."""
    hint = did_you_mean(image, archive.ids[:2000])
    if not hint.startswith("Did"):
        hint = "Read the archive that was split, or split again."
    return f"{where}: {part} lists '{image}', which is not in the archive {archive.root}. {hint}"


def draw_split(
    archive: Archive, seed: int, method: Method | None = None, sizes: tuple[int, int, int] | None = None
) -> Split:
    """Draw the three parts of an archive.

    Args:
        archive: The archive to split.
        seed: Seed of the draw, which does not depend on the order of the images; 0 to 2**63 - 1.
        method: `random`; `stratified`: every part keeps the labels' frequencies; or `blocks`: every part
            gets whole blocks of space. By default that of the dataset (`default_method`).
        sizes: Images per part; 70/10/20 by default. Blocks come close to them.

    Raises:
        ConfigError: For a method that the archive cannot be split by, or sizes that do not add up.
    """
    method = method or default_method(archive.name)
    check_choice("method", method, get_args(Method))
    _check_blocks(archive, method)
    seed = check_seed(seed)
    sizes = sizes or default_sizes(len(archive))
    if min(sizes) < 0 or sum(sizes) != len(archive) or not sizes[0]:
        raise ConfigError(
            f"split sizes {sizes}: they must add up to the {len(archive)} images of the archive."
        )
    ids = sorted(archive.ids)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(ids), generator=generator).tolist()
    shuffled = [ids[i] for i in order]
    if method == "random":
        bounds = (0, sizes[0], sizes[0] + sizes[1], len(ids))
        parts = [shuffled[a:b] for a, b in pairwise(bounds)]
    elif method == "blocks":
        parts = _parts_of_blocks(archive, shuffled, sizes)
    else:
        rows = archive.labels[[archive.position_of[image] for image in shuffled]].numpy()
        part_of = iterative_stratification(rows, sizes)
        parts = [
            [image for image, k in zip(shuffled, part_of, strict=True) if k == part] for part in range(3)
        ]
    train, validation, test = (tuple(sorted(part)) for part in parts)
    return Split(archive.name, method, seed, archive.label_checksum, train, validation, test)


def default_method(dataset: str) -> Method:
    """How a dataset is split unless a method is given: windows of scenes by blocks, all others at random.

    >>> default_method("windows"), default_method("ucm")
    ('blocks', 'random')
    """
    return "blocks" if dataset == "windows" else "random"


def _check_blocks(archive: Archive, method: Method) -> None:
    if method == "blocks" and not archive.places:
        raise ConfigError(
            f"split method 'blocks': the images of {archive.root} are not in blocks of space. Use the method "
            "random or stratified."
        )
    if method != "blocks" and archive.places:
        raise ConfigError(
            f"split method '{method}': neighbouring windows would be in training and test, and scores too "
            "good. Use the method blocks. For this method, make the dataset with --split-blocks 0."
        )
    blocks = {place.block for place in archive.places}
    if method == "blocks" and len(blocks) < len(PARTS):
        raise ConfigError(
            f"split method 'blocks': {archive.root} has {len(blocks)} block(s) of space, and each of three "
            "parts needs one. Make the dataset with smaller blocks (--split-blocks), or of more scenes."
        )


def _parts_of_blocks(archive: Archive, images: Sequence[str], sizes: Sequence[int]) -> list[list[str]]:
    """Ids of the three parts: whole blocks, each for the part that has the smallest share of its size.

    Images that show ground of an image in another part are left out: of training, where the other part is
    validation or test, and of validation, where it is test.

    Args:
        archive: The archive.
        images: Its ids; blocks are taken in the order of their first image.
        sizes: Images wanted in each part.
    """
    place_of = {image: archive.places[archive.position_of[image]] for image in images}
    counts = Counter(place.block for place in place_of.values())
    filled, part_of = [0.0] * len(PARTS), dict[str, int]()
    for block in dict.fromkeys(place.block for place in place_of.values()):
        # Of several empty parts, the one that wants most.
        part = min(range(len(PARTS)), key=lambda k: (filled[k], -sizes[k]))
        part_of[block] = part
        filled[part] += counts[block] / max(sizes[part], 1)
    parts: list[list[str]] = [[] for _ in PARTS]
    for image, place in place_of.items():
        part = part_of[place.block]
        if all(part_of.get(other, part) <= part for other in place.shared):
            parts[part].append(image)
    return parts


def default_sizes(images: int) -> tuple[int, int, int]:
    """Sizes of 70/10/20 %, rounded so that they add up.

    >>> default_sizes(101)
    (71, 10, 20)
    """
    validation, test = round(images * SHARES[1]), round(images * SHARES[2])
    return images - validation - test, validation, test


def iterative_stratification(labels: np.ndarray, sizes: Sequence[int]) -> list[int]:
    """Assign every image to a part, so that each part keeps the frequency of each label.

    After Sechidis, Tsoumakas and Vlahavas (2011). Labels (N, L), shuffled by the caller, are processed from
    the rarest remaining one. Each image goes to the part that lacks most images of the label; of several, to
    the one that lacks most images. Parts have exactly the given sizes. Unknown labels (-1) do not count.
    """
    labels = labels > 0
    wanted = np.outer(np.array(sizes) / len(labels), labels.sum(0))  # (parts, L)
    free = np.array(sizes, dtype=np.int64)
    part_of = np.full(len(labels), -1)

    def assign(image: int, part: int) -> None:
        part_of[image] = part
        free[part] -= 1
        wanted[part] -= labels[image]

    while (remaining := labels[part_of < 0].sum(0)).any():
        label = int(np.where(remaining > 0, remaining, np.iinfo(np.int64).max).argmin())
        for image in np.flatnonzero(labels[:, label] & (part_of < 0)):
            need = np.where(free > 0, wanted[:, label], -np.inf)
            # Ties go to the part with the most free places.
            assign(int(image), int(np.lexsort((free, need))[-1]))
    for image in np.flatnonzero(part_of < 0):
        assign(int(image), int(free.argmax()))
    return [int(part) for part in part_of]
