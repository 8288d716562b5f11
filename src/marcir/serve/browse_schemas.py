"""The bodies of responses that list images and suggest labels."""

from pydantic import BaseModel, Field

from marcir.serve.schemas import HitResponse


class ListResponse(BaseModel):
    """A page of the images that pass a filter."""

    hits: list[HitResponse]
    offset: int
    limit: int
    total: int = Field(description="Images that pass the filter.")
    more: bool = Field(description="Whether there is another page.")


class SuggestedResponse(HitResponse):
    """An image that may have a label."""

    probability: float = Field(
        description="Of the label, as if present and absent labels were equally common.", examples=[0.87]
    )


class SuggestionsResponse(BaseModel):
    """A page of images that may have a label; it is unknown whether they have it."""

    label: str
    order: str
    hits: list[SuggestedResponse]
    offset: int
    limit: int
    total: int = Field(description="Images that pass the filter and reach the probability.")
    more: bool = Field(description="Whether there is another page.")
    present: int = Field(description="Images that are known to have the label.")
    absent: int = Field(description="Images that are known not to have it.")
    weak: int = Field(description="Images of unknown state that were taken for absent, with a small weight.")


class SuggestedIdsResponse(BaseModel):
    """Ids of images that probably have a label, the most probable first."""

    label: str
    ids: list[str]
    total: int = Field(description="How many there are; ids may be fewer.")


class CurvePointResponse(BaseModel):
    """Cross-validated average precision of what the first so many labels teach."""

    labels: int
    average_precision: float


class LabelScoreResponse(BaseModel):
    """How well a label can be suggested."""

    label: str
    present: int = Field(description="Images that are known to have it.")
    absent: int = Field(description="Images that are known not to have it.")
    average_precision: float | None = Field(
        description="Cross-validated; null where fewer than five are present, or absent."
    )
    chance: float | None = Field(description="The average precision of a random order.")
    curve: list[CurvePointResponse] = Field(
        description="As labels grow: those of the table in random order, then those of the page as given."
    )


class ScoresResponse(BaseModel):
    """How well labels can be suggested."""

    scores: list[LabelScoreResponse]


class MapIdsResponse(BaseModel):
    """Ids of the points of a map."""

    ids: list[str] = Field(description="In the order of the rows that were asked for.")
