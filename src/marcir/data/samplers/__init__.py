"""Batch samplers: plain shuffling, or at least two images of every label."""

from marcir.data.samplers.label_aware import LabelAwareBatches
from marcir.data.samplers.shuffled import ShuffledBatches

__all__ = ["LabelAwareBatches", "ShuffledBatches"]
