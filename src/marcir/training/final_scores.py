"""Scores of a run's best weights on the test images."""

from dataclasses import dataclass

from torch import Tensor

from marcir.config import Config
from marcir.model.encoder import Encoder
from marcir.training.build import build_untrained
from marcir.training.evaluation import Evaluation, LabelledEmbeddings, evaluate_embeddings
from marcir.training.inputs import Examples, FrozenFeatures, embed_positions
from marcir.training.task import Task
from marcir.types import Embeddings


@dataclass(frozen=True, eq=False)
class TestResult:
    """Scores and embeddings of the test images.

    Attributes:
        evaluation: Scores beside chance, oracle and the untrained backbone.
        images: Vectors and labels.
    """

    evaluation: Evaluation
    images: LabelledEmbeddings


def score_test(name: str, config: Config, task: Task, encoder: Encoder, examples: Examples) -> TestResult:
    """Score an encoder on the test images, beside the same backbone untrained.

    Args:
        name: Name of the model.
        config: Settings of the run.
        task: Archive and split.
        encoder: The encoder with its best weights.
        examples: Inputs of the encoder.
    """
    positions = task.positions("test")
    encoder.eval()
    ids = tuple(task.archive.ids[position] for position in positions)
    vectors = Embeddings(ids, examples.embed(encoder, positions).numpy())
    images = LabelledEmbeddings(vectors, task.archive.labels[positions], task.archive.vocabulary)
    evaluation = evaluate_embeddings(
        name,
        images,
        training_counts=task.statistics.label_counts.tolist(),
        untrained=_untrained(config, task, encoder, examples, positions),
        seed=config.train.seed,
    )
    return TestResult(evaluation, images)


def _untrained(
    config: Config, task: Task, encoder: Encoder, examples: Examples, positions: list[int]
) -> Tensor:
    """Features of the backbone before training. (N, D)"""
    if isinstance(examples, FrozenFeatures):  # a frozen backbone is never trained
        return examples.features(positions)
    seed, size, source = config.train.seed, task.size, task.source
    untrained = build_untrained(config.encoder, seed, encoder, source, size, task.positions("train"))
    return embed_positions(untrained, source, size, positions)
