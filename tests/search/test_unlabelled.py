"""A folder without labels and without a trained model is indexed, searched, served and scored."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import tifffile
from fastapi.testclient import TestClient

from marcir.cli import main
from marcir.scenes.write import write_scenes
from marcir.search.index import index
from marcir.search.queries import open_store
from marcir.serve.app import create_app
from marcir.serve.service import Service
from marcir.serve.settings import Settings
from marcir.types import Embeddings


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _use_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARCIR_CACHE", str(cache))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 generated scenes with their labels.csv."""
    folder = tmp_path_factory.mktemp("unlabelled") / "archive"
    write_scenes(folder, 24, 64, 0)
    return folder


@pytest.fixture(scope="module")
def store(archive: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its index, made without labels and without a model."""
    folder = tmp_path_factory.mktemp("stores") / "archive.store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARCIR_CACHE", str(cache))
        assert main(["index", "--images", str(archive), "--store", str(folder)]) == 0
    return folder


def test_indexing_says_what_training_would_add_and_how(
    archive: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["index", "--images", str(archive), "--store", str(store)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == (
        "24 images in the store: 0 new, 0 changed, 0 with other labels or metadata, 24 up to date"
    )
    assert said[-1].startswith("These are features of ImageNet.")
    command = said[-1][said[-1].index("marcir train") :].split()
    assert command[command.index("--root") + 1] == str(archive)
    assert command[command.index("--train.batch_size") + 1] == "4"  # of 16 training images
    assert command[command.index("--run") + 1] == "runs/archive"
    assert said[-2] == (
        f"{archive}/labels.csv was not used: with --labels {archive}/labels.csv its labels are stored, too."
    )


def test_images_are_found_by_id_by_file_and_by_examples(archive: Path, store: Path) -> None:
    opened = open_store(store)
    ids = opened.store.ids()
    assert ids[0] not in {hit.id for hit in opened.by_id(ids[0], 5).hits}
    assert opened.by_image(archive / ids[3], 1).hits[0].id == ids[3]
    assert opened.by_image(archive / ids[3], 1).hits[0].similarity == pytest.approx(1, abs=1e-5)
    assert len(opened.by_examples([ids[0], ids[1]], [ids[2]], 5).hits) == 5


def test_the_service_answers(archive: Path, store: Path) -> None:
    with TestClient(
        create_app(Service(Settings(str(store), archive))), base_url="http://127.0.0.1"
    ) as client:
        name = "images/000003.png"
        found = client.get("/api/search", params={"id": name, "limit": 3}).json()
        assert len(found["hits"]) == 3
        sent = client.post("/api/embed", files={"image": (name, (archive / name).read_bytes())})
        assert sent.status_code == 200, sent.text
        again = client.get("/api/search", params={"vector": sent.json()["vector"], "limit": 1})
        assert again.status_code == 200, again.text
        assert again.json()["hits"][0]["id"] == name


def test_labels_can_follow_later_and_filter(archive: Path, store: Path, tmp_path: Path) -> None:
    later = tmp_path / "later.store"
    shutil.copytree(store, later)
    table = archive / "labels.csv"
    done = index(archive, later, labels=table)
    assert (done.added, done.relabelled) == (0, 24)
    opened = open_store(later)
    label = next(iter(opened.store.label_counts()))
    assert main(["search", "--store", str(later), "--by-labels", label, "--any", label]) == 0


def test_information_says_that_nothing_was_trained(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(store)]) == 0
    assert "24 images" in capsys.readouterr().out


def test_features_of_any_folder_are_scored(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "e.json"
    assert main(["evaluate", "--dataset", "manifest", "--root", str(archive), "--json", str(out)]) == 0
    scores = json.loads(out.read_text())
    assert scores["model"]["scores"]["nDCG@100"] > scores["references"]["chance"]["scores"]["nDCG@100"]
    assert "untrained" not in scores["references"]
    vectors = tmp_path / "v.npz"
    assert main(["embed", "--images", str(archive), "--out", str(vectors)]) == 0
    assert Embeddings.load(vectors).vectors.shape == (24, 1280)


def test_the_same_model_serves_every_folder_of_colour_images(store: Path, tmp_path: Path) -> None:
    write_scenes(tmp_path / "other", 3, 32, 1)
    index(tmp_path / "other", tmp_path / "other.store")
    models = [open_store(each).store.about.model for each in (store, tmp_path / "other.store")]
    assert models[0] == models[1]


@pytest.mark.parametrize(("bands", "dtype"), [(1, np.uint8), (4, np.uint16), (6, np.float32)])
def test_images_of_other_bands_and_types_are_scaled_by_their_own_statistics(
    bands: int, dtype: type, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for k in range(6):
        pixels = rng.normal(80 + 10 * k, 20, (40, 40, bands)).clip(0, 250).astype(dtype)
        file = tmp_path / "images" / f"{k}.tif"
        layout = {"planarconfig": "contig"} if bands > 1 else {}
        tifffile.imwrite(file, pixels.squeeze(), photometric="minisblack", **layout)
    done = index(tmp_path / "images", tmp_path / "store")
    assert (done.added, done.broken) == (6, {})
    opened = open_store(tmp_path / "store")
    assert opened.by_image(tmp_path / "images" / "2.tif", 1).hits[0].id == "2.tif"
    assert index(tmp_path / "images", tmp_path / "store").unchanged == 6


def test_a_folder_of_broken_images_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"no image")
    assert main(["index", "--images", str(tmp_path / "images"), "--store", str(tmp_path / "s")]) == 2
    said = capsys.readouterr().err
    assert said.count(os.linesep) == 1
    assert "none of the images can be read, for example: " in said
    assert not (tmp_path / "s").exists()
