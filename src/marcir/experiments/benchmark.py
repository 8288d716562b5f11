"""The comparison: losses x datasets x seeds, one record per run, only what is missing."""

import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from marcir.checks import check_int
from marcir.config import Config, suggest_batch_size
from marcir.data.split import Split
from marcir.errors import ConfigError, DataError
from marcir.experiments.inspect import split as draw_split_file
from marcir.experiments.perform import failed, planned
from marcir.experiments.plan import PLACES, Plan, Run, read_plan
from marcir.experiments.record import COMPARISON, Record, Results
from marcir.experiments.workers import Outcome, perform_all
from marcir.files import cache_folder
from marcir.text_tables import percent
from marcir.training.loop import SELECTED_BY
from marcir.training.reporter import duration
from marcir.training.run_folder import PATH_SETTINGS, RunFolder, first_difference
from marcir.training.run_precision import decide_precision
from marcir.training.task import open_training_archive
from marcir.training.train import resolve_defaults
from marcir.types import Embeddings


@dataclass(frozen=True)
class Done:
    """What a benchmark did.

    Attributes:
        runs: All runs of the plan.
        trained: Those that were trained now and have scores.
        failed: Names of those that failed, and why.
        path: The results folder.
    """

    runs: int
    trained: int
    failed: dict[str, str]
    path: Path

    def __str__(self) -> str:
        text = f"{self.path}: {self.runs - len(self.failed)} of {self.runs} runs have scores, "
        folder = shlex.quote(str(self.path))
        text += f"{self.trained} were trained now. Read them with: marcir report --results {folder}"
        lines = [f"FAILED {name}: {why}" for name, why in self.failed.items()]
        return "\n".join([*lines, text])


def benchmark(config: str | Path, results: str | Path, jobs: int = 1) -> Done:
    """Train and score every loss of a plan on every dataset with every seed.

    Args:
        config: The plan, a YAML file.
        results: Where records go; what is there already is not done again.
        jobs: Runs at a time.
    """
    plan = read_plan(config)
    return perform_runs(plan.runs(), plan, Results(Path(results)), jobs)


def perform_runs(runs: Iterable[Run], plan: Plan, results: Results, jobs: int, tell: bool = False) -> Done:
    """Perform the runs that have no record yet; one that failed is tried again.

    Args:
        runs: Which.
        plan: What they share.
        results: Where records go.
        jobs: Runs at a time.
        tell: Say something after every epoch.
    """
    check_int("--jobs", jobs, 1, 64)
    for base in plan.bases:
        if base.train.precision == "bfloat16":
            decide_precision(resolve_defaults(base))  # refuses it before anything is written
    shared = {base.data.name: _shared_data(base, plan.split_seed, results) for base in plan.bases}
    records = [_planned(run, results, shared[run.config.data.name]) for run in runs]
    missing = [record for record in records if not _is_there(record, results)]
    say(f"{len(records)} runs, {len(records) - len(missing)} of them are done")
    missing = _reused(missing, results)
    if missing:
        _say_precision(plan)
    first = {record.config_hash: record for record in reversed(missing)}
    failures = _train_missing(list(reversed(first.values())), results, jobs, tell)
    trained = len(first) - len(failures)
    for record in _reused([each for each in missing if each is not first[each.config_hash]], results):
        failures[record.name] = f"as {first[record.config_hash].name}, which has the same settings"
    return Done(len(records), trained, failures, results.path)


def say(text: str) -> None:
    """One line on the stream for people."""
    print(text, file=sys.stderr, flush=True)


def _say_precision(plan: Plan) -> None:
    """What new runs compute in, and why: one line, or one per dataset where they differ."""
    chosen = (decide_precision(resolve_defaults(base))[1] for base in plan.bases)
    for text in dict.fromkeys(map(str, chosen)):
        say(f"new runs compute in {text}")


def _train_missing(missing: Sequence[Record], results: Results, jobs: int, tell: bool) -> dict[str, str]:
    failures: dict[str, str] = {}
    started = time.monotonic()
    for number, outcome in enumerate(perform_all(missing, results, jobs, tell), 1):
        if outcome.died:
            results.save_failure(failed(outcome.record, str(outcome.error)))
        if outcome.error is not None:
            failures[outcome.record.name] = outcome.error
        left = (time.monotonic() - started) / number * (len(missing) - number)
        say(f"[{number}/{len(missing)}] {_told(outcome, results)}   {duration(left)} left")
    return failures


def _told(outcome: Outcome, results: Results) -> str:
    name = outcome.record.name
    done = results.load(outcome.record.study, name)
    if outcome.error is not None or done is None or done.scores is None:
        return f"{name}: FAILED: {outcome.error}"
    return f"{name}: {SELECTED_BY} {percent(done.scores[SELECTED_BY])}, trained in {duration(done.seconds)}"


@dataclass(frozen=True)
class _SharedData:
    """What all runs on a dataset share: the split, its file, and the side of the archive's first image."""

    path: Path
    split: Split
    image_side: int


def _shared_data(base: Config, seed: int, results: Results) -> _SharedData:
    """The split of a dataset: the one that is given or there already, or a new one."""
    data = base.data
    if data.root is None and data.name == "scenes":
        say(f"the scenes are in {cache_folder() / 'scenes'}")
    path = Path(data.split) if data.split is not None else results.split_file(data.name)
    archive, broken = open_training_archive(data)
    for problem in broken.values():
        say(f"skipped {problem}")
    if not path.exists() and data.split is None:
        draw_split_file(data.name, data.root, path, data.labels, seed, data.method, data.on_broken)
    split = Split.load(path, archive)
    if len(split.test) < 2:
        raise DataError(
            f"{path}: there are fewer than two test images, and nothing to score. Label more images, or give "
            "a split."
        )
    if base.train.batch_size > len(split.train):
        raise ConfigError(
            f"train.batch_size = {base.train.batch_size}: {data.name} has only {len(split.train)} training "
            f"images. Use {suggest_batch_size(len(split.train))}."
        )
    if data.split is None and split.seed != seed:
        raise ConfigError(
            f"{path} was drawn with split_seed {split.seed}, now it is {seed}. Use another results folder."
        )
    return _SharedData(path, split, min(archive.read(0).shape[:2]))


def _planned(run: Run, results: Results, shared: _SharedData) -> Record:
    data = replace(run.config.data, split=str(shared.path))
    run = replace(run, config=replace(run.config, data=data))
    record = planned(run, shared.split.checksum, _begun(run, results))
    return replace(record, image_side=shared.image_side)


def _begun(run: Run, results: Results) -> Config | None:
    """Settings that a run was done or begun with; None where it was not."""
    found = results.load(run.study, run.name)
    if found is not None and found.done:
        return Config.from_dict(found.config)
    folder = RunFolder(results.run_folder(run.study, run.name))
    return folder.settings() if folder.started else None


def _is_there(record: Record, results: Results) -> bool:
    """Whether it is done.

    Raises:
        ConfigError: Where there is a run of the same name with other settings, done or begun.
    """
    wanted = Config.from_dict(record.config)
    found = results.load(record.study, record.name)
    if found is not None and found.done:
        if found.config_hash == record.config_hash:
            return True
        differs = first_difference(Config.from_dict(found.config), wanted, PLACES)
    else:
        folder = RunFolder(results.run_folder(record.study, record.name))
        differs = first_difference(folder.settings(), wanted, PATH_SETTINGS) if folder.started else None
        if differs is None:
            return False
    what = "the labels, the split or the first weights are others"
    if differs is not None:
        name, before, now = differs
        what = f"{name} was {before}, now it is {now}"
    raise ConfigError(
        f"{results.path} holds {record.name} with other settings: {what}. Use another results folder."
    )


def _reused(missing: Sequence[Record], results: Results) -> list[Record]:
    """Take over what another study has trained with the very same settings; what is left."""
    if not missing:
        return []
    done = [each for each in results.records() if each.done]
    compared = {each.config_hash: each for each in done if each.study == COMPARISON}
    anywhere = {each.config_hash: each for each in done} | compared
    left = []
    for record in missing:
        # Ablations leave no model, and a run of the comparison must have one, for search.
        same = (compared if record.study == COMPARISON else anywhere).get(record.config_hash)
        if same is None:
            left.append(record)
            continue
        own = {"study": record.study, "method": record.method, "setting": record.setting}
        results.save(replace(same, **own), _kept_vectors(same, results))  # type: ignore[arg-type]
    return left


def _kept_vectors(record: Record, results: Results) -> Embeddings | None:
    try:
        return results.vectors(record)
    except DataError:  # somebody removed them; the scores are there
        return None
