"""A process that performs runs: `python -m marcir.experiments.worker RESULTS [tell]`.

It reads one record a line from its standard input and answers with one line when the run is done. When
whoever asked is gone, its input ends, and so does it.
"""

import json
import os
import queue
import sys
import threading
from pathlib import Path

from marcir.experiments.record import Record, Results
from marcir.schema import parse


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
