"""Choose the device of a network, and run it over batches."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import torch
from torch import Tensor

from marcir.errors import ConfigError, did_you_mean

Payload = TypeVar("Payload")
PrecisionContext = Callable[[torch.device], AbstractContextManager[None]]
DEVICES = ("auto", "cpu", "cuda", "mps")


def choose_device(name: str | torch.device = "auto") -> torch.device:
    """Choose a device by name; `auto` is CUDA, else MPS (Apple), else the CPU.

    Raises:
        ConfigError: For an unknown device, and for one that this machine does not have.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise ConfigError(f"device '{name}': unknown. {did_you_mean(str(name), DEVICES)}") from None
    available = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(_has_mps())}.get(device.type)
    if available is None:
        raise ConfigError(f"device '{name}': unknown. {did_you_mean(device.type, DEVICES)}")
    if (device.index or 0) >= available:
        count = f"{available} such device{'' if available == 1 else 's'}"
        raise ConfigError(f"device '{name}': this machine has {count}. Use auto or cpu.")
    return device


def batches_ahead(device: torch.device) -> int:
    """Number of batches to read in advance: none if the network runs on the CPU, which reading would slow."""
    return 0 if device.type == "cpu" else 2


def inference_precision(device: torch.device) -> AbstractContextManager[None]:
    """The autocast context of inference, which overrides an outer one.

    Half precision on accelerators. Float32 on a CPU, so that a stored vector is the same on every machine.
    """
    if device.type == "cpu":
        return torch.autocast(device.type, enabled=False)
    has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
    return torch.autocast(device.type, dtype=torch.bfloat16 if has_bfloat16 else torch.float16)


def run_batches(
    network: Callable[[Tensor], Tensor],
    batches: Iterable[tuple[Payload, Tensor]],
    device: torch.device,
    precision: PrecisionContext = inference_precision,
) -> Iterator[tuple[Payload, Tensor]]:
    """Run a network over batches; yield each batch's payload and its vectors, float32, on the CPU.

    An accelerator gets the next batch before the results of the last one are fetched.

    Args:
        network: Maps images on the device to vectors.
        batches: Pairs of any payload and images, on the CPU or the device. (B, C, S, S)
        device: Device of the network.
        precision: Makes the autocast context for the device.
    """
    depth = 0 if device.type == "cpu" else 1
    launched = deque[tuple[Payload, Tensor]]()
    for payload, images in batches:
        with torch.inference_mode(), precision(device):
            launched.append((payload, network(to_device(images, device))))
        if len(launched) > depth:
            yield _fetch(*launched.popleft())
    while launched:
        yield _fetch(*launched.popleft())


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device, asynchronously to CUDA."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def _fetch(payload: Payload, vectors: Tensor) -> tuple[Payload, Tensor]:
    return payload, vectors.float().cpu()


def _has_mps() -> bool:
    return torch.backends.mps.is_available()
