"""Checks of arguments: each returns the value, or raises a ConfigError of one line."""

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any, TypeVar

from marcir.errors import ConfigError, did_you_mean

Choice = TypeVar("Choice", bound=str)

# Initial weights of a backbone that are not a file. `none` and `random` mean the same, but a frozen backbone
# accepts random weights only as `random`.
RANDOM_WEIGHTS = ("none", "random")
NAMED_WEIGHTS = ("imagenet", "hub", *RANDOM_WEIGHTS)


def check_positive(name: str, value: float) -> float:
    """The value, if it is a finite number above zero.

    >>> check_positive("tau", 0.3)
    0.3
    """
    if not _number(name, value) > 0:
        raise ConfigError(f"{name} = {value}: must be above 0.")
    return float(value)


def check_not_negative(name: str, value: float) -> float:
    """The value, if it is a finite number of at least zero."""
    if _number(name, value) < 0:
        raise ConfigError(f"{name} = {value}: must be 0 or more.")
    return float(value)


def check_finite(name: str, value: float) -> float:
    """The value, if it is a finite number."""
    return float(_number(name, value))


def check_within(name: str, value: float, least: float, most: float) -> float:
    """The value, if it is a number from `least` to `most`."""
    if not least <= _number(name, value) <= most:
        raise ConfigError(f"{name} = {value}: must lie between {least:g} and {most:g}.")
    return float(value)


def check_fraction(name: str, value: float) -> float:
    """The value, if it lies in 0..1."""
    return check_within(name, value, 0, 1)


def check_int(name: str, value: int, least: int, most: int | None = None) -> int:
    """The value, if it is a whole number of at least `least`, and at most `most`."""
    number: Any = value  # may be a numpy integer
    is_whole = isinstance(number, Integral) and not isinstance(number, bool)
    if not is_whole or number < least or (most is not None and number > most):
        wanted = f"of {least} or more" if most is None else f"from {least} to {most}"
        raise ConfigError(f"{name} = {value!r}: must be a whole number {wanted}.")
    return int(number)


def check_seed(value: int) -> int:
    """The value, if it is a valid seed: 0 to 2**63 - 1.

    >>> check_seed(0)
    0
    """
    return check_int("seed", value, least=0, most=2**63 - 1)


def check_bool(name: str, value: bool) -> bool:
    """The value, if it is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} = {value!r}: must be True or False.")
    return value


def check_choice(name: str, value: Choice, known: Collection[Choice]) -> Choice:
    """The value, if it is one of the known ones."""
    if value not in known:
        raise ConfigError(f"{name} = {value!r}: unknown. {did_you_mean(str(value), known)}")
    return value


def _number(name: str, value: float) -> float:
    number: Any = value  # may be a numpy number
    try:
        if not isinstance(number, bool) and isinstance(number, Real) and math.isfinite(number):
            return float(number)
    except OverflowError:
        pass
    raise ConfigError(f"{name} = {value!r}: must be a finite number.")
