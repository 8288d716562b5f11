"""A model without training: features of a backbone with ImageNet weights, for any pixel format."""

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

import marcir
from marcir.data.archive import Archive
from marcir.data.image_source import ImageSource
from marcir.data.images import PixelFormat, most_common_format
from marcir.data.prefetch import read_batches
from marcir.data.resize import eval_transform, packed_size, to_square, unit_range
from marcir.errors import BrokenImageError, DataError
from marcir.model.backbone import Backbone, create_backbone
from marcir.model.device import choose_device
from marcir.model.encoder import Encoder, adapt_batch_norm
from marcir.model.imagenet import BACKBONE
from marcir.model.model import Model
from marcir.model.model_config import ModelConfig, serialise_model

Result = TypeVar("Result")
DATASET = "ImageNet-1k"
SIZE = 224
# Images sampled for the pixel format, and for band and batch-norm statistics.
_HEADERS, _SAMPLED = 1000, 256
_RGB = PixelFormat(3, np.dtype(np.uint8))


def pretrained_model(images: ImageSource | Archive, device: str = "auto") -> tuple[Model, dict[str, bytes]]:
    """Make a model of ImageNet features for these images; also return the files of its model folder.

    The model is the same for all images of three 8-bit bands. For others the first layer is adapted to the
    bands, and images are normalised by the statistics of a sample.

    Raises:
        DataError: If none of them can be read.
    """
    chosen_device = choose_device(device)
    pixel_format = most_common_format(_read_some(images, _HEADERS, images.pixel_format))
    assert pixel_format is not None  # noqa: S101  # some image was read
    backbone = create_backbone(BACKBONE, pixel_format.bands, SIZE, "imagenet")
    if pixel_format == _RGB:
        encoder = Encoder(backbone, 0, "backbone", backbone.mean, backbone.std)
    else:
        encoder = _adapted_encoder(backbone, pixel_format, images, chosen_device)
    config = ModelConfig(
        marcir=marcir.__version__,
        backbone=BACKBONE,
        bands=pixel_format.bands,
        size=SIZE,
        packed_size=packed_size(SIZE),
        dtype=str(pixel_format.dtype),
        mean=tuple(encoder.mean.flatten().tolist()),
        std=tuple(encoder.std.flatten().tolist()),
        dim=0,
        embedding="backbone",
        labels=(),
        training_counts=(),
        loss={"name": "none"},
        dataset=DATASET,
        label_checksum="",
        split_checksum="",
    )
    files = {**serialise_model(encoder, config), "README.md": _card(encoder, config).encode()}
    return Model(encoder, config, Path(BACKBONE), chosen_device), files


def _card(encoder: Encoder, config: ModelConfig) -> str:
    return f"""---
library_name: marcir
pipeline_tag: image-feature-extraction
license: apache-2.0
tags: [remote-sensing, image-retrieval]
---

# {config.backbone} with ImageNet weights

Turns an image of {config.bands} bands of {config.dtype} into a unit vector of {encoder.dim} numbers;
similar images have a high cosine. It was not trained on any archive: the vectors are the backbone's own
features, at {config.size} x {config.size} pixels. Training on labels (`marcir train`) makes them follow what
the labels mean.
"""


def _adapted_encoder(
    backbone: Backbone, pixel_format: PixelFormat, images: ImageSource | Archive, device: torch.device
) -> Encoder:
    """An encoder with band and batch-norm statistics of a sample of the images."""

    def square(position: int) -> np.ndarray:
        return to_square(pixel_format.fit(images.read(position), images.ids[position]), SIZE)

    stacked = np.stack(_read_some(images, _SAMPLED, square))
    squares = torch.from_numpy(stacked).permute(0, 3, 1, 2)  # (N, C, S, S)
    values = unit_range(squares).double()
    mean, std = values.mean((0, 2, 3)), values.std((0, 2, 3), correction=0).clamp_min(1e-6)
    encoder = Encoder(backbone, 0, "backbone", tuple(mean.tolist()), tuple(std.tolist())).to(device)
    adapt_batch_norm(
        encoder, "imagenet", range(len(squares)), lambda part: eval_transform(squares[list(part)], SIZE)
    )
    return encoder


def _read_some(images: ImageSource | Archive, most: int, read: Callable[[int], Result]) -> list[Result]:
    """Read a sample of the images by position, without broken ones; a DataError if there is no other."""

    def attempt(position: int) -> Result | BrokenImageError:
        try:
            return read(position)
        except BrokenImageError as error:
            return error

    sample = range(0, len(images), -(-len(images) // most))
    threads = None if isinstance(images, Archive) else images.reading_threads(None)
    batches = read_batches(sample, attempt, 64, threads=threads)
    found = list(chain.from_iterable(batches))
    results = [each for each in found if not isinstance(each, BrokenImageError)]
    if not results:
        raise DataError(f"none of the images can be read, for example: {found[-1]}")
    return results


def is_imagenet_only(config: ModelConfig) -> bool:
    """Whether a model is only the ImageNet backbone, not trained on an archive."""
    return config.dataset == DATASET and config.loss == {"name": "none"}
