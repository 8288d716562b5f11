"""Names of losses, datasets, metrics and stores, resolved on use, so that `--help` does not import torch."""

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

from marcir.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    import torch

    from marcir.data.readers.base import DatasetReader
    from marcir.labels import LabelStatistics
    from marcir.losses import MultiLabelLoss

LOSSES = {
    "supcon-all": "marcir.losses.supcon:SupConAllLoss",
    "supcon-any": "marcir.losses.supcon:SupConAnyLoss",
    "lbase": "marcir.losses.lbase:LBaseLoss",
    "lproto": "marcir.losses.lproto:LProtoLoss",
    "lmsc": "marcir.losses.lmsc:LMscLoss",
    "oml": "marcir.losses.oml:OMLLoss",
    "mulsupcon": "marcir.losses.mulsupcon:MulSupConLoss",
    "wg-mulsupcon": "marcir.losses.mulsupcon:WgMulSupConLoss",
    "sim-dis": "marcir.losses.sim_dis:SimDisLoss",
    "l-wo-reg": "marcir.losses.lreg:LWithoutRegLoss",
    "lreg": "marcir.losses.lreg:LRegLoss",
    "marc": "marcir.losses.marc:MARCLoss",
    "wg-marc": "marcir.losses.marc:WgMARCLoss",
    "marc-calibrated": "marcir.losses.calibrated:CalibratedMARCLoss",
    "marc-proto": "marcir.losses.marc_proto:PrototypeMARCLoss",
}

DATASETS = {
    "dlrsd": "marcir.data.readers.dlrsd:DLRSD",
    "ml-aid": "marcir.data.readers.ml_aid:MLAID",
    "whdld": "marcir.data.readers.whdld:WHDLD",
    "ucm": "marcir.data.readers.ucm:UCM",
    "scenes": "marcir.scenes.reader:Scenes",
    "windows": "marcir.geo.window_table:Windows",
    "manifest": "marcir.data.readers.manifest:Manifest",
    "store": "marcir.annotations.reader:StoredArchive",
}

STORES = {
    "lancedb": "marcir.search.lance:LanceStore",
    "memory": "marcir.search.memory:MemoryStore",
}

# Arguments of a loss that depend on the archive and the network; the others are options.
_CONTEXT = ("statistics", "embedding_dim", "num_labels", "generator")


def resolve(kind: str, name: str, entries: dict[str, str]) -> Any:
    """Import the class with this name; a ConfigError for an unknown one, with the nearest known name."""
    if not isinstance(name, str) or name not in entries:
        raise ConfigError(f"unknown {kind} '{name}'. {did_you_mean(str(name), entries)}")
    module, attribute = entries[name].split(":")
    return getattr(import_module(module), attribute)


def create_reader(name: str) -> "DatasetReader":
    """Create the reader of a dataset by name.

    Raises:
        ConfigError: For an unknown name, with the nearest known one.

    >>> create_reader("ucm").IMAGES
    2100
    """
    reader: DatasetReader = resolve("dataset", name, DATASETS)()
    return reader


def list_losses() -> list[str]:
    """The names of all losses, for `create_loss`.

    >>> list_losses()[-2:]
    ['marc-calibrated', 'marc-proto']
    """
    return list(LOSSES)


def loss_class(name: str) -> "type[MultiLabelLoss]":
    """The class of a loss by name.

    >>> loss_class("oml").takes_unknown
    False
    """
    found: type[MultiLabelLoss] = resolve("loss", name, LOSSES)
    return found


def loss_options(name: str) -> dict[str, Any]:
    """The options of a loss and their defaults.

    >>> loss_options("supcon-any")
    {'tau': 0.3, 'chunk_size': None}
    """
    parameters = inspect.signature(loss_class(name)).parameters.values()
    return {p.name: p.default for p in parameters if p.name not in _CONTEXT}


def create_loss(
    name: str,
    *,
    statistics: "LabelStatistics | None" = None,
    embedding_dim: int | None = None,
    num_labels: int | None = None,
    generator: "torch.Generator | None" = None,
    **options: Any,
) -> "MultiLabelLoss":
    """Create a loss by name; arguments that it does not need are ignored.

    Args:
        name: One of `catalog.LOSSES`, such as `marc` or `marc-calibrated`.
        statistics: Label statistics of the training split, for the MARC family.
        embedding_dim: Length of an embedding, for losses with prototypes.
        num_labels: Number of labels, for losses with prototypes; taken from `statistics` by default.
        generator: Generator of the initial prototypes.
        options: Options of the loss, see `loss_options(name)`.

    Raises:
        ConfigError: For an unknown name or option, with the nearest known one, or a missing argument.

    >>> create_loss("mulsupcon", tau=0.1).tau
    0.1
    """
    loss = resolve("loss", name, LOSSES)
    known = loss_options(name)
    for option in options:
        if option not in known:
            raise ConfigError(f"loss '{name}' has no option '{option}'. {did_you_mean(option, known)}")
    context = {
        "statistics": statistics,
        "embedding_dim": embedding_dim,
        "num_labels": _num_labels(statistics, num_labels),
        "generator": generator,
    }
    for argument in inspect.signature(loss).parameters.values():
        if argument.name not in context:
            continue
        if argument.default is argument.empty and context[argument.name] is None:
            raise ConfigError(f"loss '{name}' needs {_NEEDED[argument.name]}.")
        options[argument.name] = context[argument.name]
    created: MultiLabelLoss = loss(**options)
    return created


_NEEDED = {
    "statistics": "`statistics`: LabelStatistics.from_labels(training_labels)",
    "embedding_dim": "`embedding_dim`, the length of an embedding, for its prototypes",
    "num_labels": "`num_labels` (or `statistics`), the number of its prototypes",
}


def _num_labels(statistics: "LabelStatistics | None", num_labels: int | None) -> int | None:
    if statistics is None:
        return num_labels
    if not hasattr(statistics, "num_labels"):
        raise ConfigError(
            f"statistics: expected LabelStatistics, found {type(statistics).__name__}. "
            "Make them with LabelStatistics.from_labels(training_labels)."
        )
    if num_labels not in (None, statistics.num_labels):
        raise ConfigError(
            f"num_labels = {num_labels}, but the statistics have {statistics.num_labels} labels. "
            "Omit num_labels."
        )
    return statistics.num_labels
