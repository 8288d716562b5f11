"""LanceDB: processes side by side, stores that cannot be used, and the approximate index."""

import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa
import pytest

from marcir.errors import MissingImageError, StoreError, UnusableStoreError
from marcir.search import Filter, Row
from marcir.search import lance as lance_module
from marcir.search.lance import LanceStore
from marcir.search.lance_io import sole_writer
from marcir.search.records import About
from marcir.search.store import Snapshot
from marcir.search.table_rows import TableRows
from search.processes import reading, start_process, writing

MODEL = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 1000, "README.md": "ü".encode()}
ABOUT = About("m" * 64, 8, "/archive")


def rows(count: int, start: int = 0, seed: int = 0) -> list[Row]:
    vectors = np.random.default_rng([seed, start]).normal(size=(count, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return [
        Row(f"{start + place:06}", vector, (f"label {place % 20}",), thumbnail=b"\xff\xd8")
        for place, vector in enumerate(vectors)
    ]


@pytest.fixture
def store(tmp_path: Path) -> LanceStore:
    """A store of 50 rows."""
    made = LanceStore.create(tmp_path / "store", ABOUT, MODEL)
    made.add(rows(50))
    return made


def one_line(error: pytest.ExceptionInfo[StoreError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert "cargo" not in text
    assert len(text) < 400
    return text


def refusal(path: Path | str) -> str:
    with pytest.raises(StoreError) as error:
        LanceStore(path)
    return one_line(error)


# ---- Processes -----------------------------------------------------------------------------------


def test_two_processes_read_whole_commits_while_one_writes(store: LanceStore) -> None:
    readers = [start_process(reading, store.uri, 650) for _ in range(2)]
    for _, connection in readers:
        assert connection.recv() == "open"
    for first in range(50, 650, 50):
        store.add(rows(50, first))
        if first % 200 == 0:
            store.optimize()
    for process, connection in readers:
        assert connection.poll(60)
        assert connection.recv() >= 1
        process.join(60)
        assert process.exitcode == 0


def test_two_writers_without_a_lock_leave_no_row_double(tmp_path: Path) -> None:
    made = LanceStore.create(tmp_path / "store", ABOUT, MODEL)
    commits = [rows(50, first) for first in range(0, 1000, 50)]
    writers = [start_process(writing, made.uri, commits) for _ in range(2)]
    for _, connection in writers:
        assert connection.recv() == "open"
    for _, connection in writers:
        connection.send("go")
    for process, _ in writers:
        process.join(60)
        assert process.exitcode == 0
    made.optimize()
    assert made.count() == 1000
    assert made.ids() == [f"{place:06}" for place in range(1000)]


def test_a_second_writer_is_refused_in_one_line_and_let_in_afterwards(store: LanceStore) -> None:
    with sole_writer(store.uri):
        with pytest.raises(StoreError) as error, sole_writer(store.uri):
            pass
        assert "another marcir index is at work" in one_line(error)
        assert LanceStore(store.uri).count() == 50
    with sole_writer(store.uri):
        pass


def test_the_vectors_are_read_again_when_another_process_has_written(store: LanceStore) -> None:
    other = LanceStore(store.uri)
    first = other.read(lambda snapshot: snapshot)
    assert other.read(lambda snapshot: snapshot) is first
    store.add(rows(10, 50))
    assert other.count() == 60
    assert len(other.search(np.ones((1, 8)), 100)[0]) == 60
    assert other.read(lambda snapshot: snapshot) is not first
    store.delete(["000000"])
    assert len(other.search(np.ones((1, 8)), 100)[0]) == 59


# ---- Threads and long lives ----------------------------------------------------------------------


def test_threads_share_a_resident_store_while_another_process_writes(store: LanceStore) -> None:
    shared = LanceStore(store.uri, resident=True)
    ends = threading.Event()

    def ask(seed: int) -> int:
        rng, asked = np.random.default_rng(seed), 0
        while not ends.is_set() or not asked:
            (hits,) = shared.search(rng.normal(size=(1, 8)), 1000, Filter(none=("label 3",)))
            names = [hit.id for hit in hits]
            assert len(set(names)) == len(names)
            assert (len(names) - 47) % 9 == 0, "half a commit"  # of 50 rows 3 have the label, of 10 one
            assert sum(shared.label_counts().values()) % 10 == 0
            assert shared.sample(3, seed)
            asked += 1
        return asked

    with ThreadPoolExecutor(6) as pool:
        asking = [pool.submit(ask, seed) for seed in range(6)]
        for start in range(50, 150, 10):
            store.add(rows(10, start))
            shared._check_at = 0.0
            shared.count()
        ends.set()
        assert all(each.result(timeout=60) for each in asking)
    shared._check_at = 0.0
    assert shared.count() == 150


def test_a_resident_store_checks_for_changes_once_in_a_while(
    store: LanceStore,
) -> None:
    resident = LanceStore(store.uri, resident=True)
    assert resident.count() == 50
    resident._check_at = time.monotonic() + 1000
    store.add(rows(10, 50))
    store.delete(["000000"])
    assert resident.count() == 50
    assert resident.describe(["000000"])[0].labels == ("label 0",)
    resident._check_at = 0.0
    assert resident.count() == len(resident.ids()) == 59
    with pytest.raises(MissingImageError):
        resident.describe(["000000"])
    resident._check_at = 0
    store.add(rows(10, 60))
    assert resident.count() == 69


def test_while_one_thread_reads_the_others_have_what_was_there(store: LanceStore) -> None:
    resident = LanceStore(store.uri, resident=True)
    before = resident.read(lambda snapshot: snapshot)
    store.add(rows(10, 50))
    resident._check_at = 0
    with resident._loading:  # as a thread that reads
        assert resident.read(lambda snapshot: snapshot) is before
    resident._check_at = 0
    assert resident.read(lambda snapshot: snapshot) is not before


def test_a_reader_of_an_approximate_store_sees_one_version_while_another_thread_moves_to_the_next(
    store: LanceStore,
) -> None:
    reader = LanceStore(store.uri, approximate=True)

    def answers(snapshot: Snapshot) -> list[object]:
        return [
            snapshot.version,
            snapshot.ids(),
            snapshot.count(),
            snapshot.label_counts(),
            snapshot.states("label 3").tolist(),
            snapshot.rows(Filter(any=("label 3",))).tolist(),
            snapshot.vectors(snapshot.rows()).tolist(),
        ]

    def ask(snapshot: Snapshot) -> tuple[list[object], list[object]]:
        before = answers(snapshot)
        store.delete(["000000"])
        store.add(rows(60, 50))
        assert reader.count() == 109, "another thread"
        return before, answers(snapshot)

    before, after = reader.read(ask)
    assert before == after
    first, second = reader.read(lambda snapshot: snapshot), reader.read(lambda snapshot: snapshot)
    assert first is second, "a table is opened once per version"


def test_row_ids_of_another_version_are_refused() -> None:
    columns = {
        "id": ["b", "a", "c"],
        "date": pa.nulls(3, pa.date32()),
        "_rowid": pa.array([0, 1, 7], pa.uint64()),
    }
    ordered = TableRows(pa.table(columns))
    assert ordered.find(pa.chunked_array([[7, 1]], pa.uint64())).tolist() == [2, 0]
    for other in (2, 9):
        with pytest.raises(StoreError, match="has changed while it was read"):
            ordered.find(pa.chunked_array([[1, other]], pa.uint64()))


# ---- Stores that cannot be used ------------------------------------------------------------------


def test_a_store_that_is_missing_is_refused_with_the_command_that_makes_it(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none").endswith(
        "there is no such store. Make one with: marcir index --images DIR (or --scenes DIR) "
        f"--store {tmp_path / 'none'}"
    )
    assert not (tmp_path / "none").exists()


def test_an_empty_folder_and_a_file_are_no_stores(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    assert "no such store" in refusal(tmp_path / "file")
    assert "not a store of marcir" in refusal(tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []


def test_an_address_of_no_known_kind_is_refused() -> None:
    assert refusal("nowhere://bucket/store").startswith("nowhere://bucket/store: ")


def write_about(uri: str, content: str) -> None:
    lancedb.connect(uri).create_table("about", pa.table({"about": [content]}), mode="overwrite")


def first_version(folder: Path) -> LanceStore:
    """A store of 50 rows as marcir 0.2.0 wrote it: its tables know no unknown labels."""
    columns = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("vector", pa.list_(pa.float32(), 8), nullable=False),
            pa.field("labels", pa.list_(pa.string())),
            pa.field("width", pa.int32()),
            pa.field("height", pa.int32()),
            pa.field("thumbnail", pa.binary()),
            pa.field("content", pa.string()),
            pa.field("metadata", pa.string()),
            *(pa.field(corner, pa.float64()) for corner in ("west", "south", "east", "north")),
            pa.field("date", pa.date32()),
        ]
    )
    content = [
        {"id": row.id, "vector": row.vector.tolist(), "labels": list(row.labels), "metadata": "{}"}
        | {"width": 1, "height": 1, "thumbnail": row.thumbnail, "content": "abc"}
        for row in rows(50)
    ]
    db = lancedb.connect(folder)
    about = {"model": "m" * 64, "dim": 8, "root": "/archive", "version": 1}
    db.create_table("model", pa.table({"name": ["config.json"], "content": [b"{}"]}))
    db.create_table("about", pa.table({"about": [json.dumps(about)]}))
    db.create_table("images", pa.Table.from_pylist(content, schema=columns))
    return LanceStore(folder)


def test_a_store_of_the_first_version_keeps_it_until_there_are_unknown_labels(tmp_path: Path) -> None:
    def form() -> tuple[bool, int]:
        found = LanceStore(store.uri)
        return "unknown" in found._table.schema.names, found.about.version

    store = first_version(tmp_path / "store")
    reader, approximate = (
        LanceStore(store.uri, resident=True),
        LanceStore(store.uri, approximate=True),
    )
    approximate.build_index()
    (first,) = store.get(["000000"])
    store.add([first])
    store.optimize()
    assert form() == (False, 1)
    for each in (store, reader, approximate):
        assert (each.get([first.id])[0].unknown, each.look_up(first.id).unknown) == ((), ())
        assert each.label_counts() == dict.fromkeys(sorted(each.label_counts()), 2) | {
            f"label {place}": 3 for place in range(10)
        }
        assert not any(each.unknown_counts().values())
        for unknown_ok in (False, True):
            assert each.count(Filter(none=first.labels, none_unknown_ok=unknown_ok)) == 47
    store.add([replace(first, labels=(), unknown=("quay",))])
    assert form() == (True, 2)
    reader._check_at = 0.0
    for each in (store, reader, approximate):
        assert each.unknown_counts()["quay"] == 1
        found = each.search(first.vector, 50, Filter(none=("quay",)))[0]
        assert len(found) == each.count(Filter(none=("quay",))) == 49
        assert each.search(first.vector, 1, Filter(none=("quay",), none_unknown_ok=True))[0][0].id == first.id
        assert [row.unknown for row in each.describe(["000000", "000001"])] == [("quay",), ()]
    moved = LanceStore.create(store.uri, About("m" * 64, 8, "/moved"), MODEL, root_moved=True)
    assert (moved.about.version, moved.about.root) == (2, "/moved")


def test_a_store_of_another_version_is_refused(store: LanceStore) -> None:
    write_about(store.uri, json.dumps({"version": 4, "model": "x"}))
    assert refusal(store.uri).endswith("cannot be read (version 4; this marcir reads version 1 or 2 or 3).")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"version": 1}', '{"version": 1, "x": 2}', "3"])
def test_a_store_that_says_nothing_sensible_of_itself_is_refused(store: LanceStore, content: str) -> None:
    write_about(store.uri, content)
    assert "its header cannot be read" in refusal(store.uri)


def test_vectors_of_another_model_are_refused(store: LanceStore) -> None:
    for about in (About("n" * 64, 8, "/archive"), About("m" * 64, 9, "/archive")):
        with pytest.raises(StoreError) as error:
            LanceStore.create(store.uri, about, MODEL)
        assert "holds vectors of another model (mmmmmmmmmmmm, not " in one_line(error)
    assert store.count() == 50


@pytest.mark.parametrize("table", ["model", "about", "images"])
@pytest.mark.parametrize("emptied", [False, True], ids=["absent", "begun"])
def test_a_half_written_store_is_refused_and_can_be_finished(
    store: LanceStore, table: str, emptied: bool
) -> None:
    shutil.rmtree(Path(store.uri) / f"{table}.lance")
    if emptied:  # killed between the folder and the first version
        (Path(store.uri) / f"{table}.lance" / "_versions").mkdir(parents=True)
    assert ("not a store" if table == "about" else "half written") in refusal(store.uri)
    finished = LanceStore.create(store.uri, ABOUT, MODEL)
    assert finished.count() == (0 if table == "images" else 50)
    assert finished.model_files() == MODEL
    assert finished.about == ABOUT


def test_a_folder_with_other_things_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    for attempt in (
        lambda: LanceStore.create(tmp_path, ABOUT, MODEL),
        lambda: sole_writer(tmp_path).__enter__(),
    ):
        with pytest.raises(StoreError) as error:
            attempt()
        assert "holds other things, such as 'thesis.txt'. Use another --store." in one_line(error)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="not a folder"):
        LanceStore.create(tmp_path / "file", ABOUT, MODEL)


def test_a_store_where_nothing_can_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError) as error, sole_writer(tmp_path / "file" / "store"):
        pass
    assert "cannot be written" in one_line(error)


def test_damaged_rows_are_one_line(store: LanceStore) -> None:
    for file in (Path(store.uri) / "images.lance" / "data").iterdir():
        file.write_bytes(b"damaged")
    with pytest.raises(StoreError) as error:
        LanceStore(store.uri).search(np.ones((1, 8)), 3)
    assert one_line(error).startswith(f"{store.uri}: the store cannot be used (")


# ---- What a store keeps --------------------------------------------------------------------------


def test_the_files_of_the_model_come_back_byte_by_byte(store: LanceStore) -> None:
    assert LanceStore(store.uri).model_files() == MODEL


def test_a_store_that_is_there_is_gone_on_with(store: LanceStore) -> None:
    again = LanceStore.create(store.uri, ABOUT, MODEL)
    assert again.count() == 50


def test_the_root_is_where_the_archive_was_indexed_last(store: LanceStore) -> None:
    moved = About(ABOUT.model, ABOUT.dim, "/moved")
    with pytest.raises(StoreError, match="holds the images of /archive, not of /moved"):
        LanceStore.create(store.uri, moved, MODEL)
    assert LanceStore.create(store.uri, moved, MODEL, root_moved=True).about == moved
    assert LanceStore(store.uri).about == moved
    assert LanceStore(store.uri).count() == 50


def test_tidying_up_keeps_every_row_and_joins_the_files(tmp_path: Path) -> None:
    made = LanceStore.create(tmp_path / "store", ABOUT, MODEL)
    made.optimize()
    for start in range(0, 200, 10):
        made.add(rows(10, start))
    before = made.search(np.ones((1, 8)), 500)
    made.optimize()
    assert made.search(np.ones((1, 8)), 500) == before
    assert made.count() == 200
    assert LanceStore(made.uri).ids() == [f"{place:06}" for place in range(200)]
    assert made._table.stats()["fragment_stats"]["num_fragments"] == 1


def size_of(store: LanceStore) -> int:
    return sum(path.stat().st_size for path in Path(store.uri).rglob("*") if path.is_file())


def with_thumbnails(some: list[Row]) -> list[Row]:
    return [replace(row, thumbnail=np.random.default_rng(int(row.id)).bytes(2000)) for row in some]


def test_tidying_up_leaves_no_bytes_of_old_versions(tmp_path: Path) -> None:
    once = LanceStore.create(tmp_path / "once", ABOUT, MODEL)
    once.add(with_thumbnails(rows(500)))
    often = LanceStore.create(tmp_path / "often", ABOUT, MODEL)
    for start in range(0, 500, 25):
        often.add(with_thumbnails(rows(25, start)))
    often.optimize()
    assert size_of(often) <= 1.15 * size_of(once)
    for _ in range(3):
        often.add(with_thumbnails(rows(500)))
        often.optimize()
        often.build_index()
        often.build_index()
    assert size_of(often) <= 1.15 * size_of(once)
    assert often.count() == 500


def everything(store: LanceStore) -> dict[str, object]:
    """What a store answers to every question."""
    query, where = np.ones((1, 8), np.float32), Filter(any=("label 3",))
    return {
        "search": store.search(query, 7),
        "filtered": store.search(query, 7, where),
        "get": [(row.id, row.labels, row.thumbnail, row.vector.tolist()) for row in store.get(["000093"])],
        "describe": [(row.id, row.labels) for row in store.describe(["000093", "000004"])],
        "look_up": store.look_up("000093").vector.tolist(),
        "thumbnail": store.thumbnail("000093"),
        "count": (store.count(), store.count(where)),
        "labels": (store.label_counts(), store.label_counts(where)),
        "ids": store.ids(),
        "contents": store.contents(),
        "sample": (store.sample(5), store.sample(5, 1, where)),
        "knows": (store.knows("bbox"), store.knows("date")),
        "centroid": np.round(store.centroid(["label 3"]), 5).tolist(),
        "model": store.model_files(),
        "memory": store.fits_memory,
    }


@pytest.mark.parametrize("resident", [False, True], ids=["", "resident"])
@pytest.mark.parametrize("approximate", [False, True], ids=["exact", "approximate"])
@pytest.mark.parametrize("used", [False, True], ids=["just opened", "used before"])
def test_a_reader_of_an_old_version_answers_everything_after_its_files_are_removed(
    tmp_path: Path, resident: bool, approximate: bool, used: bool
) -> None:
    made = LanceStore.create(tmp_path / "store", ABOUT, MODEL)
    made.add(rows(50))
    if approximate:
        made.build_index()
    for start in range(50, 100, 10):
        made.add(rows(10, start))
    reader = LanceStore(made.uri, approximate=approximate, resident=resident)
    if used:
        everything(reader)
    before = {path.name for path in (tmp_path / "store" / "images.lance" / "data").iterdir()}
    made.optimize()
    after = {path.name for path in (tmp_path / "store" / "images.lance" / "data").iterdir()}
    assert before - after, "files of the version that the reader has are gone"
    reader._check_at = time.monotonic() + 1000  # as within the interval in which it does not check
    if not resident:  # as between the check and the reading
        reader._check_version = lambda: reader._check_at or LanceStore._check_version(reader)  # type: ignore[method-assign]
    assert everything(reader) == everything(LanceStore(made.uri, approximate=approximate))


def test_a_file_that_is_missing_from_the_newest_version_is_an_error(store: LanceStore) -> None:
    for file in (Path(store.uri) / "images.lance" / "data").iterdir():
        file.unlink()
    with pytest.raises(UnusableStoreError) as error:
        LanceStore(store.uri).thumbnail("000003")
    assert "not found" in one_line(error).lower()


def test_the_tables_of_a_store_are_all_that_lies_in_its_folder(store: LanceStore) -> None:
    with sole_writer(store.uri):
        store.optimize()
    names = {path.name for path in Path(store.uri).iterdir()} - {".lock"}
    assert names == {"about.lance", "images.lance", "model.lance"}


# ---- Approximate ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> LanceStore:
    """2,000 rows with an approximate index, and 40 that came after it."""
    made = LanceStore.create(tmp_path_factory.mktemp("approximate") / "store", ABOUT, MODEL)
    made.add(rows(2000))
    assert not made.has_index
    made.build_index()
    assert made.has_index
    made.add(rows(40, 2000))
    return made


@pytest.mark.parametrize(
    "where",
    [
        None,
        Filter(any=("label 3",)),
        Filter(any=("label 3", "label 4"), none=("label 4",)),
        Filter(none=("label 5",), min_similarity=0.6),
    ],
)
def test_the_approximate_index_finds_what_exact_search_finds(
    indexed: LanceStore, where: Filter | None
) -> None:
    approximate = LanceStore(indexed.uri, approximate=True)
    assert not approximate.exact
    queries = np.random.default_rng(1).normal(size=(20, 8))
    truth, found = indexed.search(queries, 10, where), approximate.search(queries, 10, where)
    shared = [len({a.id for a in one} & {b.id for b in two}) for one, two in zip(truth, found, strict=True)]
    assert sum(shared) >= 0.95 * sum(map(len, truth))
    for one, two in zip(truth, found, strict=True):
        true = {hit.id: hit for hit in one}
        for hit in two:
            if hit.id in true:
                assert hit.similarity == pytest.approx(true[hit.id].similarity, abs=1e-5)
                assert hit.labels == true[hit.id].labels


def test_pages_of_an_approximate_answer_share_no_image(indexed: LanceStore) -> None:
    paged = LanceStore(indexed.uri, approximate=True, resident=True)
    query = np.random.default_rng(2).normal(size=8)
    pages = [paged.search(query, 24, offset=offset)[0] for offset in range(0, 480, 24)]
    assert [hit for page in pages for hit in page] == paged.search(query, 480)[0]


def test_rows_that_came_after_the_index_are_found(indexed: LanceStore) -> None:
    approximate = LanceStore(indexed.uri, approximate=True)
    (newest,) = approximate.get(["002039"])
    assert approximate.search(newest.vector, 1)[0][0].id == "002039"


def test_approximate_search_has_the_same_labels_and_centroids(indexed: LanceStore) -> None:
    approximate = LanceStore(indexed.uri, approximate=True)
    assert approximate.label_counts() == indexed.label_counts()
    assert np.allclose(approximate.centroid(["label 7"]), indexed.centroid(["label 7"]), atol=1e-6)
    for each in (approximate, indexed):
        with pytest.raises(StoreError, match="carries all of: label 1, label 2"):
            each.centroid(["label 1", "label 2"])
        with pytest.raises(StoreError, match="has the label 'lable 1'. Did you mean 'label 1"):
            each.centroid(["lable 1"])


def test_too_many_vectors_for_memory_are_searched_in_the_table(
    store: LanceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = store.search(np.ones((1, 8)), 5)
    monkeypatch.setattr(lance_module, "IN_MEMORY", 50 * 8 * 4 - 1)
    large = LanceStore(store.uri)
    assert not large.fits_memory
    assert not large.exact
    found = large.search(np.ones((1, 8)), 5)
    assert [hit.id for hit in found[0]] == [hit.id for hit in expected[0]]


@pytest.mark.parametrize("count", [1, 2, 15, 300])
def test_an_approximate_index_of_few_rows_works(count: int, tmp_path: Path) -> None:
    made = LanceStore.create(tmp_path / "store", ABOUT, MODEL)
    made.add(rows(count))
    made.build_index()
    approximate = LanceStore(made.uri, approximate=True)
    exact_ids = [hit.id for hit in made.search(np.ones((1, 8)), 5)[0]]
    assert [hit.id for hit in approximate.search(np.ones((1, 8)), 5)[0]] == exact_ids


def test_an_index_of_no_rows_is_refused(tmp_path: Path) -> None:
    made = LanceStore.create(tmp_path / "store", ABOUT, MODEL)
    with pytest.raises(StoreError, match="no images, so there is nothing to make an index of"):
        made.build_index()
