"""Shards: the part of an archive that one of several processes indexes."""

import hashlib
import re
from dataclasses import dataclass

from marcir.checks import check_int
from marcir.errors import ConfigError


@dataclass(frozen=True)
class Shard:
    """One of several parts of an archive. Every image is in exactly one of them, on every machine.

    Attributes:
        index: Which part, from 0.
        count: Number of parts; 1 for the whole archive.

    Raises:
        ConfigError: For a part that there is not.

    >>> [Shard(index, 3).holds("images/000007.png") for index in range(3)]
    [False, False, True]
    """

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        check_int("shard count", self.count, 1)
        check_int(f"shard index of {self.count} (from 0)", self.index, 0, self.count - 1)

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read `I/N`.

        >>> Shard.parse("0/4")
        Shard(index=0, count=4)
        """
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
        if found is None or not int(found[1]) < int(found[2]):
            raise ConfigError(
                f"--shard {text}: must be I/N, with I from 0 to N - 1. Shards count from 0, as job arrays "
                "do: the first of four is 0/4, the last 3/4."
            )
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole archive."""
        return self.count == 1

    def holds(self, image: str) -> bool:
        """Whether an image is in this part. Python's own hash differs from process to process."""
        if self.is_whole:
            return True
        # A name that is not UTF-8 has a shard, too: the one that reports it.
        digest = hashlib.blake2b(image.encode("utf-8", "surrogateescape"), digest_size=8).digest()
        return int.from_bytes(digest) % self.count == self.index


WHOLE = Shard()
