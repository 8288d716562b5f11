"""Learning-rate schedules."""

import math
from typing import Literal

Schedule = Literal["restarts", "step", "cosine"]
PERIOD = 15
DECAY = 0.8


def learning_rate(schedule: Schedule, lr: float, epoch: int, epochs: int) -> float:
    """The learning rate of an epoch, counted from 0.

    `restarts` (Reading R16): lr * 0.8^floor(e/15) * (1 + cos(pi (e mod 15)/15))/2; `step`: lr *
    0.8^floor(e/15); `cosine`: lr * (1 + cos(pi e/epochs))/2.

    >>> [f"{learning_rate('restarts', 1e-3, e, 100):.3g}" for e in (0, 7, 14, 15)]
    ['0.001', '0.000552', '1.09e-05', '0.0008']
    """
    if schedule == "cosine":
        return lr * (1 + math.cos(math.pi * epoch / epochs)) / 2
    peak = lr * DECAY ** (epoch // PERIOD)
    return peak if schedule == "step" else peak * (1 + math.cos(math.pi * (epoch % PERIOD) / PERIOD)) / 2
