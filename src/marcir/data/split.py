"""Training, validation and test parts of an archive: drawn from a seed, saved, and proven the same."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args

import torch

from marcir.data.archive import Archive
from marcir.data.cache import written_whole
from marcir.data.stratify import iterative_stratification
from marcir.errors import ConfigError, DataError, did_you_mean

Method = Literal["random", "stratified"]
PARTS = ("train", "validation", "test")
# 70/10/20 of archives without a published size.
SHARES = (0.7, 0.1, 0.2)


@dataclass(frozen=True)
class Split:
    """Which images belong to which part.

    Attributes:
        dataset: The dataset's name.
        method: How it was drawn.
        seed: What it was drawn from.
        label_checksum: The fingerprint of the label table it was drawn from.
        train: Ids of the training images.
        validation: Ids of the validation images.
        test: Ids of the test images.
    """

    dataset: str
    method: Method
    seed: int
    label_checksum: str
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    def positions(self, archive: Archive, part: str) -> list[int]:
        """Where the images of a part stand in the archive."""
        return [archive.position_of[image] for image in getattr(self, part)]

    def save(self, path: str | Path) -> None:
        """Write the split as JSON, whole or not at all."""
        with written_whole(Path(path)) as temporary:
            temporary.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def load(cls, path: str | Path, archive: Archive) -> "Split":
        """Read a split and check that it is one of this archive.

        Raises:
            DataError: Where parts overlap, name unknown images, or the label table is another.
        """
        try:
            content = json.loads(Path(path).read_text("utf-8"))
            parts = {part: tuple(str(image) for image in content[part]) for part in PARTS}
            split = cls(
                content["dataset"],
                content["method"],
                int(content["seed"]),
                content["label_checksum"],
                **parts,
            )
        except FileNotFoundError:
            raise DataError(f"{path}: there is no such split. Make it with: marcir data split") from None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise DataError(f"{path}: not a split ({error!r}). Make it with: marcir data split") from error
        split.check(archive, path)
        return split

    def check(self, archive: Archive, where: str | Path) -> None:
        """Refuse overlap, unknown images and a label table that changed."""
        seen: dict[str, str] = {}
        for part in PARTS:
            for image in getattr(self, part):
                if image in seen:
                    raise DataError(
                        f"{where}: '{image}' is in {seen[image]} and in {part}. Parts must not overlap."
                    )
                if image not in archive.position_of:
                    raise DataError(
                        f"{where}: {part} names '{image}', which is not in the archive {archive.root}. "
                        f"{did_you_mean_few(image, archive.ids)}"
                    )
                seen[image] = part
        if self.label_checksum != archive.label_checksum:
            raise DataError(
                f"{where}: the label table of {archive.root} is not the one that was split: its checksum is "
                f"{archive.label_checksum[:12]}, not {self.label_checksum[:12]}. Restore it, or split again."
            )


def did_you_mean_few(image: str, ids: Sequence[str]) -> str:
    """The nearest id, without listing thousands of them."""
    hint = did_you_mean(image, ids[:2000])
    return hint if hint.startswith("Did") else "Read the archive that was split, or split again."


def draw_split(
    archive: Archive, seed: int, method: Method = "random", sizes: tuple[int, int, int] | None = None
) -> Split:
    """Draw the three parts of an archive.

    Args:
        archive: What to split.
        seed: Fixes the draw, whatever the order in which the images were read.
        method: `random`, or `stratified`: every part keeps the labels' frequencies.
        sizes: Images of each part; 70/10/20 by default.
    """
    if method not in get_args(Method):
        raise ConfigError(f"method = {method!r}: unknown. {did_you_mean(str(method), get_args(Method))}")
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
    else:
        rows = archive.labels[[archive.position_of[image] for image in shuffled]].numpy()
        member = iterative_stratification(rows, sizes)
        parts = [
            [image for image, of in zip(shuffled, member, strict=True) if of == part] for part in range(3)
        ]
    return Split(archive.name, method, seed, archive.label_checksum, *(tuple(sorted(part)) for part in parts))


def default_sizes(images: int) -> tuple[int, int, int]:
    """70/10/20, rounded so that they add up.

    >>> default_sizes(101)
    (71, 10, 20)
    """
    validation, test = round(images * SHARES[1]), round(images * SHARES[2])
    return images - validation - test, validation, test
