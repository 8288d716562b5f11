"""Several runs side by side, each in a process that may die without taking the others along.

The process is `python -m marcir.experiments.workers RESULTS [tell]`. It reads one record per line from its
standard input and answers with one line when the run is done. Its input ends when whoever asked is gone.
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
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from marcir.experiments.record import Record, Results
from marcir.processes import describe_exit
from marcir.schema import parse, to_json

_WORKER = "marcir.experiments.workers"
_PATIENCE = 120  # seconds that a run may take to save itself after Ctrl-C


@dataclass(frozen=True)
class Outcome:
    """A run that is over.

    Attributes:
        record: What it was to be.
        error: Why it failed; None where it did not.
        died: Whether its process died, so that nothing is recorded.
    """

    record: Record
    error: str | None = None
    died: bool = False


class Worker:
    """A process that performs one run at a time.

    Args:
        results: Where records go.
        threads: Processor threads that it may use.
        tell: Whether it says something after every epoch.
    """

    def __init__(self, results: Results, threads: int, tell: bool) -> None:
        # -P: files of the folder that the user is in, such as a queue.py, are not taken for modules.
        environment = {"OMP_NUM_THREADS": str(threads), **os.environ}
        process = subprocess.Popen(  # noqa: S603  our own module
            [sys.executable, "-P", "-m", _WORKER, str(results.path), *(["tell"] if tell else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._process, self.answers, self._requests = process, process.stdout, process.stdin

    def begin(self, record: Record) -> None:
        """Begin a run."""
        self._record = record
        with suppress(BrokenPipeError):  # it has died, as `end` will tell
            print(to_json(record), end="", file=self._requests, flush=True)

    def end(self) -> Outcome:
        """Wait until the run is over."""
        line = self.answers.readline() if self.answers is not None else ""
        if line:
            return Outcome(self._record, json.loads(line)["error"])
        return Outcome(self._record, describe_exit(self._gone()), died=True)

    def close(self) -> None:
        """Let an idle one end."""
        if self._requests is not None:
            self._requests.close()
        self._gone()

    def interrupt(self) -> None:
        """Ask one that is at work to save itself and end."""
        self._process.send_signal(signal.SIGINT)

    def wait(self) -> None:
        """Wait until one that was interrupted has ended."""
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._gone()

    def _gone(self) -> int:
        """Wait for its end and close what led to it; its exit code."""
        code = self._process.wait()
        for pipe in (self.answers, self._requests):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        return code


def perform_all(
    records: Iterable[Record], results: Results, jobs: int, tell: bool = False
) -> Iterator[Outcome]:
    """Perform runs, so many at a time; each is reported when it is over."""
    waiting = deque(records)
    threads = max(1, (os.cpu_count() or 1) // jobs)
    at_work = selectors.DefaultSelector()

    def begin(worker: Worker) -> None:
        worker.begin(waiting.popleft())
        at_work.register(worker.answers, selectors.EVENT_READ, worker)  # type: ignore[arg-type]  # a pipe

    try:
        for _ in range(min(jobs, len(waiting))):
            begin(Worker(results, threads, tell))
        while at_work.get_map():
            for key, _ in at_work.select():
                at_work.unregister(key.fileobj)
                worker: Worker = key.data
                outcome = worker.end()
                if waiting:
                    begin(Worker(results, threads, tell) if outcome.died else worker)
                elif not outcome.died:
                    worker.close()
                yield outcome
    finally:
        left: list[Worker] = [key.data for key in at_work.get_map().values()]
        for each in left:  # all at once: what comes a second after a terminal's Ctrl-C is a second Ctrl-C
            each.interrupt()
        for each in left:
            each.wait()
        at_work.close()


def main() -> None:
    """Perform the runs that are asked for."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not be taken for an answer
    asked: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    results = Results(Path(sys.argv[1]))
    from marcir.experiments.perform import perform

    while True:
        record = parse(Record, asked.get())
        try:
            done = perform(record, results, quiet="tell" not in sys.argv[2:])
        except KeyboardInterrupt:
            os._exit(130)
        print(json.dumps({"error": done.error}), file=answers, flush=True)


def _listen(asked: "queue.Queue[str]") -> None:
    for line in sys.stdin:
        asked.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
