"""What the first process of a run decides for all of them: settings, precision, split, images."""

from dataclasses import asdict, replace
from typing import Any

from marcir.config import Config, TrainConfig
from marcir.errors import ConfigError, DataError, LabelError
from marcir.model.precision import Precision
from marcir.schema import parse, record, to_json, validate
from marcir.training.fabric import decide_precision
from marcir.training.peers import Peers
from marcir.training.run_folder import PATH_SETTINGS, RunFolder, first_difference
from marcir.training.task import Task, open_task


@record()
class _Start:
    """How the first process starts: its settings by section, and its newest checkpoint, or an empty name."""

    settings: dict[str, dict[str, Any]]
    newest: str


def check_agreed(config: Config, folder: RunFolder, peers: Peers) -> None:
    """Check the folder of a run on the first process, and that the others start the same run.

    Raises:
        ConfigError: If the folder holds another run, if the settings of the processes differ, or if the
            first process would start again what another one has a checkpoint of.
    """
    if peers.is_first:
        folder.check(config)
    if peers.alone:
        return
    own = _Start(config.to_dict(), folder.newest_checkpoint)
    start = parse(_Start, peers.from_first(to_json(own).encode))
    if difference := first_difference(Config.from_dict(start.settings), config, PATH_SETTINGS):
        name, theirs, ours = difference
        raise ConfigError(
            f"{name} = {ours}, but the first process has {theirs}. Start all with the same settings."
        )
    if own.newest > start.newest:
        theirs = f"only {start.newest}" if start.newest else "none"
        raise ConfigError(
            f"{folder.path} has the checkpoint {own.newest} here, but {theirs} on the machine of the first "
            "process. Copy the folder there to resume, or remove it here."
        )


def decide_agreed(config: Config, folder: RunFolder, peers: Peers) -> tuple[Config, Precision]:
    """Decide the precision on the first process; a ConfigError if another one cannot compute in it."""
    if peers.is_first:
        config, precision = decide_precision(config, folder.settings() if folder.started else None)
    name = peers.from_first(config.train.precision.encode).decode()
    if peers.is_first:
        return config, precision
    train = validate(TrainConfig, {**asdict(config.train), "precision": name})
    return decide_precision(replace(config, train=train))


def open_agreed(config: Config, folder: RunFolder, peers: Peers) -> Task:
    """Open the archive of a run; a ConfigError if another process, or the run before, has another one."""
    task = _open_first(config, folder, peers) if peers.is_first else open_task(config, peers=peers)
    if not peers.alone:
        # Without packed images the checksum would read all files.
        ours = task.source.checksum if config.data.cache == "packed" else ""
        first = peers.from_first(ours.encode).decode()
        if first and ours and first != ours:
            raise ConfigError(
                f"{task.archive.root}: the images are not those of the first process. Copy them from there."
            )
    return task


def _open_first(config: Config, folder: RunFolder, peers: Peers) -> Task:
    """Open the archive of a run; a ConfigError if a resumed run was started with another one."""
    if not folder.started:
        return open_task(config, peers=peers)
    try:
        task = open_task(config, folder.split, peers)
    except (DataError, LabelError) as error:
        changed = folder.changed_path(config)
        if changed is None:
            raise
        name, before, now = changed
        raise ConfigError(
            f"{folder.path} was trained with {name} = {before}, now it is {now}, which is another archive: "
            f"{str(error).rstrip('.')}. Use another --run."
        ) from error
    folder.check_archive(config, task)
    return task
