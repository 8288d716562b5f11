"""Build the encoder and the loss of a run."""

from collections.abc import Sequence

import numpy as np
import torch

from marcir.catalog import create_loss
from marcir.config import Config, EncoderConfig, LossConfig
from marcir.data.dataset import ArchiveDataset
from marcir.data.resize import eval_transform
from marcir.labels import LabelStatistics
from marcir.losses import MultiLabelLoss
from marcir.model.backbone import create_backbone
from marcir.model.encoder import Encoder, adapt_batch_norm
from marcir.training.task import Task, band_statistics


def build_encoder(config: EncoderConfig, task: Task, seed: int) -> Encoder:
    """Build the encoder with its initial weights, which depend on the seed and not on the loss."""
    bands, source = task.source.bands, task.source
    torch.manual_seed(seed)
    backbone = create_backbone(config.backbone, bands, task.size, config.weights)
    mean, std = backbone.mean, backbone.std
    if bands != 3 or source.dtype != np.uint8:
        mean, std = band_statistics(task)
    return Encoder(backbone, config.dim, config.embedding, mean, std)


def build_untrained(
    config: Config, like: Encoder, images: ArchiveDataset, size: int, positions: Sequence[int]
) -> Encoder:
    """Build a trained encoder's backbone as before training, with batch-norm statistics of these images."""
    settings = config.encoder
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        backbone = create_backbone(settings.backbone, images.bands, size, settings.weights)
    mean, std = (tuple(values.flatten().tolist()) for values in (like.mean, like.std))
    encoder = Encoder(backbone, settings.dim, "backbone", mean, std).to(like.device)
    adapt_batch_norm(
        encoder, settings.weights, positions, lambda part: eval_transform(images.batch(part), size)
    )
    return encoder.eval()


def fit_batch_norm(encoder: Encoder, config: EncoderConfig, task: Task) -> None:
    """Estimate the backbone's batch-norm statistics on the training images, unless its own fit them."""
    adapt_batch_norm(encoder, config.weights, task.positions("train"), task.images)


def check_loss(loss: LossConfig) -> None:
    """Refuse options of a loss that are out of range, before any image is read; a ConfigError."""
    create_loss(
        loss.name,
        statistics=LabelStatistics.from_labels(torch.eye(2, device="cpu")),  # any labels
        embedding_dim=2,
        generator=torch.Generator(),
        **loss.options,
    )


def build_loss(config: Config, task: Task) -> MultiLabelLoss:
    """Build the loss, with a random generator of its own."""
    return create_loss(
        config.loss.name,
        statistics=task.statistics,
        embedding_dim=config.encoder.dim,
        generator=torch.Generator().manual_seed(config.train.seed),
        **config.loss.options,
    )
