"""The demo in a short form, as a program: from nothing to a report, an index and a search."""

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from marcir.cli import main

pytestmark = pytest.mark.slow
MARCIR = Path(sysconfig.get_path("scripts")) / "marcir"
SHORT = ["demo", "--out", "out", "--images", "200", "--epochs", "1"]


def test_the_demo_goes_from_nothing_to_a_report_an_index_and_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One test, because the demo takes a minute."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARCIR_CACHE", str(tmp_path / "cache"))
    done = subprocess.run([MARCIR, *SHORT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check_output(done.stdout, done.stderr)
    check_files(tmp_path / "out")

    assert main(SHORT) == 0  # started again, it does only what is missing
    again = capsys.readouterr()
    assert "scenes-marc-proto" not in again.err
    hits = done.stdout[done.stdout.index("Images like") : done.stdout.index("labels among")]
    assert hits in again.out

    assert main([*SHORT, "--images", "250"]) == 2  # other settings are refused
    refused = capsys.readouterr()
    assert refused.out == ""
    assert refused.err.rstrip().count("\n") <= 2


def check_output(printed: str, told: str) -> None:
    """The table beside chance and oracle, progress all along, and what to do next."""
    for row in ("chance", "oracle", "untrained", "MulSupCon", "Calibrated MARC"):
        assert re.search(rf"^{row}.*\d\d\.\d", printed, re.M), row
    assert [f"[{k}/5]" in told for k in range(1, 6)] == [True] * 5
    assert "epoch 1/1" in told
    assert "marcir serve --store out/store --images out/archive" in printed
    assert "labels among the hits" in printed


def check_files(out: Path) -> None:
    """A report, a picture and an index."""
    assert (out / "results" / "report" / "report.html").stat().st_size > 10_000
    assert (out / "before-and-after.png").read_bytes().startswith(b"\x89PNG")
    assert list((out / "store").glob("*.lance"))
