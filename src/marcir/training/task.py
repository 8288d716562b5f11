"""The data of a run: archive, split, images and label statistics, opened from its configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from marcir.catalog import loss_class
from marcir.config import Config, DataConfig, LabelsConfig, suggest_batch_size
from marcir.data.archive import Archive, open_archive
from marcir.data.dataset import ArchiveDataset, open_images
from marcir.data.resize import eval_transform, packed_size, unit_range
from marcir.data.split import Split, draw_split
from marcir.errors import ConfigError, LabelError
from marcir.labels import LabelStatistics
from marcir.labels.hide import hide_labels
from marcir.labels.sets import multi_hot
from marcir.schema import parse, to_json
from marcir.training.evaluation import rankings_differ
from marcir.training.peers import Peers

SIZE = 224  # Reading R18
SCENES_SIZE = 64
# Images that per-band statistics are taken from.
_SAMPLED = 1000


@dataclass(frozen=True, eq=False)
class Task:
    """An archive opened for training.

    Attributes:
        archive: Images and labels, without skipped broken images.
        split: The training, validation and test images.
        source: Stored images, at 1.25 times the training size.
        size: Image size of the network.
        statistics: Label statistics of the training images.
        training_labels: Labels of the archive as training takes them: some may be hidden. (N, L)
    """

    archive: Archive
    split: Split
    source: ArchiveDataset
    size: int
    statistics: LabelStatistics
    training_labels: Tensor

    def positions(self, part: str) -> list[int]:
        """Positions of a part's images in the archive."""
        return self.split.positions(self.archive, part)

    @cached_property
    def selects_epochs(self) -> bool:
        """Whether the validation images can tell the weights of one epoch from those of another."""
        positions = self.positions("validation")
        return len(positions) >= 2 and rankings_differ(self.archive.labels[positions])

    def images(self, positions: Sequence[int]) -> Tensor:
        """Network inputs without augmentation. (B, C, size, size)"""
        return eval_transform(self.source.batch(positions), self.size)


def image_size(data: DataConfig) -> int:
    """The configured image size, or the dataset's default."""
    return data.size or (SCENES_SIZE if data.name == "scenes" else SIZE)


def open_training_archive(data: DataConfig) -> tuple[Archive, Mapping[str, str]]:
    """Open an archive as training does; also return what is wrong with skipped images, by id."""
    archive = open_archive(data.name, data.root, data.labels, data.unlisted)
    if data.on_broken != "skip":
        return archive, {}
    source = open_images(archive, packed_size(image_size(data)), "skip", data.cache == "packed")
    return source.archive, source.broken


def open_task(config: Config, saved_split: Path | None = None, peers: Peers | None = None) -> Task:
    """Read the archive and split it, or read the split that a run has saved.

    Of several processes, the first one splits it for all of them.

    Raises:
        ConfigError: If there are fewer training images than a batch needs, or for unknown labels with a loss
            that does not take them.
        LabelError: For labels from which nothing can be learned.
    """
    data = config.data
    size = image_size(data)
    archive = open_archive(data.name, data.root, data.labels, data.unlisted)
    takes_unknown = loss_class(config.loss.name).takes_unknown
    first = peers is None or peers.is_first
    if first and not takes_unknown and data.on_broken == "error":  # the split is known before images are read
        _refuse_unknown(config, archive, _split(config, archive, saved_split))
    source = open_images(archive, packed_size(size), data.on_broken, data.cache == "packed")
    archive = source.archive
    if peers is None or peers.alone:
        split = _split(config, archive, saved_split)
    else:
        split = parse(Split, peers.from_first(lambda: to_json(_split(config, archive, saved_split)).encode()))
        split.check(archive, "the split of the first process")
    if not takes_unknown:
        _refuse_unknown(config, archive, split)
    train = split.positions(archive, "train")
    training_labels = _training_labels(archive, train, config.labels)
    y = training_labels[train]
    _check_labels(archive, y == 1)
    if config.train.batch_size > len(y):
        raise ConfigError(
            f"train.batch_size = {config.train.batch_size}: there are only {len(y)} training images. "
            f"Use --train.batch_size {suggest_batch_size(len(y))}."
        )
    return Task(archive, split, source, size, LabelStatistics.from_labels(y), training_labels)


def _split(config: Config, archive: Archive, saved: Path | None) -> Split:
    path = saved if saved is not None and saved.exists() else config.data.split
    if path is not None:
        return Split.load(path, archive)
    return draw_split(archive, config.train.seed, config.data.method, archive.split_sizes)


def _training_labels(archive: Archive, train: Sequence[int], settings: LabelsConfig) -> Tensor:
    """The archive's labels, with those of the training images hidden as the settings say. (N, L)"""
    if settings == LabelsConfig():
        return archive.labels
    rows = sorted(train, key=archive.ids.__getitem__)  # what is hidden does not depend on their order
    y = hide_labels(archive.labels[rows], settings.hide, settings.how, settings.seed)
    if settings.unknown == "absent":
        y = multi_hot(y, "training labels").to(y.dtype)
    labels = archive.labels.to(y.dtype, copy=True)
    labels[rows] = y
    return labels


def band_statistics(task: Task) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each band over training images, in unit range."""
    positions = task.positions("train")
    step = max(1, len(positions) // _SAMPLED)
    sums, squares = torch.zeros(2, task.source.bands, dtype=torch.float64, device="cpu")
    pixels = 0
    for start in range(0, len(positions[::step]), 64):
        images = unit_range(task.source.batch(positions[::step][start : start + 64])).double()
        sums += images.sum((0, 2, 3))
        squares += images.square().sum((0, 2, 3))
        pixels += images[:, 0].numel()
    mean = sums / pixels
    spread = (squares / pixels - mean.square()).clamp_min(0).sqrt()
    return tuple(mean.tolist()), tuple(spread.clamp_min(1e-6).tolist())


def _refuse_unknown(config: Config, archive: Archive, split: Split) -> None:
    """Refuse unknown labels of training images, for a loss that does not take them."""
    train = split.positions(archive, "train")
    if bool((_training_labels(archive, train, config.labels)[train] < 0).any()):
        raise ConfigError(
            f"loss.name = {config.loss.name}: it needs complete labels, and some of the training images in "
            f"{archive.root} are unknown. Use another loss, such as marc-proto, or --labels.unknown absent."
        )


def _check_labels(archive: Archive, y: Tensor) -> None:
    used = int(y.any(0).sum())
    if used < 2:
        found = (
            "the training images have 1 label"
            if used
            else "no label is known to be present in a training image"
        )
        raise LabelError(f"{archive.root}: {found}. Training needs at least two labels.")
    if not (y.sum(0) >= 2).any():
        raise LabelError(
            f"{archive.root}: no label has two training images, so there are no positive pairs. Label more "
            "images."
        )
