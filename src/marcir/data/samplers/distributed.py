"""The base class of batch samplers for several processes."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from torch.utils.data import Sampler

from marcir.checks import check_int, check_seed
from marcir.errors import ConfigError


class DistributedBatchSampler(Sampler[list[int]], ABC):
    """Batches of image indices; every process draws all of them and keeps its share of each.

    The random numbers depend only on `(seed, epoch)`. So the global batches are the same for any number of
    processes, any epoch can be drawn on its own, and no global random state is read or changed.

    Args:
        num_images: Number of images, N.
        batch_size: Images per global batch, over all processes.
        seed: Seed of the random numbers, together with the epoch.
        rank: Rank of this process, which gets the rank-th of equal shares of every global batch.
        processes: Number of processes.
    """

    def __init__(self, num_images: int, batch_size: int, *, seed: int, rank: int, processes: int) -> None:
        super().__init__()
        self.num_images = check_int("num_images", num_images, least=0)
        self.batch_size = check_int("batch_size", batch_size, least=1)
        self.seed = check_seed(seed)
        self.processes = check_int("processes", processes, least=1)
        self.rank = check_int("rank", rank, least=0)
        self.epoch = 0
        if rank >= processes:
            raise ConfigError(f"rank = {rank}: must be below the number of processes, {processes}.")
        if batch_size > num_images:
            raise ConfigError(
                f"batch_size = {batch_size}: there are only {num_images} images. Use a smaller batch."
            )
        if batch_size % processes:
            raise ConfigError(
                f"batch_size = {batch_size}: cannot be shared equally by {processes} processes. "
                f"Use a multiple of {processes}, such as {-(-batch_size // processes) * processes}."
            )

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; it is 0 at first, and is not incremented automatically."""
        self.epoch = check_int("epoch", epoch, least=0)

    def __len__(self) -> int:
        return self.num_images // self.batch_size

    def __iter__(self) -> Iterator[list[int]]:
        # Seeded here and not at the first batch, so that a later `set_epoch` affects the next iteration.
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.epoch,)))
        # Contiguous shares: concatenated by rank, they are the global batch.
        return (batch[self._share(len(batch))] for batch in self.global_batches(rng))

    def _share(self, images: int) -> slice:
        """This process's share of a number of images; the first processes get the remainder."""
        each, remainder = divmod(images, self.processes)
        start = self.rank * each + min(self.rank, remainder)
        return slice(start, start + each + (self.rank < remainder))

    @abstractmethod
    def global_batches(self, rng: np.random.Generator) -> Iterator[list[int]]:
        """The global batches of one epoch."""
