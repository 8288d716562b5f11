"""Embed the images of a folder or of an archive."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from marcir.data.images import SUFFIXES, read_image
from marcir.errors import BrokenImageError, ConfigError, DataError
from marcir.progress import track
from marcir.stages.model import Model, load_model
from marcir.types import Embeddings

_BATCH = 64
_AHEAD = 2  # threads that read while the network works


def embed_folder(
    model: str | Path, images: str | Path, out: str | Path, on_broken: str = "error"
) -> tuple[Embeddings, dict[str, str]]:
    """Embed every image below a folder, with paths below it as ids, and write them.

    Returns:
        The embeddings, and what was wrong with images that were left out.
    """
    root = Path(images)
    if not root.is_dir():
        raise DataError(f"--images {root}: not a folder.")
    if Path(out).suffix != ".npz":
        raise ConfigError(f"--out {out}: must end in .npz.")
    paths = sorted(
        path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
    )
    if not paths:
        raise DataError(f"--images {root}: no images below it ({', '.join(sorted(SUFFIXES))}).")
    ids = [path.relative_to(root).as_posix() for path in paths]
    embeddings, broken = embed_files(load_model(model), ids, paths, on_broken)
    embeddings.save(out)
    return embeddings, broken


def embed_files(
    model: Model, ids: Sequence[str], paths: Sequence[Path], on_broken: str = "error"
) -> tuple[Embeddings, dict[str, str]]:
    """Embed image files; broken ones are an error, or left out and returned (`skip`)."""
    broken: dict[str, str] = {}
    kept: list[str] = []
    vectors: list[np.ndarray] = []

    def read(position: int) -> np.ndarray | BrokenImageError:
        try:
            return read_image(paths[position])
        except BrokenImageError as error:
            return error

    with ThreadPoolExecutor(_AHEAD) as pool:
        starts = range(0, len(paths), _BATCH)
        coming = [pool.submit(read, k) for k in range(min(2 * _BATCH, len(paths)))]
        for start in track(starts, len(starts), "embedding"):
            stop = min(start + _BATCH, len(paths))
            images = []
            for position in range(start, stop):
                found = coming[position].result()
                coming[position] = None  # type: ignore[call-overload]  # let go of the pixels
                following = position + 2 * _BATCH
                if following < len(paths):
                    coming.append(pool.submit(read, following))
                if isinstance(found, BrokenImageError):
                    if on_broken == "error":
                        raise found
                    broken[ids[position]] = str(found)
                    continue
                images.append(found)
                kept.append(ids[position])
            if images:
                vectors.append(model.embed_batch(model.stack(images)))
    stacked = np.concatenate(vectors) if vectors else np.zeros((0, model.dim), np.float32)
    return Embeddings(tuple(kept), stacked), broken
