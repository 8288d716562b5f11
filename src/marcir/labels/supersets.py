"""Counts of training images that carry every label of a set."""

from functools import cached_property

import torch
from torch import Tensor

from marcir.labels.sets import equal_rows, exact_float, label_words

# 2^20 counts are 8 MiB; above that, sets are counted on first use.
LARGEST_TABLE = 20
# Bounds the (sets, rows) matrix of one count on demand.
_ELEMENTS = 1 << 24
# Maximum number of cached counts, some hundred bytes each.
_MOST_SEEN = 1 << 20


class SupersetCounts:
    """Counts of the training rows that contain a label set.

    Up to 20 labels: a table over all 2^L sets. More: counted on demand and kept, because the
    intersections of a batch come again in the next.

    Args:
        rows: Distinct label rows of the training split. (S, L)
        counts: How many training images have each row. (S,)
    """

    def __init__(self, rows: Tensor, counts: Tensor) -> None:
        self.rows = rows
        self.counts = counts
        self._seen: dict[bytes, int] = {}

    def of_intersections(self, y: Tensor, y_other: Tensor) -> Tensor:
        """Training images that carry every label of y_i n y_p, for all pairs. (U, V)"""
        words = label_words(y)
        words_other = words if y_other is y else label_words(y_other)
        if self.rows.shape[1] <= LARGEST_TABLE:
            both = words & words_other[:, 0]  # (U, V)
            # Twice as fast as take() on a CPU.
            return self._table.index_select(0, both.view(-1)).view_as(both).to(y.dtype)
        return self._on_demand(y, y_other, words, words_other)

    @cached_property
    def _table(self) -> Tensor:
        """Superset sums over all 2^L sets: add, label by label, the sets that have it to those without."""
        num_labels = self.rows.shape[1]
        table = torch.zeros(1 << num_labels, dtype=torch.int64, device=self.rows.device)
        table.index_add_(0, label_words(self.rows)[:, 0], self.counts)
        for k in range(num_labels):
            halves = table.view(-1, 2, 1 << k)  # without label k, with label k
            halves[:, 0] += halves[:, 1]
        # Half the size stays in the cache; float32 holds whole numbers up to 2^24.
        return table.float() if int(self.counts.sum()) < 1 << 24 else exact_float(table)

    def _on_demand(self, y: Tensor, y_other: Tensor, words: Tensor, words_other: Tensor) -> Tensor:
        if not len(y) or not len(y_other):
            return y.new_zeros(len(y), len(y_other))
        both = (words[:, None] & words_other[None]).flatten(0, 1).cpu()  # (U * V, W)
        number = equal_rows(both)
        pair_of = torch.empty(int(number.max()) + 1, dtype=torch.int64, device="cpu")
        pair_of[number] = torch.arange(len(number), device="cpu")  # any pair with that intersection
        keys = [row.tobytes() for row in both[pair_of].numpy()]
        if len(self._seen) > _MOST_SEEN:
            self._seen.clear()
        unseen = [i for i, key in enumerate(keys) if key not in self._seen]
        new = torch.tensor(unseen, dtype=torch.int64, device="cpu")
        anchor, other = pair_of[new] // len(y_other), pair_of[new] % len(y_other)
        sets = y[anchor.to(y.device)] * y_other[other.to(y.device)]
        self._seen.update(zip([keys[i] for i in unseen], self.of_sets(sets).tolist(), strict=True))
        counts = torch.tensor([self._seen[key] for key in keys], device="cpu")[number]
        return counts.view(len(y), len(y_other)).to(y)

    def of_sets(self, sets: Tensor) -> Tensor:
        """Training images that carry every label of each multi-hot set. (I, L) -> (I,)"""
        rows = self.rows.to(sets.dtype)
        found = [torch.zeros(0, dtype=torch.int64, device=sets.device)]
        for block in sets.split(max(1, _ELEMENTS // len(rows))):
            contained = (block @ rows.T) == block.sum(1)[:, None]  # (I, S)
            found.append(exact_float(contained) @ exact_float(self.counts))
        return torch.cat(found).long()
