"""Check and re-estimate the running statistics of batch normalisation."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

_KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


# Statistics do not fit if the mean of the layers' inputs differs by more than this many standard deviations,
# averaged over channels and layers. ImageNet weights on aerial images: 0.15 with their own statistics, 2.3
# with those of another dataset.
_MAX_SHIFT = 1.0


@torch.no_grad()
def statistics_fit(network: nn.Module, images: Tensor) -> bool:
    """Whether the running statistics of batch normalisation fit a batch; the network is not changed."""
    layers = [layer for layer in network.modules() if isinstance(layer, _KINDS)]
    shifts: list[float] = []

    def measure(layer: Any, inputs: tuple[Tensor, ...], _: Tensor) -> None:
        values = inputs[0].transpose(0, 1).flatten(1)  # (C, all else)
        std = (layer.running_var + layer.eps).sqrt()
        shifts.append(float(((values.mean(1) - layer.running_mean) / std).abs().mean()))

    hooks = [layer.register_forward_hook(measure) for layer in layers]
    modes = {module: module.training for module in network.modules()}
    network.eval()
    network(images)
    for module, mode in modes.items():
        module.training = mode
    for hook in hooks:
        hook.remove()
    return not shifts or sum(shifts) / len(shifts) <= _MAX_SHIFT


@torch.no_grad()
def reestimate_batch_norm(network: nn.Module, batches: Iterable[Tensor]) -> None:
    """Replace running means and variances by their averages over batches, such as all training images once.

    Pretrained statistics may be those of other images, which leaves the layers' outputs neither centred nor
    scaled. Nothing else is changed.
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
