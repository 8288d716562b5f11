"""Find the pixel format of an archive, and its broken images."""

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Literal, TypeVar, get_args

from marcir.checks import check_choice
from marcir.data.archive import Archive
from marcir.data.images import PixelFormat, most_common_format, read_pixel_format
from marcir.data.prefetch import read_batches
from marcir.errors import BrokenImageError, DataError
from marcir.progress import track

OnBroken = Literal["error", "skip"]
Result = TypeVar("Result")
_BATCH = 64
# Broken images listed in an error.
_LISTED = 10


def archive_format(archive: Archive) -> PixelFormat | None:
    """The most common pixel format, from all headers; None if no header can be read."""

    def read_header(position: int) -> PixelFormat | None:
        try:
            return read_pixel_format(archive.paths[position])
        except BrokenImageError:
            return None

    formats = map_images(archive, read_header, "reading headers")
    return most_common_format(each for each in formats if each is not None)


def require_format(archive: Archive) -> PixelFormat:
    """The most common pixel format of an archive.

    Raises:
        DataError: If the archive has no images, or none that can be read.
    """
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
    """The archive without broken images, and what is wrong with these, by id; reads all images.

    Args:
        archive: The archive.
        on_broken: `error` refuses an archive with broken images, naming them; `skip` leaves them out.
    """
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
