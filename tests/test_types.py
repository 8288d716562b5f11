"""Embeddings on their way through files."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from marcir.errors import DataError
from marcir.types import Embeddings

IDS = ("a/1.png", "zwei Worte", "图像", "5$")
VECTORS = np.arange(1, 13, dtype=np.float32).reshape(4, 3)


def write_npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def write_parquet(path: Path, **columns: Any) -> Path:
    parquet.write_table(pyarrow.table(columns), path)
    return path


def refused(path: Path) -> str:
    """The one line that says why a file is refused."""
    with pytest.raises(DataError) as refusal:
        Embeddings.load(path)
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).startswith(f"{path}: ")
    return str(refusal.value)


# ---- What was saved is loaded --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["e.npz", "e.parquet", "E.PARQUET", "e.pq", "without ending"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_what_was_saved_is_loaded(tmp_path: Path, name: str, dtype: type) -> None:
    Embeddings(IDS, VECTORS.astype(dtype)).save(tmp_path / name)
    loaded = Embeddings.load(str(tmp_path / name))
    assert loaded.ids == IDS
    assert loaded.vectors.dtype == dtype
    np.testing.assert_array_equal(loaded.vectors, VECTORS)


def test_nothing_but_the_file_is_left_when_it_was_saved(tmp_path: Path) -> None:
    Embeddings(IDS, VECTORS).save(tmp_path / "new/folder/e.npz")
    assert [path.name for path in (tmp_path / "new/folder").iterdir()] == ["e.npz"]


@pytest.mark.parametrize("ids", [[7, 10, 8, 9], np.array([7, 10, 8, 9], dtype=np.uint8)])
def test_ids_may_be_whole_numbers(tmp_path: Path, ids: Any) -> None:
    wanted = ("7", "10", "8", "9")
    assert Embeddings.load(write_npz(tmp_path / "e.npz", ids=ids, vectors=VECTORS)).ids == wanted
    table = write_parquet(tmp_path / "e.parquet", ids=ids, vectors=list(VECTORS))
    assert Embeddings.load(table).ids == wanted


def test_other_arrays_and_compression_do_no_harm(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "e.npz", ids=IDS, vectors=VECTORS, model="lite0")
    assert Embeddings.load(tmp_path / "e.npz").ids == IDS


def test_bytes_in_another_order_are_turned(tmp_path: Path) -> None:
    loaded = Embeddings.load(write_npz(tmp_path / "e.npz", ids=IDS, vectors=VECTORS.astype(">f4")))
    assert loaded.vectors.dtype.isnative
    np.testing.assert_array_equal(loaded.vectors, VECTORS)


@pytest.mark.parametrize(
    "kind",
    [
        pyarrow.list_(pyarrow.float32()),
        pyarrow.large_list(pyarrow.float64()),
        pyarrow.list_(pyarrow.float32(), 3),
    ],
    ids=str,
)
def test_parquet_may_hold_any_kind_of_list_in_several_groups(tmp_path: Path, kind: Any) -> None:
    table = pyarrow.table({"more": range(4), "ids": IDS, "vectors": pyarrow.array(VECTORS.tolist(), kind)})
    parquet.write_table(table, tmp_path / "e.parquet", row_group_size=3)
    loaded = Embeddings.load(tmp_path / "e.parquet")
    assert loaded.ids == IDS
    np.testing.assert_array_equal(loaded.vectors, VECTORS)


# ---- What is refused -----------------------------------------------------------------------------


def test_a_missing_file_is_refused_with_how_to_write_one(tmp_path: Path) -> None:
    assert "no such file. Make it with: marcir embed, or numpy.savez(" in refused(tmp_path / "e.npz")
    assert "no such file" in refused(tmp_path / "e.parquet")


def test_ids_that_are_objects_are_refused_and_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    path = write_npz(tmp_path / "e.npz", ids=np.array([Trap(), "b"], dtype=object), vectors=VECTORS[:2])
    assert "Object arrays cannot be loaded" in refused(path)
    path.write_bytes(np.array([Trap()], dtype=object).dumps())
    assert "not an .npz archive" in refused(path)
    assert not (tmp_path / "ran").exists()


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", VECTORS)
    assert "not an .npz archive" in refused(tmp_path / "e.npy")


@pytest.mark.parametrize("content", [b"", b"PK", b"id,vector\n1,2\n", b"PK\x03\x04 and nothing", b"\0" * 40])
@pytest.mark.parametrize("name", ["e.npz", "e.parquet"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert "expected `ids` and `vectors` in .npz or Parquet" in refused(tmp_path / name)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "expected `ids` and `vectors`" in refused(tmp_path)


@pytest.mark.parametrize("present", ["ids", "vectors"])
def test_a_missing_part_is_refused_with_its_name(tmp_path: Path, present: str) -> None:
    absent = "vectors" if present == "ids" else "ids"
    part = {"ids": IDS, "vectors": list(VECTORS)}[present]
    assert absent in refused(write_npz(tmp_path / "e.npz", **{present: part}))
    assert f"({absent})" in refused(write_parquet(tmp_path / "e.parquet", **{present: part}))


@pytest.mark.parametrize(("save", "name"), [(write_npz, "e.npz"), (write_parquet, "e.parquet")])
def test_a_double_id_is_refused_with_its_name(tmp_path: Path, save: Any, name: str) -> None:
    path = save(tmp_path / name, ids=["a", "b c", "d", "b c"], vectors=list(VECTORS))
    assert "duplicate id 'b c'. Keep one." in refused(path)


BAD_NPZ = {
    "fewer vectors": ({"vectors": VECTORS[:3]}, "vectors (3, 3) of float32 and 4 ids"),
    "fewer ids": ({"ids": IDS[:3]}, "vectors (4, 3) of float32 and 3 ids"),
    "one vector": ({"vectors": VECTORS[0]}, "vectors (3,)"),
    "three axes": ({"vectors": VECTORS[..., None]}, "vectors (4, 3, 1)"),
    "whole numbers": ({"vectors": VECTORS.astype(int)}, "of int64"),
    "complex numbers": ({"vectors": VECTORS.astype(complex)}, "of complex128"),
    "texts": ({"vectors": VECTORS.astype(str)}, "one vector of floats per id"),
    "ids as floats": ({"ids": [1.0, 2.0, 3.0, 4.0]}, "ids are float64 of shape (4,)"),
    "ids as bytes": ({"ids": [b"a", b"b", b"c", b"d"]}, "ids are |S1 of shape (4,)"),
    "ids of two axes": ({"ids": np.array(IDS).reshape(2, 2)}, "shape (2, 2)"),
    "one id": ({"ids": "a"}, "of shape ()"),
    "nan": (
        {"vectors": np.where(VECTORS == 5, np.nan, VECTORS)},
        "vector of 'zwei Worte' has values that are",
    ),
    "infinity": (
        {"vectors": np.where(VECTORS == 9, -np.inf, VECTORS)},
        "vector of '图像' has values that are",
    ),
    "zeros": ({"vectors": np.where(VECTORS > 9, 0, VECTORS)}, "vector of '5$' is all zeros"),
}


@pytest.mark.parametrize(("parts", "text"), BAD_NPZ.values(), ids=BAD_NPZ)
def test_parts_that_do_not_fit_are_refused(tmp_path: Path, parts: dict[str, Any], text: str) -> None:
    assert text in refused(write_npz(tmp_path / "e.npz", **{"ids": IDS, "vectors": VECTORS, **parts}))


BAD_PARQUET = {
    "ragged vectors": ({"vectors": [[1.0], [1.0, 2.0], [1.0], [1.0]]}, "of different lengths"),
    "a missing vector": ({"vectors": [[1.0], None, [1.0], [1.0]]}, "missing"),
    "a missing number": ({"vectors": [[1.0], [None], [1.0], [1.0]]}, "vector of 'zwei Worte' has values"),
    "a missing id": ({"ids": ["a", None, "b", "c"]}, "a missing id"),
    "a number each": ({"vectors": [1.0, 2.0, 3.0, 4.0]}, "vectors are double"),
    "a text each": ({"vectors": ["1", "2", "3", "4"]}, "vectors are string"),
    "lists of texts": ({"vectors": [["1"], ["2"], ["3"], ["4"]]}, "one vector of floats per id"),
    "lists of whole numbers": ({"vectors": [[1], [2], [3], [4]]}, "of int64"),
    "lists of lists": ({"vectors": [[[1.0]]] * 4}, "one vector of floats per id"),
    "ids as lists": ({"ids": [["a"], ["b"], ["c"], ["d"]]}, "ids are list"),
    "ids as floats": ({"ids": [1.0, 2.0, 3.0, 4.0]}, "ids are double"),
}


@pytest.mark.parametrize(("columns", "text"), BAD_PARQUET.values(), ids=BAD_PARQUET)
def test_columns_that_do_not_fit_are_refused(tmp_path: Path, columns: dict[str, Any], text: str) -> None:
    path = write_parquet(tmp_path / "e.parquet", **{"ids": IDS, "vectors": list(VECTORS), **columns})
    assert text in refused(path)


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "whole.npz", ids=IDS, vectors=np.random.default_rng(1).random((4, 90)))
    whole = (tmp_path / "whole.npz").read_bytes()
    rng, path = np.random.default_rng(0), tmp_path / "e.npz"
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(len(damaged))] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(len(damaged) // 2, len(damaged) + 1)])
        with suppress(DataError):  # and nothing else
            Embeddings.load(path)


def test_parts_that_do_not_fit_are_refused_before_they_are_saved() -> None:
    with pytest.raises(DataError, match="duplicate id 'a'"):
        Embeddings(("a", "a"), VECTORS[:2])
    with pytest.raises(DataError, match="and 1 ids"):
        Embeddings(("a",), VECTORS)


def test_without_pyarrow_parquet_is_refused_with_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_parquet(tmp_path / "e.parquet", ids=IDS, vectors=list(VECTORS))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'marcir\[store\]'"):
        Embeddings.load(path)
