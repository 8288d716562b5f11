"""The parameters of requests, as FastAPI validates and documents them."""

from collections import Counter
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from marcir.errors import did_you_mean
from marcir.search.records import Filter
from marcir.serve.errors import RequestError
from marcir.serve.settings import MAX_EXAMPLES, MAX_LIMIT, MAX_RESULTS


def _without_empty(names: Any) -> Any:
    """Values without empty ones: a form sends `any=` where nothing was chosen."""
    return [name for name in names if name] if isinstance(names, list) else names


Names = Annotated[list[str], BeforeValidator(_without_empty), Field(max_length=1000)]
Id = Annotated[str, Field(min_length=1, max_length=4096)]
# Parameters that may be repeated.
REPEATED = frozenset({"any", "all", "none", "like", "unlike", "label"})


class Parameters(BaseModel):
    """Query parameters; unknown ones are refused with the nearest known name."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, values: Any) -> Any:
        for name in values:
            if name not in cls.model_fields:
                known = did_you_mean(name, cls.model_fields)
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


class FilterParameters(Parameters):
    """Filter by labels: which images may be found. Labels never rank."""

    any: Names = Field([], description="Images with at least one of these labels.")
    all: Names = Field([], description="Images with all of these labels.")
    none: Names = Field([], description="Images that are known to have none of these labels.")
    none_unknown_ok: bool = Field(
        False, description="Beside `none`: also images of which it is unknown whether they have these labels."
    )

    @property
    def filter(self) -> Filter:
        """The filter of the store."""
        return Filter(
            tuple(self.any), tuple(self.all), tuple(self.none), none_unknown_ok=self.none_unknown_ok
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
    format: Literal["json", "csv", "geojson"] = Field("json", description="csv and geojson are attachments.")

    @property
    def filter(self) -> Filter:
        """The filter of the store."""
        return replace(super().filter, min_similarity=self.min_similarity)

    @property
    def non_defaults(self) -> dict[str, Any]:
        """The parameters that differ from their defaults."""
        return self.model_dump(exclude_defaults=True)


class SearchParameters(PageParameters):
    """A search: exactly one of id, vector, like and label."""

    id: Id | None = Field(None, description="Images like this one, which is not among the hits.")
    vector: str | None = Field(None, description="Images like an uploaded one: what /api/embed gave.")
    like: Annotated[list[str], Field(max_length=MAX_EXAMPLES)] = Field(
        [], description="Examples: `id:ID` or `vector:VECTOR`.", examples=[["id:forest/001.png"]]
    )
    unlike: Annotated[list[str], Field(max_length=MAX_EXAMPLES)] = Field(
        [], description="Counter-examples, beside `like`: `id:ID` or `vector:VECTOR`."
    )
    label: Names = Field([], description="Images near the mean of those with all of these labels.")

    @model_validator(mode="after")
    def _check_one_kind(self) -> "SearchParameters":
        kinds = (self.id is not None, self.vector is not None, self.like or self.unlike, self.label)
        if sum(map(bool, kinds)) != 1:
            raise PydanticCustomError(
                "sentence", "a search needs one of id, vector, like and label, and only one."
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
