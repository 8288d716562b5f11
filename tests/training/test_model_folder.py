"""The folder of a run: claimed, killed half way, read again from strange files."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import marcir
from marcir.cli import main
from marcir.cli.train import read_config
from marcir.config import Config
from marcir.data.split import Split
from marcir.errors import ConfigError, DataError
from marcir.training.checkpoint import Checkpoints, Progress
from marcir.training.run_folder import RunFolder
from training_runs import train


class _Killed(BaseException):
    """Stands for a signal that cannot be caught."""


def test_a_run_that_is_killed_while_it_claims_its_folder_can_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        (tmp_path / ".split.json.0123abcd.part").write_text("half")
        raise _Killed

    split = Split("manifest", "random", 0, "checksum", ("a",), (), ())
    task: Any = SimpleNamespace(split=split, source=SimpleNamespace(checksum="checksum"))
    monkeypatch.setattr(Split, "save", killed)
    with pytest.raises(_Killed):
        RunFolder(tmp_path).write_settings(Config(), task)
    RunFolder(tmp_path).check(Config())
    (tmp_path / "images.sha256").unlink()  # written after the settings
    (tmp_path / "config.yaml").rename(tmp_path / ".config.yaml.0123abcd.part")
    RunFolder(tmp_path).check(Config())
    (tmp_path / "last" / ".epoch-00001-step-0000000.part").mkdir(parents=True)
    RunFolder(tmp_path).remove_temporary_files()
    assert [path.name for path in tmp_path.rglob("*")] == ["last"]


def test_a_checkpoint_that_was_just_written_is_never_removed(tmp_path: Path) -> None:
    network, loss = nn.Linear(1, 1), nn.Identity()
    optimiser = torch.optim.Adam(network.parameters())
    damaged = tmp_path / "epoch-00002-step-0000000"
    damaged.mkdir()
    checkpoints = Checkpoints(tmp_path, keep=1)
    written = checkpoints.save(Progress(epoch=1, step=3), network, loss, optimiser)
    assert list(tmp_path.iterdir()) == [written]
    found = checkpoints.load()
    assert found is not None
    assert found.restore(network, loss, optimiser) == Progress(epoch=1, step=3)


def test_paths_of_settings_hold_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content = {"data": {"root": "a", "labels": "b.csv", "split": "c.json"}, "encoder": {"weights": "w"}}
    flat = Config.from_dict(content).with_absolute_paths().flat()
    assert [flat[f"data.{name}"] for name in ("root", "labels", "split")] == [
        str(tmp_path / name) for name in ("a", "b.csv", "c.json")
    ]
    assert flat["encoder.weights"] == str(tmp_path / "w")
    assert Config().with_absolute_paths() == Config()


def test_the_last_of_several_losses_is_the_one_that_is_meant() -> None:
    assert read_config(["--loss.name=marc", "--loss.name", "lproto"]).loss.name == "lproto"
    assert read_config(["--loss.name", "lproto", "--loss.name=marc"]).loss.name == "marc"


def test_settings_beside_a_run_that_cannot_be_read_are_refused_in_one_line(
    settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "last" / "epoch-00001-step-0000000").mkdir(parents=True)
    for text in ("train: 3", "train: {lrr: 1}", "loss: marc", "- 1"):
        (tmp_path / "config.yaml").write_text(text)
        assert main(["train", *settings, "--run", str(tmp_path)]) == 2
        heard = capsys.readouterr().err
        assert "not the settings of a run" in heard
        assert heard.count("\n") == 1


def test_a_run_without_test_images_ends_with_a_model_and_no_scores(
    settings: list[str], trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    split = json.loads((trained / "split.json").read_text())
    split |= {"train": split["train"] + split["test"], "test": []}
    (tmp_path / "split.json").write_text(json.dumps(split))
    run = tmp_path / "run"
    options = ["--data.split", str(tmp_path / "split.json"), "--train.epochs", "1", "--run", str(run)]
    train(*settings, *options)
    assert "fewer than two test images" in capsys.readouterr().err
    assert "There were no test images." in (run / "README.md").read_text()
    assert not (run / "metrics.json").exists()
    assert main(["info", str(run)]) == 0
    assert "no test scores" in capsys.readouterr().out


def test_one_step_that_ruins_the_weights_is_told_at_validation(
    settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ruinous = ["--train.lr", "1e30", "--train.schedule", "step", "--train.batch_size", "84"]
    assert main(["train", *settings, *ruinous, "--run", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "validation images became infinite or NaN. Lower train.lr" in said


def test_kept_features_that_are_damaged_are_made_again(
    settings: list[str], cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frozen = [*settings, "--encoder.weights", "random", "--encoder.frozen", "true"]
    frozen += ["--encoder.frozen_views", "3", "--train.epochs", "1"]
    before = set((cache / "features").glob("*.safetensors"))
    train(*frozen, "--run", str(tmp_path / "a"))
    (made,) = set((cache / "features").glob("*.safetensors")) - before
    whole = made.read_bytes()
    made.write_bytes(whole[:100])
    train(*frozen, "--run", str(tmp_path / "b"))
    assert made.read_bytes() == whole
    capsys.readouterr()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"size": 10**9}, "size = 1000000000: must be 8192 or less"),
        ({"dim": "16"}, "dim = '16': must be a whole number"),
        ({"bands": 0}, "bands = 0"),
        ({"mean": 5}, "mean = 5: must be a list"),
        ({"std": [0, 1, 1]}, "std.0 = 0: must be above 0"),
        ({"std": [float("nan")] * 3}, "std.0 = nan: must be a finite number"),
        ({"dtype": "object"}, "dtype = 'object': unknown"),
        ({"embedding": "head"}, "embedding = 'head': unknown"),
        ({"backbone": 5}, "backbone = 5: must be a text"),
        ({"training_counts": [1]}, "training_counts must be one number per label"),
        ({"loss": {}}, "loss must be a loss with its name"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_configuration_that_cannot_be_is_refused_by_its_entry(
    entry: dict[str, object], said: str, trained: Path, tmp_path: Path
) -> None:
    content = json.loads((trained / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**content, **entry}))
    with pytest.raises(ConfigError, match=r"config\.json is not a model's") as caught:
        marcir.load_model(tmp_path)
    assert said in str(caught.value)


def test_a_configuration_that_is_no_configuration_is_refused(tmp_path: Path) -> None:
    for text in ("[]", "null", "", "[" * 100_000):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ConfigError, match=r"config\.json is not a model's"):
            marcir.load_model(tmp_path)


def test_one_image_instead_of_a_list_is_refused(trained: Path) -> None:
    model = marcir.load_model(trained)
    array = np.zeros((24, 24, 3), np.uint8)
    for image in (array, array[:, :, 0], Image.fromarray(array), "a.png"):
        with pytest.raises(ConfigError, match=r"Write embed\(\[image\]\)"):
            model.embed(image)  # type: ignore[arg-type]
    assert model.embed(np.stack([array, array])).shape == (2, 16)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="batch_size = 0"):
        model.embed([array], batch_size=0)


def test_pictures_are_seen_as_their_files_would_be(trained: Path, tmp_path: Path) -> None:
    model = marcir.load_model(trained)
    colour = Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 24, 3), np.uint8))
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
        picture = colour.convert(mode)
        picture.save(tmp_path / "a.png")
        np.testing.assert_array_equal(model.embed([picture]), model.embed([tmp_path / "a.png"]), mode)
    with pytest.raises(DataError, match="pixels are float32"):
        model.embed([colour.convert("F")])  # would be cut to 0..255
