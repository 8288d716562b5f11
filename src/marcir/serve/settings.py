"""The settings of a service, and its limits."""

import os
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from marcir.annotations.annotations import annotations_path
from marcir.data.object_storage import ImagePath
from marcir.errors import ConfigError
from marcir.serve.basemap import Basemap

MAX_UPLOAD_BYTES = 32 * 2**20
UPLOAD_SECONDS = 300.0  # for all bytes of an upload to arrive
IDLE_SECONDS = 20.0  # without any byte of an upload
REQUEST_SECONDS = 20.0  # for the head of a request to arrive
UPLOADS_IN_MEMORY = 16 * MAX_UPLOAD_BYTES
MAX_RESULTS = 10_000  # largest offset + limit
MAX_LIMIT = 200
MAX_EXAMPLES = 100
MAX_AREA_POINTS = 1000  # points of the polygons of a filter: comparing images with more takes too long
MAX_AREA_TEXT = 64 * 2**10  # characters of their GeoJSON
MAX_COLLECTION_EXAMPLES = 10_000  # images of a collection that is an example
MAX_CHOSEN = 100_000  # images that one request puts into a collection, or gives labels
MAX_RETURNED = 10_000  # ids of images that a response about a collection names
MAX_EDIT_BYTES = 300 * MAX_CHOSEN  # ids of windows have the path of a scene in them
MAX_EDIT_FILTERS = 20  # changes of labels in one request that choose images by a filter
# Requests that may wait for a free worker; more are refused (503).
WAITING_SEARCHES = 256
WAITING_UPLOADS = 16
WAITING_FILES = 256
WAITING_EDITS = 64
WAITING_PICTURES = 32
WAITING_SUGGESTIONS = 32
RETRY_SECONDS = 2
STOP_SECONDS = 30  # that running requests have to finish
SESSION_SECONDS = 7 * 24 * 3600
_SHORTEST_TOKEN = 8


@dataclass(frozen=True)
class Settings:
    """How a service is started.

    Attributes:
        store: A folder, or `s3://bucket/path`.
        images: The folder or prefix on object storage that ids are relative to, for originals; none are
            shown without it.
        host: Address to listen at.
        port: 0 for any free one.
        token: What requests must carry.
        no_auth: Whether others may use the service without a token.
        device: Where the network for uploaded images runs.
        scenes: The folder, GeoTIFF or STAC file that the windows of the store were cut from, to show them
            with their surroundings.
        basemap: Tiles under the map of the page; without it, the map shows the outlines of countries.
        allow_edits: Whether collections and labels may be changed.
        annotations: Their file; by default the one beside the store.
        remote_assets: Whether assets of a local STAC catalog of `scenes` may be http(s) addresses.
    """

    store: str
    images: ImagePath | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    no_auth: bool = False
    device: str = "auto"
    scenes: str | None = None
    basemap: Basemap | None = None
    allow_edits: bool = False
    annotations: Path | None = None
    remote_assets: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"--port {self.port}: must be 0 (any) to 65535.")
        if isinstance(self.images, Path) and not self.images.is_dir():
            raise ConfigError(f"--images {self.images}: not a folder. Name the one that was indexed.")
        if self.images is not None and self.scenes is not None:
            raise ConfigError("--images and --scenes exclude each other. Give what was indexed.")
        if self.token is not None and self.no_auth:
            raise ConfigError("--no-auth and a token (--token or MARCIR_TOKEN) exclude each other. Give one.")
        if self.token is not None and not _is_token(self.token):
            raise ConfigError(
                f"--token: needs {_SHORTEST_TOKEN} or more letters, digits and signs of ASCII, no spaces. "
                "Make one with: openssl rand -hex 24"
            )
        if not is_loopback(self.host) and self.token is None and not self.no_auth:
            raise ConfigError(
                f"--host {self.host}: others can reach it. Give --token (or MARCIR_TOKEN), or --no-auth "
                "where a proxy authenticates its users."
            )

        if self.allow_edits:
            self._check_edits()

    def _check_edits(self) -> None:
        if self.no_auth:  # any web site whose name leads to this machine could send changes
            raise ConfigError(
                "--allow-edits and --no-auth exclude each other. Give --token (or MARCIR_TOKEN), which a "
                "proxy may add to its requests."
            )
        if self.annotations_file is None:
            raise ConfigError(
                f"--allow-edits: the store {self.store} is not on a disk. Say where annotations are kept: "
                "--annotations FILE."
            )
        if isinstance(self.images, Path) and self.annotations_file.resolve().is_relative_to(
            self.images.resolve()
        ):
            raise ConfigError(
                f"--annotations {self.annotations_file}: lies in the folder of images {self.images}. Choose "
                "another place."
            )

    @property
    def annotations_file(self) -> Path | None:
        """The file of collections and labels; None where there is none."""
        return annotations_path(self.store) if self.annotations is None else self.annotations

    @property
    def author(self) -> str:
        """Who changes collections and labels, as far as it is known."""
        return "local" if self.token is None else "token"

    @property
    def loopback_names_only(self) -> bool:
        """Whether requests must name this machine, as protection from DNS rebinding."""
        return is_loopback(self.host) and self.token is None and not self.no_auth


def token_from_environment() -> str | None:
    """`$MARCIR_TOKEN`, which unlike an option is not in the list of processes."""
    return os.environ.get("MARCIR_TOKEN") or None


def is_loopback(host: str) -> bool:
    """Whether a name or address means this machine alone.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.9", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def _is_token(token: str) -> bool:
    return len(token) >= _SHORTEST_TOKEN and token.isascii() and token.isprintable() and " " not in token
