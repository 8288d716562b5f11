"""The model card of a run, and the summary of a model folder for `marcir info`."""

import math
from pathlib import Path

from marcir.errors import DataError
from marcir.model.model import read_model_config
from marcir.model.model_config import ModelConfig
from marcir.model.pretrained import is_imagenet_only
from marcir.text_tables import aligned, markdown, percent
from marcir.training.checkpoint import Progress
from marcir.training.evaluation import Evaluation, EvaluationFile


def model_info(model: str | Path) -> str:
    """Describe a model: its inputs, its training data and its test scores."""
    folder = Path(model)
    config = read_model_config(folder)
    loss = config.loss["name"] + _loss_options(config)
    counts = zip(config.labels, config.training_counts, strict=True)
    labels = [f"{label} ({count:,})" for label, count in counts]
    lines = [
        f"{folder}: {config.backbone}, {config.embedding} ({config.dim} numbers)"
        if config.embedding == "projection"
        else f"{folder}: {config.backbone}, {config.embedding}",
        f"images: {config.bands} bands of {config.dtype}, seen at {config.size} x {config.size}",
        f"trained on {config.dataset} with {loss}, marcir {config.marcir}",
        f"labels: {', '.join(labels)}",
    ]
    if config.unlisted == "unknown":
        lines.append("labels that the table did not list were unknown in training")
    metrics = folder / "metrics.json"
    if metrics.exists():
        lines += _scores(metrics)
    elif is_imagenet_only(config):
        lines.append("no test scores: this is a backbone with ImageNet weights, not trained on any archive.")
    else:
        lines.append("no test scores: the training is not complete, or there were no test images.")
    return "\n".join(lines)


def _loss_options(config: ModelConfig) -> str:
    options = ", ".join(f"{name} = {value}" for name, value in config.loss.items() if name != "name")
    return f" ({options})" if options else ""


def _scores(metrics: Path) -> list[str]:
    """The table of a run's scores."""
    try:
        saved = EvaluationFile.load(metrics)
    except DataError:
        return ["metrics.json cannot be read."]
    table = {name: row.scores for name, row in saved.references.items()} | {metrics.parent.name: saved.model}
    rows = [["", *saved.model]]
    for name, scores in table.items():
        rows.append([name, *(percent(math.nan if value is None else value) for value in scores.values())])
    return ["", aligned(rows)]


def model_card(evaluation: Evaluation | None, config: ModelConfig, progress: Progress) -> str:
    """The text of a model card as on the Hugging Face hub."""
    dim = config.dim if config.embedding == "projection" else "the backbone's"
    chosen = f"these are the weights of the last epoch, {progress.epoch}, as no validation score chose one"
    if progress.best is not None and progress.best_epoch is not None:
        chosen = f"epoch {progress.best_epoch + 1} of {progress.epoch} was best on the validation images"
    about = (
        f"Turns an image of {config.bands} bands into a unit vector of {dim} numbers; similar images have a "
        f"high cosine. Trained with marcir {config.marcir} and the loss `{config.loss['name']}`"
        f"{_loss_options(config)} at {config.size} x {config.size} pixels; {chosen}."
    )
    scores = "There were no test images."
    if evaluation is not None:
        scores = "\n".join([markdown(evaluation.rows()), "", *evaluation.notes()])
    return f"""---
library_name: marcir
pipeline_tag: image-feature-extraction
tags: [remote-sensing, image-retrieval, multi-label]
---

# {config.backbone} trained on {config.dataset} with {config.loss["name"]}

{about}

```python
import marcir

model = marcir.load_model("THIS FOLDER")
vectors = model.embed(["one.jpg", "two.tif"])
```

## Scores on the test images

{scores}

## Labels

{", ".join(config.labels)}

## Limits

The scores are of one archive, one split and one seed. Images from other sensors, resolutions \
or regions than the training images may be embedded poorly.
"""
