"""All exceptions, in one tree; each is also the matching builtin exception.

    MarcirError
    +-- ConfigError      (ValueError)    an option, a name, a setting
    +-- BatchError       (ValueError)    tensors passed to a loss or a metric
    +-- LabelError       (ValueError)    label names, label tables, label statistics
    +-- DataError        (ValueError)    an archive's folders, tables and splits
    |   +-- BrokenImageError             a file that cannot be read as an image
    +-- StoreError       (ValueError)    a store of embeddings, or a query to it
    |   +-- MissingImageError            an id that is not in the store
    |   +-- UnusableStoreError           a store that cannot be read or written
    +-- AnnotationError  (ValueError)    collections and labels that people gave
    |   +-- MissingCollectionError       a collection that there is not
    |   +-- UnusableAnnotationsError     a file of annotations that cannot be read or written
    +-- TrainingError    (RuntimeError)  a training run that cannot continue
    +-- ClusterError     (RuntimeError)  a cluster that cannot be reached or used
    +-- DependencyError  (ImportError)   an optional package that is not installed

A message says where, what was found, and what to do. The command line prints it as one line and exits
with 2; a traceback is a bug.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class MarcirError(Exception):
    """Base class of all exceptions of marcir.

    >>> try:
    ...     raise ConfigError("train.lr = -1: must be above 0.")
    ... except MarcirError as error:
    ...     print(error)
    train.lr = -1: must be above 0.
    """


class ConfigError(MarcirError, ValueError):
    """An invalid option, name or setting."""


class BatchError(MarcirError, ValueError):
    """Embeddings or labels that do not match each other or the loss."""


class LabelError(MarcirError, ValueError):
    """Invalid label names, label tables or label statistics."""


class DataError(MarcirError, ValueError):
    """Invalid folders, tables or splits of an archive."""


class BrokenImageError(DataError):
    """A file that cannot be read as an image."""


class StoreError(MarcirError, ValueError):
    """A store that cannot be opened, or an invalid query to it."""


class MissingImageError(StoreError):
    """An image that is not in the store."""


class UnusableStoreError(StoreError):
    """A store that cannot be read or written."""


class AnnotationError(MarcirError, ValueError):
    """Invalid collections or labels that people give to images."""


class MissingCollectionError(AnnotationError):
    """A collection that there is not."""


class UnusableAnnotationsError(AnnotationError):
    """A file of annotations that cannot be read or written."""


class TrainingError(MarcirError, RuntimeError):
    """A training run that cannot continue: a loss that is not finite, a checkpoint that cannot be written."""


class ClusterError(MarcirError, RuntimeError):
    """A cluster that cannot be reached or used."""


class DependencyError(MarcirError, ImportError):
    """An optional package that is not installed."""


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Wrap imports of optional packages: a DependencyError has the command that installs a missing one."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise DependencyError(
            f"{error.name} is not installed. Install it with: pip install 'marcir[{extra}]'"
        ) from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the nearest known name, or all of them.

    >>> did_you_mean("bulding", ["building", "road"])
    "Did you mean 'building'?"
    >>> did_you_mean("xyz", ["road", "building"])
    'Known: building, road.'
    """
    names = sorted(known)
    spelled = {each.lower(): each for each in names}
    near = get_close_matches(name.lower(), spelled, n=1, cutoff=0.6)
    if near:
        return f"Did you mean '{spelled[near[0]]}'?"
    return f"Known: {', '.join(names)}." if names else "There are none."
