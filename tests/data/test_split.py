"""Splits: right sizes, the same everywhere, and refused where they do not fit."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from marcir.catalog import create_reader
from marcir.data.archive import Archive
from marcir.data.split import PARTS, Split, default_sizes, draw_split, iterative_stratification
from marcir.errors import ConfigError, DataError
from marcir.labels import LabelVocabulary


def archive_of(images: int, seed: int = 0) -> Archive:
    y = torch.rand(images, 4, generator=torch.Generator().manual_seed(seed)) < torch.tensor(
        [0.6, 0.3, 0.1, 0.05]
    )
    ids = tuple(f"image{i:04}" for i in range(images))
    return Archive("manifest", Path(), ids, tuple(Path(i) for i in ids), y, LabelVocabulary(list("abcd")))


@given(st.integers(3, 300), st.integers(0, 2**31), st.sampled_from(["random", "stratified"]))
def test_the_parts_are_disjoint_complete_and_of_the_wanted_sizes(images: int, seed: int, method: str) -> None:
    archive = archive_of(images)
    split = draw_split(archive, seed, method)  # type: ignore[arg-type]
    parts = [getattr(split, part) for part in PARTS]
    assert tuple(len(part) for part in parts) == default_sizes(images)
    assert sorted(image for part in parts for image in part) == sorted(archive.ids)


def test_a_split_does_not_depend_on_the_order_in_which_images_were_read() -> None:
    archive = archive_of(50)
    order = random.Random(0).sample(range(50), 50)
    other = replace(
        archive,
        ids=tuple(archive.ids[i] for i in order),
        paths=tuple(archive.paths[i] for i in order),
        labels=archive.labels[order],
    )
    for method in ("random", "stratified"):
        assert draw_split(archive, 3, method) == draw_split(other, 3, method)


def test_another_seed_is_another_split_and_the_global_state_is_left_alone() -> None:
    state = torch.get_rng_state()
    assert draw_split(archive_of(50), 0) != draw_split(archive_of(50), 1)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_known_seed_gives_the_split_it_always_gave() -> None:
    split = draw_split(archive_of(10), seed=7)
    assert split.test == draw_split(archive_of(10), seed=7).test
    assert (len(split.train), len(split.validation), len(split.test)) == (7, 1, 2)


def test_stratification_keeps_rare_labels_in_every_part() -> None:
    archive = archive_of(400)
    split = draw_split(archive, 0, "stratified")
    shares = archive.labels.double().mean(0)
    for part in PARTS:
        found = archive.labels[split.positions(archive, part)].double().mean(0)
        assert torch.allclose(found, shares, atol=0.04), part


def test_stratification_fills_parts_exactly_even_where_labels_do_not_fit() -> None:
    member = iterative_stratification(torch.ones(7, 2).numpy(), (5, 0, 2))
    assert [member.count(part) for part in range(3)] == [5, 0, 2]


def test_a_saved_split_comes_back_the_same(tmp_path: Path) -> None:
    archive = archive_of(30)
    split = draw_split(archive, 0)
    split.save(tmp_path / "split.json")
    assert Split.load(tmp_path / "split.json", archive) == split
    content = json.loads((tmp_path / "split.json").read_text())
    assert content.pop("version") == 1
    (tmp_path / "split.json").write_text(json.dumps(content))  # as files were before they had versions
    assert Split.load(tmp_path / "split.json", archive) == split


def test_a_split_that_does_not_fit_is_refused_with_the_reason(tmp_path: Path) -> None:
    archive = archive_of(30)
    path = tmp_path / "split.json"
    draw_split(archive, 0).save(path)
    content = json.loads(path.read_text())

    def refused(change: dict[str, object], message: str) -> None:
        path.write_text(json.dumps({**content, **change}))
        with pytest.raises(DataError, match=message):
            Split.load(path, archive)

    refused({"test": content["train"][:1]}, "is in train and in test. Parts must not overlap")
    refused({"test": ["image9999"]}, "test lists 'image9999', which is not in the archive")
    refused({"train": content["train"] + content["train"][:1]}, "is in train and in train")
    refused({"label_checksum": "0" * 64}, "the label table of . is not the one that was split")
    refused({"train": 7}, "not a split .train = 7: must be a list.. Make it with: marcir data split")
    refused({"train": "image0001"}, "not a split .train = 'image0001': must be a list")
    refused({"train": [1]}, "not a split .train.0 = 1: must be a text")
    refused({"label_checksum": None}, "not a split .label_checksum = None: must be a text")
    refused({"label_checksum": 5}, "not a split .label_checksum = 5: must be a text")
    refused({"dataset": 5}, "not a split .dataset = 5: must be a text")
    refused({"dataset": "ucm"}, "a split of the dataset 'ucm', but . was read as 'manifest'")
    refused({"method": "by hand"}, "not a split .method = 'by hand': unknown")
    refused({"seed": float("inf")}, "not a split .seed = inf: must be a whole number")
    refused({"seed": -1}, "not a split .seed = -1: must be 0 or more")
    refused({"version": 2}, "not a split .version 2; this marcir reads version 1")
    for text in ("[]", "null", "{}", "[" * 100_000, '{"train": [], "validation": [], "test": []}'):
        path.write_text(text)
        with pytest.raises(DataError, match="split.json: not a split .* Make it with") as error:
            Split.load(path, archive)
        assert "\n" not in str(error.value)
    path.write_text("{")
    with pytest.raises(DataError, match="not a split"):
        Split.load(path, archive)
    with pytest.raises(DataError, match="there is no such file. Make it with: marcir data split"):
        Split.load(tmp_path / "none.json", archive)


def test_positions_of_what_is_not_there_are_refused() -> None:
    archive = archive_of(30)
    split = draw_split(archive, 0)
    assert split.positions(archive, "test") == [archive.position_of[image] for image in split.test]
    with pytest.raises(ConfigError, match="part = 'valid': unknown. Did you mean 'validation'"):
        split.positions(archive, "valid")
    with pytest.raises(ConfigError, match="part = 'method': unknown"):
        split.positions(archive, "method")
    with pytest.raises(DataError, match="train lists 'image.*', which is not in the archive"):
        split.positions(archive_of(3), "train")


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64, 0.5, True, "0", None])
def test_what_is_no_seed_is_refused(seed: object) -> None:
    with pytest.raises(ConfigError, match="seed = .*: must be a whole number from 0 to 9223372036854775807"):
        draw_split(archive_of(10), seed)  # type: ignore[arg-type]


def test_the_largest_seed_is_taken() -> None:
    assert draw_split(archive_of(10), 2**63 - 1).seed == 2**63 - 1


@pytest.mark.parametrize(
    ("images", "empty"), [(2, "validation and test"), (4, "validation"), (5, "validation")]
)
def test_a_split_says_where_a_part_is_empty(images: int, empty: str) -> None:
    assert str(draw_split(archive_of(images), 0)).endswith(
        f"WARNING: no images for {empty}: the archive is too small to be split."
    )
    assert str(draw_split(archive_of(10), 0)).startswith(
        "7 / 1 / 2 images to train / validate / test, labels "
    )
    assert "WARNING" not in str(draw_split(archive_of(10), 0))


def test_a_changed_label_is_noticed(tmp_path: Path) -> None:
    archive = archive_of(30)
    draw_split(archive, 0).save(tmp_path / "split.json")
    labels = archive.labels.clone()
    labels[3, 1] = ~labels[3, 1]
    with pytest.raises(DataError, match="Restore it, or split again"):
        Split.load(tmp_path / "split.json", replace(archive, labels=labels))


def test_bad_sizes_and_methods_are_refused() -> None:
    with pytest.raises(ConfigError, match="must add up to the 30 images"):
        draw_split(archive_of(30), 0, sizes=(10, 10, 9))
    with pytest.raises(ConfigError, match="unknown. Did you mean 'stratified'"):
        draw_split(archive_of(30), 0, "stratifed")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["random", "stratified"])
def test_the_real_ucm_is_split_as_in_the_paper(method: str, shared: Path) -> None:
    reader = create_reader("ucm")
    archive = reader.read(shared / "data/ucmerced-multilabel")
    split = draw_split(archive, 0, method, reader.SPLIT)  # type: ignore[arg-type]
    assert (len(split.train), len(split.validation), len(split.test)) == (1475, 214, 411)
