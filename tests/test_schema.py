"""What is read from files: types, versions, and mistakes in one line."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from marcir.config import Config
from marcir.errors import ConfigError, DataError
from marcir.schema import Field, Number, SchemaError, load, parse, record, save, validate


@record()
class Inner:
    rate: Number = Field(default=1.0, gt=0)
    kind: Literal["random", "label-aware"] = "random"


@record()
class Outer:
    name: str
    inner: Inner = Inner()
    sizes: tuple[int, ...] = ()
    scores: Mapping[str, float] | None = None
    version: Literal[2] = 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "name: missing."),
        ({"name": 5}, "name = 5: must be a text, in quotes."),
        ({"name": "a", "sizes": 5}, "sizes = 5: must be a list."),
        ({"name": "a", "sizes": [1, True]}, "sizes.1 = True: must be a whole number."),
        ({"name": "a", "sizes": [1.0]}, "sizes.0 = 1.0: must be a whole number."),
        ({"name": "a", "scores": {"x": "y"}}, "scores.x = 'y': must be a number."),
        ({"name": "a", "scores": {"x": True}}, "scores.x = True: must be a number."),
        ({"name": "a", "inner": 3}, "inner = 3: must hold settings, such as {name: value}."),
        ({"name": "a", "inner": {"rate": 0}}, "inner.rate = 0: must be above 0."),
        ({"name": "a", "inner": {"rate": float("inf")}}, "inner.rate = inf: must be a finite number."),
        ({"name": "a", "inner": {"rat": 1}}, "unknown setting 'inner.rat'. Did you mean 'inner.rate'?"),
        ({"name": "a", "inner": {"kind": "labels-aware"}}, "unknown. Did you mean 'label-aware'?"),
        ({"nam": "a"}, "unknown setting 'nam'. Did you mean 'name'?"),
        ({"version": 3, "names": []}, "version 3; this marcir reads version 2."),
        ([], "expected an object, found []."),
    ],
)
def test_a_mistake_is_one_line_that_names_the_field(content: object, said: str) -> None:
    with pytest.raises(SchemaError) as error:
        validate(Outer, content)
    assert str(error.value).endswith(said)
    assert "\n" not in str(error.value)


def test_a_whole_number_does_for_a_float_and_so_does_a_text_of_yaml() -> None:
    outer = validate(Outer, {"name": "a", "inner": {"rate": "1e-3"}, "scores": {"x": 1}})
    assert repr((outer.inner.rate, outer.scores)) == "(0.001, {'x': 1.0})"


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff\xfe", "nul"])
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(SchemaError, match="no JSON"):
        parse(Outer, text)


def test_a_record_comes_back_to_the_last_digit(tmp_path: Path) -> None:
    outer = Outer("長", Inner(0.1 + 0.2), (1, 2), {"x": 1 / 3, "y": 5e-324})
    save(tmp_path / "a.json", outer)
    assert load(Outer, tmp_path / "a.json", "an outer") == outer
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_file_without_a_version_is_of_this_one(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"name": "a"}))
    assert load(Outer, tmp_path / "a.json", "an outer") == Outer("a")


def test_the_file_is_named_with_what_it_should_be_and_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with pytest.raises(DataError, match="a.json: there is no such file. Make it.$"):
        load(Outer, file, "an outer", "Make it.")
    file.write_text("3")
    with pytest.raises(DataError, match=r"a.json: not an outer .expected an object, found 3.. Make it.$"):
        load(Outer, file, "an outer", "Make it.")
    with pytest.raises(DataError, match="not an outer .Is a directory"):
        load(Outer, tmp_path, "an outer")


def test_a_record_is_validated_where_it_is_made_and_changed() -> None:
    with pytest.raises(ConfigError, match="^Inner.rate = -1: must be above 0.$"):
        Inner(rate=-1)
    with pytest.raises(ConfigError, match="^Inner.kind = 'x': unknown"):
        replace(Inner(), kind="x")  # type: ignore[arg-type]


def test_the_core_needs_no_pydantic() -> None:
    code = (
        "import sys; sys.modules['pydantic'] = None\n"
        "import marcir, marcir.losses, marcir.labels, marcir.metrics, marcir.cli, marcir.checks\n"
        "from marcir.losses import MARCLoss; marcir.create_loss, marcir.retrieval_scores\n"
        "from marcir.errors import DependencyError\n"
        "try:\n    import marcir.schema\nexcept DependencyError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "pydantic is not installed. Install it with: pip install 'marcir[train]'\n"


def test_settings_from_python_may_be_paths_and_numbers_of_numpy() -> None:
    config = Config.from_dict({"data": {"root": Path("tiles")}, "train": {"epochs": np.int64(3)}})
    assert (config.data.root, config.train.epochs) == ("tiles", 3)


def test_a_setting_that_no_file_could_hold_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match="which no setting has") as caught:
        Config.from_dict({"train": {"epochs": object()}})
    assert "\n" not in str(caught.value)
