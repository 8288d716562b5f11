"""A trained model: images in, unit vectors out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from marcir.checks import check_int
from marcir.data.images import Form, read_image
from marcir.data.resize import prepared, to_square
from marcir.errors import ConfigError, DataError
from marcir.files import reason
from marcir.model.backbone import create_backbone
from marcir.model.encoder import Encoder
from marcir.model.model_config import ModelConfig, checked_config
from marcir.model.precision import float32_only

if TYPE_CHECKING:
    from PIL.Image import Image

    AnyImage = str | Path | Image | np.ndarray

_BATCH = 64


class Model:
    """A trained encoder with its preprocessing.

    Args:
        encoder: The network.
        config: What it expects.
        path: Where it was read from.
    """

    def __init__(self, encoder: Encoder, config: ModelConfig, path: Path) -> None:
        self.encoder = encoder.eval().requires_grad_(False)
        self.encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs lack it
        self.config, self.path = config, path

    @property
    def dim(self) -> int:
        """Length of an embedding, D."""
        return self.encoder.dim

    def embed(self, images: "Sequence[AnyImage]", batch_size: int = _BATCH) -> np.ndarray:
        """Unit vectors of images, float32. (N, D)

        Args:
            images: Paths, PIL images, or arrays (H, W), (H, W, C) of the type that the model was trained on.
            batch_size: Images that are embedded at a time.

        Raises:
            DataError: For an image that cannot be read or has other bands.
            ConfigError: For one image instead of a list of them.
        """
        if isinstance(images, str | Path) or _is_picture(images) or getattr(images, "ndim", 4) != 4:
            raise ConfigError("embed: expected a list of images, found one. Write embed([image]).")
        images = images if hasattr(images, "__getitem__") else list(images)
        check_int("batch_size", batch_size, 1)
        starts = range(0, len(images), batch_size)
        parts = [
            self.embed_squares([self._read(images[k], k) for k in range(s, min(s + batch_size, len(images)))])
            for s in starts
        ]
        return np.concatenate(parts) if parts else np.zeros((0, self.dim), np.float32)

    def square(self, pixels: np.ndarray, where: Path) -> np.ndarray:
        """An image in the model's form, at the side that images are first brought to. (S, S, C)"""
        fitted = Form(self.config.bands, np.dtype(self.config.dtype)).fit(pixels, where)
        return to_square(fitted, self.config.packed_size)

    def embed_squares(self, squares: Sequence[np.ndarray]) -> np.ndarray:
        """Unit vectors of images that `square` made. (N, D)"""
        return self.embed_batch(torch.from_numpy(np.stack(squares)).permute(0, 3, 1, 2))

    @torch.inference_mode()
    def embed_batch(self, images: Tensor) -> np.ndarray:
        """Unit vectors of a stack of square images in the source's type. (B, C, S, S) -> (B, D)"""
        inputs = prepared(images, self.config.size).contiguous(memory_format=torch.channels_last)
        device = self.encoder.mean.device
        with float32_only(device):
            vectors: np.ndarray = self.encoder.embed(inputs.to(device)).cpu().numpy()
        return vectors

    def _read(self, image: "AnyImage", position: int) -> np.ndarray:
        if isinstance(image, str | Path):
            return self.square(read_image(image), Path(image))
        return self.square(_as_array(image, position), Path(f"image {position}"))


def load_model(path: str | Path) -> Model:
    """A model from the folder that `marcir train` wrote.

    Raises:
        ConfigError: Where it is no such folder, or its files do not belong together.
    """
    folder = Path(path)
    config = read_model_config(folder)
    backbone = create_backbone(config.backbone, config.bands, config.size)
    encoder = Encoder(backbone, config.dim, config.embedding, config.mean, config.std)  # type: ignore[arg-type]
    try:
        encoder.load_state_dict(load_file(folder / "model.safetensors"))
    except FileNotFoundError:
        raise ConfigError(f"{folder}: model.safetensors is missing.") from None
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ConfigError(
            f"{folder}: model.safetensors does not belong to its config.json ({reason(error)})."
        ) from error
    return Model(encoder, config, folder)


def read_model_config(folder: Path) -> ModelConfig:
    """The `config.json` of a model folder."""
    try:
        return checked_config(json.loads((folder / "config.json").read_text("utf-8")))
    except FileNotFoundError:
        raise ConfigError(
            f"{folder}: not a model folder (no config.json). Give a folder that marcir train has made."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{folder}: config.json is not a model's ({reason(error)}).") from error


def _as_array(image: Any, position: int) -> np.ndarray:
    """A PIL image or an array as (H, W, C)."""
    if _is_picture(image):
        image = _pixels(image)
    if not isinstance(image, np.ndarray) or image.ndim not in (2, 3) or not image.size:
        shape = getattr(image, "shape", type(image).__name__)
        raise DataError(
            f"image {position}: expected a path, a PIL image or an array (H, W, C), found {shape}."
        )
    pixels: np.ndarray = image[:, :, None] if image.ndim == 2 else image
    return pixels


def _is_picture(image: Any) -> bool:
    """Whether it is of PIL, without importing it."""
    return hasattr(image, "getbands")


def _pixels(image: "Image") -> np.ndarray:
    """Of a PIL image, as they would be read from its file: colours, or one band of any depth."""
    if image.mode in ("1", "L", "LA", "La"):
        return np.asarray(image.convert("L"))
    if image.mode in ("I", "F"):
        return np.asarray(image, np.float32)
    return np.asarray(image if image.mode.startswith("I;16") else image.convert("RGB"))
