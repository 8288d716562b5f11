"""The demo in a short form, as a program: from nothing to a report, an index and a search."""

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from marcir.cli import main

pytestmark = pytest.mark.slow
MARCIR = Path(sysconfig.get_path("scripts")) / "marcir"
SHORT = ["demo", "--out", "out", "--images", "200", "--epochs", "1"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Where it went, what it printed, and what it said on the way."""
    folder = tmp_path_factory.mktemp("demo")
    environment = {**os.environ, "MARCIR_CACHE": str(folder / "cache")}
    done = subprocess.run([MARCIR, *SHORT], capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return folder / "out", done.stdout, done.stderr


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
    assert (out / "before-and-after.png").read_bytes().startswith(b"\x89PNG")
    assert list((out / "store").glob("*.lance"))
    assert "marcir serve --store out/store --images out/archive" in printed
    assert "labels among the hits" in printed


def test_begun_again_it_does_only_what_is_missing(
    demo: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, printed, _ = demo
    monkeypatch.chdir(out.parent)
    monkeypatch.setenv("MARCIR_CACHE", str(out.parent / "cache"))
    assert main(SHORT) == 0
    again = capsys.readouterr()
    assert "scenes-marc-calibrated" not in again.err
    hits = printed[printed.index("Images like") : printed.index("labels among")]
    assert hits in again.out
    assert main([*SHORT, "--images", "250"]) == 2  # other settings are refused
    refused = capsys.readouterr()
    assert refused.out == ""
    assert refused.err.rstrip().count("\n") <= 2
