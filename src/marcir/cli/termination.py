"""End a command in order when a scheduler sends SIGTERM."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM has come: the command ends as after Ctrl-C."""


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Interrupt the block at the first SIGTERM as Ctrl-C does; ignore those that follow one or the other.

    Slurm sends SIGTERM at the time limit and on preemption, Kubernetes on eviction; both kill later.

    Raises:
        Terminated: After SIGTERM, when the block has ended.
    """
    came = interrupted = False

    def stop(*_: Any) -> None:
        nonlocal came
        if not came and not interrupted:  # a second one must not interrupt the last commit
            came = True
            raise KeyboardInterrupt

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        signal.default_int_handler(number, frame)  # another Ctrl-C still does

    if threading.current_thread() is not threading.main_thread():  # only that one may handle signals
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    ctrl_c = signal.getsignal(signal.SIGINT)
    if ctrl_c is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if came:
            raise Terminated from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        if ctrl_c is signal.default_int_handler:
            signal.signal(signal.SIGINT, ctrl_c)
