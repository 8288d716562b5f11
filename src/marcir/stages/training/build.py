"""The encoder and the loss of a run."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from marcir.catalog import create_loss
from marcir.checks import RANDOM_WEIGHTS
from marcir.config import Config, EncoderConfig
from marcir.encoder.backbone import create_backbone
from marcir.encoder.encoder import Encoder
from marcir.losses import MultiLabelLoss
from marcir.stages.training.task import Task, band_statistics

_BATCH = 128


def build_encoder(config: EncoderConfig, task: Task, seed: int) -> Encoder:
    """The encoder with its first weights, which the seed fixes whatever the loss is."""
    bands, source = task.source.bands, task.source
    torch.manual_seed(seed)
    backbone = create_backbone(config.backbone, bands, task.size, config.weights)
    mean, std = backbone.mean, backbone.std
    if bands != 3 or source.dtype.kind != "u":
        mean, std = band_statistics(task)
    return Encoder(backbone, config.dim, config.embedding, mean, std)


def build_untrained(config: EncoderConfig, task: Task, seed: int) -> Encoder:
    """The same backbone without any training on the archive: its features, with its own BN statistics."""
    encoder = build_encoder(config, task, seed)
    encoder.embedding = "backbone"
    fit_batch_norm(encoder, config, task)
    return encoder


def fit_batch_norm(encoder: Encoder, config: EncoderConfig, task: Task) -> None:
    """Give the backbone batch-norm statistics of the training images, unless it came with ones that fit."""
    positions = task.positions("train")
    settle_batch_norm(encoder, config.weights, positions, task.images)


def settle_batch_norm(
    encoder: Encoder, weights: str, positions: Sequence[int], images: Callable[[Sequence[int]], Tensor]
) -> None:
    """Keep the batch-norm statistics that came with the weights where they fit, else estimate them.

    Args:
        encoder: What to adjust.
        weights: Where its first weights are from; random ones have no statistics.
        positions: Which images.
        images: Reads them in their unit range. (B, C, S, S)
    """
    spread = positions[:: max(1, len(positions) // _BATCH)][:_BATCH]
    if weights in RANDOM_WEIGHTS or not encoder.batch_norm_fits(images(spread)):
        encoder.fit_batch_norm(images(part) for part in whole_batches(positions))


def whole_batches(positions: Sequence[int]) -> list[Sequence[int]]:
    """Positions in batches of one size; a rest is left out, unless it is all there is.

    >>> [len(batch) for batch in whole_batches(range(300))], [len(batch) for batch in whole_batches(range(5))]
    ([128, 128], [5])
    """
    end = len(positions) - len(positions) % _BATCH or len(positions)
    return [positions[start : start + _BATCH] for start in range(0, end, _BATCH)]


def build_loss(config: Config, task: Task) -> MultiLabelLoss:
    """The loss; what it draws comes from a generator of its own."""
    return create_loss(
        config.loss.name,
        statistics=task.statistics,
        embedding_dim=config.encoder.dim,
        generator=torch.Generator().manual_seed(config.train.seed),
        **config.loss.options,
    )
