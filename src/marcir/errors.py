"""One tree of errors; each is also the builtin that a caller would expect.

    MarcirError
    +-- ConfigError      (ValueError)    an option, a name, a setting
    +-- BatchError       (ValueError)    tensors handed to a loss or a metric
    +-- LabelError       (ValueError)    label names, label tables, label statistics
    +-- DataError        (ValueError)    an archive's folders, tables and splits
    |   +-- BrokenImageError             a file that cannot be read as an image
    +-- StoreError       (ValueError)    a store of embeddings, and what it is asked
    |   +-- MissingImageError            an id that is not in the store
    |   +-- UnusableStoreError           a store that cannot be read or written
    +-- TrainingError    (RuntimeError)  a training that cannot go on
    +-- DependencyError  (ImportError)   an optional package that is not installed

A text says where, what was found, and what to do. The command line prints it as one line and exits
with 2; a traceback means a bug.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class MarcirError(Exception):
    """Everything that marcir raises on purpose.

    >>> try:
    ...     raise ConfigError("train.lr = -1: must be above 0.")
    ... except MarcirError as error:
    ...     print(error)
    train.lr = -1: must be above 0.
    """


class ConfigError(MarcirError, ValueError):
    """An option, a name or a setting that cannot be used."""


class BatchError(MarcirError, ValueError):
    """Embeddings or labels that do not fit each other or the loss."""


class LabelError(MarcirError, ValueError):
    """Label names, label tables or label statistics that cannot be used."""


class DataError(MarcirError, ValueError):
    """Folders, tables or splits of an archive that cannot be used."""


class BrokenImageError(DataError):
    """A file that cannot be read as an image."""


class StoreError(MarcirError, ValueError):
    """A store that cannot be opened, or that is asked for what it does not have."""


class MissingImageError(StoreError):
    """An image that is not in the store."""


class UnusableStoreError(StoreError):
    """A store that cannot be read or written, whatever it is asked."""


class TrainingError(MarcirError, RuntimeError):
    """A training that cannot go on: a loss that is not finite, a checkpoint that cannot be written."""


class DependencyError(MarcirError, ImportError):
    """An optional package that is not installed."""


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around imports of optional packages: one that is missing is reported with the command that installs it.

    Raises:
        DependencyError: Where a package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise DependencyError(
            f"{error.name} is not installed. Install it with: pip install 'marcir[{extra}]'"
        ) from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error text: the nearest known name, or all of them.

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
