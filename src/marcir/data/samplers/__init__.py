"""Which images make up each batch: shuffled plainly, or so that every label has partners."""

from marcir.data.samplers.label_aware import LabelAwareBatches
from marcir.data.samplers.shuffled import ShuffledBatches

__all__ = ["LabelAwareBatches", "ShuffledBatches"]
