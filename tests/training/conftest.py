"""A small archive, and runs on it that take a second or two."""

from pathlib import Path

import pytest

from marcir.scenes.write import write_scenes
from training_runs import train


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 generated scenes of 24 pixels."""
    folder = tmp_path_factory.mktemp("archive") / "scenes"
    write_scenes(folder, 120, 24, 0)
    return folder


@pytest.fixture(scope="session")
def settings(archive: Path) -> list[str]:
    """A run of three short epochs with a tiny backbone."""
    return [
        *("--data.name", "manifest", "--data.root", str(archive), "--data.size", "24"),
        *("--encoder.backbone", "test_resnet", "--encoder.weights", "none", "--encoder.dim", "16"),
        *("--train.batch_size", "28", "--train.epochs", "3", "--loss.name", "mulsupcon"),
        *("--train.precision", "float32"),  # the same bits on every machine
    ]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all runs."""
    return tmp_path_factory.mktemp("training-cache")


@pytest.fixture(autouse=True)
def _use_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARCIR_CACHE", str(cache))


@pytest.fixture(scope="session")
def trained(settings: list[str], cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that came to its end."""
    run = tmp_path_factory.mktemp("runs") / "unbroken"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARCIR_CACHE", str(cache))
        train(*settings, "--run", str(run))
    return run
