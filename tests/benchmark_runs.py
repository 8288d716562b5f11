"""`marcir benchmark` and `marcir ablate` as processes of their own."""

import json
import os
import re
import signal
import subprocess
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from marcir.experiments.perform import perform
from marcir.experiments.record import Record, Results
from marcir.experiments.workers import Outcome

MARCIR = Path(sysconfig.get_path("scripts")) / "marcir"


def start(command: str, plan: Path, results: Path, cache: Path, *more: str) -> subprocess.Popen[str]:
    """The command, with what it says in pipes."""
    return subprocess.Popen(
        [str(MARCIR), command, "--config", str(plan), "--results", str(results), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MARCIR_CACHE": str(cache), "OMP_NUM_THREADS": "1"},
        start_new_session=True,
        # Whoever runs the tests in the background may have Ctrl-C ignored, and processes inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def perform_here(
    records: Iterable[Record], results: Results, jobs: int, verbose: bool = False
) -> Iterator[Outcome]:
    """In place of worker processes: runs in this one, one after the other."""
    for record in records:
        yield Outcome(record, perform(record, results, quiet=not verbose).error)


def workers_of(results: Path) -> list[int]:
    """Processes that perform runs for a results folder."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it has ended
            if b"marcir.experiments.workers" in words and str(results).encode() in words:
                found.append(int(folder.name))
    return found


def assert_same_results(results: Path, expected: Path) -> None:
    """The same records, vectors and models; times, versions and places aside."""
    ours, theirs = _records(results), _records(expected)
    assert ours.keys() == theirs.keys()
    for name, record in ours.items():
        assert record == theirs[name], name
    for folder in ("vectors", "runs"):
        found, wanted = _files(results / folder), _files(expected / folder)
        assert found.keys() == wanted.keys()
        for name, content in found.items():
            if not name.endswith(_TIMED):
                assert _moved(content) == _moved(wanted[name]), name


_TIMED = ("history.csv", "history.png", "README.md", ".tfevents")
_TIMES = ("seconds", "loss_milliseconds", "timed_idle", "versions")


def _records(results: Path) -> dict[str, dict[str, object]]:
    """Every record without what depends on the time and the place."""
    found = {}
    for path in results.glob("records/*/*.json"):
        content = json.loads(_moved(path.read_bytes()))
        found[f"{path.parent.name}/{path.name}"] = {k: v for k, v in content.items() if k not in _TIMES}
    return found


def _moved(content: bytes) -> bytes:
    """Without the folder of the split: results may be elsewhere, or moved."""
    return re.sub(rb"[^ \"]*/splits/", b"splits/", content)


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
