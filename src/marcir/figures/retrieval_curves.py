"""Curves of rankings by threshold and by rank, one line per model."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from marcir.checks import check_int
from marcir.figures.canvas import figure
from marcir.figures.series import check_series, draw_legend, line_look, series_styles
from marcir.figures.texts import short_number


def draw_precision_by_threshold(
    thresholds: np.ndarray, curves: Mapping[str, np.ndarray], cutoff: int, path: str | Path
) -> None:
    """Draw the precision of the first hits against the overlap that counts as relevant.

    Args:
        thresholds: A hit is relevant where J >= threshold. (T,)
        curves: By model, the share of relevant hits among the first `cutoff`, mean over queries. (T,)
        cutoff: Number of hits per query.
        path: Where the PNG goes.

    Raises:
        ConfigError: Without models or thresholds, or where a curve is not as long as `thresholds`.
    """
    check_int("cutoff", cutoff, least=1)
    check_series("precision by threshold", curves, len(thresholds), "thresholds")
    hits = "hit" if cutoff == 1 else f"{cutoff} hits"
    with figure(path, 8.4, 4.6) as drawn:
        axes = drawn.subplots()
        for name, style in series_styles(list(curves)).items():
            axes.plot(thresholds, 100 * np.asarray(curves[name]), **line_look(style))
        axes.set_title(f"Precision of the first {hits} by overlap threshold", fontsize=11, loc="left")
        axes.set_xlabel("threshold t: a hit is relevant where J ≥ t")
        axes.set_ylabel("relevant hits, %")
        axes.set_ylim(-2, 102)
        axes.grid(alpha=0.3)
        draw_legend(drawn, list(curves))


def draw_overlap_by_rank(curves: Mapping[str, np.ndarray], path: str | Path) -> None:
    """Draw the mean overlap of the query with the hit at each rank.

    Args:
        curves: By model, the mean J of the hit at rank 1..K over queries; K may differ. (K,)
        path: Where the PNG goes.

    Raises:
        ConfigError: Without models, or where a curve is empty.
    """
    check_series("overlap by rank", curves)
    last = max(len(curve) for curve in curves.values())
    with figure(path, 8.4, 4.6) as drawn:
        axes = drawn.subplots()
        for name, style in series_styles(list(curves)).items():
            ranks = np.arange(1, len(curves[name]) + 1)
            axes.plot(ranks, curves[name], markevery=_log_spaced(len(ranks)), **line_look(style))
        axes.set_xscale("log")
        axes.set_xlim(0.92, 1.09 * max(last, 2))
        axes.set_xticks(_round_numbers(last), map(short_number, _round_numbers(last)))
        axes.set_xticks([], minor=True)
        axes.set_ylim(-0.02, 1.02)
        axes.set_title("Label overlap of query and hit by rank", fontsize=11, loc="left")
        axes.set_xlabel("rank of the hit")
        axes.set_ylabel("mean J over queries")
        axes.grid(alpha=0.3)
        draw_legend(drawn, list(curves))


def _log_spaced(ranks: int) -> list[int]:
    """Positions of markers, evenly spaced on a log axis."""
    return sorted(set(np.geomspace(1, ranks, 12).round().astype(int) - 1))


def _round_numbers(last: int) -> list[int]:
    numbers = [digit * 10**power for power in range(len(str(last))) for digit in (1, 2, 5)]
    return [number for number in numbers if number <= last]
