"""Training and evaluation where labels are unknown."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

import marcir
from marcir.cli import main
from marcir.cli.train import read_config
from marcir.config import Config
from marcir.data.archive import open_archive
from marcir.data.label_csv import read_label_table
from marcir.data.labelled_embeddings import LabelledEmbeddings
from marcir.data.split import draw_split
from marcir.errors import ConfigError, DataError
from marcir.experiments.plan import config_hash
from marcir.figures.retrieval_sheet import SheetRow
from marcir.labels import LabelVocabulary
from marcir.model.model_config import parse_model_config
from marcir.scenes.write import write_scenes
from marcir.training import evaluation_figures
from marcir.training.evaluation import evaluate_embeddings, share_of_pairs_left_out
from marcir.types import Embeddings
from test_cli import refusal
from training_runs import newest_state, weights


@dataclass(frozen=True)
class Run:
    """A run on incomplete labels: its folder, its label table, and what it printed."""

    folder: Path
    table: Path
    printed: str

    def evaluate(self, root: Path, *more: str) -> list[str]:
        return [
            *("evaluate", "--model", str(self.folder), "--dataset", "manifest", "--root", str(root)),
            *("--labels", str(self.table), *more),
        ]


def write_table(archive: Path, path: Path, share: float, sign: str, first_line: str = "") -> Path:
    """The table of the archive with a share of the present labels unknown, or dropped (no sign)."""
    rng, lines = random.Random(0), []
    for row in read_label_table(archive / "labels.csv").rows:
        written = [(sign and sign + name) if rng.random() < share else name for name in row.labels]
        lines.append(f"{row.image},{';'.join(filter(None, written))}\n")
    path.write_text("".join([first_line, "path,labels\n", *lines]))
    return path


def short(settings: list[str]) -> list[str]:
    """One epoch of the head alone."""
    frozen = ["--encoder.weights", "random", "--encoder.frozen", "true", "--encoder.frozen_views", "1"]
    return [*settings, *frozen, "--train.epochs", "1", "--loss.name", "marc-proto"]


@pytest.fixture(scope="module")
def some_unknown(
    settings: list[str], archive: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """A run in which 40 % of the present labels were said to be unknown."""
    folder = tmp_path_factory.mktemp("unknown")
    table = write_table(archive, folder / "some.csv", 0.4, "?")
    return trained(settings, folder / "run", table, cache, "--train.sampler", "label-aware")


@pytest.fixture(scope="module")
def mostly_unknown(
    settings: list[str], archive: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """A run with few present labels, in which all others are unknown; the table does not say so."""
    folder = tmp_path_factory.mktemp("mostly")
    table = write_table(archive, folder / "few.csv", 0.7, "")
    return trained(settings, folder / "run", table, cache, "--unlisted", "unknown")


def trained(settings: list[str], run: Path, table: Path, cache: Path, *more: str) -> Run:
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARCIR_CACHE", str(cache))
        patch.setattr("marcir.training.reporter.Reporter.info", lambda _, text: lines.append(text))
        assert main(["train", *short(settings), "--labels", str(table), *more, "--run", str(run)]) == 0
    return Run(run, table, "\n".join(lines))


# ---- Training ------------------------------------------------------------------------------------


def test_a_run_learns_from_incomplete_labels_and_scores_them(some_unknown: Run) -> None:
    history = (some_unknown.folder / "history.csv").read_text().splitlines()
    row = dict(zip(history[0].split(","), history[1].split(","), strict=True))
    assert np.isfinite(float(row["loss"]))
    assert 0 < float(row["validation nDCG@100"]) <= 1
    found = json.loads((some_unknown.folder / "metrics.json").read_text())["model"]
    assert found["pairs_left_out"] > 0
    assert "% of the labels of the training images are unknown" in some_unknown.printed
    assert "WARNING" not in some_unknown.printed
    assert "Unknown labels leave out" in (some_unknown.folder / "README.md").read_text()


def test_a_run_with_few_known_labels_ends_with_a_warning(mostly_unknown: Run) -> None:
    assert "WARNING: unknown labels leave out" in mostly_unknown.printed
    assert "% of the pairs of test images: scores of the others say little." in mostly_unknown.printed
    assert (mostly_unknown.folder / "metrics.json").exists()


def test_without_absent_labels_the_last_epoch_is_kept_and_patience_does_not_apply(
    settings: list[str], archive: Path, cache: Path, tmp_path: Path
) -> None:
    table = write_table(archive, tmp_path / "present.csv", 0.0, "")
    more = ["--unlisted", "unknown", "--train.epochs", "4", "--train.patience", "1"]
    run = trained(settings, tmp_path / "run", table, cache, *more)
    epochs = (run.folder / "history.csv").read_text().splitlines()[1:]
    assert len(epochs) == 4
    kept, newest = weights(run.folder), newest_state(run.folder)
    assert all(torch.equal(value, newest[f"encoder.{name}"]) for name, value in kept.items())
    assert "(best)" not in run.printed
    warnings = [line for line in run.printed.splitlines() if "validation images" in line]
    assert len(warnings) == 1
    assert "no ranking of the validation images is better than another by the labels that are" in warnings[0]
    assert "the weights of the last epoch are kept, and train.patience does not apply" in warnings[0]
    assert "Label the validation images completely" in warnings[0]
    card = (run.folder / "README.md").read_text()
    assert "was best" not in card
    assert "the weights of the last epoch, 4," in card
    assert "By the labels that are known, no ranking is better than another" in card


def test_validation_images_without_a_shared_label_choose_no_epoch(
    settings: list[str], archive: Path, cache: Path, tmp_path: Path
) -> None:
    read = read_label_table(archive / "labels.csv")
    split = draw_split(open_archive("manifest", archive), 0)
    lonely = set(split.validation)
    lines = [f"{row.image},{'' if row.image in lonely else ';'.join(row.labels)}\n" for row in read.rows]
    (tmp_path / "labels.csv").write_text("".join(["path,labels\n", *lines]))
    run = trained(settings, tmp_path / "run", tmp_path / "labels.csv", cache, "--train.epochs", "3")
    kept, newest = weights(run.folder), newest_state(run.folder)
    assert all(torch.equal(value, newest[f"encoder.{name}"]) for name, value in kept.items())
    assert "nan" not in run.printed
    assert "(best)" not in run.printed
    assert run.printed.count("the weights of the last epoch are kept") == 1


def test_what_silence_meant_is_recorded(
    some_unknown: Run, mostly_unknown: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    for run, option, meaning in ((some_unknown, None, "absent"), (mostly_unknown, "unknown", "unknown")):
        assert yaml.safe_load((run.folder / "config.yaml").read_text())["data"]["unlisted"] == option
        content = json.loads((run.folder / "config.json").read_text())
        assert content["unlisted"] == meaning
        content.pop("unlisted")  # as in models of earlier versions
        assert parse_model_config(content).unlisted == "absent"
    assert main(["info", str(mostly_unknown.folder)]) == 0
    assert "labels that the table did not list were unknown in training" in capsys.readouterr().out


def test_a_run_is_not_resumed_with_another_meaning_of_silence(
    mostly_unknown: Run, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--labels", str(mostly_unknown.table), "--run", str(mostly_unknown.folder)]
    refused = refusal(capsys, "train", *short(settings), *more)
    assert "was trained with data.unlisted = unknown, now it is None, which is another archive" in refused
    assert main(["train", *short(settings), *more, "--unlisted", "unknown"]) == 0


def test_oml_is_refused_before_any_work(
    settings: list[str], some_unknown: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARCIR_CACHE", str(tmp_path / "cache"))
        more = ["--labels", str(some_unknown.table), "--loss.name", "oml", "--run", str(tmp_path / "run")]
        refused = refusal(capsys, "train", *settings, *more)
    assert "loss.name = oml: it needs complete labels, and some of" in refused
    assert "Use another loss, such as marc-proto" in refused
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("on_broken", ["error", "skip"])
def test_oml_is_refused_only_where_training_images_have_unknown_labels(
    settings: list[str], archive: Path, tmp_path: Path, on_broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    split = draw_split(open_archive("manifest", archive), 0)
    options = ["--data.on_broken", on_broken, "--loss.name", "oml", "--train.epochs", "1"]
    for image, code in ((split.test[0], 0), (split.train[0], 2)):
        table = tmp_path / f"{code}.csv"
        table.write_text((archive / "labels.csv").read_text().replace(f"{image},", f"{image},?", 1))
        more = ["--labels", str(table), *options, "--run", str(tmp_path / f"run-{code}")]
        assert main(["train", *settings, *more]) == code
    assert "it needs complete labels" in capsys.readouterr().err


def test_unknown_labels_alone_are_nothing_to_learn_from(
    settings: list[str], archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_table(archive, tmp_path / "labels.csv", 1.0, "?")
    more = ["--labels", str(table), "--run", str(tmp_path / "run")]
    refused = refusal(capsys, "train", *settings, *more)
    assert "no label is known to be present in a training image. Training needs at least two" in refused


def test_records_of_a_comparison_are_told_apart_by_labels_and_not_by_how_they_are_read() -> None:
    said = Config.from_dict({"data": {"unlisted": "unknown"}})
    assert config_hash(said, "split") == config_hash(Config(), "split")


@pytest.mark.parametrize("unlisted", ["unknown", "absent"])
def test_the_setting_has_a_short_option(unlisted: str, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("path,labels\n")
    config = read_config(["--root", str(tmp_path), "--unlisted", unlisted])
    assert config.data.unlisted == unlisted
    assert Config().data.unlisted is None
    with pytest.raises(ConfigError, match="--unlisted .* and --data.unlisted .*: give one of them"):
        read_config(["--unlisted", unlisted, "--data.unlisted", "other"])


def test_python_takes_the_same_settings(
    archive: Path, mostly_unknown: Run, tmp_path: Path, settings: list[str]
) -> None:
    data = {"root": str(archive), "labels": str(mostly_unknown.table), "unlisted": "unknown", "size": 24}
    saved = yaml.safe_load((mostly_unknown.folder / "config.yaml").read_text())
    scores = marcir.train({**saved, "data": data}, run=tmp_path / "run")
    assert scores is not None
    assert scores.model.share_of_pairs_left_out > 0.5
    reader = marcir.create_reader("manifest")
    read = reader.read(archive, mostly_unknown.table, unlisted="unknown")
    assert read.label_checksum == json.loads((tmp_path / "run/config.json").read_text())["label_checksum"]


# ---- Evaluation ----------------------------------------------------------------------------------


def test_evaluating_gives_the_scores_of_training_and_counts_what_is_left_out(
    some_unknown: Run, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "e.json"
    assert main(some_unknown.evaluate(archive, "--json", str(out))) == 0
    printed = capsys.readouterr().out
    found = json.loads(out.read_text())
    written = json.loads((some_unknown.folder / "metrics.json").read_text())
    assert found["judged_by"] == written["judged_by"]
    assert found["model"]["scores"] == pytest.approx(written["model"]["scores"], abs=1e-6)
    number = found["model"]["pairs_left_out"]
    assert f"Unknown labels leave out {number:,} of 552 pairs of query and image (" in printed
    assert "The test images of the run's split." in printed


def test_a_test_split_with_few_known_labels_is_refused_unless_allowed(
    mostly_unknown: Run, archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = refusal(capsys, *mostly_unknown.evaluate(archive))
    assert "unknown labels leave out " in refused
    assert "% of the pairs of query and image, and scores of the others say little." in refused
    assert "or give --allow-incomplete" in refused
    assert "are unknown, as in training; --unlisted absent takes them for absent." in refused
    assert main(mostly_unknown.evaluate(archive, "--allow-incomplete")) == 0
    printed = capsys.readouterr().out
    assert "The test images of the run's split.\nLabels that the table does not list are unknown" in printed
    assert main(mostly_unknown.evaluate(archive, "--allow-incomplete", "--unlisted", "unknown")) == 0
    assert "The test images of the run's split." in capsys.readouterr().out
    assert main(mostly_unknown.evaluate(archive, "--unlisted", "absent")) == 0
    printed = capsys.readouterr().out
    assert "The test images of the run's split. Their labels are not those of training." in printed
    assert "Unknown labels" not in printed


def test_a_run_is_scored_on_its_own_test_images_by_a_complete_table(
    some_unknown: Run, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "evaluate",
        "--model",
        str(some_unknown.folder),
        "--dataset",
        "manifest",
        "--root",
        str(archive),
    ]
    assert main([*command, "--json", str(tmp_path / "e.json")]) == 0
    assert "The test images of the run's split. Their labels are not those of" in capsys.readouterr().out
    found = json.loads((tmp_path / "e.json").read_text())["model"]
    split = json.loads((some_unknown.folder / "split.json").read_text())
    assert sorted(found["queries"]["ids"]) == sorted(split["test"])
    assert "pairs_left_out" not in found
    header, *rows = (archive / "labels.csv").read_text().splitlines()
    (tmp_path / "reversed.csv").write_text("\n".join([header, *reversed(rows)]))
    assert main([*command, "--labels", str(tmp_path / "reversed.csv"), "--part", "validation"]) == 0
    assert "The validation images of the run's split. Their labels are" in capsys.readouterr().out
    assert main([*command, "--part", "all"]) == 0
    assert "All images, including the training images." in capsys.readouterr().out


def test_other_images_of_the_same_names_have_no_parts(
    some_unknown: Run, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_scenes(tmp_path / "other", 120, 24, 1)
    assert open_archive("manifest", tmp_path / "other").ids == open_archive("manifest", archive).ids
    command = ["evaluate", "--model", str(some_unknown.folder), "--dataset", "manifest"]
    command += ["--root", str(tmp_path / "other")]
    assert "--part test: the model was not trained on this archive" in refusal(
        capsys, *command, "--part", "test"
    )
    assert main(command) == 0
    assert "All images: this is not the archive that the model was trained on." in capsys.readouterr().out


def test_labels_by_which_all_rankings_are_equal_are_refused_unless_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = tuple("abcde")
    vectors = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    Embeddings(ids, vectors).save(tmp_path / "e.npz")
    labels = tmp_path / "labels.csv"
    labels.write_text("# unlisted: unknown\npath,labels\na,road\nb,road\nc,road\nd,road\ne,road;tree\n")
    command = ["evaluate", "--embeddings", str(tmp_path / "e.npz"), "--labels", str(labels)]
    refused = refusal(capsys, *command)
    assert "by the labels that are known, no ranking is better than another" in refused
    assert "Score images with complete labels, or give --allow-incomplete" in refused
    assert main([*command, "--allow-incomplete"]) == 0
    assert "By the labels that are known, no ranking is better than another" in capsys.readouterr().out
    labels.write_text(labels.read_text().replace("b,road", "b,!road"))
    assert main(command) == 0
    assert "no ranking is better" not in capsys.readouterr().out


def test_python_refuses_and_allows_the_same(mostly_unknown: Run, archive: Path) -> None:
    given = (mostly_unknown.folder, "manifest", archive, mostly_unknown.table)
    with pytest.raises(DataError, match="--allow-incomplete"):
        marcir.evaluate(*given)
    done = marcir.evaluate(*given, allow_incomplete=True)
    assert done.evaluation.model.share_of_pairs_left_out > 0.5


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Vectors of six images, and a table that lists what was seen."""
    ids = tuple("abcdef")
    vectors = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    Embeddings(ids, vectors).save(tmp_path / "e.npz")
    labels = ("road", "road", "tree", "tree", "sea", "sea")
    lines = [f"{image},{label}\n" for image, label in zip(ids, labels, strict=True)]
    (tmp_path / "labels.csv").write_text("".join(["path,labels\n", *lines]))
    return ["evaluate", "--embeddings", str(tmp_path / "e.npz"), "--labels", str(tmp_path / "labels.csv")]


def test_embeddings_of_any_model_are_judged_alike(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(files) == 0
    assert "Unknown" not in capsys.readouterr().out
    assert "leave out 80.0 % of the pairs" in refusal(capsys, *files, "--unlisted", "unknown")
    assert main([*files, "--unlisted", "unknown", "--allow-incomplete"]) == 0
    assert "Unknown labels leave out 24 of 30 pairs of query and image (80.0 %)" in capsys.readouterr().out


def test_a_gallery_with_unknown_labels_is_refused_too(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Embeddings(("g", "h"), np.eye(2, 4, dtype=np.float32)).save(tmp_path / "g.npz")
    (tmp_path / "g.csv").write_text("# unlisted: unknown\npath,labels\ng,road\nh,?road\n")
    gallery = ["--gallery-embeddings", str(tmp_path / "g.npz"), "--gallery-labels", str(tmp_path / "g.csv")]
    assert "--allow-incomplete" in refusal(capsys, *files, *gallery)
    assert main([*files, *gallery, "--allow-incomplete"]) == 0


def test_the_share_of_pairs_is_that_of_the_scores(archive: Path, some_unknown: Run) -> None:
    read = open_archive("manifest", archive, some_unknown.table)
    vectors = np.random.default_rng(0).normal(size=(len(read), 4)).astype(np.float32)
    images = LabelledEmbeddings(Embeddings(read.ids, vectors), read.labels, read.vocabulary)
    scores = evaluate_embeddings("any", images).model
    assert share_of_pairs_left_out(read.labels) == scores.share_of_pairs_left_out > 0
    assert share_of_pairs_left_out(read.labels > 0) == 0
    few = share_of_pairs_left_out(read.labels[:5], read.labels)
    known = marcir.retrieval_scores(
        vectors[:5], read.labels[:5], gallery_embeddings=vectors, gallery_labels=read.labels
    )
    assert few == known.share_of_pairs_left_out


def test_a_drawn_hit_that_may_share_a_label_is_not_marked_as_a_miss(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = open_archive("manifest", archive).ids[:3]
    labels = torch.tensor([[1, 0], [-1, 0], [0, 1]], dtype=torch.int8)
    vectors = np.array([[1, 0], [1, 0.1], [1, 0.2]], np.float32)
    images = LabelledEmbeddings(Embeddings(ids, vectors), labels, LabelVocabulary(["road", "tree"]))
    drawn: list[SheetRow] = []
    monkeypatch.setattr(evaluation_figures, "draw_retrieval_sheet", lambda rows, out: drawn.extend(rows))
    evaluation_figures.draw_hits(images, None, archive, tmp_path / "hits.png", chosen=[ids[0]])
    assert [(hit.shared, hit.overlap) for hit in drawn[0].hits] == [((), None), ((), 0.0)]
