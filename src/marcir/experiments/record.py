"""Records of runs: one JSON file, and the vectors of the test images, in a results folder."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from marcir.schema import load, record, save
from marcir.training.evaluation import StoredScores
from marcir.types import Embeddings

COMPARISON = "comparison"  # the study of `marcir benchmark`
UNKNOWN_LABELS = "unknown-labels"  # the study of plans that hide labels
_BYTES, _CUT = 150, 120  # of a file name: the maximum, and the length of a truncated one


@record(eq=False)
class Record:
    """One run: its settings and its results.

    Attributes:
        study: `comparison`, or the name of an ablation.
        dataset: The dataset's name.
        loss: The loss's name in the catalog.
        method: Name of the row: the loss's name, or a title where its options differ.
        setting: Settings that the study varies; empty in a comparison.
        seed: Seed of initial weights, batch order and augmentation.
        config: Every setting of the run, by section.
        config_hash: Hash of everything that changes the trained model, see `plan.config_hash`.
        split_checksum: Checksum of the split.
        error: Why it failed, in one line; None for success.
        seconds: Training time.
        loss_milliseconds: One forward and backward pass of the loss alone on a batch.
        timed_idle: Whether that was measured on an idle machine with consistent repeats.
        best_epoch: The epoch, counted from 1, whose weights were best on the validation images.
        validation: Metrics on the validation images at that epoch.
        versions: Versions of packages, the machine, and the commit of the code where it is known.
        judged_by: Hash of the test images and their labels.
        scores: Scores on the test images, per query and per label.
        references: Metrics of chance, oracle and untrained; of the last also `tail`.
        labels: Labels of the test images, in the order of the scores' ids.
        image_side: Shorter side of the archive's images in pixels, by the first of them; None if unknown.
        format: Version of the file.
    """

    study: str
    dataset: str
    loss: str
    method: str
    setting: Mapping[str, Any]
    seed: int
    config: Mapping[str, Mapping[str, Any]]
    config_hash: str
    split_checksum: str
    error: str | None = None
    seconds: float = 0.0
    loss_milliseconds: float | None = None
    timed_idle: bool = False
    best_epoch: int | None = None
    validation: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    judged_by: str = ""
    scores: StoredScores | None = None
    references: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    labels: tuple[tuple[str, ...], ...] = ()
    image_side: int | None = None
    format: Literal[1] = 1

    @property
    def name(self) -> str:
        """Unique name in the study, usable as a file name.

        >>> Record("tau", "ucm", "marc", "marc", {"tau": 0.05}, 3, {}, "", "").name
        'ucm-marc-tau=0.05-seed3'
        """
        return run_name(self.dataset, self.method, self.setting, self.seed)

    @property
    def done(self) -> bool:
        """Whether it has scores."""
        return self.error is None and self.scores is not None


def run_name(dataset: str, method: str, setting: Mapping[str, Any], seed: int) -> str:
    """Unique name of a run in its study, usable as a file name."""
    varied = [f"{name}={value}" for name, value in setting.items()]
    return slug("-".join([dataset, method, *varied, f"seed{seed}"]))


def slug(text: str) -> str:
    """Turn a text into a portable file name; texts that differ in letters and digits stay different.

    >>> slug("MARC, alpha = 0.5/β")
    'MARC-alpha-=-0.5-β'
    """
    kept = "".join(letter if letter.isalnum() or letter in "=.+_-" else " " for letter in text)
    name = "-".join(kept.split())
    if len(name.encode()) <= _BYTES:
        return name
    start = name.encode()[:_CUT].decode(errors="ignore")
    return f"{start}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"  # stays unique


@dataclass(frozen=True)
class Results:
    """A results folder."""

    path: Path

    def record_file(self, study: str, name: str) -> Path:
        """Path of a record."""
        return self.path / "records" / slug(study) / f"{name}.json"

    def vectors_file(self, study: str, name: str) -> Path:
        """Path of the vectors of a run's test images."""
        return self.path / "vectors" / slug(study) / f"{name}.npz"

    def run_folder(self, study: str, name: str) -> Path:
        """The model folder of a run."""
        return self.path / "runs" / slug(study) / name

    def split_file(self, dataset: str) -> Path:
        """Path of the split shared by all runs on a dataset."""
        return self.path / "splits" / f"{slug(dataset)}.json"

    def save(self, record: Record, vectors: Embeddings | None = None) -> None:
        """Write the vectors, then the record, each atomically: where a record exists, its vectors do."""
        if vectors is not None:
            vectors.save(self.vectors_file(record.study, record.name))
        content = asdict(replace(record, scores=None))
        content["scores"] = None if record.scores is None else record.scores.as_json()
        save(self.record_file(record.study, record.name), content)

    def save_failure(self, record: Record) -> None:
        """Write the record of a failed run, unless one with scores exists."""
        found = self.load(record.study, record.name)
        if found is None or not found.done:
            self.save(record)

    def load(self, study: str, name: str) -> Record | None:
        """Load a run's record; None where there is none."""
        path = self.record_file(study, name)
        return _read(path) if path.exists() else None

    def records(self) -> list[Record]:
        """Load all records, in the order of their files.

        Raises:
            DataError: For a file that is not a record.
        """
        return [_read(path) for path in sorted(self.path.glob("records/*/*.json"))]

    def vectors(self, record: Record) -> Embeddings:
        """Load the vectors of a run's test images."""
        return Embeddings.load(self.vectors_file(record.study, record.name))


def _read(path: Path) -> Record:
    return load(Record, path, "a record of marcir benchmark", "Remove it to run it again.")
