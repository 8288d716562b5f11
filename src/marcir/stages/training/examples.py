"""What goes into the network: augmented images, or features of a frozen backbone."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch
from filelock import FileLock
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from marcir.config import Config
from marcir.data.augment import Augmentation
from marcir.encoder.encoder import Encoder
from marcir.files import cache_folder, written_whole
from marcir.progress import track
from marcir.stages.training.build import fit_batch_norm
from marcir.stages.training.task import Task

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

    They are kept in the cache for the next run with the same images and weights.

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
        encoder.backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # 1.5 times as fast
        fit_batch_norm(encoder, self._config, self._task)
        encoder.backbone.eval().requires_grad_(False)
        images = AugmentedImages(self._task, self._seed)
        versions: list[list[Tensor]] = [[] for _ in range(self._versions + 1)]
        starts = range(0, len(self._task.archive), _BATCH)
        with torch.inference_mode():
            for start in track(starts, len(starts), "embedding with the frozen backbone"):
                positions = range(start, min(start + _BATCH, len(self._task.archive)))
                whole_images = self._task.images(positions).contiguous(memory_format=torch.channels_last)
                versions[0].append(encoder.describe(whole_images).cpu())
                for version in range(self._versions):
                    augmented = images.inputs(positions, epoch=0, view=version)
                    versions[version + 1].append(encoder.describe(augmented).cpu())
        whole, *augmented_versions = (torch.cat(parts) for parts in versions)
        features = {"whole": whole, "augmented": torch.stack(augmented_versions)}
        features |= {name: value.cpu() for name, value in _statistics(encoder).items()}
        with written_whole(path) as temporary:
            save_file(features, temporary)
        return features


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
