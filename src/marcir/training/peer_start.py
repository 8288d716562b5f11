"""The processes that torchrun has started begin together, or all end with one message."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from marcir.errors import TrainingError
from marcir.files import reason
from marcir.training.peers import outcome

# How long processes wait at the start for one that does not come, and in training for one that stands still.
# `Peers` finds those that end, and waits without a limit for those that pack images.
PEER_TIMEOUT = timedelta(minutes=10)
# How long the first process, which holds what they tell each other, waits for the others to read it.
_READ_TIMEOUT = timedelta(seconds=5)
# The store of the first process is a server on the port that torch connects the processes with. While one is
# kept, torch uses the same server; a new one on this port could find processes that are connected to the old.
_kept: list[object] = []


@contextmanager
def all_can_start() -> Iterator[None]:
    """Run the block in all processes of torchrun; if it raises in one of them, all end, with one message.

    It is for what comes before torch connects them, which would wait for a process that has ended. They use
    the store of addresses that torch connects them with, so that it does not matter which devices they have.

    Raises:
        TrainingError: On the first process, for an error of another one, or one that does not come.
        SystemExit: On the others.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or not dist.is_torchelastic_launched() or dist.is_initialized():
        yield
        return
    rank, problem = int(os.environ["RANK"]), None
    try:
        yield
    except Exception as error:
        problem = error
    try:
        outcomes = _exchange(rank, size, problem)
    except RuntimeError as error:
        raise problem or TrainingError(
            f"process {rank} of {size} cannot start with the others ({reason(error)}). Processes must reach "
            "each other on all ports."
        ) from error
    failed = [other for other, (_, code, _) in enumerate(outcomes) if code]
    if not failed:
        return
    host, code, text = outcomes[failed[0]]
    if problem is not None and (rank == 0 or code == 1):
        raise problem
    if rank == 0:
        raise TrainingError(f"process {failed[0]} of {size} on {host}: {text}")
    raise SystemExit(code)


def _exchange(rank: int, size: int, problem: Exception | None) -> list[tuple[str, int, str]]:
    """Host, exit code and error of every process; the error is empty where there is none."""
    store, _, _ = next(rendezvous("env://", rank, size, timeout=PEER_TIMEOUT))
    _kept.append(store)
    code, text = (0, "") if problem is None else outcome(problem)
    store.set(f"marcir/{rank}", json.dumps([socket.gethostname(), code, text]))
    outcomes = [tuple(json.loads(store.get(f"marcir/{other}"))) for other in range(size)]
    if store.add("marcir/read", 1) == size:
        store.set("marcir/all have read", "")
    if rank == 0 and any(code for _, code, _ in outcomes):
        with suppress(RuntimeError):
            store.wait(["marcir/all have read"], _READ_TIMEOUT)
    return outcomes
