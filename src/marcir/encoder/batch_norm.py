"""Running statistics of batch normalisation, estimated anew."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

_KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


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
