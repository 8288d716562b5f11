"""Find the timm backbone that weights in a file belong to."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from marcir.torchvision_shim import timm

# Tried if the file name does not contain a model name; trying all of timm would take minutes.
_COMMON = (
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "tf_efficientnet_lite0",
    "efficientnet_b0",
    "mobilenetv3_small_100",
    "mobilenetv3_large_100",
    "convnext_tiny",
    "convnext_small",
    "convnext_base",
    "densenet121",
    "regnety_008",
    "vit_tiny_patch16_224",
    "vit_small_patch16_224",
    "vit_base_patch16_224",
    "swin_tiny_patch4_window7_224",
)
_MIN_LETTERS = 5  # of a model name to look for in a file name
_MAX_CANDIDATES = 40


def matching_backbone(path: Path, weights: Mapping[str, Tensor]) -> str | None:
    """The first backbone whose tensors have these names and shapes, whatever its classifier and bands.

    Args:
        path: The file, whose name may contain the model's.
        weights: Tensors by name.
    """
    return next((name for name in _candidates(path) if _fits(name, weights)), None)


def _fits(name: str, weights: Mapping[str, Tensor]) -> bool:
    with torch.device("meta"):  # shapes alone
        network: Any = timm.create_model(name, num_classes=0)
    expected, config = network.state_dict(), network.pretrained_cfg
    classifier = config.get("classifier") or ()
    heads = tuple(f"{each}." for each in ((classifier,) if isinstance(classifier, str) else classifier))
    tensors = {key: value for key, value in weights.items() if not key.startswith(heads)}
    first = f"{config.get('first_conv')}.weight"
    return tensors.keys() == expected.keys() and all(
        key == first or tensors[key].shape == expected[key].shape for key in expected
    )


def _candidates(path: Path) -> Iterator[str]:
    """Backbones whose names occur in the file name, longest first, then common ones."""
    stem = path.stem.lower()
    names = [name for name in timm.list_models() if len(name) >= _MIN_LETTERS and name in stem]
    yield from dict.fromkeys([*sorted(names, key=len, reverse=True)[:_MAX_CANDIDATES], *_COMMON])
