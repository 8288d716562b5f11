"""Static STAC catalogs: find the items, and the GeoTIFFs of each."""

import datetime
import os
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marcir.errors import DataError, did_you_mean, needs
from marcir.files import reason
from marcir.geo.hrefs import read_json, resolve_href
from marcir.geo.scene import is_remote

with needs("geo"):
    import pystac

_UNSAFE = re.compile(r"[^\w.~:+=, -]")
# Of a catalog on a server, which may have been made to be endless.
_MAX_DOCUMENTS, _MAX_BYTES = 100_000, 1 << 30
_PREVIEWS = {"thumbnail", "overview", "metadata"}


@dataclass(frozen=True)
class StacScene:
    """The chosen assets of a STAC item.

    Attributes:
        id: Collection and item, with characters that are unusual in ids replaced by `_`.
        assets: Absolute path or address by name of the asset, in the order of the bands.
        time: `datetime`, or the start of the item's range of time, in UTC.
    """

    id: str
    assets: dict[str, str]
    time: datetime.datetime | None


def stac_scenes(
    source: str, bands: Sequence[int | str] | None = None, remote_assets: bool = False
) -> tuple[list[StacScene], dict[str, str]]:
    """The items of static STAC JSON, and one line for each that cannot be used.

    The source is an item, a collection, a catalog, or the items that a STAC API has found in one file.

    Each JSON file is read once, also when links lead in a circle. pystac checks items and parses their times;
    links are followed here, because pystac would follow any.

    Args:
        source: Path or http(s) address of the JSON file.
        bands: Names of the assets to read; numbers choose bands of the only GeoTIFF of each item.
        remote_assets: Whether assets of a local source may be http(s) addresses.

    Raises:
        DataError: If the source cannot be read, or has no items.
    """
    local = not is_remote(source)
    top = os.path.realpath(source) if local else source
    root = Path(top).parent if local else None
    scenes: list[StacScene] = []
    broken: dict[str, str] = {}
    waiting, seen = deque([top]), {top}
    documents = size = 0
    while waiting:
        href = waiting.popleft()
        if not local and (documents >= _MAX_DOCUMENTS or size >= _MAX_BYTES):
            broken[href] = (
                f"{href}: was not read, and {len(waiting):,} others: the catalog has more than "
                f"{_MAX_DOCUMENTS:,} documents or {_MAX_BYTES >> 20:,} MB. Give a part of it."
            )
            break
        try:
            content, length = read_json(href)
            documents, size = documents + 1, size + length
            features = content.get("features")
            if content.get("type") == "Feature":
                scenes.append(_item(content, href, root, bands, remote_assets))
            elif content.get("type") == "FeatureCollection" and isinstance(features, list):
                for number, feature in enumerate(features, 1):
                    try:
                        scenes.append(_item(feature, href, root, bands, remote_assets))
                    except DataError as error:
                        broken[f"{href} feature {number}"] = str(error)
            else:
                for link in _links(content, href, root, broken):
                    if link not in seen:
                        seen.add(link)
                        waiting.append(link)
        except DataError as error:
            if href == top:
                raise
            broken[href] = str(error)
    if not scenes and not broken:
        raise DataError(f"{source}: the catalog has no items. Give one whose links lead to items.")
    return scenes, broken


def _links(content: dict[str, Any], href: str, root: Path | None, broken: dict[str, str]) -> list[str]:
    """Absolute hrefs of the children and items of a catalog or collection."""
    if content.get("type") not in ("Catalog", "Collection"):
        raise DataError(
            f"{href}: expected a STAC item, collection or catalog, found type {content.get('type')!r:.40}."
        )
    found = []
    links = content.get("links")
    for link in links if isinstance(links, list) else []:
        if not isinstance(link, dict) or link.get("rel") not in ("child", "item"):
            continue
        try:
            found.append(resolve_href(link.get("href"), href, root))
        except DataError as error:
            broken[f"{href} {link.get('href')!r:.100}"] = str(error)
    return found


def _item(
    content: dict[str, Any],
    href: str,
    root: Path | None,
    bands: Sequence[int | str] | None,
    remote_assets: bool,
) -> StacScene:
    try:
        item = pystac.Item.from_dict(content, preserve_dict=True)
        time = _in_utc(item.datetime or item.common_metadata.start_datetime)
        names = [part for part in (item.collection_id, item.id) if part]
        hrefs = {name: asset["href"] for name, asset in content["assets"].items() if _is_tiff(asset)}
    except Exception as error:  # pystac raises whatever a value of a wrong type leads to
        raise DataError(f"{href}: not a valid STAC item ({reason(error)}).") from error
    chosen = _choose(href, list(hrefs), bands)
    assets = {name: resolve_href(hrefs[name], href, root, remote_assets) for name in chosen}
    return StacScene("/".join(_UNSAFE.sub("_", str(name)) for name in names), assets, time)


def _in_utc(time: datetime.datetime | None) -> datetime.datetime | None:
    """The same moment in UTC, so that days of all scenes can be compared; UTC where no zone is given."""
    if time is None:
        return None
    return time.replace(tzinfo=datetime.UTC) if time.tzinfo is None else time.astimezone(datetime.UTC)


def _choose(href: str, names: list[str], bands: Sequence[int | str] | None) -> list[str]:
    """Names of the assets to read."""
    if not names:
        raise DataError(f"{href}: the item has no GeoTIFF among its assets.")
    wanted = [band for band in bands or () if isinstance(band, str)]
    if not wanted:
        if len(names) > 1:
            raise DataError(f"{href}: the item has several assets. Choose with --bands: {', '.join(names)}.")
        return names
    for name in wanted:
        if name not in names:
            raise DataError(f"{href}: the item has no asset '{name}'. {did_you_mean(name, names)}")
    if len(wanted) < len(bands or ()):
        raise DataError(f"{href}: --bands mixes numbers and names of assets. Give one kind.")
    return list(dict.fromkeys(wanted))


def _is_tiff(asset: dict[str, Any]) -> bool:
    if _PREVIEWS & set(asset.get("roles") or ()):
        return False
    path = asset["href"].partition("?")[0].lower()
    return "image/tiff" in (asset.get("type") or "") or path.endswith((".tif", ".tiff"))
