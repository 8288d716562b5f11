"""The encoder and the loss of a run."""

from collections.abc import Sequence

import torch

from marcir.catalog import create_loss
from marcir.config import Config, EncoderConfig
from marcir.data.dataset import ArchiveDataset
from marcir.data.resize import prepared
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


def build_untrained(
    settings: EncoderConfig,
    seed: int,
    like: Encoder,
    images: ArchiveDataset,
    size: int,
    positions: Sequence[int],
) -> Encoder:
    """The backbone of an encoder as it was before training: its own features, with BN statistics that fit.

    Args:
        settings: Of the encoder.
        seed: Of its first weights.
        like: The trained encoder.
        images: The archive that it was trained on, or another one.
        size: Side of the images that the network sees.
        positions: Which images batch-norm statistics are estimated on.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = create_backbone(settings.backbone, images.bands, size, settings.weights)
    mean, std = (tuple(values.flatten().tolist()) for values in (like.mean, like.std))
    encoder = Encoder(backbone, settings.dim, "backbone", mean, std).to(like.device)
    settle_batch_norm(encoder, settings.weights, positions, lambda part: prepared(images.batch(part), size))
    return encoder.eval()


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
