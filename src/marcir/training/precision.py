"""The precision of a run: as set, as the run began, or what the machine can do."""

from dataclasses import replace

import torch

from marcir.config import Config
from marcir.errors import ConfigError
from marcir.model.precision import Precision, Trial, UnusablePrecisionError, choose_precision


def decide_precision(config: Config, begun: Config | None = None) -> tuple[Config, Precision]:
    """Replace `auto` by a precision, and refuse one that cannot be used.

    Args:
        config: Settings of the run, with its image size.
        begun: Settings that the run began with; None where it has not begun. It keeps their precision, so
            that its bits do not depend on the machine that it is resumed on.

    Raises:
        ConfigError: Where bfloat16 is asked for, or the run began with it, and it cannot be used here.
    """
    size = config.data.size
    assert size is not None  # noqa: S101  # `effective` has set it
    encoder, asked = config.encoder, config.train.precision
    trial = Trial(encoder.backbone, size, encoder.dim, encoder.frozen, torch.get_num_threads())
    if begun is not None and asked == "auto":
        asked = begun.train.precision
    try:
        precision = choose_precision(asked, trial, config.train.device)
    except UnusablePrecisionError as error:
        if begun is None:
            raise
        here = f" To go on here, {error.setting}." if error.setting else ""
        raise ConfigError(
            f"{config.folder} was begun in bfloat16, and {error.what}. It goes on where bfloat16 works."
            f"{here} To begin again in float32: --train.precision float32 and another --run."
        ) from error
    if begun is not None:
        precision = replace(precision, why="as the run began")
    return replace(config, train=replace(config.train, precision=precision.name)), precision
