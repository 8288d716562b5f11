"""A Ray cluster of two nodes on this machine, an archive of 600 images and a tiny model."""

import fcntl
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from marcir.scenes.write import write_scenes
from training_runs import train


@dataclass
class TwoNodes:
    """A head and a second node, one CPU each; the second one can be lost and replaced."""

    cluster: Any
    second: Any
    client_port: int

    def raylets(self) -> list[int]:
        """Process ids of the nodes: the head first."""
        nodes = [self.cluster.head_node, self.second]
        return [node.all_processes["raylet"][0].process.pid for node in nodes]

    def actors(self) -> dict[int, int]:
        """Process ids of the nodes by those of the actors that embed."""
        return self.processes("_Embedder")

    def processes(self, name: str) -> dict[int, int]:
        """Process ids of the nodes by those of actors or tasks of that name."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                title = (folder / "cmdline").read_bytes()
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it has ended meanwhile
            if title.startswith(f"ray::{name}".encode()) and parent in self.raylets():
                found[int(folder.name)] = parent
        return found


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[TwoNodes]:
    """The cluster is that of `--cluster auto` in the tests of the module."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # by default a busy machine gives its workers no time
        patch.setenv("OMP_NUM_THREADS", "1")
        from ray.cluster_utils import Cluster

        settings = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args={**settings, "ray_client_server_port": port})
        try:
            second = cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
            cluster.wait_for_nodes()
            patch.setenv("RAY_ADDRESS", cluster.address)
            yield TwoNodes(cluster, second, port)
        finally:
            cluster.shutdown()


@pytest.fixture
def client_address(two_nodes: TwoNodes) -> Iterator[str]:
    """The `ray://` address of the cluster, for one test process at a time.

    Ray starts a process for each client, at the first port from 23000 that is free: two clusters of tests
    that run at the same time would choose the same port.
    """
    with (Path(tempfile.gettempdir()) / "marcir-tests-ray-client.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield f"ray://127.0.0.1:{two_nodes.client_port}"


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 small scenes."""
    folder = tmp_path_factory.mktemp("cluster") / "archive"
    write_scenes(folder, 600, 32, 0)
    return folder


@pytest.fixture(scope="session")
def model(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one epoch with a tiny backbone."""
    run = tmp_path_factory.mktemp("model") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARCIR_CACHE", str(tmp_path_factory.mktemp("model-cache")))
        train(
            *("--data.name", "manifest", "--data.root", str(archive), "--data.size", "24"),
            *("--encoder.backbone", "test_resnet", "--encoder.weights", "none", "--encoder.dim", "16"),
            *("--train.batch_size", "64", "--train.epochs", "1", "--loss.name", "mulsupcon"),
            *("--train.precision", "float32", "--run", str(run)),
        )
    return run
