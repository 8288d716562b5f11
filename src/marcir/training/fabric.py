"""Devices, processes and precision of a run."""

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from marcir.config import Config
from marcir.errors import ConfigError, needs
from marcir.model.device import choose_device
from marcir.model.precision import Precision, Trial, UnusablePrecisionError, choose_precision
from marcir.training.peer_start import PEER_TIMEOUT, all_can_start

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def decide_precision(config: Config, saved: Config | None = None) -> tuple[Config, Precision]:
    """Replace `auto` by a precision, and check that the precision can be used.

    A resumed run keeps the precision of its saved settings: its results do not depend on the machine.

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


def start_fabric(config: Config) -> "Fabric":
    """Set up devices and processes: one, several on this machine, or those of torchrun.

    A second call, with another precision, uses the processes of the first one.
    """
    with all_can_start():
        fabric = _fabric(config)
    fabric.launch()
    return fabric


def _fabric(config: Config) -> "Fabric":
    """The devices and processes, before these are started or connected."""
    with needs("train"):
        from lightning_fabric import Fabric
        from lightning_fabric.strategies.ddp import DDPStrategy
    # Fabric logs the use of bfloat16; `train` prints it with the reason.
    logging.getLogger("lightning_fabric.utilities.rank_zero").setLevel(logging.WARNING)
    local = int(os.environ.get("LOCAL_WORLD_SIZE", config.train.devices))
    nodes = int(os.environ.get("WORLD_SIZE", local)) // local
    device = choose_device(config.train.device)
    available = {"cuda": torch.cuda.device_count(), "mps": 1}.get(device.type, local)
    if local > available or (local * nodes > 1 and device.index is not None):
        raise ConfigError(
            f"train.devices = {local}: '{config.train.device}' is {available if device.index is None else 1} "
            "device of this machine. Use fewer processes, or a device without a number."
        )
    return Fabric(
        accelerator=device.type,
        devices=local if device.index is None else [device.index],
        num_nodes=nodes,
        strategy=DDPStrategy(timeout=PEER_TIMEOUT) if local * nodes > 1 else "auto",
        precision="bf16-mixed" if config.train.precision == "bfloat16" else "32-true",
    )
