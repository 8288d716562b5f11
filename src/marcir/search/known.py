"""Labels and metadata of images that come from tables."""

import datetime
import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from marcir.data.image_source import WINDOW_METADATA, ImageSource
from marcir.data.label_csv import Unlisted, read_label_table
from marcir.errors import DataError
from marcir.search.metadata import Extra, read_metadata
from marcir.search.records import LabelStates, Row


@dataclass(frozen=True, eq=False)
class Known:
    """Labels and metadata from tables; None where there is no table."""

    labels: dict[str, LabelStates] | None  # by image
    extra: dict[str, Extra] | None
    notes: tuple[str, ...] = ()

    @classmethod
    def read(
        cls,
        source: ImageSource,
        labels: str | Path | None,
        unlisted: Unlisted | None,
        metadata: str | Path | None,
    ) -> "Known":
        """Read the tables of the images of a source.

        Raises:
            DataError: For a table that names none of them, and for places of windows, which have their own.
        """
        found = _read_labels(labels, source.id_of, unlisted) if labels is not None else None
        extra = _of_windows(read_metadata(metadata, source.id_of), source) if metadata is not None else None
        notes: list[str] = []
        if found is not None:
            notes += _compared(labels, found, source, "nothing is known of the labels of the others")
        if extra is not None:
            notes += _compared(metadata, extra, source)
            if source.cut is not None and any(each.bbox for each in extra.values()):
                raise DataError(
                    f"{metadata}: windows have the place of their scene. Leave out west, south, east, north."
                )
        return cls(found, extra, tuple(notes))

    def apply_to(self, row: Row) -> Row:
        """Add the labels and metadata of the tables to an image."""
        if self.labels is not None:
            states = self.labels.get(row.id)
            present, unknown = states or LabelStates()
            row = replace(row, labels=present, unknown=unknown, labelled=states is not None)
        if self.extra is not None:
            extra = self.extra.get(row.id, Extra())
            if row.footprint is None:
                return replace(row, metadata=extra.metadata, bbox=extra.bbox, date=extra.date)
            own = _own(row)
            return replace(row, metadata={**extra.metadata, **own}, date=extra.date or _own_date(own))
        return row

    def fingerprint(self, image: str, content: str, before: str | None) -> str:
        """Of an image's bytes, its labels and its metadata; of the latter as before, without a table."""
        labels, extra = [*(before or "").split(":"), "", ""][1:3]
        if self.labels is not None:
            labels = _digest_of_labels(self.labels.get(image))
        if self.extra is not None:
            of = self.extra.get(image, Extra())
            extra = "" if of == Extra() else _digest([dict(of.metadata), of.bbox, str(of.date)])
        return f"{content}:{labels}:{extra}"


def as_before(row: Row, before: Row | None) -> Row:
    """An image whose bytes have changed, with what it has from tables."""
    if before is None:
        return row
    row = replace(row, labels=before.labels, unknown=before.unknown, labelled=before.labelled)
    if row.footprint is None:
        return replace(row, metadata=before.metadata, bbox=before.bbox, date=before.date)
    from_tables = {name: value for name, value in before.metadata.items() if name not in WINDOW_METADATA}
    by_table = before.date if before.date != _own_date(_own(before)) else None
    return replace(row, metadata={**from_tables, **row.metadata}, date=by_table or row.date)


def _own(row: Row) -> dict[str, Any]:
    """What the scene of a window says of it."""
    return {name: row.metadata[name] for name in WINDOW_METADATA if name in row.metadata}


def _own_date(own: Mapping[str, Any]) -> datetime.date | None:
    return datetime.datetime.fromisoformat(own["time"]).date() if "time" in own else None


def _compared(
    table: str | Path | None, named: Collection[str], source: ImageSource, others: str = ""
) -> list[str]:
    """Notes on a table that names other images than there are.

    Args:
        table: The file.
        named: The images that it names.
        source: The images that there are.
        others: What this means for images that it does not name.

    Raises:
        DataError: Where it names none of them.
    """
    ids = set(source.ids)
    known = ids.intersection(named)
    if not known:
        if source.cut is None:
            found, advice = f"paths is an image below {source.root}", "Give paths relative to --images."
        else:
            found, advice = f"ids is a window of {source.root}", "Give a.tif@x=0,y=0,w=256,h=256 and so on."
        raise DataError(f"{table}: none of its {found}. {advice}")
    notes = []
    if len(known) < len(ids):
        names = f"{table} names {len(known):,} of the {len(ids):,} {source.what}"
        notes.append(f"{names}; {others}" if others else names)
    if unknown := sorted(set(named) - ids):
        notes.append(
            f"{table} names {len(unknown):,} that are not {source.what} below {source.root}, for example "
            f"'{unknown[0]}'"
        )
    return notes


def _of_windows(named: dict[str, Extra], source: ImageSource) -> dict[str, Extra]:
    """Metadata by image, where a table may name a scene for all of its windows without a row of their own."""
    files = named.keys() - set(source.ids)
    if source.cut is None or not files:
        return named
    found = dict(named)
    used = set()
    for image in source.ids:
        file = source.file_of(image)
        if file in files:
            found.setdefault(image, named[file])
            used.add(file)
    return {image: extra for image, extra in found.items() if image not in used}


def _read_labels(
    file: str | Path, id_of: Callable[[str], str], unlisted: Unlisted | None
) -> dict[str, LabelStates]:
    """The labels of the images that a table names."""
    table = read_label_table(file, unlisted=unlisted)
    found: dict[str, LabelStates] = {}
    for row in table.rows:
        image = id_of(row.image)
        if image in found:
            raise DataError(f"{file} line {row.line}: duplicate '{image}'. Keep one.")
        found[image] = LabelStates(row.labels, row.unknown)
    return found


def _digest_of_labels(states: LabelStates | None) -> str:
    """A short fingerprint; empty for an image that the table does not name, as without a table."""
    if states is None:
        return ""
    present, unknown = sorted(states.present), sorted(states.unknown)
    return _digest([present, unknown] if unknown else present)


def _digest(content: object) -> str:
    """A short fingerprint."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def bytes_of(content: str | None) -> str | None:
    """The part of a fingerprint that is of the file's bytes."""
    return None if content is None else content.split(":")[0]
