"""One round trip on object storage, through a pretended S3."""

from pathlib import Path

import numpy as np
import pytest

from marcir.cli import main
from marcir.errors import StoreError
from marcir.search import Filter, Row
from marcir.search.lance import LanceStore
from marcir.search.lance_io import sole_writer
from marcir.search.records import About
from search.s3_server import moto_server

ABOUT = About("m" * 64, 4, "/archive")
MODEL = {"config.json": b"{}", "model.safetensors": bytes(1000)}

pytestmark = pytest.mark.slow


def test_a_store_on_object_storage_does_all_that_one_in_a_folder_does(
    bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = f"{bucket}/deep/store"
    with pytest.raises(StoreError, match="not a store of marcir"):
        LanceStore(uri)
    with sole_writer(uri):
        store = LanceStore.create(uri, ABOUT, MODEL)
    axes = np.eye(4, dtype=np.float32)
    store.add([Row(f"it's {place}.png", axes[place], ("ship", f"l{place}")) for place in range(4)])
    store.add([Row("it's 0.png", axes[0], ("dock",))])
    store.optimize()
    reader = LanceStore(uri)
    assert reader.about == ABOUT
    assert reader.model_files() == MODEL
    assert reader.count() == 4
    assert [hit.id for hit in reader.search(axes[2] + 0.1 * axes[0], 2)[0]] == ["it's 2.png", "it's 0.png"]
    assert [hit.id for hit in reader.search(axes[2], 9, Filter(none=("ship",)))[0]] == ["it's 0.png"]
    assert reader.get(["it's 3.png"])[0].labels == ("ship", "l3")
    assert store.delete(["it's 1.png", "none"]) == 1
    assert LanceStore(uri).ids() == ["it's 0.png", "it's 2.png", "it's 3.png"]
    assert main(["info", uri]) == 0
    assert f"{uri}: 3 images of /archive" in capsys.readouterr().out
    with pytest.raises(StoreError, match="another model"):
        LanceStore.create(uri, About("n" * 64, 4, "/archive"), MODEL)


def test_a_bucket_that_is_missing_is_one_line(bucket: str) -> None:
    with pytest.raises(StoreError) as error:
        LanceStore("s3://nowhere/store").count()
    assert "\n" not in str(error.value)


def test_the_program_is_looked_for_where_it_is_said_to_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MARCIR_MOTO_SERVER", str(tmp_path / "none"))
    assert moto_server() is None
    (tmp_path / "server").write_text("")
    monkeypatch.setenv("MARCIR_MOTO_SERVER", str(tmp_path / "server"))
    assert moto_server() == tmp_path / "server"


def test_old_versions_are_kept_for_readers_on_object_storage(bucket: str) -> None:
    made = LanceStore.create(f"{bucket}/old", ABOUT, MODEL)
    made.add([Row("a", np.array([1, 0, 0, 0], np.float32), thumbnail=b"a")])
    reader = LanceStore(made.uri)
    before = reader._table.version
    made.add([Row("b", np.array([0, 1, 0, 0], np.float32), thumbnail=b"b")])
    made.optimize()
    assert before in [each["version"] for each in made._table.list_versions()]
    assert reader.thumbnail("a") == b"a"
