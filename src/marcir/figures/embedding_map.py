"""Scatter plots of embeddings in two dimensions, coloured by label."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from marcir.errors import ConfigError
from marcir.figures.canvas import escaped, figure, shortened
from marcir.figures.series import GREY, series_styles

GROUPS = 13  # number of distinguishable styles


def draw_embedding_maps(
    maps: Mapping[str, np.ndarray], groups: Sequence[str], order: Sequence[str], path: str | Path
) -> None:
    """Draw one panel per method; a group has its colour and marker, other images are grey.

    Args:
        maps: By panel title, the position of each image. (N, 2)
        groups: The group of each image. (N,)
        order: The groups that get a colour, at most 13, in the legend's order.
        path: Where the PNG goes.

    Raises:
        ConfigError: Without maps or with too many groups, or where lengths differ.
    """
    if not maps or len(order) > GROUPS:
        raise ConfigError(f"embedding maps: give at least one map and at most {GROUPS} groups.")
    for title, points in maps.items():
        if np.shape(points) != (len(groups), 2):
            raise ConfigError(
                f"embedding maps: '{title}' has shape {np.shape(points)}, not ({len(groups)}, 2)."
            )
    from matplotlib.lines import Line2D

    member = np.array(groups)
    styles = series_styles([f" {name}" for name in order])  # a label named "chance" is no reference
    looks = {name: styles[f" {name}"] for name in order}
    with figure(path, 3.9 * len(maps) + 2.0, 4.2) as drawn:
        grid = drawn.subplots(1, len(maps), squeeze=False)[0]
        for axes, (title, points) in zip(grid, maps.items(), strict=True):
            rest = ~np.isin(member, list(order))
            axes.scatter(*points[rest].T, s=9, color="#c8c8c8", linewidth=0)
            for name in reversed(order):  # the rarest on top
                look = {"marker": looks[name].marker, "facecolor": looks[name].face}
                axes.scatter(
                    *points[member == name].T, s=22, edgecolor=looks[name].colour, linewidth=0.9, **look
                )
            axes.set_title(escaped(title), fontsize=10, loc="left")
            axes.set(xticks=[], yticks=[])
            axes.set_aspect("equal", adjustable="datalim")
        handles = [
            Line2D([], [], linestyle="", marker=look.marker, markerfacecolor=look.face, color=look.colour)
            for look in looks.values()
        ]
        names = [escaped(shortened(name, 24)) for name in order]
        if not set(groups) <= set(order):
            handles.append(Line2D([], [], linestyle="", marker=".", color=GREY))
            names.append("others")
        drawn.legend(handles, names, loc="outside right upper", fontsize=8)
