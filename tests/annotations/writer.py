"""A process that changes annotations and prints what was acknowledged, until it is killed.

python writer.py FILE NAME
"""

import sys
from itertools import count
from pathlib import Path

from marcir.annotations import Annotations


def main(file: str, name: str) -> None:
    annotations = Annotations(Path(file), writable=True)
    for number in count():
        annotations.collections.add("Shared", [f"{name}/{number}"], name)
        annotations.labels.set([("ship", "present", [f"{name}/{number}"])], name)
        print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
