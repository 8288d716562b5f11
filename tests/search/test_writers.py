"""Several writers of one store: simultaneous starts, the same and other images, conflicts, old stores."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import lancedb
import numpy as np
import pytest

from marcir.data.image_source import WindowCut
from marcir.errors import StoreError, UnusableStoreError
from marcir.search import Row, lance_create, lance_io
from marcir.search import lance as lance_module
from marcir.search.arrow import KEY, has_key, to_table
from marcir.search.lance import LanceStore
from marcir.search.lance_create import create_tables
from marcir.search.lance_optimize import has_index
from marcir.search.records import About

ABOUT, OTHER = About("a" * 64, 8, "/archive"), About("b" * 64, 8, "/archive")
MODELS = {"a" * 64: {"config.json": b"a"}, "b" * 64: {"config.json": b"b"}}
WRITERS = 4


def rows(first: int, count: int = 10, unknown: tuple[str, ...] = ()) -> list[Row]:
    vector = np.eye(8, dtype=np.float32)[0]
    return [Row(f"{first + place:04}", vector, ("l",), unknown=unknown) for place in range(count)]


def at_once(work: Callable[[int], Any], count: int = WRITERS) -> list[Any]:
    """The results of several threads that start at the same moment; an exception is a result."""
    barrier = threading.Barrier(count)

    def begin(number: int) -> Any:
        barrier.wait(60)
        try:
            return work(number)
        except Exception as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def all_ids(store: LanceStore) -> list[str]:
    """The id of every row, doubles included."""
    return sorted(LanceStore(store.uri)._table.to_arrow()["id"].to_pylist())


def names(count: int) -> list[str]:
    return [f"{place:04}" for place in range(count)]


def without_key(store: LanceStore) -> LanceStore:
    """A store as early versions made it."""
    columns = store._table.schema
    plain = columns.set(0, columns.field("id").remove_metadata())
    lancedb.connect(store.uri).create_table("images", schema=plain, mode="overwrite")
    opened = LanceStore(store.uri)
    assert not has_key(opened._table.schema)
    return opened


# ---- Starting at the same moment -----------------------------------------------------------------


def test_simultaneous_starts_all_end_with_one_store(tmp_path: Path) -> None:
    for attempt in range(5):
        uri = tmp_path / str(attempt)
        made = at_once(lambda _, uri=uri: LanceStore.create(uri, ABOUT, MODELS[ABOUT.model]))
        assert [store.about for store in made] == [ABOUT] * WRITERS
        for number, store in enumerate(made):
            store.add(rows(10 * number))
        assert all_ids(made[0]) == names(10 * WRITERS)
        assert made[0].model_files() == MODELS[ABOUT.model]


def test_of_simultaneous_starts_with_two_models_one_model_wins(tmp_path: Path) -> None:
    for attempt in range(5):
        uri = tmp_path / str(attempt)
        abouts = [(ABOUT, OTHER)[number % 2] for number in range(WRITERS)]

        def create(number: int, uri: Path = uri, abouts: list[About] = abouts) -> LanceStore:
            return LanceStore.create(uri, abouts[number], MODELS[abouts[number].model])

        made = at_once(create)
        store = LanceStore(uri)
        assert store.model_files() == MODELS[store.about.model]
        for about, result in zip(abouts, made, strict=True):
            if about == store.about:
                assert isinstance(result, LanceStore)
            else:
                assert isinstance(result, StoreError)
                assert "holds vectors of another model" in str(result)


def test_processes_that_find_the_archive_moved_all_open_it(tmp_path: Path) -> None:
    LanceStore.create(tmp_path / "store", ABOUT, MODELS[ABOUT.model])
    moved = About(ABOUT.model, 8, "/moved")
    made = at_once(lambda _: LanceStore.create(tmp_path / "store", moved, {}, root_moved=True))
    assert [store.about for store in made] == [moved] * WRITERS


@pytest.mark.parametrize(("unknown", "version"), [((), 1), (("u",), 2)])
def test_a_table_that_is_made_a_moment_after_another_process_made_and_filled_it_keeps_all(
    unknown: tuple[str, ...], version: Literal[1, 2], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LanceStore.create(tmp_path / "store", ABOUT, MODELS[ABOUT.model])
    store.add(rows(0, unknown=unknown))
    create = lancedb.db.LanceDBConnection.create_table

    def overwrite(*arguments: Any, **_: Any) -> Any:
        """What LanceDB does where another process makes the table between its check and its commit."""
        return create(*arguments, mode="overwrite")

    monkeypatch.setattr(lancedb.db.LanceDBConnection, "create_table", overwrite)
    monkeypatch.setattr(lance_create, "whole_tables", lambda db: set())
    with pytest.raises(StoreError, match="another model"):
        create_tables(store.uri, OTHER, MODELS[OTHER.model], False)
    create_tables(store.uri, ABOUT, MODELS[ABOUT.model], False)
    monkeypatch.undo()
    again = LanceStore(store.uri)
    assert (again.about, again.model_files()) == (replace(ABOUT, version=version), MODELS[ABOUT.model])
    assert all_ids(again) == names(10)
    assert {row.unknown for row in again.get(again.ids())} == {unknown}


def test_skipped_windows_are_kept_where_another_process_makes_their_table_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = About("a" * 64, 8, "/scenes", version=3, windows=WindowCut(256, 256, None, None, 0.2))
    first, second = (LanceStore.create(tmp_path / "store", about, MODELS[ABOUT.model]) for _ in range(2))
    first.add_skipped({"a.tif@x=0": "f"})
    create = lancedb.db.LanceDBConnection.create_table

    def overwrite(*arguments: Any, **_: Any) -> Any:
        return create(*arguments, mode="overwrite")

    monkeypatch.setattr(lancedb.db.LanceDBConnection, "create_table", overwrite)
    create_tables(first.uri, about, MODELS[ABOUT.model], False)
    second.add_skipped({"b.tif@x=0": "g"})
    assert LanceStore(first.uri).skipped() == {"a.tif@x=0": "f", "b.tif@x=0": "g"}


# ---- Writing at the same moment ------------------------------------------------------------------


@pytest.mark.parametrize("indexed", [False, True], ids=["", "with an index of ids"])
@pytest.mark.parametrize("early", [False, True], ids=["", "early version"])
def test_writers_of_the_same_images_leave_no_row_double(tmp_path: Path, indexed: bool, early: bool) -> None:
    store = LanceStore.create(tmp_path / "store", ABOUT, MODELS[ABOUT.model])
    store = without_key(store) if early else store
    if indexed:
        store._table.add(to_table(rows(0), 8, ()))
        store._optimize_or_leave(lance_module._KEPT_VERSIONS)
        assert has_index(store.uri, store._table, "id")
    opened = [LanceStore(store.uri) for _ in range(WRITERS)]

    def write(number: int) -> None:
        for first in range(0, 50, 10):
            opened[number].add(rows(first))

    assert at_once(write) == [None] * WRITERS
    assert all_ids(store) == names(50)


def test_writers_of_other_images_lose_no_row_while_one_optimizes(tmp_path: Path) -> None:
    store = LanceStore.create(tmp_path / "store", ABOUT, MODELS[ABOUT.model])
    opened = [LanceStore(store.uri) for _ in range(WRITERS)]

    def write(number: int) -> None:
        for first in range(100 * number, 100 * number + 100, 20):
            opened[number].add(rows(first, 20))
            if number == 0:
                opened[number]._optimize_or_leave(lance_module._KEPT_VERSIONS)

    assert at_once(write) == [None] * WRITERS
    assert all_ids(store) == names(100 * WRITERS)


def test_writers_that_all_bring_the_first_unknown_label_lose_none(tmp_path: Path) -> None:
    for attempt in range(3):
        store = LanceStore.create(tmp_path / str(attempt), ABOUT, MODELS[ABOUT.model])
        opened = [LanceStore(store.uri) for _ in range(WRITERS)]
        written = at_once(
            lambda number, opened=opened: opened[number].add(rows(10 * number, unknown=("u",)[: number % 2]))
        )
        assert written == [None] * WRITERS
        assert all_ids(store) == names(10 * WRITERS)
        assert LanceStore(store.uri).unknown_counts()["u"] == 20
        assert LanceStore(store.uri).about.version == 2


def test_a_store_of_an_early_version_gets_its_key_when_it_is_opened_to_be_written(tmp_path: Path) -> None:
    store = without_key(LanceStore.create(tmp_path / "store", ABOUT, MODELS[ABOUT.model]))
    assert not has_key(LanceStore(store.uri)._table.schema), "a reader changes nothing"
    again = LanceStore.create(store.uri, ABOUT, {})
    assert has_key(again._table.schema)
    version = again._table.version
    assert LanceStore.create(store.uri, ABOUT, {})._table.version == version
    store.add(rows(0, unknown=("u",)))
    store.optimize()
    assert has_key(LanceStore(store.uri)._table.schema)


def test_a_new_store_has_its_key(tmp_path: Path) -> None:
    store = LanceStore.create(tmp_path / "store", ABOUT, MODELS[ABOUT.model])
    metadata = store._table.schema.field("id").metadata
    assert metadata == {name.encode(): value.encode() for name, value in KEY.items()}


# ---- Conflicts -----------------------------------------------------------------------------------


PREEMPTED = "lance error: Retryable commit conflict for version 7: preempted by another"
REMOVED = (
    "lance error: LanceError(IO): Not found: /store/images.lance/_versions/18446744073709551608.manifest"
)


class Fails:
    """Fails as LanceDB does, so many times; then it does its work."""

    def __init__(self, work: Callable[..., Any], times: int, text: str = PREEMPTED) -> None:
        self.work, self.left, self.text = work, times, text

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if self.left:
            self.left -= 1
            raise RuntimeError(self.text)
        return self.work(*arguments, **options)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times that would have been waited."""
    waited: list[float] = []
    monkeypatch.setattr(lance_io.time, "sleep", waited.append)
    monkeypatch.setattr(lance_io.random, "uniform", lambda least, most: most)
    return waited


def test_a_conflict_is_tried_again_after_longer_and_longer_waits(tmp_path: Path, waits: list[float]) -> None:
    store = LanceStore.create(tmp_path / "store", ABOUT, MODELS[ABOUT.model])
    store._table.merge_insert = Fails(store._table.merge_insert, 9)
    store.add(rows(0))
    assert all_ids(store) == names(10)
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


@pytest.mark.parametrize(
    "text",
    [
        "lance error: Not found: {path}/images.lance/data/1.lance, /root/lance-13.0.0/src/commit.rs:6:2",
        "Generic LocalFileSystem error: Unable to copy data to file: {path}/images.lance: No space left",
    ],
)
def test_words_of_the_path_of_a_store_are_no_conflict(
    text: str, tmp_path: Path, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "commit conflict for version 1" / "409 conflict-zones.store"
    path.parent.mkdir()
    store = LanceStore.create(path, ABOUT, MODELS[ABOUT.model])
    store.add(rows(0))
    monkeypatch.setattr(store._table, "optimize", Fails(print, 1000, text.format(path=path)))
    with pytest.raises(UnusableStoreError, match="the store cannot be used"):
        store.optimize()
    assert not waits


def test_words_of_the_path_of_a_store_are_no_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "not found: 404 not found.store"
    store = LanceStore.create(path, ABOUT, MODELS[ABOUT.model])
    store._table.checkout_latest = Fails(
        store._table.checkout_latest, 1, f"lance error: LanceError(IO): {path}/images.lance: denied"
    )
    with pytest.raises(UnusableStoreError, match="denied"):
        store.count()


def test_conflicts_without_end_are_one_line(tmp_path: Path, waits: list[float]) -> None:
    store = LanceStore.create(tmp_path / "store", ABOUT, MODELS[ABOUT.model])
    store._table.merge_insert = Fails(store._table.merge_insert, 1000)
    with pytest.raises(UnusableStoreError, match="commit conflict"):
        store.add(rows(0))


def test_a_version_that_is_removed_while_it_is_looked_for_is_looked_for_again(tmp_path: Path) -> None:
    store = LanceStore.create(tmp_path / "store", ABOUT, MODELS[ABOUT.model])
    store._table.checkout_latest = Fails(store._table.checkout_latest, 3, REMOVED)
    assert store.count() == 0
    store._table.checkout_latest.left = 1000
    with pytest.raises(UnusableStoreError, match="Not found"):
        store.count()


@pytest.mark.parametrize("shared", [False, True])
def test_an_optimization_without_a_free_moment_is_left_to_the_next_one(
    tmp_path: Path, waits: list[float], monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    monkeypatch.setattr(lance_module, "_FEW_FILES", 1)
    store = LanceStore.create(tmp_path / "store", ABOUT, MODELS[ABOUT.model])
    store.add(rows(0))
    store._table.optimize = Fails(store._table.optimize, 1000)
    store.optimize(shared)
    assert store._table.optimize.left < 1000
    assert all_ids(store) == names(10)


def test_one_of_several_writers_optimizes_at_a_time_and_only_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def files() -> int:
        return int(LanceStore(store.uri)._table.stats()["fragment_stats"]["num_fragments"])

    store = LanceStore.create(tmp_path / "store", ABOUT, MODELS[ABOUT.model])
    for first in range(0, 30, 10):
        store.add(rows(first))
    store.optimize(shared=True)
    assert files() == 3
    monkeypatch.setattr(lance_module, "_FEW_FILES", 3)
    with lance_io.sole_optimizer(store.uri) as sole:
        assert sole
        store.optimize(shared=True)
        assert files() == 3
    before = store._table.version
    store.optimize(shared=True)
    assert files() == 1
    assert before in [each["version"] for each in store._table.list_versions()], "kept for other writers"
