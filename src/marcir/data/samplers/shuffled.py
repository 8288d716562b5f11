"""Plain shuffling."""

from collections.abc import Iterator

import numpy as np

from marcir.checks import check_bool
from marcir.data.samplers.distributed import DistributedBatchSampler
from marcir.errors import ConfigError


class ShuffledBatches(DistributedBatchSampler):
    """Batches of a uniform shuffle.

    A batch sampler: `DataLoader(dataset, batch_sampler=ShuffledBatches(...))`. Call `set_epoch` before each
    epoch; the batches depend only on `(seed, epoch)`.

    Args:
        num_images: Number of images, N.
        batch_size: Images per global batch, over all processes; a multiple of `processes`.
        seed: Seed of the random numbers, together with the epoch.
        rank: Rank of this process, which gets the rank-th of equal shares of a global batch.
        processes: Number of processes.
        drop_last: Drop the images that do not fill a batch; otherwise they are a last, smaller batch.

    >>> batches = ShuffledBatches(10, 4, seed=0)
    >>> [len(batch) for batch in batches]
    [4, 4]
    >>> batches = ShuffledBatches(10, 4, seed=0, drop_last=False)
    >>> sorted(index for batch in batches for index in batch)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(
        self,
        num_images: int,
        batch_size: int,
        *,
        seed: int,
        rank: int = 0,
        processes: int = 1,
        drop_last: bool = True,
    ) -> None:
        super().__init__(num_images, batch_size, seed=seed, rank=rank, processes=processes)
        self.drop_last = check_bool("drop_last", drop_last)
        last = num_images % batch_size
        if not drop_last and 0 < last < processes:
            raise ConfigError(
                f"drop_last = False: the last batch has {last} images for {processes} processes. "
                "Use drop_last = True, or another batch_size."
            )

    def __len__(self) -> int:
        return len(range(0, self._used, self.batch_size))

    @property
    def _used(self) -> int:
        """Number of images in an epoch."""
        return self.num_images - self.num_images % self.batch_size if self.drop_last else self.num_images

    def global_batches(self, rng: np.random.Generator) -> Iterator[list[int]]:
        """The global batches of one epoch."""
        images: list[int] = rng.permutation(self.num_images)[: self._used].tolist()
        for start in range(0, len(images), self.batch_size):
            yield images[start : start + self.batch_size]
