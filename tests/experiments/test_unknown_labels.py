"""The study of unknown labels: plans, runs, records and report."""

import csv
import math
import re
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

from benchmark_runs import perform_here
from marcir.cli import main
from marcir.config import Config, LabelsConfig
from marcir.errors import ConfigError
from marcir.experiments.benchmark import ablate, benchmark
from marcir.experiments.plan import config_hash, read_plan
from marcir.experiments.record import COMPARISON, UNKNOWN_LABELS, Record, Results
from marcir.experiments.report.assemble import report
from marcir.files import cache_folder
from marcir.labels import LabelStatistics
from marcir.losses import MultiLabelLoss
from marcir.metrics.retrieval_metrics import METRICS
from marcir.training.task import Task, open_task
from report_records import made_record, made_scores

GRID = {"hide": [0.3, 0.6], "how": ["uniform", "present-only"], "unknown": ["aware", "absent"]}
AWARE = {"how": "uniform", "unknown": "aware"}


def written(tmp_path: Path, labels: Any, **more: Any) -> Path:
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump({"losses": ["mulsupcon"], "labels": labels, **more}))
    return file


# ---- Plans ---------------------------------------------------------------------------------------


def test_lists_are_combined_and_absent_is_planned_once_per_share(tmp_path: Path) -> None:
    runs = list(read_plan(written(tmp_path, GRID)).runs())
    assert {run.study for run in runs} == {UNKNOWN_LABELS}
    assert [dict(run.setting) for run in runs] == [
        {"hide": 0.3, "how": "uniform", "unknown": "aware"},
        {"hide": 0.3, "unknown": "absent"},
        {"hide": 0.3, "how": "present-only", "unknown": "aware"},
        {"hide": 0.6, "how": "uniform", "unknown": "aware"},
        {"hide": 0.6, "unknown": "absent"},
        {"hide": 0.6, "how": "present-only", "unknown": "aware"},
    ]
    assert runs[0].name == "scenes-mulsupcon-hide=0.3-how=uniform-unknown=aware-seed0"
    assert [run.config.labels.how for run in runs if run.config.labels.unknown == "absent"] == ["uniform"] * 2


def test_runs_with_all_labels_are_those_of_the_comparison(tmp_path: Path) -> None:
    sections = [{"hide": [0, 0.5], "seed": 3}, {"hide": 0, "how": "present-only"}]
    first, second, third = read_plan(written(tmp_path, sections)).runs()
    assert (first.study, dict(first.setting), first.config.labels) == (COMPARISON, {}, LabelsConfig())
    assert (second.setting["hide"], second.config.labels.seed) == (0.5, 3)
    assert dict(third.setting) == {"hide": 0.0, "how": "present-only", "unknown": "aware"}


def test_a_plan_without_labels_is_a_comparison_with_the_hash_of_older_records(tmp_path: Path) -> None:
    (run,) = read_plan(written(tmp_path, None)).runs()
    assert (run.study, run.config.labels) == (COMPARISON, LabelsConfig())

    def hashed(**labels: Any) -> str:
        return config_hash(Config.from_dict({"encoder": {"weights": "none"}, "labels": labels}), "s")

    # As computed before labels could be hidden: finished runs are not trained again.
    assert hashed() == "75ad8a997625412bb6e444b4"
    others = [hashed(hide=0.5), hashed(hide=0.6), hashed(hide=0.5, seed=1), hashed(unknown="absent")]
    assert len({hashed(), *others}) == 5


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"hide": 1}, "labels.hide = 1: must be below 1"),
        ({"hide": [0.3, -0.1]}, "labels.hide = -0.1: must be 0"),
        ({"hide": "most"}, "labels.hide = 'most': must be a number"),
        ({"hide": []}, "labels.hide = []: must not be empty"),
        ({"how": "unifrm"}, "labels.how = 'unifrm': unknown. Did you mean 'uniform'?"),
        ({"unknown": ["aware", "no"]}, "labels.unknown = 'no': unknown"),
        ({"hidden": 0.3}, "unknown setting 'labels.hidden'. Did you mean 'labels.hide'?"),
        ({"seed": [0, 1]}, "labels.seed = [0, 1]: must be a whole number"),
        ([{"hide": 0.3}, {"hide": 0.3, "seed": 1}], "labels.seed: two seeds for"),
        ([], "labels = []: must not be empty"),
        (0.3, "labels.0 = 0.3: must hold settings"),
    ],
)
def test_mistakes_in_the_labels_of_a_plan_are_named(labels: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="plan.yaml") as error:
        read_plan(written(tmp_path, labels))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_loss_that_takes_no_unknown_labels_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="losses: oml needs complete labels. Remove it, or set labels"):
        read_plan(written(tmp_path, {"hide": 0.3}, losses=["marc", "oml"]))
    plan = read_plan(written(tmp_path, {"hide": 0.3, "unknown": "absent"}, losses=["marc", "oml"]))
    assert len(list(plan.runs())) == 2


def test_ablations_do_the_study_with_a_plan_that_hides_labels_and_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for labels, study, said in (
        ({"hide": 0.3}, "tau", "study 'tau': the plan hides labels, and this study has complete ones"),
        (None, UNKNOWN_LABELS, "study 'unknown-labels': the plan hides no labels: set labels"),
    ):
        file = written(tmp_path, labels)
        assert (
            main(["ablate", "--config", str(file), "--study", study, "--results", str(tmp_path / "r")]) == 2
        )
        assert said in capsys.readouterr().err


# ---- Runs ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hiding(archive: Path) -> dict[str, Any]:
    """A plan with a frozen backbone."""
    return {
        "datasets": [{"name": "manifest", "root": str(archive), "size": 16}],
        "losses": ["marc-proto"],
        "labels": [{"hide": [0, 0.5], "how": "uniform"}, {"hide": 0.5, "unknown": "absent"}],
        "encoder": {
            "backbone": "test_resnet", "weights": "random", "dim": 8, "frozen": True, "frozen_views": 1
        },
        "train": {"epochs": 1, "batch_size": 20, "precision": "float32"},
    }  # fmt: skip


def opened(hiding: Mapping[str, Any], **labels: Any) -> Task:
    sections = {"data": hiding["datasets"][0], "train": hiding["train"], "labels": labels}
    return open_task(Config.from_dict(sections))


@pytest.mark.parametrize("how", ["uniform", "present-only"])
@pytest.mark.parametrize("unknown", ["aware", "absent"])
def test_labels_of_training_images_alone_are_hidden(hiding: dict[str, Any], how: str, unknown: str) -> None:
    task, plain = opened(hiding, hide=0.5, how=how, unknown=unknown), opened(hiding)
    assert torch.equal(task.archive.labels, plain.archive.labels)
    assert task.split.checksum == plain.split.checksum
    assert plain.training_labels is plain.archive.labels
    train = task.positions("train")
    kept = [k for k in range(len(task.archive)) if k not in set(train)]
    assert torch.equal(task.training_labels[kept].bool(), plain.archive.labels[kept].bool())
    y, true = task.training_labels[train], plain.archive.labels[train].bool()
    assert (y == -1).any() == (unknown == "aware")
    assert 0 < int((y == 1).sum()) < int(true.sum())
    assert torch.equal(task.statistics.label_counts, LabelStatistics.from_labels(y == 1).label_counts)
    assert torch.equal(y == 1, opened(hiding, hide=0.5).training_labels[train] == 1)


@pytest.fixture(scope="module")
def seen() -> list[Tensor]:
    """Labels of the batches that losses saw."""
    return []


@pytest.fixture(scope="module")
def studied(
    hiding: dict[str, Any], cache: Path, seen: list[Tensor], tmp_path_factory: pytest.TempPathFactory
) -> Results:
    """The records of the plan."""
    folder = tmp_path_factory.mktemp("studied")
    file = folder / "plan.yaml"
    file.write_text(yaml.safe_dump(hiding))
    forward = MultiLabelLoss.forward

    def noticed(self: MultiLabelLoss, z: Tensor, y: Tensor, *rest: Any, **more: Any) -> Tensor:
        if self.training:
            seen.append(y)
        return forward(self, z, y, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARCIR_CACHE", str(cache))
        patch.setattr("marcir.experiments.benchmark.perform_all", perform_here)
        patch.setattr(MultiLabelLoss, "forward", noticed)
        done = benchmark(file, folder / "results")
    assert (done.runs, done.trained, done.failed) == (3, 3, {})
    return Results(folder / "results")


def test_runs_are_recorded_by_what_they_hide(studied: Results, seen: list[Tensor]) -> None:
    found = {(record.study, record.name): record for record in studied.records()}
    aware = "manifest-marc-proto-hide=0.5-how=uniform-unknown=aware-seed0"
    absent = "manifest-marc-proto-hide=0.5-unknown=absent-seed0"
    assert set(found) == {
        (COMPARISON, "manifest-marc-proto-seed0"), (UNKNOWN_LABELS, aware), (UNKNOWN_LABELS, absent)
    }  # fmt: skip
    assert all(record.done for record in found.values())
    for what in ("split_checksum", "judged_by"):
        assert len({getattr(record, what) for record in found.values()}) == 1
    assert len({record.config_hash for record in found.values()}) == 3
    assert found[UNKNOWN_LABELS, absent].config["labels"]["unknown"] == "absent"
    assert any((y == -1).any() for y in seen)


def test_features_are_computed_once_for_all_hidden_labels(studied: Results, hiding: dict[str, Any]) -> None:
    files = set((cache_folder() / "features").glob("*.safetensors"))
    ablated = {**hiding, "labels": {"hide": 0.7}}
    file = studied.path.parent / "more.yaml"
    file.write_text(yaml.safe_dump(ablated))
    done = ablate(file, [UNKNOWN_LABELS], studied.path)
    assert (done.runs, done.trained, done.failed) == (1, 1, {})
    assert set((cache_folder() / "features").glob("*.safetensors")) == files
    assert not list((studied.path / "runs" / UNKNOWN_LABELS).glob("*"))


def test_another_seed_of_hidden_labels_needs_another_results_folder(
    studied: Results, hiding: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = written(tmp_path, {"hide": 0.5, "seed": 1}, **{k: v for k, v in hiding.items() if k != "labels"})
    assert main(["benchmark", "--config", str(file), "--results", str(studied.path)]) == 2
    assert "labels.seed was 0, now it is 1" in capsys.readouterr().err


def test_train_takes_the_labels_as_a_section(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["train", "--root", str(archive), "--labels.hide", "0.6", "--print_config"])
    assert left.value.code == 0
    assert yaml.safe_load(capsys.readouterr().out)["labels"] == {
        "unknown": "aware", "hide": 0.6, "how": "uniform", "seed": 0
    }  # fmt: skip
    assert main(["train", "--root", str(archive), "--labels.hide", "1"]) == 2
    assert "labels.hide = 1: must be below 1." in capsys.readouterr().err


# ---- The report ----------------------------------------------------------------------------------

STRENGTHS = {("uniform", "aware"): 0.6, ("present-only", "aware"): 0.5, (None, "absent"): 0.4}


def made_study(folder: Path, loss: str = "marc-proto") -> Results:
    """Runs of one loss at two shares with two seeds."""
    results = Results(folder)
    for seed in (0, 1):
        for (how, unknown), strength in STRENGTHS.items():
            for hide in (0.3, 0.6):
                setting = {"hide": hide, **({"how": how} if how else {}), "unknown": unknown}
                made_record(
                    loss, seed, strength - hide / 2, study=UNKNOWN_LABELS, setting=setting, results=results
                )
    return results


def table_rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "report/tables/ucm-unknown-labels.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def mean_of_columns(strength: float, seed: int) -> float:
    scores = made_scores(strength, seed)
    return 100 * fmean(scores[name] for name in METRICS)


@pytest.mark.usefixtures("unrendered")
def test_the_table_has_the_means_of_the_records_beside_those_with_all_labels(tmp_path: Path) -> None:
    results = made_study(tmp_path)
    for seed in (0, 1, 2):
        made_record("marc-proto", seed, 0.8, results=results)
    done = report(tmp_path)
    rows = table_rows(tmp_path)
    assert [row["training labels"] for row in rows[:3]] == [
        "unknown, hidden uniformly", "unknown, only present stated", "taken for absent"
    ]  # fmt: skip
    assert len(rows) == 6
    for row, strength in zip(rows, STRENGTHS.values(), strict=False):
        assert (row["group"], row["seeds"]) == ("mean of the seven columns", "2")
        for share, column in ((0.3, "30 % hidden"), (0.6, "60 % hidden")):
            values = [mean_of_columns(strength - share / 2, seed) for seed in (0, 1)]
            assert float(row[column]) == pytest.approx(fmean(values), abs=1e-5)
            assert float(row[f"{column} sd"]) == pytest.approx(stdev(values), abs=1e-5)
        # Of the seeds that both have.
        assert float(row["none hidden"]) == pytest.approx(
            fmean(mean_of_columns(0.8, seed) for seed in (0, 1)), abs=1e-5
        )
    ndcg = [100 * made_scores(0.6 - 0.15, seed)["nDCG@100"] for seed in (0, 1)]
    assert rows[3]["group"] == "nDCG@100"
    assert float(rows[3]["30 % hidden"]) == pytest.approx(fmean(ndcg), abs=1e-5)
    best = [row["30 % hidden mark"] for row in rows[:3]]
    values = [float(row["30 % hidden"]) for row in rows[:3]]
    assert best == ["best" if value == max(values) else "" for value in values]
    assert "ucm-unknown-labels.png" in {path.name for path in done.figures}
    page = done.page.read_text("utf-8")
    assert "so there is one row for both" in page
    assert "chosen: the best validation" not in page  # nothing is chosen among shares


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize(
    ("other", "said"),
    [
        (None, "No runs with all labels: marc-proto. Plan them with labels: {hide: 0}."),
        ({"split_checksum": "z" * 64}, "none hidden is left out, those runs differ in split_checksum."),
        ({"epochs": 50}, "none hidden is left out, those runs differ in train.epochs."),
    ],
)
def test_runs_that_cannot_stand_beside_those_with_all_labels_are_named(
    other: dict[str, Any] | None, said: str, tmp_path: Path
) -> None:
    results = made_study(tmp_path)
    if other is not None:
        plain = made_record("marc-proto", 0, 0.8)
        if "epochs" in other:
            other = {"config": {**plain.config, "train": {**plain.config["train"], **other}}}
        made_record("marc-proto", 0, 0.8, results=results, **other)
    page = report(tmp_path).page.read_text("utf-8")
    assert said in page
    assert all(math.isnan(float(row["none hidden"] or "nan")) for row in table_rows(tmp_path))


@pytest.mark.usefixtures("unrendered")
def test_a_study_of_failures_is_listed(tmp_path: Path) -> None:
    setting = {"hide": 0.3, **AWARE}
    Results(tmp_path).save(
        Record(UNKNOWN_LABELS, "ucm", "marc", "marc", setting, 0, {}, "", "", error="no memory")
    )
    page = report(tmp_path).page.read_text("utf-8")
    assert re.search("Failed: MARC .hide = 0.3, how = uniform, unknown = aware., seed 0: no memory", page)
