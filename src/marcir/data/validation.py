"""Find the pixel format of an archive, its broken images, and likely mistakes in its labels."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Literal, TypeVar, get_args

from torch import Tensor

from marcir.checks import check_choice
from marcir.data.archive import Archive, image_files
from marcir.data.images import SUFFIXES, PixelFormat, most_common_format
from marcir.data.label_csv import SIGNS, Unlisted
from marcir.data.prefetch import read_batches
from marcir.errors import BrokenImageError, DataError
from marcir.progress import track

OnBroken = Literal["error", "skip"]
Result = TypeVar("Result")
_BATCH = 64
# Broken images listed in an error.
_LISTED = 10
# Characters that are rarely part of a label name, and characters that often are.
_SEPARATORS = ("|", ",")
_JOINERS = (" ", "/", "+", "&")
# Share of images without any label from which a label table may be incomplete.
_MANY_WITHOUT_LABEL = 0.05


def archive_format(archive: Archive) -> PixelFormat | None:
    """The most common pixel format, from all headers; None if no header can be read."""

    def read_header(position: int) -> PixelFormat | None:
        try:
            return archive.pixel_format(position)
        except BrokenImageError:
            return None

    formats = map_images(archive, read_header, "reading headers")
    return most_common_format(each for each in formats if each is not None)


def require_format(archive: Archive) -> PixelFormat:
    """The most common pixel format; a DataError if the archive has no image that can be read."""
    if not len(archive):
        raise DataError(f"{archive.root}: the archive has no images.")
    pixel_format = archive_format(archive)
    if pixel_format is None:
        raise_if_broken(broken_images(archive))
        raise DataError(f"{archive.root}: the images changed while they were read. Try again.")
    return pixel_format


def broken_images(archive: Archive) -> dict[str, str]:
    """What is wrong with every broken image, by id; reads all images."""
    common = archive_format(archive)

    def problem(position: int) -> str | None:
        try:
            image = archive.read(position)
            if common is not None:
                common.fit(image, archive.paths[position])
        except BrokenImageError as error:
            return str(error)
        return None

    problems = map_images(archive, problem, "reading images")
    return {image: text for image, text in zip(archive.ids, problems, strict=True) if text is not None}


def leave_out_broken(archive: Archive, on_broken: OnBroken = "error") -> tuple[Archive, dict[str, str]]:
    """The archive without broken images, and what is wrong with these, by id; reads all images."""
    check_on_broken(on_broken)
    broken = broken_images(archive)
    return without_broken(archive, broken, on_broken), broken


def without_broken(archive: Archive, broken: Mapping[str, str], on_broken: OnBroken) -> Archive:
    """The archive without its broken images, if they are to be skipped and others remain."""
    if on_broken == "error" or len(broken) == len(archive):
        raise_if_broken(broken)
    return archive.without(broken.keys())


def check_on_broken(on_broken: OnBroken) -> OnBroken:
    """Check the choice of `on_broken` and return it."""
    return check_choice("on_broken", on_broken, get_args(OnBroken))


def raise_if_broken(broken: Mapping[str, str]) -> None:
    """Raise one DataError for all broken images."""
    if broken:
        listed = " ".join(sorted(broken.values())[:_LISTED])
        more = f" ... and {len(broken) - _LISTED} more." if len(broken) > _LISTED else ""
        raise DataError(
            f"{len(broken)} broken image(s): {listed}{more} "
            "Repair them, or leave them out with --on-broken skip (in train: --data.on_broken skip)."
        )


def map_images(archive: Archive, work: Callable[[int], Result], what: str) -> list[Result]:
    """Apply a function to the position of every image, in threads, with a progress bar."""
    results = chain.from_iterable(read_batches(range(len(archive)), work, _BATCH, ahead=1))
    return list(track(results, len(archive), what))


def suspicious_label_names(names: Sequence[str]) -> list[str]:
    """One warning per label name that may be several labels in one, another spelling, or have a sign.

    >>> for warning in suspicious_label_names(["Road", "road", "road|tree", "tree", "bare soil", "?car"]):
    ...     print(warning)
    'Road' and 'road' differ only in spelling: one label?
    'road|tree': several labels? Put ';' between.
    '?car': a sign of lists? Name the column 'car', and write ? in its cells.
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
    warnings += [
        f"{name!r}: several labels? Put ';' between." for name in names if _is_joined(name.casefold(), known)
    ]
    return warnings + [
        f"{name!r}: a sign of lists? Name the column {name[1:].strip()!r}, and write "
        f"{'?' if name[0] == '?' else '0'} in its cells."
        for name in names
        if name[0] in SIGNS
    ]


def silence_warning(labels: Tensor, unlisted: Unlisted = "absent") -> str | None:
    """A warning where so many images have no label that labels which are not listed may be unknown.

    In a complete table images without any label are rare; where people list only what they saw, they are not
    (docs/measurements.md has the numbers behind the limit).

    Args:
        labels: Labels of all images. (N, L)
        unlisted: What they are where the table does not list them.

    >>> import torch
    >>> silence_warning(torch.tensor([[1, 0], [0, 1], [0, 0]]))[:34]
    '33 % of the images have no label. '
    >>> silence_warning(torch.tensor([[1, 0], [0, 1], [0, -1]])) is None
    True
    """
    share = float((labels <= 0).all(1).float().mean())
    if unlisted == "unknown" or bool((labels < 0).any()) or share < _MANY_WITHOUT_LABEL:
        return None
    return (
        f"{100 * share:.0f} % of the images have no label. If the table lists only what was seen, use "
        "--unlisted unknown; in a table of 0 and 1, clear the cells of unknown labels."
    )


def _is_joined(name: str, known: set[str]) -> bool:
    """Whether a name contains a separator, or consists of known names."""
    if any(separator in name.strip(separator) for separator in _SEPARATORS):
        return True
    parts = ([part.strip() for part in name.split(joiner)] for joiner in _JOINERS if joiner in name)
    return any(known.issuperset(each) for each in parts)


def unlisted_images(archive: Archive, folder: str = ".") -> int:
    """Count the image files below a folder, relative to the root, that the label table does not list."""
    listed = {path.resolve() for path in archive.files}
    files = {path.resolve() for path in image_files(archive.root / folder, SUFFIXES)}
    return len(files - listed)
