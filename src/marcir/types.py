"""Embeddings, and their .npz and Parquet files."""

import lzma
import tokenize
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from marcir.errors import DataError, needs
from marcir.files import atomic_write, reason

PARQUET = (".parquet", ".pq")
# Exceptions of numpy and zip archives on damaged files.
_DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, MemoryError, RuntimeError, SyntaxError)
_DAMAGE_OF_BYTES = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError)


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Embedding vectors of images by id.

    Attributes:
        ids: One id per image, without duplicates.
        vectors: One vector of finite floats per image, not all zero. (N, D)

    Raises:
        DataError: For anything else; names the id.
    """

    ids: tuple[str, ...]
    vectors: np.ndarray

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or self.vectors.dtype.kind != "f" or len(self.ids) != len(self.vectors):
            raise DataError(
                f"expected one vector of floats per id, found vectors {self.vectors.shape} of "
                f"{self.vectors.dtype} and {len(self.ids)} ids."
            )
        seen: set[str] = set()
        for image in self.ids:
            if image in seen:
                raise DataError(f"duplicate id '{image}'. Keep one.")
            seen.add(image)
        for row in np.flatnonzero(~np.isfinite(self.vectors).all(1)):
            raise DataError(
                f"the vector of '{self.ids[row]}' has values that are not finite. Embed that image again."
            )
        for row in np.flatnonzero(~self.vectors.any(1)):
            raise DataError(
                f"the vector of '{self.ids[row]}' is all zeros and has no direction. Leave it out."
            )

    def save(self, path: str | Path) -> None:
        """Write an .npz file, or Parquet by the suffix, atomically."""
        path = Path(path)
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            if path.suffix.lower() in PARQUET:
                _write_parquet(file, self.ids, self.vectors)
            else:
                np.savez(file, ids=np.array(self.ids, dtype=np.str_), vectors=self.vectors)

    @classmethod
    def load(cls, path: str | Path) -> "Embeddings":
        """Read `ids` and `vectors` from an .npz or a Parquet file.

        Raises:
            DataError: If the file is missing or invalid, or has a duplicate id or a zero vector.
        """
        path = Path(path)
        try:
            ids, vectors = _read_parquet(path) if path.suffix.lower() in PARQUET else _read_npz(path)
        except FileNotFoundError:
            raise DataError(
                f"{path}: there is no such file. Make it with: marcir embed, or "
                "numpy.savez(path, ids=..., vectors=...)"
            ) from None
        except (*_DAMAGE, *_DAMAGE_OF_BYTES) as error:
            raise DataError(
                f"{path}: expected `ids` and `vectors` in .npz or Parquet ({reason(error)})."
            ) from error
        try:
            return cls(ids, vectors)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None


def _read_npz(path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    with path.open("rb") as file:
        if file.read(2) != b"PK":
            raise ValueError("not an .npz archive")
        file.seek(0)
        with np.load(file, allow_pickle=False) as content:  # unpickling object arrays could run code
            ids, vectors = content["ids"], content["vectors"]
    if ids.ndim != 1 or ids.dtype.kind not in "Uiu":
        raise ValueError(f"ids are {ids.dtype} of shape {ids.shape}; save them as a list of strings")
    native = vectors.astype(vectors.dtype.newbyteorder("="), copy=False)
    return tuple(str(image) for image in ids.tolist()), native


def _read_parquet(path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    with needs("store"):
        from pyarrow import ArrowException, compute, parquet, types
    try:
        table = parquet.read_table(path, columns=["ids", "vectors"])
    except ArrowException as error:
        raise ValueError(reason(error)) from error
    ids, rows = table["ids"], table["vectors"]
    if not (types.is_string(ids.type) or types.is_large_string(ids.type) or types.is_integer(ids.type)):
        raise ValueError(f"ids are {ids.type}; save them as strings")
    if not (
        types.is_list(rows.type) or types.is_large_list(rows.type) or types.is_fixed_size_list(rows.type)
    ):
        raise ValueError(f"vectors are {rows.type}; save them as lists of floats")
    lengths = compute.unique(compute.list_value_length(rows)).to_pylist()
    if ids.null_count or rows.null_count or len(lengths) > 1:
        raise ValueError("a missing id, or vectors that are missing or of different lengths")
    values = np.asarray(rows.combine_chunks().flatten())
    return tuple(str(image) for image in ids.to_pylist()), values.reshape(len(ids), *(lengths or [0]))


def _write_parquet(file: Any, ids: tuple[str, ...], vectors: np.ndarray) -> None:
    with needs("store"):
        import pyarrow
        from pyarrow import parquet
    rows = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])
    parquet.write_table(pyarrow.table({"ids": pyarrow.array(ids, pyarrow.string()), "vectors": rows}), file)
