"""Records that are read from files: typed, validated by pydantic, every mistake in one line.

    @record()
    class Pack:
        file: str
        version: Literal[1] = 1     # a file of another version is refused; one without it is of this one

    pack = load(Pack, path, "a packed archive")
    save(path, pack)

Types are strict (a text is no number, a switch is no number), but a whole number does for a float.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, dataclass_transform

from marcir.errors import ConfigError, DataError, did_you_mean, needs
from marcir.files import atomic_write, reason

with needs("train"):
    from pydantic import BeforeValidator as BeforeValidator
    from pydantic import ConfigDict, TypeAdapter, ValidationError
    from pydantic import Field as Field
    from pydantic import PlainValidator as PlainValidator
    from pydantic.dataclasses import dataclass

T = TypeVar("T")
_SHOWN = 100  # characters of a value in an error
_TEXTS = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be True or False",
    "string_type": "must be a text, in quotes",
    "string_unicode": "must be a text in UTF-8",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must hold settings, such as {{name: value}}",
    "dataclass_type": "must hold settings, such as {{name: value}}",
    "too_short": "must not be empty",
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be {ge} or more",
    "less_than_equal": "must be {le} or less",
}
_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")


class SchemaError(ConfigError):
    """Content that is no such record.

    Attributes:
        field: The dotted name of the field that is wrong; empty where it is all of them.
    """

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(text)
        self.field = field


def _number_in_text(value: Any) -> Any:
    """What YAML takes for a text though it is a number: 1e-3, which it would want as 1.0e-3."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


# A finite number, which YAML may have left as a text.
Number = Annotated[float, BeforeValidator(_number_in_text), Field(allow_inf_nan=False)]


@dataclass_transform(frozen_default=True)
def record(
    *, unknown: Literal["forbid", "ignore"] = "forbid", frozen: bool = True, eq: bool = True
) -> Callable[[type[T]], type[T]]:
    """Make a class a dataclass whose fields are validated; `unknown` names of a file may be ignored."""

    def made(cls: type[T]) -> type[T]:
        config = ConfigDict(strict=True, extra=unknown, arbitrary_types_allowed=True)
        built: Any = dataclass(frozen=frozen, eq=eq, config=config)(cls)
        plain = built.__init__

        @wraps(plain)
        def init(self: Any, *arguments: Any, **named: Any) -> None:
            try:
                plain(self, *arguments, **named)
            except ValidationError as error:
                raise _schema_error(error, built, cls.__name__) from error

        built.__init__ = init
        return built  # type: ignore[no-any-return]

    return made


def parse(kind: type[T], text: str | bytes, where: str = "") -> T:
    """A record, or a value of any other type, from JSON; `where` is what its fields belong to.

    Raises:
        SchemaError: Where it is something else; one line that names the field.

    >>> parse(list[int], "[1, true]")
    Traceback (most recent call last):
    marcir.schema.SchemaError: 1 = True: must be a whole number.
    """
    try:
        return _adapter(kind).validate_json(text)  # type: ignore[arg-type,no-any-return]
    except ValidationError as error:
        raise _schema_error(error, kind, where) from error


def validate(kind: type[T], content: Any, where: str = "") -> T:
    """A record from what a YAML file holds; see `parse`."""
    return parse(kind, json.dumps(content), where)


def load(kind: type[T], path: str | Path, what: str, advice: str = "") -> T:
    """A record from its JSON file.

    Raises:
        DataError: One line that names the file and the field, `what` it should be, and what to do.
    """
    end = f" {advice}" if advice else ""
    try:
        return parse(kind, Path(path).read_bytes())
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.{end}") from None
    except (OSError, SchemaError) as error:
        raise DataError(f"{path}: not {what} ({reason(error)}).{end}") from error


def save(path: str | Path, content: Any, indent: int | None = None, durable: bool = True) -> None:
    """Write a record, or what JSON can hold, whole or not at all."""
    with atomic_write(Path(path), durable) as temporary:
        temporary.write_text(to_json(content, indent), "utf-8")


def to_json(content: Any, indent: int | None = None) -> str:
    """The text of a record's file; nan stays NaN."""
    fields = content if isinstance(content, Mapping | list) else asdict(content)
    return json.dumps(fields, indent=indent, ensure_ascii=False) + "\n"


def fields_of(kind: Any) -> dict[str, Any]:
    """The fields of a record by name, with their types, defaults and descriptions."""
    return dict(getattr(kind, "__pydantic_fields__", {}))


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind, config=None if fields_of(kind) else ConfigDict(strict=True))


def _schema_error(error: ValidationError, kind: Any, where: str) -> SchemaError:
    """The most telling mistake: another version explains the rest, and an unknown name what is missing."""
    found: list[Any] = error.errors(include_url=False)
    for each in found:
        each["name"] = ".".join(str(part) for part in (where, *each["loc"]) if part != "")
    first = min(found, key=lambda each: (each["name"] != "version", each["type"] not in _UNKNOWN))
    if first["type"] == "missing":
        missing = ", ".join(each["name"] for each in found if each["type"] == "missing")
        return SchemaError(f"{missing}: missing.", first["name"])
    return SchemaError(_text(first["name"], first, kind), first["name"])


def _text(name: str, found: Mapping[str, Any], kind: Any) -> str:
    """The field, its value, and what it must be."""
    context, value = found.get("ctx", {}), repr(found["input"])[:_SHOWN]
    if found["type"] == "value_error":
        return str(context["error"])
    if found["type"] == "json_invalid":
        return f"no JSON: {context['error']}."
    if found["type"] in _UNKNOWN:
        for part in found["loc"][:-1]:
            kind = getattr(fields_of(kind).get(part), "annotation", None)
        known = [name.removesuffix(found["loc"][-1]) + each for each in fields_of(kind)]
        return f"unknown setting '{name}'. {did_you_mean(name, known)}"
    if found["type"] == "literal_error":
        choices = re.findall(r"[^\s',]+", context["expected"].replace(" or ", " "))
        if name == "version":
            return f"version {value}; this marcir reads version {choices[0]}."
        return f"{name} = {value}: unknown. {did_you_mean(str(found['input']), choices)}"
    if not name:
        return f"expected an object, found {value}."
    wanted = _TEXTS[found["type"]].format(**context) if found["type"] in _TEXTS else found["msg"]
    return f"{name} = {value}: {wanted}."
