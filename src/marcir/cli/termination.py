"""End a command in order when a scheduler sends SIGTERM."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM has come: the command ends as after Ctrl-C."""


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Interrupt the block at the first SIGTERM as Ctrl-C does, and ignore those that follow.

    Slurm sends SIGTERM at the time limit and on preemption, Kubernetes on eviction; both kill later.

    Raises:
        Terminated: After SIGTERM, when the block has ended.
    """
    came = False

    def stop(*_: Any) -> None:
        nonlocal came
        if not came:  # a second one must not interrupt the last commit
            came = True
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # only that one may handle signals
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        if came:
            raise Terminated from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
