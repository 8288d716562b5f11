"""`marcir benchmark` and `marcir ablate` as processes of their own."""

import os
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
