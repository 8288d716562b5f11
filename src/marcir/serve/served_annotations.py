"""Collections and labels as the service shows and changes them; runs in worker threads."""

from collections.abc import Sequence

from fastapi import Response

from marcir.annotations.annotations import Annotations
from marcir.annotations.collection_export import Format, export_collection
from marcir.annotations.collection_table import Collection
from marcir.annotations.label_export import export_labels
from marcir.annotations.names import shown
from marcir.annotations.retrain import retrain_commands
from marcir.search.hits import Hit
from marcir.search.missing import missing
from marcir.search.store import Snapshot
from marcir.serve import annotation_schemas as schemas
from marcir.serve.edit_bodies import (
    ChangeCollection,
    CreateCollection,
    DeleteCollection,
    LabelStatement,
    RenameCollection,
    Selection,
    SetLabels,
    UndoLabels,
)
from marcir.serve.errors import RequestError
from marcir.serve.parameters import MembersParameters
from marcir.serve.request_log import RequestNotes
from marcir.serve.schemas import HitResponse
from marcir.serve.served_archive import ServedArchive
from marcir.serve.settings import MAX_CHOSEN

_MEDIA_TYPES: dict[Format, str] = {
    "csv": "text/csv; charset=utf-8",
    "geojson": "application/geo+json",
    "paths": "text/plain; charset=utf-8",
}
_SUFFIXES: dict[Format, str] = {"csv": "csv", "geojson": "geojson", "paths": "txt"}


class ServedAnnotations:
    """The annotations of an archive; threads may share it.

    Args:
        archive: The archive.
        author: Who changes them.
    """

    def __init__(self, archive: ServedArchive, author: str) -> None:
        self._archive, self._author = archive, author
        self._annotations: Annotations = archive.annotations

    def check_editable(self) -> None:
        """Refuse changes where they are not allowed (403)."""
        if not self._annotations.writable:
            raise RequestError(403, "changes are not allowed: the service was started without --allow-edits.")

    def collections(self) -> schemas.CollectionsResponse:
        """All collections."""
        found = self._annotations.collections.all()
        return schemas.CollectionsResponse(
            collections=[schemas.CollectionResponse.of(each) for each in found]
        )

    def members(self, given: MembersParameters) -> schemas.MembersResponse:
        """Some images of a collection."""
        table = self._annotations.collections
        collection, images = table.get(given.name), table.images(given.name)
        members = table.members(given.name, given.limit, given.offset)

        def describe(snapshot: Snapshot) -> tuple[int, dict[str, HitResponse]]:
            gone = set(snapshot.missing(images))
            rows = snapshot.describe([each.image for each in members if each.image not in gone])
            return len(gone), {row.id: HitResponse.from_hit(Hit.from_row(row)) for row in rows}

        gone, hits = self._archive.store.read(describe)
        return schemas.MembersResponse(
            collection=schemas.CollectionResponse.of(collection),
            missing=gone,
            offset=given.offset,
            limit=given.limit,
            more=given.offset + len(members) < collection.images,
            members=[
                schemas.MemberResponse(
                    id=each.image, added=each.added, author=each.author, image=hits.get(each.image)
                )
                for each in members
            ],
        )

    def export(self, name: str, form: Format) -> Response:
        """A whole collection as a file."""
        content = export_collection(self._archive.store, self._annotations, name, form)
        return _attachment(content, _MEDIA_TYPES[form], f"marcir-collection.{_SUFFIXES[form]}")

    def create(self, given: CreateCollection, notes: RequestNotes) -> schemas.ChangedCollectionResponse:
        """Make a collection, empty or of some images."""
        images = self._chosen(given) if given.is_given else []
        made = self._annotations.collections.create(given.name, images, self._author)
        notes.add_edit(f"collection {shown(made.name)} made with {made.images:,} images")
        return _changed(made, made.images)

    def rename(self, given: RenameCollection, notes: RequestNotes) -> schemas.ChangedCollectionResponse:
        """Give a collection another name."""
        renamed = self._annotations.collections.rename(given.name, given.new_name)
        notes.add_edit(f"collection {shown(given.name)} is {shown(renamed.name)} now")
        return _changed(renamed, 0)

    def delete(self, given: DeleteCollection, notes: RequestNotes) -> None:
        """Remove a collection; images and labels stay."""
        self._annotations.collections.delete(given.name)
        notes.add_edit(f"collection {shown(given.name)} deleted")

    def add(self, given: ChangeCollection, notes: RequestNotes) -> schemas.ChangedCollectionResponse:
        """Add images to a collection, by their ids or by a filter."""
        images = self._chosen(given)
        collection, changed = self._annotations.collections.add(given.name, images, self._author)
        notes.add_edit(f"collection {shown(collection.name)}: {changed:,} images added")
        return _changed(collection, changed)

    def remove(self, given: ChangeCollection, notes: RequestNotes) -> schemas.ChangedCollectionResponse:
        """Remove images from a collection, by their ids or by a filter; they may have left the store."""
        images = self._chosen(given, may_be_gone=True)
        collection, changed = self._annotations.collections.remove(given.name, images)
        notes.add_edit(f"collection {shown(collection.name)}: {changed:,} images removed")
        return _changed(collection, changed)

    def set_labels(self, given: SetLabels, notes: RequestNotes) -> schemas.EditResponse:
        """Give labels to images: present, absent, unknown, or cleared; one step of undo."""
        # One after the other: too many are refused before all filters are applied.
        statements = ((each.label, each.state, self._stated(each)) for each in given.changes)
        edit = self._annotations.labels.set(statements, self._author)
        names = ", ".join(f"{shown(each.label)} {each.state}" for each in given.changes[:3])
        notes.add_edit(f"{edit.changed:,} labels of images changed: {names}")
        return schemas.EditResponse(**vars(edit))

    def undo(self, _: UndoLabels, notes: RequestNotes) -> schemas.UndoResponse:
        """Take the last change of labels of this author back; what others changed since stays."""
        undone = self._annotations.labels.undo(self._author)
        notes.add_edit(f"undone: {undone.changed:,} labels of images changed")
        return schemas.UndoResponse(**vars(undone))

    def history(self, image: str) -> schemas.HistoryResponse:
        """Changes of the labels of an image, which need not be in the store any more."""
        changes = self._annotations.labels.history(image)
        if not changes:
            self._archive.store.describe([image])  # an unknown id is refused
        return schemas.HistoryResponse(
            changes=[
                schemas.LabelChangeResponse(**{k: v for k, v in vars(each).items() if k != "image"})
                for each in changes
            ]
        )

    def export_labels(self) -> Response:
        """The merged labels as a label table."""
        found = export_labels(self._archive.store.plain, self._annotations)
        return _attachment(found.text.encode(), "text/csv; charset=utf-8", "labels.csv")

    def retrain(self) -> schemas.RetrainResponse:
        """How a model is trained on these labels."""
        labelled, commands = retrain_commands(self._archive.store.plain, self._annotations)
        return schemas.RetrainResponse(
            labelled=labelled,
            commands=[schemas.CommandResponse(title=title, command=text) for title, text in commands],
        )

    def _stated(self, given: LabelStatement) -> Sequence[str]:
        return self._chosen(given, may_be_gone=given.state == "cleared")

    def _chosen(self, given: Selection, may_be_gone: bool = False) -> Sequence[str]:
        """Ids of the images that a request names; refused (404) where they are not in the store."""
        if given.ids is not None:
            if not may_be_gone:
                self._check_there(given.ids)
            return given.ids
        assert given.filter is not None  # noqa: S101
        where = self._archive.where(given.filter)

        def choose(snapshot: Snapshot) -> list[str]:
            count = snapshot.count(where)
            if count > MAX_CHOSEN:
                raise RequestError(
                    422, f"filter: {count:,} images pass it, at most {MAX_CHOSEN:,} can be chosen. Narrow it."
                )
            return sorted(snapshot.sample(max(1, count), 0, where))

        return self._archive.store.read(choose)

    def _check_there(self, ids: Sequence[str]) -> None:
        def check(snapshot: Snapshot) -> None:
            if gone := snapshot.missing(ids):
                raise missing(gone[0], snapshot.ids())

        self._archive.store.read(check)


def _changed(collection: Collection, changed: int) -> schemas.ChangedCollectionResponse:
    return schemas.ChangedCollectionResponse(
        collection=schemas.CollectionResponse.of(collection), changed=changed
    )


def _attachment(content: bytes, media_type: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=media_type, headers=headers)
