"""`marcir index --cluster auto` that commits often, and kills itself before a commit."""

import os
import signal
import sys

from marcir.cli import main
from marcir.search import index as index_module
from marcir.search.lance import LanceStore

if __name__ == "__main__":
    commits, add = int(sys.argv[1]), LanceStore.add

    def counted_add(store: LanceStore, rows: list) -> None:  # type: ignore[type-arg]
        global commits
        if commits == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        commits -= 1
        add(store, rows)

    index_module._COMMIT = 64
    LanceStore.add = counted_add  # type: ignore[method-assign]
    main(["index", "--cluster", "auto", *sys.argv[2:]])
