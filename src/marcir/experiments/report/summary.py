"""The summary sentences of a comparison, and the table of all runs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from marcir.experiments.record import Record
from marcir.experiments.report.comparison import loss_step_ratio, margin, mean_ranks, reference
from marcir.experiments.report.names import OF_INTEREST
from marcir.experiments.report.runs import CHOSEN_BY, TAIL, Row, Study, value_text
from marcir.experiments.report.significance import MethodComparison
from marcir.experiments.report.table import Cell, Line, Table, number_cell
from marcir.metrics.retrieval_metrics import METRICS
from marcir.text_tables import percent

# Columns of the table of runs, and their settings.
_SETTINGS = {
    "backbone": "encoder.backbone",
    "frozen": "encoder.frozen",
    "size": "data.size",
    "epochs": "train.epochs",
    "batch": "train.batch_size",
    "lr": "train.lr",
    "schedule": "train.schedule",
    "sampler": "train.sampler",
}
# Settings that may differ between runs of one table: what is compared, and paths.
_MAY_DIFFER = ("loss.", "train.seed", "run", "data.root", "data.split", "data.cache")


def comparison_sentences(study: Study, compared: Sequence[MethodComparison]) -> list[str]:
    """Summarise which methods are best, by how much, and with what significance."""
    rows = study.done
    if not rows:
        return [f"{study.dataset_title}: no run has finished."]
    return [
        _scope(study),
        *_winners(rows),
        *_places(rows),
        *(each.sentence for each in compared),
        *_below_untrained(study),
        *_cost(study),
        *_caveats(study),
    ]


def _scope(study: Study) -> str:
    """Number of methods and seeds, and the network."""
    seeds = sorted({len(row.runs) for row in study.done})
    methods = f"{len(study.done)} method{'s' if len(study.done) > 1 else ''}"
    each = f"{' to '.join(map(str, sorted({seeds[0], seeds[-1]})))} seed{'s' if seeds[-1] > 1 else ''} each"
    settings = [flat(record.config) for record in study.records]
    frozen = " (frozen)" if _values(settings, _SETTINGS["frozen"]) == ["on"] else ""
    parts = [methods, each]
    for name, unit in (("backbone", frozen), ("epochs", " epochs"), ("size", " pixels")):
        if values := _values(settings, _SETTINGS[name]):
            parts.append(" and ".join(values) + unit)
    return ", ".join(parts) + "."


def _winners(rows: Sequence[Row]) -> Iterator[str]:
    ranked = sorted(zip(mean_ranks(rows), rows, strict=True), key=lambda each: each[0])
    if len(ranked) == 1:
        yield f"One method alone: {rows[0].name}. There is nothing to compare it with."
        return
    winner, *others = (f"{row.name} ({rank:.1f})" for rank, row in ranked[:3])
    yield f"Best by mean rank over the seven columns: {winner}, then {' and '.join(others)}."
    for name in (CHOSEN_BY, TAIL):
        known = [(row, each) for row in rows if not math.isnan((each := row.column(name)).mean)]
        if len(known) > 1:
            (best, first), (second, other) = sorted(known, key=lambda each: -each[1].mean)[:2]
            text = name if name != TAIL else "mean AP of the rarest third of the labels (tail)"
            ahead = f"{margin(first, other)} above the next, {second.name}"
            yield f"Highest {text}: {best.name} with {percent(first.mean)}, {ahead}."


def _places(rows: Sequence[Row]) -> Iterator[str]:
    ranks = mean_ranks(rows)
    places = [
        f"{row.name} {1 + sum(other < rank for other in ranks)}"
        for row, rank in zip(rows, ranks, strict=True)
        if row.method in OF_INTEREST
    ]
    if places and len(rows) > 1:
        yield f"Places by mean rank, of {len(rows)}: {', '.join(places)}."


def _below_untrained(study: Study) -> Iterator[str]:
    """Methods that end below the untrained backbone, and in which metrics."""
    found = []
    for row in study.done:
        below = [name for name in METRICS if row.column(name).mean < reference(study, "untrained", name).mean]
        if below:
            columns = "all columns" if len(below) == len(METRICS) else ", ".join(below)
            found.append(f"{row.name} ({columns})")
    if found:
        yield f"Below the untrained backbone after training: {'; '.join(found)}."


def _cost(study: Study) -> Iterator[str]:
    """Cost of the loss steps, where they were timed on an idle machine."""
    ratios = [
        f"{ratio:.2f} times for {row.name}"
        for row in study.rows_of(OF_INTEREST)
        if not math.isnan(ratio := loss_step_ratio(study, row))
    ]
    if ratios:
        yield f"A loss step takes, relative to MulSupCon's: {', '.join(ratios)}."


def _caveats(study: Study) -> Iterator[str]:
    seeds = [len(row.runs) for row in study.done]
    if max(seeds) == 1:
        yield "One seed: the spread between seeds is unknown; a small difference may be that of seeds alone."
    elif min(seeds) != max(seeds):
        yield f"The methods have {min(seeds)} to {max(seeds)} seeds: means are not equally sure."
    for name, values in differing(study.records).items():
        yield f"WARNING: the runs differ in more than their loss: {name} is {' and '.join(values)}."
    if study.failed:
        runs = len(study.failed) + len(study.records)
        yield f"{len(study.failed)} of {runs} runs failed; they are listed below."


def differing(records: Sequence[Record]) -> dict[str, list[str]]:
    """Settings other than the loss that differ between the runs of a comparison."""
    found: dict[str, list[str]] = {}
    for record in records:
        for name, value in flat(record.config).items():
            if not name.startswith(_MAY_DIFFER):
                found.setdefault(name, []).append(value_text(value))
    return {name: sorted(set(values)) for name, values in found.items() if len(set(values)) > 1}


def flat(config: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Flatten nested settings to dotted names.

    >>> flat({"train": {"epochs": 15}})
    {'train.epochs': 15}
    """
    found: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{name}.")
        else:
            found[before + name] = value
    return found


def runs_table(studies: Sequence[Study]) -> Table:
    """One line per study: methods, seeds, runs and settings."""
    columns = ("", "study", "methods", "seeds", "runs", "failed", *_SETTINGS)
    lines = tuple(_runs_line(study) for study in studies)
    records = [record for study in studies for record in (*study.records, *study.failed)]
    versions = sorted({f"{name} {text}" for record in records for name, text in record.versions.items()})
    notes = (f"Run with {', '.join(versions)}.",) if versions else ()
    return Table("runs", "Every study and its settings", columns, lines, notes)


def _runs_line(study: Study) -> Line:
    records = study.records or study.failed
    settings = [flat(record.config) for record in records]
    cells = [
        Cell(study.dataset),
        Cell(study.name),
        number_cell(len({row.method for row in study.rows}), digits=0),
        Cell(", ".join(map(str, sorted({record.seed for record in records})))),
        number_cell(len(study.records), digits=0),
        number_cell(len(study.failed), digits=0),
    ]
    cells += [Cell(", ".join(_values(settings, place)) or "-") for place in _SETTINGS.values()]
    return Line(tuple(cells))


def _values(settings: Sequence[Mapping[str, Any]], place: str) -> list[str]:
    return sorted({value_text(each[place]) for each in settings if place in each})
