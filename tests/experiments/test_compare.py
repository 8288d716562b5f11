"""`marcir compare`, as a person types it and as a stage."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import marcir
from marcir.cli import main
from marcir.data.labelled_embeddings import LabelledEmbeddings
from marcir.errors import DataError
from marcir.experiments.compare import compare
from marcir.labels import LabelVocabulary
from marcir.metrics.comparison import compare_scores
from marcir.metrics.retrieval_metrics import METRICS
from marcir.training.evaluation import evaluate_embeddings
from marcir.types import Embeddings
from test_cli import refusal

IMAGES = 40
NAMES = LabelVocabulary(["road", "tree", "car", "sea"])
LABELS = torch.rand(IMAGES, 4, generator=torch.Generator().manual_seed(0)) < 0.5
IDS = tuple(f"image {number}" for number in range(IMAGES))


def labelled(seed: int, labels: torch.Tensor = LABELS, ids: tuple[str, ...] = IDS) -> LabelledEmbeddings:
    """Vectors at random for seeds from 1 up, and the labels themselves with some noise for 0."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(len(ids), 4)) + (0 if seed else 3 * LABELS[: len(ids)].numpy())
    return LabelledEmbeddings(Embeddings(ids, vectors.astype(np.float32)), labels, NAMES)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The JSON files of a good model and of a random one; not to be changed."""
    folder = tmp_path_factory.mktemp("evaluated")
    evaluate_embeddings("good", labelled(0)).save_json(folder / "a.json")
    evaluate_embeddings("random", labelled(1)).save_json(folder / "b.json")
    return folder


@pytest.fixture
def files(evaluated: Path, tmp_path: Path) -> tuple[str, str]:
    """A good model and a random one; copies that may be changed."""
    shutil.copytree(evaluated, tmp_path, dirs_exist_ok=True)
    return str(tmp_path / "a.json"), str(tmp_path / "b.json")


def test_the_table_shows_both_the_difference_its_interval_and_p(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *files]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    header, *rows = printed.out.splitlines()[:8]
    assert header.split() == ["good", "random", "difference", "95", "%", "from", "to", "p", "queries"]
    assert [row.split()[0] for row in rows] == list(METRICS)
    for row in rows:
        good, random, difference, low, high, p = map(float, row.split()[1:7])
        assert good > random
        assert difference == pytest.approx(random - good, abs=0.15)
        assert low <= difference <= high < 0
        assert p < 0.01


def test_a_model_does_not_differ_from_itself(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", files[0], files[0]]) == 0
    for row in capsys.readouterr().out.splitlines()[1:8]:
        assert row.split()[3:7] == ["+0.0", "+0.0", "+0.0", "1.0000"]


def test_files_are_compared_as_their_scores_are(files: tuple[str, str]) -> None:
    scores = [marcir.retrieval_scores(of.embeddings.vectors, LABELS, ids=IDS) for of in map(labelled, (0, 1))]
    assert list(compare(*files).columns) == compare_scores(*scores)


def test_models_of_one_name_are_called_by_their_files(tmp_path: Path, files: tuple[str, str]) -> None:
    evaluate_embeddings("good", labelled(1)).save_json(files[1])
    done = compare(*files)
    assert (done.first, done.second) == files


def test_images_in_another_order_and_other_columns_are_compared(
    tmp_path: Path, files: tuple[str, str]
) -> None:
    order = np.random.default_rng(3).permutation(IMAGES)
    same = labelled(1)
    names = LabelVocabulary(["sea", "unused", "car", "road", "tree"])
    turned = torch.zeros(IMAGES, 5, dtype=torch.bool)
    turned[:, [names.index_of(name) for name in NAMES]] = LABELS
    vectors = Embeddings(tuple(IDS[place] for place in order), same.embeddings.vectors[order])
    evaluate_embeddings("again", LabelledEmbeddings(vectors, turned[order], names)).save_json(
        tmp_path / "c.json"
    )
    done, wanted = compare(files[0], tmp_path / "c.json"), compare(*files)
    for column, other in zip(done.columns, wanted.columns, strict=True):
        assert column.difference == pytest.approx(other.difference, abs=1e-9)
        assert column.p == other.p


def test_json_holds_every_column_and_null_for_what_there_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 1, 0]]).bool()  # J of 1/2 and 1/3
    for name, seed in (("a", 1), ("b", 2)):
        evaluate_embeddings(name, labelled(seed, labels, IDS[:3])).save_json(tmp_path / f"{name}.json")
    out = tmp_path / "new/c.json"
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--json", str(out)]) == 0
    rows = {row.split()[0]: row.split()[1:] for row in capsys.readouterr().out.splitlines()[1:8]}
    assert rows["mAP@J0.8"] == [*"------", "0"]
    content = json.loads(out.read_text("utf-8"), parse_constant=pytest.fail)
    assert (content["first"], content["second"]) == ("a", "b")
    columns = {column.pop("column"): column for column in content["columns"]}
    assert list(columns) == list(METRICS)
    nothing = dict.fromkeys(("first", "second", "difference", "p"))
    assert columns["mAP@J0.8"] == {**nothing, "interval": {"low": None, "high": None}, "queries": 0}
    assert columns["mAP@J0.4"]["queries"] == 3


def test_the_seed_decides_the_resampling(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(*files) == compare(*files, seed=0) != compare(*files, seed=1)
    assert "seed = -1: must be a whole number" in refusal(capsys, "compare", *files, "--seed", "-1")


# ---- Refusals ------------------------------------------------------------------------------------


def other_labels() -> Any:
    labels = LABELS.clone()
    labels[5] = ~labels[5]
    return evaluate_embeddings("other", labelled(1, labels))


OTHERS = {
    "fewer queries": (
        lambda: evaluate_embeddings("other", labelled(1, LABELS[:-1], IDS[:-1])),
        "the query 'image 39' is in the first alone",
    ),
    "other queries": (
        lambda: evaluate_embeddings("other", labelled(1, LABELS, (*IDS[:-1], "new one"))),
        "the query 'image 39' is in the first alone",
    ),
    "another gallery": (
        lambda: evaluate_embeddings("other", labelled(1), labelled(2)),
        "their galleries differ: 39 and 40",
    ),
    "other labels": (other_labels, "their labels or their galleries differ"),
    "other variants": (
        lambda: evaluate_embeddings("other", labelled(1), variants={"wap": "threshold"}),
        "different variants: {} and {'wap': 'threshold'}",
    ),
}


@pytest.mark.parametrize(("other", "text"), OTHERS.values(), ids=OTHERS)
def test_models_that_were_not_judged_alike_are_refused(
    tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str], other: Any, text: str
) -> None:
    other().save_json(tmp_path / "c.json")
    line = refusal(capsys, "compare", files[0], str(tmp_path / "c.json"))
    assert line.startswith(f"marcir: {files[0]} and {tmp_path / 'c.json'} cannot be compared: ")
    assert text in line


def test_galleries_of_one_size_with_other_images_are_refused(tmp_path: Path) -> None:
    galleries = labelled(2), labelled(2, LABELS, tuple(f"other {number}" for number in range(IMAGES)))
    for name, gallery in zip("ab", galleries, strict=True):
        evaluate_embeddings(name, labelled(1), gallery).save_json(tmp_path / f"{name}.json")
    with pytest.raises(DataError, match="their labels or their galleries differ"):
        compare(tmp_path / "a.json", tmp_path / "b.json")


def changed(**parts: Any) -> Any:
    """A change of what `evaluate --json` wrote, below `model`."""

    def change(content: dict[str, Any]) -> Any:
        return {**content, "model": {**content["model"], **parts}}

    return change


def changed_queries(**parts: Any) -> Any:
    return lambda content: changed(queries={**content["model"]["queries"], **parts})(content)


DAMAGE = {
    "a list": lambda content: [content],
    "nothing": lambda content: None,
    "no model": lambda content: {**content, "model": None},
    "a comparison": lambda content: {"first": "a", "second": "b", "columns": []},
    "no queries": changed(queries=None),
    "no columns": changed(queries={"ids": ["a"]}),
    "an endless gallery": changed(gallery=float("inf")),
    "a gallery of words": changed(gallery="many"),
    "variants of words": changed(variants="ab"),
    "labels of words": changed(labels="ab"),
    "errors of words": changed(standard_error="ab"),
    "too few values": changed_queries(**{"wAP@100": [0.5]}),
    "values of words": changed_queries(**{"wAP@100": ["a"] * IMAGES}),
    "values above 1": changed_queries(**{"wAP@100": [50] * IMAGES}),
    "endless values": changed_queries(**{"wAP@100": [float("-inf")] * IMAGES}),
    "double queries": changed_queries(ids=["a"] * IMAGES),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("place", [0, 1])
def test_a_file_of_something_else_is_refused(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], damage: Any, place: int
) -> None:
    content = json.loads(Path(files[place]).read_text())
    Path(files[place]).write_text(json.dumps(damage(content)))
    line = refusal(capsys, "compare", *files)
    assert line.startswith(f"marcir: {files[place]}: not what `marcir evaluate --json` writes")


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"nan"])
def test_a_file_that_is_no_json_is_refused(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], text: bytes
) -> None:
    Path(files[1]).write_bytes(text)
    assert f"{files[1]}: not what `marcir evaluate --json` writes" in refusal(capsys, "compare", *files)


def test_a_missing_file_is_refused_with_how_to_make_it(
    tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(capsys, "compare", files[0], str(tmp_path / "none.json"))
    assert line.endswith("none.json: there is no such file. Make it with: marcir evaluate --json")
    assert "is a directory" in refusal(capsys, "compare", files[0], str(tmp_path)).lower()


@pytest.mark.parametrize("given", [[], ["a.json"], ["a.json", "b.json", "c.json"]])
def test_other_than_two_files_are_refused(capsys: pytest.CaptureFixture[str], given: list[str]) -> None:
    assert refusal(capsys, "compare", *given).startswith("marcir compare: ")
