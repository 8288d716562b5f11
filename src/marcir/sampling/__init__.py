"""Which images make up each batch: shuffled plainly, or so that every label has partners."""

from marcir.sampling.label_aware import LabelAwareBatches
from marcir.sampling.shuffled import ShuffledBatches

__all__ = ["LabelAwareBatches", "ShuffledBatches"]
