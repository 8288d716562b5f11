"""The encoder: images to unit vectors."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from marcir.checks import RANDOM_WEIGHTS
from marcir.model.backbone import Backbone
from marcir.model.batch_norm import reestimate_batch_norm, statistics_fit

Embedding = Literal["projection", "backbone"]
_BATCH = 128  # images per batch when estimating batch-norm statistics


class Encoder(nn.Module):
    """A backbone and a two-layer projection head (Readings R14 and R15).

    Args:
        backbone: Maps images to features.
        dim: Length of the head's output, D; 0 for an encoder without a head.
        embedding: What is stored and compared: `projection`, the head's output, or `backbone`, its input.
        mean: Mean per band of images in unit range. (C,)
        std: Standard deviation per band. (C,)
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        backbone: Backbone,
        dim: int,
        embedding: Embedding,
        mean: tuple[float, ...],
        std: tuple[float, ...],
    ) -> None:
        super().__init__()
        self.backbone = backbone.network
        self.num_features = backbone.num_features
        self.embedding = embedding
        self.head = nn.Sequential()
        if dim:
            self.head = nn.Sequential(
                nn.Linear(backbone.num_features, backbone.num_features),
                nn.ReLU(inplace=True),
                nn.Linear(backbone.num_features, dim),
            )
        # Not part of the weights: they are in the model's configuration.
        self.register_buffer("mean", torch.tensor(mean, device="cpu").view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std, device="cpu").view(-1, 1, 1), persistent=False)

    @property
    def dim(self) -> int:
        """Length of an embedding, D."""
        if self.embedding == "backbone":
            return self.num_features
        last = self.head[-1]
        assert isinstance(last, nn.Linear)  # noqa: S101  # tells the type checker
        return last.out_features

    @property
    def device(self) -> torch.device:
        """The device of the encoder."""
        return self.mean.device

    def batch_norm_fits(self, images: Tensor) -> bool:
        """Whether the backbone's batch-norm statistics fit these images in unit range."""
        return statistics_fit(self.backbone, self._scaled(images))

    def fit_batch_norm(self, batches: Iterable[Tensor]) -> None:
        """Estimate the backbone's batch-norm statistics on batches of images in unit range."""
        reestimate_batch_norm(self.backbone, map(self._scaled, batches))

    def forward(self, images: Tensor) -> Tensor:
        """Embeddings for the loss: the head's output at unit length. (B, C, S, S) -> (B, D)"""
        return self.project(self.extract_features(images))

    def extract_features(self, images: Tensor) -> Tensor:
        """The backbone's features of images in unit range. (B, C, S, S) -> (B, F)"""
        features: Tensor = self.backbone(self._scaled(images))
        return features

    def _scaled(self, images: Tensor) -> Tensor:
        return (images.to(self.device) - self.mean) / self.std

    def project(self, features: Tensor) -> Tensor:
        """The head's output at unit length, float32. (B, F) -> (B, D)"""
        return normalize(self.head(features).float(), dim=1)

    def embed(self, images: Tensor) -> Tensor:
        """Embeddings for search, at unit length, float32. (B, C, S, S) -> (B, D)"""
        return self.to_embedding(self.extract_features(images))

    def to_embedding(self, features: Tensor) -> Tensor:
        """Embeddings for search from features, at unit length, float32. (B, F) -> (B, D)"""
        return normalize(features.float(), dim=1) if self.embedding == "backbone" else self.project(features)


def adapt_batch_norm(
    encoder: Encoder, weights: str, positions: Sequence[int], images: Callable[[Sequence[int]], Tensor]
) -> None:
    """Estimate the batch-norm statistics on images, unless those of the weights fit the images.

    Args:
        encoder: The encoder to adjust.
        weights: Source of its initial weights; random weights have no statistics.
        positions: Positions of the images.
        images: Reads images in unit range by position. (B, C, S, S)
    """
    sample = positions[:: max(1, len(positions) // _BATCH)][:_BATCH]
    if weights in RANDOM_WEIGHTS or not encoder.batch_norm_fits(images(sample)):
        encoder.fit_batch_norm(images(batch) for batch in full_batches(positions))


def full_batches(positions: Sequence[int]) -> list[Sequence[int]]:
    """Batches of equal size; an incomplete last batch is dropped, unless it is the only one.

    >>> [len(batch) for batch in full_batches(range(300))], [len(batch) for batch in full_batches(range(5))]
    ([128, 128], [5])
    """
    end = len(positions) - len(positions) % _BATCH or len(positions)
    return [positions[start : start + _BATCH] for start in range(0, end, _BATCH)]
