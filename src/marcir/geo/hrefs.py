"""Hrefs of STAC catalogs: which ones may be followed, and reading them."""

import email.utils
import json
import os
import re
import urllib.error
import urllib.request
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin

from marcir.errors import DataError
from marcir.files import reason
from marcir.geo.scene import Fingerprint, is_remote

_TIMEOUT_SECONDS = 30
_MAX_JSON_BYTES = 64 << 20
_SCHEME = re.compile(r"[a-z][a-z0-9+._-]*:", re.IGNORECASE)


def resolve_href(href: object, base: str, root: Path | None, remote: bool = False) -> str:
    """The absolute path or address of a href, if it may be followed.

    Args:
        href: As it is in the JSON file.
        base: Path or address of that file.
        root: The folder of a local catalog, which its hrefs must not leave; None for a catalog that was given
            by its http(s) address, whose hrefs must be addresses, too.
        remote: Whether this href of a local catalog may be an http(s) address.

    Raises:
        DataError: If it may not be followed.
    """
    if not isinstance(href, str) or not href.isprintable() or not href:
        raise DataError(f"{base}: the href {_shown(href)} is not a path or address.")
    if href.lower().startswith("/vsi"):
        raise DataError(f"{base}: the href {_shown(href)} is refused: it is an address of GDAL.")
    if root is None or (remote and is_remote(href)):
        return _resolve_remote(href, base)
    if _SCHEME.match(href) or href.startswith("//"):
        advice = " --remote-assets allows assets on servers." if is_remote(href) else ""
        raise DataError(f"{base}: the href {_shown(href)} is refused: it is not a relative path.{advice}")
    folder = Path(base).parent
    plain = folder / href
    path = Path(os.path.realpath(plain if plain.exists() else folder / unquote(href)))
    if not path.is_relative_to(root):
        raise DataError(
            f"{base}: the href {_shown(href)} is refused: it is outside of {root}. Give the catalog's top "
            "file, or move the file."
        )
    return str(path)


def read_json(href: str) -> tuple[dict[str, Any], int]:
    """Read a JSON object from a path or an http(s) address, and the number of its bytes.

    Raises:
        DataError: If it cannot be read, or is not a JSON object of at most 64 MB.
    """
    try:
        if is_remote(href):
            with _open(href) as response:
                text = response.read(_MAX_JSON_BYTES + 1)
        else:
            with Path(href).open("rb") as file:
                text = file.read(_MAX_JSON_BYTES + 1)
        if len(text) > _MAX_JSON_BYTES:
            raise ValueError("more than 64 MB")
        content = json.loads(text)
    except urllib.error.HTTPError as error:
        raise DataError(f"{href}: the server answers {error.code} {error.reason}.") from error
    except (OSError, HTTPException, ValueError, RecursionError) as error:
        raise DataError(f"{href}: cannot be read as STAC JSON ({_cause(error)}).") from error
    if not isinstance(content, dict):
        raise DataError(f"{href}: not a STAC item, collection or catalog but a {type(content).__name__}.")
    return content, len(text)


def remote_fingerprint(href: str) -> Fingerprint:
    """Size, time of modification and ETag of a file on a server, from the headers of its first byte.

    Raises:
        DataError: If the server does not have it.
    """
    try:
        with _open(href, {"Range": "bytes=0-0"}) as response:
            headers = response.headers
    except urllib.error.HTTPError as error:
        raise DataError(f"{href}: the server answers {error.code} {error.reason}.") from error
    except (OSError, HTTPException, ValueError) as error:
        raise DataError(f"{href}: cannot be read ({_cause(error)}).") from error
    size = headers.get("Content-Range", "").rpartition("/")[2] or headers.get("Content-Length", "")
    changed = email.utils.parsedate_tz(headers.get("Last-Modified", ""))
    return Fingerprint(
        int(size) if size.isdecimal() else 0,
        0 if changed is None else int(email.utils.mktime_tz(changed)) * 10**9,
        headers.get("ETag", ""),
    )


def answers_ranges(href: str) -> bool:
    """Whether a server gives parts of a file; also True where it does not give the file at all."""
    try:
        with _open(href, {"Range": "bytes=0-0"}) as response:
            return response.status == HTTPStatus.PARTIAL_CONTENT
    except (OSError, HTTPException, ValueError):
        return True


def _resolve_remote(href: str, base: str) -> str:
    address = urljoin(base, href)
    if not is_remote(address):
        raise DataError(f"{base}: the href {_shown(href)} is refused: it is not an http(s) address.")
    return address


def _open(href: str, headers: dict[str, str] | None = None) -> HTTPResponse:
    """Open an address; redirects lead to http(s) alone."""
    request = urllib.request.Request(href, headers={"User-Agent": "marcir", **(headers or {})})  # noqa: S310
    response: HTTPResponse = _opener().open(request, timeout=_TIMEOUT_SECONDS)
    return response


def _opener() -> urllib.request.OpenerDirector:
    # `build_opener` would add handlers of file, ftp and data addresses.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


def _cause(error: BaseException) -> str:
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, BaseException):
        return reason(error.reason)
    return "nested too deeply" if isinstance(error, RecursionError) else reason(error)


def _shown(href: object) -> str:
    text = ascii(href)
    return text if len(text) <= 100 else f"{text[:97]}..."
