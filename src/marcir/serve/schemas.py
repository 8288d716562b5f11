"""What the service answers, for the OpenAPI description and for typed clients."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Problem(BaseModel):
    """Why a request was refused."""

    error: str = Field(
        description="Where, what was found, and what to do.",
        examples=["no image of the store has the label 'tre'. Did you mean 'tree'?"],
    )


class Health(BaseModel):
    """That the service answers."""

    status: Literal["ok"]
    images: int = Field(description="Images in the store.", examples=[2100])
    model: str = Field(description="Fingerprint of the model whose vectors it holds.")


class LabelCount(BaseModel):
    """A label and how many images carry it."""

    name: str = Field(examples=["tree"])
    count: int = Field(examples=[1009])


class Archive(BaseModel):
    """What the archive holds, and what may be asked of it."""

    name: str = Field(description="Last part of the store's address.", examples=["archive.store"])
    images: int = Field(examples=[2100])
    labels: list[LabelCount] = Field(description="The most common first.")
    dim: int = Field(description="Length of a vector.", examples=[128])
    model: str = Field(description="Fingerprint of the model whose vectors the store holds.")
    version: str = Field(description="Version of marcir.", examples=["0.1.0"])
    has_bbox: bool = Field(description="Whether any image has a bounding box.")
    has_originals: bool = Field(description="Whether /api/original shows files.")
    dates: bool = Field(description="Whether any image has a date.")
    max_upload_bytes: int
    max_results: int = Field(description="Largest offset + limit.")


class Labels(BaseModel):
    """Every label of the archive, counted among the images that a filter lets through."""

    images: int = Field(description="Images that the filter lets through.")
    labels: list[LabelCount] = Field(description="The most common first; also labels that none of them has.")


class Hit(BaseModel):
    """An image of the archive."""

    id: str = Field(description="Path relative to the archive's root.", examples=["forest/001.png"])
    similarity: float | None = Field(description="Cosine with the query.", examples=[0.87])
    labels: list[str]
    shared: list[str] = Field(description="Labels that the query has, too.")
    agreement: float | None = Field(
        description="Of the labels of both, the share that they have in common (Jaccard); "
        "null where the query has none."
    )
    width: int
    height: int
    bbox: tuple[float, float, float, float] | None = Field(
        description="West, south, east, north in degrees (WGS84)."
    )
    date: str | None = Field(examples=["2024-05-01"])
    metadata: dict[str, Any]
    thumbnail: str = Field(description="Where its JPEG is.", examples=["/api/thumbnail?id=forest%2F001.png"])


class Original(BaseModel):
    """The file of an image."""

    url: str = Field(examples=["/api/original?id=forest%2F001.png"])


class Image(Hit):
    """An image of the archive, and where its file is."""

    original: Original | None


class Question(BaseModel):
    """How a search was understood."""

    kind: Literal["id", "vector", "examples", "labels"]
    labels: list[str] = Field(description="Labels of the query, as far as they are known.")


class Answer(BaseModel):
    """A page of hits, best first."""

    hits: list[Hit]
    offset: int
    limit: int
    total: int | None = Field(
        description="Images that the filter by labels lets through, without the query and the examples; "
        "null where the archive is too large to count them."
    )
    more: bool = Field(description="Whether there is another page.")
    query: Question
    label_shares: dict[str, float] = Field(description="Of the hits of this page, the share with each label.")


class Sample(BaseModel):
    """Some images of the archive."""

    hits: list[Hit]
    total: int = Field(description="Images that the filter lets through.")


class Embedded(BaseModel):
    """An uploaded image as a vector, to search with."""

    vector: str = Field(description="For `vector=` and `like=vector:` of /api/search.")
    thumbnail: str = Field(description="A data: URL of a JPEG of at most 256 pixels.")
    width: int
    height: int


class Credentials(BaseModel):
    """The token that the service was started with."""

    model_config = ConfigDict(extra="forbid")

    token: str = Field(max_length=1000)
