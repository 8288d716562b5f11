"""Embedding on a cluster: the same store as of one process, whatever is killed meanwhile."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from cluster.conftest import TwoNodes
from geo.tiffs import ramp, write_tiff
from marcir.cli import main
from marcir.cluster.actor_pool import ActorPool
from marcir.cluster.connection import connect
from marcir.cluster.embedding import ClusterEmbedding
from marcir.data.image_folder import ImageFile, ImageFolder
from marcir.data.image_source import ImageContent, Omitted, SourceImage
from marcir.errors import ClusterError
from marcir.geo import SceneArchive, WindowGrid
from marcir.model.embed import embed_folder
from marcir.model.model import model_files
from marcir.search.image_rows import EmbedRows, NotEmbedded
from marcir.search.index import Indexed, index
from marcir.search.lance import LanceStore
from marcir.search.records import Row
from marcir.types import Embeddings

# Ray leaves sockets and processes to the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("own_cache", "two_nodes"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

BATCH = 4  # 19 blocks of 8 batches: enough to lose some


@pytest.fixture(scope="module")
def expected(archive: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """The rows that one process makes."""
    store = tmp_path_factory.mktemp("expected") / "store"
    index(archive, store, model=model, batch_size=BATCH)
    return rows_of(store)


def rows_of(store: Path) -> dict[str, Row]:
    opened = LanceStore(store)
    ids = sorted(opened.contents())
    assert opened.count() == len(ids), "an id is there twice"
    return {row.id: row for row in opened.get(ids)}


def assert_rows(store: Path, expected: Mapping[str, Row]) -> None:
    """The same rows; vectors bit by bit, since blocks are whole batches of the same images."""
    found = rows_of(store)
    assert found.keys() == expected.keys()
    assert len(found) == 600
    for image, row in expected.items():
        assert np.array_equal(found[image].vector, row.vector), image
        assert (found[image].content, found[image].thumbnail) == (row.content, row.thumbnail)


def after_blocks(count: int, embed: EmbedRows, do: Callable[[], None]) -> EmbedRows:
    """Embed, and do something when so many blocks have arrived."""

    def rows(
        model: Mapping[str, bytes],
        files: Sequence[SourceImage],
        batch_size: int,
        note: Callable[[NotEmbedded], None],
    ) -> Iterator[list[Row]]:
        for number, batch in enumerate(embed(model, files, batch_size, note)):
            if number == count:
                do()
            yield batch

    return rows


def index_on_cluster(archive: Path, store: Path, model: Path, do: Callable[[], None]) -> Indexed:
    """Index, and do something after the second block."""
    with connect("auto") as ray:
        embed = after_blocks(2, ClusterEmbedding(ray).rows, do)
        return index(archive, store, model=model, batch_size=BATCH, embed=embed)


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)


def test_both_nodes_embed_and_rows_are_those_of_one_process(
    archive: Path, model: Path, expected: dict[str, Row], two_nodes: TwoNodes, tmp_path: Path
) -> None:
    nodes: set[int] = set()

    def look() -> None:
        wait_until(lambda: len(two_nodes.actors()) == 2)
        nodes.update(two_nodes.actors().values())

    done = index_on_cluster(archive, tmp_path / "store", model, look)
    assert (done.added, done.unchanged, done.broken) == (600, 0, {})
    assert nodes == set(two_nodes.raylets())
    assert_rows(tmp_path / "store", expected)
    wait_until(lambda: not two_nodes.actors())


def test_a_second_run_embeds_what_is_new_and_names_broken_files(
    archive: Path, model: Path, tmp_path: Path
) -> None:
    images = Path(shutil.copytree(archive, tmp_path / "images"))
    files = sorted((images / "images").iterdir())
    for file in files[100:]:
        file.unlink()
    command = ["index", "--cluster", "auto", "--images", str(images), "--store", str(tmp_path / "store")]
    assert main([*command, "--model", str(model)]) == 0
    before = rows_of(tmp_path / "store")
    files[0].write_bytes(b"no image")
    shutil.copy(files[1], images / "images" / "new.png")
    assert main([*command, "--labels", str(images / "labels.csv")]) == 1
    after = rows_of(tmp_path / "store")
    assert after.keys() - before.keys() == {"images/new.png"}
    assert all(after[image].labels for image in before if image != "images/" + files[0].name)
    # Its batch is another one, and with it the order of sums in the network.
    twin = before["images/" + files[1].name]
    assert np.allclose(after["images/new.png"].vector, twin.vector, atol=1e-5)


def test_a_killed_actor_is_replaced_and_its_blocks_are_done_again(
    archive: Path, model: Path, expected: dict[str, Row], two_nodes: TwoNodes, tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill() -> None:
        killed.extend(two_nodes.actors())
        os.kill(killed[0], signal.SIGKILL)

    done = index_on_cluster(archive, tmp_path / "store", model, kill)
    assert done.added == 600
    assert killed
    assert_rows(tmp_path / "store", expected)


def test_a_lost_node_costs_only_its_unfinished_blocks(
    archive: Path, model: Path, expected: dict[str, Row], two_nodes: TwoNodes, tmp_path: Path
) -> None:
    def kill() -> None:
        wait_until(lambda: two_nodes.raylets()[1] in two_nodes.actors().values())
        os.kill(two_nodes.raylets()[1], signal.SIGKILL)

    try:
        done = index_on_cluster(archive, tmp_path / "store", model, kill)
    finally:
        two_nodes.cluster.remove_node(two_nodes.second, allow_graceful=False)
        two_nodes.second = two_nodes.cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    assert done.added == 600
    assert_rows(tmp_path / "store", expected)


def test_after_a_killed_driver_the_same_command_embeds_the_rest(
    archive: Path, model: Path, expected: dict[str, Row], two_nodes: TwoNodes, tmp_path: Path
) -> None:
    options = ["--images", archive, "--store", tmp_path / "store", "--model", model, "--batch-size", BATCH]
    script = Path(__file__).with_name("killed_driver.py")
    killed = subprocess.run(
        [sys.executable, script, "3", "SIGKILL", "--cluster", "auto", *map(str, options)], timeout=300
    )
    assert killed.returncode == -signal.SIGKILL
    stored = len(LanceStore(tmp_path / "store").contents())
    assert 3 * 64 <= stored < 600
    wait_until(lambda: not two_nodes.actors())  # they end with their driver
    done = index_on_cluster(archive, tmp_path / "store", model, lambda: None)
    assert (done.added, done.unchanged) == (600 - stored, stored)
    assert_rows(tmp_path / "store", expected)


def test_an_interrupt_keeps_what_has_arrived_and_ends_the_actors(
    archive: Path, model: Path, two_nodes: TwoNodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index_on_cluster(archive, tmp_path / "store", model, interrupt)
    stored = LanceStore(tmp_path / "store").count()
    assert stored == 2 * 8 * BATCH
    assert f"stopping: {stored} images are in the store" in capsys.readouterr().err
    wait_until(lambda: not two_nodes.actors())


@pytest.mark.parametrize("address", ["auto", "local"])
def test_sigterm_commits_what_has_arrived_though_ray_handles_it_otherwise(
    archive: Path, model: Path, address: str, tmp_path: Path
) -> None:
    options = ["--images", archive, "--store", tmp_path / "store", "--model", model, "--cluster", address]
    script = Path(__file__).with_name("killed_driver.py")
    command = [sys.executable, script, "3", "SIGTERM", *map(str, options), "--batch-size", str(BATCH)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 143, ended.stderr
    stored = LanceStore(tmp_path / "store").count()
    assert 3 * 64 < stored < 600
    assert f"stopping: {stored} images are in the store. The same command continues." in ended.stderr


def test_embed_through_the_client_server_writes_the_vectors_of_one_process(
    archive: Path, model: Path, client_address: str, tmp_path: Path
) -> None:
    one, _ = embed_folder(model, archive, tmp_path / "one.npz", batch_size=BATCH)
    options = ["--images", archive, "--model", model, "--out", tmp_path / "many.npz", "--batch-size", BATCH]
    # In a process of its own: a connection of this kind changes the module `ray` for good.
    command = [sys.executable, "-m", "marcir", "embed", "--cluster", client_address, *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    many = Embeddings.load(tmp_path / "many.npz")
    assert many.ids == one.ids
    assert np.array_equal(many.vectors, one.vectors)


def test_a_block_that_ends_every_actor_is_given_up() -> None:
    class Dying:
        def start(self) -> None: ...

        def work(self, block: str) -> str:
            if block == "deadly":
                os._exit(1)
            return block

    with connect("auto") as ray:
        pool = ActorPool[str](ray, ray.remote(Dying).options(num_cpus=1).remote, 2)
        with pytest.raises(ClusterError, match="block 2 was lost 3 times with its process"):
            dict(pool.run(["harmless", "deadly"]))


def test_an_actor_reads_a_block_while_it_has_another_one(archive: Path, model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as meeting, ThreadPoolExecutor(1) as pool:
        meeting.settimeout(60)
        address = meeting.getsockname()

        class Meeting(ImageFile):
            def read(self) -> ImageContent | Omitted:
                with socket.create_connection(address, 120) as here:
                    here.recv(1)  # until both are there
                return super().read()

        class OneActor(ClusterEmbedding):
            actors = 1

        def meet() -> None:
            with meeting.accept()[0], meeting.accept()[0]:
                pass

        images = [ImageFolder(archive).image(place) for place in range(2)]
        met = pool.submit(meet)
        with connect("auto") as ray:
            meeting_images = [Meeting(image.id, image.path) for image in images]
            found = OneActor(ray).rows(model_files(model), meeting_images, 1, lambda _: None)
            assert sorted(row.id for rows in found for row in rows) == [image.id for image in images]
        met.result()


def test_a_folder_that_the_machines_do_not_have_is_one_line(model: Path, tmp_path: Path) -> None:
    with connect("auto") as ray:
        file = ImageFile("a.png", tmp_path / "nowhere" / "a.png")
        found = ClusterEmbedding(ray).rows(model_files(model), [file], 1, lambda _: None)
        with pytest.raises(ClusterError, match="nowhere/. Images and scenes must lie on a disk that all"):
            list(found)


def test_windows_of_scenes_are_those_of_one_process(model: Path, tmp_path: Path) -> None:
    pixels = ramp(3, 200, 200)
    pixels[:, :32, :32] = 0
    write_tiff(tmp_path / "scenes" / "a.tif", pixels, nodata=0)
    (tmp_path / "scenes" / "broken.tif").write_bytes(b"no TIFF")
    source = SceneArchive(tmp_path / "scenes", WindowGrid(32))
    index(source, tmp_path / "one", model=model, batch_size=BATCH)
    with connect("auto") as ray:
        embed = ClusterEmbedding(ray).rows
        done = index(source, tmp_path / "many", model=model, batch_size=BATCH, embed=embed)
        assert (done.added, done.skipped, len(done.broken)) == (48, 1, 1)
    found, expected = rows_of(tmp_path / "many"), rows_of(tmp_path / "one")
    assert found.keys() == expected.keys()
    for image, row in expected.items():
        assert np.allclose(found[image].vector, row.vector, atol=1e-5)
        assert (found[image].content, found[image].footprint) == (row.content, row.footprint)


def test_a_folder_of_scenes_that_the_machines_do_not_have_is_one_line(model: Path, tmp_path: Path) -> None:
    write_tiff(tmp_path / "scenes" / "a.tif", ramp(3, 40, 40))
    image = SceneArchive(tmp_path / "scenes", WindowGrid(32)).image(0)
    shutil.rmtree(tmp_path / "scenes")
    with connect("auto") as ray:
        found = ClusterEmbedding(ray).rows(model_files(model), [image], 1, lambda _: None)
        with pytest.raises(ClusterError, match="scenes. Images and scenes must lie on a disk that all"):
            list(found)
