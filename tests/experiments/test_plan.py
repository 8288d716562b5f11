"""Plans and studies: what they hold, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from marcir.catalog import LOSSES, create_loss
from marcir.config import Config
from marcir.errors import ConfigError
from marcir.experiments.plan import config_hash, read_plan
from marcir.experiments.studies import STUDIES
from marcir.labels import LabelStatistics


def written(tmp_path: Path, content: Any) -> Path:
    file = tmp_path / "plan.yaml"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return file


def test_an_empty_plan_is_every_loss_on_the_scenes(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, ""))
    assert [title for title, _ in plan.losses] == list(LOSSES)
    assert [base.data.name for base in plan.bases] == ["scenes"]
    assert (plan.seeds, plan.split_seed) == ((0,), 0)


def test_all_losses_of_a_seed_come_before_the_next_seed(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, {"losses": ["marc", "oml"], "seeds": [3, 4]}))
    order = [(run.config.train.seed, run.method) for run in plan.runs()]
    assert order == [(3, "marc"), (3, "oml"), (4, "marc"), (4, "oml")]


def test_paths_may_hold_environment_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHIVES", "/data")
    plan = read_plan(written(tmp_path, {"datasets": [{"name": "ucm", "root": "$ARCHIVES/ucm"}]}))
    assert plan.bases[0].data.root == "/data/ucm"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"loses": []}, "unknown setting 'loses'. Did you mean 'losses'?"),
        ({"losses": ["mark"]}, "unknown loss 'mark'. Did you mean 'marc'?"),
        (
            {"losses": [{"name": "marc", "alfa": 1}]},
            "losses: marc: unknown setting 'loss.alfa'. Did you mean 'loss.alpha'?",
        ),
        ({"losses": ["marc", "marc"]}, "duplicate 'marc'"),
        ({"losses": [{"alpha": 1}]}, "a loss needs a name"),
        ({"losses": [3]}, "losses.0 = 3: must hold settings"),
        ({"losses": []}, "losses = []: must not be empty"),
        ({"seeds": 3}, "seeds = 3: must be a list"),
        ({"seeds": [-1]}, "seeds.0 = -1: must be 0 or more"),
        ({"datasets": ["ucm", "ucm"]}, "duplicate 'ucm'"),
        (
            {"datasets": [{"name": "ucm", "rot": "x"}]},
            "unknown setting 'data.rot'. Did you mean 'data.root'?",
        ),
        ({"datasets": [{"name": "ucm", "root": "$NOT_SET/x"}]}, "environment variable NOT_SET is not set"),
        ({"train": {"epochs": 0}}, "train.epochs = 0"),
        ({"encoder": 3}, "encoder = 3: must hold settings"),
        ({"seeds": [1, 2, 1]}, "seeds: duplicate '1'"),
        ({"losses": [{"name": "marc", "title": "a/b"}, {"name": "oml", "title": "A b"}]}, "duplicate"),
        ({"losses": [{"name": "mulsupcon", "title": "MARC"}]}, "the title 'MARC' is that of a loss"),
        ({"losses": [{"name": "marc", "alpha": 1, "title": "marc"}]}, "the title 'marc' is that of a loss"),
        (
            {"losses": [{"name": "marc", "alpha": "high"}]},
            "losses: marc: loss.alpha = 'high': must be a number",
        ),
        ({"losses": [{"name": "marc", "plr": "no"}]}, "plr = 'no': must be True or False"),
        ({"losses": [{"name": "lbase", "tau": -1}]}, "losses: lbase: tau = -1.0: must be above 0"),
        ({"losses": [{"name": "marc", "tau_mode": "x"}]}, "losses: marc: tau_mode = 'x': unknown"),
        ({"encoder": {"backbone": "resnet19"}}, "timm has no 'resnet19'. Did you mean 'resnet18'?"),
        ({"train": {"seed": 5}}, "train.seed: every seed of `seeds` takes its place"),
        ({"train": {"schedule": "steps"}}, "train.schedule = 'steps': unknown. Did you mean 'step'?"),
        ({"train": {1: 2}}, "unknown setting 'train.1'"),
        ({"encoder": {"frozen": "no"}}, "encoder.frozen = 'no': must be True or False"),
        ({"encoder": {"weights": True}}, "encoder.weights = True: must be a text"),
        ({"datasets": [{"name": "ucm", "root": 5}]}, "data.root = 5: must be a text, in quotes."),
        ({"datasets": [{"name": "ucm", "cache": "on"}]}, "data.cache = 'on': unknown"),
        ({"datasets": [{1: 2}]}, "unknown setting 'data.1'"),
        ("[1, 2]", "expected sections"),
    ],
)
def test_mistakes_in_a_plan_are_named(content: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="plan.yaml") as error:
        read_plan(written(tmp_path, content))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("file", sorted(Path("configs/benchmarks").glob("*.yaml")), ids=lambda p: p.stem)
def test_the_plans_of_the_project_can_be_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARCIR_SHARED", "/shared")
    assert read_plan(file).losses


def test_numbers_that_yaml_takes_for_texts_or_whole_are_numbers(tmp_path: Path) -> None:
    losses = [{"name": "marc", "alpha": "5e-1", "beta": 1}]
    plan = read_plan(written(tmp_path, {"train": {"lr": "1e-2"}, "losses": losses}))
    assert plan.bases[0].train.lr == 0.01
    assert repr(plan.losses[0][1].options) == "{'alpha': 0.5, 'beta': 1.0}"


def test_a_title_becomes_one_line(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, {"losses": [{"name": "marc", "title": "two\n\n lines"}, "oml"]}))
    assert [title for title, _ in plan.losses] == ["two lines", "oml"]


@pytest.mark.parametrize("letter", ["x", "長"])
def test_runs_with_a_long_title_have_a_file_each(letter: str, tmp_path: Path) -> None:
    losses = [{"name": "marc", "title": letter * 200}, {"name": "oml", "title": letter * 201}]
    runs = list(read_plan(written(tmp_path, {"losses": losses, "seeds": [0, 1]})).runs())
    assert len({run.name for run in runs}) == 4
    for run in runs:
        (tmp_path / f"{run.name}.json").touch()


def test_the_hash_follows_what_is_learned_and_not_where_things_lie(tmp_path: Path) -> None:
    weights = tmp_path / "a.safetensors"
    weights.write_bytes(b"weights")
    moved = tmp_path / "b.safetensors"
    moved.write_bytes(b"weights")

    def hashed(split: str = "s", **sections: dict[str, Any]) -> str:
        encoder = {"weights": str(weights), **sections.pop("encoder", {})}
        return config_hash(Config.from_dict({"encoder": encoder, **sections}), split)

    same = hashed()
    assert hashed(encoder={"weights": str(moved)}) == same
    assert hashed(data={"root": "/elsewhere"}, train={"keep": 5}) == same
    others = [
        hashed("t"),
        hashed(train={"seed": 1}),
        hashed(train={"lr": 0.1}),
        hashed(loss={"tau": 0.5}),
        hashed(encoder={"weights": "none"}),
    ]
    assert len({same, *others}) == 6
    moved.write_bytes(b"other weights")
    assert hashed(encoder={"weights": str(moved)}) != same


def test_studies_have_the_grids_that_were_set(tmp_path: Path) -> None:
    sizes = {name: len(list(study.variants())) for name, study in STUDIES.items()}
    assert sizes == {
        "alpha-beta-t": 35,
        "alpha-beta-wt": 35,
        "w-alpha": 7,
        "w-beta": 5,
        "tau": 10 * 4 + 2 * 5 + 3,
        "pretraining": 4,
        "lr": 6,
        "schedule": 6,
        "tau-mode": 4,
        "pair-frequency": 4,
        "anchor-frequency": 2,
        "sampler": 6,
        "views": 6,
        "embedding": 6,
        "calibrated": 22,
        "marc-proto": 31,
        "unknown-labels": 0,
    }


def test_studies_have_the_values_that_were_set() -> None:
    def values(study: str, option: str, loss: str = "marc") -> list[object]:
        runs = [each for each in STUDIES[study].variants() if each.loss == loss and option in each.setting]
        return list(dict.fromkeys(each.setting[option] for each in runs))

    alphas, betas = [0, 0.25, 0.5, 1, 1.5, 2, 3], [0, 0.1, 0.5, 1, 2]
    for study in ("alpha-beta-t", "alpha-beta-wt"):
        assert (values(study, "alpha"), values(study, "beta")) == (alphas, betas)
    assert (values("w-alpha", "alpha"), values("w-beta", "beta")) == (alphas, betas)
    assert values("tau", "tau", "lbase") == values("tau", "tau") == [0.05, 0.1, 0.2, 0.3]
    assert values("tau", "anneal", "oml") == [0.01, 0.05, 0.1]
    for loss in ("marc", "wg-marc"):
        assert values("lr", "lr", loss) == [0.1, 0.01, 0.001]
        assert values("schedule", "schedule", loss) == ["restarts", "step", "cosine"]
        assert values("pretraining", "pretrained", loss) == ["yes", "no"]


@pytest.mark.parametrize("name", STUDIES)
def test_every_run_of_a_study_has_a_loss_and_a_name_of_its_own(name: str, tmp_path: Path) -> None:
    hidden = {"losses": ["marc", "marc-proto"], "labels": {"hide": [0.3, 0.6]}}
    plan = read_plan(written(tmp_path, hidden if STUDIES[name].from_plan else ""))
    runs = list(STUDIES[name].runs(name, plan))
    assert 0 < len({run.name for run in runs}) == len(runs)
    y = torch.rand(40, 5, generator=torch.Generator().manual_seed(0)) < 0.4
    z = torch.randn(40, 8, generator=torch.Generator().manual_seed(1))
    for run in runs:
        loss = run.config.loss
        made = create_loss(
            loss.name, statistics=LabelStatistics.from_labels(y), embedding_dim=8, **loss.options
        )
        assert torch.isfinite(made(z, y))


def test_a_frozen_backbone_leaves_out_what_makes_no_sense(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, {"encoder": {"frozen": True, "weights": "w.safetensors"}}))
    refused = [name for name, study in STUDIES.items() if study.refusal(plan)]
    assert refused == ["pretraining", "embedding", "unknown-labels"]
