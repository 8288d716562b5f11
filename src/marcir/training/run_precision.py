"""The precision of a run: from its settings, from the resumed run, or from a trial on this machine."""

from dataclasses import replace

import torch

from marcir.config import Config
from marcir.errors import ConfigError
from marcir.model.precision import Precision, Trial, UnusablePrecisionError, choose_precision


def decide_precision(config: Config, saved: Config | None = None) -> tuple[Config, Precision]:
    """Replace `auto` by a precision, and check that the precision can be used.

    Args:
        config: Settings of the run, with its image size.
        saved: Settings saved by the run that is resumed; None for a new run. A resumed run keeps their
            precision, so that its results do not depend on the machine.

    Raises:
        ConfigError: If bfloat16 is requested, by the settings or the saved ones, and unusable here.
    """
    size = config.data.size
    assert size is not None  # noqa: S101  # `resolve_defaults` has set it
    encoder, requested = config.encoder, config.train.precision
    trial = Trial(encoder.backbone, size, encoder.dim, encoder.frozen, torch.get_num_threads())
    if saved is not None and requested == "auto":
        requested = saved.train.precision
    try:
        precision = choose_precision(requested, trial, config.train.device)
    except UnusablePrecisionError as error:
        if saved is None:
            raise
        here = f" To resume here, {error.setting}." if error.setting else ""
        raise ConfigError(
            f"{config.folder} was started in bfloat16, and {error.what}. Resume it where bfloat16 works."
            f"{here} To start again in float32: --train.precision float32 and another --run."
        ) from error
    if saved is not None:
        precision = replace(precision, why="as in the resumed run")
    return replace(config, train=replace(config.train, precision=precision.name)), precision
