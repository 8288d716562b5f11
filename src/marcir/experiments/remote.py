"""Runs on other machines, which do not see the results folder: their files come back and are written here."""

import socket
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from marcir.checks import NAMED_WEIGHTS
from marcir.config import Config
from marcir.errors import ConfigError, DataError, needs
from marcir.experiments.benchmark import print_status
from marcir.experiments.perform import failed, perform, recorded, remove_unneeded
from marcir.experiments.record import Record, Results
from marcir.experiments.workers import Outcome, PerformAll
from marcir.files import atomic_write, folder_lock
from marcir.schema import parse, to_json

with needs("train"):
    import yaml

_SETTINGS = "config.yaml"


@dataclass(frozen=True, eq=False)
class RunFiles:
    """The files that a run leaves in a results folder.

    Attributes:
        record: The record.
        vectors: The vectors of the test images; None where it failed.
        folder: Files of the run's folder by their paths in it.
    """

    record: bytes
    vectors: bytes | None
    folder: Mapping[str, bytes]


class RunTasks(Protocol):
    """Calls a function on items on other machines, see `cluster.tasks.ClusterTasks.run`."""

    def __call__(
        self,
        function: Callable[[Mapping[str, bytes], str], RunFiles],
        shared: Mapping[str, bytes],
        items: Sequence[str],
        on_retry: Callable[[int, str], None],
    ) -> Generator[tuple[int, RunFiles | str], None, None]:
        """Yield numbers of items with their results, or with the reasons why there are none."""
        ...


def perform_with(run_tasks: RunTasks) -> PerformAll:
    """Perform runs as tasks on other machines, in place of processes of this one."""

    def perform_all(records: Sequence[Record], results: Results) -> Generator[Outcome, None, None]:
        for record in records:
            _check_one_process(record)
        splits = {path: Path(path).read_bytes() for path in {_split(record) for record in records}}

        def on_retry(number: int, why: str) -> None:
            print_status(f"{records[number].name}: lost with its process ({why}), and begun once more")

        requests = [to_json(record) for record in records]
        with closing(run_tasks(perform_apart, splits, requests, on_retry)) as answers:
            for number, answer in answers:
                if isinstance(answer, str):
                    yield Outcome(records[number], answer, died=True)
                else:
                    yield Outcome(records[number], _write(records[number], answer, results).error)

    return perform_all


def perform_apart(splits: Mapping[str, bytes], request: str) -> RunFiles:
    """Perform a run in a temporary folder.

    Args:
        splits: Contents of split files by their paths on the machine of the results.
        request: The planned record, as JSON.
    """
    record = parse(Record, request)
    with tempfile.TemporaryDirectory(prefix="marcir-run-") as temporary:
        split, results = Path(temporary) / "split.json", Results(Path(temporary) / "results")
        split.write_bytes(splits[_split(record)])
        data = {**record.config["data"], "split": str(split)}
        try:
            _check_paths(record)
            done = perform(replace(record, config={**record.config, "data": data}), results)
        except DataError as error:
            done = failed(record, str(error))
        if done.error is not None:
            done = replace(done, error=f"{socket.gethostname()}: {done.error}")
        results.save(replace(done, config=record.config))
        return _files(record, results, done.done)


def _check_one_process(record: Record) -> None:
    devices = Config.from_dict(record.config).train.devices
    if devices > 1:
        raise ConfigError(f"train.devices = {devices}: on a cluster a run is one process. Leave it out.")


def _check_paths(record: Record) -> None:
    """Refuse a machine that does not have the files of the plan."""
    config = Config.from_dict(record.config)
    weights = None if config.encoder.weights in NAMED_WEIGHTS else config.encoder.weights
    for path in (config.data.root, config.data.labels, weights):
        if path is not None and not Path(path).exists():
            raise DataError(
                f"there is no {path}. Archives, label tables and weights must lie on a disk that all "
                "machines of the cluster share, under the same path."
            )


def _split(record: Record) -> str:
    """Path of the split file, on the machine of the results."""
    return str(record.config["data"]["split"])


def _files(record: Record, results: Results, done: bool) -> RunFiles:
    """Read what a run has left; of one that failed only the record."""
    content = results.record_file(record.study, record.name).read_bytes()
    if not done:
        return RunFiles(content, None, {})
    folder = results.run_folder(record.study, record.name)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    return RunFiles(content, results.vectors_file(record.study, record.name).read_bytes(), files)


def _write(record: Record, answer: RunFiles, results: Results) -> Record:
    """Write the files of a run, unless another command has recorded it meanwhile."""
    done = parse(Record, answer.record)
    folder = results.run_folder(record.study, record.name)
    with folder_lock(folder, "run"):
        other = recorded(record, results)
        if other is not None:
            return other
        if answer.vectors is None:
            results.save_failure(done)
            return done
        files = dict(answer.folder)
        if files:
            # The settings first: they mark the folder as a run if this process is killed here. Its split is
            # the one of the plan, not a temporary copy.
            settings = Config.from_dict(record.config).to_dict()
            _write_bytes(folder / _SETTINGS, yaml.safe_dump(settings, sort_keys=False).encode())
            del files[_SETTINGS]
        for name, content in files.items():
            _write_bytes(folder / name, content)
        _write_bytes(results.vectors_file(record.study, record.name), answer.vectors)
        results.save(done)
        remove_unneeded(record, folder)
        return done


def _write_bytes(path: Path, content: bytes) -> None:
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)
