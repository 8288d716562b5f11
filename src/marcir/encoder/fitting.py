"""Which backbone of timm the weights in a file are of."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from marcir.torchvision_shim import timm

# Tried where the file's name does not tell; the whole list of timm would take minutes.
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


def fitting_backbone(path: Path, weights: Mapping[str, Tensor]) -> str | None:
    """The first backbone whose tensors have these names and shapes, whatever its classifier and bands.

    Args:
        path: Where the weights are from; its name may tell.
        weights: By name.
    """
    for name in _candidates(path):
        with torch.device("meta"):  # shapes alone
            network = timm.create_model(name, num_classes=0)
        wanted = network.state_dict()
        first = network.pretrained_cfg.get("first_conv")
        free = {f"{first}.weight"}
        known = {key: value for key, value in weights.items() if key in wanted}
        classifier = network.pretrained_cfg.get("classifier")
        heads = tuple(f"{each}." for each in ([classifier] if isinstance(classifier, str) else classifier or ()))
        rest = [key for key in weights if key not in wanted and not key.startswith(heads)]
        if known.keys() == wanted.keys() and not rest:
            if all(key in free or known[key].shape == wanted[key].shape for key in wanted):
                return name
    return None


def _candidates(path: Path) -> Iterator[str]:
    """Backbones that the file is named after, the longest name first, then common ones."""
    stem = path.stem.lower()
    names = [name for name in timm.list_models() if len(name) >= _FEWEST_LETTERS and name in stem]
    yield from dict.fromkeys([*sorted(names, key=len, reverse=True)[:_MOST], *_COMMON])
