"""Responses, made in the thread that found what they hold."""

import json
from typing import Any

from fastapi import Response
from pydantic_core import PydanticSerializationError, to_json

# What an operation that takes an image says of its body.
UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The bytes of an image, or a form with one file.",
        "content": {
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            "image/*": {"schema": {"type": "string", "format": "binary"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"image": {"type": "string", "format": "binary"}},
                    "required": ["image"],
                }
            },
        },
    }
}
_NO_STORE = {"Cache-Control": "no-store"}


def json_reply(content: dict[str, Any]) -> Response:
    """Some content as JSON; numbers that are none become null."""
    try:
        body = to_json(content, inf_nan_mode="null")
    except PydanticSerializationError:  # a text that is not Unicode, of a store that others made
        body = json.dumps(content).encode()
    return Response(body, media_type="application/json", headers=_NO_STORE)


def reply(content: bytes, kind: str, name: str) -> Response:
    """Some content as a file to be saved."""
    headers = {**_NO_STORE, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=kind, headers=headers)
