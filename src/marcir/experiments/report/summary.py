"""The report in a few sentences, made from the numbers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from marcir.experiments.record import Record
from marcir.experiments.report.comparison import COST_OF, loss_step, margin, mean_ranks, reference
from marcir.experiments.report.names import OF_INTEREST, method_name
from marcir.experiments.report.runs import CHOSEN_BY, Row, Spread, Study, value_text
from marcir.experiments.report.significance import Contest
from marcir.experiments.report.table import Cell, Line, Table, number_cell
from marcir.metrics.retrieval_metrics import METRICS
from marcir.text_tables import percent

# Columns of "What was run": where each stands in a run's settings.
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
# May differ between runs of one table without harm: what is compared, and where things lie.
_FREE = ("loss.", "train.seed", "run", "data.root", "data.split", "data.cache")


def comparison_sentences(study: Study, contests: Sequence[Contest]) -> list[str]:
    """Who wins, by how much, and how sure that is."""
    rows = study.done
    if not rows:
        return [f"{study.dataset_title}: no run has finished."]
    return [
        _what(study),
        *_winners(rows),
        *_places(rows),
        *(contest.sentence for contest in contests),
        *_below_untrained(study),
        *_cost(study),
        *_doubts(study),
    ]


def _what(study: Study) -> str:
    """How many methods and seeds, and of what network."""
    seeds = sorted({len(row.runs) for row in study.done})
    methods = f"{len(study.done)} method{'s' if len(study.done) > 1 else ''}"
    each = f"{' to '.join(map(str, sorted({seeds[0], seeds[-1]})))} seed{'s' if seeds[-1] > 1 else ''} each"
    settings = [flat(record.config) for record in study.records]
    known = {name: _values(settings, _SETTINGS[name]) for name in ("backbone", "epochs", "size")}
    frozen = " (frozen)" if _values(settings, _SETTINGS["frozen"]) == ["on"] else ""
    network = f"{' and '.join(known['backbone'])}{frozen}" if known["backbone"] else ""
    epochs = f"{' and '.join(known['epochs'])} epochs" if known["epochs"] else ""
    size = f"{' and '.join(known['size'])} pixels" if known["size"] else ""
    return ", ".join(part for part in (methods, each, network, epochs, size) if part) + "."


def _winners(rows: Sequence[Row]) -> Iterator[str]:
    ranked = sorted(zip(mean_ranks(rows), rows, strict=True), key=lambda each: each[0])
    if len(ranked) == 1:
        yield f"One method alone: {rows[0].name}. There is nothing to compare it with."
        return
    winner, *others = (f"{row.name} ({rank:.1f})" for rank, row in ranked[:3])
    yield f"Best by mean rank over the seven columns: {winner}, then {' and '.join(others)}."
    for what in (CHOSEN_BY, "tail"):
        best, second = sorted(rows, key=lambda row: -_or_low(_spread(row, what).mean))[:2]
        first, next_ = _spread(best, what), _spread(second, what)
        if not math.isnan(next_.mean):
            of = what if what != "tail" else "mean AP of the rarest third of the labels (tail)"
            ahead = f"{margin(first, next_)} above the next, {second.name}"
            yield f"Highest {of}: {best.name} with {percent(first.mean)}, {ahead}."


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
    """One sentence: which methods end below the untrained backbone, and in which columns."""
    found = []
    for row in study.done:
        below = [name for name in METRICS if row.column(name).mean < reference(study, "untrained", name).mean]
        if below:
            columns = "all columns" if len(below) == len(METRICS) else ", ".join(below)
            found.append(f"{row.name} ({columns})")
    if found:
        yield f"Below the untrained backbone after training: {'; '.join(found)}."


def _cost(study: Study) -> Iterator[str]:
    """Only where the loss steps were timed on an idle machine."""
    unit = loss_step(study, COST_OF)
    ratios = [
        f"{loss_step(study, method) / unit:.2f} times for {method_name(method, method)}"
        for method in OF_INTEREST
        if unit and not math.isnan(loss_step(study, method) / unit)
    ]
    if ratios:
        yield f"A loss step takes, beside MulSupCon's: {', '.join(ratios)}."


def _doubts(study: Study) -> Iterator[str]:
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
    """Settings other than the loss that are not the same in all runs of a comparison."""
    found: dict[str, list[str]] = {}
    for record in records:
        for name, value in flat(record.config).items():
            if not name.startswith(_FREE):
                found.setdefault(name, []).append(value_text(value))
    return {name: sorted(set(values)) for name, values in found.items() if len(set(values)) > 1}


def flat(config: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names.

    >>> flat({"train": {"epochs": 15}})
    {'train.epochs': 15}
    """
    found: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            found.update(flat(value, f"{before}{name}."))
        else:
            found[before + name] = value
    return found


def runs_table(studies: Sequence[Study]) -> Table:
    """What was run: one line per study."""
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
    for place in _SETTINGS.values():
        cells.append(Cell(", ".join(_values(settings, place)) or "-"))
    return Line(tuple(cells))


def _values(settings: Sequence[Mapping[str, Any]], place: str) -> list[str]:
    return sorted({value_text(each[place]) for each in settings if place in each})


def _spread(row: Row, column: str) -> Spread:
    return row.tail if column == "tail" else row.column(column)


def _or_low(value: float) -> float:
    return -1.0 if math.isnan(value) else value
