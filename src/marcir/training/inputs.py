"""Inputs of the network: augmented images, or cached features of a frozen backbone."""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol

import torch
from filelock import FileLock
from safetensors import SafetensorError
from safetensors.torch import load_file, save, save_file
from torch import Tensor

from marcir.checks import check_int
from marcir.config import Config
from marcir.data.augment import Augmentation
from marcir.data.dataset import ArchiveDataset
from marcir.data.prefetch import in_batches, read_batches
from marcir.data.resize import eval_inputs
from marcir.files import atomic_write, cache_folder
from marcir.model.device import SLICE_PIXELS, PrecisionContext, in_slices, inference_precision, run_batches
from marcir.model.encoder import Encoder
from marcir.progress import track
from marcir.training.build import fit_batch_norm
from marcir.training.parts import Parts, remove_parts
from marcir.training.task import Task

BATCH = 128


class Examples(Protocol):
    """Inputs of the network by position in the archive."""

    def load(self, positions: Sequence[int]) -> Tensor:
        """Read inputs from memory or disk, on the CPU; runs in a thread while the network computes."""
        ...

    def inputs(self, loaded: Tensor, positions: Sequence[int], epoch: int, view: int) -> Tensor:
        """Make the training inputs of the network from what `load` read, on the device it is on now."""
        ...

    def embed(
        self, encoder: Encoder, positions: Sequence[int], precision: PrecisionContext = inference_precision
    ) -> Tensor:
        """Embed images without augmentation; float32, on the CPU. (N, D)"""
        ...


class AugmentedImages:
    """Images with new augmentations in every epoch, computed on the network's device.

    Args:
        task: Archive and split.
        seed: Seed of the augmentation.
    """

    def __init__(self, task: Task, seed: int) -> None:
        self._task, self._seed = task, seed
        self._augment = Augmentation(task.size)

    def load(self, positions: Sequence[int]) -> Tensor:
        """Read stored images. (B, C, S, S)"""
        return self._task.source.batch(positions)

    def inputs(self, loaded: Tensor, positions: Sequence[int], epoch: int, view: int) -> Tensor:
        """Augment images. (B, C, size, size)"""
        ids = [self._task.archive.ids[position] for position in positions]
        augmented = self._augment(loaded, ids, seed=self._seed, epoch=epoch, view=view)
        return augmented.contiguous(memory_format=torch.channels_last)

    def embed(
        self, encoder: Encoder, positions: Sequence[int], precision: PrecisionContext = inference_precision
    ) -> Tensor:
        """Embed images without augmentation. (N, D)"""
        return embed_positions(encoder, self._task.source, self._task.size, positions, precision=precision)


def embed_positions(
    encoder: Encoder,
    images: ArchiveDataset,
    size: int,
    positions: Sequence[int],
    batch_size: int = BATCH,
    precision: PrecisionContext = inference_precision,
    show_progress: bool = False,
) -> Tensor:
    """Embed images of an archive without augmentation; float32, on the CPU. (N, D)"""
    device = encoder.device
    check_int("batch_size", batch_size, 1)
    batches = list(in_batches(positions, batch_size))
    stored = ((None, batch) for (batch,) in read_batches(batches, images.batch, 1))

    def embed(_: None, batch: Tensor) -> Tensor:
        return in_slices(lambda part: encoder.embed(eval_inputs(part, size)), batch)

    results = run_batches(embed, stored, device, precision)
    if show_progress:
        results = track(results, len(positions), "embedding", size=lambda item: len(item[1]))
    return _joined(results, encoder.dim)


def _joined(results: Iterable[tuple[None, Tensor]], dim: int) -> Tensor:
    """All vectors as one tensor. (N, D)"""
    return torch.cat([torch.empty(0, dim, device="cpu"), *(vectors for _, vectors in results)])


class FrozenFeatures:
    """Cached features of a frozen backbone: each image and a few augmented versions of it, embedded once.

    The cache serves later runs with the same images and weights. While features are computed, they are
    saved in parts: a run that is killed loses about a minute of work.

        features/<fingerprint>.safetensors                       all features, and batch-norm statistics
        features/parts/<fingerprint>-statistics-*.safetensors    batch-norm statistics, computed first
        features/parts/<fingerprint>-features-*.safetensors      features of some batches

    Args:
        task: Archive and split.
        encoder: The encoder; its batch-norm statistics are first adapted to the training images.
        config: Number of versions, and the seed of the augmentation.
    """

    def __init__(self, task: Task, encoder: Encoder, config: Config) -> None:
        self._task, self._seed = task, config.train.seed
        self._versions, self._config = config.encoder.frozen_views, config.encoder
        self._device = encoder.device
        path = cache_folder() / "features" / f"{self._fingerprint(encoder)}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            cached = _load_cached(path) or self._compute(path, encoder)
            _remove_leftovers(path)
        self._whole, self._augmented = cached.pop("whole"), cached.pop("augmented")  # (N, F), (V, N, F)
        encoder.backbone.load_state_dict(cached, strict=False)  # the rest: batch-norm statistics
        encoder.backbone.eval().requires_grad_(False)

    def features(self, positions: Sequence[int]) -> Tensor:
        """Features of images without augmentation. (B, F)"""
        return self._whole[list(positions)]

    def load(self, positions: Sequence[int]) -> Tensor:
        """Read the features of all augmented versions. (V, B, F)"""
        return self._augmented[:, list(positions)]

    def inputs(self, loaded: Tensor, positions: Sequence[int], epoch: int, view: int) -> Tensor:
        """Select one augmented version of each image by (seed, epoch, id, view). (B, F)"""
        names = (self._task.archive.ids[position] for position in positions)
        drawn = [_number(f"{self._seed}\0{epoch}\0{view}\0{name}") % self._versions for name in names]
        return loaded[drawn, range(len(drawn))]

    def embed(
        self, encoder: Encoder, positions: Sequence[int], precision: PrecisionContext = inference_precision
    ) -> Tensor:
        """Embed images without augmentation. (N, D)"""
        features = ((None, self._whole[part]) for part in in_batches(positions, BATCH))
        results = run_batches(lambda _, batch: encoder.to_embedding(batch), features, self._device, precision)
        return _joined(results, encoder.dim)

    def _fingerprint(self, encoder: Encoder) -> str:
        scale = (*encoder.mean.flatten().tolist(), *encoder.std.flatten().tolist())
        digest = hashlib.sha256(
            f"2 {self._config.backbone} {self._seed} {self._versions} {self._task.size} {scale}".encode()
        )
        if self._device.type != "cpu":  # features in half precision
            digest.update(self._device.type.encode())
        for name, value in sorted(encoder.backbone.state_dict().items()):
            digest.update(name.encode() + value.contiguous().cpu().numpy().tobytes())
        digest.update(self._task.split.checksum.encode())
        for start in range(0, len(self._task.archive), BATCH):
            images = self._task.source.batch(range(start, min(start + BATCH, len(self._task.archive))))
            digest.update(images.contiguous().numpy().tobytes())
        return digest.hexdigest()[:24]

    def _compute(self, path: Path, encoder: Encoder) -> dict[str, Tensor]:
        """Compute the features that an interrupted run has not saved, and write all of them."""
        encoder.backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # 1.5 times as fast
        # Other batches, statistics or versions of torch may round differently.
        key = f"{path.stem} {BATCH} {SLICE_PIXELS} {torch.__version__}"
        statistics = self._adapt_batch_norm(
            Parts(_parts_folder(path), f"{path.stem}-statistics", key), encoder
        )
        key += hashlib.sha256(save(statistics)).hexdigest()
        parts = Parts(_parts_folder(path), f"{path.stem}-features", key)
        try:
            features = self._embed_all(parts, encoder)
        except KeyboardInterrupt:
            parts.save_added()
            raise
        whole, *augmented = (
            torch.cat([features[_part_name(version, batch)] for batch in self._batches()])
            for version in range(self._versions + 1)
        )
        content = {"whole": whole, "augmented": torch.stack(augmented)} | statistics
        with atomic_write(path) as temporary:
            try:
                save_file(content, temporary)
            except SafetensorError as error:  # such as a full disk
                raise OSError(str(error)) from error
        return content

    def _adapt_batch_norm(self, parts: Parts, encoder: Encoder) -> dict[str, Tensor]:
        """Load the batch-norm statistics of an interrupted run, or estimate them."""
        if parts.tensors:
            encoder.backbone.load_state_dict(parts.tensors, strict=False)
        else:
            fit_batch_norm(encoder, self._config, self._task)
            parts.save({name: value.cpu().contiguous() for name, value in _statistics(encoder).items()})
        return parts.tensors

    def _embed_all(self, parts: Parts, encoder: Encoder) -> dict[str, Tensor]:
        """Features of every batch in every version; version 0 is without augmentation."""
        encoder.backbone.eval().requires_grad_(False)
        augmented = AugmentedImages(self._task, self._seed)
        missing = [
            (version, batch)
            for batch in self._batches()
            for version in range(self._versions + 1)
            if _part_name(version, batch) not in parts.tensors
        ]

        def read(item: tuple[int, range]) -> tuple[tuple[int, range], Tensor]:
            return item, self._task.source.batch(item[1])

        def extract(item: tuple[int, range], images: Tensor) -> Tensor:
            version, batch = item
            if version:
                inputs = augmented.inputs(images, batch, epoch=0, view=version - 1)
            else:
                inputs = eval_inputs(images, self._task.size)
            return in_slices(encoder.extract_features, inputs)

        stored = chain.from_iterable(read_batches(missing, read, 1))
        for (version, batch), features in track(
            run_batches(extract, stored, self._device),
            len(self._task.archive) * (self._versions + 1),
            "embedding with the frozen backbone",
            done=sum(len(features) for features in parts.tensors.values()),
            size=lambda item: len(item[1]),
        ):
            parts.add(_part_name(version, batch), features.contiguous())
        return parts.tensors

    def _batches(self) -> list[range]:
        images = len(self._task.archive)
        return [range(start, min(start + BATCH, images)) for start in range(0, images, BATCH)]


def _parts_folder(path: Path) -> Path:
    return path.parent / "parts"


def _part_name(version: int, batch: range) -> str:
    return f"version {version}, images from {batch.start}"


def _remove_leftovers(path: Path) -> None:
    """Remove the parts of complete features, and temporary files of a killed process."""
    for temporary in path.parent.glob(f".{path.name}.*"):
        temporary.unlink(missing_ok=True)
    remove_parts(_parts_folder(path), path.stem)


def _load_cached(path: Path) -> dict[str, Tensor] | None:
    """Load features from the cache; None if the file is missing or damaged."""
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError):
        return None
    return tensors if tensors.keys() >= {"whole", "augmented"} else None


def _statistics(encoder: Encoder) -> dict[str, Tensor]:
    """The backbone's buffers: running means and variances."""
    weights = {name for name, _ in encoder.backbone.named_parameters()}
    state = encoder.backbone.state_dict()
    return {name: value for name, value in state.items() if name not in weights}


def _number(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")
