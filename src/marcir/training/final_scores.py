"""Score the best weights of a run on the test images."""

from dataclasses import dataclass

import torch

from marcir.config import Config
from marcir.metrics.retrieval_scores import retrieval_scores
from marcir.model.encoder import Encoder
from marcir.training.build import build_untrained
from marcir.training.evaluation import Evaluation, LabelledEmbeddings, evaluate
from marcir.training.inputs import AugmentedImages, Examples, FrozenFeatures
from marcir.training.task import Task
from marcir.types import Embeddings

_BATCH = 128


@dataclass(frozen=True, eq=False)
class Tested:
    """The test images of a run.

    Attributes:
        evaluation: Scores beside chance, oracle and the untrained backbone.
        images: Vectors and labels.
    """

    evaluation: Evaluation
    images: LabelledEmbeddings


def score_test(name: str, config: Config, task: Task, encoder: Encoder, examples: Examples) -> Tested:
    """Score an encoder on the test images, beside the same backbone untrained.

    Args:
        name: What the model is called.
        config: Its settings.
        task: Archive and split.
        encoder: With its best weights.
        examples: Its inputs.
    """
    positions = task.positions("test")
    encoder.eval()
    ids = tuple(task.archive.ids[position] for position in positions)
    labels = task.archive.labels[positions]
    vectors = _embedded(encoder, examples, positions)
    counts = task.statistics.label_counts.tolist()
    before = retrieval_scores(
        _untrained(config, task, encoder, examples, positions),
        labels,
        ids=ids,
        label_names=task.archive.vocabulary.names,
        training_counts=counts,
    )
    images = LabelledEmbeddings(Embeddings(ids, vectors.numpy()), labels, task.archive.vocabulary)
    evaluation = evaluate(
        name, images, training_counts=counts, more={"untrained": before}, seed=config.train.seed
    )
    return Tested(evaluation, images)


def _untrained(
    config: Config, task: Task, encoder: Encoder, examples: Examples, positions: list[int]
) -> torch.Tensor:
    """Embeddings of the backbone as it was before. (N, D)"""
    if isinstance(examples, FrozenFeatures):  # it still is
        return examples.features(positions)
    untrained = build_untrained(config.encoder, task, config.train.seed).to(encoder.mean.device).eval()
    return _embedded(untrained, AugmentedImages(task, config.train.seed), positions)


@torch.inference_mode()
def _embedded(encoder: Encoder, examples: Examples, positions: list[int]) -> torch.Tensor:
    """Embeddings of images of the archive, float32, on the CPU. (N, D)"""
    starts = range(0, len(positions), _BATCH)
    return torch.cat([examples.embed(encoder, positions[s : s + _BATCH]).float().cpu() for s in starts])
