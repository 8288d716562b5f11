"""SIGTERM, as schedulers send it: `marcir index` keeps what is embedded."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from marcir.cli import main
from marcir.cli.termination import Terminated, interrupted_by_sigterm
from marcir.search.lance import LanceStore


def test_sigterm_ends_an_index_run_as_ctrl_c_does_and_a_second_one_changes_nothing(
    model: Path, scenes: Path, own_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--model", model, "--images", scenes, "--store", tmp_path / "store", "--batch-size", "4"]
    script = Path(__file__).with_name("terminated_index.py")
    ended = subprocess.run(
        [sys.executable, script, *map(str, options)], capture_output=True, text=True, timeout=300
    )
    said = re.fullmatch(
        r"stopping: (\d+) images are in the store. The same command continues.\nmarcir: stopped.\n",
        ended.stderr,
    )
    assert ended.returncode == 143, ended.stderr
    assert said is not None, ended.stderr
    stored = LanceStore(tmp_path / "store").count()
    assert 0 < stored < 40
    assert stored == int(said[1])
    assert main(["index", *map(str, options)]) == 0
    assert f"{40 - stored} new" in capsys.readouterr().out


def test_sigterm_is_known_as_such_where_another_library_raises_the_interrupt() -> None:
    def wait() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None  # as Ray does

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated), interrupted_by_sigterm():
        wait()
    with pytest.raises(KeyboardInterrupt) as ctrl_c, interrupted_by_sigterm():
        raise KeyboardInterrupt
    assert ctrl_c.type is KeyboardInterrupt
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_sigterm_does_not_interrupt_the_last_commit(first: signal.Signals) -> None:
    committed = []

    def work() -> None:
        try:
            signal.raise_signal(first)
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGTERM)
            committed.append(True)
            raise

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as ended, interrupted_by_sigterm():
        work()
    assert committed
    assert (ended.type is Terminated) == (first is signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is before
