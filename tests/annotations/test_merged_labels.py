"""Labels of the table and of the page together: in stores, in label tables, in training."""

import itertools
import shutil
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import marcir
from marcir.annotations import Annotations
from marcir.annotations.annotated_store import AnnotatedStore
from marcir.annotations.label_export import export_labels
from marcir.annotations.merge import LabelNames, merged_states, merged_table
from marcir.annotations.retrain import count_labelled
from marcir.data.label_csv import read_label_table
from marcir.errors import DataError, StoreError
from marcir.search import Filter, MemoryStore, Row, Store
from marcir.search.lance import LanceStore
from marcir.search.records import About

TABLE: dict[str, tuple[tuple[str, ...], tuple[str, ...]] | None] = {
    "a": (("ship", "dock"), ()),
    "b": (("ship",), ("tree",)),
    "c": ((), ("dock",)),
    "d": None,  # not labelled
    "e": (("tree",), ()),
    "f": ((), ()),  # all labels are absent
}


def rows() -> list[Row]:
    made = np.random.default_rng(0).normal(size=(len(TABLE), 4)).astype("f4")
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return [
        Row(image, vector, thumbnail=b"x", labelled=False)
        if of is None
        else Row(image, vector, of[0], unknown=of[1], thumbnail=b"x")
        for (image, of), vector in zip(TABLE.items(), made, strict=True)
    ]


@pytest.fixture(params=["memory", "lance", "approximate"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    about = About("m" * 64, 4, "/archive")
    made: Store = MemoryStore(about)
    if request.param != "memory":
        made = LanceStore.create(tmp_path / "a.store", about, {"config.json": b"{}"})
    made.add(rows())
    return LanceStore(made.uri, approximate=True) if request.param == "approximate" else made


@pytest.fixture
def annotations(tmp_path: Path) -> Annotations:
    return Annotations(tmp_path / "a.sqlite", writable=True)


def expected(image: str, name: str, page: dict[str, dict[str, str]]) -> str:
    """The rule, written down once more."""
    of = TABLE[image]
    if name in page.get(image, {}):
        return page[image][name]
    if of is None or name in of[1] or name not in ("dock", "ship", "tree"):
        return "unknown"
    if name in of[0]:
        return "present"
    return "absent"


PAGE = {"a": {"ship": "absent", "barn": "present"}, "d": {"dock": "present"}, "e": {"tree": "unknown"}}


def state(page: dict[str, dict[str, str]], annotations: Annotations) -> None:
    annotations.labels.set(
        [(name, said, [image]) for image, names in page.items() for name, said in names.items()]  # type: ignore[misc]
    )


def test_every_combination_of_table_and_page_follows_the_rule() -> None:
    names = LabelNames(("dock", "ship", "tree"), ("barn",))
    for row, name, said in itertools.product(rows(), names.all, (None, "present", "absent", "unknown")):
        page = {} if said is None else {name: said}
        merged = merged_states(row, page, names)  # type: ignore[arg-type]
        assert merged == {each: expected(row.id, each, {row.id: page}) for each in names.all}


def test_rows_of_a_store_have_merged_labels(store: Store, annotations: Annotations) -> None:
    state(PAGE, annotations)
    merged = AnnotatedStore(store, annotations)
    for row in merged.describe(list(TABLE)):
        if row.id in PAGE:
            names = ("barn", "dock", "ship", "tree")
            want = {name: expected(row.id, name, PAGE) for name in names}
            assert row.labels == tuple(name for name in names if want[name] == "present")
            assert row.unknown == tuple(name for name in names if want[name] == "unknown")
        else:
            labels, unknown = TABLE[row.id] or ((), ())
            assert row.labels == labels
            assert row.unknown == (*unknown, "barn")
            assert row.labelled == (TABLE[row.id] is not None)
    assert [row.labels for row in store.describe(["a"])] == [("ship", "dock")], "the store is as it was"


def test_states_that_suggestions_learn_from_are_unknown_where_an_image_is_not_labelled(
    store: Store, annotations: Annotations
) -> None:
    numbers = {"present": 1, "absent": 0, "unknown": -1}
    page = {"a": {"ship": "absent", "dock": "absent"}, "d": {"dock": "absent"}}
    for said in ({}, page if store.exact else {}):  # elsewhere, they are those of the table
        state(said, annotations)
        merged = AnnotatedStore(store, annotations)
        for name in ("dock", "ship", "tree"):
            found = merged.read(lambda snapshot, name=name: snapshot.states(name).tolist())  # type: ignore[misc]
            assert found == [numbers[expected(image, name, said)] for image in TABLE]


def test_filters_and_counts_use_merged_labels_where_search_is_exact(
    store: Store, annotations: Annotations
) -> None:
    state(PAGE, annotations)
    merged = AnnotatedStore(store, annotations)
    if not store.exact:  # there, they use the labels of the table
        assert set(merged.sample(10, where=Filter(any=("ship",)))) == {"a", "b"}
        with pytest.raises(StoreError, match="no image of the store has the label 'barn'"):
            merged.count(Filter(any=("barn",)))
        return
    described = {row.id: row for row in merged.describe(list(TABLE))}
    for name in ("barn", "dock", "ship", "tree"):
        present = {image for image, row in described.items() if name in row.labels}
        unknown = {image for image, row in described.items() if name in row.unknown or not row.labelled}
        for where, want in (
            (Filter(any=(name,)), present),
            (Filter(all=(name, "dock")), {each for each in present if "dock" in described[each].labels}),
            (Filter(none=(name,)), TABLE.keys() - present - unknown),
            (Filter(none=(name,), none_unknown_ok=True), TABLE.keys() - present),
            (Filter(any=(name,), among=("a", "b", "gone")), present & {"a", "b"}),
        ):
            assert set(merged.sample(10, where=where)) == want
            assert merged.count(where) == len(want)
            (found,) = merged.search(rows()[0].vector, 10, where)
            assert {each.id for each in found} == want
            assert all(each.labels == described[each.id].labels for each in found)
            counts, may_be = merged.label_counts(where), merged.unknown_counts(where)
            assert counts[name] == len(want & present)
            assert may_be[name] == len(want & unknown)
        if present:
            vectors = {row.id: row.vector for row in rows()}
            mean = np.mean([vectors[image] for image in sorted(present)], axis=0)
            assert merged.centroid([name]) == pytest.approx(mean, abs=1e-6)
    with pytest.raises(StoreError, match="Did you mean 'barn'?"):
        merged.count(Filter(any=("brn",)))


def test_changes_are_seen_by_the_next_read(store: Store, annotations: Annotations) -> None:
    merged = AnnotatedStore(store, annotations)
    assert merged.describe(["d"])[0].unknown == (), "nothing was said: as the store is"
    annotations.labels.set([("ship", "present", ["d", "gone"])])
    assert merged.describe(["d"])[0].labels == ("ship",)
    annotations.labels.set([("ship", "cleared", ["d"]), ("dock", "present", ["d"])])
    assert merged.describe(["d"])[0].labels == ("dock",)
    annotations.labels.undo()
    annotations.labels.undo()
    assert merged.describe(["d"])[0].labels == ()
    assert merged.describe(["d"])[0].unknown == ()
    store.add([Row("f", rows()[0].vector, ("ship",))])
    annotations.labels.set([("ship", "absent", ["f"])])
    assert merged.describe(["f"])[0].labels == ()


def test_a_merge_that_fails_loses_no_change(
    store: Store, annotations: Annotations, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotations.labels.set([("ship", "present", ["c"])])
    merged = AnnotatedStore(store, annotations)
    assert merged.describe(["c"])[0].labels == ("ship",)
    annotations.labels.set([("ship", "present", ["d"]), ("ship", "absent", ["c"])])
    with monkeypatch.context() as patch:
        patch.setattr("marcir.annotations.annotated_store.rows_with_labels", fail)
        with pytest.raises(StoreError, match="a moment without the network"):
            merged.describe(["d"])
    assert [row.labels for row in merged.describe(["c", "d"])] == [(), ("ship",)]


def fail(*_: object) -> NoReturn:
    raise StoreError("a moment without the network")


def test_labels_are_merged_again_where_the_table_says_something_else(
    store: Store, annotations: Annotations
) -> None:
    annotations.labels.set([("ship", "present", ["b"])])
    merged = AnnotatedStore(store, annotations)
    assert merged.describe(["b"])[0].labels == ("ship",)
    store.add([Row("b", rows()[1].vector, ("dock", "quay"))])
    assert merged.describe(["b"])[0].labels == ("dock", "quay", "ship")
    annotations.labels.set([("ship", "absent", ["b"])])
    assert merged.describe(["b"])[0].labels == ("dock", "quay")


def test_a_backup_of_the_annotations_that_is_restored_applies(store: Store, annotations: Annotations) -> None:
    annotations.labels.set([("ship", "present", ["c"])])
    assert annotations.path is not None
    backup = annotations.path.with_name("backup")
    shutil.copy(annotations.path, backup)
    merged = AnnotatedStore(store, annotations)
    annotations.labels.set([("ship", "present", ["d"])])
    assert [row.labels for row in merged.describe(["c", "d"])] == [("ship",), ("ship",)]
    shutil.copy(backup, annotations.path)
    assert [row.labels for row in merged.describe(["c", "d"])] == [("ship",), ()]


def test_merging_reads_neither_vectors_nor_thumbnails_where_search_is_approximate_and_others_read_on(
    store: Store, annotations: Annotations, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotations.labels.set([("ship", "present", ["c"])])
    merged = AnnotatedStore(store, annotations)
    monkeypatch.setattr("marcir.search.approximate.to_rows", fail)
    assert merged.describe(["c"])[0].labels == ("ship",)
    with merged._merging:  # as a thread that merges
        assert merged.describe(["c"])[0].labels == ("ship",)


def test_a_table_for_training_says_what_is_known_and_nothing_else(
    store: Store, annotations: Annotations, tmp_path: Path
) -> None:
    state(PAGE, annotations)
    annotations.labels.set([("ship", "present", ["gone"])])
    found = export_labels(store, annotations)
    assert (found.images, found.unlabelled, found.gone) == (6, 0, 1)
    (tmp_path / "labels.csv").write_text(found.text)
    table = read_label_table(tmp_path / "labels.csv")
    assert (table.names, table.unlisted) == (("barn", "dock", "ship", "tree"), "unknown")
    for row in table.rows:
        for name in table.names:
            read = "present" if name in row.labels else "unknown" if name in row.unknown else "absent"
            assert read == expected(row.image, name, PAGE)


def test_images_of_which_nothing_is_known_are_not_listed(store: Store, annotations: Annotations) -> None:
    assert export_labels(store, annotations).unlabelled == 1, "d, which is not labelled"
    annotations.labels.set([("ship", "absent", ["d"])])
    page = export_labels(store, annotations, "page")
    assert page.text == "# unlisted: unknown\npath,labels\nd,!ship\n"
    assert "d," not in export_labels(store, annotations, "table").text


@pytest.mark.parametrize(
    "page",
    [
        {},
        PAGE,
        {"d": {"barn": "absent"}},  # a label that the table does not have
        {"d": {"ship": "unknown"}},
        {"e": {"dock": "unknown", "ship": "unknown", "tree": "unknown"}},
        {"gone": {"barn": "present"}},
    ],
)
def test_labelled_images_are_counted_as_the_merged_table_lists_them(
    store: Store, annotations: Annotations, page: dict[str, dict[str, str]]
) -> None:
    state(page, annotations)
    stated = annotations.labels.states()
    listed = store.read(lambda snapshot: merged_table(snapshot, stated).rows)
    expected = len(listed), any(row.unknown for row in listed)
    assert store.read(lambda snapshot: count_labelled(snapshot, stated)) == expected


def test_names_that_no_table_can_hold_are_reported(annotations: Annotations) -> None:
    store = MemoryStore(About("m" * 64, 4, "/archive"))
    store.add([Row("new\nline.png", rows()[0].vector, ("ship",)), Row("b", rows()[1].vector, ("ship",))])
    found = export_labels(store, annotations)
    assert found.unwritable == ("new\nline.png",)
    assert "WARNING: left out 1 whose names" in str(found)
    store.add([Row("c", rows()[2].vector, ("a;b",))])
    with pytest.raises(DataError, match="label 'a;b': a list of labels cannot hold this name"):
        export_labels(store, annotations)


def test_a_python_user_reads_collections_and_labels(annotations: Annotations) -> None:
    annotations.collections.create("Ships", ["a", "b"])
    opened = marcir.open_annotations("x.store", annotations.path)
    assert [(each.name, each.images) for each in opened.collections.all()] == [("Ships", 2)]
