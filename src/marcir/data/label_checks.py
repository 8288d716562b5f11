"""Warnings about likely mistakes in a readable archive."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from marcir.data.archive import Archive, image_files
from marcir.data.images import SUFFIXES

# Characters that are rarely part of a label name, and characters that often are.
_SEPARATORS = ("|", ",")
_JOINERS = (" ", "/", "+", "&")


def suspicious_label_names(names: Sequence[str]) -> list[str]:
    """One warning per label name that may be several labels in one, or another spelling of a label.

    >>> for warning in suspicious_label_names(["Road", "road", "road|tree", "tree", "bare soil"]):
    ...     print(warning)
    'Road' and 'road' differ only in spelling: one label?
    'road|tree': several labels? Put ';' between.
    """
    spellings: dict[str, list[str]] = defaultdict(list)
    for name in names:
        spellings["".join(letter for letter in name.casefold() if letter.isalnum())].append(name)
    warnings = [
        f"{' and '.join(map(repr, same))} differ only in spelling: one label?"
        for same in spellings.values()
        if len(same) > 1
    ]
    known = {name.casefold() for name in names}
    return warnings + [
        f"{name!r}: several labels? Put ';' between." for name in names if _is_joined(name.casefold(), known)
    ]


def _is_joined(name: str, known: set[str]) -> bool:
    """Whether a name contains a separator, or consists of known names."""
    if any(separator in name.strip(separator) for separator in _SEPARATORS):
        return True
    parts = ([part.strip() for part in name.split(joiner)] for joiner in _JOINERS if joiner in name)
    return any(known.issuperset(each) for each in parts)


def unlisted_images(archive: Archive, folder: str = ".") -> int:
    """Count the image files below a folder of the archive that its label table does not list.

    Args:
        archive: The archive.
        folder: The image folder, relative to the archive's root.
    """
    listed = {path.resolve() for path in archive.paths}
    files: set[Path] = {path.resolve() for path in image_files(archive.root / folder, SUFFIXES)}
    return len(files - listed)
