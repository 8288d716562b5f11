"""The map of an archive: its vectors in two dimensions.

By PCA, or by UMAP where umap-learn is installed. A map is stable: images that come later are put into the
map that there is, until there are a fifth more than when it was made.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from marcir.errors import DependencyError, needs

if TYPE_CHECKING:
    from marcir.search.store import Snapshot

MapMethod = Literal["pca", "umap"]
# Images that the axes of PCA are computed from, and that new images are compared with for UMAP.
_SAMPLE = 10_000
_GROWTH = 1.2  # times as many images as it was made of: then a map is made anew
_ROWS = 4096  # images that are compared at a time


@dataclass(frozen=True, eq=False)
class EmbeddingMap:
    """Points of images in two dimensions.

    Attributes:
        method: How it was made.
        made_of: Number of images that it was made of.
        ids: Ids of the images, sorted.
        points: About -1 to 1, float32. (N, 2)
        centre: The vector at the origin; zeros for UMAP. (D,)
        axes: The two vectors that x and y are measured along; zeros for UMAP. (2, D)
        state: Fingerprint of the images that it was brought up to date with; empty where it is not known.
    """

    method: MapMethod
    made_of: int
    ids: list[str]
    points: np.ndarray
    centre: np.ndarray
    axes: np.ndarray
    state: str = ""


def updated_map(
    snapshot: "Snapshot", before: EmbeddingMap | None, method: MapMethod | None = None
) -> EmbeddingMap | None:
    """The map of all images of a snapshot; None where it has none.

    Args:
        snapshot: The images.
        before: The map that there is.
        method: Another one than that of the map before makes it anew. None: as before, else PCA.

    Raises:
        DependencyError: For UMAP where umap-learn is not installed.
    """
    ids = snapshot.ids()
    if not ids:
        return None
    wanted = method or ("pca" if before is None else before.method)
    if before is None or before.method != wanted or len(ids) > _GROWTH * before.made_of:
        return _pca_map(snapshot, ids) if wanted == "pca" else _umap_map(snapshot, ids)
    if wanted == "pca":
        points = _projected(snapshot, before.centre, before.axes)
        return EmbeddingMap("pca", before.made_of, ids, points, before.centre, before.axes)
    points = _beside_neighbours(snapshot, ids, before)
    return EmbeddingMap("umap", before.made_of, ids, points, before.centre, before.axes)


def principal_axes(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and first two principal axes; the largest part of an axis is positive. (N, D) -> (D,), (2, D)

    >>> mean, axes = principal_axes(np.array([[0.0, -2, 5], [0, 2, 5], [1, 0, 5], [-1, 0, 5]]))
    >>> mean, axes
    (array([0., 0., 5.]), array([[0., 1., 0.],
           [1., 0., 0.]]))
    """
    with needs("train"):
        from scipy.linalg import eigh

    mean = vectors.mean(0, dtype=np.float64)
    centred, dim = vectors - mean, len(mean)
    # The smaller variance first. All axes of a long vector would take several times as long.
    _, axes = eigh(centred.T @ centred, subset_by_index=[max(0, dim - 2), dim - 1])
    first = np.zeros((2, dim))
    first[: axes.shape[1]] = axes.T[::-1][:2]
    signs = np.sign(first[[0, 1], abs(first).argmax(1)])
    return mean, first * np.where(signs == 0, 1, signs)[:, None] + 0.0  # no negative zeros


def _pca_map(snapshot: "Snapshot", ids: list[str]) -> EmbeddingMap:
    sample = snapshot.vectors(_sample(len(ids)))
    centre, axes = principal_axes(sample)
    axes = axes / (abs((sample - centre) @ axes.T).max() or 1)
    return EmbeddingMap("pca", len(ids), ids, _projected(snapshot, centre, axes), centre, axes)


def _projected(snapshot: "Snapshot", centre: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Points of all images, (v - centre) . axis, float32. (N, 2)"""
    columns = [snapshot.products(axis) - np.float32(centre @ axis) for axis in axes]
    return np.stack(columns, 1).astype(np.float32)


def umap_package() -> Any:
    """The package that makes a map by UMAP.

    Raises:
        DependencyError: Where it is not installed.
    """
    try:
        import umap
    except ModuleNotFoundError as error:
        raise DependencyError(
            "a map by UMAP needs umap-learn: pip install umap-learn. Or use --map pca."
        ) from error
    return umap


def _umap_map(snapshot: "Snapshot", ids: list[str]) -> EmbeddingMap:
    umap = umap_package()
    vectors = snapshot.vectors(np.arange(len(ids)))
    points = np.asarray(umap.UMAP(metric="cosine", random_state=0).fit_transform(vectors), np.float32)
    points -= points.mean(0)
    dim = vectors.shape[1]
    scaled = points / (abs(points).max() or 1)
    return EmbeddingMap("umap", len(ids), ids, scaled, np.zeros(dim), np.zeros((2, dim)))


def _beside_neighbours(snapshot: "Snapshot", ids: list[str], before: EmbeddingMap) -> np.ndarray:
    """Points as before; a new image has that of the most similar image of a sample of the others. (N, 2)"""
    rows = snapshot.rows_of(before.ids)  # -1 where an image was removed
    points = np.full((len(ids), 2), np.nan, np.float32)
    points[rows[rows >= 0]] = before.points[rows >= 0]
    is_new = np.isnan(points[:, 0])
    new, others = np.flatnonzero(is_new), np.flatnonzero(~is_new)
    if not len(others):
        return np.zeros((len(ids), 2), np.float32)
    others = others[_sample(len(others))]
    known = snapshot.vectors(others)
    for start in range(0, len(new), _ROWS):
        part = new[start : start + _ROWS]
        points[part] = points[others[(snapshot.vectors(part) @ known.T).argmax(1)]]
    return points


def _sample(count: int) -> np.ndarray:
    """Random rows, sorted; all of few."""
    return np.sort(np.random.default_rng(0).permutation(count)[:_SAMPLE])


def points_of_rows(found: EmbeddingMap, snapshot: "Snapshot") -> np.ndarray:
    """Points of all rows of a snapshot; nan for images that are not in the map yet. (N, 2)"""
    ids = snapshot.ids()
    if ids == found.ids:
        return found.points
    rows = snapshot.rows_of(found.ids)
    points = np.full((len(ids), 2), np.nan, np.float32)
    points[rows[rows >= 0]] = found.points[rows >= 0]
    return points
