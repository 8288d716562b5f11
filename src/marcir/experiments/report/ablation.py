"""Tables of ablations: every setting over the seven metrics, and the one selected on validation."""

import math
from collections.abc import Sequence

from marcir.experiments.report.comparison import TAIL_NOTE, failures, seeds_note
from marcir.experiments.report.paper import paper_heading, paper_pretraining
from marcir.experiments.report.runs import CHOSEN_BY, COLUMNS, Row, Study, setting_text, value_text
from marcir.experiments.report.table import Cell, Line, Mark, Table, number_cell, score_cell
from marcir.experiments.studies import STUDIES
from marcir.text_tables import percent

PRETRAINED = "pretrained"  # the setting that the paper has a full table of


def study_title(name: str) -> str:
    """The question of a study, and its name.

    >>> study_title("views"), study_title("never heard of")
    ('One or two augmented versions in a batch (views)', 'never heard of')
    """
    if name not in STUDIES:
        return name
    question = STUDIES[name].question
    return f"{question[0].upper()}{question[1:]} ({name})"


def ablation_table(study: Study) -> Table:
    """One row per setting; the best of each method on the validation images is marked."""
    keys = setting_keys(study.rows)
    columns = ("", *keys, "seeds", f"validation {CHOSEN_BY}", *COLUMNS)
    best = [id(row) for row in chosen(study).values()]
    lines = [_line(row, keys, "chosen" if id(row) in best else "") for row in study.done]
    if keys == [PRETRAINED]:
        heading, none = paper_heading(study.dataset), Cell("-")
        for loss, value, cells in paper_pretraining(study.dataset):
            lines.append(Line((Cell(loss), Cell(value), none, none, *cells, none), heading))
    marked = f"chosen: the best validation {CHOSEN_BY} of a method."
    if not any(row.validation.seeds for row in study.done):
        marked = "Nothing was chosen: there are no validation images."
    notes = [
        f"{marked} {TAIL_NOTE} {seeds_note(study)}",
        *_incomplete(study),
        *_selections(study),
        *failures(study),
    ]
    title = f"{study_title(study.name)}, {study.dataset_title}, percent"
    return Table(study.file_name(study.name), title, columns, tuple(lines), tuple(notes))


def setting_keys(rows: Sequence[Row]) -> list[str]:
    """Settings that vary, in order of appearance."""
    return list(dict.fromkeys(key for row in rows for key in row.setting))


def chosen(study: Study) -> dict[str, Row]:
    """For each method with several settings, the row with the best validation score; the first of ties."""
    found: dict[str, Row] = {}
    for method in dict.fromkeys(row.method for row in study.done):
        rows = [row for row in study.done if row.method == method and row.validation.seeds]
        if len(rows) > 1:
            found[method] = max(rows, key=lambda row: row.validation.mean)
    return found


def _selections(study: Study) -> list[str]:
    """The selected setting of each method: its validation and test scores, with the range of all."""
    sentences = []
    for method, row in chosen(study).items():
        own = [each for each in study.done if each.method == method]
        on_validation = _with_range(row.validation.mean, [each.validation.mean for each in own])
        on_test = _with_range(row.column(CHOSEN_BY).mean, [each.column(CHOSEN_BY).mean for each in own])
        sentences.append(
            f"{row.name}: validation chose {setting_text(row.setting)} with {CHOSEN_BY} {on_validation}; "
            f"it has {on_test} on the test images."
        )
    return sentences


def _with_range(value: float, values: Sequence[float]) -> str:
    known = [each for each in values if not math.isnan(each)]
    return f"{percent(value)} (all settings: {percent(min(known))} to {percent(max(known))})"


def _incomplete(study: Study) -> list[str]:
    """A note where a study does not have all of its settings yet."""
    whole = len(list(STUDIES[study.name].variants())) if study.name in STUDIES else 0
    return [f"{len(study.done)} of the {whole} settings of this study."] if len(study.done) < whole else []


def _line(row: Row, keys: Sequence[str], mark: Mark) -> Line:
    validation = score_cell(row.validation, mark)
    settings = [_setting_cell(row.setting[key]) if key in row.setting else Cell("-") for key in keys]
    scores = [score_cell(row.column(name)) for name in COLUMNS]
    return Line((Cell(row.name), *settings, number_cell(len(row.runs), digits=0), validation, *scores))


def _setting_cell(value: object) -> Cell:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return Cell(value_text(value), float(value) if number else None)  # type: ignore[arg-type]
