"""A tiny model, for everything that is indexed and searched."""

import shutil
from pathlib import Path

import pytest

from training_runs import train


@pytest.fixture(scope="session")
def models(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of one epoch with a tiny backbone."""
    runs = tmp_path_factory.mktemp("models")
    settings = [
        *("--data.name", "manifest", "--data.root", str(scenes), "--data.size", "24"),
        *("--encoder.backbone", "test_resnet", "--encoder.weights", "none", "--encoder.dim", "16"),
        *("--train.batch_size", "14", "--train.epochs", "1", "--loss.name", "mulsupcon"),
        *("--train.precision", "float32"),  # the same bits on every machine
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARCIR_CACHE", str(tmp_path_factory.mktemp("models-cache")))
        for seed in ("0", "1"):
            train(*settings, "--train.seed", seed, "--run", str(runs / seed))
    return runs / "0", runs / "1"


@pytest.fixture(scope="session")
def model(models: tuple[Path, Path]) -> Path:
    """A tiny model."""
    return models[0]


@pytest.fixture
def images(scenes: Path, tmp_path: Path) -> Path:
    """A copy of the scenes that may be changed."""
    return Path(shutil.copytree(scenes, tmp_path / "images"))
