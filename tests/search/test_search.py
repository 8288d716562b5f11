"""Searching an indexed archive, on the command line and in Python."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

import marcir
from marcir.cli import main
from marcir.errors import ConfigError, DataError, MissingImageError, StoreError
from marcir.search import Filter
from marcir.search import sheet as search_sheet
from marcir.search.exact import ExactSearch
from marcir.search.index import index
from marcir.search.lance import LanceStore
from marcir.search.queries import SearchableArchive, SearchResult, query_by_examples

FIRST = "images/000000.png"

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="session")
def store(model: Path, scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scenes with labels and some metadata; not to be changed."""
    folder = tmp_path_factory.mktemp("stores")
    (folder / "more.csv").write_text(
        f"path,sensor,west,south,east,north,date\n{FIRST},S2,1,2,3,4,2024-05-31\n"
    )
    index(scenes, folder / "store", model=model, labels=scenes / "labels.csv", metadata=folder / "more.csv")
    return folder / "store"


@pytest.fixture(scope="session")
def unlabelled(model: Path, scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scenes without labels; not to be changed."""
    folder = tmp_path_factory.mktemp("stores") / "unlabelled"
    index(scenes, folder, model=model)
    return folder


@pytest.fixture
def archive(store: Path) -> SearchableArchive:
    """The labelled store, opened."""
    return marcir.open_store(store)


def commonest(archive: SearchableArchive) -> list[str]:
    """Labels, the most common first."""
    counts = archive.store.label_counts()
    return sorted(counts, key=lambda name: (-counts[name], name))


def searched(capsys: pytest.CaptureFixture[str], store: Path, *arguments: object) -> dict[str, Any]:
    """What a search prints as JSON."""
    capsys.readouterr()
    assert main(["search", "--store", str(store), "--json", *map(str, arguments)]) == 0
    printed = capsys.readouterr()
    drawn = [str(arguments[arguments.index("--sheet") + 1])] if "--sheet" in arguments else []
    assert printed.err.splitlines() == [f"{path}: the hits as a picture" for path in drawn]
    found: dict[str, Any] = json.loads(printed.out)
    return found


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that a refused search prints."""
    capsys.readouterr()
    try:
        code = main(["search", *map(str, arguments)])
    except SystemExit as exit_:
        code = int(str(exit_.code))
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err.rstrip("\n")


# ---- By image and by id --------------------------------------------------------------------------


def test_an_image_finds_itself_first(capsys: pytest.CaptureFixture[str], store: Path, scenes: Path) -> None:
    hits = searched(capsys, store, "--image", scenes / FIRST)["hits"]
    assert len(hits) == 10
    assert hits[0]["id"] == FIRST
    assert hits[0]["similarity"] == pytest.approx(1, abs=1e-5)
    similarities = [hit["similarity"] for hit in hits]
    assert similarities == sorted(similarities, reverse=True)


def test_json_has_all_that_is_known_of_a_hit(
    capsys: pytest.CaptureFixture[str], store: Path, scenes: Path, archive: SearchableArchive
) -> None:
    found = searched(capsys, store, "--image", scenes / FIRST, "--k", 2)
    assert list(found) == ["hits", "label_shares", "query_images"]
    first, second = found["hits"]
    assert first == {
        "id": FIRST,
        "similarity": first["similarity"],
        "labels": list(archive.store.get([FIRST])[0].labels),
        "unknown": [],
        "shared": [],
        "agreement": None,
        "path": str(scenes / FIRST),
        "width": 24,
        "height": 24,
        "bbox": [1, 2, 3, 4],
        "date": "2024-05-31",
        "metadata": {"sensor": "S2"},
        "footprint": None,
        "labelled": True,
    }
    assert Path(first["path"]).is_file()
    assert (second["bbox"], second["date"], second["metadata"]) == (None, None, {})


def test_an_id_finds_the_others(capsys: pytest.CaptureFixture[str], store: Path, scenes: Path) -> None:
    by_id = searched(capsys, store, "--id", FIRST, "--k", 5)["hits"]
    by_image = searched(capsys, store, "--image", scenes / FIRST, "--k", 6)["hits"]
    assert [hit["id"] for hit in by_id] == [hit["id"] for hit in by_image[1:]]


def test_more_than_there_are_is_all_there_are(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    assert len(searched(capsys, store, "--id", FIRST, "--k", 10**15)["hits"]) == 39


def test_the_shares_of_labels_stand_under_every_answer(
    capsys: pytest.CaptureFixture[str], store: Path, archive: SearchableArchive
) -> None:
    found = searched(capsys, store, "--id", FIRST, "--k", 8)
    shares = found["label_shares"]
    for name in archive.store.label_counts():
        carry = sum(name in hit["labels"] for hit in found["hits"])
        assert shares.get(name, 0) == carry / 8
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert main(["search", "--store", str(store), "--id", FIRST, "--k", "8"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    name, share = next(iter(shares.items()))
    assert last.startswith(f"labels among the hits: {name} {100 * share:.0f} %")


@pytest.mark.parametrize(
    ("where", "keeps"),
    [
        (["--any", 0, "--any", 1], lambda labels, a, b: a in labels or b in labels),
        (["--all", 0, "--all", 1], lambda labels, a, b: a in labels and b in labels),
        (["--none", 0], lambda labels, a, b: a not in labels),
        (["--any", 0, "--none", 1], lambda labels, a, b: a in labels and b not in labels),
    ],
    ids=["any", "all", "none", "any but not"],
)
def test_filters_keep_what_they_say(
    capsys: pytest.CaptureFixture[str],
    archive: SearchableArchive,
    store: Path,
    where: list[Any],
    keeps: Callable[[list[str], str, str], bool],
) -> None:
    first, second, *_ = commonest(archive)
    options = [(first, second)[each] if isinstance(each, int) else each for each in where]
    hits = searched(capsys, store, "--id", FIRST, "--k", 100, *options)["hits"]
    everything = searched(capsys, store, "--id", FIRST, "--k", 100)["hits"]
    assert hits == [hit for hit in everything if keeps(hit["labels"], first, second)]
    assert 0 < len(hits) < 39


def test_a_least_similarity_cuts_the_hits(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    everything = searched(capsys, store, "--id", FIRST, "--k", 100)["hits"]
    least = everything[4]["similarity"]
    assert searched(capsys, store, "--id", FIRST, "--min-similarity", least)["hits"] == everything[:5]
    expected = {"hits": [], "label_shares": {}, "query_images": [FIRST]}
    assert searched(capsys, store, "--id", FIRST, "--min-similarity", 1) == expected
    assert main(["search", "--store", str(store), "--id", FIRST, "--min-similarity", "1"]) == 0
    assert capsys.readouterr().out == "nothing found\n"


# ---- By several images, and by labels ------------------------------------------------------------


def test_examples_pull_and_counter_examples_push(archive: SearchableArchive, scenes: Path) -> None:
    names = archive.store.ids()
    rows = archive.store.get(names)
    vectors = {row.id: row.vector.astype(np.float64) for row in rows}
    like, unlike = names[:2], names[5:7]
    query = (vectors[like[0]] + vectors[like[1]]) / 2 - 0.5 * (vectors[unlike[0]] + vectors[unlike[1]]) / 2
    query /= np.linalg.norm(query)
    others = [name for name in names if name not in (*like, *unlike)]
    expected = sorted(others, key=lambda name: -float(vectors[name] @ query))
    answer = archive.by_examples(like, unlike, k=10)
    assert [hit.id for hit in answer.hits] == expected[:10]
    assert answer.hits[0].similarity == pytest.approx(float(vectors[expected[0]] @ query), abs=1e-5)


def test_examples_may_be_files_pictures_and_arrays(
    capsys: pytest.CaptureFixture[str], archive: SearchableArchive, store: Path, scenes: Path
) -> None:
    with Image.open(scenes / FIRST) as picture:
        pixels = np.asarray(picture.convert("RGB"))
        answers = [
            archive.by_examples([example], k=5)
            for example in (scenes / FIRST, str(scenes / FIRST), picture.convert("RGB"), pixels)
        ]
    for answer in answers:
        assert [hit.id for hit in answer.hits] == [hit.id for hit in answers[0].hits]
        assert answer.hits[0].id == FIRST
    found = searched(capsys, store, "--like", scenes / FIRST, "--like", "images/000001.png", "--k", 5)["hits"]
    assert "images/000001.png" not in [hit["id"] for hit in found]


def test_an_example_alone_is_a_search_by_id(archive: SearchableArchive) -> None:
    assert archive.by_examples([FIRST]).hits == archive.by_id(FIRST).hits


def test_examples_that_cancel_each_other_are_refused(archive: SearchableArchive) -> None:
    with pytest.raises(StoreError, match="no direction"):
        archive.by_vector(np.zeros(16))
    with pytest.raises(StoreError, match="at least one example"):
        archive.by_examples([], [FIRST])


def test_examples_of_a_query_are_ids_and_vectors_and_never_files(
    archive: SearchableArchive, scenes: Path
) -> None:
    def search(*like: str | np.ndarray) -> SearchResult:
        return archive.search(lambda snapshot: query_by_examples(snapshot, like), k=5)

    row = archive.store.look_up(FIRST)
    vector, labels = row.vector, row.labels
    with pytest.raises(MissingImageError):
        search(str(scenes / FIRST))
    found = search(vector)
    assert found.hits[0].id == FIRST
    mixed = search(FIRST, vector)
    assert [hit.id for hit in mixed.hits] == [hit.id for hit in archive.by_id(FIRST, 5).hits]
    assert (found.query_labels, mixed.query_labels) == ((), labels)


def test_images_that_a_filter_leaves_out_are_left_out_beside_those_of_the_query(
    archive: SearchableArchive,
) -> None:
    first, second, *_ = archive.by_id(FIRST, k=5).hits
    found = archive.by_id(FIRST, k=100, where=Filter(without=(first.id,)))
    assert {FIRST, first.id}.isdisjoint(hit.id for hit in found.hits)
    assert found.hits[0].id == second.id
    assert found.query_images == (FIRST,)
    assert found.total == archive.store.count() - 2


def test_pages_are_parts_of_one_answer(archive: SearchableArchive) -> None:
    ways = {
        "id": lambda k, offset: archive.by_id(FIRST, k, offset=offset),
        "examples": lambda k, offset: archive.by_examples([FIRST], [], k, offset=offset),
        "labels": lambda k, offset: archive.by_labels([commonest(archive)[0]], k, offset=offset),
    }
    for way in ways.values():
        pages = [way(7, offset) for offset in range(0, 42, 7)]
        assert tuple(hit for page in pages for hit in page.hits) == way(100, 0).hits


def test_a_hit_has_what_the_store_knows_of_the_image(archive: SearchableArchive) -> None:
    result = archive.by_examples(["images/000001.png"], k=39)
    assert result.total == len(result.hits) == 39
    (hit,) = [hit for hit in result.hits if hit.id == FIRST]
    (row,) = archive.store.get([FIRST])
    for name in ("id", "labels", "width", "height", "bbox", "date", "metadata"):
        assert getattr(hit, name) == getattr(row, name)
    assert set(hit.shared) == set(hit.labels) & set(result.query_labels)


def test_a_resident_archive_searches_and_describes_one_state(store: Path, tmp_path: Path) -> None:
    copy = LanceStore(shutil.copytree(store, tmp_path / "store"))
    searching = marcir.open_store(copy.uri, resident=True)
    before = searching.by_id(FIRST, 3)
    assert isinstance(searching.store, LanceStore)
    searching.store._check_at = time.monotonic() + 1000
    copy.delete([before.hits[0].id])
    assert searching.by_id(FIRST, 3) == before
    searching.store._check_at = 0.0
    assert before.hits[0].id not in [hit.id for hit in searching.by_id(FIRST, 3).hits]


def test_labels_alone_find_what_their_images_look_like(
    capsys: pytest.CaptureFixture[str], archive: SearchableArchive, store: Path
) -> None:
    name = commonest(archive)[0]
    rows = archive.store.get(archive.store.ids())
    centre = np.mean([row.vector for row in rows if name in row.labels], axis=0)
    expected = sorted(rows, key=lambda row: -float(row.vector @ centre))
    hits = searched(capsys, store, "--by-labels", name)["hits"]
    assert [hit["id"] for hit in hits] == [row.id for row in expected[:10]]


def test_an_unlabelled_archive_is_searched_with_the_labels_of_another(
    capsys: pytest.CaptureFixture[str], archive: SearchableArchive, store: Path, unlabelled: Path
) -> None:
    first, second, *_ = commonest(archive)
    own = searched(capsys, store, "--by-labels", first, "--by-labels", second)["hits"]
    lent = searched(capsys, unlabelled, "--by-labels", first, "--by-labels", second, "--labels-from", store)
    assert [hit["id"] for hit in lent["hits"]] == [hit["id"] for hit in own]
    assert lent["label_shares"] == {}
    line = refusal(capsys, "--store", unlabelled, "--by-labels", first)
    advice = "No image has a label: index with --labels CSV."
    assert line == f"marcir: no image of the store has the label '{first}'. {advice}"


def test_labels_of_an_archive_of_another_model_are_refused(
    capsys: pytest.CaptureFixture[str],
    models: tuple[Path, Path],
    store: Path,
    scenes: Path,
    tmp_path: Path,
    archive: SearchableArchive,
) -> None:
    index(scenes, tmp_path / "other", model=models[1], labels=scenes / "labels.csv")
    name = commonest(archive)[0]
    line = refusal(capsys, "--store", store, "--by-labels", name, "--labels-from", tmp_path / "other")
    assert line.endswith("index both with one.")


# ---- Pictures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["image", "id", "like", "by-labels"])
def test_hits_are_drawn(
    way: str,
    capsys: pytest.CaptureFixture[str],
    archive: SearchableArchive,
    store: Path,
    scenes: Path,
    tmp_path: Path,
) -> None:
    value = {"image": scenes / FIRST, "id": FIRST, "like": FIRST, "by-labels": commonest(archive)[0]}[way]
    searched(capsys, store, f"--{way}", value, "--k", 4, "--sheet", tmp_path / "new" / "hits.png")
    with Image.open(tmp_path / "new" / "hits.png") as picture:
        assert picture.format == "PNG"
        assert picture.width > picture.height > 200


def test_the_picture_is_named_under_the_hits(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "hits.PNG"
    assert main(["search", "--store", str(store), "--id", FIRST, "--sheet", str(picture)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{picture}: the hits as a picture"
    assert picture.exists()


@pytest.mark.parametrize("name", ["hits.xyz", "hits", "hits.jpg", ""])
def test_a_picture_of_another_format_is_refused_before_anything_is_searched(
    capsys: pytest.CaptureFixture[str], archive: SearchableArchive, tmp_path: Path, name: str
) -> None:
    path = str(tmp_path / name) if name else ""
    line = refusal(capsys, "--store", tmp_path / "nowhere", "--id", FIRST, "--sheet", path)
    assert line.startswith(f"marcir search: --sheet {path}: use a name that ends in .png, .pdf or .svg. ")
    from marcir.search.sheet import draw_result

    with pytest.raises(ConfigError, match="Use a name that ends in"):
        draw_result(archive, archive.by_id(FIRST), path, [("QUERY", FIRST)])
    assert list(tmp_path.iterdir()) == []


def test_many_hits_are_drawn_in_rows(capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path) -> None:
    sizes = {}
    for k in (2, 7, 8, 24):
        searched(capsys, store, "--id", FIRST, "--k", k, "--sheet", tmp_path / "hits.png")
        with Image.open(tmp_path / "hits.png") as picture:
            sizes[k] = picture.size
    assert sizes[2][0] < sizes[7][0] == sizes[8][0] == sizes[24][0] < 1900
    assert sizes[7][1] < sizes[8][1] < sizes[24][1] < 1400


@pytest.mark.parametrize(("ending", "start"), [("pdf", b"%PDF-"), ("SVG", b"<?xml")])
def test_a_picture_has_the_format_of_its_name(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path, ending: str, start: bytes
) -> None:
    path = tmp_path / f"hits.{ending}"
    searched(capsys, store, "--id", FIRST, "--k", 2, "--sheet", path)
    content = path.read_bytes()
    assert content.startswith(start)
    searched(capsys, store, "--id", FIRST, "--k", 2, "--sheet", path)
    assert path.read_bytes() == content  # no date, no random names


def test_the_examples_are_drawn(
    capsys: pytest.CaptureFixture[str],
    archive: SearchableArchive,
    store: Path,
    scenes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr("marcir.search.sheet.draw_retrieval_sheet", lambda rows, *_: drawn.extend(rows))
    examples = ["--like", FIRST, "--like", scenes / "images/000001.png", "--unlike", "images/000002.png"]
    searched(capsys, store, *examples, "--sheet", tmp_path / "hits.png")
    (row,) = drawn
    cells = [row, *row.examples]
    assert [(cell.heading, cell.title) for cell in cells] == [
        ("LIKE", FIRST),
        ("LIKE", "000001.png"),
        ("UNLIKE", "images/000002.png"),
    ]
    assert row.labels == archive.store.look_up(FIRST).labels
    assert row.examples[0].labels is None, "those of a file are not known"
    assert all(cell.image.shape == (24, 24, 3) and cell.image.std() > 0 for cell in cells)


def test_examples_that_a_sheet_has_no_space_for_are_counted(
    capsys: pytest.CaptureFixture[str],
    archive: SearchableArchive,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr("marcir.search.sheet.draw_retrieval_sheet", lambda rows, *_: drawn.extend(rows))
    for count, part in ((12, ""), (14, ", with the first 12 of 14 examples")):
        examples = [word for image in archive.store.ids()[:count] for word in ("--like", image)]
        picture = str(tmp_path / "hits.png")
        assert main(["search", "--store", str(store), *examples, "--sheet", picture]) == 0
        assert f"{picture}: the hits as a picture{part}\n" in "".join(capsys.readouterr())
        assert len(drawn.pop().examples) == 11


def test_nothing_found_cannot_be_drawn(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path
) -> None:
    nothing = ("--any", "tree", "--none", "tree")
    line = refusal(capsys, "--store", store, "--id", FIRST, *nothing, "--sheet", tmp_path / "x.png")
    assert line == "marcir: nothing was found: there is no picture to draw."
    assert not (tmp_path / "x.png").exists()


def test_a_picture_that_cannot_be_written_is_refused(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    line = refusal(capsys, "--store", store, "--id", FIRST, "--sheet", tmp_path / "file" / "x.png")
    assert "cannot be written" in line


@pytest.mark.parametrize("most", [12, pytest.param(search_sheet.MAX_HITS, marks=pytest.mark.slow)])
def test_a_picture_shows_as_many_hits_as_it_has_room_for(
    archive: SearchableArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(search_sheet, "MAX_HITS", most)
    answer = archive.by_id(FIRST, k=30)
    many = SearchResult(answer.hits * 12, answer.root)
    search_sheet.draw_result(archive, many, tmp_path / "many.png")
    with Image.open(tmp_path / "many.png") as picture:
        assert picture.width < 120 * 2 * (most + 2)


# ---- Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "needs exactly one of --image, --id, --at, --like and --by-labels"),
        (
            ["--image", "x.png", "--id", "x"],
            "needs exactly one of --image, --id, --at, --like and --by-labels",
        ),
        (["--unlike", "x"], "needs exactly one of"),
        (["--id", "x", "--unlike", "y"], "--unlike goes with --like"),
        (["--id", "x", "--labels-from", "y"], "--labels-from goes with --by-labels"),
        (["--image", "nowhere.png"], "nowhere.png: there is no such file"),
        (["--id", "images/00000.png"], "no image 'images/00000.png' in the store. Did you mean 'images/0000"),
        (["--id", "000007"], "no image '000007' in the store. Did you mean 'images/000007.png'?"),
        (["--like", "nowhere.png"], "'nowhere.png' is no file, and no image 'nowhere.png' in the store."),
        (["--like", FIRST, "--unlike", "x" * 5000], "name too long"),
        (["--id", FIRST, "--any", "tre"], "no image of the store has the label 'tre'. Did you mean 'tree'?"),
        (["--by-labels", "tre"], "no image of the store has the label 'tre'. Did you mean 'tree'?"),
        (["--id", FIRST, "--k", "0"], "k = 0: must be a whole number of 1 or more"),
        (["--id", FIRST, "--k", "-1"], "k = -1: must be"),
        (["--id", FIRST, "--k", "ten"], "argument --k"),
        (["--id", FIRST, "--min-similarity", "nan"], "min_similarity = nan: must be a finite number"),
        (["--id", FIRST, "--min-similarity", "5"], "min_similarity = 5.0: must lie between -1 and 1"),
        (["--id", FIRST, "--min-similarity", "-1.1"], "min_similarity = -1.1: must lie between -1 and 1"),
        (["--id", FIRST, "--anyy", "tree"], "Did you mean '--any'?"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], store: Path, arguments: list[str], text: str
) -> None:
    assert text.lower() in refusal(capsys, "--store", store, *arguments).lower()


def test_a_store_that_is_missing_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "there is no such store" in refusal(capsys, "--store", tmp_path / "none", "--id", "x")
    (tmp_path / "half" / "model.lance").mkdir(parents=True)
    assert "not a store" in refusal(capsys, "--store", tmp_path / "half", "--id", "x")
    assert main(["info", str(tmp_path / "half")]) == 2
    assert "not a store of marcir" in capsys.readouterr().err


def test_images_that_have_no_vector_are_refused(
    capsys: pytest.CaptureFixture[str], store: Path, archive: SearchableArchive, tmp_path: Path
) -> None:
    tifffile.imwrite(tmp_path / "nan.tif", np.full((8, 8, 3), np.nan, np.float32), photometric="rgb")
    tifffile.imwrite(tmp_path / "bands.tif", np.zeros((8, 8, 5), np.uint8), photometric="minisblack")
    (tmp_path / "text.png").write_text("no image")
    assert "no valid pixel" in refusal(capsys, "--store", store, "--image", tmp_path / "nan.tif")
    assert "5 bands" in refusal(capsys, "--store", store, "--image", tmp_path / "bands.tif")
    assert "not a readable JPEG" in refusal(capsys, "--store", store, "--image", tmp_path / "text.png")
    with pytest.raises(DataError):
        archive.by_image(np.full((8, 8, 3), np.nan, np.float32))
    for k in (0, 1.5):
        with pytest.raises(ConfigError, match="k = "):
            archive.by_id(FIRST, k=k)  # type: ignore[arg-type]


# ---- The model in the store ----------------------------------------------------------------------


def test_a_search_needs_nothing_but_the_store(
    model: Path, images: Path, scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(model, tmp_path / "model"))
    index(images, tmp_path / "first", model=copy, labels=images / "labels.csv")
    shutil.rmtree(copy)
    shutil.rmtree(images)
    store = (tmp_path / "first").rename(tmp_path / "moved")
    for _ in range(2):
        assert searched(capsys, store, "--image", scenes / FIRST)["hits"][0]["id"] == FIRST
    searched(capsys, store, "--id", FIRST, "--sheet", tmp_path / "hits.png")


def test_the_model_is_unpacked_once_and_nothing_else_is_left(
    own_cache: Path, archive: SearchableArchive, store: Path, scenes: Path
) -> None:
    archive.by_image(scenes / FIRST)
    marcir.open_store(store).by_image(scenes / FIRST)
    (folder,) = (own_cache / "models").iterdir()
    assert folder.name == archive.store.about.model
    assert {path.name for path in folder.iterdir()} == set(archive.store.model_files())


def test_a_cache_that_cannot_be_written_is_an_error(
    capsys: pytest.CaptureFixture[str],
    store: Path,
    scenes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("MARCIR_CACHE", str(tmp_path / "file"))
    line = refusal(capsys, "--store", store, "--image", scenes / FIRST)
    assert line.endswith("Set MARCIR_CACHE to a folder that can be written.")
    assert len(searched(capsys, store, "--id", FIRST)["hits"]) == 10, "an id needs no model"


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), RuntimeError("no home")])
def test_whatever_is_wrong_with_the_cache_its_variable_is_named(
    capsys: pytest.CaptureFixture[str],
    store: Path,
    scenes: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    def refuse(_: Path) -> Path:
        raise error

    monkeypatch.setattr("marcir.search.stored_model.cache_outside", refuse)
    line = refusal(capsys, "--store", store, "--image", scenes / FIRST)
    assert line.endswith("Set MARCIR_CACHE to a folder that can be written.")


def test_a_damaged_model_in_the_cache_is_an_error(
    capsys: pytest.CaptureFixture[str],
    store: Path,
    scenes: Path,
    own_cache: Path,
    archive: SearchableArchive,
) -> None:
    folder = own_cache / "models" / archive.store.about.model
    folder.mkdir(parents=True)
    line = refusal(capsys, "--store", store, "--image", scenes / FIRST)
    assert str(folder) in line
    assert line.endswith("remove it, or set MARCIR_CACHE to another folder.")


def test_a_cache_among_the_images_is_refused(
    capsys: pytest.CaptureFixture[str], store: Path, scenes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARCIR_CACHE", str(scenes / "cache"))
    assert "the cache lies in the archive" in refusal(capsys, "--store", store, "--image", scenes / FIRST)
    assert not (scenes / "cache").exists()


def test_a_model_that_is_not_the_vectors_own_is_refused(
    capsys: pytest.CaptureFixture[str], store: Path, scenes: Path, tmp_path: Path
) -> None:
    import lancedb
    import pyarrow as pa

    copy = Path(shutil.copytree(store, tmp_path / "store"))
    files = {**LanceStore(copy).model_files(), "config.json": b"{}"}
    content = {"name": list(files), "content": list(files.values())}
    lancedb.connect(copy).create_table("model", pa.table(content), mode="overwrite")
    line = refusal(capsys, "--store", copy, "--image", scenes / FIRST)
    assert line.endswith("the model in the store is not the one that its vectors were made with.")


LIGHT = """
import json, sys
from marcir.cli import main
store, picture, searches = sys.argv[1:]
for search in json.loads(searches):
    assert main(["search", "--store", store, "--k", "3", *search]) == 0
    assert main(["search", "--store", store, "--json", "--sheet", picture, *search]) == 0
assert main(["info", store]) == 0
print(sorted({"torch", "timm", "torchvision", "marcir.search.index"} & set(sys.modules)))
"""


def test_a_search_without_a_file_imports_no_torch(
    store: Path, archive: SearchableArchive, tmp_path: Path
) -> None:
    searches = [
        ["--id", FIRST],
        ["--like", FIRST, "--unlike", "images/000001.png"],
        ["--by-labels", commonest(archive)[0]],
    ]
    command = [sys.executable, "-c", LIGHT, str(store), str(tmp_path / "hits.png"), json.dumps(searches)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


# ---- While others write --------------------------------------------------------------------------


@pytest.mark.parametrize("tidied", [False, True], ids=["kept", "removed"])
def test_a_hit_that_is_removed_meanwhile_is_not_an_error(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tidied: bool
) -> None:
    """An answer is of the version that was searched; of the newest one where its files are removed."""
    archive = marcir.open_store(Path(shutil.copytree(store, tmp_path / "store")))
    best = archive.by_id(FIRST, k=1).hits[0].id
    search = ExactSearch.search

    def searching(*arguments: Any) -> Any:
        found = search(*arguments)
        other = LanceStore(archive.store.uri)
        if other.delete([best]) and tidied:
            other.add(other.get([FIRST]))
            other.optimize()  # joins the files and removes them
        archive.store.count()  # as another thread, which goes to the newest version
        return found

    monkeypatch.setattr(ExactSearch, "search", searching)
    answer = archive.by_id(FIRST, k=3)
    assert len(answer.hits) == 3
    assert (best in [hit.id for hit in answer.hits]) != tidied


def test_in_python_everything_is_as_on_the_command_line(
    capsys: pytest.CaptureFixture[str], store: Path, archive: SearchableArchive
) -> None:
    name = commonest(archive)[0]
    answer = archive.by_id(FIRST, k=4, where=Filter(any=(name,)))
    assert searched(capsys, store, "--id", FIRST, "--k", 4, "--any", name) == json.loads(
        json.dumps(answer.as_json())
    )
    approximate = marcir.open_store(str(store), approximate=True).by_id(FIRST, k=4, where=Filter(any=(name,)))
    assert [hit.id for hit in approximate.hits] == [hit.id for hit in answer.hits]


@pytest.mark.parametrize("option", ["--image", "--like"])
def test_a_sheet_never_replaces_an_image_of_the_query(
    option: str, store: Path, images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = images / "images" / "000001.png"
    before = image.read_bytes()
    with pytest.raises(SystemExit, match="2"):
        main(["search", "--store", str(store), option, str(image), "--sheet", str(image)])
    assert "this file belongs to the query. Use another name." in capsys.readouterr().err
    assert image.read_bytes() == before
