"""The precision of a run stands in its settings, and a resumed run keeps it."""

import shutil
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import save_file

from marcir.cli import main
from pretended_trials import pretend_processor

DIES = "bfloat16 ends with an illegal instruction on this processor"


@pytest.fixture
def auto(settings: list[str], own_cache: Path) -> list[str]:
    """A short run that takes whatever precision the machine is good at; with verdicts of its own."""
    place = settings.index("--train.precision")
    return [*settings[:place], *settings[place + 2 :], "--train.epochs", "1"]


def begun(run: Path) -> str:
    """The precision in the settings of a run."""
    found: str = yaml.safe_load((run / "config.yaml").read_text())["train"]["precision"]
    return found


def test_a_run_says_what_it_computes_in_and_why(
    auto: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend_processor(monkeypatch, "illegal instruction")
    run = tmp_path / "run"
    assert main(["train", *auto, "--run", str(run)]) == 0
    assert f"computing in float32: {DIES}\n" in capsys.readouterr().err
    assert begun(run) == "float32"


def test_bfloat16_that_cannot_be_used_is_refused_before_anything_is_written(
    auto: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend_processor(monkeypatch, "illegal instruction")
    run = tmp_path / "run"
    assert main(["train", *auto, "--train.precision", "bfloat16", "--run", str(run)]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(
        f"marcir: train.precision bfloat16: {DIES}. Use float32, or set ONEDNN_MAX_CPU_ISA"
    )
    assert not run.exists()


def test_wrong_settings_are_refused_without_a_trial(
    auto: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend_processor(monkeypatch, "illegal instruction")
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    for wrong in (
        ["--encoder.backbone", "test_resnett"],
        ["--data.root", "/nowhere"],
        ["--encoder.weights", "imagenet"],
        ["--encoder.weights", str(tmp_path / "other.safetensors")],
        ["--encoder.weights", str(tmp_path / "missing.safetensors")],
    ):
        assert main(["train", *auto, *wrong, "--run", str(tmp_path / "run")]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1, wrong  # no trial, no packing


def test_a_frozen_backbone_needs_no_trial(
    auto: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend_processor(monkeypatch, "faster")
    frozen = ["--encoder.frozen", "true", "--encoder.weights", "random"]
    assert main(["train", *auto, *frozen, "--run", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().err
    assert "trying bfloat16" not in said
    assert "computing in float32: the backbone is frozen" in said


def test_a_resumed_run_keeps_the_precision_that_it_began_with(
    trained: Path,
    settings: list[str],
    own_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    place = settings.index("--train.precision")
    auto = [*settings[:place], *settings[place + 2 :]]
    pretend_processor(monkeypatch, "faster")
    assert main(["train", *auto, "--run", str(run)]) == 0
    said = capsys.readouterr().err
    assert "computing in float32: as in the resumed run" in said
    assert "training is already complete" in said
    assert begun(run) == "float32"


def test_a_run_that_began_in_bfloat16_is_refused_where_it_cannot_go_on(
    trained: Path,
    settings: list[str],
    own_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    file = run / "config.yaml"
    file.write_text(file.read_text().replace("precision: float32", "precision: bfloat16"))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    place = settings.index("--train.precision")
    auto = [*settings[:place], *settings[place + 2 :]]
    pretend_processor(monkeypatch, "illegal instruction")
    assert main(["train", *auto, "--run", str(run)]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"{run} was started in bfloat16, and {DIES}. Resume it where bfloat16 works." in said
    assert "To resume here, set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment" in said
    assert said.endswith("To start again in float32: --train.precision float32 and another --run.")
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
