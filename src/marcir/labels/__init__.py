"""Labels: their names, their frequencies in training (f, h) and their overlap (J)."""

from marcir.labels.overlap import jaccard, shared_labels
from marcir.labels.statistics import LabelStatistics
from marcir.labels.vocabulary import LabelVocabulary

__all__ = ["LabelStatistics", "LabelVocabulary", "jaccard", "shared_labels"]
