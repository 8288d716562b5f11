"""Several people at once, and processes that are killed: nothing that was acknowledged is lost."""

import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from marcir.annotations import Annotations

WRITER = Path(__file__).with_name("writer.py")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.store.annotations.sqlite"


def test_threads_that_change_one_collection_and_one_image_lose_nothing(file: Path) -> None:
    Annotations(file, writable=True).collections.create("Shared")

    def work(person: int) -> None:
        annotations = Annotations(file, writable=True)
        for number in range(10):
            annotations.collections.add("Shared", [f"{person}/{number}", "same"], str(person))
            annotations.collections.remove("Shared", [f"{person}/{number - 1}"])
            annotations.labels.set([(f"label {person}", "present", ["same"])], str(person))
            annotations.labels.set([(f"label {person}", "absent", ["same"])], str(person))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    annotations = Annotations(file)
    assert set(annotations.collections.images("Shared")) == {"same", *(f"{each}/9" for each in range(8))}
    assert annotations.labels.states() == {"same": {f"label {each}": "absent" for each in range(8)}}
    assert len(annotations.labels.history("same")) == 8 * 20


def test_a_file_that_many_make_at_once_is_made_once(file: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        list(
            pool.map(
                lambda number: Annotations(file, writable=True).collections.create(f"{number}"), range(16)
            )
        )
    assert len(Annotations(file).collections.all()) == 16


@pytest.mark.slow
def test_processes_that_are_killed_while_saving_lose_nothing_that_they_reported(file: Path) -> None:
    Annotations(file, writable=True).collections.create("Shared")
    reported: dict[str, int] = {}
    for round_ in range(3):
        names = [f"{round_}-{each}" for each in range(2)]
        running = {
            name: subprocess.Popen([sys.executable, WRITER, file, name], stdout=subprocess.PIPE, text=True)
            for name in names
        }
        for process in running.values():
            assert process.stdout is not None
            for _ in range(5):
                process.stdout.readline()
        for name, process in running.items():
            os.kill(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            # A line that was cut off was not reported; five were read before.
            reported[name] = max(
                [4, *(int(line) for line in output.splitlines(keepends=True) if line[-1] == "\n")]
            )
    annotations = Annotations(file)
    images, states = set(annotations.collections.images("Shared")), annotations.labels.states()
    for name, last in reported.items():
        for number in range(last + 1):
            assert f"{name}/{number}" in images
            assert states[f"{name}/{number}"] == {"ship": "present"}
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        logged = "SELECT count(*) FROM changes"
        assert (
            connection.execute(logged).fetchall()
            == connection.execute("SELECT count(*) FROM states").fetchall()
        )
    assert Annotations(file, writable=True).collections.create("After").images == 0


def test_an_error_in_the_middle_of_a_change_leaves_everything_as_it_was(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotations = Annotations(file, writable=True)
    annotations.collections.create("Some", ["a"])
    monkeypatch.setattr("marcir.annotations.collection_table.MAX_MEMBERS", 2)
    with pytest.raises(ValueError, match="it would have 3 images, and may have 2"):
        annotations.collections.add("Some", ["b", "c"])
    assert annotations.collections.images("Some") == ["a"]
