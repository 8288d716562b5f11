"""Running statistics of batch normalisation, estimated anew."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

_KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


# Statistics are of other images where layers see inputs whose mean is off by more than so many standard
# deviations, averaged over channels and layers. ImageNet weights on aerial images: 0.15 with their own
# statistics, 2.3 with those of another data set.
_OFF = 1.0


@torch.no_grad()
def statistics_fit(network: nn.Module, images: Tensor) -> bool:
    """Whether the running statistics of batch normalisation are those of such images.

    Args:
        network: What to look at; it is not changed.
        images: A batch of inputs.
    """
    layers = [layer for layer in network.modules() if isinstance(layer, _KINDS)]
    shifts: list[float] = []

    def look(layer: Any, inputs: tuple[Tensor, ...], _: Tensor) -> None:
        seen = inputs[0].transpose(0, 1).flatten(1)  # (C, all else)
        spread = (layer.running_var + layer.eps).sqrt()
        shifts.append(float(((seen.mean(1) - layer.running_mean) / spread).abs().mean()))

    hooks = [layer.register_forward_hook(look) for layer in layers]
    modes = {module: module.training for module in network.modules()}
    network.eval()
    network(images)
    for module, mode in modes.items():
        module.training = mode
    for hook in hooks:
        hook.remove()
    return not shifts or sum(shifts) / len(shifts) <= _OFF


@torch.no_grad()
def reestimate_batch_norm(network: nn.Module, batches: Iterable[Tensor]) -> None:
    """Replace running means and variances by their averages over batches of images.

    Weights from elsewhere may carry statistics of other images: then every layer sees inputs that are neither
    centred nor scaled. All else stays as it is.

    Args:
        network: What to adjust.
        batches: Inputs, such as all training images once.
    """
    layers = [layer for layer in network.modules() if isinstance(layer, _KINDS)]
    if not layers:
        return
    momenta, modes = [layer.momentum for layer in layers], {m: m.training for m in network.modules()}
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a plain average over batches
    network.eval()
    for layer in layers:
        layer.train()
    for batch in batches:
        network(batch)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    for module, mode in modes.items():
        module.training = mode
