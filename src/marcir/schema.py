"""Records read from files: typed, validated by pydantic, with errors of one line.

    @record()
    class Pack:
        file: str
        version: Literal[1] = 1     # other versions are refused; a missing version means this one

    pack = load(Pack, path, "a packed archive")
    save(path, pack)

Types are strict (no strings or booleans for numbers), but an integer is accepted as a float.
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
_MESSAGES = {
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
    "less_than": "must be below {lt:g}",
}
_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")


class SchemaError(ConfigError):
    """Content that does not match a record.

    Attributes:
        field: The dotted name of the invalid field; empty for the whole content.
    """

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(text)
        self.field = field


def _number_in_text(value: Any) -> Any:
    """Convert numbers that YAML reads as strings, such as 1e-3 (YAML wants 1.0e-3)."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


# A finite number, which YAML may have read as a string.
Number = Annotated[float, BeforeValidator(_number_in_text), Field(allow_inf_nan=False)]


@dataclass_transform(frozen_default=True)
def record(
    *, unknown: Literal["forbid", "ignore"] = "forbid", frozen: bool = True, eq: bool = True
) -> Callable[[type[T]], type[T]]:
    """Make a class a dataclass with validated fields; `unknown` fields are forbidden or ignored."""

    def decorate(cls: type[T]) -> type[T]:
        config = ConfigDict(strict=True, extra=unknown, arbitrary_types_allowed=True)
        built: Any = dataclass(frozen=frozen, eq=eq, config=config)(cls)
        original = built.__init__

        @wraps(original)
        def init(self: Any, *arguments: Any, **keywords: Any) -> None:
            try:
                original(self, *arguments, **keywords)
            except ValidationError as error:
                raise _schema_error(error, built, cls.__name__) from error

        built.__init__ = init
        return built  # type: ignore[no-any-return]

    return decorate


def parse(kind: type[T], text: str | bytes, where: str = "") -> T:
    """Parse JSON as a record or a value of any other type; `where` prefixes field names in errors.

    Raises:
        SchemaError: One line that names the invalid field.

    >>> parse(list[int], "[1, true]")
    Traceback (most recent call last):
    marcir.schema.SchemaError: 1 = True: must be a whole number.
    """
    try:
        return _adapter(kind).validate_json(text)  # type: ignore[arg-type,no-any-return]
    except ValidationError as error:
        raise _schema_error(error, kind, where) from error


def validate(kind: type[T], content: Any, where: str = "") -> T:
    """Validate the content of a YAML file as a record; see `parse`."""
    try:
        text = json.dumps(content, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError(f"{where or 'settings'}: {reason(error)}.") from error
    return parse(kind, text, where)


def _plain(value: Any) -> Any:
    """A path as text, and a number of numpy as a number of Python."""
    if hasattr(value, "__fspath__"):
        return str(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} is of type {type(value).__name__}, which no setting has")


def load(kind: type[T], path: str | Path, what: str, advice: str = "") -> T:
    """Read a record from a JSON file.

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
    """Write a record or other JSON content atomically."""
    with atomic_write(Path(path), durable) as temporary:
        temporary.write_text(to_json(content, indent), "utf-8")


def to_json(content: Any, indent: int | None = None) -> str:
    """Serialise a record or other JSON content; nan is written as NaN."""
    fields = content if isinstance(content, Mapping | list) else asdict(content)
    return json.dumps(fields, indent=indent, ensure_ascii=False) + "\n"


def fields_of(kind: Any) -> dict[str, Any]:
    """The fields of a record by name, with their types, defaults and descriptions."""
    return dict(getattr(kind, "__pydantic_fields__", {}))


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind, config=None if fields_of(kind) else ConfigDict(strict=True))


def _schema_error(error: ValidationError, kind: Any, where: str) -> SchemaError:
    """The most relevant error: a wrong version explains all others, an unknown name a missing one."""
    errors: list[Any] = error.errors(include_url=False)
    for each in errors:
        each["name"] = ".".join(str(part) for part in (where, *each["loc"]) if part != "")
    first = min(errors, key=lambda each: (each["name"] != "version", each["type"] not in _UNKNOWN))
    if first["type"] == "missing":
        missing = ", ".join(each["name"] for each in errors if each["type"] == "missing")
        return SchemaError(f"{missing}: missing.", first["name"])
    return SchemaError(_message(first["name"], first, kind), first["name"])


def _message(name: str, details: Mapping[str, Any], kind: Any) -> str:
    """The field, its value, and the expected value."""
    context, value = details.get("ctx", {}), repr(details["input"])[:_SHOWN]
    if details["type"] == "value_error":
        return str(context["error"])
    if details["type"] == "json_invalid":
        return f"no JSON: {context['error']}."
    if details["type"] in _UNKNOWN:
        for part in details["loc"][:-1]:
            kind = getattr(fields_of(kind).get(part), "annotation", None)
        known = [name.removesuffix(details["loc"][-1]) + each for each in fields_of(kind)]
        return f"unknown setting '{name}'. {did_you_mean(name, known)}"
    if details["type"] == "literal_error":
        choices = re.findall(r"[^\s',]+", context["expected"].replace(" or ", " "))
        if name == "version":
            return f"version {value}; this marcir reads version {' or '.join(choices)}."
        return f"{name} = {value}: unknown. {did_you_mean(str(details['input']), choices)}"
    if not name:
        return f"expected an object, found {value}."
    expected = (
        _MESSAGES[details["type"]].format(**context) if details["type"] in _MESSAGES else details["msg"]
    )
    return f"{name} = {value}: {expected}."
