"""A pool of Ray actors that share the blocks of a job, and goes on when any of them is lost.

Ray Data offers the same over a connection from inside the cluster only: its streaming does not pass through
`ray://` addresses.
"""

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

from marcir.cluster.results import LostError, fetch, lost_connection
from marcir.errors import ClusterError
from marcir.files import reason

Block = TypeVar("Block")

# Blocks that an actor has at a time: the second one is read while the first one is computed. It also bounds
# the results that wait for the driver.
AT_A_TIME: Final = 2
_PATIENCE: Final = 60.0  # seconds; the first actor of a machine imports torch
_TRIES: Final = 3  # of a block whose actors are lost, and of the start of an actor


class ActorPool(Generic[Block]):
    """Actors that start with `start()` and do blocks with `work(block)`.

    A block whose actor is lost, with its process or its machine, is done by another one, and the pool starts
    a new actor as soon as the cluster has room for it. Actors without room get no block. A machine may be
    lost while many actors start there: lost starts end the job only when no actor is left.

    Args:
        ray: The module, connected.
        new_actor: Starts one.
        size: Number of actors.
    """

    def __init__(self, ray: Any, new_actor: Callable[[], Any], size: int) -> None:
        self._ray, self._new_actor, self._size = ray, new_actor, size
        # Actor, and how often in a row its start was lost before, by the reference of its start.
        self._starting: dict[Any, tuple[Any, int]] = {}
        # Actor, number of the block, and places that it takes, by the reference of the result.
        self._working: dict[Any, tuple[Any, int, int]] = {}
        self._load: Counter[Any] = Counter()  # places that are taken, of each actor that has started
        self._losses: Counter[int] = Counter()  # actors lost, by block
        self._warned = self._reported = False  # of actors without room, and of lost starts

    def run(self, blocks: Sequence[Block]) -> Iterator[tuple[int, Any]]:
        """Yield the number of each block and its result, as they arrive; ends its actors in any case.

        Raises:
            ClusterError: For an error in an actor, a block that was lost three times, starts that were, and a
                lost connection.
        """
        waiting = deque(range(len(blocks)))
        try:
            for _ in range(min(self._size, len(blocks))):
                self._start()
            while waiting or self._working:
                self._hand_out(blocks, waiting)
                for ref in self._next():
                    if ref in self._starting:
                        self._started(ref)
                        continue
                    actor, number, places = self._working.pop(ref)
                    if actor in self._load:
                        self._load[actor] -= places
                    try:
                        result = fetch(self._ray, ref)
                    except LostError as error:
                        self._lost(actor, number, error, waiting)
                    else:
                        yield number, result
        except ConnectionError as error:
            self._starting.clear()  # there is nobody to end the actors: they end with the connection
            self._load.clear()
            raise lost_connection(error) from error
        finally:
            for actor in [*(actor for actor, _ in self._starting.values()), *self._load]:
                self._ray.kill(actor)

    def _next(self) -> list[Any]:
        """The next reference that is ready; reports it once where the cluster has no room for any actor."""
        refs = [*self._working, *self._starting]
        if not self._load and not self._warned:
            ready, _ = self._ray.wait(refs, num_returns=1, timeout=_PATIENCE)
            if ready:
                return list(ready)
            self._warned = True
            print("waiting for free CPUs or GPUs on the cluster", file=sys.stderr, flush=True)
        return list(self._ray.wait(refs, num_returns=1)[0])

    def _hand_out(self, blocks: Sequence[Block], waiting: deque[int]) -> None:
        """Give blocks to the actors with the fewest.

        A block that was lost has its next actor for itself, so that the one that ends its process is known.
        """
        while waiting and self._load:
            actor = min(self._load, key=self._load.__getitem__)
            places = AT_A_TIME if self._losses[waiting[0]] else 1
            if self._load[actor] + places > AT_A_TIME:
                return
            number = waiting.popleft()
            self._working[actor.work.remote(blocks[number])] = actor, number, places
            self._load[actor] += places

    def _start(self, lost: int = 0) -> None:
        actor = self._new_actor()
        self._starting[actor.start.remote()] = actor, lost

    def _started(self, ref: Any) -> None:
        actor, lost = self._starting.pop(ref)
        try:
            fetch(self._ray, ref)
        except LostError as error:
            self._lost_start(lost + 1, error)
        else:
            self._load[actor] = 0

    def _lost_start(self, lost: int, error: Exception) -> None:
        """Start an actor again, up to three times; then go on with the others, if there are any."""
        if lost < _TRIES:
            self._start(lost)
            return
        what = f"was lost {_TRIES} times while it started ({reason(error)})"
        if not self._load and not self._starting:
            raise ClusterError(f"every actor {what}. Is there enough memory?") from error
        if not self._reported:
            self._reported = True
            report = f"an actor {what}; the others go on. Is there enough memory?"
            print(report, file=sys.stderr, flush=True)

    def _lost(self, actor: Any, number: int, error: Exception, waiting: deque[int]) -> None:
        """Do a block again; the first loss of an actor also replaces it."""
        self._losses[number] += 1
        if self._losses[number] >= _TRIES:
            raise ClusterError(
                f"block {number + 1} was lost {_TRIES} times with its process ({reason(error)}). Is there "
                "enough memory?"
            ) from error
        waiting.appendleft(number)
        if actor in self._load:
            del self._load[actor]
            self._ray.kill(actor)  # it may be alive on a machine that cannot be reached
            self._start()
        # Its other block comes back as lost, too, and then finds that the actor is gone.
