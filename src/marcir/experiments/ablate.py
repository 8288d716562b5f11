"""Ablations: the studies of the paper and our own, by name."""

from collections.abc import Sequence
from pathlib import Path

from marcir.errors import ConfigError, did_you_mean
from marcir.experiments.benchmark import Done, perform_runs, say
from marcir.experiments.plan import Plan, Run, read_plan
from marcir.experiments.record import Results
from marcir.experiments.studies import STUDIES


def ablate(config: str | Path, studies: Sequence[str], results: str | Path, jobs: int = 1) -> Done:
    """Perform studies on the datasets and with the seeds of a plan.

    Args:
        config: The plan, a YAML file of `marcir benchmark`; its losses are not used.
        studies: Names of studies; none for all that make sense with the plan.
        results: Where records go; what is there already is not done again.
        jobs: Runs at a time.
    """
    plan = read_plan(config)
    chosen = list(dict.fromkeys(studies)) or [name for name in STUDIES if _allowed(name, plan)]
    runs: list[Run] = []
    for name in chosen:
        if name not in STUDIES:
            raise ConfigError(f"unknown study '{name}'. {did_you_mean(name, STUDIES)}")
        if why := _refusal(name, plan):
            raise ConfigError(f"study '{name}': {why}.")
        runs += STUDIES[name].runs(name, plan)
    return perform_runs(runs, plan, Results(Path(results)), jobs)


def _allowed(name: str, plan: Plan) -> bool:
    why = _refusal(name, plan)
    if why:
        say(f"without the study '{name}': {why}")
    return why is None


def _refusal(name: str, plan: Plan) -> str | None:
    return next(filter(None, (STUDIES[name].refusal(base) for base in plan.bases)), None)
