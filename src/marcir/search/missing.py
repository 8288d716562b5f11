"""The errors for ids and labels that are not in a store, with similar ones."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from heapq import nsmallest
from pathlib import PurePosixPath

from marcir.errors import MissingImageError, StoreError, did_you_mean

_SUGGESTED = 3
# Ids that contain the file name and are compared: hundreds of thousands may.
_COMPARED = 10_000
# Ids before and after a missing one whose spelling is compared: thousands would take as long as a search.
_AROUND = 50


def missing(image: str, ids: Sequence[str]) -> MissingImageError:
    """The error for an id that is not among all ids, which are sorted."""
    similar = similar_ids(image, ids)
    examples = [each for each in ids[:_AROUND] if each.isprintable()][:_SUGGESTED]
    *others, last = [f"'{each}'" for each in similar or examples] or [""]
    named = f"{', '.join(others)} or {last}" if others else last
    if not named:
        return MissingImageError(f"no image '{image}' in the store.")
    return MissingImageError(
        f"no image '{image}' in the store. "
        + (f"Did you mean {named}?" if similar else f"Ids are like {named}.")
    )


def similar_ids(image: str, ids: Sequence[str]) -> list[str]:
    """At most three ids whose file names equal or contain that of a missing one, else the nearest spellings.

    >>> similar_ids("000007", ["images/000007.png", "images/000008.png"])
    ['images/000007.png']
    >>> similar_ids("roof/harbour.tif", ["roof/harbor.tif", "road.tif"])
    ['roof/harbor.tif']
    """
    name, stem = PurePosixPath(image).name, PurePosixPath(image).stem
    if not name:
        return []
    holding = [each for each in ids if stem in each]  # of a million ids, in a tenth of a second
    at_root, below = f"{stem}.", f"/{stem}."
    equal = [each for each in holding if below in each or each.startswith(at_root)]
    compared = dict.fromkeys([*equal[:_COMPARED], *holding[:_COMPARED]])
    files = [(each.rpartition("/")[2], each) for each in compared]
    for found in (
        [each for file, each in files if file == name],
        [each for file, each in files if file.rpartition(".")[0] == stem],
        [each for file, each in files if name in file],
        [each for file, each in files if stem in file],
    ):
        if found:
            return nsmallest(_SUGGESTED, found, key=lambda each: (image not in each, len(each), each))
    place = bisect_left(ids, image)
    spelled = {each.lower(): each for each in ids[max(0, place - _AROUND) : place + _AROUND]}
    return [spelled[each] for each in get_close_matches(image.lower(), spelled, n=_SUGGESTED)]


def unknown_label(name: str, known: Iterable[str]) -> StoreError:
    """The error for a label that no image has, with the nearest one."""
    names = list(known)
    advice = did_you_mean(name, names) if names else "No image has a label: index with --labels CSV."
    return StoreError(f"no image of the store has the label '{name}'. {advice}")


def no_common_image(labels: Sequence[str]) -> StoreError:
    """The error for labels that no image has together."""
    return StoreError(f"no image of the store carries all of: {', '.join(labels)}.")
