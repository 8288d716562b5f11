"""Choose the device of a network, and run it over batches."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from threading import Barrier, Lock
from typing import TypeVar

import torch
from torch import Tensor

from marcir.errors import ConfigError

Payload = TypeVar("Payload")
PrecisionContext = Callable[[torch.device], AbstractContextManager[None]]
_CHOICES = "Choose auto, cpu, cuda, cuda:1 (the second one) or mps."
# So many batches, at most, are read before the first one is computed.
_MOST_WORKERS = 8
_POOL_START = Lock()
# Of one slice of a batch: about 16 images of 160 x 160 pixels.
SLICE_PIXELS = 400_000


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
        raise ConfigError(f"device '{name}': unknown. {_CHOICES}") from None
    available = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(_has_mps())}.get(device.type)
    if available is None:
        raise ConfigError(f"device '{name}': unknown. {_CHOICES}")
    if (device.index or 0) >= available:
        count = f"{available} such device{'' if available == 1 else 's'}"
        raise ConfigError(f"device '{name}': this machine has {count}. Use auto or cpu.")
    return device


def inference_precision(device: torch.device) -> AbstractContextManager[None]:
    """The autocast context of inference, which overrides an outer one.

    Half precision on accelerators. Float32 on a CPU: vectors of two machines differ by rounding alone.
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
    workers = min(_processors(), _MOST_WORKERS) if device.type == "cpu" else 1
    first = deque(islice(remaining, workers))
    if len(first) < min(2, workers):  # one query must not wait for a single processor
        yield from ((payload, _fetch(compute(payload, images))) for payload, images in first)
        return
    workers = min(workers, len(first))
    with _worker_pool(device, workers) as pool:
        launched = deque[tuple[Payload, Future[Tensor]]]()
        for payload, images in chain((first.popleft() for _ in range(len(first))), remaining):
            launched.append((payload, pool.submit(compute, payload, images)))
            if len(launched) > workers:
                payload, vectors = launched.popleft()
                yield payload, _fetch(vectors.result())
        while launched:
            payload, vectors = launched.popleft()
            yield payload, _fetch(vectors.result())


def _processors() -> int:
    # A thread takes the default at its first call of torch and keeps it: not while a pool changes it.
    with _POOL_START:
        return torch.get_num_threads()


@contextmanager
def _worker_pool(device: torch.device, workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that run a network. Those of a CPU share its processors."""
    pool = _cpu_pool(workers) if device.type == "cpu" else ThreadPoolExecutor(workers, "embed")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _cpu_pool(workers: int) -> ThreadPoolExecutor:
    # Setting the number of threads of one thread also sets the default of all that start later. So the
    # threads start at once, one pool at a time, and then the default is restored.
    with _POOL_START:
        processors = torch.get_num_threads()
        shares = [processors // workers + (k < processors % workers) for k in range(workers)]
        ready = Barrier(workers + 1)

        def start() -> None:
            torch.get_num_threads()  # takes the default now, not at the first operation
            torch.set_num_threads(shares.pop())
            ready.wait()

        pool = ThreadPoolExecutor(workers, "embed", start)
        for _ in range(workers):
            pool.submit(int)  # starts a thread: those before it are not idle yet
        ready.wait()
        torch.set_num_threads(processors)
    return pool


def in_slices(network: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """Run a network over a batch; on a CPU over a few images at a time.

    The activations of a whole batch would not fit the processor's cache, and their memory would come from
    the operating system anew for every layer: a third of the time.

    >>> in_slices(lambda images: images.flatten(1).sum(1), torch.ones(3, 1, 2, 2))
    tensor([4., 4., 4.])
    """
    if images.device.type != "cpu":
        return network(images)
    rows = max(1, SLICE_PIXELS // (images.shape[-2] * images.shape[-1]))
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
