"""Figures of rankings: written, within their edges, and true to the thresholds."""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from marcir.errors import ConfigError
from marcir.figures import bars, canvas, retrieval_curves, retrieval_sheet
from marcir.figures.bars import draw_label_bars
from marcir.figures.canvas import fitted, shortened, text_width
from marcir.figures.retrieval_curves import (
    draw_overlap_by_rank,
    draw_precision_by_threshold,
    draw_similarity_by_overlap,
)
from marcir.figures.retrieval_sheet import (
    LEFT_OPEN,
    MATCH,
    MISS,
    PARTIAL,
    QUERY,
    SIZE,
    SheetExample,
    SheetHit,
    SheetRow,
    draw_retrieval_sheet,
    label_lines,
    verdict,
)
from marcir.figures.series import GREY as REFERENCE_GREY
from marcir.figures.series import series_styles

# With what matplotlib would take for a hidden name or a formula, and one that is too long.
MODELS = [*(f"model-{number}" for number in range(11)), "_hidden", "a$b$", "contrastive " * 5]
GREY = np.full((8, 8, 1), 0.5, dtype=np.float32)


class Seen:
    """What was drawn: figures, and the texts of each with their boxes in inches."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self._boxes: dict[Text, Bbox] = {}

    def note(self, text: Text, renderer: Any) -> None:
        if text.get_text().strip() and text.get_visible():
            box = text.get_window_extent(renderer)
            self._boxes[text] = Bbox(box.get_points() / text.get_figure(root=True).dpi)

    def boxes(self, figure: int = 0) -> list[Bbox]:
        return [
            box for text, box in self._boxes.items() if text.get_figure(root=True) is self.figures[figure]
        ]

    def words(self, figure: int = 0) -> list[str]:
        return [text.get_text() for text in self._boxes if text.get_figure(root=True) is self.figures[figure]]

    def is_whole(self, figure: int = 0) -> bool:
        """Whether all texts lie within the edges."""
        width, height = self.figures[figure].get_size_inches()
        return all(
            box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height for box in self.boxes(figure)
        )

    def level(self, axes: Axes) -> bool:
        """Whether the names along the axis are apart."""
        boxes = sorted((self._boxes[label] for label in axes.get_xticklabels()), key=lambda box: box.x0)
        return all(left.x1 < right.x0 for left, right in pairwise(boxes))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    seen = Seen()

    @contextmanager
    def watched(path: str | Path, width: float, height: float) -> Iterator[Figure]:
        with canvas.figure(path, width, height) as begun:
            seen.figures.append(begun)
            yield begun

    def draw(text: Text, renderer: Any, *rest: Any, **options: Any) -> None:
        seen.note(text, renderer)
        plain_draw(text, renderer, *rest, **options)

    plain_draw = Text.draw
    monkeypatch.setattr(Text, "draw", draw)
    for module in (retrieval_curves, bars, retrieval_sheet):
        monkeypatch.setattr(module, "figure", watched)
    return seen


def assert_is_png(path: Path) -> None:
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 200


# Frames and marks


@pytest.mark.parametrize(
    ("overlap", "wanted"),
    [
        (1.0, MATCH),
        (0.8, MATCH),
        (4 / 5, MATCH),
        (float(Fraction(4, 5)), MATCH),
        (np.float32(4) / np.float32(5), MATCH),
        (np.nextafter(0.8, 0), PARTIAL),
        (0.79, PARTIAL),
        (0.01, PARTIAL),
        (0.0, MISS),
        (0, MISS),
    ],
)
def test_frames_follow_the_thresholds_exactly(overlap: float, wanted: object) -> None:
    assert verdict(overlap) is wanted


def test_every_quotient_of_counts_is_on_the_right_side_of_the_line() -> None:
    for union in range(1, 200):
        for shared in range(union + 1):
            wanted = MATCH if 10 * shared >= 8 * union else PARTIAL if shared else MISS
            assert verdict(shared / union) is wanted
            assert verdict(np.float32(shared) / np.float32(union)) is wanted


@pytest.mark.parametrize("overlap", [-0.1, 1.1, float("nan")])
def test_an_overlap_outside_0_to_1_is_refused(overlap: float) -> None:
    with pytest.raises(ConfigError, match="overlap"):
        verdict(overlap)


def test_frames_differ_without_their_colour() -> None:
    for one, other in combinations((MATCH, PARTIAL, MISS, LEFT_OPEN), 2):
        assert one.line != other.line
        assert one.mark != other.mark


def test_the_sheet_shows_frame_mark_and_values_of_each_hit(tmp_path: Path, seen: Seen) -> None:
    hits = tuple(
        SheetHit(GREY, f"{shared}.png", 0.5, ("sea",) * bool(shared), shared / 5) for shared in (4, 3, 0)
    )
    draw_retrieval_sheet([SheetRow(GREY, "q.png", ("sea",), hits)], tmp_path / "sheet.png")
    (axes,) = seen.figures[0].axes
    boxes = [patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_width() > 1]
    assert [to_hex(box.get_edgecolor()) for box in boxes] == [
        each.colour for each in (QUERY, MATCH, PARTIAL, MISS)
    ]
    words = seen.words()
    for found in (MATCH, PARTIAL, MISS):
        assert words.count(found.mark) == 2  # the legend's and the hit's
        assert found.meaning in words
    captions = [word for word in words if word.startswith("cos")]
    assert captions == [
        "cos 0.50  J 0.80\nsea",
        "cos 0.50  J 0.60\nsea",
        "cos 0.50  J 0.00\nno shared label",
    ]


# The sheet


def odd_row(hits: int) -> SheetRow:
    """Images of all kinds, and names of the widest letters, longer than there is room for."""
    random = np.random.default_rng(0)
    images = [
        random.integers(0, 256, (8, 8, 3), dtype=np.uint8),
        random.random((4, 9, 1), dtype=np.float32),
        random.integers(0, 9999, (9, 4, 12)).astype(np.uint16),
        random.normal(size=(8, 8, 2)),
        np.full((8, 8, 3), np.nan),
        np.zeros((1, 1500, 3), dtype=np.uint8),
    ]
    names = tuple(f"W$W {'W' * 40} {number}" for number in range(12))
    found = [
        SheetHit(images[n % 6], f"{'M' * 80}$.tif", -0.5, names[: n % 13], min(n % 13, 1) / 2)
        for n in range(hits)
    ]
    return SheetRow(images[hits % 6], "W" * 90, names, tuple(found))


@pytest.mark.parametrize(("rows", "hits"), [(1, 1), (2, 13), (3, 3)])
def test_no_text_of_the_sheet_touches_another_or_the_edge(
    rows: int, hits: int, tmp_path: Path, seen: Seen
) -> None:
    path = tmp_path / "new" / "sheet.png"
    draw_retrieval_sheet([odd_row(hits)] * rows, path)
    assert_is_png(path)
    assert seen.is_whole()
    for one, other in combinations(seen.boxes(), 2):
        apart = one.x1 <= other.x0 or other.x1 <= one.x0 or one.y1 <= other.y0 or other.y1 <= one.y0
        assert apart, (one, other)


@pytest.mark.parametrize(("rows", "hits"), [(1, 20), (20, 1)])
def test_the_sheet_takes_twenty_queries_or_hits(rows: int, hits: int, tmp_path: Path) -> None:
    hit = SheetHit(GREY, "hit.png", 0.5, ("sea",), 0.5)
    draw_retrieval_sheet([SheetRow(GREY, "q.png", ("sea",), (hit,) * hits)] * rows, tmp_path / "sheet.png")
    assert_is_png(tmp_path / "sheet.png")


def test_rows_may_differ_in_length_and_a_query_may_lack_labels(tmp_path: Path, seen: Seen) -> None:
    alone = SheetRow(GREY, "alone.png", (), (SheetHit(GREY, "a.png", 0.1, (), 0.0),))
    draw_retrieval_sheet([odd_row(3), alone], tmp_path / "sheet.png")
    assert "no label" in seen.words()


def test_nothing_is_said_of_labels_that_are_not_known(tmp_path: Path, seen: Seen) -> None:
    file = SheetExample(GREY, "file.png", None, "LIKE")
    hits = (SheetHit(GREY, "a.png", 0.1, ("sea",), 1.0),)
    for first in (SheetRow(GREY, "q.png", ("sea",), hits, examples=(file,)), SheetRow(GREY, "f", None, hits)):
        draw_retrieval_sheet([first], tmp_path / "sheet.png")
        assert "no label" not in seen.words()


def test_a_sheet_without_any_labels_has_no_legend(tmp_path: Path, seen: Seen) -> None:
    hits = (SheetHit(GREY, "a.png", 0.1, (), None),)
    draw_retrieval_sheet([SheetRow(GREY, "alone.png", (), hits)], tmp_path / "sheet.png")
    assert seen.words() == ["QUERY", "alone.png", "1", "a.png", "cos 0.10"]


def test_hits_that_unknown_labels_leave_open_have_a_frame_of_their_own(tmp_path: Path, seen: Seen) -> None:
    hits = (SheetHit(GREY, "a.png", 0.1, (), None, left_open=True),)
    draw_retrieval_sheet([SheetRow(GREY, "q.png", ("sea", "road?"), hits)], tmp_path / "sheet.png")
    words = seen.words()
    assert sum("may share a label" in word for word in words) == 2  # the legend's and the hit's
    assert "sea, road?" in words
    assert "no label" not in words


def test_a_sheet_of_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sheet.png"
    with pytest.raises(ConfigError, match="no queries"):
        draw_retrieval_sheet([], path)
    with pytest.raises(ConfigError, match="query 'a.png' has no hits"):
        draw_retrieval_sheet([SheetRow(GREY, "a.png", (), ())], path)
    for flat in (np.zeros((8, 8)), np.zeros((0, 8, 3))):
        with pytest.raises(ConfigError, match="image 'b.png' has shape"):
            draw_retrieval_sheet([SheetRow(GREY, "a", (), (SheetHit(flat, "b.png", 0, (), 0),))], path)
    assert not path.exists()


@pytest.mark.parametrize("letters", [3, 4, 7, 8, 30])
def test_shortened_text_keeps_both_ends_and_fits(letters: int) -> None:
    text = "begin-" + "x" * 40 + "-end.tif"
    cut = shortened(text, letters)
    assert len(cut) == letters
    assert cut[0] == text[0]
    assert cut[-1] == text[-1]
    assert shortened("two\nlines\tof text", 30) == "two lines of text"


@pytest.mark.parametrize("most", [1, 2, 3])
def test_label_lines_fit_and_count_what_they_leave_out(most: int) -> None:
    names = ["road", "x" * 50, "bare soil", "water", "trees", "buildings", "cars"]
    lines = label_lines(names, 1.1, most)
    assert len(lines) <= most
    assert max(text_width(line, SIZE) for line in lines) <= 1.1
    shown = len(" ".join(lines).split(", ")) - 1
    assert lines[-1].endswith(f"+{len(names) - shown} more")
    assert label_lines([], 1.1, most) == []


@settings(max_examples=40)
@given(
    text=st.text(st.characters(codec="latin-1", exclude_categories=["C"]), max_size=60),
    width=st.floats(0.4, 2),
)
def test_fitted_text_is_not_wider_than_its_room(text: str, width: float) -> None:
    assert text_width(fitted(text, width, SIZE), SIZE) <= width


# Curves and bars


def test_fourteen_models_differ_in_black_and_white() -> None:
    styles = series_styles(["oracle", *MODELS, "Chance"])
    models = [style for style in styles.values() if not style.reference]
    assert len({style.marker for style in models}) == 14
    assert len({style.hatch for style in models}) == 14
    assert len({(style.colour, style.line) for style in models}) == 14
    assert (styles["Chance"].line, styles["oracle"].line) == ("dashed", "dotted")
    assert styles["Chance"].colour == styles["oracle"].colour == REFERENCE_GREY


@pytest.mark.parametrize("names", [["chance"], ["chance", *MODELS, "oracle"]])
def test_all_figures_hold_any_number_of_models(names: list[str], tmp_path: Path, seen: Seen) -> None:
    paths = [tmp_path / "figures" / f"{number}.png" for number in range(4)]
    values = np.linspace(0.1, 1, 10)
    draw_precision_by_threshold(values, dict.fromkeys(names, values[::-1]), 10, paths[0])
    draw_overlap_by_rank(dict.fromkeys(names, values[::-1]), paths[1])
    draw_label_bars([*"abcdefghij"], np.arange(10), dict.fromkeys(names, values), paths[2])
    pairs = np.geomspace(1, 1e6, 10).astype(int)
    draw_similarity_by_overlap(values, dict.fromkeys(names, (values, 0.1 * values, pairs)), paths[3])
    for number, (path, figure) in enumerate(zip(paths, seen.figures, strict=True)):
        assert_is_png(path)
        assert seen.is_whole(number)
        assert len(figure.legends[0].get_texts()) in (len(names), len(names) + 1)


def test_precision_is_drawn_in_percent_and_names_the_cutoff(tmp_path: Path, seen: Seen) -> None:
    draw_precision_by_threshold(np.array([0.4, 0.8]), {"a": np.array([0.5, 0.25])}, 7, tmp_path / "a.png")
    (axes,) = seen.figures[0].axes
    assert axes.lines[0].get_ydata() == pytest.approx([50, 25])
    assert any("first 7 hits" in word for word in seen.words())


@pytest.mark.parametrize("ranks", [1, 411, 5000])
def test_ranks_start_at_one_on_a_log_axis(ranks: int, tmp_path: Path, seen: Seen) -> None:
    draw_overlap_by_rank({"a": np.linspace(1, 0, ranks), "oracle": np.ones(1)}, tmp_path / "a.png")
    (axes,) = seen.figures[0].axes
    assert axes.get_xscale() == "log"
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == list(range(1, ranks + 1))
    assert seen.level(axes)


def test_bars_go_from_the_most_frequent_label_to_the_shaded_tail(tmp_path: Path, seen: Seen) -> None:
    names, counts = ["rare", "often", "some", "same"], np.array([2, 5000, 70, 70])
    draw_label_bars(names, counts, {"a": np.array([0.1, 0.2, 0.3, np.nan])}, tmp_path / "a.png")
    (axes,) = seen.figures[0].axes
    ticks = [label.get_text().replace("\n", " ") for label in axes.get_xticklabels()]
    assert ticks == ["often (5,000)", "same (70)", "some (70)", "rare (2)"]
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert [bar.get_height() for bar in bars if bar.get_width() < 1] == pytest.approx([20, 30, 10])
    (tail,) = [bar for bar in bars if bar.get_width() > 1]
    # Two of four: the third is rounded up, and of the two with 70 images the first in the archive's order
    # is in it, as in the score.
    assert tail.get_x() == pytest.approx(1.5)
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == [1]  # the cross where there is no value


@pytest.mark.parametrize(("labels", "models"), [(1, 1), (5, 2), (60, 1), (20, 14)])
def test_bars_of_few_and_many_labels_keep_their_names_apart(
    labels: int, models: int, tmp_path: Path, seen: Seen
) -> None:
    names = [f"{'Land principally occupied by'[: 5 * (place % 6) + 3]} {place}" for place in range(labels)]
    values = {name: np.linspace(0, 1, labels) for name in [*MODELS[:models], "chance"]}
    draw_label_bars(names, np.arange(labels) ** 2, values, tmp_path / "a.png")
    assert seen.is_whole()
    assert sum(len(axes.get_xticks()) for axes in seen.figures[0].axes) == labels
    for axes in seen.figures[0].axes:
        if axes.get_xticklabels()[0].get_rotation() == 0:
            assert seen.level(axes)


def test_values_that_are_all_nan_are_drawn_as_none(tmp_path: Path) -> None:
    nothing = np.full(3, np.nan)
    draw_precision_by_threshold(np.arange(3) / 3, {"a": nothing}, 1, tmp_path / "0.png")
    draw_overlap_by_rank({"a": nothing, "chance": nothing}, tmp_path / "1.png")
    draw_label_bars(["a", "b", "c"], np.zeros(3), {"a": nothing, "chance": nothing}, tmp_path / "2.png")
    empty = {"a": (nothing, nothing, np.zeros(3, dtype=int))}
    draw_similarity_by_overlap(np.array([0, 0.5, 1]), empty, tmp_path / "3.png")
    for number in range(4):
        assert_is_png(tmp_path / f"{number}.png")


def test_bins_are_named_by_what_they_hold_and_count_their_pairs(tmp_path: Path, seen: Seen) -> None:
    edges, mean = np.array([0, 0.5, 1]), np.array([0.1, 0.2, 0.3])
    counts = np.array([1_234_000, 7, 0])
    draw_similarity_by_overlap(
        edges, {"a": (mean, mean, counts), "b": (mean, mean, counts)}, tmp_path / "a.png"
    )
    draw_similarity_by_overlap(
        edges, {"a": (mean, mean, counts), "b": (mean, mean, mean)}, tmp_path / "b.png"
    )
    assert {"0", "(0, 0.5]", "(0.5, 1]", "1.234M", "7"} <= set(seen.words())
    assert np.isnan(seen.figures[0].axes[0].lines[0].get_ydata()[-1])  # a mean of no pairs is not drawn
    assert "1.234M" not in seen.words(1)  # each model has its own counts


def test_figures_of_nothing_or_of_other_lengths_are_refused(tmp_path: Path) -> None:
    path, three = tmp_path / "a.png", np.ones(3)
    with pytest.raises(ConfigError, match="precision by threshold: no models"):
        draw_precision_by_threshold(three, {}, 10, path)
    with pytest.raises(ConfigError, match="no thresholds"):
        draw_precision_by_threshold(np.ones(0), {"a": np.ones(0)}, 10, path)
    with pytest.raises(
        ConfigError, match=r"'b' has shape \(2,\)\. Give one value for each of the 3 thresholds"
    ):
        draw_precision_by_threshold(three, {"a": three, "b": np.ones(2)}, 10, path)
    with pytest.raises(ConfigError, match="cutoff = 0"):
        draw_precision_by_threshold(three, {"a": three}, 0, path)
    with pytest.raises(ConfigError, match="overlap by rank: no models"):
        draw_overlap_by_rank({}, path)
    with pytest.raises(ConfigError, match=r"'a' has shape \(0,\)"):
        draw_overlap_by_rank({"a": np.ones(0)}, path)
    with pytest.raises(ConfigError, match="label bars: no models"):
        draw_label_bars(["sea"], np.ones(1), {}, path)
    with pytest.raises(ConfigError, match="label bars: no labels"):
        draw_label_bars([], np.ones(0), {"a": np.ones(0)}, path)
    with pytest.raises(ConfigError, match="3 counts for 1 labels"):
        draw_label_bars(["sea"], three, {"a": np.ones(1)}, path)
    with pytest.raises(ConfigError, match="similarity by overlap, means: no models"):
        draw_similarity_by_overlap(three, {}, path)
    with pytest.raises(ConfigError, match="pair counts: 'a' has shape"):
        draw_similarity_by_overlap(three, {"a": (three, three, np.ones(2))}, path)
    assert not path.exists()
