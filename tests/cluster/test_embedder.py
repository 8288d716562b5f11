"""The actor that embeds, in this process: its threads, and two blocks at a time."""

import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
import torch
from torch import Tensor

import marcir
from geo.tiffs import ramp, write_tiff
from marcir.cluster.embedding import _Embedder
from marcir.data.image_folder import ImageFile, ImageFolder
from marcir.data.image_source import ImageContent, Omitted
from marcir.errors import ClusterError
from marcir.geo import SceneArchive, WindowGrid
from marcir.model.encoder import Encoder
from marcir.model.model import model_files
from serve.small_archive import write_model

BATCH = 2


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return model_files(write_model(tmp_path_factory.mktemp("embedder") / "model"))


@pytest.fixture
def _same_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def embedder(weights: dict[str, bytes], scenes: Path, threads: int) -> _Embedder:
    started = _Embedder(marcir.__version__, f"{scenes}/", weights, "cpu", threads, BATCH, "rows")
    started.start()
    return started


@pytest.mark.usefixtures("_same_threads")
@pytest.mark.parametrize("threads", [1, 3])
def test_an_actor_has_its_cpus_as_threads_whatever_ray_has_set(
    weights: dict[str, bytes], scenes: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed, found = Encoder.embed, list[int]()

    def look(self: Encoder, images: Tensor) -> Tensor:
        found.append(torch.get_num_threads())
        return embed(self, images)

    monkeypatch.setattr(Encoder, "embed", look)
    torch.set_num_threads(2)
    actor = embedder(weights, scenes, threads)
    for _ in range(2):  # each in a thread that has not used torch before, as those of Ray
        with ThreadPoolExecutor(1) as ray:
            ray.submit(actor.work, [ImageFolder(scenes).image(0)]).result()
    assert found == [threads, threads]


@pytest.mark.usefixtures("_same_threads")
def test_a_block_is_read_while_the_one_before_it_is_computed_and_both_stay_as_they_are(
    weights: dict[str, bytes], scenes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [ImageFolder(scenes).image(place) for place in range(16)]
    blocks = images[:8], images[8:]
    actor = embedder(weights, scenes, 1)
    embed, read, computed, is_read = Encoder.embed, ImageFile.read, list[float](), list[str]()
    computing, ahead = Event(), Event()

    def watch(self: Encoder, batch: Tensor) -> Tensor:
        computed.append(float(batch.sum()))
        computing.set()
        assert ahead.wait(60)
        return embed(self, batch)

    def watch_read(self: ImageFile) -> ImageContent | Omitted:
        is_read.append(self.id)
        if sum(image.id in is_read for image in blocks[1]) == 3 * BATCH:
            ahead.set()
        return read(self)

    monkeypatch.setattr(Encoder, "embed", watch)
    ahead.set()
    expected = [actor.work(block) for block in blocks]
    in_order = computed[:]
    assert len(in_order) == 8
    computed.clear()
    computing.clear()
    ahead.clear()
    monkeypatch.setattr(ImageFile, "read", watch_read)
    with ThreadPoolExecutor(2) as ray:
        first = ray.submit(actor.work, blocks[0])
        assert computing.wait(60)
        second = ray.submit(actor.work, blocks[1])
        assert first.result().rows.equals(expected[0].rows)
        assert second.result().rows.equals(expected[1].rows)
    assert computed == in_order


@pytest.mark.usefixtures("_same_threads")
def test_an_empty_folder_where_nothing_is_mounted_is_no_folder_of_broken_images(
    weights: dict[str, bytes], scenes: Path, tmp_path: Path
) -> None:
    listed = shutil.copytree(scenes, tmp_path / "scenes")
    block = [ImageFolder(listed).image(place) for place in range(3)]
    shutil.rmtree(listed)
    listed.mkdir()
    actor = embedder(weights, listed, 1)
    with pytest.raises(ClusterError) as refused:
        actor.work(block)
    assert str(refused.value) == (
        f"{socket.gethostname()}: has none of 3 images below {listed}/. Images and scenes must lie on a disk "
        "that all machines of the cluster share, under the same path, or on object storage."
    )
    # Links to nothing are broken images, and one file is enough to see the disk.
    block[0].path.parent.mkdir(parents=True)
    block[0].path.symlink_to("nowhere")
    assert [image.id for image in actor.work(block).not_embedded] == [image.id for image in block]


def test_windows_are_looked_for_by_the_file_of_their_scene(tmp_path: Path) -> None:
    write_tiff(tmp_path / "scenes" / "a.tif", ramp(3, 40, 40))
    image = SceneArchive(tmp_path / "scenes", WindowGrid(32)).image(0)
    assert image.may_be_there()
    (tmp_path / "scenes" / "a.tif").unlink()
    assert not image.may_be_there()
