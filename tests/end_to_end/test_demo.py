"""The demo in a short form, as a program: from nothing to a report, an index and a search."""

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

MARCIR = Path(sysconfig.get_path("scripts")) / "marcir"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Where it went, what it printed, and what it said on the way."""
    folder = tmp_path_factory.mktemp("demo")
    done = start(folder)
    assert done.returncode == 0, done.stderr
    return folder / "out", done.stdout, done.stderr


def start(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    arguments = ["demo", "--out", "out", "--images", "200", "--epochs", "1", *more]
    cache = {"MARCIR_CACHE": str(folder / "cache")}
    return subprocess.run(
        [str(MARCIR), *arguments], capture_output=True, text=True, cwd=folder, env={**os.environ, **cache}
    )


def test_it_prints_the_table_beside_chance_and_oracle(demo: tuple[Path, str, str]) -> None:
    _, printed, _ = demo
    for row in ("chance", "oracle", "untrained", "MulSupCon", "Calibrated MARC"):
        assert re.search(rf"^{row}.*\d\d\.\d", printed, re.M), row


def test_it_shows_progress_all_along(demo: tuple[Path, str, str]) -> None:
    _, _, told = demo
    assert [f"[{k}/5]" in told for k in range(1, 6)] == [True] * 5
    assert "epoch 1/1" in told


def test_it_leaves_a_report_an_index_and_a_picture(demo: tuple[Path, str, str]) -> None:
    out, printed, _ = demo
    assert (out / "results" / "report" / "report.html").stat().st_size > 10_000
    assert (out / "search.png").read_bytes().startswith(b"\x89PNG")
    assert list((out / "store").glob("*.lance"))
    assert "marcir serve --store out/store --images out/archive" in printed
    assert "labels among the hits" in printed


def test_begun_again_it_does_only_what_is_missing(demo: tuple[Path, str, str]) -> None:
    out, printed, _ = demo
    again = start(out.parent)
    assert again.returncode == 0, again.stderr
    assert "scenes-marc-calibrated" not in again.stderr
    hits = printed[printed.index("Images like") : printed.index("labels among")]
    assert hits in again.stdout


def test_other_settings_are_refused(demo: tuple[Path, str, str]) -> None:
    out, _, _ = demo
    other = start(out.parent, "--images", "250")
    assert (other.returncode, other.stdout) == (2, "")
    assert other.stderr.rstrip().count("\n") <= 2
