"""Training on several nodes without a shared disk: two torchrun agents, each with its own folders."""

import csv
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from marcir.scenes.write import write_scenes
from training_runs import MARCIR, progress_of, weights

# A node that takes longer has not noticed that the others have ended.
PATIENCE = 100
# Seconds within which the end of one process ends the others, on a busy machine; collectives wait for
# ten minutes.
SOON = 20.0
EPOCHS = 10


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@dataclass
class Node:
    """A process, perhaps a torchrun agent with one worker, and what they wrote."""

    process: subprocess.Popen[bytes]
    log: Path

    def worker(self) -> int:
        """Process id of an agent's worker."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def heard(self) -> str:
        return self.log.read_text()

    def lines(self) -> list[str]:
        """Messages of marcir."""
        return [line for line in self.heard().splitlines() if line.startswith("marcir: ")]

    def code(self) -> int:
        return self.process.wait(PATIENCE)


@contextmanager
def started(folder: Path, commands: list[tuple[list[str], dict[str, str]]]) -> Iterator[list[Node]]:
    """Run commands on nodes of their own, each with a working directory and a cache."""
    running = []
    for number, (command, variables) in enumerate(commands):
        place = folder / f"node{number}"
        place.mkdir(parents=True, exist_ok=True)
        shared = {"MARCIR_CACHE": str(place / "cache"), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=place, stdout=log, stderr=log, env={**os.environ, **shared, **variables}
            )
        running.append(Node(process, place / "log"))
    try:
        yield running
    finally:
        for node in running:
            with suppress(OSError, IndexError):
                os.kill(node.worker(), signal.SIGKILL)
            node.process.kill()
            node.process.wait()


def agents(folder: Path, *arguments: list[str], restarts: int = 0) -> AbstractContextManager[list[Node]]:
    """A torchrun agent for each list of arguments, each with one worker."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(len(arguments))]
    command += ["--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "test"]
    command += ["--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--local-addr", "127.0.0.1"]
    command += ["--max-restarts", str(restarts), "-m", "marcir", "--", "train"]
    # Otherwise processes that are started again read addresses of those before them.
    fresh = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    return started(folder, [([*command, *each, "--run", "run"], fresh) for each in arguments])


def workers(folder: Path, *arguments: list[str]) -> AbstractContextManager[list[Node]]:
    """A worker for each list of arguments, as torchrun starts it."""
    shared = {"WORLD_SIZE": str(len(arguments)), "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "TORCHELASTIC_RUN_ID": "test"}
    return started(
        folder,
        [
            (
                [str(MARCIR), "train", *each, "--run", "run"],
                {**shared, "RANK": str(rank), "GROUP_RANK": str(rank)},
            )
            for rank, each in enumerate(arguments)
        ],
    )


def until(condition: Callable[[], bool], running: list[Node]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        heard = "\n".join(node.heard() for node in running)
        assert time.monotonic() < end, heard
        assert all(node.process.poll() is None for node in running), heard
        time.sleep(0.02)  # polling other processes


def epochs_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "node0" / "run" / "history.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def small_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 scenes of 24 pixels."""
    folder = tmp_path_factory.mktemp("nodes") / "scenes"
    write_scenes(folder, 60, 24, 0)
    return folder


@pytest.fixture(scope="module")
def run_settings(small_archive: Path) -> list[str]:
    """Epochs of two batches."""
    return [
        *("--data.name", "manifest", "--data.root", str(small_archive), "--data.size", "24"),
        *("--encoder.backbone", "test_resnet", "--encoder.weights", "none", "--encoder.dim", "16"),
        *("--train.batch_size", "20", "--train.epochs", str(EPOCHS), "--loss.name", "lproto"),
        *("--train.precision", "float32"),
    ]


@pytest.fixture(scope="module")
def unbroken(run_settings: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two nodes that was never stopped."""
    folder = tmp_path_factory.mktemp("unbroken")
    with agents(folder, run_settings, run_settings) as running:
        assert [node.code() for node in running] == [0, 0], running[0].heard() + running[1].heard()
    return folder


def same_model(folder: Path, unbroken: Path) -> bool:
    ours, expected = weights(folder / "node0" / "run"), weights(unbroken / "node0" / "run")
    return ours.keys() == expected.keys() and all(torch.equal(ours[name], expected[name]) for name in ours)


@pytest.mark.slow
def test_a_node_without_the_state_gets_it_from_the_first_process(
    run_settings: list[str], unbroken: Path, tmp_path: Path
) -> None:
    shorter = [*run_settings, "--train.epochs", "4"]
    with agents(tmp_path, shorter, shorter) as running:
        assert [node.code() for node in running] == [0, 0]
    assert not (tmp_path / "node1" / "run").exists()
    with agents(tmp_path, run_settings, run_settings) as running:
        assert [node.code() for node in running] == [0, 0]
    losses = [[row["loss"] for row in epochs_of(folder)] for folder in (tmp_path, unbroken)]
    assert losses[0] == losses[1]
    assert same_model(tmp_path, unbroken)
    assert progress_of(tmp_path / "node0" / "run")["epoch"] == EPOCHS


@pytest.mark.slow
def test_a_run_whose_processes_are_killed_is_started_again_by_torchrun_and_ends_with_the_same_bits(
    run_settings: list[str], unbroken: Path, tmp_path: Path
) -> None:
    with agents(tmp_path, run_settings, run_settings, restarts=3) as running:
        for node, epoch in zip(reversed(running), (2, 5), strict=True):
            until(lambda epoch=epoch: newest_epoch(tmp_path) >= epoch, running)
            os.kill(node.worker(), signal.SIGKILL)
        heard = [node.code() for node in running], [node.heard() for node in running]
        assert heard[0] == [0, 0], "".join(heard[1])
        said = [line for node in running for line in node.lines()]
    assert len(said) == 2, said
    assert said[0].startswith("marcir: process 1 of 2 on ")
    assert said[1].startswith(
        "marcir: process 0 of 2: it was killed, or its machine or the network was lost."
    )
    assert same_model(tmp_path, unbroken)
    assert not (tmp_path / "node1" / "run").exists()


def newest_epoch(folder: Path) -> int:
    checkpoints = (folder / "node0" / "run" / "last").glob("epoch-*")
    return max((int(path.name.split("-")[1]) for path in checkpoints), default=0)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_process_ends_the_other_one_soon_with_one_message(
    killed: int, run_settings: list[str], tmp_path: Path
) -> None:
    endless = [*run_settings, "--train.epochs", "5000"]
    with workers(tmp_path, endless, endless) as running:
        until(lambda: newest_epoch(tmp_path) > 0, running)
        running[killed].process.kill()
        assert running[1 - killed].process.wait(SOON) == 2
        (said,) = (line for node in running for line in node.lines())
    assert said.startswith(f"marcir: process {killed} of 2")
    assert said.endswith("The same command resumes from the last checkpoint.")
    assert "Traceback" not in running[1 - killed].heard()


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
@pytest.mark.parametrize("without", [0, 1])
def test_a_process_without_the_device_ends_both_soon_with_one_message(
    without: int, run_settings: list[str], tmp_path: Path
) -> None:
    """It ends before torch has connected the processes."""
    arguments = [run_settings, run_settings]
    arguments[without] = [*run_settings, "--train.device", "cuda"]
    with workers(tmp_path, *arguments) as running:
        assert [node.process.wait(2 * SOON) for node in running] == [2, 2]
        (said,) = (line for node in running for line in node.lines())
    who = f"process 1 of 2 on {socket.gethostname()}: " if without else ""
    assert said == f"marcir: {who}device 'cuda': this machine has 0 such devices. Use auto or cpu."
    assert "Traceback" not in running[0].heard() + running[1].heard()


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["packed", "off"])
def test_a_broken_image_of_one_process_ends_both_soon_with_one_message(
    cache: str, run_settings: list[str], small_archive: Path, tmp_path: Path
) -> None:
    """Packed images are found before training, others during it."""
    copy = shutil.copytree(small_archive, tmp_path / "copy")
    for image in sorted((copy / "images").iterdir())[10:]:
        image.write_bytes(image.read_bytes()[:100])
    endless = [*run_settings, "--train.epochs", "5000", "--data.cache", cache]
    with workers(tmp_path, endless, [*endless, "--data.root", str(copy)]) as running:
        codes = [node.code() for node in running]
        assert codes == [2, 2], running[0].heard() + running[1].heard()
        (said,) = (line for node in running for line in node.lines())
    assert said.startswith(f"marcir: process 1 of 2 on {socket.gethostname()}: ")
    assert str(copy) in said
    assert "Traceback" not in running[0].heard() + running[1].heard()


@pytest.mark.slow
def test_processes_with_other_images_settings_or_a_newer_checkpoint_are_refused(
    run_settings: list[str], small_archive: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(small_archive, tmp_path / "copy")
    first, second = sorted((copy / "images").iterdir())[:2]
    first.write_bytes(second.read_bytes())
    checkpoint = tmp_path / "newer" / "node1" / "run" / "last" / "epoch-00003-step-0000000"
    checkpoint.mkdir(parents=True)
    for name, others, reason in (
        ("images", ["--data.root", str(copy)], f"{copy}: the images are not those of the first process."),
        ("settings", ["--train.lr", "0.5"], "train.lr = 0.5, but the first process has 0.001."),
        ("newer", [], f"has the checkpoint {checkpoint.name} here, but none on the machine of the first"),
    ):
        with workers(tmp_path / name, run_settings, [*run_settings, *others]) as running:
            assert [node.code() for node in running] == [2, 2], name
            (said,) = (line for node in running for line in node.lines())
        assert reason in said
        assert not (tmp_path / name / "node0" / "run").exists()
