"""Summary of a model folder, for `marcir info`."""

import math
from pathlib import Path

from marcir.errors import DataError
from marcir.model.model import read_model_config
from marcir.model.pretrained import is_imagenet_only
from marcir.text_tables import aligned, percent
from marcir.training.evaluation_file import EvaluationFile


def model_info(model: str | Path) -> str:
    """Describe a model: its inputs, its training data and its test scores."""
    folder = Path(model)
    config = read_model_config(folder)
    options = ", ".join(f"{name} = {value}" for name, value in config.loss.items() if name != "name")
    loss = config.loss["name"] + (f" ({options})" if options else "")
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
    metrics = folder / "metrics.json"
    if metrics.exists():
        lines += _scores(metrics)
    elif is_imagenet_only(config):
        lines.append("no test scores: this is a backbone with ImageNet weights, not trained on any archive.")
    else:
        lines.append("no test scores: the training is not complete, or there were no test images.")
    return "\n".join(lines)


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
