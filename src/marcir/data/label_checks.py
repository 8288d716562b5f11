"""What looks like a slip in an archive that can be read all the same."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from marcir.data.archive import Archive, image_files
from marcir.data.images import SUFFIXES

# Signs that are rarely part of a label's name, and signs that often are.
_SEPARATORS = ("|", ",")
_JOINERS = (" ", "/", "+", "&")


def doubtful_names(names: Sequence[str]) -> list[str]:
    """Label names that look like several labels in one, or like another spelling of one; a sentence each.

    >>> for doubt in doubtful_names(["Road", "road", "road|tree", "tree", "bare soil"]):
    ...     print(doubt)
    'Road' and 'road' differ in spelling alone: one label?
    'road|tree': several labels? Put ';' between.
    """
    spelled: dict[str, list[str]] = defaultdict(list)
    for name in names:
        spelled["".join(sign for sign in name.casefold() if sign.isalnum())].append(name)
    doubts = [
        f"{' and '.join(map(repr, same))} differ in spelling alone: one label?"
        for same in spelled.values()
        if len(same) > 1
    ]
    known = {name.casefold() for name in names}
    return doubts + [
        f"{name!r}: several labels? Put ';' between." for name in names if _is_joined(name.casefold(), known)
    ]


def _is_joined(name: str, known: set[str]) -> bool:
    """Whether a name holds a separator, or is made of known names."""
    if any(sign in name.strip(sign) for sign in _SEPARATORS):
        return True
    parts = ([part.strip() for part in name.split(sign)] for sign in _JOINERS if sign in name)
    return any(known.issuperset(each) for each in parts)


def unnamed_images(archive: Archive, folder: str = ".") -> int:
    """How many image files below a folder of the archive belong to none of its images.

    Args:
        archive: What was read.
        folder: The folder below the archive's root that holds its images.
    """
    named = {path.resolve() for path in archive.paths}
    found: set[Path] = {path.resolve() for path in image_files(archive.root / folder, SUFFIXES)}
    return len(found - named)
