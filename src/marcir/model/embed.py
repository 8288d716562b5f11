"""Embed the images of a folder."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from marcir.checks import check_int
from marcir.data.archive import image_files
from marcir.data.images import SUFFIXES, read_image
from marcir.data.prefetch import in_batches, read_batches
from marcir.data.validation import OnBroken, check_on_broken, raise_if_broken
from marcir.errors import BrokenImageError, ConfigError, DataError
from marcir.model.model import BATCH, Model, load_model
from marcir.model.pretrained import pretrained_model
from marcir.progress import track
from marcir.types import Embeddings


def embed_folder(
    model: str | Path | None,
    images: str | Path,
    out: str | Path,
    on_broken: OnBroken = "error",
    device: str = "auto",
    batch_size: int = BATCH,
) -> tuple[Embeddings, dict[str, str]]:
    """Embed every image below a folder, with relative paths as ids, and write the embeddings.

    Args:
        model: A folder of `marcir train`; None for ImageNet features.
        images: The folder.
        out: The file of ids and vectors, .npz or .parquet.
        on_broken: `error` refuses broken images; `skip` leaves them out.
        device: Device of the network.
        batch_size: Images per batch.

    Returns:
        The embeddings, and what is wrong with skipped images, by id.
    """
    if Path(out).suffix not in (".npz", ".parquet"):
        raise ConfigError(f"--out {out}: must end in .npz or .parquet.")
    ids, paths = images_of_folder(images)
    loaded = pretrained_model(paths, device)[0] if model is None else load_model(model, device)
    embeddings, broken = embed_files(loaded, ids, paths, on_broken, batch_size)
    embeddings.save(out)
    return embeddings, broken


def images_of_folder(folder: str | Path) -> tuple[list[str], list[Path]]:
    """Ids (relative paths) and files of all images below a folder.

    Raises:
        DataError: If it is not a folder, or has no images.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"--images {root}: not a folder.")
    paths = image_files(root, SUFFIXES)
    if not paths:
        raise DataError(f"--images {root}: no images below it ({', '.join(sorted(SUFFIXES))}).")
    return [path.relative_to(root).as_posix() for path in paths], paths


def embed_files(
    model: Model,
    ids: Sequence[str],
    paths: Sequence[Path],
    on_broken: OnBroken = "error",
    batch_size: int = BATCH,
) -> tuple[Embeddings, dict[str, str]]:
    """Embed image files; broken ones raise an error, or are skipped and returned (`skip`)."""
    check_on_broken(on_broken)
    check_int("batch_size", batch_size, 1)
    broken: dict[str, str] = {}

    def read(item: tuple[str, Path]) -> tuple[str, np.ndarray | BrokenImageError]:
        image, path = item
        try:
            return image, model.preprocess(read_image(path), path)
        except BrokenImageError as error:
            return image, error

    def usable() -> Iterator[tuple[str, np.ndarray]]:
        files = read_batches(zip(ids, paths, strict=True), read, batch_size)
        for image, pixels in track(chain.from_iterable(files), len(paths), "embedding"):
            if not isinstance(pixels, BrokenImageError):
                yield image, pixels
                continue
            broken[image] = str(pixels)
            if on_broken == "error":
                raise_if_broken(broken)

    embedded: list[str] = []
    vectors = [np.zeros((0, model.dim), np.float32)]
    batches = (zip(*batch, strict=True) for batch in in_batches(usable(), batch_size))
    for names, batch_vectors in model.embed_batches((names, squares) for names, squares in batches):
        embedded += names
        vectors.append(batch_vectors)
    return Embeddings(tuple(embedded), np.concatenate(vectors)), broken
