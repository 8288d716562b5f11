"""`marcir index` that commits often, and sends itself a signal before a commit."""

import os
import signal
import sys

from marcir.cli import main
from marcir.search import index_run
from marcir.search.lance import LanceStore

if __name__ == "__main__":
    commits, number, add = int(sys.argv[1]), signal.Signals[sys.argv[2]], LanceStore.add

    def counted_add(store: LanceStore, rows: list) -> None:  # type: ignore[type-arg]
        global commits
        if commits == 0:
            os.kill(os.getpid(), number)
        commits -= 1
        add(store, rows)

    index_run._COMMIT = 64
    index_run._COMMIT_SECONDS = float("inf")  # a slow machine must not commit sooner
    LanceStore.add = counted_add  # type: ignore[method-assign]
    sys.exit(main(["index", *sys.argv[3:]]))
