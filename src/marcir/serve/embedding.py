"""An uploaded image as a vector."""

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from marcir.data.images import decode_image
from marcir.serve.vectors import encode_vector

if TYPE_CHECKING:
    from marcir.model.model import Model


@dataclass(frozen=True, eq=False)
class EmbeddedImage:
    """An image and its vector.

    Attributes:
        vector: Unit length. (D,)
        thumbnail: A JPEG.
        width: In pixels.
        height: In pixels.
    """

    vector: np.ndarray
    thumbnail: bytes
    width: int
    height: int

    def as_json(self) -> dict[str, object]:
        """As the service shows it."""
        return {
            "vector": encode_vector(self.vector),
            "thumbnail": "data:image/jpeg;base64," + base64.b64encode(self.thumbnail).decode(),
            "width": self.width,
            "height": self.height,
        }


def embed_content(model: "Model", content: bytes, title: str) -> EmbeddedImage:
    """Read an image as files of the archive are read, and embed it.

    Args:
        model: The model of the store.
        content: The bytes of an image.
        title: What error messages call the image.

    Raises:
        BrokenImageError: For bytes that are no image that the model can see.
    """
    from marcir.search.index import thumbnail  # with the network: the service answers before it is loaded

    pixels = decode_image(content, title)
    (vector,) = model.embed_preprocessed([model.preprocess(pixels, Path(title))])
    return EmbeddedImage(vector, thumbnail(pixels, content), pixels.shape[1], pixels.shape[0])
