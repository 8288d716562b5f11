"""Backbones of timm, with random weights or those of the package index, a local file or timm's hub."""

import logging
from collections.abc import Iterator, Sequence
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
from marcir.model.matching_backbone import matching_backbone
from marcir.torchvision_shim import timm

# How many keys an error names.
_NAMED = 3


@dataclass(frozen=True, eq=False)
class Backbone:
    """A network without its classifier.

    Attributes:
        network: Images to features. (B, C, S, S) -> (B, F)
        num_features: Number of features, F.
        mean: Of each band, as the weights expect it; of three bands alone.
        std: Likewise.
    """

    network: nn.Module
    num_features: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


def create_backbone(name: str, bands: int, size: int, weights: str = "none") -> Backbone:
    """Make a backbone.

    Args:
        name: Any of timm's.
        bands: Bands of the images.
        size: Their side, for backbones that are made for one size.
        weights: `imagenet` (of the package index), `hub`, a safetensors file in timm's keys, or `none` and
            `random`: random ones, from torch's generator. The first layer is fitted to the number of bands as
            timm does it.

    Raises:
        ConfigError: For an unknown name, weights that are missing or do not fit.
    """
    check_backbone(name)
    pretrained = imagenet_weights(name) if weights == "imagenet" else None
    network = _create(name, bands, size, weights == "hub")
    if pretrained is not None:
        network.load_state_dict(_fitting(network, pretrained))
    elif weights not in NAMED_WEIGHTS:
        _load(network, name, Path(weights))
    config = network.pretrained_cfg
    features = _features(network, name, bands, size)
    return Backbone(network, features, tuple(config["mean"]), tuple(config["std"]))


def check_backbone(name: str) -> None:
    """Refuse what timm does not know.

    Raises:
        ConfigError: With the nearest known name.
    """
    if not timm.is_model(name):
        raise ConfigError(f"encoder.backbone: timm has no '{name}'. {_nearest(name)}")


def check_weights(name: str, weights: str) -> None:
    """Refuse a backbone that timm does not know, and first weights that are not of this backbone.

    Weights of a hub are looked at when they are fetched.

    Raises:
        ConfigError: Says what fits.
    """
    check_backbone(name)
    if weights == "imagenet":
        check_imagenet(name)
    elif weights not in NAMED_WEIGHTS:
        with torch.device("meta"):  # shapes alone
            network = timm.create_model(name, num_classes=0)
        _matching(network, name, Path(weights))


def _nearest(name: str) -> str:
    hint = did_you_mean(name, timm.list_models())
    return hint if hint.startswith("Did") else "See timm.list_models()."


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
    """Without the hub's messages about each attempt: one clear line follows."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@torch.no_grad()
def _features(network: Any, name: str, bands: int, size: int) -> int:
    """Length of the pooled features; `num_features` is not always it: some have one more layer at the end."""
    was_training = network.training
    try:
        found = network.eval()(torch.zeros(1, bands, size, size, device="cpu"))
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"encoder.backbone '{name}' cannot read {bands} bands of {size} x {size}: {_first_line(error)}"
        ) from error
    network.train(was_training)
    if found.ndim != 2:
        raise ConfigError(
            f"encoder.backbone '{name}' gives features of shape {tuple(found.shape)}, not (B, F)."
        )
    return int(found.shape[1])


def _load(network: nn.Module, name: str, path: Path) -> None:
    network.load_state_dict(_matching(network, name, path))


def _matching(network: nn.Module, name: str, path: Path) -> dict[str, Tensor]:
    """Weights of a file that match the network.

    Raises:
        ConfigError: Where they are of another one.
    """
    try:
        found = load_file(path)
    except FileNotFoundError:
        raise ConfigError(
            f"encoder.weights {path}: there is no such file. Give {', '.join(NAMED_WEIGHTS)} or a file."
        ) from None
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"encoder.weights {path}: not a safetensors file ({_first_line(error)})."
        ) from error
    fitting = _fitting(network, found)
    wanted = network.state_dict()
    wrong = [key for key in fitting if key in wanted and fitting[key].shape != wanted[key].shape]
    for how, keys in (
        ("lacks", wanted.keys() - fitting.keys()),
        ("has more:", fitting.keys() - wanted.keys()),
        ("has other shapes:", wrong),
    ):
        if keys:
            _refuse(path, name, how, sorted(keys), matching_backbone(path, found))
    return fitting


def _fitting(network: nn.Module, found: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights without their classifier, with the first layer for the network's bands."""
    wanted = network.state_dict()
    config: Any = network.pretrained_cfg
    classifier = config.get("classifier") or ()
    heads = (classifier,) if isinstance(classifier, str) else tuple(classifier)
    fitting = {
        key: value for key, value in found.items() if not key.startswith(tuple(f"{h}." for h in heads))
    }
    first = config.get("first_conv")
    for layer in (first,) if isinstance(first, str) else tuple(first or ()):
        key = f"{layer}.weight"
        if key in fitting and key in wanted and fitting[key].ndim == 4:
            fitting[key] = _fitted(fitting[key], wanted[key].shape[1])
    return fitting


def _fitted(weight: Tensor, bands: int) -> Tensor:
    """A first layer for another number of bands: red, green, blue in turn, weakened as their number grows."""
    if weight.shape[1] == bands:
        return weight
    fitted: Tensor = timm.models.adapt_input_conv(bands, weight)
    return fitted


def _refuse(path: Path, name: str, how: str, keys: Sequence[str], fits: str | None) -> NoReturn:
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    advice = f" They fit --encoder.backbone {fits}." if fits is not None else ""
    raise ConfigError(
        f"encoder.weights {path} does not fit the backbone '{name}': it {how} "
        f"{', '.join(keys[:_NAMED])}{more}.{advice}"
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
