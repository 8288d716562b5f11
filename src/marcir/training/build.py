"""The encoder and the loss of a run."""

import torch

from marcir.catalog import create_loss
from marcir.config import Config, EncoderConfig
from marcir.losses import MultiLabelLoss
from marcir.model.backbone import create_backbone
from marcir.model.encoder import Encoder, settle_batch_norm
from marcir.training.task import Task, band_statistics


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


def build_loss(config: Config, task: Task) -> MultiLabelLoss:
    """The loss; what it draws comes from a generator of its own."""
    return create_loss(
        config.loss.name,
        statistics=task.statistics,
        embedding_dim=config.encoder.dim,
        generator=torch.Generator().manual_seed(config.train.seed),
        **config.loss.options,
    )
