"""What goes into the network: augmented images, or features of a frozen backbone."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch
from filelock import FileLock
from safetensors import SafetensorError
from safetensors.torch import load_file, save, save_file
from torch import Tensor

from marcir.config import Config
from marcir.data.augment import Augmentation
from marcir.files import atomic_write, cache_folder
from marcir.model.encoder import Encoder
from marcir.progress import track
from marcir.training.build import fit_batch_norm
from marcir.training.parts import Parts, remove_parts
from marcir.training.task import Task

_BATCH = 128


class Examples(Protocol):
    """Inputs of the network by position in the archive."""

    def inputs(self, positions: Sequence[int], epoch: int, view: int) -> Tensor:
        """What the network is trained on."""
        ...

    def embed(self, encoder: Encoder, positions: Sequence[int]) -> Tensor:
        """Embeddings outside training, of an encoder in evaluation mode. (B, D)"""
        ...


class AugmentedImages:
    """Images, augmented anew in every epoch."""

    def __init__(self, task: Task, seed: int) -> None:
        self._task, self._seed = task, seed
        self._augment = Augmentation(task.size)

    def inputs(self, positions: Sequence[int], epoch: int, view: int) -> Tensor:
        """Augmented images. (B, C, size, size)"""
        ids = [self._task.archive.ids[position] for position in positions]
        images = self._task.source.batch(positions)
        augmented = self._augment(images, ids, seed=self._seed, epoch=epoch, view=view)
        return augmented.contiguous(memory_format=torch.channels_last)

    def embed(self, encoder: Encoder, positions: Sequence[int]) -> Tensor:
        """Embeddings of whole images. (B, D)"""
        images = self._task.images(positions).contiguous(memory_format=torch.channels_last)
        return encoder.embed(images.to(encoder.mean.device))


class FrozenFeatures:
    """Features of a frozen backbone: every image, and a few augmented versions of it, embedded once.

    They are kept in the cache for the next run with the same images and weights. While they are computed,
    they are saved in parts: a run that is killed loses about a minute of work.

        features/<fingerprint>.safetensors                       all features, and batch-norm statistics
        features/parts/<fingerprint>-statistics-*.safetensors    batch-norm statistics, which come first
        features/parts/<fingerprint>-features-*.safetensors      features of some batches

    Args:
        task: Which images.
        encoder: Its backbone is given batch-norm statistics of the training images first.
        config: Number of versions, and the seed of the augmentation.
    """

    def __init__(self, task: Task, encoder: Encoder, config: Config) -> None:
        self._task, self._seed = task, config.train.seed
        self._versions, self._config = config.encoder.frozen_views, config.encoder
        path = cache_folder() / "features" / f"{self._fingerprint(encoder)}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            kept = _kept(path) or self._write(path, encoder)
            _remove_leftovers(path)
        self._whole, self._augmented = kept.pop("whole"), kept.pop("augmented")  # (N, F), (V, N, F)
        encoder.backbone.load_state_dict(kept, strict=False)  # what is left: batch-norm statistics
        encoder.backbone.eval().requires_grad_(False)

    def features(self, positions: Sequence[int]) -> Tensor:
        """What the frozen backbone says of whole images. (B, F)"""
        return self._whole[list(positions)]

    def inputs(self, positions: Sequence[int], epoch: int, view: int) -> Tensor:
        """Features of one augmented version of each image, drawn by (seed, epoch, id, view). (B, F)"""
        names = (self._task.archive.ids[position] for position in positions)
        drawn = [_number(f"{self._seed}\0{epoch}\0{view}\0{name}") % self._versions for name in names]
        return self._augmented[drawn, list(positions)]

    def embed(self, encoder: Encoder, positions: Sequence[int]) -> Tensor:
        """Embeddings of whole images. (B, D)"""
        return encoder.compared(self._whole[list(positions)].to(encoder.mean.device))

    def _fingerprint(self, encoder: Encoder) -> str:
        scale = (*encoder.mean.flatten().tolist(), *encoder.std.flatten().tolist())
        digest = hashlib.sha256(
            f"2 {self._config.backbone} {self._seed} {self._versions} {self._task.size} {scale}".encode()
        )
        for name, value in sorted(encoder.backbone.state_dict().items()):
            digest.update(name.encode() + value.contiguous().cpu().numpy().tobytes())
        digest.update(self._task.split.checksum.encode())
        for start in range(0, len(self._task.archive), _BATCH):
            images = self._task.source.batch(range(start, min(start + _BATCH, len(self._task.archive))))
            digest.update(images.contiguous().numpy().tobytes())
        return digest.hexdigest()[:24]

    def _write(self, path: Path, encoder: Encoder) -> dict[str, Tensor]:
        """Embed what an interrupted run has not embedded, and write all features."""
        encoder.backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # 1.5 times as fast
        # Other batches, statistics or versions of torch may round differently.
        key = f"{path.stem} {_BATCH} {torch.__version__}"
        statistics = self._settle(Parts(_parts_folder(path), f"{path.stem}-statistics", key), encoder)
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

    def _settle(self, parts: Parts, encoder: Encoder) -> dict[str, Tensor]:
        """Give the backbone its batch-norm statistics: those of an interrupted run, or new ones."""
        if parts.tensors:
            encoder.backbone.load_state_dict(parts.tensors, strict=False)
        else:
            fit_batch_norm(encoder, self._config, self._task)
            parts.save({name: value.cpu().contiguous() for name, value in _statistics(encoder).items()})
        return parts.tensors

    @torch.inference_mode()
    def _embed_all(self, parts: Parts, encoder: Encoder) -> dict[str, Tensor]:
        """Features of every batch in every version, of which version 0 is the whole images."""
        encoder.backbone.eval().requires_grad_(False)
        augmented = AugmentedImages(self._task, self._seed)
        missing = [
            (version, batch)
            for batch in self._batches()
            for version in range(self._versions + 1)
            if _part_name(version, batch) not in parts.tensors
        ]
        for version, batch in track(
            missing,
            len(self._task.archive) * (self._versions + 1),
            "embedding with the frozen backbone",
            done=sum(len(features) for features in parts.tensors.values()),
            size=lambda item: len(item[1]),
        ):
            if version == 0:
                images = self._task.images(batch).contiguous(memory_format=torch.channels_last)
            else:
                images = augmented.inputs(batch, epoch=0, view=version - 1)
            parts.add(_part_name(version, batch), encoder.describe(images).cpu().contiguous())
        return parts.tensors

    def _batches(self) -> list[range]:
        images = len(self._task.archive)
        return [range(start, min(start + _BATCH, images)) for start in range(0, images, _BATCH)]


def _parts_folder(path: Path) -> Path:
    return path.parent / "parts"


def _part_name(version: int, batch: range) -> str:
    return f"version {version}, images from {batch.start}"


def _remove_leftovers(path: Path) -> None:
    """Remove the parts of complete features, and files that a killed process was writing."""
    for temporary in path.parent.glob(f".{path.name}.*"):
        temporary.unlink(missing_ok=True)
    remove_parts(_parts_folder(path), path.stem)


def _kept(path: Path) -> dict[str, Tensor] | None:
    """Features that an earlier run kept; None where there are none, or the file is damaged."""
    try:
        kept = load_file(path)
    except (OSError, SafetensorError):
        return None
    return kept if kept.keys() >= {"whole", "augmented"} else None


def _statistics(encoder: Encoder) -> dict[str, Tensor]:
    """What the backbone knows besides its weights: running means and variances."""
    weights = {name for name, _ in encoder.backbone.named_parameters()}
    state = encoder.backbone.state_dict()
    return {name: value for name, value in state.items() if name not in weights}


def _number(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")
