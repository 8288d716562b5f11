"""Count processors, and describe how a child process ended."""

import os
import signal
from typing import Final

_MEANINGS: Final = {
    signal.SIGILL: (
        "an instruction that this processor lacks. Try --train.precision float32, or set "
        "ONEDNN_MAX_CPU_ISA=AVX2 in the environment"
    ),
    signal.SIGKILL: (
        "probably because memory ran out. Try a smaller batch, smaller images or fewer processes at a time"
    ),
    signal.SIGSEGV: (
        "a crash in native code. Start it again; if it crashes again, try OMP_NUM_THREADS=1 and report it "
        "with the versions of `pip freeze`"
    ),
    signal.SIGBUS: "probably a full disk, or a file that was changed while it was read",
    signal.SIGABRT: "a library gave up; its message is above",
}


def processors() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe_exit(code: int) -> str:
    """Describe how a process ended, the probable cause, and what to try.

    Args:
        code: Its return code as `subprocess` gives it: negative for a signal.

    >>> describe_exit(3)
    'its process ended with exit code 3'
    >>> describe_exit(-15)
    'its process was killed by SIGTERM'
    >>> describe_exit(-4)[:80]
    'its process was killed by SIGILL: an instruction that this processor lacks. Try '
    """
    if code >= 0:
        return f"its process ended with exit code {code}"
    name = signal_name(-code)
    meaning = _MEANINGS.get(-code)  # type: ignore[call-overload]  # a signal is an int
    return f"its process was killed by {name}" + (f": {meaning}" if meaning else "")


def signal_name(number: int) -> str:
    """The name of a signal, or its number if it has none.

    >>> signal_name(9), signal_name(99)
    ('SIGKILL', 'signal 99')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
