"""Batches with at least two images of every label."""

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from marcir.checks import check_int
from marcir.data.samplers.distributed import DistributedBatchSampler
from marcir.labels.sets import multi_hot


class LabelAwareBatches(DistributedBatchSampler):
    """Batches that hold at least two images of every label, as far as there are enough.

    Reading R13. For each batch, labels in order of rising count: while the batch holds fewer than `minimum`
    images of the label, one that is unseen this epoch is drawn from the label's shuffled list. Then the batch
    is filled uniformly from the unseen images, but never with one that would leave a label fewer than
    `minimum` unseen images for each batch still to come, while there are others.

    A label draws in the same manner: an image that would cost another label, of which the batch already
    holds enough, its images for the batches to come is drawn only where its list has no other. Otherwise
    drawing for frequent labels uses up the rare ones that come with them.

    Each image is used at most once per epoch; an incomplete last batch is dropped. Images without labels
    are used in filling. Of a label with fewer than `minimum` images per batch, the first batches get
    `minimum` until there are none left. If `batch_size` is below `minimum` times the number of labels, a
    batch may be full before the most frequent labels are drawn.

    A batch sampler: `DataLoader(dataset, batch_sampler=LabelAwareBatches(...))`. Call `set_epoch` before each
    epoch; the batches depend only on `(seed, epoch)`.

    Args:
        labels: Labels of the training images; unknown ones (-1) count as absent. (N, L)
        batch_size: Images per global batch, over all processes; a multiple of `processes`.
        seed: Seed of the random numbers, together with the epoch.
        minimum: Images of each label in a batch, m.
        rank: Rank of this process, which gets the rank-th of equal shares of a global batch.
        processes: Number of processes.

    >>> import torch
    >>> labels = torch.tensor([[1, 0]] * 4 + [[0, 1]] * 60)
    >>> batches = LabelAwareBatches(labels, 32, seed=0)
    >>> [labels[batch].sum(0).tolist() for batch in batches]
    [[2, 30], [2, 30]]
    """

    def __init__(
        self,
        labels: Tensor,
        batch_size: int,
        *,
        seed: int,
        minimum: int = 2,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        y = multi_hot(labels, "labels").cpu().numpy()
        super().__init__(len(y), batch_size, seed=seed, rank=rank, processes=processes)
        self.minimum = check_int("minimum", minimum, least=1)
        self._labels_of: list[list[int]] = [[] for _ in range(y.shape[0])]
        self._images_of: list[list[int]] = [[] for _ in range(y.shape[1])]
        for image, label in zip(*(part.tolist() for part in y.nonzero()), strict=True):
            self._labels_of[image].append(label)
            self._images_of[label].append(image)

    def global_batches(self, rng: np.random.Generator) -> Iterator[list[int]]:
        """The global batches of one epoch."""
        epoch = _Epoch(self._labels_of, self._images_of, self.minimum, rng)
        for to_come in reversed(range(len(self))):
            yield epoch.next_batch(self.batch_size, to_come)


class _ShuffledList:
    """Images to draw from, shuffled while they are drawn (Fisher-Yates); seen images are removed lazily.

    Attributes:
        images: All images that may be unseen.
        candidates: The same without deferred images.
        deferred: Images with a scarce label, by that label: not candidates while it is scarce.
    """

    def __init__(self, images: list[int]) -> None:
        self.images = images.copy()
        self.candidates = images.copy()
        self.deferred: dict[int, list[int]] = {}


class _Epoch:
    """The state of an epoch: unseen images, and the batch being drawn."""

    def __init__(
        self,
        labels_of: list[list[int]],
        images_of: list[list[int]],
        minimum: int,
        rng: np.random.Generator,
    ) -> None:
        self.labels_of = labels_of
        self.minimum = minimum
        self.rng = rng
        self.seen = [False] * len(labels_of)
        self.unseen_of = [len(images) for images in images_of]
        self.rising = sorted(range(len(images_of)), key=self.unseen_of.__getitem__)
        self.list_of = [_ShuffledList(images) for images in images_of]
        self.list_of_all = _ShuffledList(list(range(len(labels_of))))

    def next_batch(self, size: int, to_come: int) -> list[int]:
        """Draw a batch, after which there are `to_come` others."""
        self.batch: list[int] = []
        self.held = [0] * len(self.list_of)
        self.reserve = self.minimum * to_come
        # Labels that the batch has enough of, while the batches to come need all of their unseen images.
        self.scarce: set[int] = set()
        for label in self.rising:
            while len(self.batch) < size and self.held[label] < self.minimum and self.unseen_of[label]:
                self._take(self._draw(self.list_of[label]))
        while len(self.batch) < size:
            self._take(self._draw(self.list_of_all))
        return self.batch

    def _take(self, image: int) -> None:
        self.batch.append(image)
        self.seen[image] = True
        for label in self.labels_of[image]:
            self.held[label] += 1
            self.unseen_of[label] -= 1
            if self.held[label] >= self.minimum and self.unseen_of[label] <= self.reserve:
                self.scarce.add(label)

    def _draw(self, source: _ShuffledList) -> int:
        """A random unseen image without a scarce label; if there is none, any random unseen image.

        In filling there always is one if a batch has `minimum` images or more for each label: more images
        are unseen than the batches to come hold, and scarce labels have at most `minimum` for each of these.
        """
        for label in [label for label in source.deferred if label not in self.scarce]:
            source.candidates.extend(source.deferred.pop(label))
        for image in self._unseen(source.candidates):
            if self.scarce.isdisjoint(self.labels_of[image]):
                return image
            scarce = next(label for label in self.labels_of[image] if label in self.scarce)
            source.deferred.setdefault(scarce, []).append(image)
        return next(self._unseen(source.images))

    def _unseen(self, images: list[int]) -> Iterator[int]:
        """Remove images from a list in random order; yield the unseen ones."""
        while images:
            k = int(self.rng.random() * len(images))
            images[k], images[-1] = images[-1], images[k]
            image = images.pop()
            if not self.seen[image]:
                yield image
