"""Shards: one store filled by several processes, each with its part of the images."""

import resource
import shutil
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marcir.cli import main
from marcir.errors import ConfigError, StoreError
from marcir.search import lance_io
from marcir.search.index import Indexed, index
from marcir.search.lance import LanceStore
from marcir.search.lance_io import sole_writer
from marcir.search.records import Row
from marcir.search.shard import Shard
from search.index_process import announcing_index
from search.processes import start_process

pytestmark = pytest.mark.usefixtures("own_cache")


def rows_of(store: Path | str) -> dict[str, Row]:
    """All rows by id; none is double."""
    opened = LanceStore(store)
    assert sorted(opened._table.to_arrow()["id"].to_pylist()) == sorted(set(opened.ids()))
    return {row.id: row for row in opened.get(opened.ids())}


def assert_same_rows(store: Path | str, expected: Path) -> None:
    found, wanted = rows_of(store), rows_of(expected)
    assert found.keys() == wanted.keys()
    for name, row in wanted.items():
        # Other batches: the last bits of a vector may differ.
        assert np.allclose(row.vector, found[name].vector, atol=1e-5)
        assert (row.labels, row.content) == (found[name].labels, found[name].content)


def ids_of(images: Path) -> list[str]:
    return sorted(path.relative_to(images).as_posix() for path in images.rglob("*.png"))


# ---- Which images ---------------------------------------------------------------------------------


def test_every_image_is_in_exactly_one_shard() -> None:
    names = [f"a/{place}.png" for place in range(1000)] + ["ü.png", "caf\udce9.png"]
    for count in (1, 2, 3, 7, 1000):
        shards = [Shard(number, count) for number in range(count)]
        assert all(sum(shard.holds(name) for shard in shards) == 1 for name in names)
    sizes = [sum(Shard(number, 4).holds(name) for name in names) for number in range(4)]
    assert min(sizes) > 200


def test_the_shard_of_an_image_is_the_same_on_every_machine_and_in_every_version() -> None:
    names = ["images/000000.png", "images/000001.png", "ü.png", "caf\udce9.png"]
    found = [next(number for number in range(100) if Shard(number, 100).holds(name)) for name in names]
    assert found == [39, 47, 38, 0]


@pytest.mark.parametrize(
    "text", ["4/4", "-1/4", "1", "1/", "/4", "0/0", "a/b", "1/4/8", "", "0.5/2", "\uff11/2"]
)
def test_a_shard_that_there_is_not_is_refused_in_one_line(
    text: str, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["index", "--images", str(images), "--store", str(tmp_path / "s"), f"--shard={text}"]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert f"--shard {text}: must be I/N, with I from 0 to N - 1." in printed
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("shard", [(4, 4), (-1, 4), (0, 0), (0.5, 2), (True, 2)])
def test_python_refuses_a_shard_that_there_is_not(shard: Any, images: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="shard"):
        index(images, tmp_path / "s", shard=shard)


def test_the_recall_is_not_measured_by_every_shard(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["index", "--images", str(images), "--store", str(tmp_path), "--shard=0/2", "--check-recall"])
    assert "--check-recall goes without --shard" in capsys.readouterr().err


# ---- One store -------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def whole(model: Path, scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a run without shards; not to be changed."""
    store = tmp_path_factory.mktemp("whole") / "store"
    index(scenes, store, model=model, labels=scenes / "labels.csv")
    return store


def test_all_shards_make_the_store_of_one_run(
    model: Path, images: Path, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(number: int, count: int) -> Indexed:
        done = index(images, tmp_path / "s", model=model, labels=images / "labels.csv", shard=(number, count))
        assert (done.broken, done.gone) == ({}, 0)
        assert len(done.notes) == (count > 1), "shards leave the map to a run over the whole"
        return done

    sizes = [sum(Shard(number, 3).holds(name) for name in ids_of(images)) for number in range(3)]
    for number in range(3):
        done = run(number, 3)
        assert (done.added, done.unchanged, done.rows) == (sizes[number], 0, sum(sizes[: number + 1]))
    assert_same_rows(tmp_path / "s", whole)
    assert [run(number, 3).unchanged for number in range(3)] == sizes
    # Another number of shards, or none, finds everything up to date.
    assert sum(run(number, 4).unchanged for number in range(4)) == 40
    assert run(0, 1).unchanged == 40
    assert_same_rows(tmp_path / "s", whole)


def test_a_shard_run_begun_with_another_number_of_shards_leaves_no_row_double(
    model: Path, images: Path, whole: Path, tmp_path: Path
) -> None:
    labels = images / "labels.csv"
    index(images, tmp_path / "s", model=model, labels=labels, shard=(0, 2))
    for number in range(3):
        index(images, tmp_path / "s", model=model, labels=labels, shard=(number, 3))
    assert_same_rows(tmp_path / "s", whole)


def test_only_missing_files_of_a_shard_are_counted_and_pruned(
    model: Path, images: Path, tmp_path: Path
) -> None:
    index(images, tmp_path / "s", model=model)
    gone = [name for number in range(2) for name in ids_of(images) if Shard(number, 2).holds(name)][::5]
    for name in gone:
        (images / name).unlink()
    own = [name for name in gone if Shard(1, 2).holds(name)]
    assert 0 < len(own) < len(gone)
    done = index(images, tmp_path / "s", model=model, shard=(1, 2))
    assert (done.gone, done.pruned) == (len(own), 0)
    done = index(images, tmp_path / "s", model=model, shard=(1, 2), prune=True)
    assert (done.gone, done.pruned, done.rows) == (0, len(own), 40 - len(own))
    assert set(rows_of(tmp_path / "s")) == (set(ids_of(images)) | set(gone)) - set(own)


def test_a_shard_without_images_does_nothing(model: Path, images: Path, tmp_path: Path) -> None:
    empty = next(number for number in range(500) if not any(map(Shard(number, 500).holds, ids_of(images))))
    done = index(images, tmp_path / "s", model=model, shard=(empty, 500))
    assert (done.rows, done.added, done.unchanged) == (0, 0, 0)


def test_the_program_says_which_shard_it_did(
    model: Path, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count = sum(map(Shard(0, 2).holds, ids_of(images)))
    options = ["--model", str(model), "--images", str(images), "--store", str(tmp_path / "s")]
    assert main(["index", *options, "--shard", "0/2"]) == 0
    assert f"{count} images in the store; of shard 0/2: {count} new, 0 changed" in capsys.readouterr().out


def test_shards_run_at_the_same_time(model: Path, images: Path, whole: Path, tmp_path: Path) -> None:
    def run(number: int) -> Indexed:
        return index(
            images, tmp_path / "s", model=model, labels=images / "labels.csv", shard=(number, 4), batch_size=4
        )

    with ThreadPoolExecutor(4) as pool:
        assert sum(done.added for done in pool.map(run, range(4))) == 40
    assert_same_rows(tmp_path / "s", whole)


def test_a_killed_shard_is_finished_by_the_same_command(
    model: Path, images: Path, whole: Path, tmp_path: Path
) -> None:
    labels = images / "labels.csv"
    process, connection = start_process(announcing_index, imported=["marcir.model.model"])
    assert connection.recv() == "ready"
    connection.send((model, images, tmp_path / "s", labels, (0, 2)))
    steps = [connection.recv()]
    while steps.count("add") < 2:
        steps.append(connection.recv())
    process.kill()
    process.join()
    connection.close()
    assert process.exitcode == -signal.SIGKILL
    index(images, tmp_path / "s", model=model, labels=labels, shard=(1, 2))
    index(images, tmp_path / "s", model=model, labels=labels, shard=(0, 2))
    assert_same_rows(tmp_path / "s", whole)


# ---- Locks ------------------------------------------------------------------------------------------


def refused(uri: Path, shard: Shard) -> str:
    """The one line of a refusal; empty where the lock is free."""
    try:
        with sole_writer(uri, shard):
            return ""
    except StoreError as error:
        return str(error)


def test_one_process_writes_a_shard_and_none_beside_a_run_over_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_io, "_LOOK_SECONDS", 0)
    uri = tmp_path / "s"
    with sole_writer(uri, Shard(0, 2)):
        line = f"{uri}: another marcir index is at work on it. Wait until it is done."
        assert refused(uri, Shard(0, 2)) == line
        assert not refused(uri, Shard(1, 2))
        assert refused(uri, Shard())
    assert not refused(uri, Shard())
    with sole_writer(uri):
        assert refused(uri, Shard(0, 2))
        assert refused(uri, Shard(1, 2))
    assert not refused(uri, Shard(0, 2))


def test_a_run_over_the_whole_looks_at_the_locks_of_more_shards_than_it_may_open_files(
    tmp_path: Path,
) -> None:
    (tmp_path / "s").mkdir()
    for number in range(300):
        (tmp_path / "s" / f".lock-{number}-of-300").touch()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        assert not refused(tmp_path / "s", Shard())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_locks_of_shards_are_no_other_things_in_the_folder(
    model: Path, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimized: list[bool] = []

    def noted(step: Callable[..., None]) -> Callable[..., None]:
        def note(store: LanceStore, shared: bool = False) -> None:
            optimized.append(shared)
            step(store, shared)

        return note

    monkeypatch.setattr(LanceStore, "optimize", noted(LanceStore.optimize))
    index(images, tmp_path / "s", model=model, shard=(0, 2))
    assert index(images, tmp_path / "s", model=model).rows == 40
    assert optimized == [True, False]
    shutil.rmtree(tmp_path / "s" / "images.lance")
    index(images, tmp_path / "s", model=model, shard=(1, 2))
