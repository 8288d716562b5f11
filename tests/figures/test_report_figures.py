"""Figures of the report: written, within their edges, and true to what they are given."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from marcir.errors import ConfigError
from marcir.figures.bars import draw_pair_influence
from marcir.figures.embedding_map import draw_embedding_maps
from marcir.figures.heat_maps import Grid, draw_value_maps
from marcir.figures.score_dots import draw_score_dots
from marcir.figures.setting_curves import Curve, CurvePanel, draw_radars, draw_setting_curves

METHODS = [*(f"method {number}" for number in range(11)), "a$b$", "_hidden", "contrastive " * 5]
COLUMNS = ["mAP(sim)@5000", "nDCG(sim)@100", "mAP@J0.4", "mAP@J0.6", "mAP@J0.8", "nDCG@100", "wAP@100"]
RNG = np.random.default_rng(0)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Every figure that is saved."""
    found: list[Figure] = []
    plain = Figure.savefig

    def saved(figure: Figure, *rest: Any, **options: Any) -> None:
        found.append(figure)
        plain(figure, *rest, **options)

    monkeypatch.setattr(Figure, "savefig", saved)
    return found


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_visible() and text.get_text()]


def assert_is_whole(figure: Figure, path: Path) -> None:
    """The PNG is there, and no text is cut off at its edges."""
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        pixels = np.asarray(picture.convert("L"))
    assert min(pixels.shape) > 150
    rim = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    assert (rim > 250).all()


def test_equal_methods_share_the_ring_of_the_best(drawn: list[Figure], tmp_path: Path) -> None:
    panels = {"nDCG@100": (np.array([0.5, 0.7, 0.7, np.nan]), np.full(4, np.nan))}
    draw_score_dots(["a", "b", "c", "d"], panels, tmp_path / "dots.png")
    rings = drawn[0].axes[0].lines[-1]
    assert np.asarray(rings.get_ydata()).tolist() == [1, 2]


def test_fourteen_methods_over_eight_columns_stay_apart(drawn: list[Figure], tmp_path: Path) -> None:
    panels = {name: (RNG.random(14), np.full(14, 0.01)) for name in [*COLUMNS, "tail"]}
    path = tmp_path / "dots.png"
    draw_score_dots(METHODS, panels, path, highlighted=METHODS[:2], lines={"untrained": {"nDCG@100": 0.5}})
    assert_is_whole(drawn[0], path)
    renderer = FigureCanvasAgg(drawn[0]).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in drawn[0].axes[0].get_yticklabels()]
    assert all(upper.y0 > lower.y1 for upper, lower in pairwise(boxes))
    assert "untrained" in " ".join(words(drawn[0]))


def test_the_ring_is_at_the_best_dot_or_at_the_chosen_one(drawn: list[Figure], tmp_path: Path) -> None:
    panels = {"nDCG@100": (np.array([0.2, 0.7, np.nan]), np.full(3, np.nan))}
    draw_score_dots(["a", "b", "c"], panels, tmp_path / "best.png")
    draw_score_dots(["a", "b", "c"], panels, tmp_path / "chosen.png", chosen=["a"])
    rings = [
        next(line for line in figure.axes[0].lines if line.get_markerfacecolor() == "none")
        for figure in drawn
    ]
    assert [ring.get_xydata().tolist() for ring in rings] == [[[70.0, 1.0]], [[20.0, 0.0]]]
    assert any("ring: best" in text for text in words(drawn[0]))
    assert any("ring: chosen on validation" in text for text in words(drawn[1]))


def test_a_map_writes_every_number_and_frames_one(drawn: list[Figure], tmp_path: Path) -> None:
    values = np.array([[0.1, 0.25], [np.nan, 0.5]])
    path = tmp_path / "map.png"
    draw_value_maps(Grid(["x", "y"], ["0", "1"], "beta", "alpha", framed=(1, 1)), {"nDCG@100": values}, path)
    assert_is_whole(drawn[0], path)
    assert {"10.0", "25.0", "-", "50.0", "beta", "alpha", "nDCG@100"} <= set(words(drawn[0]))
    assert {patch.get_xy() for patch in drawn[0].axes[0].patches} == {(0.53, 0.55)}


def test_curves_have_their_methods_styles_and_level_lines(drawn: list[Figure], tmp_path: Path) -> None:
    x = np.array([0.05, 0.1, 0.3])
    curves = {name: Curve(x, RNG.random(3), np.full(3, 0.01)) for name in METHODS}
    panel = CurvePanel("nDCG@100", "tau", curves, {METHODS[0]: 0.4}, "tau_mode = direct")
    other = CurvePanel("nDCG@100", "anneal", {METHODS[1]: Curve(x / 10, RNG.random(3), np.full(3, np.nan))})
    path = tmp_path / "curves.png"
    draw_setting_curves([[panel], [other]], path)
    assert_is_whole(drawn[0], path)
    level = next(line for line in drawn[0].axes[0].lines if line.get_linestyle() == ":")
    first = drawn[0].axes[0].containers[0].lines[0]
    assert level.get_color() == first.get_color()
    looks = {
        (line.get_color(), line.get_marker(), line.get_linestyle())
        for line in (each.lines[0] for each in drawn[0].axes[0].containers)
    }
    assert len(looks) == len(METHODS)
    assert drawn[0].axes[0].get_ylim() == drawn[0].axes[1].get_ylim()


def test_panels_of_one_measure_share_their_range_and_the_last_row_may_be_shorter(
    drawn: list[Figure], tmp_path: Path
) -> None:
    panels = [
        CurvePanel(f"panel {k}", "share", {"MARC": Curve(np.array([0.3, 0.6]), RNG.random(2), RNG.random(2))})
        for k in range(3)
    ]
    panels[2] = replace(panels[2], flat={"none hidden": 0.9})
    draw_setting_curves([panels[:2], panels[2:]], tmp_path / "panels.png", same_range=True)
    assert_is_whole(drawn[0], tmp_path / "panels.png")
    assert len({axes.get_ylim() for axes in drawn[0].axes}) == 1
    assert [axes.axison for axes in drawn[0].axes] == [True, True, True, False]
    legend = {text.get_text(): line for text, line in zip(*_legend(drawn[0]), strict=True)}
    assert (legend["none hidden"].get_linestyle(), legend["none hidden"].get_marker()) == (":", "")
    assert legend["MARC"].get_linestyle() == "-"


def _legend(figure: Figure) -> tuple[list[Any], list[Any]]:
    (legend,) = figure.legends
    return legend.get_texts(), legend.get_lines()


def test_settings_that_span_much_have_a_logarithmic_axis(drawn: list[Figure], tmp_path: Path) -> None:
    for x in ([0.001, 0.01, 0.1], [0.1, 0.2, 0.3], [0.0, 0.01, 1.0]):
        curve = Curve(np.array(x), RNG.random(3), np.full(3, np.nan))
        draw_setting_curves([[CurvePanel("wAP@100", "lr", {"MARC": curve})]], tmp_path / "curve.png")
    assert [figure.axes[0].get_xscale() for figure in drawn] == ["log", "linear", "linear"]


def test_radars_share_the_range_of_every_spoke_and_say_it(drawn: list[Figure], tmp_path: Path) -> None:
    panels = {
        "MARC": {"lr = 0.1": np.linspace(0.1, 0.7, 7), "lr = 0.01": np.linspace(0.2, 0.8, 7)},
        "Wg-MARC": {"lr = 0.1": np.linspace(0.3, 0.9, 7)},
    }
    path = tmp_path / "radar.png"
    draw_radars(COLUMNS, panels, path)
    assert_is_whole(drawn[0], path)
    assert words(drawn[0]).count("mAP(sim)@5000\n10.0 to 30.0") == 2
    rims = [line.get_ydata()[0] for axes in drawn[0].axes for line in axes.lines]
    assert rims == pytest.approx([0.2, 0.6, 1.0])


def test_influence_has_a_bar_for_every_partner_and_method(drawn: list[Figure], tmp_path: Path) -> None:
    panels = {
        "gamma = w/T": {"MARC": np.array([2.0, 1.0])},
        "T": {"MARC": np.array([0.2, 0.6]), "ours": np.array([0.2, 0.1])},
    }
    path = tmp_path / "influence.png"
    draw_pair_influence("dock, sea", ["dock, sea  (f = 3)", "sea  (f = 9)"], panels, path)
    assert_is_whole(drawn[0], path)
    assert [[bar.get_width() for bar in axes.patches] for axes in drawn[0].axes] == [
        [2.0, 1.0],
        [0.2, 0.6, 0.2, 0.1],
    ]


def test_embedding_maps_show_every_image_once(drawn: list[Figure], tmp_path: Path) -> None:
    groups = [*["dock"] * 5, *["chance"] * 4, *["tree"] * 11, ""]
    path = tmp_path / "maps.png"
    draw_embedding_maps(
        {"MARC": RNG.random((21, 2)), "ours": RNG.random((21, 2))}, groups, ["dock", "chance"], path
    )
    assert_is_whole(drawn[0], path)
    for axes in drawn[0].axes:
        assert sum(len(points.get_offsets()) for points in axes.collections) == 21


@pytest.mark.parametrize(
    "draw",
    [
        lambda path: draw_score_dots([], {}, path),
        lambda path: draw_score_dots(["a"], {"x": (np.zeros(2), np.zeros(2))}, path),
        lambda path: draw_value_maps(Grid(["a"], ["b"]), {"x": np.zeros((2, 2))}, path),
        lambda path: draw_setting_curves([], path),
        lambda path: draw_setting_curves([[CurvePanel("x", "tau", {})]], path),
        lambda path: draw_radars(["a", "b"], {"x": {"y": np.zeros(2)}}, path),
        lambda path: draw_pair_influence("a", ["b"], {}, path),
        lambda path: draw_embedding_maps({"x": np.zeros((2, 3))}, ["a", "b"], ["a"], path),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_a_file_is_begun(draw: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        draw(tmp_path / "figure.png")
    assert not list(tmp_path.iterdir())
