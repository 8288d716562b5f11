"""Filters of approximate search: what they mean, and how much of the exact answer is found."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from marcir.errors import StoreError
from marcir.search import Filter, Row, conditions, lance_optimize, probes
from marcir.search import approximate as approximate_module
from marcir.search.lance import LanceStore
from marcir.search.records import About
from marcir.search.store import Snapshot

ROWS, DIM, CLUSTERS, PARTITION = 20_000, 64, 500, 100


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def clustered() -> list[Row]:
    """Rows in clusters; labels of whole clusters ("own") and of random rows, unknown ones, and none."""
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, CLUSTERS, ROWS)
    vectors = unit(unit(rng.normal(size=(CLUSTERS, DIM)))[cluster] + rng.normal(size=(ROWS, DIM)) / DIM**0.5)
    chance = rng.random((3, ROWS))
    rows = []
    for place in range(ROWS):
        has = {
            "own half": cluster[place] < 250,
            "own 10": cluster[place] < 50,
            "own 2": cluster[place] < 10,
            "10": chance[0, place] < 0.1,
            "2": chance[1, place] < 0.02,
            "three": place < 3,
        }
        labels = tuple(name for name, present in has.items() if present)
        unknown = ("10",) if chance[2, place] < 0.05 and "10" not in labels else ()
        rows.append(Row(f"{place:06}", vectors[place], labels, unknown=unknown))
    return rows


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanceStore]:
    """A store with an approximate index of about 200 partitions, and rows that came after it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lance_optimize, "PARTITION_ROWS", PARTITION)
        patch.setattr(probes, "PARTITION_ROWS", PARTITION)
        made = LanceStore.create(tmp_path_factory.mktemp("filtered") / "store", About("m" * 64, DIM, ""), {})
        rows = clustered()
        made.add(rows[:-200])
        made.build_index()
        made.add(rows[-200:])
        yield made


@pytest.fixture
def approximate(exact: LanceStore) -> LanceStore:
    return LanceStore(exact.uri, approximate=True)


def queries(store: LanceStore, count: int = 30) -> np.ndarray:
    """Rows with noise."""
    rng = np.random.default_rng(1)
    vectors = np.stack([row.vector for row in store.get(store.sample(count))])
    return unit(vectors + 0.5 * rng.normal(size=vectors.shape) / DIM**0.5)


def found(store: LanceStore, vectors: np.ndarray, k: int, where: Filter | None) -> list[list[str]]:
    return [[hit.id for hit in hits] for hits in store.search(vectors, k, where)]


FILTERS = [
    Filter(any=("10",)),
    Filter(any=("own 2", "2")),
    Filter(all=("own 10", "10")),
    Filter(none=("own half",)),
    Filter(none=("10",)),
    Filter(none=("10",), none_unknown_ok=True),
    Filter(any=("own half",), none=("10", "own 2"), without=("000005", "000007")),
    Filter(without=("000001", "it's none")),
]


@pytest.mark.parametrize("where", FILTERS, ids=str)
def test_a_filter_lets_through_the_same_images_as_in_exact_search(
    exact: LanceStore, approximate: LanceStore, where: Filter
) -> None:
    passing = exact.count(where)
    assert approximate.count(where) == passing
    (all_of_them,) = found(approximate, np.ones((1, DIM)), ROWS, where)
    assert len(all_of_them) == passing
    assert set(all_of_them) == set(found(exact, np.ones((1, DIM)), ROWS, where)[0])
    (some,) = found(approximate, np.ones((1, DIM)), 10, where)
    assert len(some) == 10
    assert set(some) <= set(all_of_them)


@pytest.mark.parametrize(
    "where",
    [Filter(any=("own 2",)), Filter(any=("2",)), Filter(all=("own 10", "10"))],
    ids=["own 2 %", "2 %", "1 %"],
)
def test_few_images_that_pass_are_searched_exactly(
    exact: LanceStore, approximate: LanceStore, where: Filter
) -> None:
    assert exact.count(where) <= 1000
    vectors = queries(exact)
    assert found(approximate, vectors, 10, where) == found(exact, vectors, 10, where)


CHOSEN = (*(f"{place:06}" for place in range(0, ROWS, 3)), "gone", "it's none", "000003", "000003")


@pytest.mark.parametrize(
    "where",
    [
        Filter(among=CHOSEN),
        Filter(any=("own half",), none=("10",), among=CHOSEN),
        Filter(all=("2",), min_similarity=0.05, among=CHOSEN, without=CHOSEN[:5]),
        Filter(all=("three", "own half"), among=CHOSEN[600:]),
        Filter(among=tuple(f"gone {place}" for place in range(600))),
    ],
    ids=["all", "labels", "few", "none", "gone"],
)
def test_a_filter_that_names_many_images_is_exact_and_no_long_condition(
    exact: LanceStore, approximate: LanceStore, where: Filter, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = conditions.texts

    def short(values: Iterable[str]) -> str:
        given = list(values)
        assert len(given) <= conditions.IDS_PER_QUERY
        return texts(given)

    for module in (conditions, approximate_module):
        monkeypatch.setattr(module, "texts", short)
    monkeypatch.setattr(approximate_module, "_TAKEN", 1000)
    for vectors, offset in ((queries(exact, 3), 0), (np.ones((1, DIM)), 20)):
        for one, two in zip(
            *(each.search(vectors, 30, where, offset) for each in (exact, approximate)), strict=True
        ):
            assert [(hit.id, hit.labels) for hit in two] == [(hit.id, hit.labels) for hit in one]
            assert [hit.similarity for hit in two] == pytest.approx([hit.similarity for hit in one])
    asked: list[Callable[[Snapshot], object]] = [
        lambda snapshot: snapshot.count(where),
        lambda snapshot: snapshot.ids(where),
        lambda snapshot: snapshot.rows(where).tolist(),
        lambda snapshot: snapshot.label_counts(where),
        lambda snapshot: snapshot.unknown_counts(where),
        lambda snapshot: snapshot.states("own half").tolist(),
        lambda snapshot: snapshot.sample(5, 1, where),
        lambda snapshot: snapshot.page(10, 5, where, descending=True),
    ]
    for ask in asked:
        assert approximate.read(ask) == exact.read(ask)
    with pytest.raises(StoreError, match="no image of the store has the label 'tree'"):
        approximate.count(replace(where, any=("tree",)))


@pytest.mark.parametrize("label", [None, "own half", "own 10", "10"])
def test_many_images_that_pass_are_found_with_the_index(
    exact: LanceStore, approximate: LanceStore, label: str | None
) -> None:
    where = None if label is None else Filter(any=(label,))
    assert exact.count(where) > 1000
    vectors = queries(exact)
    truth, answer = found(exact, vectors, 10, where), found(approximate, vectors, 10, where)
    assert {len(each) for each in answer} == {10}
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(truth, answer, strict=True)])
    assert recall >= (0.95 if where is None else 0.98)  # a third of the partitions: 0.89 of "own 10"


def test_fewer_images_than_asked_for_are_all_found(approximate: LanceStore) -> None:
    for answer in found(approximate, queries(approximate), 10, Filter(any=("three",))):
        assert sorted(answer) == ["000000", "000001", "000002"]
    nothing = Filter(any=("three",), without=("000000", "000001", "000002"))
    assert found(approximate, np.ones((2, DIM)), 10, nothing) == [[], []]


@pytest.mark.parametrize("where", [None, Filter(any=("own half",))], ids=["all", "half"])
def test_more_neighbours_than_the_partitions_read_are_found(
    exact: LanceStore, approximate: LanceStore, where: Filter | None
) -> None:
    k = int(0.9 * exact.count(where))
    (answer,) = found(approximate, np.ones((1, DIM)), k, where)
    assert len(answer) == len(set(answer)) == k


def test_joining_files_keeps_the_partitions_of_the_index(approximate: LanceStore) -> None:
    def partitions() -> int:
        search = approximate._table.search(np.ones(DIM), vector_column_name="vector").distance_type("cosine")
        plan = search.limit(10).nprobes(10**6).analyze_plan()
        return max(int(number) for number in re.findall(r"partitions_ranked=(\d+)", plan))

    before = partitions()
    assert before > 100
    approximate.optimize()
    assert partitions() > 0.9 * before
