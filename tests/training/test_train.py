"""What a training run leaves, and how it refuses."""

import csv
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image

import marcir
from marcir.catalog import LOSSES, loss_options
from marcir.cli import main
from marcir.cli.train import read_config
from marcir.config import Config
from marcir.errors import ConfigError
from marcir.training.build import build_encoder, build_loss
from marcir.training.fabric import start_fabric
from marcir.training.inputs import AugmentedImages
from marcir.training.task import open_task
from marcir.types import Embeddings
from training_runs import start, train, weights


def history(run: Path) -> list[dict[str, str]]:
    with (run / "history.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# ---- What it leaves ------------------------------------------------------------------------------


def test_a_run_leaves_a_model_folder(trained: Path) -> None:
    for name in (
        "model.safetensors",
        "config.json",
        "metrics.json",
        "history.csv",
        "history.png",
        "README.md",
    ):
        assert (trained / name).stat().st_size > 0
    config = json.loads((trained / "config.json").read_text())
    assert (config["backbone"], config["size"], config["bands"], config["dim"]) == ("test_resnet", 24, 3, 16)
    assert config["loss"] == {"name": "mulsupcon", **loss_options("mulsupcon")}
    assert len(config["labels"]) == len(config["training_counts"])
    assert len(history(trained)) == 3
    card = (trained / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: marcir\n")
    assert all(word in card for word in ("chance", "oracle", "untrained", "mulsupcon"))


def test_the_history_has_the_loss_its_diagnosis_and_validation_scores(trained: Path) -> None:
    row = history(trained)[-1]
    for name in (
        "loss",
        "learning_rate",
        "valid_anchors",
        "gradient_norm",
        "cosine J=1",
        "validation nDCG@100",
    ):
        assert np.isfinite(float(row[name]))


def test_the_weights_are_those_of_the_best_epoch(trained: Path, settings: list[str], tmp_path: Path) -> None:
    scores = [float(row["validation nDCG@100"]) for row in history(trained)]
    best = int(np.argmax(scores)) + 1
    train(*settings, "--train.epochs", str(best), "--run", str(tmp_path / "shorter"))
    shorter, whole = weights(tmp_path / "shorter"), weights(trained)
    assert all(torch.equal(shorter[name], whole[name]) for name in whole)


def test_a_model_embeds_paths_pictures_and_arrays_alike(trained: Path, archive: Path) -> None:
    model = marcir.load_model(trained)
    paths = sorted((archive / "images").iterdir())[:3]
    vectors = model.embed(paths)
    assert vectors.shape == (3, 16)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    pictures = [Image.open(path).convert("RGB") for path in paths]
    np.testing.assert_array_equal(model.embed(pictures), vectors)
    np.testing.assert_array_equal(model.embed([np.asarray(picture) for picture in pictures]), vectors)
    np.testing.assert_allclose(model.embed([str(path) for path in paths], batch_size=1), vectors, atol=1e-6)
    assert model.embed([]).shape == (0, 16)


def test_vectors_do_not_depend_on_autocast_around_them(trained: Path, archive: Path) -> None:
    model, paths = marcir.load_model(trained), sorted((archive / "images").iterdir())[:3]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        vectors = model.embed(paths)
    np.testing.assert_array_equal(vectors, model.embed(paths))


def test_embedding_a_folder_gives_the_vectors_that_training_scored(
    trained: Path, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "e.npz"
    assert main(["embed", "--model", str(trained), "--images", str(archive), "--out", str(out)]) == 0
    found = Embeddings.load(out)
    assert len(found.ids) == 120
    test = json.loads((trained / "split.json").read_text())["test"]
    kept = [found.ids.index(image) for image in test]
    Embeddings(tuple(test), found.vectors[kept]).save(out)
    scores = tmp_path / "scores.json"
    table = str(archive / "labels.csv")
    assert main(["evaluate", "--embeddings", str(out), "--labels", table, "--json", str(scores)]) == 0
    ours = json.loads(scores.read_text())["model"]["scores"]
    written = json.loads((trained / "metrics.json").read_text())["model"]["scores"]
    assert ours == pytest.approx(written, abs=1e-6)
    capsys.readouterr()


def test_evaluating_a_model_gives_the_scores_that_training_wrote(
    trained: Path, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--model", str(trained), "--dataset", "manifest", "--root", str(archive)]
    assert main(["evaluate", *arguments, "--json", str(tmp_path / "e.json")]) == 0
    assert "The test images of the run's split." in capsys.readouterr().out
    found = json.loads((tmp_path / "e.json").read_text())
    written = json.loads((trained / "metrics.json").read_text())
    assert found["model"]["scores"] == pytest.approx(written["model"]["scores"], abs=1e-6)
    assert found["judged_by"] == written["judged_by"]
    for row in ("chance", "oracle", "untrained"):
        assert found["references"][row]["scores"] == pytest.approx(
            written["references"][row]["scores"], abs=1e-6
        )


def test_information_about_a_model_is_short(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(trained)]) == 0
    said = capsys.readouterr().out
    assert "test_resnet, projection (16 numbers)" in said
    assert "untrained" in said


def test_an_exported_model_agrees_with_the_model(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    out = tmp_path / "m.onnx"
    assert main(["export", "--model", str(trained), "--onnx", str(out)]) == 0
    capsys.readouterr()
    images = torch.rand(7, 3, 24, 24)
    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    theirs = session.run(["vectors"], {"images": images.numpy()})[0]
    with torch.inference_mode():
        ours = marcir.load_model(trained).encoder.embed(images).numpy()
    np.testing.assert_allclose(theirs, ours, atol=1e-4)


# ---- What it learns from -------------------------------------------------------------------------


def test_a_seed_fixes_first_weights_and_split_whatever_the_loss(settings: list[str]) -> None:
    firsts = []
    for name in ("mulsupcon", "lproto", "marc"):
        config = read_config([*settings, "--loss.name", name])
        task = open_task(config)
        encoder = build_encoder(config.encoder, task, config.train.seed)
        build_loss(config, task)
        firsts.append((task.split, encoder.state_dict()))
    for split, state in firsts[1:]:
        assert split == firsts[0][0]
        assert all(torch.equal(state[name], firsts[0][1][name]) for name in state)


def test_a_seed_fixes_the_batches_of_the_first_epoch_whatever_the_loss(
    settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, seen = AugmentedImages.inputs, list[tuple[int, ...]]()

    def recorded(
        self: AugmentedImages, loaded: torch.Tensor, positions: Sequence[int], epoch: int, view: int
    ) -> torch.Tensor:
        seen.append((*positions, epoch, view))
        return inputs(self, loaded, positions, epoch, view)

    monkeypatch.setattr(AugmentedImages, "inputs", recorded)
    batches = []
    for name in ("mulsupcon", "lproto", "lmsc", "oml"):
        train(*settings, "--loss.name", name, "--train.epochs", "1", "--run", str(tmp_path / name))
        assert np.isfinite(float(history(tmp_path / name)[0]["loss"]))
        batches.append(tuple(seen))
        seen.clear()
    assert len(batches[0]) == 3
    assert len(set(batches)) == 1


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_built_from_settings_and_reaches_the_weights(name: str, settings: list[str]) -> None:
    config = read_config([*settings, "--loss.name", name])
    task = open_task(config)
    encoder = build_encoder(config.encoder, task, config.train.seed)
    positions = task.positions("train")[:28]
    loss = build_loss(config, task)(encoder(task.images(positions)), task.archive.labels[positions])
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() and p.grad.any() for p in encoder.head.parameters())


def test_a_frozen_backbone_is_embedded_once_and_keeps_its_weights(
    settings: list[str], cache: Path, tmp_path: Path
) -> None:
    frozen = [*settings, "--encoder.weights", "random", "--encoder.frozen", "true"]
    frozen += ["--encoder.frozen_views", "2"]
    kept = set((cache / "features").glob("*.safetensors"))
    train(*frozen, "--run", str(tmp_path / "a"))
    features = {path: path.stat().st_mtime_ns for path in (cache / "features").glob("*.safetensors")}
    assert len(features.keys() - kept) == 1
    train(*frozen, "--loss.name", "marc", "--run", str(tmp_path / "b"))
    assert features == {path: path.stat().st_mtime_ns for path in (cache / "features").glob("*.safetensors")}
    a, b = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert all(torch.equal(a[name], b[name]) for name in a if name.startswith("backbone."))
    assert not torch.equal(a["head.0.weight"], b["head.0.weight"])
    # What was scored from the kept features is what the saved model gives.
    found = json.loads((tmp_path / "a" / "metrics.json").read_text())["model"]["scores"]
    archive = settings[settings.index("--data.root") + 1]
    out = str(tmp_path / "e.json")
    arguments = ["--model", str(tmp_path / "a"), "--dataset", "manifest", "--root", archive, "--json", out]
    assert main(["evaluate", *arguments]) == 0
    assert json.loads(Path(out).read_text())["model"]["scores"] == pytest.approx(found, abs=1e-5)


def test_reading_files_every_time_learns_the_same(settings: list[str], trained: Path, tmp_path: Path) -> None:
    train(*settings, "--data.cache", "off", "--run", str(tmp_path / "files"))
    a, b = weights(trained), weights(tmp_path / "files")
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_images_of_many_bands_are_scaled_by_their_own_statistics(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = ["path,labels"]
    for k in range(40):
        image = rng.normal((5, -2, 0, 100, 7), (1, 2, 3, 4, 5), (20, 20, 5)).astype(np.float32)
        tifffile.imwrite(tmp_path / f"{k}.tif", image, photometric="minisblack", planarconfig="contig")
        rows.append(f"{k}.tif,{['a', 'b', 'a;b', 'b;c'][k % 4]}")
    (tmp_path / "labels.csv").write_text("\n".join(rows) + "\n")
    run = tmp_path / "run"
    train(
        *("--data.name", "manifest", "--data.root", str(tmp_path), "--data.size", "16", "--run", str(run)),
        *("--encoder.backbone", "test_resnet", "--encoder.weights", "none", "--train.epochs", "1"),
        *("--train.batch_size", "14", "--train.precision", "float32"),
    )
    config = json.loads((run / "config.json").read_text())
    assert (config["bands"], config["dtype"]) == (5, "float32")
    assert config["mean"] == pytest.approx([5, -2, 0, 100, 7], abs=0.2)
    assert marcir.load_model(run).embed([tmp_path / "0.tif"]).shape == (1, 128)


def test_training_stops_when_validation_no_longer_improves(settings: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    slow = ["--train.lr", "1e-12", "--train.schedule", "step", "--train.weight_decay", "0"]
    train(*settings, *slow, "--train.epochs", "40", "--train.patience", "2", "--run", str(run))
    scores = [float(row["validation nDCG@100"]) for row in history(run)]
    assert len(scores) < 40
    assert len(scores) - 1 - int(np.argmax(scores)) == 2


# ---- Several processes ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss", [["lproto"], ["lmsc", "--loss.queue_size", "40"]], ids=["prototypes", "a queue that cuts a batch"]
)
def test_two_processes_have_the_loss_curve_of_one(
    loss: list[str], settings: list[str], cache: Path, tmp_path: Path
) -> None:
    # A backbone without batch normalisation: its statistics would differ between processes.
    arguments = [
        *settings,
        "--encoder.backbone",
        "test_vit",
        "--data.size",
        "32",
        "--loss.name",
        *loss,
        "--train.epochs",
        "2",
    ]
    train(*arguments, "--run", str(tmp_path / "one"))
    run = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "marcir",
        "--",
    ]
    two = start([*arguments, "--run", str(tmp_path / "two")], cache, *run)
    _, heard = two.communicate(timeout=120)
    assert two.returncode == 0, heard
    one_row, two_row = history(tmp_path / "one"), history(tmp_path / "two")
    for name in ("loss", "gradient_norm", "validation nDCG@100"):
        np.testing.assert_allclose(
            [float(row[name]) for row in one_row],
            [float(row[name]) for row in two_row],
            rtol=2e-3,
            err_msg=name,
        )
    np.testing.assert_allclose(float(one_row[0]["loss"]), float(two_row[0]["loss"]), rtol=1e-5)


@pytest.mark.slow
def test_a_process_of_several_that_dies_is_reported_with_what_it_means(
    settings: list[str], cache: Path, tmp_path: Path
) -> None:
    arguments = [*settings, "--train.devices", "2", "--train.epochs", "500", "--run", str(tmp_path / "run")]
    lines = []
    with start(arguments, cache) as running:
        assert running.stderr is not None
        for line in running.stderr:
            lines.append(line)
            if "epoch 1/500" in line:
                children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
                os.kill(int(children[0]), signal.SIGKILL)
    assert running.returncode == 2, "".join(lines)
    assert lines[-1].startswith("marcir: process 1 of 2: its process was killed by SIGKILL: probably because")
    assert "The same command resumes from the last checkpoint." in lines[-1]


@pytest.mark.slow
def test_processes_that_would_compute_in_different_precisions_are_refused(
    settings: list[str], cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    # Without AMX: bfloat16 can be asked for on every machine.
    shared |= {"TORCHELASTIC_RUN_ID": "test", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    for name, value in shared.items():
        monkeypatch.setenv(name, value)
    running = []
    for rank, precision in enumerate(("float32", "bfloat16")):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        arguments = [*settings, "--train.precision", precision, "--run", str(tmp_path / "run")]
        running.append(start(arguments, cache))
    heard = [each.communicate(timeout=120)[1] for each in running]
    assert [each.returncode for each in running] == [2, 2], heard
    assert "train.precision = bfloat16, but the first process has float32." in heard[0]
    assert "marcir: " not in heard[1]
    assert not (tmp_path / "run").exists()


# ---- Settings ------------------------------------------------------------------------------------


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as exit_:
        main(["train", *arguments])
    assert exit_.value.code == 0
    return capsys.readouterr().out


def test_the_printed_settings_can_be_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--train.lr", "0.01", "--loss.name", "marc", "--loss.alpha", "2", "--print_config")
    file = tmp_path / "c.yaml"
    file.write_text(text)
    config = read_config(["--config", str(file)])
    assert (config.train.lr, config.loss.name, config.loss.options["alpha"]) == (0.01, "marc", 2.0)
    over = read_config(["--config", str(file), "--train.lr", "3"])
    assert over.train.lr == 3.0


def test_help_shows_the_options_of_the_loss_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--loss.alpha" in printed(capsys, "--loss.name", "marc", "--help")
    assert "--loss.alpha" not in printed(capsys, "--help")


def test_a_folder_with_labels_needs_no_name_of_a_dataset(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read_config(["--data.root", str(archive)]).data.name == "manifest"
    assert read_config(["--data.root", str(archive), "--data.name", "ucm"]).data.name == "ucm"
    (tmp_path / "c.yaml").write_text("data: {name: ucm}")
    assert read_config(["--config", str(tmp_path / "c.yaml"), "--data.root", "x"]).data.name == "ucm"
    assert read_config([]).data.name == "scenes"
    assert main(["train", "--data.root", str(tmp_path)]) == 2
    assert f"--root {tmp_path}: there is no labels.csv in it." in capsys.readouterr().err


def test_the_archive_is_named_as_in_every_other_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = read_config(["--dataset", "ucm", "--root", "a", "--labels", "b.csv"]).data
    assert (short.name, short.root, short.labels) == ("ucm", "a", "b.csv")
    assert read_config(["--root", "a", "--labels", "b.csv"]).data.name == "manifest"
    assert (
        read_config(["--dataset", "ucm", "--data.name", "ucm"]).data == read_config(["--dataset", "ucm"]).data
    )
    (tmp_path / "c.yaml").write_text("data: {name: ucm, root: a}")
    over = read_config(["--config", str(tmp_path / "c.yaml"), "--root", "b"]).data
    assert (over.name, over.root) == ("ucm", "b")
    assert main(["train", "--root", "a", "--data.root", "b"]) == 2
    assert capsys.readouterr().err == "marcir: --root a and --data.root b: give one of them.\n"


def test_options_win_over_files_and_later_files_over_earlier_ones(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("train: {lr: 1e-1, epochs: 5}\nloss: {name: marc, alpha: 3}\nrun: mine")
    second.write_text("train: {lr: 2e-1}")
    files = ["--config", str(first), "--config", str(second)]
    config = read_config([*files, "--train.epochs", "7"])
    assert (config.train.lr, config.train.epochs, config.run) == (0.2, 7, "mine")
    assert config.loss.name == "marc"
    assert repr(config.loss.options["alpha"]) == "3.0"
    assert read_config(["--train.lr", "3e-1", *files, "--config", str(first)]).train.lr == 0.3
    assert read_config([*files, "--config", str(first)]).train.lr == 0.1


def test_a_setting_can_be_taken_back_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("train: {patience: 3}\ndata: {name: ucm, root: x}")
    config = read_config(
        ["--config", str(tmp_path / "a.yaml"), "--train.patience", "null", "--data.root", "null"]
    )
    assert (config.train.patience, config.data.root) == (None, None)


@pytest.mark.parametrize("name", ["3", "1e3", "true", "[a"])
def test_a_path_is_never_taken_for_something_else(name: str) -> None:
    assert read_config(["--dataset", "ucm", "--root", name, "--data.split", name]).data.split == name


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--trian.lr", "1"], "unknown argument '--trian.lr'. Did you mean '--train.lr'?"),
        (["--loss.alpha", "1"], "unknown argument '--loss.alpha'."),
        (["foo"], "unknown argument 'foo'."),
        (["--train.lr"], "argument --train.lr: expected one argument."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_there_are_not_are_refused_in_one_line(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["train", *options])
    assert exit_.value.code == 2
    heard = capsys.readouterr().err
    assert said in heard
    assert heard.count("\n") == 1


def test_the_defaults_are_a_pretrained_backbone() -> None:
    encoder = read_config([]).encoder
    assert (encoder.backbone, encoder.weights, encoder.frozen) == ("tf_efficientnet_lite0", "imagenet", False)


@pytest.mark.parametrize("file", sorted(Path("configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_recipes_can_be_read(file: Path) -> None:
    name = "marc-proto" if file.stem == "fast-cpu" else "marc"
    config = read_config(["--config", str(file)])
    assert config.loss.name == name
    if file.stem.startswith("paper-"):
        assert (config.data.size, config.train) == (224, Config().train)
        assert (config.encoder.backbone, config.encoder.weights) == ("resnet18", "none")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--train.lr", "fast"], "train.lr = 'fast': must be a number."),
        (["--train.lr", "-1"], "train.lr = -1: must be above 0"),
        (["--train.epochs", "0"], "train.epochs = 0: must be 1 or more"),
        (["--train.schedule", "cosin"], "train.schedule = 'cosin': unknown. Did you mean 'cosine'?"),
        (["--train.views", "3"], "train.views = 3: must be 2 or less"),
        (["--loss.name", "mrac"], "unknown loss 'mrac'. Did you mean 'marc'?"),
        (["--data.name", "scnes"], "unknown dataset 'scnes'. Did you mean 'scenes'?"),
        (["--data.root", "/nowhere"], "/nowhere is not a folder"),
        (["--data.root", "s3://b/tiles"], "data.root s3://b/tiles: must be on a disk."),
        (["--encoder.backbone", "resnet999"], "timm has no 'resnet999'"),
        (["--encoder.weights", "/nowhere.safetensors"], "there is no such file"),
        (["--encoder.frozen", "true"], "little can be learned. Use imagenet, hub or a file, or random"),
        (
            ["--encoder.weights", "imagenet"],
            "these are weights of tf_efficientnet_lite0, not of 'test_resnet'",
        ),
        (["--train.batch_size", "500"], "there are only 84 training images"),
        (["--encoder.frozen", "true", "--encoder.embedding", "backbone"], "trains only the head"),
        (["--encoder.dim", "1000000000000"], "encoder.dim = 1000000000000: must be 65536 or less"),
        (["--config", "/nowhere.yaml"], "there is no such file"),
        (["--data.split", "/nowhere.json"], "there is no such file. Make it with: marcir data split"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_settings_that_cannot_be_used_are_refused_in_one_line(
    options: list[str], said: str, settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *settings, *options, "--run", str(tmp_path / "run")]) == 2
    heard = capsys.readouterr().err
    assert said in heard
    assert heard.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train:\n  lrr: 1\n", "unknown setting 'train.lrr'. Did you mean 'train.lr'?"),
        ("trian:\n  lr: 1\n", "unknown setting 'trian'. Did you mean 'train'?"),
        ("train: 3\n", "train = 3: must hold settings, such as {name: value}."),
        ("loss: marc\n", "loss = 'marc': must hold settings"),
        ("train:\n", "train = None: must hold settings"),
        ("1: 2\n", "unknown setting '1'"),
        ("train.lr: 1\n", "'train.lr' must be in a section: 'train: {lr: ...}'."),
        ("- 1\n", "expected sections"),
        ("a: [\n", "c.yaml: while parsing"),
        ("train:\n  lr: fast\n", "train.lr = 'fast': must be a number."),
        ("loss:\n  tua: 1\n", "unknown setting 'loss.tua'. Did you mean 'loss.tau'?"),
        ("train: {2020-01-01: 1}\n", "keys must be str"),
        ("train: &train [*train]\n", "Circular reference"),
    ],
    ids=[
        "setting",
        "section",
        "number",
        "word",
        "nothing",
        "number as section",
        "dotted name",
        "list",
        "broken",
        "type",
        "option",
        "date",
        "circle",
    ],
)
def test_a_file_of_settings_with_a_mistake_is_refused_in_one_line(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    assert main(["train", "--config", str(file), "--run", str(tmp_path / "run")]) == 2
    heard = capsys.readouterr().err
    assert said in heard
    assert str(file) in heard
    assert heard.count("\n") == 1


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (lambda k: "a", "have 1 label. Training needs"),
        (lambda k: f"label{k}", "no label has two training images"),
        (lambda k: "", "no label is known to be present in a training image. Training needs at least two"),
    ],
    ids=["one label", "no partners", "no labels"],
)
def test_labels_with_which_nothing_can_be_learned_are_refused(
    labels: object, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["path,labels"]
    for k in range(20):
        Image.new("RGB", (16, 16), (k, k, k)).save(tmp_path / f"{k}.png")
        rows.append(f"{k}.png,{labels(k)}")  # type: ignore[operator]
    (tmp_path / "labels.csv").write_text("\n".join(rows) + "\n")
    arguments = ["--data.name", "manifest", "--data.root", str(tmp_path), "--data.size", "16"]
    assert main(["train", *arguments, "--train.batch_size", "4", "--run", str(tmp_path / "run")]) == 2
    assert said in capsys.readouterr().err


def test_a_loss_that_is_not_finite_ends_the_run_with_advice(
    settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*settings, "--train.lr", "1e30", "--train.schedule", "step", "--run", str(tmp_path / "run")]
    assert main(["train", *arguments]) == 2
    assert "Lower train.lr" in capsys.readouterr().err.splitlines()[-1]


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(tmp_path)]) == 2
    assert "not a model folder" in capsys.readouterr().err
    (tmp_path / "config.json").write_text("{}")
    assert main(["embed", "--model", str(tmp_path), "--images", str(tmp_path), "--out", "e.npz"]) == 2
    capsys.readouterr()


def test_the_configuration_proves_the_split_and_not_only_its_table(
    trained: Path, settings: list[str]
) -> None:
    config = json.loads((trained / "config.json").read_text())
    other = open_task(read_config([*settings, "--train.seed", "1"])).split
    assert config["label_checksum"] == other.label_checksum
    assert config["split_checksum"] != other.checksum
    same = open_task(read_config(settings)).split
    assert config["split_checksum"] == same.checksum


@pytest.mark.parametrize("config", [None, "config.yaml", 3])
def test_train_refuses_what_are_no_settings(config: Any) -> None:
    with pytest.raises(ConfigError, match="train: expected settings by section"):
        marcir.train(config)


def test_more_processes_than_devices_are_refused(
    settings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for device in ("cuda", "cuda:0"):
        config = read_config([*settings, "--device", device, "--train.devices", "2"])
        with pytest.raises(ConfigError, match="train.devices = 2"):
            start_fabric(config)


def test_an_option_of_a_loss_that_is_out_of_range_is_refused_before_images_are_read(
    settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MARCIR_CACHE", str(tmp_path / "cache"))
    assert main(["train", *settings, "--loss.tau", "-1", "--run", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "tau" in line
    assert not (tmp_path / "cache").exists()
    assert not (tmp_path / "run").exists()
