"""A trained model: images in, unit vectors out."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from marcir.checks import check_int
from marcir.data.images import PixelFormat, read_image
from marcir.data.object_storage import ImagePath
from marcir.data.prefetch import read_batches
from marcir.data.resize import eval_inputs, to_square
from marcir.errors import ConfigError, DataError
from marcir.files import reason
from marcir.model.backbone import create_backbone
from marcir.model.device import choose_device, in_slices, run_batches
from marcir.model.encoder import Encoder
from marcir.model.model_config import ModelConfig, parse_model_config

if TYPE_CHECKING:
    from PIL.Image import Image

    AnyImage = str | Path | Image | np.ndarray

Payload = TypeVar("Payload")
BATCH = 64


class Model:
    """A trained encoder with its preprocessing.

    Args:
        encoder: The network.
        config: The model's configuration.
        path: The model folder.
        device: Device of the network; `auto` is CUDA, else MPS, else the CPU.
    """

    def __init__(
        self, encoder: Encoder, config: ModelConfig, path: Path, device: str | torch.device = "cpu"
    ) -> None:
        self.encoder = encoder.eval().requires_grad_(False).to(choose_device(device))
        self.device = encoder.device  # with its index: the current CUDA device of another thread may differ
        self.encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs lack it
        self.config, self.path = config, path

    @property
    def dim(self) -> int:
        """Length of an embedding, D."""
        return self.encoder.dim

    def embed(self, images: "Sequence[AnyImage]", batch_size: int = BATCH) -> np.ndarray:
        """Unit vectors of images, float32. (N, D)

        Args:
            images: Paths, PIL images, or arrays (H, W), (H, W, C) of the dtype of the training images.
            batch_size: Images per batch.

        Raises:
            DataError: For an image that cannot be read or has other bands.
            ConfigError: For one image instead of a list of them.
        """
        if isinstance(images, str | Path) or _is_pil_image(images) or getattr(images, "ndim", 4) != 4:
            raise ConfigError("embed: expected a list of images, found one. Write embed([image]).")
        check_int("batch_size", batch_size, 1)
        squares = read_batches(enumerate(images), self._read, batch_size)
        vectors = [vectors for _, vectors in self.embed_batches((None, batch) for batch in squares)]
        return np.concatenate(vectors) if vectors else np.zeros((0, self.dim), np.float32)

    def preprocess(self, pixels: np.ndarray, where: str | ImagePath) -> np.ndarray:
        """Convert an image to the model's pixel format and `packed_size`. (S, S, C)"""
        fitted = PixelFormat(self.config.bands, np.dtype(self.config.dtype)).fit(pixels, where)
        return to_square(fitted, self.config.packed_size)

    def embed_batches(
        self, batches: "Iterable[tuple[Payload, Sequence[np.ndarray] | Tensor]]"
    ) -> "Iterator[tuple[Payload, np.ndarray]]":
        """Embed batches of images; yield each batch's payload and its unit vectors, float32.

        Args:
            batches: Pairs of any payload and results of `preprocess`, or a stack of them (B, C, S, S).
        """
        stacked = ((payload, _stack(squares)) for payload, squares in batches)
        for payload, vectors in run_batches(
            lambda _, images: in_slices(self._embed, images), stacked, self.device
        ):
            yield payload, vectors.numpy()

    def embed_preprocessed(self, squares: Sequence[np.ndarray]) -> np.ndarray:
        """Embed one batch of results of `preprocess`. (B, D)"""
        ((_, vectors),) = self.embed_batches([(None, squares)])
        return vectors

    def _embed(self, images: Tensor) -> Tensor:
        return self.encoder.embed(eval_inputs(images, self.config.size))

    def _read(self, item: "tuple[int, AnyImage]") -> np.ndarray:
        position, image = item
        if isinstance(image, str | Path):
            return self.preprocess(read_image(image), Path(image))
        return self.preprocess(_as_array(image, position), Path(f"image {position}"))


def load_model(path: str | Path, device: str | torch.device = "auto") -> Model:
    """Load a model from a folder of `marcir train`.

    >>> model = load_model("runs/ucm")  # doctest: +SKIP
    >>> model.embed(["one.jpg", "two.tif"]).shape  # doctest: +SKIP
    (2, 128)

    Args:
        path: The folder.
        device: `cpu`, `cuda`, `cuda:1` or `mps`; `auto` is CUDA, else MPS, else the CPU.

    Raises:
        ConfigError: If it is not a model folder, or its files do not match.
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
    return Model(encoder, config, folder, device)


def model_files(folder: Path) -> dict[str, bytes]:
    """The files that embed images: weights, configuration and the card."""
    names = ("model.safetensors", "config.json", "README.md")
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


def read_model_config(folder: Path) -> ModelConfig:
    """Read the `config.json` of a model folder."""
    try:
        return parse_model_config(json.loads((folder / "config.json").read_text("utf-8")))
    except FileNotFoundError:
        raise ConfigError(
            f"{folder}: not a model folder (no config.json). Give a folder of marcir train."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{folder}: config.json is not a model's ({reason(error)}).") from error


def _stack(squares: Sequence[np.ndarray] | Tensor) -> Tensor:
    """Stack images into one tensor. (B, C, S, S)"""
    if isinstance(squares, Tensor):
        return squares
    return torch.from_numpy(np.stack(squares)).permute(0, 3, 1, 2)


def _as_array(image: Any, position: int) -> np.ndarray:
    """Convert a PIL image or an array to (H, W, C)."""
    if _is_pil_image(image):
        image = _pixels(image)
    if not isinstance(image, np.ndarray) or image.ndim not in (2, 3) or not image.size:
        shape = getattr(image, "shape", type(image).__name__)
        raise DataError(
            f"image {position}: expected a path, a PIL image or an array (H, W, C), found {shape}."
        )
    pixels: np.ndarray = image[:, :, None] if image.ndim == 2 else image
    return pixels


def _is_pil_image(image: Any) -> bool:
    """Whether it is a PIL image, without importing PIL."""
    return hasattr(image, "getbands")


def _pixels(image: "Image") -> np.ndarray:
    """The pixels of a PIL image as `read_image` would read them: RGB, or one band of any depth."""
    if image.mode in ("1", "L", "LA", "La"):
        return np.asarray(image.convert("L"))
    if image.mode in ("I", "F"):
        return np.asarray(image, np.float32)
    return np.asarray(image if image.mode.startswith("I;16") else image.convert("RGB"))
