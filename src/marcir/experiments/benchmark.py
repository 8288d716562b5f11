"""Perform the runs of a benchmark or of ablation studies that have no record yet."""

import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import marcir
from marcir.checks import check_int
from marcir.config import Config, suggest_batch_size
from marcir.data.split import Split
from marcir.errors import ConfigError, DataError, did_you_mean
from marcir.experiments.inspect import split as draw_split_file
from marcir.experiments.perform import commit_of, failed
from marcir.experiments.plan import PLACES, Plan, Run, config_hash, read_plan
from marcir.experiments.record import COMPARISON, Record, Results
from marcir.experiments.studies import STUDIES
from marcir.experiments.workers import Outcome, PerformAll, perform_all
from marcir.files import cache_folder
from marcir.progress import duration
from marcir.text_tables import percent
from marcir.training.fabric import decide_precision
from marcir.training.loop import SELECTED_BY
from marcir.training.run_folder import PATH_SETTINGS, RunFolder, first_difference
from marcir.training.task import open_training_archive
from marcir.training.train import resolve_defaults


@dataclass(frozen=True)
class BenchmarkSummary:
    """The outcome of a benchmark.

    Attributes:
        runs: Number of runs of the plan.
        trained: Number of runs that were trained now and have scores.
        failed: Failed runs by name, and the reasons.
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


def benchmark(
    config: str | Path, results: str | Path, jobs: int = 1, elsewhere: PerformAll | None = None
) -> BenchmarkSummary:
    """Train and score every loss of a plan on every dataset with every seed.

    Args:
        config: The plan, a YAML file.
        results: Folder of the records; finished runs are not repeated.
        jobs: Number of parallel runs.
        elsewhere: Performs the runs in place of processes of this machine, see `remote.perform_with`.
    """
    plan = read_plan(config)
    return perform_runs(plan.runs(), plan, Results(Path(results)), jobs, elsewhere=elsewhere)


def ablate(
    config: str | Path,
    studies: Sequence[str],
    results: str | Path,
    jobs: int = 1,
    elsewhere: PerformAll | None = None,
) -> BenchmarkSummary:
    """Perform ablation studies on the datasets and with the seeds of a plan.

    Args:
        config: The plan, a YAML file of `marcir benchmark`; only the study of unknown labels uses its losses.
        studies: Names of studies; none for all that fit the plan.
        results: Folder of the records; finished runs are not repeated.
        jobs: Number of parallel runs.
        elsewhere: Performs the runs in place of processes of this machine, see `remote.perform_with`.
    """
    plan = read_plan(config)
    runs: list[Run] = []
    for name in dict.fromkeys(studies or STUDIES):
        if name not in STUDIES:
            raise ConfigError(f"unknown study '{name}'. {did_you_mean(name, STUDIES)}")
        refusal = STUDIES[name].refusal(plan)
        if refusal is None:
            runs += STUDIES[name].runs(name, plan)
        elif studies:
            raise ConfigError(f"study '{name}': {refusal}.")
        else:
            print_status(f"without the study '{name}': {refusal}")
    return perform_runs(runs, plan, Results(Path(results)), jobs, elsewhere=elsewhere)


def perform_runs(
    runs: Iterable[Run],
    plan: Plan,
    results: Results,
    jobs: int,
    verbose: bool = False,
    elsewhere: PerformAll | None = None,
) -> BenchmarkSummary:
    """Perform the runs that have no record yet; failed runs are repeated.

    Args:
        runs: The runs.
        plan: Their plan.
        results: Folder of the records.
        jobs: Number of parallel runs.
        verbose: Print a line after every epoch.
        elsewhere: Performs the runs in place of processes of this machine.
    """
    check_int("--jobs", jobs, 1, 64)
    for base in plan.bases:
        if base.train.precision == "bfloat16":
            decide_precision(resolve_defaults(base))  # refuses it before anything is written
    shared = {base.data.name: _shared_data(base, plan.split_seed, results) for base in plan.bases}
    records = [_planned(run, results, shared[run.config.data.name]) for run in runs]
    commit = commit_of(Path(marcir.__file__).parent)
    code = {} if commit is None else {"commit": commit}
    missing = [replace(record, versions=code) for record in records if not _is_done(record, results)]
    print_status(f"{len(records)} runs, {len(records) - len(missing)} of them are done")
    missing = _reused(missing, results)
    if missing:  # one line, or one per dataset where the precision differs
        chosen = (decide_precision(resolve_defaults(base))[1] for base in plan.bases)
        for text in dict.fromkeys(map(str, chosen)):
            print_status(f"new runs compute in {text}")
    first = {record.config_hash: record for record in reversed(missing)}
    perform_missing = elsewhere or partial(perform_all, jobs=jobs, verbose=verbose)
    failures = _train_missing(list(reversed(first.values())), results, perform_missing) if first else {}
    trained = len(first) - len(failures)
    for record in _reused([each for each in missing if each is not first[each.config_hash]], results):
        failures[record.name] = f"as {first[record.config_hash].name}, which has the same settings"
    return BenchmarkSummary(len(records), trained, failures, results.path)


def print_status(text: str) -> None:
    """Print a line on the error stream."""
    print(text, file=sys.stderr, flush=True)


def _train_missing(
    missing: Sequence[Record], results: Results, perform_missing: PerformAll
) -> dict[str, str]:
    failures: dict[str, str] = {}
    started, number = time.monotonic(), 0
    try:
        with closing(perform_missing(missing, results)) as outcomes:
            for number, outcome in enumerate(outcomes, 1):
                if outcome.died:
                    results.save_failure(failed(outcome.record, str(outcome.error)))
                if outcome.error is not None:
                    failures[outcome.record.name] = outcome.error
                left = (time.monotonic() - started) / number * (len(missing) - number)
                text = f"{outcome.record.name}: {_result(outcome, results)}   {duration(left)} left"
                print_status(f"[{number}/{len(missing)}] {text}")
    except KeyboardInterrupt:
        print_status(
            f"{number} of {len(missing)} runs are recorded. The same command goes on with the others."
        )
        raise
    return failures


def _result(outcome: Outcome, results: Results) -> str:
    """The outcome of a run in one line."""
    if outcome.error is not None:
        return f"FAILED: {outcome.error}"
    done = results.load(outcome.record.study, outcome.record.name)
    if done is None or done.scores is None:
        return "its record was removed"
    return f"{SELECTED_BY} {percent(done.scores[SELECTED_BY])}, trained in {duration(done.seconds)}"


@dataclass(frozen=True)
class _SharedData:
    """Split of a dataset, its file, and the shorter side of the archive's first image."""

    path: Path
    split: Split
    image_side: int


def _shared_data(base: Config, seed: int, results: Results) -> _SharedData:
    """Load the split of a dataset; draw it where none is given or saved."""
    data = base.data
    if data.root is None and data.name == "scenes":
        print_status(f"the scenes are in {cache_folder() / 'scenes'}")
    path = Path(data.split) if data.split is not None else results.split_file(data.name)
    archive, broken = open_training_archive(data)
    for problem in broken.values():
        print_status(f"skipped {problem}")
    if not path.exists() and data.split is None:
        draw_split_file(
            data.name, data.root, path, data.labels, seed, data.method, data.on_broken, data.unlisted
        )
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
    """The record of a run without its scores."""
    config = resolve_defaults(replace(run.config, data=replace(run.config.data, split=str(shared.path))))
    _, started = _found(run.study, run.name, results)
    if started is not None and config.train.precision == "auto":  # a started run keeps its precision
        config = replace(config, train=replace(config.train, precision=started.train.precision))
    else:
        config, _ = decide_precision(config)
    return Record(
        study=run.study,
        dataset=config.data.name,
        loss=config.loss.name,
        method=run.method,
        setting=run.setting,
        seed=config.train.seed,
        config=config.to_dict(),
        config_hash=config_hash(config, shared.split.checksum),
        split_checksum=shared.split.checksum,
        image_side=shared.image_side,
    )


def _found(study: str, name: str, results: Results) -> tuple[Record | None, Config | None]:
    """The record of a finished run, and the settings of one that was finished or started before."""
    record = results.load(study, name)
    if record is not None and record.done:
        return record, Config.from_dict(record.config)
    folder = RunFolder(results.run_folder(study, name))
    return None, folder.settings() if folder.started else None


def _is_done(record: Record, results: Results) -> bool:
    """Whether a run is finished.

    Raises:
        ConfigError: Where a run of the same name was finished or started with other settings.
    """
    done, before = _found(record.study, record.name, results)
    if before is None or (done is not None and done.config_hash == record.config_hash):
        return done is not None
    neutral = PATH_SETTINGS if done is None else PLACES
    differs = first_difference(before, Config.from_dict(record.config), neutral)
    if done is None and differs is None:
        return False
    what = "the labels, the split or the first weights are others"
    if differs is not None:
        name, was, now = differs
        what = f"{name} was {was}, now it is {now}"
    raise ConfigError(
        f"{results.path} holds {record.name} with other settings: {what}. Use another results folder."
    )


def _reused(missing: Sequence[Record], results: Results) -> list[Record]:
    """Copy records of runs with equal settings from other studies; returns the runs that are left."""
    if not missing:
        return []
    done = [each for each in results.records() if each.done]
    compared = {each.config_hash: each for each in done if each.study == COMPARISON}
    anywhere = {each.config_hash: each for each in done} | compared
    left = []
    for record in missing:
        # A run of the comparison must have a model, for search, and ablations keep none.
        same = (compared if record.study == COMPARISON else anywhere).get(record.config_hash)
        if same is None:
            left.append(record)
            continue
        vectors = None
        with suppress(DataError):  # where the user has removed them
            vectors = results.vectors(same)
        results.save(replace(same, study=record.study, method=record.method, setting=record.setting), vectors)
    return left
