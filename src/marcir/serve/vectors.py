"""Vectors in URLs: little-endian 32-bit floats in URL-safe base64."""

import base64
import binascii

import numpy as np

from marcir.errors import StoreError


def encode_vector(vector: np.ndarray) -> str:
    """A vector as text. (D,)

    >>> encode_vector(np.array([1, 0], "f4"))
    'AACAPwAAAAA'
    """
    return base64.urlsafe_b64encode(np.asarray(vector, "<f4").tobytes()).decode().rstrip("=")


def decode_vector(text: str, dim: int) -> np.ndarray:
    """The vector in a text. (D,)

    Raises:
        StoreError: Where it is not a vector of this length with a direction.

    >>> decode_vector("AACAPwAAAAA", 2)
    array([1., 0.], dtype=float32)
    """
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError):
        content = b""
    vector = np.frombuffer(content, "<f4") if len(content) == 4 * dim else np.zeros(0, np.float32)
    if not len(vector) or not np.isfinite(vector).all() or not vector.any():
        raise StoreError(
            f"vector: not a vector of {dim} numbers as /api/embed gives it. Upload the image again."
        )
    return vector.astype(np.float32)
