"""The tiles of another service under the map of the page: the address that `--basemap` names."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from marcir.errors import ConfigError

# What an address may consist of. The origin becomes a part of the content security policy, where ; and , and
# spaces would begin another rule.
_ADDRESS = re.compile(r"(https?://[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?)/[!-~]*", re.IGNORECASE)
_PLACEHOLDERS = ["{x}", "{y}", "{z}"]
_ARCHIVE = ".pmtiles"


@dataclass(frozen=True)
class Basemap:
    """Raster tiles in Web Mercator.

    Attributes:
        url: Address of a tile, with {z}, {x} and {y}, or of a file of tiles (PMTiles).
        origin: Scheme, host and port: what the page may send requests to.
    """

    url: str
    origin: str

    @classmethod
    def parse(cls, url: str) -> "Basemap":
        """The tiles at an address.

        Raises:
            ConfigError: For another address than http(s)://HOST/...{z}...{x}...{y} or
                http(s)://HOST/....pmtiles.

        >>> Basemap.parse("https://tiles.example/{z}/{x}/{y}.png").origin
        'https://tiles.example'
        """
        found = _ADDRESS.fullmatch(url)
        placeholders = sorted(re.findall(r"\{[^}]*\}", url))
        is_known = placeholders == _PLACEHOLDERS or (_is_archive(url) and not placeholders)
        if not found or not is_known or not _is_port(url):
            raise ConfigError(
                f"--basemap {url[:99]!r}: not an address of tiles. Give http(s)://HOST/... with {{z}}, {{x}} "
                "and {y}, each once, and no other one, such as https://tiles.example/{z}/{x}/{y}.png, or "
                "that of a .pmtiles file"
            )
        return cls(url, found[1].lower())

    @property
    def image_origin(self) -> str | None:
        """What pages may load pictures from; tiles of an archive come with other requests."""
        return None if _is_archive(self.url) else self.origin


def _is_archive(url: str) -> bool:
    return url.split("?")[0].split("#")[0].lower().endswith(_ARCHIVE)


def _is_port(url: str) -> bool:
    """Whether the port of an address, if it has one, is one."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False
