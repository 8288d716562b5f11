"""Features of a frozen backbone are saved while they are computed."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from marcir.cli import main
from marcir.cli.train import read_config
from marcir.config import Config
from marcir.errors import ConfigError
from marcir.model.encoder import Encoder
from marcir.training import inputs as examples
from marcir.training import parts
from marcir.training.build import build_encoder
from marcir.training.inputs import FrozenFeatures
from marcir.training.task import open_task

BATCHES, VERSIONS = 4, 4  # 120 images in batches of 32; whole, and three augmented versions
ALL = BATCHES * VERSIONS

# Embeds until so many batches are done; then it says so and waits to be killed.
CHILD = """
import sys, time
from marcir.model.encoder import Encoder
from marcir.training import inputs as examples
from marcir.training import parts
from marcir.training.build import build_encoder
from marcir.training.task import open_task
from marcir.cli.train import read_config

examples.BATCH, parts.PART_SECONDS = 32, 0.0
batches, extract_features = int(sys.argv[1]), Encoder.extract_features

def counted(self, images):
    global batches
    if batches == 0:
        print("waiting", flush=True)
        time.sleep(600)
    batches -= 1
    return extract_features(self, images)

Encoder.extract_features = counted
config = read_config(sys.argv[2:])
task = open_task(config)
examples.FrozenFeatures(task, build_encoder(config.encoder, task, config.train.seed), config)
"""


@pytest.fixture(scope="module")
def frozen(settings: list[str]) -> list[str]:
    return [
        *settings,
        *("--encoder.weights", "random", "--encoder.frozen", "true", "--encoder.frozen_views", "3"),
    ]


@pytest.fixture(scope="module")
def unbroken(frozen: list[str], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a run that was not interrupted, made in a cache of its own."""
    cache = tmp_path_factory.mktemp("unbroken")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARCIR_CACHE", str(cache))
        patch.setattr(examples, "BATCH", 32)
        compute(frozen)
    return content(cache)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "BATCH", 32)
    monkeypatch.setattr(parts, "PART_SECONDS", 0.0)  # a part after every batch


def compute(arguments: list[str]) -> FrozenFeatures:
    config: Config = read_config(arguments)
    task = open_task(config)
    return FrozenFeatures(task, build_encoder(config.encoder, task, config.train.seed), config)


def content(cache: Path) -> bytes:
    """The one file of features; nothing else may be left."""
    (file,) = (cache / "features").glob("*.safetensors")
    assert part_files(cache) == []
    assert not list((cache / "features").glob(".*"))
    return file.read_bytes()


def part_files(cache: Path, kind: str = "") -> list[Path]:
    return sorted(path for path in (cache / "features" / "parts").glob("*") if kind in path.name)


class Stop(BaseException):
    """An interruption from outside, as Ctrl-C."""


class Counted:
    """`Encoder.extract_features` that counts its calls, and fails after so many."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, self.last = 0, sys.maxsize
        self.raises: type[BaseException] = Stop
        extract_features: Callable[[Encoder, Tensor], Tensor] = Encoder.extract_features

        def counted(encoder: Encoder, images: Tensor) -> Tensor:
            if self.calls == self.last:
                raise self.raises
            self.calls += 1
            return extract_features(encoder, images)

        monkeypatch.setattr(Encoder, "extract_features", counted)

    def interrupt(self, arguments: list[str], after: int) -> None:
        self.last = after
        with pytest.raises(Stop):
            compute(arguments)
        self.calls, self.last = 0, sys.maxsize


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def test_interrupted_features_are_completed_with_the_same_bits(
    frozen: list[str], unbroken: bytes, own_cache: Path, counted: Counted
) -> None:
    counted.interrupt(frozen, after=6)
    assert len(part_files(own_cache, "features")) == 6
    assert len(part_files(own_cache, "statistics")) == 1
    assert not list((own_cache / "features").glob("*.safetensors"))
    compute(frozen)
    assert counted.calls == ALL - 6
    assert content(own_cache) == unbroken


def test_ctrl_c_keeps_the_features_that_are_not_saved_yet_and_says_how_to_go_on(
    frozen: list[str],
    own_cache: Path,
    tmp_path: Path,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(parts, "PART_SECONDS", 1e9)
    counted.last, counted.raises = 6, KeyboardInterrupt
    assert main(["train", *frozen, "--train.epochs", "1", "--run", str(tmp_path / "run")]) == 130
    *_, before, last = capsys.readouterr().err.splitlines()
    assert before.startswith("stopped; computed features are kept. To resume: marcir train ")
    assert last == "marcir: stopped."
    assert len(part_files(own_cache, "features")) == 1
    counted.calls, counted.last = 0, sys.maxsize
    compute(frozen)
    assert counted.calls == ALL - 6


def test_several_interruptions_are_as_good_as_one(
    frozen: list[str], unbroken: bytes, own_cache: Path, counted: Counted
) -> None:
    for after in (0, 1, 5, 9):
        counted.interrupt(frozen, after)
    compute(frozen)
    assert counted.calls == ALL - 1 - 5 - 9
    assert content(own_cache) == unbroken


def test_features_of_a_killed_process_are_completed_with_the_same_bits(
    frozen: list[str], unbroken: bytes, own_cache: Path, counted: Counted
) -> None:
    command = [sys.executable, "-c", CHILD, "7", *frozen]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "waiting\n"
        killed.send_signal(signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    saved = len([path for path in part_files(own_cache, "features") if not path.name.startswith(".")])
    assert 5 <= saved <= 7  # the last ones may still be on their way from the thread that computes them
    compute(frozen)
    assert counted.calls == ALL - saved
    assert content(own_cache) == unbroken


def test_batch_norm_statistics_of_an_interrupted_run_are_used_again(
    frozen: list[str],
    unbroken: bytes,
    own_cache: Path,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted.interrupt(frozen, after=0)

    def fit(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(examples, "fit_batch_norm", fit)
    compute(frozen)
    assert content(own_cache) == unbroken


def truncate(part: Path) -> None:
    part.write_bytes(part.read_bytes()[:-100])


def flip_a_bit(part: Path) -> None:
    found = bytearray(part.read_bytes())
    found[-1] ^= 1
    part.write_bytes(found)


def empty(part: Path) -> None:
    part.write_bytes(b"")


def replace_by_a_foreign_one(part: Path) -> None:
    parts.Parts(part.parent, "foreign", "another key").save({"a": Tensor([1.0])})
    (foreign,) = part.parent.glob("foreign-*")
    foreign.replace(part)


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, empty, replace_by_a_foreign_one])
@pytest.mark.parametrize(("kind", "again"), [("features", 1), ("statistics", 0)])
def test_damaged_and_foreign_parts_are_made_again(
    damage: Callable[[Path], None],
    kind: str,
    again: int,
    frozen: list[str],
    unbroken: bytes,
    own_cache: Path,
    counted: Counted,
) -> None:
    counted.interrupt(frozen, after=6)
    damage(part_files(own_cache, kind)[0])
    compute(frozen)
    assert counted.calls == ALL - 6 + again
    assert content(own_cache) == unbroken


def test_parts_with_other_batch_norm_statistics_are_made_again(
    frozen: list[str], unbroken: bytes, own_cache: Path, counted: Counted
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examples, "fit_batch_norm", lambda *_: None)
        counted.interrupt(frozen, after=6)
    part_files(own_cache, "statistics")[0].unlink()
    compute(frozen)
    assert counted.calls == ALL
    assert content(own_cache) == unbroken


def test_a_short_job_saves_no_parts_of_features(
    frozen: list[str], unbroken: bytes, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PART_SECONDS", 30.0)
    saved: list[str] = []
    written = parts.Parts.save

    def save(self: parts.Parts, tensors: Mapping[str, Tensor]) -> None:
        saved.append(self._name)
        written(self, tensors)

    monkeypatch.setattr(parts.Parts, "save", save)
    compute(frozen)
    assert [name.split("-")[1] for name in saved] == ["statistics"]
    assert content(own_cache) == unbroken


def test_parts_left_beside_complete_features_are_removed(
    frozen: list[str], unbroken: bytes, own_cache: Path, counted: Counted
) -> None:
    compute(frozen)
    (file,) = (own_cache / "features").glob("*.safetensors")
    for left in (
        f"parts/{file.stem}-features-0123456789abcdef.safetensors",
        f"parts/.{file.stem}-features-0123456789abcdef.safetensors.0123abcd.part",
        f".{file.name}.0123abcd.part",
    ):
        (own_cache / "features" / left).write_bytes(b"half")
    counted.calls = 0
    compute(frozen)
    assert counted.calls == 0
    assert content(own_cache) == unbroken


def test_parts_of_others_are_removed_once_nobody_has_used_them_for_30_days(
    frozen: list[str], own_cache: Path, counted: Counted
) -> None:
    folder = own_cache / "features" / "parts"
    folder.mkdir(parents=True)
    old, new = folder / "aaaa-features-1.safetensors", folder / "bbbb-features-1.safetensors"
    for path, days in ((old, 31), (new, 29)):
        path.write_bytes(b"part")
        os.utime(path, (time.time() - days * 86400,) * 2)
    compute(frozen)
    assert part_files(own_cache) == [new]


def test_of_two_that_start_together_one_embeds_and_the_other_waits(
    frozen: list[str], unbroken: bytes, own_cache: Path, counted: Counted
) -> None:
    config = read_config(frozen)
    task = open_task(config)
    encoders = [build_encoder(config.encoder, task, config.train.seed) for _ in range(2)]
    threads = [threading.Thread(target=FrozenFeatures, args=(task, encoder, config)) for encoder in encoders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted.calls == ALL
    assert content(own_cache) == unbroken


def test_a_full_disk_is_one_error_and_keeps_what_is_saved(
    frozen: list[str], unbroken: bytes, own_cache: Path, counted: Counted
) -> None:
    open_task(read_config(frozen))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(unbroken) - 1, hard))
    try:
        with pytest.raises(ConfigError, match="cannot be written .* Set MARCIR_CACHE"):
            compute(frozen)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    counted.calls = 0
    compute(frozen)
    assert counted.calls == 0
    assert content(own_cache) == unbroken


def test_progress_counts_images_and_what_was_done_before(
    frozen: list[str], own_cache: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted.interrupt(frozen, after=6)
    shown: dict[str, Any] = {}

    def track(items: Iterable[Any], total: int, what: str, *, done: int, size: Any) -> Iterator[Any]:
        shown.update(total=total, done=done, left=0)
        for item in items:
            yield item
            shown["left"] += size(item)

    monkeypatch.setattr(examples, "track", track)
    compute(frozen)
    assert shown == {"total": 480, "done": 6 * 32, "left": 480 - 6 * 32}
