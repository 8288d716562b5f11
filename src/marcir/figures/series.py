"""Styles of models in figures: colours, lines, markers, hatches, and the legend."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from marcir.errors import ConfigError
from marcir.figures.canvas import escaped, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours without yellow, which is too pale for lines: safe for the colour-blind.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*", "d", "8")
HATCHES = (
    *("", "///", "...", "\\\\\\", "xxx", "---", "ooo", "|||"),
    *("+++", "//..", "OO", "**", "\\\\--", "xx.."),
)
REFERENCES = {"chance": "dashed", "oracle": "dotted"}  # reference scores: grey, without a marker
GREY = "#707070"
_DOTTED = {"linestyle": "dotted", "linewidth": 1.8, "marker": ""}


@dataclass(frozen=True)
class SeriesStyle:
    """Style of a model; line and marker, or hatch, distinguish models without the colour."""

    colour: str
    line: str
    marker: str
    face: str
    hatch: str
    reference: bool


def series_styles(names: Sequence[str]) -> dict[str, SeriesStyle]:
    """Assign a style to each name; "chance" and "oracle" are grey and use up no colour.

    Colour, line, marker and hatch together differ for at least 14 models.

    >>> styles = series_styles(["chance", "MARC", "SupCon"])
    >>> styles["chance"].line, styles["MARC"].marker, styles["SupCon"].marker
    ('dashed', 'o', 's')
    """
    models = [name for name in names if name.lower() not in REFERENCES]
    styles = {name: _model_style(place) for place, name in enumerate(models)}
    for name in names:
        if name not in styles:
            styles[name] = SeriesStyle(GREY, REFERENCES[name.lower()], "", GREY, "", reference=True)
    return styles


def _model_style(place: int) -> SeriesStyle:
    colour = COLOURS[place % len(COLOURS)]
    second = place // len(COLOURS) % 2 == 1  # second use of a colour: other lines, hollow markers
    return SeriesStyle(
        colour=colour,
        line="dashdot" if second else "solid",
        marker=MARKERS[place % len(MARKERS)],
        face="white" if second else colour,
        hatch=HATCHES[place % len(HATCHES)],
        reference=False,
    )


def line_look(style: SeriesStyle) -> dict[str, Any]:
    """Keyword arguments of matplotlib for a line."""
    return {
        "color": style.colour,
        "linestyle": style.line,
        "linewidth": 1.6 if style.reference else 1.3,
        "zorder": 1.9 if style.reference else 2,  # under the models
        "marker": style.marker,
        "markersize": 5.5,
        "markerfacecolor": style.face,
    }


def bar_look(style: SeriesStyle) -> dict[str, Any]:
    """Keyword arguments of matplotlib for a bar."""
    return {"facecolor": style.colour, "hatch": style.hatch, "edgecolor": "white", "linewidth": 0}


def dodged(names: Sequence[str], step: float) -> dict[str, float]:
    """Shifts of models along an axis, `step` apart around 0, so that they do not overlap."""
    return {name: step * (place - (len(names) - 1) / 2) for place, name in enumerate(names)}


def check_series(
    figure_name: str, series: Mapping[str, np.ndarray], length: int | None = None, of: str = "ranks"
) -> None:
    """Check that there are models, each with `length` values; None for any number.

    Raises:
        ConfigError: Names the figure and the model.
    """
    if not series:
        raise ConfigError(f"{figure_name}: no models. Give at least one.")
    if length is not None and length < 1:
        raise ConfigError(f"{figure_name}: no {of}. Give at least one.")
    for name, values in series.items():
        shape = np.shape(values)
        if len(shape) != 1 or not shape[0] or shape[0] != (length or shape[0]):
            number = f"{length} {of}" if length else of
            raise ConfigError(
                f"{figure_name}: '{name}' has shape {shape}. Give one value for each of the {number}."
            )


def draw_legend(
    drawn: "Figure",
    names: Sequence[str],
    bars: bool = False,
    gaps: bool = False,
    dotted: Collection[str] = (),
) -> None:
    """Draw the legend to the right of the axes.

    Args:
        drawn: The figure.
        names: The models, in their order.
        bars: Models are bars, not lines.
        gaps: Explain the cross of a missing value.
        dotted: Models that are drawn as dotted lines without markers.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(**bar_look(style))
        if bars and not style.reference
        else Line2D([], [], **line_look(style) | (_DOTTED if name in dotted else {}))
        for name, style in series_styles(names).items()
    ]
    texts = [escaped(shortened(name, 28)) for name in series_styles(names)]
    if gaps:
        handles.append(Line2D([], [], color=GREY, marker="x", linestyle=""))
        texts.append("no value")
    drawn.legend(handles, texts, loc="outside right upper", fontsize=8, handlelength=3.2, handleheight=1.2)
