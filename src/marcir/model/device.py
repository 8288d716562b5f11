"""The device that a network runs on, and the loop that takes batches there and vectors back."""

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
    """A device by name; `auto` is CUDA, else MPS (Apple), else the CPU.

    Raises:
        ConfigError: For an unknown device, and for one that this machine does not have.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"device '{name}': unknown. {did_you_mean(str(name), DEVICES)}") from None
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(_has_mps())}.get(device.type)
    if there is None:
        raise ConfigError(f"device '{name}': unknown. {did_you_mean(device.type, DEVICES)}")
    if (device.index or 0) >= there:
        found = f"{there} such device{'' if there == 1 else 's'}"
        raise ConfigError(f"device '{name}': this machine has {found}. Use auto or cpu.")
    return device


def batches_ahead(device: torch.device) -> int:
    """Batches that are worth reading while the network works: none where it works on the same processors."""
    return 0 if device.type == "cpu" else 2


def inference_precision(device: torch.device) -> AbstractContextManager[None]:
    """The precision that vectors are computed in, whatever autocast surrounds it.

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
    """What a network says of batches of images, float32, on the CPU; each with what came with its batch.

    An accelerator gets the next batch before the results of the last one are fetched.

    Args:
        network: From images on the device to vectors.
        batches: What belongs to a batch, and its images, on the CPU or the device. (B, C, S, S)
        device: Where the network is.
        precision: Makes the context that it computes in.
    """
    depth = 0 if device.type == "cpu" else 1
    launched = deque[tuple[Payload, Tensor]]()
    for payload, images in batches:
        with torch.inference_mode(), precision(device):
            launched.append((payload, network(to_device(images, device))))
        if len(launched) > depth:
            yield _fetched(*launched.popleft())
    while launched:
        yield _fetched(*launched.popleft())


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device; the copy to CUDA runs beside what follows."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def _fetched(payload: Payload, vectors: Tensor) -> tuple[Payload, Tensor]:
    return payload, vectors.float().cpu()


def _has_mps() -> bool:
    return torch.backends.mps.is_available()
