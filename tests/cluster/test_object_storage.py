"""Images on object storage are read by the actors of a cluster."""

from pathlib import Path

import numpy as np
import pytest

from marcir.cluster.connection import connect
from marcir.cluster.embedding import ClusterEmbedding
from marcir.data.image_folder import ImageFile
from marcir.data.object_storage import S3Path
from marcir.errors import ClusterError
from marcir.model.embed import embed_folder
from marcir.model.model import model_files
from marcir.search.index import index
from marcir.search.lance import LanceStore
from search.s3_server import delete_object, put_folder, put_object

# Ray leaves sockets and processes to the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("own_cache"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_actors_read_the_objects_and_rows_are_those_of_a_folder(
    bucket: str, scenes: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"{bucket}/tiles"
    put_folder(prefix, scenes)
    index(scenes, tmp_path / "expected", model=model, batch_size=4)
    one, _ = embed_folder(model, scenes, tmp_path / "one.npz", batch_size=4)
    expected = LanceStore(tmp_path / "expected")

    def refuse(_: S3Path) -> None:
        raise AssertionError("the driver reads an object")

    monkeypatch.setattr(S3Path, "open", refuse)
    monkeypatch.setenv("RAY_worker_niceness", "0")  # by default a busy machine gives its workers no time
    with connect("local", 2) as ray:
        cluster = ClusterEmbedding(ray)
        store = f"{bucket}/store"
        done = index(prefix, store, model=model, batch_size=4, embed=cluster.rows)
        assert (done.added, done.broken) == (40, {})
        ids = expected.ids()
        for row, wanted in zip(LanceStore(store).get(ids), expected.get(ids), strict=True):
            assert np.array_equal(row.vector, wanted.vector)
            assert (row.content, row.thumbnail) == (wanted.content, wanted.thumbnail)

        put_object(f"{prefix}/cut.png", b"no image")
        put_object(f"{prefix}/{ids[0]}", (scenes / ids[1]).read_bytes())
        delete_object(f"{prefix}/{ids[2]}")
        done = index(prefix, store, batch_size=4, prune=True, embed=cluster.rows)
        assert (done.changed, done.unchanged, done.pruned) == (1, 38, 1)
        assert list(done.broken) == ["cut.png"]

        put_folder(f"{bucket}/again", scenes)
        many, broken = embed_folder(
            model, f"{bucket}/again", tmp_path / "many.npz", batch_size=4, embed=cluster.vectors
        )
        assert many.ids == one.ids
        assert np.array_equal(many.vectors, one.vectors)
        assert broken == {}

        nowhere = [ImageFile("a.png", S3Path("nowhere", "tiles/a.png"))]
        with pytest.raises(ClusterError, match="read the images themselves: Ray must be started") as error:
            list(cluster.rows(model_files(model), nowhere, 1, lambda _: None))
        assert "s3://nowhere/tiles: there is nothing on object storage" in str(error.value)
        assert "\n" not in str(error.value)
