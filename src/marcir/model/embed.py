"""Embed the images of a folder, or of a prefix on object storage."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Protocol

import numpy as np

from marcir.checks import check_int
from marcir.data.archive import image_files
from marcir.data.images import SUFFIXES, read_image
from marcir.data.object_storage import ImagePath, S3Path, image_path, reading_threads
from marcir.data.prefetch import in_batches, read_batches
from marcir.data.validation import OnBroken, check_on_broken, raise_if_broken
from marcir.errors import BrokenImageError, ConfigError, DataError
from marcir.files import refuse_address
from marcir.model.model import BATCH, Model, load_model, model_files
from marcir.model.pretrained import pretrained_model
from marcir.progress import track
from marcir.types import Embeddings


class EmbedFiles(Protocol):
    """Embeds files as `embed_files` does, elsewhere."""

    def __call__(
        self,
        model: Mapping[str, bytes],
        ids: Sequence[str],
        paths: Sequence[ImagePath],
        on_broken: OnBroken,
        batch_size: int,
    ) -> tuple[Embeddings, dict[str, str]]:
        """Embeddings in the order of the ids, and what is wrong with skipped images; `model`: its files."""
        ...


def embed_folder(
    model: str | Path | None,
    images: str | Path,
    out: str | Path,
    on_broken: OnBroken = "error",
    device: str = "auto",
    batch_size: int = BATCH,
    embed: EmbedFiles | None = None,
) -> tuple[Embeddings, dict[str, str]]:
    """Embed every image below a folder or a prefix, with relative paths as ids, and write the embeddings.

    Args:
        model: A folder of `marcir train`; None for ImageNet features.
        images: The folder, or `s3://bucket/prefix`.
        out: The file of ids and vectors, .npz or .parquet.
        on_broken: `error` refuses broken images; `skip` leaves them out.
        device: Device of the network.
        batch_size: Images per batch.
        embed: Embeds the files elsewhere, as `marcir.cluster` does; None: in this process.

    Returns:
        The embeddings, and what is wrong with skipped images, by id.
    """
    if Path(out).suffix not in (".npz", ".parquet"):
        raise ConfigError(f"--out {out}: must end in .npz or .parquet.")
    refuse_address("--out", out)
    refuse_address("--model", model)
    ids, paths = images_of_folder(images)
    loaded, files = _loaded(model, paths, device)
    if embed is None:
        embeddings, broken = embed_files(loaded, ids, paths, on_broken, batch_size)
    else:
        embeddings, broken = embed(files, ids, paths, on_broken, batch_size)
    embeddings.save(out)
    return embeddings, broken


def _loaded(
    model: str | Path | None, paths: Sequence[ImagePath], device: str
) -> tuple[Model, dict[str, bytes]]:
    """The model that is named, or the pretrained one; and its files."""
    if model is None:
        return pretrained_model(paths, device)
    return load_model(model, device), model_files(Path(model))


def images_of_folder(folder: str | ImagePath) -> tuple[list[str], list[ImagePath]]:
    """Ids (relative paths) and paths of all images below a folder, or below `s3://bucket/prefix`.

    Raises:
        DataError: If it is neither, has no images, or cannot be listed.
    """
    root = image_path(folder)
    paths: list[ImagePath]
    if isinstance(root, S3Path):
        ids = _image_keys(root.keys())
        paths = [root / image for image in ids]
    elif root.is_dir():
        files = image_files(root, SUFFIXES)
        ids, paths = [path.relative_to(root).as_posix() for path in files], [*files]
    else:
        raise DataError(f"--images {folder}: not a folder, and not an address s3://bucket/prefix.")
    if not ids:
        raise DataError(f"--images {root}: no images below it ({', '.join(sorted(SUFFIXES))}).")
    return ids, paths


def _image_keys(keys: Iterable[str]) -> list[str]:
    """Keys of images, in the order and with the names that `image_files` accepts.

    >>> _image_keys(["a.png", "a/b.PNG", "a/.c.png", "labels.csv"])
    ['a/b.PNG', 'a.png']
    """
    names = [key.split("/") for key in keys]
    images = [parts for parts in names if PurePosixPath(parts[-1]).suffix.lower() in SUFFIXES]
    return ["/".join(parts) for parts in sorted(images) if not parts[-1].startswith(".")]


def embed_files(
    model: Model,
    ids: Sequence[str],
    paths: Sequence[ImagePath],
    on_broken: OnBroken = "error",
    batch_size: int = BATCH,
    threads: int | None = None,
) -> tuple[Embeddings, dict[str, str]]:
    """Embed image files; broken ones raise an error, or are skipped and returned (`skip`).

    Args:
        model: Embeds the images.
        ids: Of the images.
        paths: Of their files.
        on_broken: `error` or `skip`.
        batch_size: Images per batch.
        threads: Threads that read files; None for one per processor. There are more for objects.
    """
    check_on_broken(on_broken)
    check_int("batch_size", batch_size, 1)
    broken: dict[str, str] = {}

    def read(item: tuple[str, ImagePath]) -> tuple[str, np.ndarray | BrokenImageError]:
        image, path = item
        try:
            return image, model.preprocess(read_image(path), path)
        except BrokenImageError as error:
            return image, error

    def usable() -> Iterator[tuple[str, np.ndarray]]:
        several = reading_threads(paths[0], threads) if paths else threads
        files = read_batches(zip(ids, paths, strict=True), read, batch_size, threads=several)
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
