"""Encoders of images: a timm backbone and a projection head."""

from marcir.model.encoder import Encoder

__all__ = ["Encoder"]
