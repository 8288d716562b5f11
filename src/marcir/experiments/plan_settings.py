"""Settings of a plan, checked before the first run: a slip must not wait for its turn."""

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch

from marcir.catalog import create_loss
from marcir.checks import check_bool, check_choice, check_finite
from marcir.config import DataConfig, EncoderConfig, TrainConfig
from marcir.errors import ConfigError
from marcir.labels.statistics import LabelStatistics

_KINDS: dict[str, Any] = {"data": DataConfig, "encoder": EncoderConfig, "train": TrainConfig}


def checked_section(section: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a section, each of its own type; unknown names are left for others to refuse.

    >>> checked_section("train", {"lr": "1e-3", "epochs": 5})
    {'lr': 0.001, 'epochs': 5}
    """
    hints = get_type_hints(_KINDS[section])
    return {
        name: _fitting(f"{section}.{name}", value, hints[name]) if name in hints else value
        for name, value in given.items()
    }


def checked_options(given: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a loss, each of the type of its default; None as a default says nothing."""
    return {
        name: value if known[name] is None else _fitting(name, value, type(known[name]))
        for name, value in given.items()
    }


def check_values(loss: str, options: Mapping[str, Any]) -> None:
    """Refuse options whose values the loss refuses.

    Raises:
        ConfigError: What the loss says.
    """
    labels = LabelStatistics.from_labels(torch.eye(2))  # any will do
    try:
        create_loss(loss, statistics=labels, embedding_dim=2, **options)
    except ConfigError as error:
        raise ConfigError(f"losses: {loss}: {error}") from error


def _fitting(name: str, value: Any, hint: Any) -> Any:
    """The value as its type wants it. Whole numbers are checked where their bounds are known."""
    kinds = get_args(hint) if get_origin(hint) not in (None, Literal) else (hint,)
    if value is None and type(None) in kinds:
        return None
    kind = kinds[0]
    if get_origin(kind) is Literal:
        return check_choice(name, value, get_args(kind))
    if kind is bool:
        return check_bool(name, value)
    if kind is float:
        return check_finite(name, _number(value))
    if kind is str and not isinstance(value, str):
        raise ConfigError(f"{name} = {value!r}: must be a text. Put it into quotes.")
    return value


def _number(value: Any) -> Any:
    """What YAML takes for a text though it is a number: 1e-3, which it would want as 1.0e-3."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
