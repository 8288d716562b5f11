"""What is read of a file of `marcir evaluate --json`, such as the metrics.json of a run."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

from marcir.metrics.scores import Scores
from marcir.schema import PlainValidator, load, record


def _scores(value: Any) -> Scores:
    return value if isinstance(value, Scores) else Scores.from_json(value, "scores")


# Scores as a field of a record.
StoredScores = Annotated[Scores, PlainValidator(_scores)]


@record(unknown="ignore")
class ReferenceScores:
    """A row that the model is measured against; None where no query has a relevant image."""

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
    references: Mapping[str, ReferenceScores] = field(default_factory=dict)
    name: str | None = None
    judged_by: str | None = None

    @classmethod
    def load(cls, path: str | Path) -> "EvaluationFile":
        """Read what `Evaluation.save_json` wrote.

        Raises:
            DataError: Where the file is missing or is something else.
        """
        return load(cls, path, "what `marcir evaluate --json` writes", "Make it with: marcir evaluate --json")
