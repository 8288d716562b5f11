"""Cosine similarity of pairs by the overlap of their labels."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from marcir.figures.canvas import figure
from marcir.figures.series import check_series, draw_legend, line_look, series_styles
from marcir.figures.texts import short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_similarity_by_overlap(
    edges: np.ndarray,
    series: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
    path: str | Path,
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
    bins = len(edges)
    for part, what in enumerate(("means", "standard deviations", "pair counts")):
        columns = {name: values[part] for name, values in series.items()}
        check_series(f"similarity by overlap, {what}", columns, bins, "bins")
    with figure(path, max(8.4, 3.4 + 0.75 * bins), 6.2) as drawn:
        upper, lower = drawn.subplots(2, sharex=True, height_ratios=(3, 1))
        for name, place in _dodged(list(series)).items():
            mean, sd, count = (np.asarray(part, dtype=float) for part in series[name])
            mean = np.where(count > 0, mean, np.nan)  # an empty bin has no mean
            look = line_look(series_styles(list(series))[name])
            upper.errorbar(
                np.arange(bins) + place,
                mean,
                np.nan_to_num(sd),
                capsize=2,
                elinewidth=0.9,
                ecolor=(look["color"], 0.6),
                **look,
            )
        _draw_pairs(lower, {name: np.asarray(values[2]) for name, values in series.items()})
        lower.set_xticks(range(bins), _bin_names(edges), fontsize=8)
        lower.set_xlabel("J of the pair")
        upper.set_ylabel("cosine, mean ± sd")
        upper.set_title("Similarity of pairs by label overlap", fontsize=11, loc="left")
        upper.grid(alpha=0.3)
        draw_legend(drawn, list(series))


def _dodged(names: Sequence[str]) -> dict[str, float]:
    """Small shifts along the axis, so that error bars do not overlap."""
    step = min(0.1, 0.6 / len(names))
    return {name: step * (place - (len(names) - 1) / 2) for place, name in enumerate(names)}


def _draw_pairs(axes: "Axes", counts: Mapping[str, np.ndarray]) -> None:
    """Draw the number of pairs in each bin: one bar where it is the same for all models."""
    first = next(iter(counts.values()))
    if all(np.array_equal(count, first) for count in counts.values()):
        axes.bar(range(len(first)), first, 0.7, color="#bdbdbd")
        for x, count in enumerate(first.tolist()):
            axes.annotate(
                short_number(count),
                (x, max(count, 1)),
                (0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
    else:
        for name, place in _dodged(list(counts)).items():
            look = {**line_look(series_styles(list(counts))[name]), "linestyle": ""}
            axes.plot(
                np.arange(len(first)) + place, counts[name], **{**look, "marker": look["marker"] or "_"}
            )
    axes.set_ylim(
        0.7, 8 * max(10, *(count.max() for count in counts.values()))
    )  # before the log scale, which refuses zeros
    axes.set_yscale("log")
    axes.set_ylabel("pairs")


def _bin_names(edges: np.ndarray) -> list[str]:
    first = f"[0, {edges[0]:.3g}]" if edges[0] > 0 else "0"
    return [first, *(f"({low:.3g}, {high:.3g}]" for low, high in pairwise(edges))]
