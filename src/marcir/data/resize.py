"""Resize images to squares of one size."""

import numpy as np
import torch
from torch import Tensor

_LARGEST = {torch.uint8: 255, torch.uint16: 65535}


def packed_size(size: int) -> int:
    """Side of stored images: 1.25 times the network's input size, for random crops.

    >>> packed_size(224)
    280
    """
    return round(1.25 * size)


def to_square(image: np.ndarray, size: int) -> np.ndarray:
    """Resize an image to a square with antialiasing; keeps dtype and bands. (H, W, C) -> (S, S, C)

    >>> to_square(np.zeros((4, 6, 3), np.uint8), 2).shape
    (2, 2, 3)
    """
    if image.shape[:2] == (size, size):
        return image
    # Bytes are resized as bytes, three times as fast; a copy, because the pixels may be read-only.
    source = image if image.dtype == np.uint8 else image.astype(np.float32)
    pixels = torch.tensor(source, device="cpu").permute(2, 0, 1)[None]
    return _as_dtype(_resize(pixels, size)[0].permute(1, 2, 0).numpy(), image.dtype)


def unit_range(images: Tensor) -> Tensor:
    """Convert images to floats: unsigned integers are scaled to 0..1, other values unchanged.

    >>> unit_range(torch.tensor([255], dtype=torch.uint8))
    tensor([1.])
    """
    largest = _LARGEST.get(images.dtype)
    return images.float() if largest is None else images.float().div_(largest)


def eval_transform(images: Tensor, size: int) -> Tensor:
    """Resize square images to an encoder's input size, in unit range. (B, C, size, size)

    >>> eval_transform(torch.full((1, 3, 10, 10), 255, dtype=torch.uint8), 8).shape
    torch.Size([1, 3, 8, 8])
    """
    if images.shape[-1] == size:
        return unit_range(images)
    return _resize(unit_range(images.contiguous()), size)  # contiguous bands are faster


def eval_inputs(images: Tensor, size: int) -> Tensor:
    """Stored images as network inputs without augmentation, in channels-last memory. (B, C, size, size)"""
    return eval_transform(images, size).contiguous(memory_format=torch.channels_last)


def _resize(images: Tensor, size: int) -> Tensor:
    return torch.nn.functional.interpolate(images, (size, size), mode="bilinear", antialias=True)


def _as_dtype(pixels: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype.kind not in "iu" or pixels.dtype == dtype:
        return pixels.astype(dtype, copy=False)
    limits = np.iinfo(dtype)
    rounded: np.ndarray = np.clip(np.rint(pixels), limits.min, limits.max).astype(dtype)
    return rounded
