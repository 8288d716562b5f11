"""A model's configuration as it was read from a file that anyone may have written."""

import json
from typing import Annotated, Any

from marcir.checks import check_choice
from marcir.config import MOST_NUMBERS, MOST_PIXELS
from marcir.schema import Field, parse, record

_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Positive = Annotated[_Finite, Field(gt=0)]


@record(unknown="ignore")
class ModelConfig:
    """What a model needs to know to embed images: `config.json`.

    Attributes:
        marcir: The version of the package that wrote it, and with it the file's own.
        backbone: timm's name.
        bands: Bands of the images.
        size: Side of the images that the network sees.
        packed_size: Side that images are first brought to.
        dtype: Type of the pixels.
        mean: Of each band, in unit range.
        std: Of each band.
        dim: Length of the head's output; 0 where there is no head.
        embedding: What is compared: projection or backbone.
        labels: Names of the labels.
        training_counts: Training images of each label.
        loss: The loss and its options.
        dataset: What it was trained on.
        label_checksum: Fingerprint of the label table that was split.
        split_checksum: Fingerprint of the split: which images train, validate and test.
    """

    marcir: str
    backbone: str
    # The limits are far above any real model, and far below what fills the memory.
    bands: Annotated[int, Field(ge=1, le=1 << 12)]
    size: Annotated[int, Field(ge=1, le=MOST_PIXELS)]
    packed_size: Annotated[int, Field(ge=1, le=2 * MOST_PIXELS)]
    dtype: str
    mean: tuple[_Finite, ...]
    std: tuple[_Positive, ...]
    dim: Annotated[int, Field(ge=0, le=MOST_NUMBERS)]
    embedding: str
    labels: tuple[str, ...]
    training_counts: tuple[int, ...]
    loss: dict[str, Any]
    dataset: str
    label_checksum: str
    split_checksum: str

    def __post_init__(self) -> None:
        check_choice("dtype", self.dtype, ("uint8", "uint16", "int16", "float32"))
        check_choice("embedding", self.embedding, ("projection", "backbone"))
        for name in ("mean", "std"):
            if len(getattr(self, name)) not in (1, self.bands):
                raise ValueError(f"{name} must be one number per band")
        if self.embedding == "projection" and not self.dim:  # a backbone alone may have no head
            raise ValueError("dim = 0: must be 1 or more")
        if not isinstance(self.loss.get("name"), str):
            raise ValueError("loss must be a loss with its name")
        if len(self.training_counts) != len(self.labels):
            raise ValueError("training_counts must be one number per label")


def parse_model_config(content: Any) -> ModelConfig:
    """The configuration in the content of a `config.json`; a SchemaError names the entry that cannot be."""
    return parse(ModelConfig, json.dumps(content))
