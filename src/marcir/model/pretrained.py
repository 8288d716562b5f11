"""A model without training: features of a backbone with ImageNet weights, for images of any form."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

import marcir
from marcir.data.images import PixelFormat, most_common_format, read_image, read_pixel_format
from marcir.data.resize import eval_transform, packed_size, to_square, unit_range
from marcir.errors import BrokenImageError, DataError
from marcir.model.backbone import Backbone, create_backbone
from marcir.model.device import choose_device
from marcir.model.encoder import Encoder, adapt_batch_norm
from marcir.model.imagenet import BACKBONE
from marcir.model.model import Model
from marcir.model.model_config import ModelConfig

DATASET = "ImageNet-1k"
SIZE = 224
# Images that tell the form of all, and those that band and batch-norm statistics are taken from.
_HEADERS, _SAMPLED = 1000, 256
_USUAL = PixelFormat(3, np.dtype(np.uint8))


def pretrained_model(paths: Sequence[Path], device: str = "auto") -> tuple[Model, dict[str, bytes]]:
    """ImageNet features for images such as these, and the files of their model.

    Images of three 8-bit bands are all served by the same model. For others the first layer is fitted to the
    bands, and images are scaled by the statistics of a sample.

    Args:
        paths: The images.
        device: Where the network runs.

    Raises:
        DataError: Where none of them can be read.
    """
    place = choose_device(device)
    form = _form_of(paths)
    backbone = create_backbone(BACKBONE, form.bands, SIZE, "imagenet")
    if form == _USUAL:
        encoder = Encoder(backbone, 0, "backbone", backbone.mean, backbone.std)
    else:
        encoder = _fitted(backbone, form, paths, place)
    config = ModelConfig(
        marcir=marcir.__version__,
        backbone=BACKBONE,
        bands=form.bands,
        size=SIZE,
        packed_size=packed_size(SIZE),
        dtype=str(form.dtype),
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
    files = _files(encoder, config)
    return Model(encoder, config, Path(BACKBONE), place), files


def _files(encoder: Encoder, config: ModelConfig) -> dict[str, bytes]:
    weights = {name: value.cpu().contiguous().clone() for name, value in encoder.state_dict().items()}
    return {
        "config.json": (json.dumps(asdict(config), indent=1) + "\n").encode(),
        "model.safetensors": save(weights, {"format": "pt"}),
        "README.md": _card(encoder, config).encode(),
    }


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


def _form_of(paths: Sequence[Path]) -> PixelFormat:
    """The form of most of the images, from headers."""
    forms, problem = [], None
    for path in _spread(paths, _HEADERS):
        try:
            forms.append(read_pixel_format(path))
        except BrokenImageError as error:
            problem = error
    form = most_common_format(forms)
    if form is None:
        raise DataError(f"none of the images can be read, for example: {problem}")
    return form


def _fitted(backbone: Backbone, form: PixelFormat, paths: Sequence[Path], device: torch.device) -> Encoder:
    """An encoder scaled by band statistics of a sample, with batch-norm statistics that fit it."""
    squares = _sample(form, paths)  # (N, C, S, S)
    images = unit_range(squares).double()
    mean, std = images.mean((0, 2, 3)), images.std((0, 2, 3), correction=0).clamp_min(1e-6)
    encoder = Encoder(backbone, 0, "backbone", tuple(mean.tolist()), tuple(std.tolist())).to(device)
    adapt_batch_norm(
        encoder, "imagenet", range(len(squares)), lambda part: eval_transform(squares[list(part)], SIZE)
    )
    return encoder


def _sample(form: PixelFormat, paths: Sequence[Path]) -> Tensor:
    """Some of the images at the model's size; those that cannot be used are left out. (N, C, S, S)"""
    squares, problem = [], None
    for path in _spread(paths, _SAMPLED):
        try:
            squares.append(to_square(form.fit(read_image(path), path), SIZE))
        except BrokenImageError as error:
            problem = error
    if not squares:
        raise DataError(f"none of the images can be read, for example: {problem}")
    return torch.from_numpy(np.stack(squares)).permute(0, 3, 1, 2)


def _spread(paths: Sequence[Path], most: int) -> Sequence[Path]:
    return paths[:: -(-len(paths) // most)]


def is_imagenet_only(config: ModelConfig) -> bool:
    """Whether a model is one of these: never trained on an archive."""
    return config.dataset == DATASET and config.loss == {"name": "none"}
