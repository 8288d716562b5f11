"""Bars: the AP of each label, and the influence of pairs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from marcir.errors import ConfigError
from marcir.figures.canvas import escaped, figure, shortened
from marcir.figures.series import (
    GREY,
    REFERENCES,
    bar_look,
    check_series,
    dodged,
    draw_legend,
    series_styles,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARS_PER_PANEL, LABELS_PER_PANEL = 150, 40  # more would be unreadable
LEGEND, NAME_WIDTH = 2.9, 0.8  # inches
LETTERS = 52  # of a partner's labels


def draw_label_bars(
    names: Sequence[str], counts: np.ndarray, series: Mapping[str, np.ndarray], path: str | Path
) -> None:
    """Draw the AP of each label, from the most frequent label of training to the rarest.

    Bars are grouped by label; "chance" and "oracle" are lines across a group; a cross marks a
    missing value (nan). The rarest third of the labels, rounded up, is shaded.

    Args:
        names: Label names. (L,)
        counts: Training images that carry each label. (L,)
        series: By model, the AP of each label in 0..1. (L,)
        path: Where the PNG goes.

    Raises:
        ConfigError: Without labels or models, or where lengths differ.
    """
    check_series("label bars", series, len(names), "labels")
    if len(counts) != len(names):
        raise ConfigError(f"label bars: {len(counts)} counts for {len(names)} labels. Give one per label.")
    # Reversed, so that ties are broken as in the `tail` score.
    order = np.argsort(counts, kind="stable")[::-1]  # (L,)
    panels = _panels(order, sum(name.lower() not in REFERENCES for name in series))
    labels = len(panels[0])
    width = float(np.clip(max(0.28, 0.08 * len(series)) * labels, 4.5, 11.5))
    height = 2.5 if width / labels >= NAME_WIDTH else 3.1  # rotated names need more
    with figure(path, width + LEGEND, height * len(panels) + 0.6) as drawn:
        grid = drawn.subplots(len(panels), squeeze=False)[:, 0]
        for place, (axes, shown) in enumerate(zip(grid, panels, strict=True)):
            _draw_bars(axes, {name: 100 * np.asarray(values)[shown] for name, values in series.items()})
            _name_labels(axes, [(names[label], int(counts[label])) for label in shown], width / labels)
            axes.set_xlim(-0.6, labels - 0.4)
            _shade_tail(axes, tail_start(len(names)) - place * labels, len(shown))
        drawn.suptitle(
            "AP by label, most frequent first (images with the label)", fontsize=11, x=0.01, ha="left"
        )
        gaps = any(not np.isfinite(values).all() for values in series.values())
        draw_legend(drawn, list(series), bars=True, gaps=gaps)


def tail_start(labels: int) -> int:
    """Index of the first label of the rarest third, rounded up, in descending order of count.

    >>> tail_start(17), tail_start(1)
    (11, 0)
    """
    return labels - -(-labels // 3)


def _panels(order: np.ndarray, bars: int) -> list[np.ndarray]:
    """Split the labels into as few readable panels as possible."""
    rows = max(-(-len(order) * bars // BARS_PER_PANEL), -(-len(order) // LABELS_PER_PANEL))
    each = -(-len(order) // max(rows, 1))
    return [order[start : start + each] for start in range(0, len(order), each)]


def _name_labels(axes: "Axes", labels: Sequence[tuple[str, int]], width: float) -> None:
    """Write names and counts under the groups, rotated where `width` inches are too few."""
    if width >= NAME_WIDTH:
        letters = int(12 * width)  # at 8 points
        texts = [f"{fill(shortened(name, 24), letters)}\n({count:,})" for name, count in labels]
        axes.set_xticks(range(len(texts)), map(escaped, texts), fontsize=8)
    else:
        texts = [f"{shortened(name, 24)} ({count:,})" for name, count in labels]
        axes.set_xticks(range(len(texts)), map(escaped, texts), fontsize=8, rotation=45, ha="right")
        axes.tick_params(axis="x", pad=1)


def _draw_bars(axes: "Axes", values: Mapping[str, np.ndarray]) -> None:
    from matplotlib.patheffects import withStroke

    styles = series_styles(list(values))
    models = [name for name in values if not styles[name].reference]
    groups = np.arange(float(len(next(iter(values.values())))))
    width = 0.84 / max(len(models), 1)
    for name, shift in dodged(models, width).items():
        x, known = groups + shift, np.isfinite(values[name])
        axes.bar(x[known], values[name][known], width, **bar_look(styles[name]))
        axes.plot(x[~known], np.full(np.sum(~known), 2.5), "x", color=styles[name].colour, markersize=4)
    stroke = withStroke(linewidth=3.2, foreground="white")  # visible on every bar
    for name in values.keys() - set(models):
        look: Any = {"linestyle": styles[name].line, "linewidth": 1.6, "path_effects": [stroke]}
        axes.hlines(values[name], groups - 0.44, groups + 0.44, color=GREY, **look)
    axes.set(ylim=(0, 103), ylabel="AP, %")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)


def _shade_tail(axes: "Axes", start: int, labels: int) -> None:
    if start < labels:
        left = max(start, 0) - 0.5
        axes.axvspan(left, labels - 0.5, color="#000000", alpha=0.08, zorder=0, linewidth=0)
        # Above the axes, clear of the bars.
        place: Any = {"xycoords": axes.get_xaxis_transform(), "xytext": (0, 3), "textcoords": "offset points"}
        axes.annotate("tail: rarest third", (left, 1), **place, fontsize=8)


def draw_pair_influence(
    anchor: str, partners: Sequence[str], panels: Mapping[str, Mapping[str, np.ndarray]], path: str | Path
) -> None:
    """Draw bars for every partner of an anchor, the fullest match at the top, one panel per quantity.

    Args:
        anchor: The anchor's labels as text.
        partners: The partners' labels as text. (P,)
        panels: By quantity and method, one value per partner. (P,)
        path: Where the PNG goes.

    Raises:
        ConfigError: Without partners or panels, or where lengths differ.
    """
    if not panels:
        raise ConfigError("pair influence: no panels. Give at least one.")
    for title, panel in panels.items():
        check_series(f"pair influence, {title}", panel, len(partners), "partners")
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    styles = series_styles(names)
    texts = [shortened(text, LETTERS) for text in partners]
    width, height = 2.7 * len(panels) + 0.06 * max(map(len, texts)) + 2.3, 0.4 * len(partners) + 1.3
    with figure(path, width, height) as drawn:
        grid = drawn.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, (title, panel) in zip(grid, panels.items(), strict=True):
            high = 0.8 / len(panel)
            for name, shift in dodged(list(panel), high).items():
                y = np.arange(len(partners)) + shift
                bars = axes.barh(y, panel[name], high, **bar_look(styles[name]))
                axes.bar_label(bars, fmt="%.3g", fontsize=7, padding=2)
            axes.set_title(escaped(fill(title, 34)), fontsize=9, loc="left")
            axes.margins(x=0.16)
            axes.grid(axis="x", alpha=0.3)
            axes.set_axisbelow(True)
            axes.tick_params(axis="x", labelsize=8)
        grid[0].set_yticks(range(len(partners)), map(escaped, texts), fontsize=8)
        grid[0].set_ylim(len(partners) - 0.4, -0.6)
        drawn.suptitle(escaped(f"Partners of an anchor with: {anchor}"), fontsize=10, x=0.01, ha="left")
        draw_legend(drawn, names, bars=True)
