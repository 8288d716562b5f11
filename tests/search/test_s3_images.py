"""Images on object storage, through a pretended S3: what holds for a folder holds for a prefix."""

import json
from pathlib import Path

import numpy as np
import pytest
import tifffile
from fastapi.testclient import TestClient

from marcir.cli import main
from marcir.data import image_folder
from marcir.data.image_folder import images_of_folder
from marcir.data.images import read_image, read_pixel_format
from marcir.data.object_storage import S3Path
from marcir.errors import BrokenImageError, DataError
from marcir.model.embed import embed_folder
from marcir.search.index import index
from marcir.search.lance import LanceStore
from marcir.search.queries import open_store
from marcir.search.records import Row
from marcir.serve.app import create_app
from marcir.serve.image_files import Originals
from marcir.serve.service import Service
from marcir.serve.settings import Settings
from search.s3_server import delete_object, forget_keys, put_folder, put_object

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_cache")]


@pytest.fixture
def prefix(bucket: str, images: Path) -> str:
    """The images on object storage."""
    put_folder(f"{bucket}/deep/tiles", images)
    return f"{bucket}/deep/tiles"


def rows_of(store: str | Path) -> dict[str, Row]:
    opened = LanceStore(store)
    return {row.id: row for row in opened.get(opened.ids())}


def assert_same(store: str | Path, expected: str | Path) -> None:
    """The same rows, bit by bit."""
    found, wanted = rows_of(store), rows_of(expected)
    assert found.keys() == wanted.keys()
    for image, row in wanted.items():
        assert np.array_equal(found[image].vector, row.vector), image
        assert (found[image].content, found[image].thumbnail) == (row.content, row.thumbnail)
        assert (found[image].labels, found[image].width) == (row.labels, row.width)


@pytest.mark.parametrize("where", ["folder", "object storage"])
def test_a_prefix_is_indexed_as_a_folder_is_and_followed(
    where: str, bucket: str, prefix: str, images: Path, model: Path, tmp_path: Path
) -> None:
    labels = images / "labels.csv"
    store = f"{bucket}/store" if where == "object storage" else tmp_path / "store"
    # A slash at the end changes nothing.
    done = index(f"{prefix}/", store, model=model, labels=labels, batch_size=8)
    index(images, tmp_path / "expected", model=model, labels=labels, batch_size=8)
    assert (done.added, done.broken, done.notes) == (40, {}, ())
    assert_same(store, tmp_path / "expected")
    assert LanceStore(store).about.root == prefix
    done = index(prefix, store)
    assert (done.added, done.changed, done.unchanged) == (0, 0, 40)

    first, second, *_ = sorted(rows_of(store))
    put_object(f"{prefix}/{first}", (images / second).read_bytes())
    delete_object(f"{prefix}/{second}")
    put_object(f"{prefix}/new.png", (images / second).read_bytes())
    done = index(prefix, store)
    assert (done.added, done.changed, done.unchanged, done.gone) == (1, 1, 38, 1)
    done = index(prefix, store, prune=True)
    assert (done.unchanged, done.pruned, done.rows) == (40, 1, 40)
    assert {first, "new.png"} <= rows_of(store).keys()


def test_tables_may_name_addresses_and_hits_have_them(
    prefix: str, images: Path, model: Path, tmp_path: Path
) -> None:
    first, *_ = images_of_folder(images)[0]
    table = tmp_path / "labels.csv"
    table.write_text(f"path,labels\n{prefix}/{first},ship\n./new//x.png,dock\n")
    put_object(f"{prefix}/new/x.png", (images / first).read_bytes())
    index(prefix, tmp_path / "store", model=model, labels=table)
    rows = rows_of(tmp_path / "store")
    assert (rows[first].labels, rows["new/x.png"].labels) == (("ship",), ("dock",))
    archive = open_store(tmp_path / "store")
    found = archive.by_image(f"{prefix}/{first}", k=41).as_json()
    assert {hit["path"] for hit in found["hits"]} == {f"{prefix}/{image}" for image in rows}


def test_shards_of_a_prefix_fill_one_store(prefix: str, images: Path, model: Path, tmp_path: Path) -> None:
    done = [index(prefix, tmp_path / "store", model=model, shard=(part, 3)) for part in range(3)]
    assert sum(each.added for each in done) == 40
    index(images, tmp_path / "expected", model=model)
    assert rows_of(tmp_path / "store").keys() == rows_of(tmp_path / "expected").keys()


def test_embeddings_are_those_of_the_folder(prefix: str, images: Path, model: Path, tmp_path: Path) -> None:
    put_object(f"{prefix}/cut.png", b"no image")
    (images / "cut.png").write_bytes(b"no image")
    out = tmp_path / "out.npz"
    command = ["embed", "--images", prefix, "--out", str(out), "--model", str(model)]
    assert main(command) == 2
    assert main([*command, "--on-broken", "skip"]) == 0
    expected, _ = embed_folder(model, images, tmp_path / "expected.npz", "skip")
    found, broken = embed_folder(model, prefix, out, "skip")
    assert found.ids == expected.ids
    assert np.array_equal(found.vectors, expected.vectors)
    assert list(broken) == ["cut.png"]


def test_broken_vanished_and_hostile_objects_are_listed(
    prefix: str,
    images: Path,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    png = (images / images_of_folder(images)[0][0]).read_bytes()
    put_object(f"{prefix}/cut.png", png[: len(png) // 2])
    put_object(f"{prefix}/empty.jpg", b"")
    put_object(f"{prefix}//absolute.png", png)
    put_object(f"{prefix}/a/../up.png", png)
    put_object(f"{prefix}/.hidden.png", png)
    put_object(f"{prefix}/notes.txt", b"text")
    put_object(f"{prefix}-other/near.png", png)
    put_object(f"{prefix}/100%_#1?a=b&ü 日本.png", png)
    listed = S3Path.keys
    monkeypatch.setattr(S3Path, "keys", lambda root: [*listed(root), "vanished.png"])
    command = ["index", "--images", prefix, "--store", str(tmp_path / "store"), "--model", str(model)]
    assert main(command) == 1
    said = capsys.readouterr().out
    assert "41 images in the store: 41 new" in said
    assert "5 broken images were left out" in said
    for name, problem in {
        "cut.png": "cannot be read as an image",
        "empty.jpg": "the file is empty",
        "/absolute.png": "a name between the slashes of its key is empty, '.' or '..'. Rename it.",
        "a/../up.png": "a name between the slashes of its key is empty, '.' or '..'. Rename it.",
        "vanished.png": "there is no such file",
    }.items():
        assert f"  {prefix}/{name}: {problem}" in said
    assert "100%_#1?a=b&ü 日本.png" in rows_of(tmp_path / "store")


def test_headers_of_objects_are_those_of_files(bucket: str, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 60_000, (300, 300, 5), np.uint16)
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="minisblack", planarconfig="contig")
    put_object(f"{bucket}/a.tif", (tmp_path / "a.tif").read_bytes())
    assert read_pixel_format(f"{bucket}/a.tif") == read_pixel_format(tmp_path / "a.tif")
    assert np.array_equal(read_image(f"{bucket}/a.tif"), pixels)
    with pytest.raises(BrokenImageError, match="s3://archive/b.tif: there is no such file"):
        read_pixel_format(f"{bucket}/b.tif")


def test_without_access_there_is_one_line(bucket: str, tmp_path: Path) -> None:
    forget_keys()
    with pytest.raises(DataError) as error:
        index(f"{bucket}/tiles", tmp_path / "store")
    assert "\n" not in str(error.value)
    assert "s3://archive/tiles: cannot be listed (AWS Error" in str(error.value)
    assert "Check the bucket and the variables AWS_*" in str(error.value)
    with pytest.raises(DataError, match="cannot be listed"):
        Originals(S3Path("archive", "tiles"))
    with pytest.raises(DataError, match="does not give it .AWS Error ACCESS_DENIED") as error:
        read_image(f"{bucket}/tiles/a.png")  # listed before the access was lost
    assert not isinstance(error.value, BrokenImageError)


@pytest.mark.parametrize(
    ("images", "variables", "problem"),
    [
        ("s3://nowhere/tiles", {}, "cannot be listed (AWS Error NO_SUCH_BUCKET"),
        ("s3://archive/none", {}, "no images below it (.jpeg, .jpg"),
        ("s3://archive", {}, "no images below it (.jpeg, .jpg"),
        ("s3://", {}, "not an address on object storage"),
        ("s3://archive/a/../b", {}, "not an address on object storage"),
        ("gs://archive/a", {}, "--images gs://archive/a: not a folder, and not an address s3://"),
        ("s3://archive/a", {"AWS_ALLOW_HTTP": ""}, "Set AWS_ALLOW_HTTP=true to allow it"),
        ("s3://archive/a", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "AWS Error NETWORK_CONNECTION"),
    ],
)
def test_what_cannot_be_listed_is_one_line(
    images: str,
    variables: dict[str, str],
    problem: str,
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["index", "--images", images, "--store", str(tmp_path / "store")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line
    assert not (tmp_path / "store").exists()


def test_a_store_is_not_made_below_the_images(prefix: str, model: Path) -> None:
    for store in (prefix, f"{prefix}/", f"{prefix}/store"):
        with pytest.raises(DataError, match="lies in the folder of images s3://archive/deep/tiles"):
            index(prefix, store, model=model)
    assert index(prefix, f"{prefix}.store", model=model).rows == 40


def test_an_outage_ends_the_run_and_breaks_no_image(
    prefix: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = images_of_folder(prefix)
    monkeypatch.setattr(image_folder, "images_of_folder", lambda _: found)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(DataError, match="object storage does not give it") as error:
        embed_folder(model, prefix, tmp_path / "out.npz", "skip")
    assert not isinstance(error.value, BrokenImageError)
    assert "\n" not in str(error.value)


def test_the_service_shows_objects_of_the_store_alone(
    prefix: str, images: Path, model: Path, tmp_path: Path
) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (30, 20, 3), np.uint8)
    tifffile.imwrite(images / "deep.tif", pixels)
    put_object(f"{prefix}/deep.tif", (images / "deep.tif").read_bytes())
    index(prefix, tmp_path / "store", model=model)
    put_object(f"{prefix}/later.png", (images / "deep.tif").read_bytes())
    first, second, third, *_ = sorted(rows_of(tmp_path / "store").keys() - {"deep.tif"})
    put_object(f"{prefix}/{second}", b"no image any more")
    delete_object(f"{prefix}/{third}")
    service = Service(Settings(str(tmp_path / "store"), S3Path.parse(prefix)))
    warning = str(service.files_warning())
    assert f"--images {prefix} holds 39 of 41 files of the store" in warning
    with TestClient(create_app(service), base_url="http://127.0.0.1") as client:

        def original(image: str, **headers: str) -> tuple[int, bytes, str]:
            reply = client.get("/api/original", params={"id": image}, headers=headers)
            return reply.status_code, reply.content, reply.headers.get("etag", "")

        status, content, tag = original(first)
        assert (status, content) == (200, (images / first).read_bytes())
        assert original(first, **{"If-None-Match": tag})[:2] == (304, b"")
        assert original("deep.tif")[1].startswith(b"\x89PNG")
        for image in (second, third, "later.png", "../tiles/later.png", f"/{first}", "labels.csv"):
            status, content, _ = original(image)
            assert status == 404
            assert list(json.loads(content)) == ["error"]
    for image in ("../other.png", "/absolute.png", "a//b.png", "", "nul\0.png", "x" * 5000):
        assert not Originals(S3Path.parse(prefix)).has(image)
