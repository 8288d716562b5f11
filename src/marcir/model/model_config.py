"""A model's configuration as it was read from a file that anyone may have written."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from marcir.checks import check_choice, check_int
from marcir.config import MOST_NUMBERS, MOST_PIXELS


@dataclass(frozen=True)
class ModelConfig:
    """What a model needs to know to embed images: `config.json`.

    Attributes:
        marcir: The package's version.
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
    bands: int
    size: int
    packed_size: int
    dtype: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dim: int
    embedding: str
    labels: tuple[str, ...]
    training_counts: tuple[int, ...]
    loss: dict[str, Any]
    dataset: str
    label_checksum: str
    split_checksum: str


_DTYPES = ("uint8", "uint16", "int16", "float32")
_EMBEDDINGS = ("projection", "backbone")
# Far above any real model, far below what fills the memory.
_LARGEST = {"bands": 1 << 12, "size": MOST_PIXELS, "packed_size": 2 * MOST_PIXELS, "dim": MOST_NUMBERS}


def checked_config(content: Any) -> ModelConfig:
    """The configuration in the content of a `config.json`; what it has besides is left out.

    Raises:
        ValueError: Says which entry is missing or cannot be.
    """
    if not isinstance(content, Mapping):
        raise ValueError("it is no object")
    missing = [each.name for each in fields(ModelConfig) if each.name not in content]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    values = {each.name: content[each.name] for each in fields(ModelConfig)}
    headless = values["embedding"] == "backbone"  # then there may be no head, and its length is 0
    for name, largest in _LARGEST.items():
        check_int(name, values[name], 0 if name == "dim" and headless else 1, largest)
    for name in ("marcir", "backbone", "dataset", "label_checksum", "split_checksum"):
        _need(name, isinstance(values[name], str), "a text")
    check_choice("dtype", str(values["dtype"]), _DTYPES)
    check_choice("embedding", str(values["embedding"]), _EMBEDDINGS)
    loss = values["loss"]
    _need("loss", isinstance(loss, dict) and isinstance(loss.get("name"), str), "a loss with its name")
    for name in ("mean", "std", "labels", "training_counts"):
        _need(name, isinstance(values[name], list), "a list")
        values[name] = tuple(values[name])
    for name in ("mean", "std"):
        _need(name, len(values[name]) in (1, values["bands"]), "one number a band")
        _need(name, all(map(_is_number, values[name])), "finite numbers")
    _need("std", min(values["std"]) > 0, "numbers above 0")
    _need("labels", all(isinstance(label, str) for label in values["labels"]), "names")
    counts = values["training_counts"]
    _need("training_counts", all(isinstance(count, int) for count in counts), "whole numbers")
    _need("training_counts", len(counts) == len(values["labels"]), "one number a label")
    return ModelConfig(**values)


def _need(name: str, given: bool, what: str) -> None:
    if not given:
        raise ValueError(f"{name} must be {what}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
