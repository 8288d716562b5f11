"""The JSON file of `marcir evaluate --json`, such as the metrics.json of a run."""

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
    """A saved evaluation.

    Attributes:
        model: The model's scores.
        references: Scores of chance, oracle and the untrained backbone, by name.
        name: Name of the model.
        judged_by: Fingerprint of the queries, the gallery and their labels.
    """

    model: StoredScores
    references: Mapping[str, _Row] = field(default_factory=dict)
    name: str | None = None
    judged_by: str | None = None

    @classmethod
    def load(cls, path: str | Path) -> "EvaluationFile":
        """Read a file of `Evaluation.save_json`; a DataError if it is anything else."""
        return load(cls, path, "what `marcir evaluate --json` writes", "Make it with: marcir evaluate --json")
