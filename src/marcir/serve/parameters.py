"""The parameters of requests, as FastAPI validates and documents them."""

from collections import Counter
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from marcir.annotations.names import MAX_NAME
from marcir.errors import did_you_mean
from marcir.search.area import Area, parse_bbox, parse_date
from marcir.search.records import Filter
from marcir.serve.errors import RequestError
from marcir.serve.settings import (
    MAX_AREA_POINTS,
    MAX_AREA_TEXT,
    MAX_CHOSEN,
    MAX_EXAMPLES,
    MAX_LIMIT,
    MAX_RESULTS,
)


def _without_empty(names: Any) -> Any:
    """Values without empty ones: a form sends `any=` where nothing was chosen."""
    return [name for name in names if name] if isinstance(names, list) else names


def _empty_as_none(text: Any) -> Any:
    """None for an empty text, which a form sends where nothing was typed."""
    return None if text == "" else text


Names = Annotated[list[str], BeforeValidator(_without_empty), Field(max_length=1000)]
Id = Annotated[str, Field(min_length=1, max_length=4096)]
Text = Annotated[str | None, BeforeValidator(_empty_as_none)]
CollectionName = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
# Parameters that may be repeated.
REPEATED = frozenset({"any", "all", "none", "like", "unlike", "label", "row"})


class Parameters(BaseModel):
    """Query parameters; unknown ones are refused with the nearest known name."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, values: Any) -> Any:
        names = [field.alias or name for name, field in cls.model_fields.items()]
        for name in values if isinstance(values, dict) else ():  # in a body it may be anything
            if name not in names:
                known = did_you_mean(name, names)
                raise PydanticCustomError(
                    "sentence", "{text}", {"text": f"unknown parameter '{name}'. {known}"}
                )
        return values


class NoParameters(Parameters):
    """No parameters."""


class ImageParameters(Parameters):
    """Which image."""

    id: Id = Field(description="Id of an image of the archive.", examples=["forest/001.png"])


class OriginalParameters(ImageParameters):
    """Which file, and in which form."""

    download: bool = Field(False, description="The file's own bytes, as an attachment.")


class WindowParameters(ImageParameters):
    """Which window, in which bands, and how much of its surroundings."""

    bands: str | None = Field(
        None,
        max_length=100,
        description="One number or three of bands of the scene, from 1; by default what the thumbnail shows.",
        examples=["4,3,2"],
    )
    around: int = Field(0, ge=0, le=4, description="Windows of surroundings on each side.")


class CollectionParameters(Parameters):
    """Which collection."""

    name: CollectionName = Field(description="Name of a collection.", examples=["Ships"])


class MembersParameters(CollectionParameters):
    """Which images of a collection."""

    offset: int = Field(0, ge=0, le=MAX_CHOSEN, description="How many are skipped.")
    limit: int = Field(24, ge=1, le=MAX_LIMIT, description="How many.")
    missing: bool = Field(False, description="Only those that are no longer in the store.")


class CollectionExportParameters(CollectionParameters):
    """Which collection, and in which form."""

    format: Literal["csv", "geojson", "paths"] = Field(
        "csv", description="paths: the files of the images below the root, one per line."
    )


class FilterParameters(Parameters):
    """Filter by labels, place and time: which images may be found. Labels never rank."""

    any: Names = Field([], description="Images with at least one of these labels.")
    all: Names = Field([], description="Images with all of these labels.")
    none: Names = Field([], description="Images that are known to have none of these labels.")
    none_unknown_ok: bool = Field(
        False, description="Beside `none`: also images of which it is unknown whether they have these labels."
    )

    bbox: Text = Field(
        None,
        description="Images whose footprint touches this box: W,S,E,N in degrees (WGS84), W > E across the "
        "date line.",
        examples=["-97.4,46.9,-97.2,47.1"],
    )
    within: Text = Field(
        None,
        max_length=MAX_AREA_TEXT,
        description="Images whose footprint touches these polygons: GeoJSON in longitude and latitude, at "
        f"most {MAX_AREA_POINTS:,} points. A polygon must not cross itself.",
        examples=['{"type": "Polygon", "coordinates": [[[7, 50], [8, 50], [8, 51], [7, 50]]]}'],
    )
    date_from: Text = Field(
        None, alias="from", description="Images of this day or later.", examples=["2020-01-01"]
    )
    date_to: Text = Field(
        None, alias="to", description="Images of this day or earlier.", examples=["2021-12-31"]
    )
    collection: CollectionName | None = Field(None, description="Images of this collection.")

    @cached_property
    def filter(self) -> Filter:
        """The filter of the store; that by a collection is `ServedArchive.where`.

        Raises:
            ConfigError: If a place or a date is none.
        """
        return Filter(
            tuple(self.any),
            tuple(self.all),
            tuple(self.none),
            none_unknown_ok=self.none_unknown_ok,
            bbox=None if self.bbox is None else parse_bbox(self.bbox),
            within=None
            if self.within is None
            else Area.from_geojson(self.within, "within", max_points=MAX_AREA_POINTS),
            date_from=None if self.date_from is None else parse_date(self.date_from),
            date_to=None if self.date_to is None else parse_date(self.date_to),
        )


class SampleParameters(FilterParameters):
    """Filter, seed and size of a sample."""

    seed: int = Field(0, ge=0, lt=2**53, description="The same seed gives the same sample.")
    limit: int = Field(24, ge=1, le=MAX_LIMIT, description="How many.")


class PageParameters(FilterParameters):
    """Filter and page of a search."""

    min_similarity: float | None = Field(
        None, ge=-1, le=1, allow_inf_nan=False, description="Minimum cosine similarity with the query."
    )
    offset: int = Field(0, ge=0, le=MAX_RESULTS, description="How many of the best are skipped.")
    limit: int = Field(24, ge=1, le=MAX_LIMIT, description="How many.")
    format: Literal["json", "csv", "geojson", "geoparquet"] = Field(
        "json", description="All but json are attachments."
    )

    @cached_property
    def filter(self) -> Filter:
        """The filter of the store."""
        return replace(super().filter, min_similarity=self.min_similarity)

    @property
    def non_defaults(self) -> dict[str, Any]:
        """The parameters that differ from their defaults."""
        return self.model_dump(exclude_defaults=True, by_alias=True)


class SearchParameters(PageParameters):
    """A search: exactly one of id, vector, like, label and at."""

    id: Id | None = Field(None, description="Images like this one, which is not among the hits.")
    vector: str | None = Field(None, description="Images like an uploaded one: what /api/embed gave.")
    like: Annotated[list[str], Field(max_length=MAX_EXAMPLES)] = Field(
        [],
        description="Examples: `id:ID`, `vector:VECTOR` or `collection:NAME`.",
        examples=[["id:forest/001.png"]],
    )
    unlike: Annotated[list[str], Field(max_length=MAX_EXAMPLES)] = Field(
        [], description="Counter-examples, beside `like`, written likewise."
    )
    label: Names = Field([], description="Images near the mean of those with all of these labels.")
    at: Text = Field(
        None,
        description="Images like the one that shows this point, LON,LAT in degrees (WGS84): of several, the "
        "newest.",
        examples=["-97.3,47.0"],
    )

    @model_validator(mode="after")
    def _check_one_kind(self) -> "SearchParameters":
        examples = bool(self.like or self.unlike)
        kinds = (
            self.id is not None,
            self.vector is not None,
            examples,
            bool(self.label),
            self.at is not None,
        )
        if sum(kinds) != 1:
            raise PydanticCustomError(
                "sentence", "a search needs one of id, vector, like, label and at, and only one."
            )
        if self.unlike and not self.like:
            raise PydanticCustomError(
                "sentence", "unlike needs at least one example beside it: like=id:... ."
            )
        return self


async def check_duplicates(request: Request) -> None:
    """Refuse a duplicate parameter that may be given once."""
    counts = Counter(name for name, _ in request.query_params.multi_items())
    for name, count in counts.items():
        if count > 1 and name not in REPEATED:
            raise RequestError(422, f"{name}: given {count} times. Give it once.")
