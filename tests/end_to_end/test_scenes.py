"""The generated archive is hard enough to mean something."""

from pathlib import Path

import pytest

from marcir.config import Config, DataConfig, EncoderConfig
from marcir.data.archive import open_archive
from marcir.data.dataset import open_images
from marcir.data.split import draw_split
from marcir.labels import LabelStatistics
from marcir.metrics.references import chance_scores
from marcir.metrics.retrieval_scores import retrieval_scores
from marcir.scenes.write import write_scenes
from marcir.training.build import build_encoder, build_untrained
from marcir.training.inputs import embed_positions
from marcir.training.task import Task, image_size


@pytest.mark.slow
def test_random_weights_are_hardly_above_chance(tmp_path: Path, own_cache: Path) -> None:
    write_scenes(tmp_path / "scenes", 600, 64, 0)
    archive = open_archive("manifest", tmp_path / "scenes")
    size = image_size(DataConfig(name="scenes"))
    split = draw_split(archive, 0, sizes=(200, 0, 400))
    train = split.positions(archive, "train")
    statistics = LabelStatistics.from_labels(archive.labels[train])
    source = open_images(archive, round(1.25 * size))
    task = Task(archive, split, source, size, statistics, archive.labels)
    settings = EncoderConfig(backbone="resnet18", weights="none")
    like = build_encoder(settings, task, 0)
    encoder = build_untrained(Config(encoder=settings), like, task.source, size, train)
    positions = task.positions("test")
    labels = archive.labels[positions]
    vectors = embed_positions(encoder, task.source, size, positions, batch_size=100)
    found = retrieval_scores(vectors, labels, per_label=False)["nDCG@100"]
    chance = chance_scores(labels)["nDCG@100"]
    assert chance < found < chance + 0.15
