"""Figures of archives, whatever the labels are called and however many there are."""

import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from marcir.figures.heat_maps import draw_cooccurrence
from marcir.figures.samples import draw_samples

STRANGE = ["a$b", "$\\frac$", "$x$ and $", "tab\tbed", "水体", "two\nlines", "x" * 300, "\\$"]


def counts_of(labels: int) -> np.ndarray:
    y = np.random.default_rng(0).random((200, labels)) < 0.1
    return y.T.astype(np.int64) @ y.astype(np.int64)


def size_of(path: Path) -> tuple[int, int]:
    with Image.open(path) as drawn:
        return drawn.size


def test_labels_may_have_any_name(tmp_path: Path) -> None:
    draw_cooccurrence(counts_of(len(STRANGE)), STRANGE, tmp_path / "heat.png")
    assert min(size_of(tmp_path / "heat.png")) > 300


@pytest.mark.parametrize("name", STRANGE)
def test_images_may_have_any_name(name: str, tmp_path: Path) -> None:
    draw_samples([[np.zeros((8, 8, 3), np.uint8)] * 2], [name], tmp_path / "samples.png")
    assert min(size_of(tmp_path / "samples.png")) > 100


def test_a_heat_map_of_very_many_labels_stays_small(tmp_path: Path) -> None:
    start = time.process_time()
    many = 240  # so many that not every one is named
    draw_cooccurrence(counts_of(many), [f"label {k}" for k in range(many)], tmp_path / "heat.png")
    assert max(size_of(tmp_path / "heat.png")) < 3200
    assert time.process_time() - start < 30


@pytest.mark.parametrize("names", [["unused"], []])
def test_labels_without_images_and_no_labels_at_all_are_drawn(names: list[str], tmp_path: Path) -> None:
    draw_cooccurrence(np.zeros((len(names), len(names)), np.int64), names, tmp_path / "heat.png")
    assert min(size_of(tmp_path / "heat.png")) > 300
