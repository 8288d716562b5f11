"""Figures of ablations: curves for one varied number, heat maps for two, dots for anything else."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marcir.experiments.record import slug
from marcir.experiments.report.ablation import chosen, setting_keys
from marcir.experiments.report.page import Figure
from marcir.experiments.report.runs import Row, Spread, Study, setting_text, value_text
from marcir.figures.heat_maps import Grid, draw_value_maps
from marcir.figures.score_dots import draw_score_dots
from marcir.figures.setting_curves import Curve, CurvePanel, draw_radars, draw_setting_curves
from marcir.metrics.retrieval_metrics import METRICS

SHOWN = ("mAP(sim)@5000", "nDCG@100")  # metrics of curves and maps
RADAR_STUDY = "lr"  # the study that the paper shows as radars


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
        flat = rest if _one_each(rest) else []
        rest = [row for row in rest if row not in flat]
        drawn.append(
            _curves({keys[0]: rows for keys, rows in lines.items()}, flat, Path(f"{stem}-curves.png"), where)
        )
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
    maps = {
        column: np.array([[_mean(place.get((a, b)), column) for a in first] for b in second])
        for column in SHOWN
    }
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


def means_and_sds(spreads: Iterable[Spread]) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations, nan where unknown. 2 x (M,)"""
    pairs = [(each.mean, math.nan if each.sd is None else each.sd) for each in spreads]
    means, sds = np.array(pairs).T
    return means, sds


def _curve(rows: Sequence[Row], key: str, column: str) -> Curve:
    ordered = sorted(rows, key=lambda row: float(row.setting[key]))
    x = np.array([float(row.setting[key]) for row in ordered])
    return Curve(x, *means_and_sds(row.column(column) for row in ordered))


def _mean(row: Row | None, column: str) -> float:
    return math.nan if row is None else row.column(column).mean


def _numeric(keys: Sequence[str], rows: Sequence[Row]) -> bool:
    """Whether all values are numbers, and some setting has more than one."""
    values: list[Any] = [row.setting[key] for row in rows for key in keys]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return numbers and len(set(values)) > 1


def _one_each(rows: Sequence[Row]) -> bool:
    """Whether every method has one row, so that each is one level line."""
    return len({row.name for row in rows}) == len(rows)
