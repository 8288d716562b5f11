"""Bars of the influence of pairs: one anchor, and partners by their shared labels."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill

import numpy as np

from marcir.errors import ConfigError
from marcir.figures.canvas import figure
from marcir.figures.series import bar_look, check_series, draw_legend, series_styles
from marcir.figures.texts import escaped, shortened

LETTERS = 52  # of a partner's labels


def draw_pair_influence(
    anchor: str, partners: Sequence[str], panels: Mapping[str, Mapping[str, np.ndarray]], path: str | Path
) -> None:
    """Draw bars for every partner, the fullest match at the top, one panel per quantity.

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
    longest = max(len(shortened(text, LETTERS)) for text in partners)
    with figure(path, 2.7 * len(panels) + 0.06 * longest + 2.3, 0.4 * len(partners) + 1.3) as drawn:
        grid = drawn.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, (title, panel) in zip(grid, panels.items(), strict=True):
            high = 0.8 / len(panel)
            for place, (name, values) in enumerate(panel.items()):
                y = np.arange(len(partners)) + (place - (len(panel) - 1) / 2) * high
                bars = axes.barh(y, values, high, **bar_look(styles[name]))
                axes.bar_label(bars, fmt="%.3g", fontsize=7, padding=2)
            axes.set_title(escaped(fill(title, 34)), fontsize=9, loc="left")
            axes.margins(x=0.16)
            axes.grid(axis="x", alpha=0.3)
            axes.set_axisbelow(True)
            axes.tick_params(axis="x", labelsize=8)
        texts = [escaped(shortened(text, LETTERS)) for text in partners]
        grid[0].set_yticks(range(len(partners)), texts, fontsize=8)
        grid[0].set_ylim(len(partners) - 0.4, -0.6)
        drawn.suptitle(escaped(f"Partners of an anchor with: {anchor}"), fontsize=10, x=0.01, ha="left")
        draw_legend(drawn, names, bars=True)
