"""`marcir evaluate`, as a person types it and as a stage."""

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

import marcir
from marcir.cli import main
from marcir.data.labelled_embeddings import LabelledEmbeddings, read_labelled
from marcir.errors import DataError
from marcir.labels import LabelVocabulary
from marcir.metrics import Scores
from marcir.metrics.retrieval_metrics import METRICS
from marcir.training.evaluation import evaluate_embeddings
from marcir.training.evaluation_figures import draw_evaluation, draw_hits
from marcir.types import Embeddings
from test_cli import refusal

# Ids as people have them; of two letters with one look the second is a letter and an accent.
IDS = ("a/1.png", "two words", "图像", "5$ or 6$", "\u00e9", "e\u0301", "a,b", "x|y", "9", "last")
LABELS = ("road;tree", "road", "tree", "road;tree;car", "", "car", "car;road", "tree", "road;tree", "car")
FIGURES = ["cosine-by-overlap.png", "labels.png", "overlap-by-rank.png", "precision-by-threshold.png"]


def vectors(images: int = len(IDS), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(images, 4)).astype(np.float32)


def write_labels(path: Path, ids: Any = IDS, labels: Any = LABELS) -> Path:
    lines = [f'"{image}",{cell}' for image, cell in zip(ids, labels, strict=True)]
    path.write_text("\n".join(["image,labels", *lines]) + "\n", "utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The options that name vectors and labels."""
    Embeddings(IDS, vectors()).save(tmp_path / "lite.npz")
    table = write_labels(tmp_path / "labels.csv")
    return ["evaluate", "--embeddings", str(tmp_path / "lite.npz"), "--labels", str(table)]


@pytest.fixture
def gallery(tmp_path: Path) -> list[str]:
    """The options that name a gallery with a label of its own, in another order of columns."""
    Embeddings(("g0", "g1", "g2"), vectors(3, 1)).save(tmp_path / "gallery.npz")
    text = "id,tree,boat,road\ng0,1,0,1\ng1,0,1,0\ng2,0,0,1\n"
    (tmp_path / "gallery.csv").write_text(text)
    return [
        *("--gallery-embeddings", str(tmp_path / "gallery.npz")),
        *("--gallery-labels", str(tmp_path / "gallery.csv")),
    ]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """An image file for every id of queries and gallery, with and without folders."""
    folder = tmp_path / "images"
    for place, image in enumerate((*IDS, "deep/below/g0", "deep/g1", "g2.jpg")):
        path = folder / (image if "." in image else f"{image}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (12, 8), (20 * place, 90, 60)).save(path)
    return folder


def table_of(text: str) -> dict[str, list[str]]:
    """The rows of the printed table, by their first cell."""
    rows = {}
    for line in text.splitlines()[1:]:
        cells = line.split()
        if len(cells) < 8:
            break
        rows[" ".join(cells[:-7])] = cells[-7:]
    return rows


def is_png(path: Path) -> bool:
    with Image.open(path) as picture:
        return picture.format == "PNG" and min(picture.size) > 200


def save_blank(figure: Figure, path: Path, dpi: int, **options: object) -> None:
    """Save a figure at its size, but without its content, which takes long to render."""
    width, height = (int(inches * dpi) for inches in figure.get_size_inches())
    Image.new("L", (width, height)).save(path, "PNG")


def size_of(path: Path) -> tuple[int, int]:
    with Image.open(path) as picture:
        return picture.size


# ---- The table -----------------------------------------------------------------------------------


def test_the_table_shows_chance_oracle_the_model_and_what_was_left_out(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(files) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.splitlines()[0].split() == list(METRICS)
    rows = table_of(printed.out)
    assert list(rows) == ["chance", "oracle", "lite", "95 % from", "to", "left out"]
    scores = marcir.retrieval_scores(vectors(), labels_of_all())
    assert rows["lite"] == [f"{100 * value:.1f}" for value in scores.values()]
    assert rows["oracle"][:6] == ["100.0"] * 6
    assert rows["left out"] == [str(number) for number in scores.left_out.values()]
    assert "10 queries, 9 gallery images each, percent." in printed.out
    assert f"(tail): {100 * scores.tail:.1f}." in printed.out


def labels_of_all() -> torch.Tensor:
    return LabelVocabulary(["car", "road", "tree"]).encode(filter(None, row.split(";")) for row in LABELS)


def test_the_interval_holds_the_value(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main([*files, "--name", "a name of words"])
    rows = table_of(capsys.readouterr().out)
    for low, value, high in zip(rows["95 % from"], rows["a name of words"], rows["to"], strict=True):
        assert float(low) <= float(value) <= float(high)


def test_the_order_of_the_vectors_does_not_matter(tmp_path: Path, files: list[str]) -> None:
    order = np.random.default_rng(5).permutation(len(IDS))
    Embeddings(tuple(IDS[place] for place in order), vectors()[order]).save(tmp_path / "other.npz")
    one = evaluate_embeddings("one", read_labelled(files[2], files[4]))
    other = evaluate_embeddings("one", read_labelled(tmp_path / "other.npz", files[4]))
    assert one.judged_by == other.judged_by
    assert dict(one.model) == pytest.approx(dict(other.model), abs=1e-9)


def test_vectors_are_read_from_parquet_too(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(files)
    wanted = capsys.readouterr().out
    Embeddings(IDS, vectors()).save(tmp_path / "lite.parquet")
    assert main([*files[:2], str(tmp_path / "lite.parquet"), *files[3:]]) == 0
    assert capsys.readouterr().out == wanted


def test_labels_of_other_images_do_not_matter(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(files)
    wanted = capsys.readouterr().out
    write_labels(tmp_path / "labels.csv", ("zzz", *IDS), ("road", *LABELS))
    main(files)
    assert capsys.readouterr().out == wanted


def test_images_without_labels_are_left_out_as_queries(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(files)
    assert table_of(capsys.readouterr().out)["left out"][0] == "1"


@pytest.mark.parametrize(
    ("option", "value", "changed"),
    [("--ideal", "retrieved", {1, 5}), ("--wap", "threshold", {6}), ("--ap", "trapezoid", {2, 3, 4})],
)
def test_variants_change_their_columns_and_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, changed: set[int]
) -> None:
    images = 130  # more than the 100 that graded columns look at
    rows = np.random.default_rng(2).integers(0, 2, (images, 4))
    cells = [";".join(name for name, has in zip("abcd", row, strict=True) if has) for row in rows]
    ids = [str(number) for number in range(images)]
    Embeddings(tuple(ids), vectors(images)).save(tmp_path / "e.npz")
    table = write_labels(tmp_path / "l.csv", ids, cells)
    command = ["evaluate", "--embeddings", str(tmp_path / "e.npz"), "--labels", str(table)]
    main(command)
    plain = table_of(capsys.readouterr().out)["e"]
    assert main([*command, option, value]) == 0
    printed = capsys.readouterr().out
    varied = table_of(printed)["e"]
    assert {column for column in range(7) if plain[column] != varied[column]} == changed
    assert f"Variants: {option.strip('-')} = {value}. Not comparable" in printed


# ---- A gallery -----------------------------------------------------------------------------------


def test_a_gallery_may_have_other_labels_in_another_order(
    files: list[str], gallery: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*files, *gallery]) == 0
    printed = capsys.readouterr().out
    names = LabelVocabulary(["boat", "car", "road", "tree"])
    scores = marcir.retrieval_scores(
        vectors(),
        names.encode(filter(None, row.split(";")) for row in LABELS),
        gallery_embeddings=vectors(3, 1),
        gallery_labels=names.encode([["tree", "road"], ["boat"], ["road"]]),
    )
    assert table_of(printed)["lite"] == [f"{100 * value:.1f}" for value in scores.values()]
    assert "10 queries, 3 gallery images each" in printed


def test_a_gallery_of_one_image_is_scored(
    tmp_path: Path, files: list[str], gallery: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Embeddings(("g0",), vectors(1)).save(tmp_path / "gallery.npz")
    out = tmp_path / "out"
    more = ["--json", str(out / "s.json"), "--markdown", str(out / "s.md"), "--figures", str(out)]
    assert main([*files, *gallery, *more]) == 0
    printed = capsys.readouterr().out
    assert "1 gallery images each" in printed
    assert table_of(printed)["lite"] == table_of(printed)["chance"]  # there is one order alone
    assert sorted(path.name for path in out.glob("*.png")) == FIGURES


def test_a_gallery_with_none_of_the_labels_is_refused_with_both_spellings(
    tmp_path: Path, files: list[str], gallery: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write_labels(tmp_path / "gallery.csv", ("g0", "g1", "g2"), ("Road", "Tree", ""))
    line = refusal(capsys, *files, *gallery)
    assert line.startswith(
        "marcir: no gallery image shares a label with any query: queries have 'car', 'road'"
    )
    assert "the gallery has 'Road', 'Tree'. Spell labels alike" in line


# ---- Refusals ------------------------------------------------------------------------------------


def test_an_id_without_labels_is_refused_with_its_name(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write_labels(tmp_path / "labels.csv", IDS[:-1], LABELS[:-1])
    line = refusal(capsys, *files)
    assert "labels.csv: no labels for the id 'last' of " in line
    assert "Ids must be those of the table's first column." in line


def test_an_id_nearly_in_the_table_is_refused_with_the_nearest(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write_labels(tmp_path / "labels.csv", ("a/1.jpg", *IDS[1:]))
    assert refusal(capsys, *files).endswith("Did you mean 'a/1.jpg'?")


def test_a_double_id_is_refused_with_its_name(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "lite.npz", ids=[*IDS[:-1], "5$ or 6$"], vectors=vectors())
    assert "lite.npz: duplicate id '5$ or 6$'. Keep one." in refusal(capsys, *files)


def test_a_double_row_of_the_label_table_is_refused_with_its_lines(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write_labels(tmp_path / "labels.csv", (*IDS, "9"), (*LABELS, "car"))
    assert "labels.csv line 12: duplicate image '9', also in line 10." in refusal(capsys, *files)


@pytest.mark.parametrize(
    ("value", "text"), [(math.nan, "not finite"), (math.inf, "not finite"), (0, "zeros")]
)
def test_a_vector_without_a_direction_is_refused_with_its_id(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str], value: float, text: str
) -> None:
    broken = vectors()
    broken[2] = value
    np.savez(tmp_path / "lite.npz", ids=IDS, vectors=broken)
    line = refusal(capsys, *files)
    assert f"{tmp_path / 'lite.npz'}: the vector of '图像' " in line
    assert text in line


def test_vectors_of_another_length_in_the_gallery_are_refused(
    tmp_path: Path, files: list[str], gallery: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Embeddings(("g0", "g1"), np.ones((2, 7), np.float32)).save(tmp_path / "gallery.npz")
    assert "embeddings have 4 values, those of the gallery 7" in refusal(capsys, *files, *gallery)


@pytest.mark.parametrize("labels", [[""] * 10, list("abcdefghij")])
def test_images_without_a_label_in_common_are_refused(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str], labels: list[str]
) -> None:
    write_labels(tmp_path / "labels.csv", IDS, labels)
    assert "no two images share a label" in refusal(capsys, *files)


def test_a_single_image_is_refused(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Embeddings(IDS[:1], vectors(1)).save(tmp_path / "lite.npz")
    assert "A query needs at least one other image" in refusal(capsys, *files)


REFUSED = {
    "nothing": ([], "needs either --embeddings and --labels"),
    "no labels": (["--embeddings", "e.npz"], "--embeddings needs --labels"),
    "half a gallery": (
        ["--gallery-labels", "g.csv"],
        "--gallery-embeddings and --gallery-labels go together",
    ),
    "images without a folder": (["--images", "."], "need --figures"),
    "a query without a folder": (["--query", "9"], "need --figures"),
    "a query without images": (["--figures", "f", "--query", "9"], "--query needs --images"),
    "an unknown ideal": (["--ideal", "retreived"], "ideal = 'retreived': unknown. Did you mean 'retrieved'?"),
    "an unknown wap": (["--wap", "all"], "wap = 'all': unknown."),
    "an unknown ap": (["--ap", "trapez"], "ap = 'trapez': unknown. Did you mean 'trapezoid'?"),
    "a negative seed": (["--seed", "-1"], "seed = -1: must be a whole number"),
    "a seed too large": (["--seed", str(2**63)], "must be a whole number"),
    "an unknown option": (["--qeury", "9"], "Did you mean '--query'?"),
}


@pytest.mark.parametrize(("more", "text"), REFUSED.values(), ids=REFUSED)
def test_options_that_do_not_fit_are_refused(
    files: list[str], capsys: pytest.CaptureFixture[str], more: list[str], text: str
) -> None:
    given = ["evaluate", *more] if more[:1] in ([], ["--embeddings"]) else [*files, *more]
    assert text in refusal(capsys, *given)


@pytest.mark.parametrize("name", ["chance", "Oracle", "untrained"])
def test_a_model_with_the_name_of_another_row_hides_none(files: list[str], name: str) -> None:
    queries = read_labelled(files[2], files[4])
    done = evaluate_embeddings(name, queries, untrained=torch.from_numpy(queries.embeddings.vectors))
    assert [row[0] for row in done.rows()][1:5] == ["chance", "oracle", "untrained", f"{name} (model)"]


def test_without_any_label_a_stage_scores_and_draws_what_there_is(tmp_path: Path) -> None:
    nothing = LabelVocabulary([])
    images = LabelledEmbeddings(Embeddings(IDS, vectors()), nothing.encode([[]] * len(IDS)), nothing)
    done = evaluate_embeddings("lite", images)
    assert table_of(str(done))["lite"] == ["-"] * 7
    drawn = [path.name for path in draw_evaluation(done, tmp_path)]
    assert sorted(drawn) == ["cosine-by-overlap.png", "precision-by-threshold.png"]
    done.save_json(tmp_path / "s.json")


@pytest.mark.parametrize("option", ["--json", "--markdown", "--figures"])
def test_a_place_that_cannot_be_written_is_refused(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str], option: str
) -> None:
    (tmp_path / "file").write_text("")
    assert refusal(capsys, *files, option, str(tmp_path / "file/below")).startswith("marcir: ")


@pytest.mark.parametrize("option", ["--json", "--markdown"])
def test_an_empty_place_is_refused_and_not_passed_over(
    files: list[str], capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert refusal(capsys, *files, option, "").startswith("marcir: ")


# ---- What is written -----------------------------------------------------------------------------


def test_json_holds_the_values_to_the_last_digit(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new/scores.json"
    assert main([*files, "--json", str(out), "--ap", "trapezoid"]) == 0
    content = json.loads(out.read_text("utf-8"), parse_constant=pytest.fail)
    scores = marcir.retrieval_scores(vectors(), labels_of_all(), ids=IDS, variants={"ap": "trapezoid"})
    loaded = Scores.from_json(content["model"], "scores.json")
    assert loaded.ids == IDS
    assert loaded.variants == {"ap": "trapezoid"}
    assert loaded.left_out == scores.left_out
    assert loaded.tail == scores.tail
    for column in METRICS:
        np.testing.assert_array_equal(loaded.per_query[column], scores.per_query[column], column)
        assert content["model"]["scores"][column] == scores[column]
    assert set(content["references"]) == {"chance", "oracle"}
    assert content["name"] == "lite"
    assert loaded.as_json() == content["model"]
    assert capsys.readouterr().err == ""


def test_a_column_without_any_value_is_null_in_json_and_a_dash_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Embeddings(("a", "b"), np.eye(2, dtype=np.float32)).save(tmp_path / "e.npz")
    table = write_labels(tmp_path / "l.csv", ("a", "b"), ("x;y", "x"))  # J = 1/2
    out = tmp_path / "out"
    command = ["evaluate", "--embeddings", str(tmp_path / "e.npz"), "--labels", str(table)]
    command += ["--json", str(out / "e.json"), "--markdown", str(out / "e.md"), "--figures", str(out)]
    assert main(command) == 0
    rows = table_of(capsys.readouterr().out)
    assert [rows[name][4] for name in ("chance", "oracle", "e", "95 % from", "to", "left out")] == [
        *"-----",
        "2",
    ]
    content = json.loads((out / "e.json").read_text(), parse_constant=pytest.fail)
    assert content["model"]["scores"]["mAP@J0.8"] is None
    assert content["intervals"]["mAP@J0.8"] == {"low": None, "high": None}
    assert content["references"]["chance"]["standard_error"]["mAP@J0.8"] is None
    loaded = Scores.from_json(content["model"], "e.json")
    assert math.isnan(loaded["mAP@J0.8"])
    assert sorted(path.name for path in out.glob("*.png")) == FIGURES


def test_markdown_holds_the_table_and_every_label_the_rarest_last(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*files, "--name", "a|b", "--markdown", str(tmp_path / "t.md")]) == 0
    text = (tmp_path / "t.md").read_text("utf-8")
    assert text.startswith("# a|b\n\n|  | mAP(sim)@5000 |")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows[:8]} == {9}
    assert [line.split(" | ")[0] for line in rows[-3:]] == ["| tree", "| road", "| car"]
    assert capsys.readouterr().out.count("a|b") == 1


def test_above_five_thousand_queries_chance_is_named_a_sample(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marcir.metrics.references.MANY_QUERIES", 5)
    monkeypatch.setattr("marcir.metrics.references.SAMPLED", 4)
    text = str(evaluate_embeddings("lite", read_labelled(files[2], files[4])))
    assert "chance is from 4 sampled queries: standard error of at most " in text


def test_the_same_labels_in_another_form_are_judged_alike(tmp_path: Path, files: list[str]) -> None:
    lines = ["id,tree,unused,car,road"]
    for image, row in zip(IDS, LABELS, strict=True):
        has = [str(int(name in row.split(";"))) for name in ("tree", "unused", "car", "road")]
        lines.append(",".join([f'"{image}"', *has]))
    (tmp_path / "matrix.csv").write_text("\n".join(lines), "utf-8")
    one = evaluate_embeddings("one", read_labelled(files[2], files[4]))
    assert (
        evaluate_embeddings("two", read_labelled(files[2], tmp_path / "matrix.csv")).judged_by
        == one.judged_by
    )
    write_labels(tmp_path / "labels.csv", IDS, ("road", *LABELS[1:]))
    assert evaluate_embeddings("two", read_labelled(files[2], files[4])).judged_by != one.judged_by


@pytest.mark.parametrize("name", ["图像检索", "_$x$" + 80 * "a", "  two\n lines "])
def test_any_name_is_drawn_and_written(tmp_path: Path, files: list[str], name: str) -> None:
    done = evaluate_embeddings(name, read_labelled(files[2], files[4]))
    assert "\n" not in done.name
    assert (
        len({len(line.encode("gb18030")) for line in str(done).splitlines()[:7]}) == 1
    )  # wide ones count twice
    assert sorted(path.name for path in draw_evaluation(done, tmp_path)) == FIGURES
    done.save_markdown(tmp_path / "t.md")


# ---- Pictures ------------------------------------------------------------------------------------


def test_figures_are_drawn_and_nothing_else(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*files, "--figures", str(tmp_path / "f")]) == 0
    assert capsys.readouterr().err == ""
    assert sorted(path.name for path in (tmp_path / "f").iterdir()) == FIGURES
    assert all(map(is_png, (tmp_path / "f").iterdir()))


def test_what_chosen_queries_find_is_drawn(
    tmp_path: Path,
    files: list[str],
    images: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "f"
    with monkeypatch.context() as patch:
        patch.setattr("matplotlib.figure.Figure.savefig", save_blank)
        draw_hits(read_labelled(files[2], files[4]), None, images, out / "hits.png")
    at_random = size_of(out / "hits.png")
    drawn = ["--figures", str(out), "--images", str(images), "--query", "图像", "--query", "5$ or 6$"]
    assert main([*files, *drawn]) == 0
    chosen = size_of(out / "hits.png")
    assert capsys.readouterr().err == ""
    assert at_random[0] == chosen[0]
    assert at_random[1] > 2 * chosen[1]  # five rows and two


def test_hits_of_a_gallery_with_other_labels_are_judged_by_name(
    tmp_path: Path, files: list[str], gallery: list[str], images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(
        "marcir.training.evaluation_figures.draw_retrieval_sheet", lambda rows, out: drawn.extend(rows)
    )
    queries, found = read_labelled(files[2], files[4]), read_labelled(gallery[1], gallery[3])
    draw_hits(queries, found, images, tmp_path / "hits.png", chosen=["a/1.png"])
    assert drawn[0].labels == ("road", "tree")
    judged = {hit.title: (hit.shared, hit.overlap) for hit in drawn[0].hits}
    assert judged == {"g0": (("road", "tree"), 1.0), "g1": ((), 0.0), "g2": (("road",), 0.5)}
    similarities = [hit.similarity for hit in drawn[0].hits]
    assert similarities == sorted(similarities, reverse=True)


def test_a_query_is_no_hit_of_its_own(
    tmp_path: Path, files: list[str], images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(
        "marcir.training.evaluation_figures.draw_retrieval_sheet", lambda rows, out: drawn.extend(rows)
    )
    draw_hits(read_labelled(files[2], files[4]), None, images, tmp_path / "hits.png", rows=20, hits=20)
    assert sorted(row.title for row in drawn) == sorted(IDS)
    for row in drawn:
        assert sorted(hit.title for hit in row.hits) == sorted(set(IDS) - {row.title})


def test_an_unknown_query_is_refused_before_anything_is_written(
    tmp_path: Path, files: list[str], images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "f"
    more = ["--figures", str(out), "--images", str(images), "--json", str(out / "s.json"), "--query", "lats"]
    assert "--query 'lats' is not an id of the embeddings. Did you mean 'last'?" in refusal(
        capsys, *files, *more
    )
    assert not out.exists()


def test_a_query_without_a_file_is_refused_with_its_name(
    tmp_path: Path, files: list[str], images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (images / "two words.png").unlink()
    more = ["--figures", str(tmp_path / "f"), "--images", str(images)]
    assert "no image for the id 'two words'" in refusal(capsys, *files, *more, "--query", "two words")
    assert "not a folder" in refusal(capsys, *files, *more[:3], str(images / "none"))
    assert "--images s3://b/tiles: must be on a disk." in refusal(capsys, *files, *more[:3], "s3://b/tiles")


def test_of_two_files_with_the_name_of_an_id_none_is_taken(
    tmp_path: Path, files: list[str], images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("b", "c"):
        (images / folder).mkdir()
        (images / folder / "last.png").write_bytes((images / "9.png").read_bytes())
    (images / "last.png").unlink()
    more = ["--figures", str(tmp_path / "f"), "--images", str(images), "--query", "last"]
    assert f"the id 'last' may be {images}/b/last.png or {images}/c/last.png." in refusal(
        capsys, *files, *more
    )


@pytest.mark.parametrize("image", ["../secret", "/etc/passwd", "..", ""])
def test_nothing_outside_of_the_folder_of_images_is_read(tmp_path: Path, images: Path, image: str) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")
    vocabulary = LabelVocabulary(["x"])
    queries = LabelledEmbeddings(
        Embeddings((image, "9"), vectors(2)), vocabulary.encode([["x"]] * 2), vocabulary
    )
    with pytest.raises(DataError, match="no image for the id"):
        draw_hits(queries, None, images, tmp_path / "hits.png", chosen=[image])


# ---- As a program --------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_help_comes_at_once_and_without_torch(command: str) -> None:
    code = (
        "import sys; from marcir.cli import main\n"
        f"try: main(['{command}', '--help'])\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    for _ in range(3):  # the machine may be busy at first
        begin = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        took = time.perf_counter() - begin
        if took < 0.5:
            break
    assert done.stdout.startswith(f"usage: marcir {command}")
    assert not {"torch", "numpy", "matplotlib", "pyarrow"} & set(done.stderr.split())
    assert took < 0.5
