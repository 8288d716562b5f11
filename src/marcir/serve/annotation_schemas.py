"""The responses about collections and labels."""

from typing import Literal, Self

from pydantic import BaseModel, Field

from marcir.annotations.collection_table import Collection
from marcir.serve.schemas import HitResponse
from marcir.serve.settings import MAX_RETURNED

_TIME = "2026-05-31T12:00:00.123Z"


class CollectionResponse(BaseModel):
    """A collection."""

    name: str = Field(examples=["Ships"])
    images: int = Field(description="Its images, also those that are no longer in the store.", examples=[12])
    created: str = Field(examples=[_TIME])
    changed: str = Field(description="When its name or its images were changed last.", examples=[_TIME])
    author: str = Field(description="Who made it: local, or token.", examples=["local"])

    @classmethod
    def of(cls, collection: Collection) -> Self:
        """A collection of the annotations."""
        return cls(**vars(collection))


class CollectionsResponse(BaseModel):
    """All collections."""

    collections: list[CollectionResponse] = Field(description="By name.")


class ChangedCollectionResponse(BaseModel):
    """A collection after a change."""

    collection: CollectionResponse
    changed: int = Field(description="Images that were added or removed.")


class RemovedImagesResponse(ChangedCollectionResponse):
    """A collection after images were removed."""

    ids: list[str] | None = Field(
        description=f"The images that were removed, to add them again; null for more than {MAX_RETURNED:,}."
    )


class MemberResponse(BaseModel):
    """An image of a collection."""

    id: str
    added: str = Field(examples=[_TIME])
    author: str
    image: HitResponse | None = Field(description="null where it is no longer in the store.")


class MembersResponse(BaseModel):
    """Images of a collection, in the order in which they were added."""

    collection: CollectionResponse
    missing: int = Field(description="Images of the collection that are no longer in the store.")
    offset: int
    limit: int
    more: bool
    members: list[MemberResponse]


class EditResponse(BaseModel):
    """What a change of labels did."""

    edit: int | None = Field(description="Its number; null where nothing had to be changed.")
    changed: int = Field(description="Labels of images that have another state now.")
    unchanged: int = Field(description="Labels of images that had the state already.")


class UndoResponse(BaseModel):
    """What an undo did."""

    edit: int | None = Field(description="Its number; null where nothing was left to undo.")
    undone: int | None = Field(description="The edit that was undone.")
    changed: int = Field(description="Labels of images that are as before that edit again.")
    kept: int = Field(description="Labels that were changed once more since, and are left as they are.")


State = Literal["present", "absent", "unknown", "cleared"]


class LabelChangeResponse(BaseModel):
    """One change of a label of an image."""

    edit: int
    time: str = Field(examples=[_TIME])
    author: str
    label: str
    before: State = Field(description="`cleared`: nothing was stated.")
    state: State
    undoes: int | None = Field(description="The edit that this one undoes.")


class HistoryResponse(BaseModel):
    """What people changed of the labels of an image."""

    changes: list[LabelChangeResponse] = Field(description="At most 1,000, the newest first.")


class CommandResponse(BaseModel):
    """A command, and what it does."""

    title: str
    command: str


class RetrainResponse(BaseModel):
    """How a model is trained on these labels, and compared."""

    labelled: int = Field(description="Images of which any label is known.")
    commands: list[CommandResponse] = Field(description="To be run one after the other.")
    note: str | None = Field(
        description="What the scores mean where labels are unknown; null where all labels are known."
    )
