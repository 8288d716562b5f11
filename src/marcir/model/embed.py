"""Embed the images of a folder, or of a prefix on object storage."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np

from marcir.checks import check_int
from marcir.data.image_folder import ImageFolder
from marcir.data.images import read_image
from marcir.data.object_storage import ImagePath, reading_threads
from marcir.data.prefetch import in_batches, read_batches
from marcir.data.validation import OnBroken, check_on_broken, raise_if_broken
from marcir.errors import BrokenImageError, ConfigError
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
    folder = ImageFolder(images)
    loaded, files = _loaded(model, folder, device)
    if embed is None:
        embeddings, broken = embed_files(loaded, folder.ids, folder.paths, on_broken, batch_size)
    else:
        embeddings, broken = embed(files, folder.ids, folder.paths, on_broken, batch_size)
    embeddings.save(out)
    return embeddings, broken


def _loaded(model: str | Path | None, images: ImageFolder, device: str) -> tuple[Model, dict[str, bytes]]:
    """The model that is named, or the pretrained one; and its files."""
    if model is None:
        return pretrained_model(images, device)
    return load_model(model, device), model_files(Path(model))


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
