"""What is read of a file of `marcir evaluate --json`, such as the metrics.json of a run."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

from marcir.metrics.scores import Scores
from marcir.schema import PlainValidator, load, record


def _as_scores(value: Any) -> Scores:
    return value if isinstance(value, Scores) else Scores.from_json(value, "scores")


StoredScores = Annotated[Scores, PlainValidator(_as_scores)]  # as a field of a record


@record(unknown="ignore")
class _Row:
    scores: Mapping[str, float | None]


@record(unknown="ignore", eq=False)
class EvaluationFile:
    """An evaluation that was saved.

    Attributes:
        model: The model's scores.
        references: Chance, oracle and other rows, by name.
        name: What the model is called.
        judged_by: Fingerprint of the queries, the gallery and their labels.
    """

    model: StoredScores
    references: Mapping[str, _Row] = field(default_factory=dict)
    name: str | None = None
    judged_by: str | None = None

    @classmethod
    def load(cls, path: str | Path) -> "EvaluationFile":
        """Read what `Evaluation.save_json` wrote; a DataError where it is something else."""
        return load(cls, path, "what `marcir evaluate --json` writes", "Make it with: marcir evaluate --json")
