"""The map of an archive, against PCA by singular values."""

import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from marcir.errors import DependencyError, UnusableStoreError
from marcir.search import MemoryStore, Row
from marcir.search import embedding_map as module
from marcir.search.embedding_map import EmbeddingMap, MapMethod, points_of_rows, principal_axes, updated_map
from marcir.search.index import index
from marcir.search.lance import LanceStore
from marcir.search.map_update import update_map
from marcir.search.records import About
from serve.small_archive import write_images, write_model

DIM = 6


def rows(count: int, first: int = 0) -> list[Row]:
    made = []
    for place in range(first, first + count):
        vector = np.random.default_rng(place).normal(size=DIM) * [3, 2, 1, 1, 1, 1] + [1, 0, 0, 0, 0, 0]
        made.append(Row(f"{place:04}", (vector / np.linalg.norm(vector)).astype(np.float32)))
    return made


def store_of(images: list[Row]) -> MemoryStore:
    store = MemoryStore(About("m" * 64, DIM, ""))
    store.add(images)
    return store


def update(
    store: MemoryStore, before: EmbeddingMap | None = None, method: MapMethod | None = None
) -> EmbeddingMap:
    made = store.read(lambda snapshot: updated_map(snapshot, before, method))
    assert made is not None
    return made


def test_the_axes_are_those_of_the_largest_singular_values() -> None:
    vectors = np.stack([row.vector for row in rows(200)]).astype(float)
    mean, axes = principal_axes(vectors)
    _, _, right = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    np.testing.assert_allclose(mean, vectors.mean(0))
    np.testing.assert_allclose(abs(np.sum(axes * right[:2], axis=1)), 1, atol=1e-9)
    for axis in axes:
        assert axis[abs(axis).argmax()] > 0


def test_points_are_the_scaled_products_with_the_axes() -> None:
    store = store_of(rows(200))
    made = update(store)
    vectors = np.stack([row.vector for row in rows(200)])
    np.testing.assert_allclose(made.points, (vectors - made.centre) @ made.axes.T, atol=1e-6)
    assert abs(made.points).max() == pytest.approx(1, abs=1e-6)
    assert np.var(made.points[:, 0]) > np.var(made.points[:, 1])


@pytest.mark.parametrize("count", [1, 2])
def test_a_map_of_very_few_images_is_finite(count: int) -> None:
    assert np.isfinite(update(store_of(rows(count))).points).all()


def test_new_images_are_put_into_the_map_until_a_fifth_has_come() -> None:
    before = update(store_of(rows(100)))
    later = update(store_of(rows(120)), before)
    np.testing.assert_allclose(later.points[:100], before.points, atol=1e-6)
    assert (later.made_of, len(later.ids)) == (100, 120)
    assert update(store_of(rows(121)), later).made_of == 121


def test_removed_images_leave_the_map_and_changed_ones_move() -> None:
    before = update(store_of(rows(50)))
    changed = Row("0010", rows(1, 40)[0].vector)
    store = store_of([*rows(10), changed, *rows(39, 11)])
    store.delete(["0003"])
    later = update(store, before)
    assert "0003" not in later.ids
    place = later.ids.index("0010")
    np.testing.assert_allclose(later.points[place], later.points[later.ids.index("0040")], atol=1e-6)


def test_images_that_are_not_in_the_map_yet_have_no_point() -> None:
    made = update(store_of(rows(5)))
    store = store_of(rows(7, 1))
    points = store.read(lambda snapshot: points_of_rows(made, snapshot))
    np.testing.assert_array_equal(points[:4], made.points[1:])
    assert np.isnan(points[4:]).all()


def test_umap_without_its_package_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(DependencyError, match="pip install umap-learn"):
        update(store_of(rows(5)), method="umap")


def test_new_images_of_a_umap_are_put_where_the_most_similar_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package itself is not needed: another one puts the images into a line."""

    class Line:
        def __init__(self, **settings: object) -> None:
            assert settings == {"metric": "cosine", "random_state": 0}

        def fit_transform(self, vectors: np.ndarray) -> np.ndarray:
            return np.stack([np.arange(len(vectors)), np.zeros(len(vectors))], 1)

    fake = ModuleType("umap")
    fake.UMAP = Line  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "umap", fake)
    monkeypatch.setattr(module, "_ROWS", 2)
    before = update(store_of(rows(20)), method="umap")
    assert before.points[[0, -1], 0].tolist() == [-1, 1]
    copies = [Row(f"new {place:02}", rows(1, place)[0].vector) for place in (3, 7, 11)]
    later = update(store_of([*rows(20), *copies]), before)
    assert (later.method, later.made_of) == ("umap", 20)
    np.testing.assert_array_equal(later.points[:20], before.points)
    np.testing.assert_array_equal(later.points[20:], before.points[[3, 7, 11]])
    assert update(store_of(rows(20)), before, "pca").method == "pca"


@pytest.fixture
def archive(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Images, a model, and where the store will be."""
    return write_images(tmp_path / "images", 12), write_model(tmp_path / "model"), tmp_path / "a.store"


def stored_map(place: Path) -> EmbeddingMap:
    found = LanceStore(place).read_map()
    assert found is not None
    return found


def test_indexing_makes_the_map_and_does_not_compute_it_again_where_nothing_changes(
    archive: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    images, model, place = archive
    index(images, place, model=model, map="none")
    assert LanceStore(place).read_map() is None
    index(images, place, model=model)
    made = stored_map(place)
    assert made.ids == LanceStore(place).ids()
    with monkeypatch.context() as patch:
        patch.setattr("marcir.search.map_update.updated_map", lambda *_, **__: pytest.fail("computed again"))
        index(images, place, model=model)
        index(images, place, model=model, labels=images / "labels.csv", map="pca")
    (images / "images/000001.png").unlink()
    index(images, place, model=model, prune=True)
    assert stored_map(place).ids == LanceStore(place).ids() != made.ids


def test_shards_leave_the_map_to_a_run_over_the_whole(archive: tuple[Path, Path, Path]) -> None:
    """Also where they changed images that are on it: that run finds nothing to embed."""
    images, model, place = archive
    for shard in range(2):
        done = index(images, place, model=model, shard=(shard, 2))
        assert "the map of the archive is left to a run without --shard, or with --map" in done.notes
    assert LanceStore(place).read_map() is None
    index(images, place, model=model)
    before = stored_map(place)
    assert before.ids == LanceStore(place).ids()
    shutil.copy(images / "images/000002.png", images / "images/000001.png")
    for shard in range(2):
        index(images, place, model=model, shard=(shard, 2))
    np.testing.assert_array_equal(stored_map(place).points, before.points)
    done = index(images, place, model=model)
    assert (done.added, done.changed) == (0, 0)
    after = stored_map(place)
    one, two = (after.ids.index(f"images/00000{number}.png") for number in (1, 2))
    np.testing.assert_allclose(after.points[one], after.points[two], atol=1e-6)
    assert not np.allclose(before.points[one], before.points[two], atol=1e-3)
    assert after.made_of == before.made_of


def test_a_shard_makes_the_map_where_it_is_asked_to(archive: tuple[Path, Path, Path]) -> None:
    images, model, place = archive
    done = index(images, place, model=model, shard=(0, 2), map="pca")
    assert stored_map(place).ids == LanceStore(place).ids()
    assert not any("the map of the archive" in note for note in done.notes)


def test_a_map_by_umap_without_its_package_is_refused_before_anything_is_embedded(
    archive: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    images, model, place = archive
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(DependencyError, match="pip install umap-learn"):
        index(images, place, model=model, map="umap")
    assert not place.exists()


def test_a_map_by_umap_is_kept_where_its_package_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    store = LanceStore.create(tmp_path / "a.store", About("m" * 64, DIM, ""), {"config.json": b""})
    store.add(rows(20))
    points, axes = np.zeros((20, 2), np.float32), np.zeros((2, DIM))
    store.write_map(EmbeddingMap("umap", 20, store.ids(), points, np.zeros(DIM), axes))
    store.add(rows(4, 20))
    assert update_map(store, None) == []
    assert len(stored_map(tmp_path / "a.store").ids) == 24, "put beside others"
    store.add(rows(1, 24))
    for _ in range(2):
        (note,) = update_map(store, None)
        assert "pip install umap-learn, or make another one with --map pca" in note
    assert len(stored_map(tmp_path / "a.store").ids) == 24
    assert update_map(store, "pca") == []
    assert (stored_map(tmp_path / "a.store").method, stored_map(tmp_path / "a.store").made_of) == ("pca", 25)


def test_a_map_that_others_write_too_ends_with_all_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first write meets that of another process; during the second one, another image is added."""
    store = LanceStore.create(tmp_path / "a.store", About("m" * 64, DIM, ""), {"config.json": b""})
    store.add(rows(20))
    write, calls = LanceStore.write_map, list[int]()

    def write_beside_others(self: LanceStore, found: EmbeddingMap) -> None:
        calls.append(len(found.ids))
        if len(calls) == 1:
            raise UnusableStoreError("busy") from ValueError("Retryable commit conflict for version 2")
        write(self, found)
        if len(calls) == 2:
            self.add(rows(1, 20))

    monkeypatch.setattr(LanceStore, "write_map", write_beside_others)
    monkeypatch.setattr("marcir.search.map_update.back_off", lambda failures: None)
    update_map(store, None)
    made = store.read_map()
    assert made is not None
    assert (calls, made.ids) == ([20, 20, 21], store.ids())
