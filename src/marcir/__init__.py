"""marcir: search remote-sensing image archives by content, learned from multi-label data.

>>> import torch, marcir
>>> y = torch.tensor([[1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]])
>>> loss = marcir.create_loss("marc", statistics=marcir.LabelStatistics.from_labels(y))
>>> bool(loss(torch.eye(4), y) > 0)
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marcir.annotations.annotations import open_annotations as open_annotations
    from marcir.catalog import create_loss as create_loss
    from marcir.catalog import create_reader as create_reader
    from marcir.catalog import list_losses as list_losses
    from marcir.errors import MarcirError as MarcirError
    from marcir.experiments.compare import compare as compare
    from marcir.labels import LabelStatistics as LabelStatistics
    from marcir.labels import LabelVocabulary as LabelVocabulary
    from marcir.labels import jaccard as jaccard
    from marcir.losses import CrossBatchMemory as CrossBatchMemory
    from marcir.losses import DistributedLoss as DistributedLoss
    from marcir.losses import diagnose as diagnose
    from marcir.metrics.references import chance_scores as chance_scores
    from marcir.metrics.references import oracle_scores as oracle_scores
    from marcir.metrics.retrieval_scores import retrieval_scores as retrieval_scores
    from marcir.model.model import load_model as load_model
    from marcir.search.index import index as index
    from marcir.search.queries import open_store as open_store
    from marcir.search.records import Filter as Filter
    from marcir.training.evaluate import evaluate as evaluate
    from marcir.training.train import train as train

__version__ = "0.2.0"

# Resolved on first use: `marcir --help` must not wait for torch.
_PUBLIC = {
    "DistributedLoss": "marcir.losses",
    "CrossBatchMemory": "marcir.losses",
    "Filter": "marcir.search.records",
    "LabelStatistics": "marcir.labels",
    "LabelVocabulary": "marcir.labels",
    "MarcirError": "marcir.errors",
    "chance_scores": "marcir.metrics.references",
    "compare": "marcir.experiments.compare",
    "create_loss": "marcir.catalog",
    "create_reader": "marcir.catalog",
    "diagnose": "marcir.losses",
    "evaluate": "marcir.training.evaluate",
    "index": "marcir.search.index",
    "jaccard": "marcir.labels",
    "list_losses": "marcir.catalog",
    "load_model": "marcir.model.model",
    "open_annotations": "marcir.annotations.annotations",
    "open_store": "marcir.search.queries",
    "oracle_scores": "marcir.metrics.references",
    "retrieval_scores": "marcir.metrics.retrieval_scores",
    "train": "marcir.training.train",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in ("data", "labels", "losses", "metrics", "search"):
        return import_module(f"marcir.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'marcir' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
