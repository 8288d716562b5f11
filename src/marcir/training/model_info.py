"""What a model folder holds."""

import json
from pathlib import Path

from marcir.model.model import read_model_config
from marcir.model.pretrained import is_pretrained
from marcir.text_tables import aligned, percent


def info(model: str | Path) -> str:
    """A short text about a model: what it expects, what it was trained on, how it scored."""
    folder = Path(model)
    config = read_model_config(folder)
    options = ", ".join(f"{name} = {value}" for name, value in config.loss.items() if name != "name")
    loss = config.loss["name"] + (f" ({options})" if options else "")
    counts = zip(config.labels, config.training_counts, strict=True)
    counted = [f"{label} ({count:,})" for label, count in counts]
    lines = [
        f"{folder}: {config.backbone}, {config.embedding} ({config.dim} numbers)"
        if config.embedding == "projection"
        else f"{folder}: {config.backbone}, {config.embedding}",
        f"images: {config.bands} bands of {config.dtype}, seen at {config.size} x {config.size}",
        f"trained on {config.dataset} with {loss}, marcir {config.marcir}",
        f"labels: {', '.join(counted)}",
    ]
    try:
        content = json.loads((folder / "metrics.json").read_text("utf-8"))
        named = {**content["references"], folder.name: content["model"]}
        rows = [["", *content["model"]["scores"]]]
        for name, of in named.items():
            values = (float("nan") if value is None else value for value in of["scores"].values())
            rows.append([name, *map(percent, values)])
        lines += ["", aligned(rows)]
    except FileNotFoundError:
        lines.append(
            "no test scores: this is a backbone with ImageNet weights, not trained on any archive."
            if is_pretrained(config)
            else "no test scores: the training has not come to its end, or had no test images."
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        lines.append("metrics.json cannot be read.")
    return "\n".join(lines)
