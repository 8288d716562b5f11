"""A plan of three losses and two seeds on a small generated archive."""

from pathlib import Path

import pytest
import yaml

import marcir.experiments.benchmark
from benchmark_runs import perform_here
from marcir.experiments.benchmark import benchmark
from marcir.scenes.write import write_scenes
from report_records import save_pixel


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """90 generated scenes of 16 pixels."""
    folder = tmp_path_factory.mktemp("archive") / "scenes"
    write_scenes(folder, 90, 16, 0)
    return folder


@pytest.fixture(scope="session")
def plan(archive: Path) -> dict[str, object]:
    """What the plan's file holds."""
    return {
        "datasets": [{"name": "manifest", "root": str(archive), "size": 16}],
        "losses": ["mulsupcon", "marc", {"name": "marc", "alpha": 0.5, "title": "MARC half"}],
        "seeds": [0, 1],
        "encoder": {"backbone": "test_resnet", "weights": "none", "dim": 8},
        # float32: the same bits on every machine
        "train": {"epochs": 2, "batch_size": 20, "precision": "float32"},
    }


@pytest.fixture(scope="session")
def plan_file(plan: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan as YAML."""
    file = tmp_path_factory.mktemp("plans") / "plan.yaml"
    file.write_text(yaml.safe_dump(plan))
    return file


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all runs."""
    return tmp_path_factory.mktemp("benchmark-cache")


@pytest.fixture(autouse=True)
def _use_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARCIR_CACHE", str(cache))


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of this process perform runs in it; programs that `start` starts have real workers."""
    monkeypatch.setattr(marcir.experiments.benchmark, "perform_all", perform_here)


@pytest.fixture(scope="session")
def unbroken(plan_file: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a benchmark that nobody disturbed."""
    results = tmp_path_factory.mktemp("results") / "unbroken"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARCIR_CACHE", str(cache))
        patch.setattr(marcir.experiments.benchmark, "perform_all", perform_here)
        done = benchmark(plan_file, results)
    assert "6 of 6 runs have scores, 6 were trained now" in str(done)
    return results


@pytest.fixture
def unrendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of a report are composed, but not rendered."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", save_pixel)
