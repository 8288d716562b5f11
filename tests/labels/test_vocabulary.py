"""Label names and multi-hot rows, both ways."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from marcir.errors import LabelError
from marcir.labels import LabelVocabulary

names = st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=30, unique=True)
SCENES = LabelVocabulary(["building", "road", "tree"])


@st.composite
def labelled_images(draw: st.DrawFn) -> tuple[LabelVocabulary, list[list[str]]]:
    """A vocabulary, and some images whose labels stand in its order."""
    vocabulary = LabelVocabulary(draw(names))
    rows = draw(st.lists(st.sets(st.sampled_from(vocabulary.names)), max_size=8))
    return vocabulary, [[name for name in vocabulary if name in row] for row in rows]


@given(labelled_images())
def test_decoding_gives_back_the_names_that_were_encoded(
    images: tuple[LabelVocabulary, list[list[str]]],
) -> None:
    vocabulary, rows = images
    y = vocabulary.encode(rows)
    assert y.shape == (len(rows), len(vocabulary))
    assert y.dtype == torch.bool
    assert vocabulary.decode(y) == rows


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), max_size=8))
def test_encoding_gives_back_the_rows_that_were_decoded(rows: list[list[bool]]) -> None:
    y = torch.tensor(rows, dtype=torch.bool).reshape(-1, 3)
    assert torch.equal(SCENES.encode(SCENES.decode(y)), y)


@given(names, st.randoms(use_true_random=False))
def test_the_order_and_number_of_an_images_labels_do_not_matter(
    given_names: list[str], random: object
) -> None:
    vocabulary = LabelVocabulary(given_names)
    shuffled = [*given_names, given_names[0]]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert torch.equal(vocabulary.encode([shuffled]), torch.ones(1, len(vocabulary), dtype=torch.bool))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32, torch.bfloat16])
def test_rows_of_any_dtype_can_be_decoded(dtype: torch.dtype) -> None:
    assert SCENES.decode(torch.tensor([[1, 0, 1], [0, 0, 0]]).to(dtype)) == [["building", "tree"], []]


@given(names)
def test_a_vocabulary_is_the_sequence_of_its_names(given_names: list[str]) -> None:
    vocabulary = LabelVocabulary(iter(given_names))
    assert list(vocabulary) == given_names
    assert len(vocabulary) == len(given_names)
    assert vocabulary[0] == given_names[0]
    assert [vocabulary.index_of(name) for name in given_names] == list(range(len(given_names)))
    assert vocabulary == LabelVocabulary(given_names)
    assert hash(vocabulary) == hash(LabelVocabulary(given_names))
    assert vocabulary != given_names
    assert "no such label" not in vocabulary


def test_vocabularies_in_another_order_are_different() -> None:
    assert LabelVocabulary(["road", "building", "tree"]) != SCENES


@pytest.mark.parametrize(
    ("asked", "nearest"), [("bulding", "building"), ("Road", "road"), ("TREES", "tree"), ("roads", "road")]
)
def test_an_unknown_label_is_refused_with_the_nearest_name(asked: str, nearest: str) -> None:
    with pytest.raises(LabelError, match=rf"^unknown label '{asked}'\. Did you mean '{nearest}'\?$"):
        SCENES.encode([["tree"], [asked]])


@pytest.mark.parametrize(("asked", "nearest"), [("ROAF", "ROAD"), ("road", "ROAD"), ("Sea ice", "Sea Ice")])
def test_the_nearest_name_is_found_whatever_its_case(asked: str, nearest: str) -> None:
    with pytest.raises(LabelError, match=rf"Did you mean '{nearest}'\?$"):
        LabelVocabulary(["ROAD", "TREE", "Sea Ice"]).index_of(asked)


def test_a_label_that_resembles_none_is_refused_with_all_names() -> None:
    with pytest.raises(LabelError, match=r"^unknown label 'xyz'\. Known: building, road, tree\.$"):
        SCENES.index_of("xyz")


def test_an_unknown_label_of_an_empty_vocabulary_is_refused() -> None:
    with pytest.raises(LabelError, match=r"^unknown label 'road'\. There are none\.$"):
        LabelVocabulary([]).index_of("road")


@pytest.mark.parametrize("name", [0, None, 1.5])
def test_a_label_that_is_no_text_is_refused(name: object) -> None:
    with pytest.raises(LabelError):
        SCENES.encode([[name]])  # type: ignore[list-item]


def test_a_text_in_place_of_a_list_of_names_is_refused() -> None:
    with pytest.raises(LabelError, match="found the text 'road'"):
        SCENES.encode(["road"])
    with pytest.raises(LabelError, match="found the text 'road'"):
        LabelVocabulary("road")


def test_a_name_that_stands_twice_is_refused_with_both_places() -> None:
    with pytest.raises(LabelError, match="duplicate 'road', at 1 and 3"):
        LabelVocabulary(["tree", "road", "sea", "road"])


@pytest.mark.parametrize("name", ["", " ", "\t\n", None, 7])
def test_an_empty_name_is_refused_with_its_place(name: object) -> None:
    with pytest.raises(LabelError, match=r"name 1 is .*non-empty"):
        LabelVocabulary(["road", name])  # type: ignore[list-item]


@pytest.mark.parametrize("shape", [(3,), (2, 2), (2, 4), (1, 2, 3)])
def test_decoding_refuses_labels_of_another_width(shape: tuple[int, ...]) -> None:
    with pytest.raises(LabelError, match=r"expected labels of shape \(B, 3\)"):
        SCENES.decode(torch.zeros(shape))


@given(given_names=names)
def test_a_saved_vocabulary_is_loaded_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, given_names: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "labels.json"
    vocabulary = LabelVocabulary(given_names)
    vocabulary.save(path)
    assert LabelVocabulary.load(path) == vocabulary
    assert LabelVocabulary.load(str(path)) == vocabulary


def test_a_saved_vocabulary_can_be_read_by_people(tmp_path: Path) -> None:
    LabelVocabulary(["Straße", "道路"]).save(tmp_path / "labels.json")
    assert "Straße" in (tmp_path / "labels.json").read_text("utf-8")


@pytest.mark.parametrize(
    "content",
    [b"", b"[", b"\xff\xfe", b'{"road": 0}', b'"road"', b"3", b'["road", "road"]', b'["road", 3]', b'[""]'],
    ids=["nothing", "cut", "no text", "an object", "a string", "a number", "twice", "not a name", "no name"],
)
def test_a_file_that_is_no_vocabulary_is_refused_with_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "labels.json"
    path.write_bytes(content)
    with pytest.raises(LabelError, match=r"labels\.json"):
        LabelVocabulary.load(path)


def test_a_missing_file_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(LabelError, match=r"missing\.json"):
        LabelVocabulary.load(tmp_path / "missing.json")


def test_unknown_labels_are_encoded_as_minus_one() -> None:
    y = SCENES.encode([["road"], []], unknown=[["tree"], ["road", "tree"]])
    assert y.tolist() == [[0, 1, -1], [0, -1, -1]]
    assert SCENES.decode(y) == [["road"], []]
    assert SCENES.encode([["road"]], unknown=[[]]).dtype == torch.bool


@pytest.mark.parametrize(
    ("unknown", "message"),
    [
        ([["road"]], "image 0: label 'road' is present and unknown. Keep one"),
        ([["tree"], ["tree"]], "unknown labels of 2 images, but labels of 1"),
        ([["tre"]], "unknown label 'tre'. Did you mean 'tree'"),
    ],
)
def test_unknown_labels_that_do_not_fit_are_refused(unknown: list[list[str]], message: str) -> None:
    with pytest.raises(LabelError, match=message):
        SCENES.encode([["road"]], unknown=unknown)
