"""Embed the images of a folder."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from marcir.data.archive import image_files
from marcir.data.images import SUFFIXES, read_image
from marcir.data.reading import read_batches
from marcir.data.validation import OnBroken, check_on_broken, refuse_broken
from marcir.errors import BrokenImageError, ConfigError, DataError
from marcir.model.model import Model, load_model
from marcir.model.pretrained import pretrained_model
from marcir.progress import track
from marcir.types import Embeddings

BATCH = 64


def embed_folder(
    model: str | Path | None, images: str | Path, out: str | Path, on_broken: OnBroken = "error"
) -> tuple[Embeddings, dict[str, str]]:
    """Embed every image below a folder, with paths below it as ids, and write them.

    Args:
        model: A folder of `marcir train`; None for ImageNet features.
        images: The folder.
        out: Where ids and vectors go.
        on_broken: What broken images do.

    Returns:
        The embeddings, and what was wrong with images that were left out.
    """
    if Path(out).suffix not in (".npz", ".parquet"):
        raise ConfigError(f"--out {out}: must end in .npz or .parquet.")
    ids, paths = images_of_folder(images)
    loaded = pretrained_model(paths)[0] if model is None else load_model(model)
    embeddings, broken = embed_files(loaded, ids, paths, on_broken)
    embeddings.save(out)
    return embeddings, broken


def images_of_folder(folder: str | Path) -> tuple[list[str], list[Path]]:
    """Ids (paths below the folder) and files of all images below a folder.

    Raises:
        DataError: Where it is no folder, or holds no images.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"--images {root}: not a folder.")
    paths = image_files(root, SUFFIXES)
    if not paths:
        raise DataError(f"--images {root}: no images below it ({', '.join(sorted(SUFFIXES))}).")
    return [path.relative_to(root).as_posix() for path in paths], paths


def embed_files(
    model: Model, ids: Sequence[str], paths: Sequence[Path], on_broken: OnBroken = "error"
) -> tuple[Embeddings, dict[str, str]]:
    """Embed image files; broken ones are refused, or left out and returned (`skip`)."""
    check_on_broken(on_broken)
    broken: dict[str, str] = {}
    kept: list[str] = []
    batch: list[np.ndarray] = []
    vectors: list[np.ndarray] = []

    def square(path: Path) -> np.ndarray | BrokenImageError:
        try:
            return model.square(read_image(path), path)
        except BrokenImageError as error:
            return error

    squares = zip(ids, read_batches(paths, square, BATCH), strict=True)
    for image, found in track(squares, len(paths), "embedding"):
        if isinstance(found, BrokenImageError):
            broken[image] = str(found)
            if on_broken == "error":
                refuse_broken(broken)
            continue
        batch.append(found)
        kept.append(image)
        if len(batch) == BATCH:
            vectors.append(model.embed_squares(batch))
            batch = []
    if batch:
        vectors.append(model.embed_squares(batch))
    stacked = np.concatenate(vectors) if vectors else np.zeros((0, model.dim), np.float32)
    return Embeddings(tuple(kept), stacked), broken
