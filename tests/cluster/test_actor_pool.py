"""The pool of actors over a pretended Ray: lost starts, in an order that no real cluster repeats."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from marcir.cluster.actor_pool import ActorPool
from marcir.errors import ClusterError


@dataclass(frozen=True, eq=False)
class Ref:
    """The reference of a call of an actor."""

    actor: int
    block: int | None = None  # None: of its start


@dataclass(frozen=True, eq=False)
class Actor:
    """Its methods."""

    start: SimpleNamespace
    work: SimpleNamespace


@dataclass
class PretendedRay:
    """Actors that work at once; `is_lost` says which calls end with the process of their actor."""

    is_lost: Callable[[Ref], bool]
    actors: int = 0
    killed: list[Any] = field(default_factory=list)

    def new_actor(self) -> Actor:
        self.actors += 1
        number = self.actors
        return Actor(
            SimpleNamespace(remote=lambda: Ref(number)),
            SimpleNamespace(remote=lambda block: Ref(number, block)),
        )

    def wait(self, refs: list[Ref], num_returns: int = 1, timeout: float = 0) -> tuple[list[Ref], list[Ref]]:
        """Starts come first: those of a lost machine fail at the same moment."""
        return sorted(refs, key=lambda ref: ref.block is not None)[:num_returns], []

    def get(self, ref: Ref) -> int | None:
        if self.is_lost(ref):
            raise ActorDiedError
        return ref.block

    def kill(self, actor: Any) -> None:
        self.killed.append(actor)

    def run(self, size: int, blocks: int = 40) -> list[int]:
        """The results of blocks that are their own results."""
        pool = ActorPool[int](self, self.new_actor, size)
        return sorted(result for _, result in pool.run(range(blocks)))


def is_start(ref: Ref) -> bool:
    return ref.block is None


@pytest.mark.parametrize("lost", [range(5, 9), range(1, 5), range(1, 9)], ids=["last", "first", "all"])
def test_a_machine_that_is_lost_while_its_actors_start_does_not_end_the_run(lost: range) -> None:
    ray = PretendedRay(lambda ref: is_start(ref) and ref.actor in lost)
    assert ray.run(size=8) == list(range(40))
    assert ray.actors == 8 + len(lost), "each is replaced once"


def test_actors_that_cannot_start_end_the_run_when_none_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    ray = PretendedRay(is_start)
    with pytest.raises(ClusterError, match=r"every actor was lost 3 times while it started \(.*memory\?"):
        ray.run(size=4)
    assert ray.actors == 12


def test_an_actor_that_cannot_start_beside_others_is_given_up_with_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ray = PretendedRay(lambda ref: is_start(ref) and ref.actor > 2)
    assert ray.run(size=4) == list(range(40))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("an actor was lost 3 times while it started (")
    assert line.endswith("); the others go on. Is there enough memory?")
    assert ray.actors == 2 + 2 * 3


def test_where_the_last_actor_is_lost_others_are_started_for_its_blocks() -> None:
    """Blocks 0 and 1 are lost with the only actor that started; those that replace it work."""
    ray = PretendedRay(lambda ref: (ref.actor == 1 and not is_start(ref)) or ref.actor in range(2, 5))
    assert ray.run(size=2) == list(range(40))
