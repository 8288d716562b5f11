"""Which backbone of timm the weights in a file are of."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from marcir.torchvision_shim import timm

# TrialResult where the file's name does not tell; the whole list of timm would take minutes.
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
_FEWEST_LETTERS = 5  # of a name that is looked for in a file's name
_MOST = 40


def matching_backbone(path: Path, weights: Mapping[str, Tensor]) -> str | None:
    """The first backbone whose tensors have these names and shapes, whatever its classifier and bands.

    Args:
        path: Where the weights are from; its name may tell.
        weights: By name.
    """
    return next((name for name in _candidates(path) if _fits(name, weights)), None)


def _fits(name: str, weights: Mapping[str, Tensor]) -> bool:
    with torch.device("meta"):  # shapes alone
        network: Any = timm.create_model(name, num_classes=0)
    wanted, config = network.state_dict(), network.pretrained_cfg
    classifier = config.get("classifier") or ()
    heads = tuple(f"{each}." for each in ((classifier,) if isinstance(classifier, str) else classifier))
    found = {key: value for key, value in weights.items() if not key.startswith(heads)}
    first = f"{config.get('first_conv')}.weight"
    return found.keys() == wanted.keys() and all(
        key == first or found[key].shape == wanted[key].shape for key in wanted
    )


def _candidates(path: Path) -> Iterator[str]:
    """Backbones that the file is named after, the longest name first, then common ones."""
    stem = path.stem.lower()
    names = [name for name in timm.list_models() if len(name) >= _FEWEST_LETTERS and name in stem]
    yield from dict.fromkeys([*sorted(names, key=len, reverse=True)[:_MOST], *_COMMON])
