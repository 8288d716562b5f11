"""The parameters of requests that list images, suggest labels, and draw the map."""

from typing import Annotated, Literal

from pydantic import Field

from marcir.serve.parameters import FilterParameters, Names, Parameters
from marcir.serve.settings import MAX_LIMIT

_LARGEST = 2**53  # that JavaScript counts exactly to
MAP_LABELS = 32  # bits of the colours of a point
MAP_IDS = 1000
_SCORED_LABELS = 20  # one takes up to seconds

OneLabel = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=1000)]], Field(min_length=1, max_length=1)
]


class ListParameters(FilterParameters):
    """Filter, order and page of a listing."""

    sort: Literal["id", "date", "similarity"] = Field(
        "id", description="Images without a date come last; similarity is for /api/search, which has a query."
    )
    order: Literal["asc", "desc"] = Field("asc", description="Equal dates stay in the order of ids.")
    offset: int = Field(0, ge=0, le=_LARGEST, description="How many are skipped; everything can be reached.")
    limit: int = Field(24, ge=1, le=MAX_LIMIT, description="How many.")


class ThresholdParameters(FilterParameters):
    """A label, and the images it may be suggested for."""

    label: OneLabel = Field(description="The label, given once.", examples=[["ship"]])
    min_probability: float = Field(
        0, ge=0, le=1, allow_inf_nan=False, description="Images that have the label at least so probably."
    )


class SuggestionParameters(ThresholdParameters):
    """Label, filter, order and page of suggestions."""

    order: Literal["uncertain", "confident"] = Field(
        "uncertain", description="Probabilities nearest to 1/2 first, or the largest."
    )
    offset: int = Field(0, ge=0, le=_LARGEST, description="How many are skipped.")
    limit: int = Field(24, ge=1, le=MAX_LIMIT, description="How many.")


class ScoreParameters(Parameters):
    """Labels whose suggestions are scored."""

    label: Annotated[Names, Field(min_length=1, max_length=_SCORED_LABELS)] = Field(
        description=f"At most {_SCORED_LABELS} labels.", examples=[["ship"]]
    )


class MapParameters(FilterParameters):
    """Filter, and labels that points are coloured by."""

    label: Annotated[list[str], Field(max_length=MAP_LABELS)] = Field(
        [], description="Bit i of a point says whether its image has the i-th of these labels."
    )


class MapIdsParameters(Parameters):
    """Rows of a map."""

    version: str = Field(max_length=100, description="The header X-Marcir-Version of /api/map.")
    row: Annotated[list[Annotated[int, Field(ge=0, lt=2**32)]], Field(min_length=1, max_length=MAP_IDS)] = (
        Field(description="Rows of points.")
    )
