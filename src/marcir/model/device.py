"""Choose the device of a network, and run it over batches."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from typing import TypeVar

import torch
from torch import Tensor

from marcir.errors import ConfigError, did_you_mean

Payload = TypeVar("Payload")
PrecisionContext = Callable[[torch.device], AbstractContextManager[None]]
DEVICES = ("auto", "cpu", "cuda", "mps")
# Each one holds the activations of a batch.
_MOST_WORKERS = 8
# About 16 images of 160 x 160 pixels.
_SLICE_PIXELS = 400_000


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


def inference_precision(device: torch.device) -> AbstractContextManager[None]:
    """The autocast context of inference, which overrides an outer one.

    Half precision on accelerators. Float32 on a CPU, so that a stored vector is the same on every machine.
    """
    if device.type == "cpu":
        return torch.autocast(device.type, enabled=False)
    has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
    return torch.autocast(device.type, dtype=torch.bfloat16 if has_bfloat16 else torch.float16)


def run_batches(
    network: Callable[[Payload, Tensor], Tensor],
    batches: Iterable[tuple[Payload, Tensor]],
    device: torch.device,
    precision: PrecisionContext = inference_precision,
) -> Iterator[tuple[Payload, Tensor]]:
    """Run a network over batches, in order; yield each batch's payload and its vectors, float32, on the CPU.

    On a CPU, several threads compute a batch each. That is faster than all processors on one batch, because
    no thread waits for another, and it leaves no processor idle while files are read. An accelerator gets
    its batches from one thread, which pins and copies them while results are fetched.

    Args:
        network: Maps a batch's payload and its images to vectors, on the device.
        batches: Pairs of any payload and images. (B, C, S, S)
        device: Device of the network.
        precision: Makes the autocast context for the device.
    """

    def compute(payload: Payload, images: Tensor) -> Tensor:
        with torch.inference_mode(), precision(device):
            return network(payload, to_device(images, device))

    remaining = iter(batches)
    first = list(islice(remaining, 2))
    if len(first) < 2:  # one query must not wait for a single processor
        yield from ((payload, _fetch(compute(payload, images))) for payload, images in first)
        return
    with _workers(device) as (pool, workers):
        launched = deque[tuple[Payload, Future[Tensor]]]()
        for payload, images in chain(first, remaining):
            launched.append((payload, pool.submit(compute, payload, images)))
            if len(launched) > workers:
                payload, vectors = launched.popleft()
                yield payload, _fetch(vectors.result())
        for payload, vectors in launched:
            yield payload, _fetch(vectors.result())


@contextmanager
def _workers(device: torch.device) -> Iterator[tuple[ThreadPoolExecutor, int]]:
    """Threads that run a network: one for an accelerator, several that share the processors of a CPU."""
    processors = torch.get_num_threads()
    workers = min(processors, _MOST_WORKERS) if device.type == "cpu" else 1
    threads = processors // workers if device.type == "cpu" else processors
    pool = ThreadPoolExecutor(workers, "embed", torch.set_num_threads, (threads,))
    try:
        yield pool, workers
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(processors)  # the default of threads that start later


def in_slices(network: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """Run a network over a batch; on a CPU over a few images at a time.

    The activations of a whole batch would not fit the processor's cache, and their memory would come from
    the operating system anew for every layer: a third of the time.

    >>> in_slices(lambda images: images.flatten(1).sum(1), torch.ones(3, 1, 2, 2))
    tensor([4., 4., 4.])
    """
    if images.device.type != "cpu":
        return network(images)
    rows = max(1, _SLICE_PIXELS // (images.shape[-2] * images.shape[-1]))
    return torch.cat([network(part) for part in images.split(rows)])


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device, asynchronously to CUDA."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def _fetch(vectors: Tensor) -> Tensor:
    return vectors.float().cpu()


def _has_mps() -> bool:
    return torch.backends.mps.is_available()
