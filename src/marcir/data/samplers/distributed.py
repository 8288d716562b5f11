"""Batches that are drawn as one and shared by several processes."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from torch.utils.data import Sampler

from marcir.checks import check_int, check_seed
from marcir.errors import ConfigError


class DistributedBatchSampler(Sampler[list[int]], ABC):
    """Batches of image indices; every process draws all of them and keeps its share of each.

    The random numbers depend on `(seed, epoch)` alone. So the global batches are the same for any number of
    processes, an epoch can be drawn without those before it, and no global random state is read or changed.

    Args:
        num_images: Images to draw from, N.
        batch_size: Images of a global batch, over all processes.
        seed: Of the random numbers, together with the epoch.
        rank: Which process this is. It gets the rank-th of equal shares of every global batch.
        processes: How many there are.
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
        """Choose the epoch that the next iteration draws; it is 0 at first, and does not move by itself."""
        self.epoch = check_int("epoch", epoch, least=0)

    def __len__(self) -> int:
        return self.num_images // self.batch_size

    def __iter__(self) -> Iterator[list[int]]:
        # Seeded here and not at the first batch, so that a later `set_epoch` is for the next iteration.
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.epoch,)))
        # Shares in a row: joined again in the order of processes, the batch is as it was drawn.
        return (batch[self._share(len(batch))] for batch in self.global_batches(rng))

    def _share(self, images: int) -> slice:
        """This process's part of so many images; the first processes get one more where needed."""
        each, more = divmod(images, self.processes)
        start = self.rank * each + min(self.rank, more)
        return slice(start, start + each + (self.rank < more))

    @abstractmethod
    def global_batches(self, rng: np.random.Generator) -> Iterator[list[int]]:
        """The global batches of one epoch."""
