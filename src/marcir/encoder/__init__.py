"""Images to unit vectors: a backbone of timm and a projection head."""

from marcir.encoder.encoder import Encoder

__all__ = ["Encoder"]
