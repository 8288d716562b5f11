"""A model's configuration, validated when it is read: the file may come from anyone."""

import json
from dataclasses import asdict
from typing import Annotated, Any, Literal, get_args

from safetensors.torch import save
from torch import nn

from marcir.checks import check_choice
from marcir.config import MAX_DIM, MAX_SIZE
from marcir.data.label_csv import Unlisted
from marcir.schema import Field, parse, record

_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Positive = Annotated[_Finite, Field(gt=0)]


@record(unknown="ignore")
class ModelConfig:
    """The content of a model's `config.json`.

    Attributes:
        marcir: Version of marcir that wrote the file.
        backbone: timm's name of the backbone.
        bands: Number of bands.
        size: Input size of the network.
        packed_size: Size that images are first resized to.
        dtype: dtype of the pixels.
        mean: Mean per band, in unit range.
        std: Standard deviation per band.
        dim: Length of the head's output; 0 without a head.
        embedding: What is stored and compared: projection or backbone.
        labels: Names of the labels.
        training_counts: Training images per label.
        loss: The loss and its options.
        dataset: Name of the training dataset.
        label_checksum: Checksum of the label table that was split.
        split_checksum: Checksum of the split.
        unlisted: What labels were that the label table did not list, absent or unknown.
        version: Version of the file format.
    """

    marcir: str
    backbone: str
    # Limits far above any real model, and far below the size of memory.
    bands: Annotated[int, Field(ge=1, le=1 << 12)]
    size: Annotated[int, Field(ge=1, le=MAX_SIZE)]
    packed_size: Annotated[int, Field(ge=1, le=2 * MAX_SIZE)]
    dtype: str
    mean: tuple[_Finite, ...]
    std: tuple[_Positive, ...]
    dim: Annotated[int, Field(ge=0, le=MAX_DIM)]
    embedding: str
    labels: tuple[str, ...]
    training_counts: tuple[int, ...]
    loss: dict[str, Any]
    dataset: str
    label_checksum: str
    split_checksum: str
    unlisted: str = "absent"
    version: Literal[1] = 1

    def __post_init__(self) -> None:
        check_choice("dtype", self.dtype, ("uint8", "uint16", "int16", "float32"))
        check_choice("unlisted", self.unlisted, get_args(Unlisted))
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


def serialise_model(encoder: nn.Module, config: ModelConfig) -> dict[str, bytes]:
    """Serialise a model: the contents of its `model.safetensors` and `config.json`."""
    weights = {name: value.cpu().contiguous().clone() for name, value in encoder.state_dict().items()}
    return {
        "model.safetensors": save(weights, {"format": "pt"}),
        "config.json": (json.dumps(asdict(config), indent=1, ensure_ascii=False) + "\n").encode(),
    }


def parse_model_config(content: Any) -> ModelConfig:
    """Validate the content of a `config.json`; a SchemaError names an invalid entry."""
    return parse(ModelConfig, json.dumps(content))
