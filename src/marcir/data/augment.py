"""Augmentation of whole batches: crop, flips and rotation in one resampling, then colour jitter."""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from marcir.checks import check_finite, check_fraction, check_int
from marcir.data.resize import unit_range
from marcir.errors import BatchError, ConfigError

# Weights of red, green and blue in brightness (ITU-R 601).
_GREY = (0.299, 0.587, 0.114)
_DRAWS = 10


@dataclass(frozen=True)
class Augmentation:
    """Random resized crop, both flips, small rotation, colour jitter (Reading R19).

    Attributes:
        size: Side of the result.
        scale: Smallest and largest area of a crop, as a fraction of the image.
        ratio: Largest ratio of a crop's sides.
        rotation: Largest angle, in degrees.
        jitter: Largest relative change of brightness, contrast and (of RGB images) saturation.
    """

    size: int
    scale: tuple[float, float] = (0.5, 1.0)
    ratio: float = 4 / 3
    rotation: float = 15.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        check_int("size", self.size, 1)
        if len(self.scale) != 2 or not 0 < check_finite("scale", self.scale[0]) <= check_fraction(
            "scale", self.scale[1]
        ):
            raise ConfigError(
                f"scale = {self.scale}: must be two shares of the area, 0 < smallest <= largest <= 1."
            )
        if check_finite("ratio", self.ratio) < 1:
            raise ConfigError(f"ratio = {self.ratio}: must be 1 or more.")
        if not 0 <= check_finite("rotation", self.rotation) <= 180:
            raise ConfigError(f"rotation = {self.rotation}: must lie between 0 and 180 degrees.")
        check_fraction("jitter", self.jitter)

    def __call__(self, images: Tensor, ids: Sequence[str], *, seed: int, epoch: int, view: int = 0) -> Tensor:
        """Augment a batch; the augmentation of an image depends only on (seed, epoch, id, view).

        Several copies of an image in one batch are augmented differently.

        Args:
            images: Square images in their source's dtype; augmented on their device. (B, C, S, S)
            ids: The id of each image.
            seed: Seed of all random numbers.
            epoch: The epoch.
            view: Number of the view, if there are several per image.

        Returns:
            Floats, 0..1 for images of unsigned integers. (B, C, size, size)
        """
        _check_batch(images, ids)
        if not len(ids):
            return torch.empty(0, images.shape[1], self.size, self.size, device=images.device)
        u = torch.from_numpy(uniform_draws(ids, seed, epoch, view))  # (B, 10), few and in double: on the CPU
        grid = sampling_grid(self.affine_matrices(u).float().to(images.device), self.size)
        cropped = grid_sample(unit_range(images), grid, padding_mode="reflection", align_corners=False)
        jittered = self.apply_jitter(cropped, self.jitter_factors(u).float().to(images.device))
        unsigned = images.dtype in (torch.uint8, torch.uint16)
        return jittered.clamp_(0, 1) if unsigned else jittered

    def affine_matrices(self, u: Tensor) -> Tensor:
        """Affine maps from output to input coordinates: rotation, flips, crop. (B, 2, 3)"""
        area = self.scale[0] + (self.scale[1] - self.scale[0]) * u[:, 0]
        shape = torch.exp(math.log(self.ratio) * (2 * u[:, 1] - 1))
        width, height = (area * shape).sqrt().clamp_max(1), (area / shape).sqrt().clamp_max(1)
        x, y = (1 - width) * (2 * u[:, 2] - 1), (1 - height) * (2 * u[:, 3] - 1)
        angle = math.radians(self.rotation) * (2 * u[:, 4] - 1)
        flip_x, flip_y = 1 - 2 * (u[:, 5] < 0.5).to(u.dtype), 1 - 2 * (u[:, 6] < 0.5).to(u.dtype)
        cos, sin = angle.cos(), angle.sin()
        rows = [
            width * flip_x * cos,
            -width * flip_y * sin,
            x,
            height * flip_x * sin,
            height * flip_y * cos,
            y,
        ]
        return torch.stack(rows, 1).view(-1, 2, 3)

    def jitter_factors(self, u: Tensor) -> Tensor:
        """Factors of brightness, contrast and saturation. (B, 3)"""
        return 1 + self.jitter * (2 * u[:, 7:10] - 1)

    def apply_jitter(self, images: Tensor, factors: Tensor) -> Tensor:
        """Change brightness, then contrast around the mean, then the saturation of RGB images, in place."""
        brightness, contrast, saturation = factors.T[:, :, None, None, None]
        images = images.mul_(brightness)
        mean = image_means(images)
        images = images.sub_(mean).mul_(contrast).add_(mean)
        if images.shape[1] != 3:
            return images
        red, green, blue = images.split(1, 1)
        grey = _GREY[0] * red + _GREY[1] * green + _GREY[2] * blue  # (B, 1, H, W)
        return images.sub_(grey).mul_(saturation).add_(grey)


# Sums below are written out: the order of summation in a matrix product or one large reduction depends on
# the shape of the batch and the number of threads, and results must not.


def sampling_grid(affine_matrices: Tensor, size: int) -> Tensor:
    """Input coordinates of each output pixel, for `grid_sample`. (B, 2, 3) -> (B, size, size, 2)

    >>> sampling_grid(torch.tensor([[[1.0, 0, 0], [0, 1, 0]]]), 2)[0, :, :, 0]
    tensor([[-0.5000,  0.5000],
            [-0.5000,  0.5000]])
    """
    x = ((2 * torch.arange(size, device=affine_matrices.device) + 1) / size - 1)[None, None, :, None]
    y = x.transpose(1, 2)
    by_x, by_y, shift = (affine_matrices[:, None, None, :, k] for k in range(3))  # (B, 1, 1, 2)
    return (x * by_x + shift) + y * by_y


def image_means(images: Tensor) -> Tensor:
    """The mean of each image over all its bands. (B, C, H, W) -> (B, 1, 1, 1)"""
    bands = images.mean((2, 3), keepdim=True).unbind(1)
    return (sum(bands[1:], bands[0]) / len(bands))[:, None]


def _check_batch(images: Tensor, ids: Sequence[str]) -> None:
    if images.ndim != 4:
        raise BatchError(f"images of shape {tuple(images.shape)}: expected (B, C, S, S).")
    if len(images) != len(ids):
        raise BatchError(f"{len(images)} images with {len(ids)} ids: give each image its id.")


def uniform_draws(ids: Sequence[str], seed: int, epoch: int, view: int) -> np.ndarray:
    """Ten numbers in 0..1 per image, from its id and the number of its copies before it. (B, 10)

    >>> draws = uniform_draws(["a", "b", "a"], seed=0, epoch=0, view=0)
    >>> bool((draws[0] == uniform_draws(["a"], 0, 0, 0)[0]).all()), bool((draws[0] == draws[2]).any())
    (True, False)
    """
    copies: Counter[str] = Counter()
    rows = []
    for image in ids:
        key = f"{seed}\0{epoch}\0{view}\0{copies[image]}\0{image}".encode("utf-8", "surrogatepass")
        copies[image] += 1
        rows.append(np.frombuffer(hashlib.blake2b(key, digest_size=4 * _DRAWS).digest(), "<u4"))
    return np.array(rows).reshape(-1, _DRAWS) / np.float64(1 << 32)
