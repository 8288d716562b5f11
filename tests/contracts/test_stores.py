"""The contract of `marcir.search.store.Store`, for every store: another one is one more entry of `KINDS`.

The reference is a plain loop, whatever ids and labels contain.
"""

import datetime
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marcir.catalog import STORES, resolve
from marcir.errors import ConfigError, MissingImageError, StoreError
from marcir.search import Filter, MemoryStore, Row, Store
from marcir.search.embedding_map import updated_map
from marcir.search.lance import LanceStore
from marcir.search.listing_order import Listed, SortKey
from marcir.search.records import About
from marcir.search.store import Snapshot

DIM = 4
MODEL = {"config.json": b"{}"}
NASTY = [
    "it's",
    'say "hello"',
    "a,b;c",
    "100%_done",
    "'; DROP TABLE images; --",
    "x' OR '1'='1",
    "back\\slash\\",
    "new\nline",
    "übung/日本/🛰.png",
    "labels",
    "NULL",
    "{}[]()",
    " space ",
    "../up.png",
]

Factory = Callable[[Sequence[Row]], Store]


def about(model: str = "m" * 64) -> About:
    return About(model, DIM, "/archive")


def in_memory(rows: Sequence[Row], folder: Path) -> Store:
    store = MemoryStore(about(), MODEL)
    store.add(rows)
    return store


def in_lance(rows: Sequence[Row], folder: Path) -> Store:
    store = LanceStore.create(Path(tempfile.mkdtemp(dir=folder)) / "store", about(), MODEL)
    store.add(rows)
    return store


def in_lance_without_matrix(rows: Sequence[Row], folder: Path) -> Store:
    store = in_lance(rows, folder)
    assert isinstance(store, LanceStore)
    return LanceStore(store.uri, approximate=True)


class Following(LanceStore):
    """A resident store that sees its own changes at once, as tests do not wait."""

    def add(self, rows: Sequence[Row]) -> None:
        super().add(rows)
        self._check_at = 0.0

    def delete(self, ids: Sequence[str]) -> int:
        removed = super().delete(ids)
        self._check_at = 0.0
        return removed


def in_lance_resident(rows: Sequence[Row], folder: Path) -> Store:
    store = in_lance(rows, folder)
    assert isinstance(store, LanceStore)
    return Following(store.uri, resident=True)


KINDS = {
    "memory": in_memory,
    "lance": in_lance,
    "lance-scan": in_lance_without_matrix,
    "lance-resident": in_lance_resident,
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Factory:
    """A store with some rows."""
    return lambda rows: request.param(rows, tmp_path)


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def five(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The store of `some` rows, for tests that only ask."""
    store = request.param(some(), tmp_path_factory.mktemp("five"))
    yield store
    assert ids(store) == ["a", "b", "e", "c", "d"], "a test has changed what others ask"


def unit(*values: float) -> np.ndarray:
    length = math.sqrt(sum(value * value for value in values))
    return np.array([value / length for value in values], dtype=np.float32)


def row(image: str, vector: np.ndarray | None = None, *labels: str) -> Row:
    return Row(image, unit(1, 0, 0, 0) if vector is None else vector, labels)


def some() -> list[Row]:
    """Five images with four labels."""
    return [
        row("a", unit(1, 0, 0, 0), "ship", "dock"),
        row("b", unit(1, 1, 0, 0), "ship"),
        row("c", unit(0, 1, 0, 0), "dock", "tree"),
        row("d", unit(-1, 0, 0, 0)),
        row("e", unit(1, 2, 0, 0), "tree"),
    ]


def ids(store: Store, where: Filter | None = None, k: int = 10) -> list[str]:
    return [hit.id for hit in store.search(unit(1, 0, 0, 0), k, where)[0]]


# ---- Searching -----------------------------------------------------------------------------------


def test_the_best_come_first_with_their_cosine_and_labels(five: Store) -> None:
    (hits,) = five.search(unit(1, 0, 0, 0), 3)
    assert [hit.id for hit in hits] == ["a", "b", "e"]
    assert [hit.similarity for hit in hits] == pytest.approx([1, 1 / 2**0.5, 1 / 5**0.5], abs=1e-6)
    assert [hit.labels for hit in hits] == [("ship", "dock"), ("ship",), ("tree",)]


def test_every_query_gets_its_own_answer(five: Store) -> None:
    found = five.search(np.stack([unit(1, 0, 0, 0), unit(0, 1, 0, 0), unit(-1, 0, 0, 0)]), 1)
    assert [[hit.id for hit in hits] for hits in found] == [["a"], ["c"], ["d"]]


def test_the_length_of_a_query_does_not_matter(five: Store) -> None:
    (short,), (long,) = five.search(np.array([1e-6, 0, 0, 0]), 5), five.search(np.array([1e6, 0, 0, 0]), 5)
    assert [hit.id for hit in short] == [hit.id for hit in long]
    assert short[0].similarity == pytest.approx(long[0].similarity, abs=1e-6)


def test_no_queries_have_no_answers(five: Store) -> None:
    assert five.search(np.zeros((0, DIM)), 3) == []


def test_ties_come_in_the_order_of_ids_however_they_were_added(make: Factory) -> None:
    names = [f"{place:02}" for place in range(40)]
    vector = np.random.default_rng(0).normal(size=DIM)
    store = make([row(name, unit(*vector)) for name in reversed(names)])
    (hits,) = store.search(np.random.default_rng(1).normal(size=DIM), 40)
    assert [hit.id for hit in hits] == names
    assert len({hit.similarity for hit in hits}) == 1


@pytest.mark.parametrize("k", [5, 6, 1000, 2**31, 2**70])
def test_more_than_there_are_is_all_there_are(five: Store, k: int) -> None:
    assert ids(five, k=k) == ["a", "b", "e", "c", "d"]


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3", None])
def test_fewer_than_one_is_refused(five: Store, k: object) -> None:
    with pytest.raises(ConfigError, match="k = "):
        five.search(unit(1, 0, 0, 0), k)  # type: ignore[arg-type]


def test_an_empty_store_answers_nothing(make: Factory) -> None:
    store = make([])
    assert store.search(np.ones((2, DIM)), 3) == [[], []]
    assert (store.count(), store.get([]), store.delete(["a"])) == (0, [], 0)
    store.optimize()
    with pytest.raises(StoreError, match="no image 'a' in the store"):
        store.get(["a"])


@pytest.mark.parametrize("vector", [np.zeros(DIM), np.full(DIM, np.nan), np.array([np.inf, 0, 0, 0])])
def test_a_query_without_a_direction_is_refused(five: Store, vector: np.ndarray) -> None:
    with pytest.raises(StoreError, match="no direction"):
        five.search(vector, 3)


@pytest.mark.parametrize(
    "vector", [np.ones(3), np.ones((2, 5)), np.ones((1, 1, DIM)), "ship", None, [[1, 2], [3]]]
)
def test_a_query_of_another_shape_is_refused(five: Store, vector: object) -> None:
    with pytest.raises(StoreError, match=r"a query .*vectors of \(4,\)"):
        five.search(vector, 3)  # type: ignore[arg-type]


# ---- Pages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [None, Filter(any=("ship", "tree")), Filter(min_similarity=0.3)])
def test_pages_are_parts_of_one_answer(five: Store, where: Filter | None) -> None:
    query = unit(1, 0.5, 0, 0)
    (everything,) = five.search(query, 10, where)
    pages = [five.search(query, 2, where, offset=offset)[0] for offset in range(0, 8, 2)]
    assert [hit for page in pages for hit in page] == everything
    assert pages[-1] == []


def test_pages_of_equal_images_share_none(make: Factory) -> None:
    store = make([row(f"{place:02}") for place in range(40)])
    pages = [store.search(unit(1, 0, 0, 0), 7, offset=offset)[0] for offset in range(0, 40, 7)]
    assert [hit.id for page in pages for hit in page] == [f"{place:02}" for place in range(40)]


@pytest.mark.parametrize("offset", [-1, 1.5])
def test_an_offset_that_is_no_place_is_refused(five: Store, offset: int) -> None:
    with pytest.raises(ConfigError, match="offset = "):
        five.search(unit(1, 0, 0, 0), 3, offset=offset)


# ---- Filters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, "abecd"),
        (Filter(), "abecd"),
        (Filter(any=("ship",)), "ab"),
        (Filter(any=("ship", "tree")), "abec"),
        (Filter(all=("ship", "dock")), "a"),
        (Filter(all=("ship", "tree")), ""),
        (Filter(none=("ship",)), "ecd"),
        (Filter(none=("ship", "tree")), "d"),
        (Filter(none=("ship", "dock", "tree")), "d"),
        (Filter(any=("dock",), none=("tree",)), "a"),
        (Filter(any=("ship", "dock"), all=("dock",), none=("ship",)), "c"),
        (Filter(min_similarity=0.5), "ab"),
        (Filter(min_similarity=0), "abec"),
        (Filter(min_similarity=1), "a"),
        (Filter(min_similarity=-1), "abecd"),
        (Filter(any=("tree", "dock"), min_similarity=0.4), "ae"),
        (Filter(without=("a", "d", "none")), "bec"),
        (Filter(any=("ship",), without=("a",)), "b"),
        (Filter(without=tuple("abcde")), ""),
    ],
)
def test_every_filter_lets_through_what_it_says(five: Store, where: Filter | None, expected: str) -> None:
    assert "".join(ids(five, where)) == expected


def test_a_filter_is_applied_before_the_best_are_chosen(five: Store) -> None:
    assert ids(five, Filter(any=("tree",)), k=1) == ["e"]


@pytest.mark.parametrize("kind", ["any", "all", "none"])
def test_a_label_that_no_image_has_is_refused_with_the_nearest(five: Store, kind: str) -> None:
    for ask in (lambda where: five.search(unit(1, 0, 0, 0), 3, where), five.count):
        with pytest.raises(
            StoreError, match="no image of the store has the label 'shp'. Did you mean 'ship'?"
        ):
            ask(Filter(**{kind: ("ship", "shp")}))


@pytest.mark.parametrize("least", [5, 1.5, -1.001, 100])
def test_a_least_similarity_that_no_cosine_can_be_is_refused(least: float) -> None:
    with pytest.raises(ConfigError, match=f"min_similarity = {least}: must lie between -1 and 1"):
        Filter(min_similarity=least)


@pytest.mark.parametrize("least", [math.nan, math.inf, "high"])
def test_a_least_similarity_that_is_no_number_is_refused(least: float) -> None:
    with pytest.raises(ConfigError, match="min_similarity"):
        Filter(min_similarity=least)


@pytest.mark.parametrize(
    "where",
    [
        None,
        Filter(any=("ship", "tree")),
        Filter(none=("ship",)),
        Filter(all=("dock",)),
        Filter(none=("ship",), without=("c", "x")),
    ],
)
def test_rows_are_counted_as_they_are_found(five: Store, where: Filter | None) -> None:
    assert five.count(where) == len(ids(five, where))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, {"dock": 2, "ship": 2, "tree": 2}),
        (Filter(any=("ship",)), {"dock": 1, "ship": 2, "tree": 0}),
        (Filter(none=("ship", "dock", "tree")), {"dock": 0, "ship": 0, "tree": 0}),
        (Filter(without=("a",)), {"dock": 1, "ship": 1, "tree": 2}),
    ],
)
def test_labels_are_counted_among_the_rows_that_a_filter_lets_through(
    five: Store, where: Filter | None, expected: dict[str, int]
) -> None:
    assert list(five.label_counts(where).items()) == list(expected.items())
    with pytest.raises(StoreError, match="has the label 'shp'. Did you mean 'ship'?"):
        five.label_counts(Filter(any=("shp",)))


def test_a_sample_is_the_same_for_the_same_seed_and_keeps_the_filter(make: Factory) -> None:
    store = make([row(f"{place:02}", None, "even" if place % 2 == 0 else "odd") for place in range(30)])
    first = store.sample(6, seed=1)
    assert len(set(first)) == 6
    assert store.sample(6, seed=1) == first
    assert any(store.sample(6, seed=seed) != first for seed in range(2, 5))
    even = store.sample(50, 3, Filter(any=("even",), without=("00",)))
    assert sorted(even) == [f"{place:02}" for place in range(2, 30, 2)]
    assert store.sample(5, 0, Filter(all=("even", "odd"))) == []
    with pytest.raises(StoreError, match="has the label 'evn'"):
        store.sample(5, 0, Filter(any=("evn",)))


def test_every_store_draws_the_same_sample(tmp_path: Path) -> None:
    rows = [row(f"{place:02}") for place in range(30)]
    assert len({tuple(create(rows, tmp_path).sample(10, 4)) for create in KINDS.values()}) == 1


def test_a_filter_changes_no_similarity(five: Store) -> None:
    query = np.array([0.3, 0.2, 0.1, 0.4])
    everything = {hit.id: hit.similarity for hit in five.search(query, 10)[0]}
    filtered = {hit.id: hit.similarity for hit in five.search(query, 10, Filter(any=("tree",)))[0]}
    assert filtered == {name: everything[name] for name in "ce"}


# ---- Ids and labels of any kind ------------------------------------------------------------------


def test_ids_and_labels_may_hold_anything(make: Factory) -> None:
    names = [*NASTY, "other"]
    store = make([row(name, unit(1, place, 0, 0), name, "plain") for place, name in enumerate(names)])
    for name in NASTY:
        names.remove(name)
        assert store.get([name])[0].labels == (name, "plain")
        for where in (Filter(any=(name,)), Filter(all=(name, "plain")), Filter(all=("plain", name))):
            assert ids(store, where) == [name]
            assert store.count(where) == 1
        assert ids(store, Filter(none=(name,)), k=50) == names
        assert store.delete([name]) == 1
        assert ids(store, k=50) == names


def test_all_of_them_live_side_by_side(make: Factory) -> None:
    store = make([row(name, unit(1, place, 0, 0), name) for place, name in enumerate(NASTY)])
    assert [each.id for each in store.get(NASTY[::-1])] == NASTY[::-1]
    assert ids(store, Filter(any=tuple(NASTY[3:6])), k=50) == NASTY[3:6]
    assert store.delete(NASTY[1:]) == len(NASTY) - 1
    assert store.count() == 1


# ---- Unknown labels ------------------------------------------------------------------------------


def three_states() -> list[Row]:
    """Every combination of two labels that are present (1), absent (0) or unknown (?); ids are the states.

    The last image is not labelled at all.
    """
    not_labelled = Row("--", unit(1, 9, 0, 0), labelled=False)
    labelled = [
        Row(
            ship + dock,
            unit(1, place, 0, 0),
            tuple(name for name, state in (("ship", ship), ("dock", dock)) if state == "1"),
            unknown=tuple(name for name, state in (("ship", ship), ("dock", dock)) if state == "?"),
        )
        for place, (ship, dock) in enumerate(product("10?", repeat=2))
    ]
    return [*labelled, not_labelled]


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def ten(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The store of `three_states`, for tests that only ask."""
    store: Store = request.param(three_states(), tmp_path_factory.mktemp("ten"))
    return store


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, "11 10 1? 01 00 0? ?1 ?0 ?? --"),
        (Filter(any=("ship",)), "11 10 1?"),
        (Filter(any=("ship", "dock")), "11 10 1? 01 ?1"),
        (Filter(all=("ship", "dock")), "11"),
        (Filter(none=("ship",)), "01 00 0?"),
        (Filter(none=("ship", "dock")), "00"),
        (Filter(none=("ship",), none_unknown_ok=True), "01 00 0? ?1 ?0 ?? --"),
        (Filter(none=("ship", "dock"), none_unknown_ok=True), "00 0? ?0 ?? --"),
        (Filter(any=("ship",), none=("dock",)), "10"),
        (Filter(all=("ship",), none=("dock",), none_unknown_ok=True), "10 1?"),
        (Filter(any=("ship",), none_unknown_ok=True), "11 10 1?"),
        (Filter(none=("ship",), without=("00",)), "01 0?"),
    ],
)
def test_a_filter_tells_present_absent_and_unknown_apart(
    ten: Store, where: Filter | None, expected: str
) -> None:
    assert ids(ten, where) == expected.split()
    assert ten.count(where) == len(expected.split())
    assert sorted(ten.sample(20, 0, where)) == sorted(expected.split())
    found = expected.split()
    assert ten.label_counts(where) == {
        "dock": sum(states[1] == "1" for states in found),
        "ship": sum(states[0] == "1" for states in found),
    }
    assert ten.unknown_counts(where) == {
        "dock": sum(states[1] in "?-" for states in found),
        "ship": sum(states[0] in "?-" for states in found),
    }


def test_unknown_labels_come_back_and_are_never_among_the_labels(ten: Store) -> None:
    for read in (ten.get, ten.describe, lambda asked: [ten.look_up(image) for image in asked]):
        (one, none) = read(["?1", "00"])
        assert (one.labels, one.unknown, none.labels, none.unknown) == (("dock",), ("ship",), (), ())
        assert [each.labelled for each in read(["00", "--"])] == [True, False]
    assert {hit.id: hit.labels for hit in ten.search(unit(1, 0, 0, 0), 10)[0]}["??"] == ()


def test_the_centroid_is_that_of_images_that_are_known_to_have_the_labels(ten: Store) -> None:
    (row,) = ten.get(["11"])
    assert np.allclose(ten.centroid(["ship", "dock"]), row.vector)


def test_a_label_that_is_nowhere_known_can_be_filtered_by(make: Factory) -> None:
    store = make([row("a", None, "ship"), replace(row("b"), unknown=("it's",))])
    assert store.label_counts() == {"it's": 0, "ship": 1}
    assert store.unknown_counts() == {"it's": 1, "ship": 0}
    assert ids(store, Filter(any=("it's",))) == []
    assert ids(store, Filter(none=("it's",))) == ["a"]
    assert ids(store, Filter(none=("it's",), none_unknown_ok=True)) == ["a", "b"]
    with pytest.raises(StoreError, match="no image of the store carries all of: it's"):
        store.centroid(["it's"])


def test_unknown_labels_are_added_to_a_store_that_has_none_and_taken_away(make: Factory) -> None:
    store = make(some())
    assert store.unknown_counts() == {"dock": 0, "ship": 0, "tree": 0}
    store.add([replace(some()[3], unknown=("ship",))])
    assert ids(store, Filter(none=("ship",))) == ["e", "c"]
    assert store.get(["d", "e"])[0].unknown == ("ship",)
    store.optimize()
    assert ids(store, Filter(none=("ship",))) == ["e", "c"]
    store.add(some())
    assert ids(store, Filter(none=("ship",))) == ["e", "c", "d"]
    assert store.unknown_counts() == {"dock": 0, "ship": 0, "tree": 0}


def test_a_label_that_is_both_present_and_unknown_is_refused(make: Factory) -> None:
    with pytest.raises(StoreError, match="'a': the label 'ship' is both present and unknown."):
        make([replace(row("a", None, "ship"), unknown=("ship",))])


def test_labels_of_an_image_that_is_not_labelled_are_refused(make: Factory) -> None:
    with pytest.raises(StoreError, match="'a': has labels, but is said to be not labelled."):
        make([replace(row("a", None, "ship"), labelled=False)])


def test_an_image_is_labelled_and_no_longer_so(make: Factory) -> None:
    store = make(some())
    store.add([replace(some()[3], labelled=False)])
    assert ids(store, Filter(none=("ship",))) == ["e", "c"]
    assert store.unknown_counts() == {"dock": 1, "ship": 1, "tree": 1}
    assert store.unknown_counts(Filter(any=("ship",))) == {"dock": 0, "ship": 0, "tree": 0}
    store.optimize()
    assert ids(store, Filter(none=("ship",), none_unknown_ok=True)) == ["e", "c", "d"]
    store.add(some())
    assert ids(store, Filter(none=("ship",))) == ["e", "c", "d"]


def test_names_of_unknown_labels_may_hold_anything(make: Factory) -> None:
    rows = [row("a", None, *NASTY), replace(row("b"), unknown=tuple(NASTY)), row("c")]
    store = make(rows)
    for name in NASTY:
        assert ids(store, Filter(none=(name,))) == ["c"]
        assert ids(store, Filter(none=(name,), none_unknown_ok=True)) == ["b", "c"]


# ---- Adding, getting, removing -------------------------------------------------------------------


def full() -> Row:
    """A row with everything."""
    return Row(
        "a/b.png",
        unit(1, 2, 3, 4),
        ("ship", "dock"),
        width=640,
        height=480,
        thumbnail=b"\xff\xd8\0\xff",
        content="abc:def",
        metadata={"sensor": "S2 'a'", "note": "ü, %"},
        bbox=(-10.5, 1.25, 10.5, 2.5),
        date=datetime.date(2024, 5, 31),
        unknown=("tree", "it's"),
    )


def test_a_row_comes_back_as_it_was(make: Factory) -> None:
    given_ = full()
    (found,) = make([given_, row("b")]).get(["a/b.png"])
    for name in (
        "id",
        "labels",
        "unknown",
        "width",
        "height",
        "thumbnail",
        "content",
        "metadata",
        "bbox",
        "date",
    ):
        assert getattr(found, name) == getattr(given_, name)
    assert np.array_equal(found.vector, given_.vector)
    assert found.vector.dtype == np.float32


def test_a_description_is_all_but_vector_and_thumbnail(make: Factory) -> None:
    given_ = replace(full(), thumbnail=b"")
    store = make([full(), row("b", None, "ship")])
    found, other = store.describe([given_.id, "b"])
    for name in (
        "id",
        "labels",
        "unknown",
        "width",
        "height",
        "thumbnail",
        "content",
        "metadata",
        "bbox",
        "date",
    ):
        assert getattr(found, name) == getattr(given_, name)
    assert (found.vector.size, other.vector.size, other.labels, other.bbox) == (0, 0, ("ship",), None)
    assert store.describe([]) == []
    with pytest.raises(MissingImageError, match="no image 'c' in the store"):
        store.describe(["b", "c"])


def test_one_image_is_looked_up_with_vector_and_labels(make: Factory) -> None:
    vectors = {name: unit(1, 2, 3, 4 + place) for place, name in enumerate(NASTY)}
    rows = [row(name, vector, "ship", name) for name, vector in vectors.items()]
    store = make([row("other", unit(0, 1, 0, 0)), *rows])
    for name in NASTY:
        found = store.look_up(name)
        assert np.array_equal(found.vector, vectors[name])
        assert (found.id, found.labels, found.unknown) == (name, ("ship", name), ())
        for absent in ("", "0", "zzz", name + "x"):
            with pytest.raises(MissingImageError):
                store.look_up(absent)


def test_what_is_not_known_comes_back_as_none(make: Factory) -> None:
    (found,) = make([row("a")]).get(["a"])
    assert (found.labels, dict(found.metadata), found.bbox, found.date) == ((), {}, None, None)


def test_rows_come_in_the_order_that_was_asked_for_also_twice(five: Store) -> None:
    assert [each.id for each in five.get(["d", "a", "c", "a"])] == ["d", "a", "c", "a"]


def test_more_ids_than_one_question_holds_are_found(make: Factory) -> None:
    names = [f"{place:04}" for place in range(1201)]
    store = make([row(name) for name in names])
    assert [each.id for each in store.get(names[::-1])] == names[::-1]
    assert store.delete([*names[:1100], "none"]) == 1100
    assert store.count() == 101


def test_an_id_that_is_missing_is_named_with_the_nearest(make: Factory) -> None:
    store = make([row("harbour/ship_01.png"), row("forest/tree_01.png")])
    with pytest.raises(
        StoreError, match="no image 'harbor/ship_01.png' in the store. Did you mean 'harbour/ship_01"
    ):
        store.get(["forest/tree_01.png", "harbor/ship_01.png"])


def test_the_nearest_is_found_among_very_many_ids(make: Factory) -> None:
    store = make([row(f"forest/{place:04}.png") for place in range(3000)])
    with pytest.raises(StoreError, match="Did you mean 'forest/2900.png'?"):
        store.get(["forest/2900.tif"])


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("000007", "'images/000007.png'"),
        ("000007.png", "'images/000007.png'"),
        ("/somewhere/images/000007.png", "'images/000007.png'"),
        ("images/000007.tif", "'images/000007.png'"),
        ("1234", "'images/a_1234_b.png' or 'other/images/a_1234_b.png'"),
        ("00000", "'images/000005.png', 'images/000006.png' or 'images/000007.png'"),
        ("imges/00000x.png", "'images/000005.png', 'images/000006.png' or 'images/000007.png'"),
    ],
)
def test_an_id_that_is_missing_is_named_with_at_most_three_that_may_have_been_meant(
    make: Factory, asked: str, meant: str
) -> None:
    names = [f"images/{place:06}.png" for place in range(5, 10)]
    store = make([row(name) for name in [*names, "images/a_1234_b.png", "other/images/a_1234_b.png"]])
    with pytest.raises(MissingImageError) as error:
        store.look_up(asked)
    said = str(error.value)
    assert said.startswith(f"no image '{asked}' in the store. Did you mean ")
    if asked.startswith("imges"):  # of equally near ones, any
        assert said.count("'images/00000") == 3
    else:
        assert said.endswith(f"Did you mean {meant}?")


def test_an_id_that_is_like_no_other_is_named_beside_some_that_exist(make: Factory) -> None:
    for names, examples in (
        ([], ""),
        (["new\nline"], ""),
        (["images/a.png"], " Ids are like 'images/a.png'."),
        (["images/a.png", "new\nline", "it's"], " Ids are like 'images/a.png' or 'it's'."),
    ):
        with pytest.raises(MissingImageError) as refused:
            make([row(name) for name in names]).look_up("zzzzzz")
        assert str(refused.value) == f"no image 'zzzzzz' in the store.{examples}"


def test_a_thumbnail_is_read_alone(make: Factory) -> None:
    store = make([full(), row("b")])
    assert (store.thumbnail("a/b.png"), store.thumbnail("b")) == (b"\xff\xd8\0\xff", b"")
    with pytest.raises(MissingImageError, match="no image 'c' in the store"):
        store.thumbnail("c")


def test_ids_fingerprints_and_the_model_are_listed(make: Factory) -> None:
    store = make([row("b"), replace(full(), unknown=())])
    assert store.ids() == ["a/b.png", "b"]
    assert store.contents() == {"a/b.png": "abc:def", "b": ""}
    assert store.model_files() == MODEL
    assert replace(store.about, version=1) == about()  # version 2 has unknown labels


def test_whether_places_and_dates_are_known(make: Factory) -> None:
    def known(store: Store) -> tuple[bool, bool]:
        return store.knows("bbox"), store.knows("date")

    assert known(make([row("a")])) == (False, False)
    assert known(make([row("a"), replace(full(), date=None)])) == (True, False)
    assert known(make([row("a"), replace(full(), bbox=None)])) == (False, True)


def test_the_centroid_is_the_mean_of_the_images_that_have_all_labels(five: Store) -> None:
    both = unit(1, 0, 0, 0)
    assert np.allclose(five.centroid(["ship"]), (both + unit(1, 1, 0, 0)) / 2, atol=1e-6)
    assert np.allclose(five.centroid(["ship", "dock"]), both, atol=1e-6)
    with pytest.raises(StoreError, match="no image of the store carries all of: ship, tree"):
        five.centroid(["ship", "tree"])
    with pytest.raises(StoreError, match="has the label 'shp'. Did you mean 'ship'?"):
        five.centroid(["shp"])


# ---- Snapshots -----------------------------------------------------------------------------------


def test_a_snapshot_answers_as_the_store_does(five: Store) -> None:
    def ask(source: Snapshot) -> list[object]:
        (found,) = source.search(unit(1, 2, 0, 0), 3)
        names = [each.id for each in found]
        return [found, [each.labels for each in source.describe(names)], source.count(), source.sample(2)]

    assert five.read(ask) == ask(five)
    assert five.read(lambda snapshot: snapshot.exact) == five.exact


def test_what_fails_inside_a_snapshot_is_raised(five: Store) -> None:
    def fail(_: Snapshot) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        five.read(fail)
    with pytest.raises(MissingImageError):
        five.read(lambda snapshot: snapshot.look_up("x"))


def test_how_vectors_are_searched_is_described(five: Store) -> None:
    assert five.search_method().startswith("exactly, in memory")


def test_adding_an_id_again_replaces_its_row(make: Factory) -> None:
    store = make(some())
    store.add([row("a", unit(0, 0, 1, 0), "new"), row("f", unit(0, 0, 1, 0), "new")])
    assert store.count() == 6
    assert store.get(["a"])[0].labels == ("new",)
    assert [hit.id for hit in store.search(unit(0, 0, 1, 0), 2)[0]] == ["a", "f"]
    assert store.count(Filter(any=("new",))) == 2


def test_adding_nothing_changes_nothing(make: Factory) -> None:
    store = make(some())
    store.add([])
    assert store.count() == 5


def test_removing_counts_what_was_there(make: Factory) -> None:
    store = make(some())
    assert store.delete(["a", "a", "none", "c"]) == 2
    assert store.delete(["a"]) == 0
    assert store.delete([]) == 0
    assert ids(store) == ["b", "e", "d"]


def test_tidying_up_changes_no_answer(make: Factory) -> None:
    store = make([])
    for each in some():
        store.add([each])
    store.delete(["d"])
    before = store.search(unit(1, 3, 2, 1), 5)
    store.optimize()
    store.optimize()
    assert store.search(unit(1, 3, 2, 1), 5) == before


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([row("")], "without an id"),
        ([row("a"), row("b"), row("a")], "duplicate id 'a'"),
        ([row("a", np.ones(3, np.float32))], r"'a': a vector of \(3,\)"),
        ([row("a", np.full(DIM, np.nan, np.float32))], "'a': its vector is not finite"),
        ([row("a", np.zeros(DIM, np.float32))], "'a': its vector is not of unit length"),
        ([row("a", np.full(DIM, 3, np.float32))], "'a': its vector is not of unit length"),
    ],
)
def test_rows_that_do_not_belong_into_a_store_are_refused_and_none_is_added(
    make: Factory, rows: list[Row], text: str
) -> None:
    store = make([row("there")])
    with pytest.raises(StoreError, match=text):
        store.add([row("before"), *rows])
    assert ids(store) == ["there"]


# ---- Against a plain loop ------------------------------------------------------------------------

LABELS = ["ship", "it's", "a,b", "%"]
vectors = st.lists(st.integers(-3, 3), min_size=DIM, max_size=DIM).filter(any)
stored = st.dictionaries(
    st.sampled_from([*NASTY, *"abcdef"]), st.tuples(vectors, st.sets(st.sampled_from(LABELS))), max_size=12
)
filters = st.tuples(
    *[st.lists(st.sampled_from(LABELS), max_size=2, unique=True)] * 3,
    st.one_of(st.none(), st.sampled_from([-0.75, -0.3, 0.05, 0.35, 0.85])),
)


def loop(
    rows: dict[str, tuple[list[int], set[str]]], query: list[int], k: int, asked: tuple[object, ...]
) -> list[tuple[str, float]]:
    """Cosine of whole numbers, one image at a time."""
    any_, all_, none_, least = asked
    found = []
    for name, (values, labels) in rows.items():
        if any_ and not any(label in labels for label in any_):  # type: ignore[attr-defined]
            continue
        if any(label not in labels for label in all_) or any(label in labels for label in none_):  # type: ignore[attr-defined]
            continue
        dot = sum(a * b for a, b in zip(values, query, strict=True))
        cosine = dot / math.sqrt(sum(a * a for a in values) * sum(b * b for b in query))
        if least is None or cosine >= least:  # type: ignore[operator]
            found.append((-round(cosine, 9), name, cosine))
    return [(name, cosine) for _, name, cosine in sorted(found)[:k]]


@settings(max_examples=25)
@given(stored, vectors, st.integers(1, 15), filters)
def test_every_store_answers_as_a_loop_does(
    tmp_path_factory: pytest.TempPathFactory,
    rows: dict[str, tuple[list[int], set[str]]],
    query: list[int],
    k: int,
    asked: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], float | None],
) -> None:
    carried = {label for _, labels in rows.values() for label in labels}
    kept = tuple(tuple(label for label in names if label in carried) for names in asked[:3])
    where = Filter(*kept, min_similarity=asked[3])
    expected = loop(rows, query, k, (*kept, asked[3]))
    folder = tmp_path_factory.mktemp("loop")
    content = [row(name, unit(*values), *sorted(labels)) for name, (values, labels) in rows.items()]
    answers = [
        create(content, folder).search(np.array(query), k, where)[0] for create in (in_memory, in_lance)
    ]
    assert answers[0] == answers[1]
    for hits in answers:
        assert [hit.similarity for hit in hits] == pytest.approx([cosine for _, cosine in expected], abs=1e-6)
        # Vectors that point the same way are equal up to rounding: only those may change places.
        for hit, (name, cosine) in zip(hits, expected, strict=True):
            near = {other for other, value in expected if abs(value - cosine) < 1e-6}
            assert hit.id == name or hit.id in near or abs(expected[-1][1] - cosine) < 1e-6


def test_every_store_of_the_catalog_keeps_the_contract() -> None:
    assert {resolve("store", name, STORES) for name in STORES} == {MemoryStore, LanceStore}


# ---- Listing, and all rows at once ----------------------------------------------------------------


def dated() -> list[Row]:
    """Seven images, added in another order than that of their ids; two have no date, one is not labelled."""
    days = {"g": 3, "a": 9, "c": None, "b": 3, "f": 1, "e": None, "d": 3}
    labels = {"a": ["odd"], "b": ["odd"], "e": ["odd"], "d": ["even"], "g": ["even"]}
    return [
        replace(
            row(image, unit(place + 1, -place, 1, 0), *labels.get(image, [])),
            date=None if day is None else datetime.date(2024, 1, day),
            unknown=("odd",) if image == "c" else (),
            labelled=image != "f",
        )
        for place, (image, day) in enumerate(days.items())
    ]


@pytest.mark.parametrize(
    ("sort", "descending", "expected"),
    [
        ("id", False, "abcdefg"),
        ("id", True, "gfedcba"),
        ("date", False, "fbdgace"),
        ("date", True, "abdgfce"),
    ],
)
def test_everything_is_listed_in_order_page_by_page(
    make: Factory, sort: SortKey, descending: bool, expected: str
) -> None:
    store = make(dated())
    for limit in (1, 3, 7, 100):
        pages = [store.page(offset, limit, None, sort, descending) for offset in range(0, 9, limit)]
        assert "".join(image for page in pages for image in page.ids) == expected
        assert {page.total for page in pages} == {7}
    passing = [image for image in expected if image in "abf"]
    assert store.page(0, 9, Filter(without=tuple("cdeg")), sort, descending) == Listed(tuple(passing), 3)
    assert store.page(2**60, 5, None, sort, descending) == Listed((), 7)


def test_pages_follow_the_filters_by_labels_and_dates(make: Factory) -> None:
    store = make(dated())
    where = Filter(any=("odd",), date_to=datetime.date(2024, 1, 3))
    assert store.page(0, 5, where, "date", True) == Listed(("b",), 1)
    assert store.page(1, 5, where, "date", True) == Listed((), 1)
    assert store.page(0, 5, Filter(none=("odd",))) == Listed(("d", "g"), 2)
    store.delete(["b"])
    assert store.page(0, 5, where) == Listed((), 0)
    with pytest.raises(StoreError, match="Did you mean 'odd'"):
        store.page(0, 5, Filter(any=("od",)))


@pytest.mark.parametrize(("offset", "limit"), [(-1, 5), (0, 0), (0, -3), (1.5, 1)])
def test_a_page_that_is_none_is_refused(five: Store, offset: int, limit: int) -> None:
    with pytest.raises(ConfigError, match=r"(offset|limit) = "):
        five.page(offset, limit)


def test_rows_count_in_the_order_of_ids(make: Factory) -> None:
    store = make(dated())
    assert store.rows().tolist() == list(range(7))
    assert store.rows(Filter()).tolist() == list(range(7))
    chosen = store.rows(Filter(all=("odd",)))
    assert store.ids_of(chosen) == store.ids(Filter(all=("odd",))) == ["a", "b", "e"]
    assert store.rows_of(["g", "x", "a", "it's"]).tolist() == [6, -1, 0, -1]
    assert store.ids_of(np.array([6, 0, 6])) == ["g", "a", "g"]
    assert (store.ids_of(np.zeros(0, int)), store.rows_of([]).tolist()) == ([], [])


def test_states_of_all_rows_are_those_of_the_labels(make: Factory) -> None:
    store = make(dated())
    assert store.states("odd").tolist() == [1, 1, -1, 0, 1, -1, 0]
    assert store.states("even").tolist() == [0, 0, 0, 1, 0, -1, 1]
    assert store.states("x' OR '1'='1").tolist() == [-1] * 7


def test_vectors_and_products_are_those_of_the_rows(make: Factory) -> None:
    store = make(dated())
    vectors = np.stack([each.vector for each in sorted(dated(), key=lambda each: each.id)])
    rows = np.array([5, 0, 3])
    np.testing.assert_array_equal(store.vectors(rows), vectors[rows])
    weights = np.array([0.5, -2, 3, 1])
    np.testing.assert_allclose(store.products(weights), vectors @ weights, rtol=1e-5)


def test_an_empty_store_has_no_rows(make: Factory) -> None:
    store = make([])
    assert store.page(0, 5) == Listed((), 0)
    assert [len(found) for found in (store.rows(), store.states("a"), store.products(np.ones(DIM)))] == [
        0
    ] * 3
    assert store.read(lambda snapshot: updated_map(snapshot, None)) is None


def test_the_version_changes_with_the_rows(make: Factory) -> None:
    store = make(some())
    before = store.version
    assert store.version == before
    store.add([row("f")])
    assert store.version != before


def test_a_map_is_kept_as_it_was_written(make: Factory) -> None:
    store = make(some())
    assert store.read_map() is None
    made = store.read(lambda snapshot: updated_map(snapshot, None))
    assert made is not None
    for found in (made, replace(made, points=made.points + 1)):
        store.write_map(found)
        read = store.read_map()
        assert read is not None
        assert (read.method, read.made_of, read.ids) == ("pca", 5, list("abcde"))
        for name in ("points", "centre", "axes"):
            np.testing.assert_array_equal(getattr(read, name), getattr(found, name))
    assert store.count() == 5
