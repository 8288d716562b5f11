"""Parallel runs in worker processes; one that dies does not stop the others.

A worker is `python -m marcir.experiments.workers RESULTS [verbose]`. It reads one record per line from its
standard input and writes one line when the run is done. It exits when its input is closed.
"""

import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from marcir.experiments.record import Record, Results
from marcir.processes import describe_exit
from marcir.schema import parse, to_json

_WORKER = "marcir.experiments.workers"
_SAVE_TIMEOUT = 120  # seconds that a run may take to save a checkpoint after Ctrl-C


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        record: The planned record.
        error: Why it failed; None for success.
        died: Whether its process died before it wrote a record.
    """

    record: Record
    error: str | None = None
    died: bool = False


# Performs runs and yields the outcome of each when it ends; closing it stops those that are left.
PerformAll = Callable[[Sequence[Record], Results], Generator[Outcome, None, None]]


class Worker:
    """A process that performs one run at a time.

    Args:
        results: Folder of the records.
        threads: Number of CPU threads.
        verbose: Print a line after every epoch.
    """

    def __init__(self, results: Results, threads: int, verbose: bool) -> None:
        # -P: files in the working directory, such as a queue.py, must not shadow modules.
        process = subprocess.Popen(  # noqa: S603  our own module
            [sys.executable, "-P", "-m", _WORKER, str(results.path), *(["verbose"] if verbose else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"OMP_NUM_THREADS": str(threads), **os.environ},
        )
        self._process, self.answers, self._requests = process, process.stdout, process.stdin

    def begin(self, record: Record) -> None:
        """Start a run."""
        self._record = record
        with suppress(BrokenPipeError):  # it has died, which `end` reports
            print(to_json(record), end="", file=self._requests, flush=True)

    def end(self) -> Outcome:
        """Wait for the end of the run."""
        line = self.answers.readline() if self.answers is not None else ""
        if line:
            return Outcome(self._record, json.loads(line)["error"])
        return Outcome(self._record, describe_exit(self._exit()), died=True)

    def close(self) -> None:
        """Stop an idle worker."""
        if self._requests is not None:
            self._requests.close()
        self._exit()

    def interrupt(self) -> None:
        """Ask a busy worker to save a checkpoint and exit."""
        self._process.send_signal(signal.SIGINT)

    def wait(self) -> None:
        """Wait for the exit of an interrupted worker."""
        try:
            self._process.wait(_SAVE_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._exit()

    def _exit(self) -> int:
        """Wait for its exit and close the pipes; returns the exit code."""
        code = self._process.wait()
        for pipe in (self.answers, self._requests):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        return code


def perform_all(
    records: Iterable[Record], results: Results, jobs: int, verbose: bool = False
) -> Generator[Outcome, None, None]:
    """Perform runs, `jobs` in parallel; yields the outcome of each when it ends."""
    waiting = deque(records)
    threads = max(1, (os.cpu_count() or 1) // jobs)
    busy = selectors.DefaultSelector()

    def begin(worker: Worker) -> None:
        worker.begin(waiting.popleft())
        busy.register(worker.answers, selectors.EVENT_READ, worker)  # type: ignore[arg-type]  # a pipe

    try:
        for _ in range(min(jobs, len(waiting))):
            begin(Worker(results, threads, verbose))
        while busy.get_map():
            for key, _ in busy.select():
                busy.unregister(key.fileobj)
                worker: Worker = key.data
                outcome = worker.end()
                if waiting:
                    begin(Worker(results, threads, verbose) if outcome.died else worker)
                elif not outcome.died:
                    worker.close()
                yield outcome
    finally:
        left: list[Worker] = [key.data for key in busy.get_map().values()]
        # All at once: a signal a second after a terminal's Ctrl-C would count as a second one.
        for each in left:
            each.interrupt()
        for each in left:
            each.wait()
        busy.close()


def main() -> None:
    """Perform the requested runs."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not be read as an answer
    requests: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    results = Results(Path(sys.argv[1]))
    from marcir.experiments.perform import perform

    while True:
        record = parse(Record, requests.get())
        try:
            done = perform(record, results, quiet="verbose" not in sys.argv[2:])
        except KeyboardInterrupt:
            os._exit(130)
        print(json.dumps({"error": done.error}), file=answers, flush=True)


def _listen(requests: "queue.Queue[str]") -> None:
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
