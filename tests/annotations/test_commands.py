"""`marcir collections`, `marcir labels` and training on a store, on a real small archive."""

import csv
import json
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import marcir
from marcir.annotations import Annotations
from marcir.annotations.collection_export import export_collection
from marcir.annotations.label_export import export_labels
from marcir.annotations.retrain import retrain_commands
from marcir.cli import main
from marcir.cli.evaluate import _model_folder
from marcir.data.archive import open_archive
from marcir.data.image_source import WindowCut
from marcir.data.label_csv import read_label_table
from marcir.errors import AnnotationError, ConfigError, DataError
from marcir.search import MemoryStore, Row
from marcir.search.index import index
from marcir.search.lance import LanceStore
from marcir.search.records import About
from serve.small_archive import write_model

SMALL = (
    *("--data.size", "24", "--encoder.backbone", "test_resnet", "--encoder.weights", "none"),
    *("--encoder.dim", "16", "--train.batch_size", "14", "--train.epochs", "1", "--loss.name", "mulsupcon"),
)


@pytest.fixture(scope="module")
def indexed(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the images, and a store of them and their labels; not to be changed."""
    folder = tmp_path_factory.mktemp("annotated")
    images = Path(shutil.copytree(scenes, folder / "images"))
    model = write_model(folder / "model")
    index(images, folder / "a.store", model=model, labels=images / "labels.csv")
    return folder


@pytest.fixture
def store(indexed: Path, tmp_path: Path) -> Path:
    """A copy of the store, with a collection and some labels."""
    copied = Path(shutil.copytree(indexed / "a.store", tmp_path / "a.store"))
    annotations = marcir.open_annotations(copied, writable=True)
    annotations.collections.create("Some", ["images/000002.png", "images/000001.png", "gone.png"])
    annotations.labels.set([("barn", "present", ["images/000001.png", "images/000003.png"])])
    annotations.labels.set([("barn", "absent", [f"images/{place:06}.png" for place in range(10, 20)])])
    return copied


def test_collections_are_listed_shown_and_exported(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["collections", "--store", str(store)]) == 0
    assert capsys.readouterr().out.split()[::2] == ["3", "Some"]
    assert main(["collections", "show", "Some", "--store", str(store)]) == 0
    assert capsys.readouterr().out.split() == ["images/000002.png", "images/000001.png", "gone.png"]
    table, paths = tmp_path / "some.csv", tmp_path / "some.txt"
    export = ["export", "Some", "--csv", str(table), "--paths", str(paths)]
    assert main(["collections", "--store", str(store), *export]) == 0
    with table.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["images/000002.png", "images/000001.png", "gone.png"]
    assert "barn" in rows[1]["labels"].split(";"), "with merged labels"
    assert [Path(line).name for line in paths.read_text().splitlines()] == ["000002.png", "000001.png"]
    assert all(Path(line).is_file() for line in paths.read_text().splitlines())
    assert f"{paths}: 2 files of 3 images of 'Some'\n" in capsys.readouterr().out
    annotations = marcir.open_annotations(store, writable=True)
    annotations.collections.create("Alone", ["images/000002.png"])
    assert main(["collections", "--store", str(store), "export", "Alone", *export[2:]]) == 0
    counted = [f"{table}: 1 image of 'Alone'", f"{paths}: 1 file of 1 image of 'Alone'"]
    assert capsys.readouterr().out.splitlines() == counted
    assert main(["collections", "show", "Sone", "--store", str(store)]) == 2
    assert capsys.readouterr().err == "marcir: there is no collection 'Sone'. Did you mean 'Some'?\n"


def test_a_collection_of_images_without_places_is_no_geojson(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "some.geojson"
    assert main(["collections", "export", "Some", "--store", str(store), "--geojson", str(out)]) == 2
    assert capsys.readouterr().err == "marcir: geojson: none of these images has a place. Use csv or paths.\n"
    assert not out.exists()


def test_the_files_of_windows_are_their_scenes(tmp_path: Path) -> None:
    cut, vector = WindowCut(256, 256, None, None, 0.2), np.eye(4, dtype=np.float32)[0]
    windows = [f"a/b.tif@x={place},y=0,w=256,h=256" for place in (0, 256)]
    rows = [Row(image, vector, metadata={"scene": "a/b.tif"}) for image in windows]
    annotations = Annotations(tmp_path / "a.sqlite", writable=True)
    annotations.collections.create("Some", [*windows, "gone.tif@x=0,y=0,w=256,h=256"])
    store = MemoryStore(About("m" * 64, 4, "/scenes", version=3, windows=cut))
    store.add(rows)
    assert export_collection(store, annotations, "Some", "paths") == b"a/b.tif\n"
    catalog = MemoryStore(About("m" * 64, 4, "/scenes/catalog.json", version=3, windows=cut))
    catalog.add(rows)
    with pytest.raises(
        AnnotationError, match="of a STAC catalog, whose ids are not paths of files. Use csv."
    ):
        export_collection(catalog, annotations, "Some", "paths")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["collections", "--store", "no.store"], "no.store: there is no such store."),
        (["collections", "show", "Some", "--store", "no.store"], "no.store: there is no such store."),
        (["labels", "--store", "no.store", "--out", "out.csv"], "no.store: there is no such store."),
        (["collections", "--annotations", "no.sqlite"], "no.sqlite: there is no such file."),
        (["labels", "--out", "out.csv", "--annotations", "no.sqlite"], "no.sqlite: there is no such file."),
    ],
)
def test_a_store_and_a_file_of_annotations_that_are_not_there_are_refused(
    store: Path,
    arguments: list[str],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(store.parent)
    given = [] if "--store" in arguments else ["--store", str(store)]
    assert main([*arguments, *given]) == 2
    assert capsys.readouterr().err.startswith(f"marcir: {problem}")
    assert not Path("out.csv").exists()


def test_labels_of_the_table_need_no_annotations(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "table.csv"
    assert main(["labels", "--store", str(store), "--source", "table", "--out", str(out)]) == 0
    assert out.read_text() == export_labels(LanceStore(store), Annotations(None)).text
    with pytest.raises(SystemExit):
        main(["labels", "--store", str(store), "--source", "table", "--annotations", "a", "--out", str(out)])
    assert "leave --annotations out" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["path,labels\na.png,road\n", "# unlisted: absent\n", "\n"])
def test_a_table_that_the_command_did_not_write_is_not_replaced(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    out = tmp_path / "labels.csv"
    out.write_text(content)
    assert main(["labels", "--store", str(store), "--out", str(out)]) == 2
    assert capsys.readouterr().err == (
        f"marcir: --out {out}: there is a file that marcir labels did not write. "
        "Choose another name, or delete it.\n"
    )
    assert out.read_text() == content


def test_a_table_that_the_command_wrote_is_replaced(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.csv"
    arguments = ["labels", "--store", str(store), "--out", str(out)]
    out.touch()
    assert main([*arguments, "--source", "table"]) == 0
    first = out.read_text()
    assert main(arguments) == 0
    assert out.read_text() != first


@pytest.mark.parametrize(
    "arguments", [["show"], ["list", "Some"], ["export", "Some"], ["--csv", "a.csv"], ["shwo", "Some"]]
)
def test_options_of_collections_that_contradict_each_other_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["collections", "--store", "a.store", *arguments])
    assert exit_.value.code == 2


def test_the_label_table_is_taken_by_the_store_that_it_came_from(
    store: Path, indexed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "labels.csv"
    assert main(["labels", "--store", str(store), "--out", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: 40 images with known labels, ")
    before = open_archive("store", store)
    index(indexed / "images", store, labels=out)
    marcir.open_annotations(store, writable=True).labels.undo()
    marcir.open_annotations(store, writable=True).labels.undo()
    after = open_archive("store", store)
    assert after.vocabulary.names == before.vocabulary.names
    assert after.label_checksum == before.label_checksum, "what the page said is in the table now"
    assert marcir.open_annotations(store).collections.get("Some").images == 3, "indexing leaves it alone"


def test_an_archive_of_a_store_has_the_labels_of_its_table_for_training(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.csv"
    main(["labels", "--store", str(store), "--out", str(out)])
    table = read_label_table(out)
    archive = open_archive("store", store)
    assert archive.ids == tuple(row.image for row in table.rows)
    barn = archive.vocabulary.index_of("barn")
    states = dict(zip(archive.ids, archive.labels[:, barn].tolist(), strict=True))
    assert [states[f"images/{place:06}.png"] for place in (1, 3, 10, 30)] == [1, 1, 0, -1]
    assert archive.read(0).shape == (24, 24, 3)


def test_what_cannot_be_trained_on_is_refused_in_one_line(store: Path, indexed: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="leave --labels out"):
        open_archive("store", store, "labels.csv")
    with pytest.raises(DataError, match="not a folder"):
        open_archive("store", tmp_path / "no.store")
    with pytest.raises(ConfigError, match="leave --dataset and --root out"):
        main_train(["--store", str(store), "--dataset", "ucm"])
    moved = Path(shutil.copytree(indexed / "images", tmp_path / "moved"))
    index(moved, tmp_path / "b.store", model=indexed / "model")
    with pytest.raises(DataError, match="no label of any image is known"):
        open_archive("store", tmp_path / "b.store")
    annotations = marcir.open_annotations(tmp_path / "b.store", writable=True)
    annotations.labels.set([("barn", "present", ["images/000001.png", "images/000002.png"])])
    (moved / "images/000001.png").unlink()
    with pytest.raises(DataError, match="1 of its 2 labelled images are no files of .*'000001.png'"):
        open_archive("store", tmp_path / "b.store")


def test_windows_of_scenes_and_objects_are_refused_in_one_line(tmp_path: Path) -> None:
    cut = WindowCut(256, 256, None, None, 0.2)
    for number, (about, problem) in enumerate(
        (
            (About("m" * 64, 4, "/scenes", version=3, windows=cut), "its images are windows of scenes"),
            (About("m" * 64, 4, "s3://bucket/tiles"), "its images are on object storage"),
        )
    ):
        store = LanceStore.create(tmp_path / f"{number}.store", about, {"config.json": b"{}"})
        with pytest.raises(DataError, match=problem):
            open_archive("store", store.uri)
        with pytest.raises(DataError, match=problem):
            retrain_commands(store, marcir.open_annotations(store.uri))


def main_train(arguments: list[str]) -> None:
    from marcir.cli.train import read_config

    read_config(arguments)


def test_the_commands_name_what_there_is(store: Path) -> None:
    found = retrain_commands(LanceStore(store), Annotations(store.with_name("other.sqlite")))
    labelled, commands = found.labelled, found.commands
    assert labelled == 40
    assert f"--annotations {store.with_name('other.sqlite')}" in commands[0][1]
    assert "--dataset manifest" in commands[1][1], "training finds annotations only beside the store"


def test_the_commands_work_in_any_folder(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(store, tmp_path / "of a" / "a.store")).parent
    monkeypatch.chdir(folder)
    for file in (None, Path("../a.store.annotations.sqlite")):
        opened = Annotations(file) if file else marcir.open_annotations("a.store")
        commands = retrain_commands(LanceStore("a.store"), opened).commands
        named = {
            word: words[at + 1]
            for words in (shlex.split(text) for _, text in commands)
            for at, word in enumerate(words)
            if word in ("--store", "--images", "--annotations", "--root")
        }
        assert all(Path(path).is_absolute() for path in named.values()), named
        assert shlex.split(commands[0][1])[3] == str(folder / "a.store")
        assert shlex.split(commands[2][1])[-1] == str(folder / "a-trained.store")
        assert shlex.split(commands[4][1])[3] == str(folder / "a.store")
        assert f" '{folder}/a.store'" in commands[0][1], "quoted for a shell"
        assert named.get("--annotations") == (str(tmp_path / "a.store.annotations.sqlite") if file else None)


def test_the_commands_score_incomplete_labels_and_say_what_that_means(store: Path, indexed: Path) -> None:
    incomplete = retrain_commands(LanceStore(store), marcir.open_annotations(store))
    complete = retrain_commands(LanceStore(indexed / "a.store"), Annotations(None))
    for found, allowed in ((incomplete, True), (complete, False)):
        scored = [text for _, text in found.commands if " evaluate " in text]
        assert [" --allow-incomplete" in text for text in scored] == [allowed] * 2
        assert all(" --split runs/a/split.json" in text for text in scored)
    assert "pairs of images" in (incomplete.note or "")
    assert complete.note is None


@pytest.mark.parametrize("with_file", [True, False], ids=["a file", "no file"])
def test_the_commands_of_a_store_on_object_storage_have_its_address(store: Path, with_file: bool) -> None:
    opened = LanceStore(store)
    opened.uri = "s3://bucket/some/a.store/"
    file = store.with_name("a.sqlite") if with_file else None
    commands = retrain_commands(opened, Annotations(file)).commands
    labels, train, new, _, old, _ = (shlex.split(text) for _, text in commands)
    given = ["--annotations", str(file)] if with_file else ["--source", "table"]
    assert labels[2:] == ["--store", "s3://bucket/some/a.store/", *given, "--out", "a-labels.csv"]
    assert train[2:4] == ["--dataset", "manifest"]
    assert new[-1] == "s3://bucket/some/a-trained.store"
    assert old[2:4] == ["--model", "s3://bucket/some/a.store/"]


def test_the_model_of_a_store_on_object_storage_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = SimpleNamespace(model="s3://bucket/a.store/", name=None, device="cpu")
    monkeypatch.setattr("marcir.search.lance.LanceStore", lambda uri: uri)
    monkeypatch.setattr(
        "marcir.search.stored_model.unpacked_model",
        lambda store, device: SimpleNamespace(path=f"model of {store}"),
    )
    assert _model_folder(asked) == "model of s3://bucket/a.store/"  # type: ignore[arg-type]
    assert asked.name == "a.store"


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_the_commands_train_index_and_compare(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for _, text in retrain_commands(LanceStore(store), marcir.open_annotations(store)).commands:
        words = shlex.split(text)[1:]
        if words[0] == "train":  # a tiny network instead of a pretrained one
            words = [words[0], "--store", str(store), *SMALL, "--run", words[-1]]
        assert main(words) == 0, text
        if words[0] == "train":  # somebody goes on labelling meanwhile
            annotations = marcir.open_annotations(store, writable=True)
            annotations.labels.set([("barn", "absent", ["images/000030.png"])])
    old, new = (json.loads((tmp_path / name).read_text()) for name in ("old.json", "new.json"))
    assert old["judged_by"] == new["judged_by"], "both were scored on the same images by the same labels"
    assert (old["name"], new["name"]) == ("a.store", "a")
    assert LanceStore(tmp_path / "a-trained.store").count() == 40
    assert "nDCG@100" in capsys.readouterr().out
