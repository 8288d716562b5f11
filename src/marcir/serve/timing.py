"""How long the parts of a request took, for its Server-Timing header."""

from contextvars import ContextVar

_TIMES: ContextVar[dict[str, float] | None] = ContextVar("times", default=None)


def start_times() -> dict[str, float]:
    """Begin to count for this request."""
    times: dict[str, float] = {}
    _TIMES.set(times)
    return times


def current_times() -> dict[str, float]:
    """The times of this request, for work in threads."""
    times = _TIMES.get()
    return {} if times is None else times


def add_time(part: str, seconds: float) -> None:
    """Count seconds of a part."""
    times = _TIMES.get()
    if times is not None:
        times[part] = times.get(part, 0.0) + seconds


def header(times: dict[str, float], total: float) -> bytes:
    """The value of the header, in milliseconds.

    >>> header({"search": 0.0123}, 0.02)
    b'search;dur=12.30, total;dur=20.00'
    """
    return ", ".join(
        f"{part};dur={1000 * took:.2f}" for part, took in {**times, "total": total}.items()
    ).encode()
