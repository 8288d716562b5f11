"""The JSON bodies of requests that change collections and labels."""

from typing import Annotated, Any, Literal, Self, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from marcir.annotations.names import MAX_NAME
from marcir.serve.errors import RequestError
from marcir.serve.parameters import CollectionName, FilterParameters, Id
from marcir.serve.settings import MAX_CHOSEN, MAX_EDIT_BYTES, MAX_EDIT_FILTERS
from marcir.serve.uploads import small_body

B = TypeVar("B", bound=BaseModel)
Ids = Annotated[list[Id], Field(max_length=MAX_CHOSEN)]


class Body(BaseModel):
    """A body without other names than its own."""

    model_config = ConfigDict(extra="forbid")


class Selection(Body):
    """Images: by their ids, or all that pass a filter."""

    ids: Ids | None = Field(None, description="Ids of images.", examples=[["forest/001.png"]])
    filter: FilterParameters | None = Field(
        None, description=f"All images that pass this filter, at most {MAX_CHOSEN:,}; {{}} for all there are."
    )

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if self.ids is not None and self.filter is not None:
            raise PydanticCustomError("sentence", "give either ids or a filter, not both.")
        return self

    @property
    def is_given(self) -> bool:
        """Whether it says which images."""
        return self.ids is not None or self.filter is not None


class NeededSelection(Selection):
    """Images that must be given."""

    @model_validator(mode="after")
    def _check_given(self) -> Self:
        if not self.is_given:
            raise PydanticCustomError("sentence", "say which images: ids or a filter.")
        return self


class CreateCollection(Selection):
    """A new collection, with or without images."""

    name: CollectionName


class ChangeCollection(NeededSelection):
    """A collection, and images to add or to remove."""

    name: CollectionName


class RenameCollection(Body):
    """A collection, and its new name."""

    name: CollectionName
    new_name: CollectionName


class DeleteCollection(Body):
    """A collection that is removed."""

    name: CollectionName


class LabelStatement(NeededSelection):
    """The state of one label of some images."""

    label: Annotated[str, Field(min_length=1, max_length=MAX_NAME)] = Field(examples=["ship"])
    state: Literal["present", "absent", "unknown", "cleared"] = Field(
        description="`cleared` withdraws what was stated before: the archive's table applies again."
    )


class SetLabels(Body):
    """Labels of images, set in one step that can be undone."""

    changes: Annotated[list[LabelStatement], Field(min_length=1, max_length=1000)] = Field(
        description=f"At most {MAX_EDIT_FILTERS} of them with a filter."
    )

    @model_validator(mode="after")
    def _check_filters(self) -> Self:
        if (filters := sum(each.filter is not None for each in self.changes)) > MAX_EDIT_FILTERS:
            raise PydanticCustomError(
                "sentence",
                "{text}",
                {"text": f"{filters} changes have a filter: at most {MAX_EDIT_FILTERS}. Send them in parts."},
            )
        return self


class UndoLabels(Body):
    """The edit that is undone; without one, the last of this author."""

    edit: int | None = Field(
        None, ge=1, lt=2**53, description="Number of an edit, as setting labels returned it.", examples=[7]
    )


def described(body: type[BaseModel]) -> dict[str, Any]:
    """The description of a body for OpenAPI; FastAPI would read one without limits."""
    schema = body.model_json_schema()
    definitions = schema.pop("$defs", {})
    content = {"application/json": {"schema": _inlined(schema, definitions)}}
    return {"requestBody": {"required": True, "content": content}}


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """A schema without references, which would lead elsewhere in another document."""
    if isinstance(schema, list):
        return [_inlined(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {name: _inlined(value, definitions) for name, value in schema.items()}


async def json_body(request: Request, body: type[B]) -> B:
    """The body of a request, received with limits of size and time.

    Raises:
        RequestError: 408, 413, 415 for another type than JSON (a form of another site could send that), 422.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    content = await small_body(request, MAX_EDIT_BYTES)
    if media_type != "application/json":
        raise RequestError(415, "Content-Type: send application/json.")
    try:
        # A number is a number and no text: {"edit": true} would undo edit 1.
        return body.model_validate_json(content, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where, text = ".".join(map(str, first["loc"])), str(first["msg"]).rstrip(".")
        if first["type"] != "sentence":
            text = f"{text[:1].lower()}{text[1:]}"
        raise RequestError(422, f"{where or 'the body'}: {text}.") from None
