"""What the images of an archive have in common, and which of them cannot be used."""

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Literal, TypeVar, get_args

from marcir.checks import check_choice
from marcir.data.archive import Archive
from marcir.data.images import Form, common_form, read_form
from marcir.data.reading import read_batches
from marcir.errors import BrokenImageError, DataError
from marcir.progress import track

OnBroken = Literal["error", "skip"]
Result = TypeVar("Result")
_BATCH = 64
# How many broken images an error names.
_NAMED = 10


def archive_form(archive: Archive) -> Form | None:
    """The bands and dtype of most images, from all headers; none where no header can be read."""

    def form(position: int) -> Form | None:
        try:
            return read_form(archive.paths[position])
        except BrokenImageError:
            return None

    return common_form(form for form in for_all(archive, form, "reading headers") if form is not None)


def needed_form(archive: Archive) -> Form:
    """The bands and dtype of most images.

    Raises:
        DataError: Where the archive has no images, or none that can be read.
    """
    if not len(archive):
        raise DataError(f"{archive.root}: the archive has no images.")
    form = archive_form(archive)
    if form is None:
        refuse_broken(broken_images(archive))
        raise DataError(f"{archive.root}: the images changed while they were read. Try again.")
    return form


def broken_images(archive: Archive) -> dict[str, str]:
    """What is wrong with every image that cannot be used, by id; reads all of them."""
    common = archive_form(archive)

    def problem(position: int) -> str | None:
        try:
            image = archive.read(position)
            if common is not None:
                common.fit(image, archive.paths[position])
        except BrokenImageError as error:
            return str(error)
        return None

    found = for_all(archive, problem, "reading images")
    return {image: text for image, text in zip(archive.ids, found, strict=True) if text is not None}


def leave_out_broken(archive: Archive, on_broken: OnBroken = "error") -> tuple[Archive, dict[str, str]]:
    """The images that can be used, and what is wrong with the others, by id; reads all of them.

    Args:
        archive: What to read.
        on_broken: `error` refuses an archive with broken images, naming them; `skip` leaves them out.
    """
    check_on_broken(on_broken)
    broken = broken_images(archive)
    return without_broken(archive, broken, on_broken), broken


def without_broken(archive: Archive, broken: Mapping[str, str], on_broken: OnBroken) -> Archive:
    """The archive without its broken images, if the user wants that and anything is left."""
    if on_broken == "error" or len(broken) == len(archive):
        refuse_broken(broken)
    return archive.without(broken.keys())


def check_on_broken(on_broken: OnBroken) -> OnBroken:
    """The choice, if there is such a one."""
    return check_choice("on_broken", on_broken, get_args(OnBroken))


def refuse_broken(broken: Mapping[str, str]) -> None:
    """One error for all broken images, with what to do."""
    if broken:
        named = " ".join(sorted(broken.values())[:_NAMED])
        more = f" ... and {len(broken) - _NAMED} more." if len(broken) > _NAMED else ""
        raise DataError(
            f"{len(broken)} broken image(s): {named}{more} "
            "Mend them, or leave them out with --on-broken skip (in train: --data.on_broken skip)."
        )


def for_all(archive: Archive, work: Callable[[int], Result], what: str) -> list[Result]:
    """Do something with every image, in several threads, with a progress bar."""
    results = chain.from_iterable(read_batches(range(len(archive)), work, _BATCH, ahead=1))
    return list(track(results, len(archive), what))
