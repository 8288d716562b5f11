"""Images to unit vectors: a backbone of timm and a projection head."""

from marcir.model.encoder import Encoder

__all__ = ["Encoder"]
