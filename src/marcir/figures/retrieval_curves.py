"""Curves of rankings, one line per model: by threshold, by rank, and by the overlap of labels."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marcir.checks import check_int
from marcir.figures.canvas import figure
from marcir.figures.series import check_series, dodged, draw_legend, line_look, series_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        axes.set(xlabel="threshold t: a hit is relevant where J ≥ t", ylabel="relevant hits, %")
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
        axes.set_xticks(_round_numbers(last), map(short_number, _round_numbers(last)))
        axes.set_xticks([], minor=True)
        axes.set(xlim=(0.92, 1.09 * max(last, 2)), ylim=(-0.02, 1.02))
        axes.set_title("Label overlap of query and hit by rank", fontsize=11, loc="left")
        axes.set(xlabel="rank of the hit", ylabel="mean J over queries")
        axes.grid(alpha=0.3)
        draw_legend(drawn, list(curves))


def _log_spaced(ranks: int) -> list[int]:
    """Positions of markers, evenly spaced on a log axis."""
    return sorted(set(np.geomspace(1, ranks, 12).round().astype(int) - 1))


def _round_numbers(last: int) -> list[int]:
    numbers = [digit * 10**power for power in range(len(str(last))) for digit in (1, 2, 5)]
    return [number for number in numbers if number <= last]


def short_number(count: float) -> str:
    """Abbreviate a count.

    >>> short_number(848), short_number(54_840), short_number(2_500_000)
    ('848', '54.84k', '2.5M')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.4g}{unit}"
    return f"{count:.0f}"


def draw_similarity_by_overlap(
    edges: np.ndarray, series: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]], path: str | Path
) -> None:
    """Draw the cosine of pairs of images by the overlap of their labels, and the number of pairs.

    Args:
        edges: Upper edges of the bins of J, inclusive: 0, 0.1, 0.2 ... are the bins J = 0,
            (0, 0.1], (0.1, 0.2] ... (T,)
        series: By model, the mean and the standard deviation of the cosine and the number of pairs in each
            bin. 3 x (T,)
        path: Where the PNG goes.

    Raises:
        ConfigError: Without models or bins, or where lengths differ.
    """
    bins, names = len(edges), list(series)
    for part, what in enumerate(("means", "standard deviations", "pair counts")):
        columns = {name: values[part] for name, values in series.items()}
        check_series(f"similarity by overlap, {what}", columns, bins, "bins")
    styles = series_styles(names)
    shifts = dodged(names, min(0.1, 0.6 / len(names)))  # error bars must not overlap
    with figure(path, max(8.4, 3.4 + 0.75 * bins), 6.2) as drawn:
        upper, lower = drawn.subplots(2, sharex=True, height_ratios=(3, 1))
        for name, shift in shifts.items():
            mean, sd, count = (np.asarray(part, dtype=float) for part in series[name])
            mean = np.where(count > 0, mean, np.nan)  # an empty bin has no mean
            look: Any = {"capsize": 2, "elinewidth": 0.9, "ecolor": (styles[name].colour, 0.6)}
            upper.errorbar(
                np.arange(bins) + shift, mean, np.nan_to_num(sd), **look, **line_look(styles[name])
            )
        _draw_pairs(lower, {name: np.asarray(values[2]) for name, values in series.items()}, shifts)
        first = f"[0, {edges[0]:.3g}]" if edges[0] > 0 else "0"
        texts = [first, *(f"({low:.3g}, {high:.3g}]" for low, high in pairwise(edges))]
        lower.set_xticks(range(bins), texts, fontsize=8)
        lower.set_xlabel("J of the pair")
        upper.set_ylabel("cosine, mean ± sd")
        upper.set_title("Similarity of pairs by label overlap", fontsize=11, loc="left")
        upper.grid(alpha=0.3)
        draw_legend(drawn, names)


def _draw_pairs(axes: "Axes", counts: Mapping[str, np.ndarray], shifts: Mapping[str, float]) -> None:
    """Draw the number of pairs in each bin: one bar where it is the same for all models."""
    first = next(iter(counts.values()))
    if all(np.array_equal(count, first) for count in counts.values()):
        axes.bar(range(len(first)), first, 0.7, color="#bdbdbd")
        above: Any = {"xytext": (0, 2), "textcoords": "offset points", "ha": "center", "fontsize": 8}
        for x, count in enumerate(first.tolist()):
            axes.annotate(short_number(count), (x, max(count, 1)), **above)
    else:
        styles = series_styles(list(counts))
        for name, shift in shifts.items():
            look = {**line_look(styles[name]), "linestyle": "", "marker": styles[name].marker or "_"}
            axes.plot(np.arange(len(first)) + shift, counts[name], **look)
    # Before the log scale, which refuses zeros.
    axes.set_ylim(0.7, 8 * max(10, *(count.max() for count in counts.values())))
    axes.set_yscale("log")
    axes.set_ylabel("pairs")
