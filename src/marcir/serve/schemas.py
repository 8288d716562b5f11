"""The bodies of responses and requests, as FastAPI validates and documents them."""

from typing import Any, Literal, Self
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from marcir.data.label_csv import State
from marcir.search.hits import Hit

QueryKind = Literal["id", "vector", "examples", "labels", "place"]


class ErrorResponse(BaseModel):
    """Why a request was refused."""

    error: str = Field(
        description="Where, what was found, and what to do.",
        examples=["no image of the store has the label 'tre'. Did you mean 'tree'?"],
    )


class HealthResponse(BaseModel):
    """That the service answers."""

    status: Literal["ok"]
    images: int = Field(description="Images in the store.", examples=[2100])
    model: str = Field(description="Fingerprint of the model that made its vectors.")


class LabelCount(BaseModel):
    """A label and how many images have it."""

    name: str = Field(examples=["tree"])
    count: int = Field(description="Images that have it.", examples=[1009])
    unknown: int = Field(description="Images of which it is unknown whether they have it.", examples=[0])

    @classmethod
    def most_common(cls, counts: dict[str, int], unknown: dict[str, int]) -> list["LabelCount"]:
        """Labels with their counts, the most common first.

        >>> [label.name for label in LabelCount.most_common({"a": 1, "b": 2}, {"a": 3, "b": 0})]
        ['b', 'a']
        """
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return [cls(name=name, count=count, unknown=unknown[name]) for name, count in ordered]


class ArchiveResponse(BaseModel):
    """What the archive holds, and the limits of the service."""

    name: str = Field(description="Last part of the address of the store.", examples=["archive.store"])
    images: int = Field(examples=[2100])
    labels: list[LabelCount] = Field(description="The most common first.")
    page_labels: list[str] = Field(
        description="Labels that were only given on the page: the table of the archive does not have them."
    )
    dim: int = Field(description="Length of a vector.", examples=[128])
    model: str = Field(description="Fingerprint of the model that made the vectors of the store.")
    version: str = Field(description="Version of marcir.", examples=["0.1.0"])
    has_bbox: bool = Field(description="Whether any image has a bounding box.")
    editable: bool = Field(description="Whether collections and labels may be changed.")
    has_originals: bool = Field(description="Whether /api/original shows files.")
    dates: bool = Field(description="Whether any image has a date.")
    extent: tuple[float, float, float, float] | None = Field(
        description="Box around all images: west, south, east, north in degrees (WGS84), west > east across "
        "the date line; null without places."
    )
    first_date: str | None = Field(examples=["2010-06-23"])
    last_date: str | None = Field(examples=["2024-05-01"])
    basemap: str | None = Field(
        description="Address of the tiles under the map of the page, with {z}, {x} and {y}, or of a PMTiles "
        "file.",
        examples=["https://tiles.example/{z}/{x}/{y}.png"],
    )
    max_upload_bytes: int
    max_results: int = Field(description="Largest offset + limit.")
    has_map: bool = Field(description="Whether /api/map shows points.")


class LabelsResponse(BaseModel):
    """Every label of the archive, counted among the images that pass a filter."""

    images: int = Field(description="Images that pass the filter.")
    labels: list[LabelCount] = Field(description="The most common first; also labels that none of them has.")


class HitResponse(BaseModel):
    """An image of the archive."""

    id: str = Field(description="Path relative to the root of the archive.", examples=["forest/001.png"])
    similarity: float | None = Field(description="Cosine similarity with the query.", examples=[0.87])
    labels: list[str]
    unknown: list[str] = Field(description="Labels of which it is unknown whether it has them.")
    labelled: bool = Field(
        description="Whether anything is known of its labels; if not, all labels are unknown."
    )
    shared: list[str] = Field(description="Labels that the query has, too.")
    agreement: float | None = Field(
        description="Of the labels of both, the share that they have in common (Jaccard), without labels "
        "that are unknown for either; null where the query has no labels, and where they share none but a "
        "label of one is unknown for the other."
    )
    width: int
    height: int
    bbox: tuple[float, float, float, float] | None = Field(
        description="West, south, east, north in degrees (WGS84)."
    )
    footprint: dict[str, Any] | None = Field(
        description="The ground that it shows: a Polygon or MultiPolygon of GeoJSON; null where it is not "
        "known better than `bbox`."
    )
    date: str | None = Field(examples=["2024-05-01"])
    metadata: dict[str, Any]
    thumbnail: str = Field(description="URL of its JPEG.", examples=["/api/thumbnail?id=forest%2F001.png"])

    @classmethod
    def from_hit(cls, hit: Hit, **more: Any) -> Self:
        """A hit, with the URL of its thumbnail, and fields of a subclass."""
        return cls(**hit.as_json(), thumbnail=f"/api/thumbnail?id={quote(hit.id, safe='')}", **more)


class OriginalResponse(BaseModel):
    """The file of an image."""

    url: str = Field(examples=["/api/original?id=forest%2F001.png"])


class BandResponse(BaseModel):
    """A band of a scene."""

    number: int = Field(description="From 1, for `bands` of /api/window.")
    name: str = Field(description="May be empty.", examples=["red"])


class SceneResponse(BaseModel):
    """The scene that a window was cut from."""

    id: str = Field(examples=["naip/2012.tif"])
    href: str = Field(description="Where its file can be downloaded: here, or at the address of its server.")
    bands: list[BandResponse] = Field(description="All bands of its files.")
    shown: list[int] = Field(description="Numbers of the bands that the thumbnail shows.")
    crs: str = Field(description="A code, or WKT.", examples=["EPSG:26914"])
    resolution: tuple[float, float] = Field(
        description="Metres on the ground per pixel of the window, along rows and along columns."
    )
    window: tuple[int, int, int, int] = Field(description="First column, first row, width and height.")
    size: tuple[int, int] = Field(description="Width and height of the scene, in pixels of the window.")
    cut: int = Field(
        description="Side of the windows of the store: `around=1` adds so many pixels on each side."
    )


class TableLabels(BaseModel):
    """Labels of an image in the archive's table."""

    labels: list[str]
    unknown: list[str] = Field(description="Labels of which it is unknown whether it has them.")
    labelled: bool = Field(description="Whether the table says anything of the image.")


class ImageResponse(HitResponse):
    """An image of the archive, where its file is, and which scene it is a window of."""

    original: OriginalResponse | None
    scene: SceneResponse | None = Field(
        description="null where the image is a file, and where the service does not have its scene."
    )
    page_labels: dict[str, State] = Field(
        description="What people stated of its labels; it wins over the archive's table.",
        examples=[{"ship": "present"}],
    )
    table_labels: TableLabels = Field(description="Its labels in the archive's table.")


class QueryResponse(BaseModel):
    """How a search was understood."""

    kind: QueryKind
    images: list[str] = Field(description="Images of the archive that it consists of; they are no hits.")
    labels: list[str] = Field(description="Labels of the query, as far as they are known.")
    unknown: list[str] = Field(description="Labels of which it is unknown whether the query has them.")


class SearchResponse(BaseModel):
    """A page of hits, best first."""

    hits: list[HitResponse]
    offset: int
    limit: int
    total: int | None = Field(
        description="Images that pass the filter, without the query and the examples; "
        "null where the archive is too large to count them."
    )
    more: bool = Field(description="Whether there is another page.")
    query: QueryResponse
    label_shares: dict[str, float] = Field(description="Share of the hits of this page that have each label.")


class SampleResponse(BaseModel):
    """Random images of the archive."""

    hits: list[HitResponse]
    total: int = Field(description="Images that pass the filter.")


class EmbedResponse(BaseModel):
    """An uploaded image as a vector, to search with."""

    vector: str = Field(description="For `vector=` and `like=vector:` of /api/search.")
    thumbnail: str = Field(description="A data: URL of a JPEG of at most 256 pixels.")
    width: int
    height: int


class SessionRequest(BaseModel):
    """The token that the service was started with."""

    model_config = ConfigDict(extra="forbid")

    token: str = Field(max_length=1000)
