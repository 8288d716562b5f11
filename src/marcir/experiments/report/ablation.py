"""Ablations: tables of every setting over the seven metrics, with the selected one, and figures.

One varied number is drawn as curves, two as heat maps, anything else as dots.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from marcir.experiments.record import slug
from marcir.experiments.report.comparison import TAIL_NOTE, failures, seeds_note
from marcir.experiments.report.page import Figure
from marcir.experiments.report.paper import paper_heading, paper_pretraining
from marcir.experiments.report.runs import (
    CHOSEN_BY,
    COLUMNS,
    Row,
    Study,
    is_number,
    means_and_sds,
    setting_text,
    value_text,
)
from marcir.experiments.report.table import Cell, Line, Mark, Table, number_cell, score_cell
from marcir.experiments.studies import STUDIES
from marcir.figures.heat_maps import Grid, draw_value_maps
from marcir.figures.score_dots import draw_score_dots
from marcir.figures.setting_curves import Curve, CurvePanel, draw_radars, draw_setting_curves
from marcir.metrics.retrieval_metrics import METRICS
from marcir.text_tables import percent

PRETRAINED = "pretrained"  # the setting that the paper has a full table of
SHOWN = ("mAP(sim)@5000", "nDCG@100")  # metrics of curves and maps
RADAR_STUDY = "lr"  # the study that the paper shows as radars


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
    return Cell(value_text(value), float(value) if is_number(value) else None)


def draw_ablation(study: Study, folder: Path) -> list[Figure]:
    """Draw the figures that fit the study's settings."""
    kinds: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in study.done:
        kinds[tuple(sorted(row.setting))].append(row)
    surfaces = {keys: rows for keys, rows in kinds.items() if len(keys) == 2 and _numeric(keys, rows)}
    lines = {keys: rows for keys, rows in kinds.items() if len(keys) == 1 and _numeric(keys, rows)}
    rest = [row for keys, rows in kinds.items() if keys not in surfaces and keys not in lines for row in rows]
    stem = folder / study.file_name(study.name)
    where = f"{study.name} on {study.dataset_title}"
    drawn: list[Figure] = []
    for (first, second), rows in surfaces.items():
        for method in dict.fromkeys(row.method for row in rows):
            own = [row for row in rows if row.method == method]
            drawn += _surface(study, own, (first, second), Path(f"{stem}-{slug(own[0].method)}"), where)
    if study.name == RADAR_STUDY and lines:
        drawn.append(_radars(study, Path(f"{stem}-radar.png"), where))
    elif lines:
        flat: list[Row] = []
        if len({row.name for row in rest}) == len(rest):  # one row per method is one level line
            flat, rest = rest, []
        by_key = {keys[0]: rows for keys, rows in lines.items()}
        drawn.append(_curves(by_key, flat, Path(f"{stem}-curves.png"), where))
    if rest:
        drawn.append(_dots(study, rest, Path(f"{stem}-settings.png"), where))
    return drawn


def _surface(
    study: Study, rows: Sequence[Row], keys: tuple[str, str], stem: Path, where: str
) -> list[Figure]:
    """A heat map, and the same values as curves over the first key."""
    first, second = (sorted({row.setting[key] for row in rows}) for key in keys)
    place = {(row.setting[keys[0]], row.setting[keys[1]]): row for row in rows}
    best = chosen(study).get(rows[0].method)
    framed = None
    if best is not None and set(best.setting) == set(keys):
        framed = (second.index(best.setting[keys[1]]), first.index(best.setting[keys[0]]))
    grid = Grid([value_text(b) for b in second], [value_text(a) for a in first], keys[1], keys[0], framed)
    maps = {}
    for column in SHOWN:
        means = {setting: row.column(column).mean for setting, row in place.items()}
        maps[column] = np.array([[means.get((a, b), math.nan) for a in first] for b in second])
    name = rows[0].name
    map_file, curve_file = (stem.with_name(f"{stem.name}-{what}.png") for what in ("map", "curves"))
    draw_value_maps(grid, maps, map_file)
    by_second = {
        f"{keys[1]} = {value_text(b)}": [row for row in rows if row.setting[keys[1]] == b] for b in second
    }
    panels = [
        CurvePanel(column, keys[0], {name: _curve(own, keys[0], column) for name, own in by_second.items()})
        for column in SHOWN
    ]
    draw_setting_curves([panels], curve_file)
    return [
        Figure(map_file, f"{name}, {where}: test images, percent; framed: chosen on validation."),
        Figure(curve_file, f"{name}, {where}: the same as curves over {keys[0]}."),
    ]


def _curves(lines: dict[str, list[Row]], flat: Sequence[Row], path: Path, where: str) -> Figure:
    """One row of panels per setting, one line per method."""
    panels = []
    for place, (key, rows) in enumerate(lines.items()):
        row_of_panels = []
        for column in SHOWN:
            curves = {
                name: _curve([row for row in rows if row.name == name], key, column)
                for name in dict.fromkeys(row.name for row in rows)
            }
            level = {row.name: row.column(column).mean for row in flat} if place == 0 else {}
            text = " / ".join(dict.fromkeys(setting_text(row.setting) for row in flat))
            row_of_panels.append(CurvePanel(column, key, curves, level, text))
        panels.append(row_of_panels)
    draw_setting_curves(panels, path)
    several = any(len(row.runs) > 1 for rows in lines.values() for row in rows)
    spread = "with the spread over seeds" if several else "one seed: small steps may be noise"
    return Figure(path, f"{where}: scores on the test images by setting, {spread}.")


def _radars(study: Study, path: Path, where: str) -> Figure:
    panels = {
        name: {
            setting_text(row.setting): np.array([row.column(column).mean for column in METRICS])
            for row in study.done
            if row.name == name
        }
        for name in dict.fromkeys(row.name for row in study.done)
    }
    draw_radars(list(METRICS), panels, path)
    return Figure(path, f"{where}: every spoke has its own range, from the worst to the best value found.")


def _dots(study: Study, rows: Sequence[Row], path: Path, where: str) -> Figure:
    keys = setting_keys(rows)
    names = [_row_name(row, keys) for row in rows]
    panels = {column: means_and_sds(row.column(column) for row in rows) for column in METRICS}
    best = [_row_name(row, keys) for row in chosen(study).values() if row in rows]
    draw_score_dots(names, panels, path, chosen=best)
    return Figure(path, f"{where}: {', '.join(keys) or 'the defaults'} over the seven columns, test images.")


def _row_name(row: Row, keys: Sequence[str]) -> str:
    """Method and setting; the value alone where one setting varies."""
    one = len(keys) == 1 and keys[0] in row.setting
    return f"{row.name}: {value_text(row.setting[keys[0]]) if one else setting_text(row.setting)}"


def _curve(rows: Sequence[Row], key: str, column: str) -> Curve:
    ordered = sorted(rows, key=lambda row: float(row.setting[key]))
    x = np.array([float(row.setting[key]) for row in ordered])
    return Curve(x, *means_and_sds(row.column(column) for row in ordered))


def _numeric(keys: Sequence[str], rows: Sequence[Row]) -> bool:
    """Whether all values are numbers, and some setting has more than one."""
    values = [row.setting[key] for row in rows for key in keys]
    return all(map(is_number, values)) and len(set(values)) > 1
