"""`marcir index` that gets SIGTERM while it embeds the fourth batch, and again before it commits."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from marcir.cli import main
from marcir.model.encoder import Encoder
from marcir.search.lance import LanceStore


def terminated(run: Callable[..., Any], number: int) -> Callable[..., Any]:
    """The function, with a SIGTERM in the call of that number."""
    calls = 0

    def count_and_run(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGTERM)
        return run(*arguments)

    return count_and_run


if __name__ == "__main__":
    Encoder.embed = terminated(Encoder.embed, 4)  # type: ignore[method-assign]
    LanceStore.add = terminated(LanceStore.add, 1)  # type: ignore[method-assign]
    sys.exit(main(["index", *sys.argv[1:]]))
