"""Labels that are unknown: how tables say so, and what readers and splits make of them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from data import fakes
from marcir.catalog import create_reader
from marcir.data.archive import Archive, open_archive
from marcir.data.dataset import ImageFiles
from marcir.data.label_csv import Unlisted, read_label_table
from marcir.data.labelled_embeddings import (
    LabelledEmbeddings,
    align_vocabularies,
    read_labelled,
    read_queries_and_gallery,
)
from marcir.data.split import Split, draw_split
from marcir.data.validation import silence_warning
from marcir.errors import ConfigError, DataError
from marcir.labels import LabelVocabulary
from marcir.types import Embeddings

pytestmark = pytest.mark.usefixtures("own_cache")

FIRST_LINE = "# unlisted: unknown\n"


def written(folder: Path, content: str, name: str = "labels.csv") -> Path:
    path = folder / name
    path.write_text(content)
    return path


def manifest(folder: Path, content: str, unlisted: Unlisted | None = None) -> Archive:
    """An archive of this table; its images are drawn first."""
    for line in content.splitlines():
        if (name := line.split(",")[0]).endswith(".png"):
            fakes.save(folder / name, 0)
    written(folder, content)
    return create_reader("manifest").read(folder, unlisted=unlisted)


# ---- Tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "unlisted"),
    [
        ("path,labels\na,road;?tree\nb,tree\nc,?road;?tree\n", None),
        ("path,labels\na,road; ? tree ;?tree\nb,!road;tree\nc,?tree;?road\n", "absent"),
        (FIRST_LINE + "path,labels\na,road\nb,tree;!road\nc,\n", None),
        (FIRST_LINE + "path,labels\na,road;?tree\nb,tree;!road\nc,?road\n", "unknown"),
        ("\n#UNLISTED:Unknown,,\npath,labels\na,road\nb,tree;!road\nc,\n", None),
        ("\ufeff" + FIRST_LINE + "path,labels\r\na,road\r\nb,tree;!road\r\nc,\r\n", None),
        ("path,labels\na,road\nb,tree;!road\nc,\n", "unknown"),
        ("# unlisted: absent\npath,labels\na,road;?tree\nb,tree\nc,?road;?tree\n", None),
        ("path,road,tree\na,1,?\nb,0,1\nc,,\n", None),
        ("path,road,tree\na,1, \nb,0,1\nc,?,?\n", "absent"),
    ],
)
def test_a_table_says_what_is_unknown_in_several_ways(
    content: str, unlisted: Unlisted | None, tmp_path: Path
) -> None:
    table = read_label_table(written(tmp_path, content), unlisted=unlisted)
    assert [(row.image, row.labels, set(row.unknown)) for row in table.rows] == [
        ("a", ("road",), {"tree"}),
        ("b", ("tree",), set()),
        ("c", (), {"road", "tree"}),
    ]
    assert table.names == ("road", "tree")


@pytest.mark.parametrize(
    ("content", "unlisted", "expected"),
    [
        ("path,labels\na,road\n", None, "absent"),
        (FIRST_LINE + "path,labels\na,road\n", None, "unknown"),
        ("path,labels\na,road\n", "unknown", "unknown"),
        ("path,road\na,1\n", None, "absent"),
    ],
)
def test_the_meaning_of_silence_is_kept_with_the_table(
    content: str, unlisted: Unlisted | None, expected: str, tmp_path: Path
) -> None:
    assert read_label_table(written(tmp_path, content), unlisted=unlisted).unlisted == expected


def test_a_label_that_is_never_present_is_a_label(tmp_path: Path) -> None:
    table = read_label_table(written(tmp_path, "path,labels\na,road;?tree\nb,!sea\n"))
    assert table.names == ("road", "sea", "tree")


def test_lines_are_counted_with_the_first_one(tmp_path: Path) -> None:
    table = read_label_table(written(tmp_path, FIRST_LINE + "path,labels\na,road\n"))
    assert [row.line for row in table.rows] == [3]


def test_known_spellings_are_the_labels_that_a_list_may_leave_out(tmp_path: Path) -> None:
    spellings = {"car": "car", "cars": "car", "ship": "ship"}
    path = written(tmp_path, FIRST_LINE + "path,labels\na,cars\nb,?Cars;!ship\n")
    rows, names, *_ = read_label_table(path, spellings=spellings)
    assert [(row.labels, row.unknown) for row in rows] == [(("car",), ("ship",)), ((), ("car",))]
    assert names == ("car", "ship")


@pytest.mark.parametrize(
    ("content", "unlisted", "message"),
    [
        (
            "path,labels\na,road\nb,road;?road\n",
            None,
            "line 3: 'road' and '\\?road' contradict each other. Keep",
        ),
        (
            "path,labels\na,!road;?road\n",
            None,
            "line 2: '!road' and '\\?road' contradict each other. Keep one",
        ),
        ("path,labels\na,??road\n", None, "line 2: '\\?\\?road' has two signs. Write \\?road .* or !road"),
        ("path,labels\na,!? road\n", None, "line 2: '!\\? road' has two signs. Write \\?road .* or !road"),
        ("path,labels\na,??\n", None, "line 2: '\\?\\?' has two signs. Write \\?name"),
        (
            "path,labels\na,?\n",
            None,
            "line 2: '\\?' has no label name after it. Write \\?name .*'# unlisted: unk",
        ),
        ("path,labels\na,road;!\n", None, "line 2: '!' has no label name after it"),
        ("path,labels\na,\nb,road; tree ?\n", None, "line 3: 'tree \\?' has its sign after .*Write \\?tree"),
        ("path,labels\na,tree!\n", None, "line 2: 'tree!' has its sign after the name. Write !tree"),
        ("path,labels\na,?tree?\n", None, "line 2: '\\?tree\\?' has two signs. Write \\?tree"),
        (
            FIRST_LINE + "# unlisted: absent\npath,labels\na,\n",
            None,
            "line 2: '# unlisted: absent': `unlisted` is given twice, first in line 1. Keep one",
        ),
        (
            FIRST_LINE + "\n" + FIRST_LINE + "path,labels\na,\n",
            None,
            "line 3: .* is given twice, first in line 1",
        ),
        (
            "# unlisted: maybe\npath,labels\na,\n",
            None,
            "line 1: found '# unlisted: maybe'. Write '# unlisted: a",
        ),
        ("# my labels\npath,labels\na,\n", None, "line 1: found '# my labels'. Write .* or remove the line"),
        (
            FIRST_LINE + "path,labels\na,\n",
            "absent",
            "line 1: found '# unlisted: unknown', but --unlisted is absent. Leave the option out, or correct",
        ),
        ("# unlisted: absent\npath,labels\na,\n", "unknown", "line 1: .*, but --unlisted is unknown. Leave"),
        (
            "path,labels\n# unlisted: unknown\na,\n",
            None,
            "line 2: .* must be the first line of the table. Move",
        ),
        ("path,labels\na,\n# unlisted: unknown,\n", None, "line 3: .* must be the first line of the table"),
        (FIRST_LINE, None, "labels.csv: there is no header after line 1. Add one: path,labels"),
        (FIRST_LINE + "path,road\na,1\n", None, "line 2: there is a column for every label.*Write \\? where"),
        ("path,road\na,1\n", "unknown", "line 1: there is a column for every label.*leave out `unlisted`"),
        ("a,1,?\nb,1,0\n", None, "line 1: 'a' is an image, not a header"),
        ("path,road\na,-1\n", None, "line 2: label 'road' is '-1'. Use 0, 1 or \\? \\(unknown\\)"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_to_do(
    content: str, unlisted: Unlisted | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message) as error:
        read_label_table(written(tmp_path, content), unlisted=unlisted)
    assert "labels.csv" in str(error.value)
    assert "\n" not in str(error.value)


def test_another_meaning_of_silence_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unlisted .*unknwn.*unknown"):
        read_label_table(written(tmp_path, "path,labels\na,\n"), unlisted="unknwn")  # type: ignore[arg-type]


# ---- Archives ------------------------------------------------------------------------------------

LIST = "path,labels\na.png,road;?tree\nb.png,tree\nc.png,?road;?tree\n"
STATES = [[1, -1], [0, 1], [-1, -1]]


def test_an_archive_holds_three_states(tmp_path: Path) -> None:
    archive = manifest(tmp_path, LIST)
    assert archive.labels.tolist() == STATES
    assert archive.labels.dtype == torch.int8
    assert archive.has_unknown
    assert archive.unlisted == "absent"
    assert archive.without(["b.png"]).labels.tolist() == [STATES[0], STATES[2]]
    samples = ImageFiles(archive, 16)
    assert [sample["label"].tolist() for sample in samples] == STATES


def test_an_archive_without_unknown_labels_has_bools_as_before(tmp_path: Path) -> None:
    archive = manifest(tmp_path, "path,labels\na.png,road;!tree\nb.png,tree\n")
    assert archive.labels.dtype == torch.bool
    assert not archive.has_unknown


def test_silence_is_what_the_caller_says(tmp_path: Path) -> None:
    table = "path,labels\na.png,road\nb.png,!road;tree\nc.png,\n"
    assert manifest(tmp_path, table).labels.tolist() == [[1, 0], [0, 1], [0, 0]]
    archive = open_archive("manifest", tmp_path, unlisted="unknown")
    assert (archive.labels.tolist(), archive.unlisted) == (STATES, "unknown")


def test_a_published_archive_may_have_a_table_with_unknown_labels(tmp_path: Path) -> None:
    expected = fakes.write_ucm(tmp_path)
    lines = [f"{image}\t{';'.join(sorted(labels))}" for image, labels in expected.items()]
    table = written(tmp_path, FIRST_LINE + "\n".join(["image\tlabels", *lines]), "seen.txt")
    archive = create_reader("ucm").read(tmp_path, table)
    complete = create_reader("ucm").read(tmp_path)
    assert torch.equal(archive.labels > 0, complete.labels)
    assert torch.equal(archive.labels < 0, ~complete.labels)


@pytest.mark.parametrize(("name", "write"), [("whdld", fakes.write_whdld), ("dlrsd", fakes.write_dlrsd)])
def test_labels_of_masks_are_all_known(
    name: str, write: Callable[[Path], dict[str, set[str]]], tmp_path: Path
) -> None:
    write(tmp_path)
    assert not create_reader(name).read(tmp_path, unlisted="absent").has_unknown
    with pytest.raises(DataError, match=f"{name}: all of its labels are known; leave --unlisted out"):
        create_reader(name).read(tmp_path, unlisted="unknown")


def test_scenes_have_complete_labels(scenes: Path) -> None:
    with pytest.raises(DataError, match="scenes: all of its labels are known"):
        open_archive("scenes", scenes, unlisted="unknown")


# ---- Checksums and splits ------------------------------------------------------------------------

# Of the fakes, by the code before labels could be unknown: labels, random split, stratified split.
CHECKSUMS = {
    "manifest": ("42363685e3609d96", "b65c37a94eb121b0", "7aae236d38338dfa"),
    "ucm": ("da16e9958bd353c1", "64e4528fb6bd9123", "30c4b0690d724f58"),
    "whdld": ("7a85f6f1b3fb683a", "d118b69b26efc6fc", "211f92cc005e65d4"),
}


@pytest.mark.parametrize("name", CHECKSUMS)
def test_checksums_of_complete_labels_are_those_of_earlier_versions(name: str, tmp_path: Path) -> None:
    getattr(fakes, f"write_{name}")(tmp_path)
    archive = create_reader(name).read(tmp_path)
    splits = (draw_split(archive, 0), draw_split(archive, 0, "stratified"))
    found = (archive.label_checksum, *(split.checksum for split in splits))
    assert tuple(each[:16] for each in found) == CHECKSUMS[name]


def test_the_checksum_sees_what_is_unknown_however_it_is_written(tmp_path: Path) -> None:
    first = manifest(tmp_path, LIST).label_checksum
    same = [
        "path,road,tree\na.png,1,\nb.png,0,1\nc.png,?,?\n",
        FIRST_LINE + LIST.replace("b.png,", "b.png,!road;"),
    ]
    for table in same:
        assert manifest(tmp_path, table).label_checksum == first
    others = [LIST.replace("?tree\nb", "!tree\nb"), LIST.replace("?tree\nb", "tree\nb"), FIRST_LINE + LIST]
    for table in others:
        assert manifest(tmp_path, table).label_checksum != first


def test_a_split_is_refused_once_silence_means_something_else(tmp_path: Path) -> None:
    archive = manifest(tmp_path, "path,labels\na.png,road\nb.png,tree\nc.png,\n")
    draw_split(archive, 0).save(tmp_path / "split.json")
    with pytest.raises(DataError, match="the label table of .* is not the one that was split"):
        Split.load(tmp_path / "split.json", open_archive("manifest", tmp_path, unlisted="unknown"))


def test_stratification_counts_the_labels_that_are_present() -> None:
    rng = np.random.default_rng(0)
    present = rng.random((60, 4)) < 0.3
    states = np.where(~present & (rng.random((60, 4)) < 0.5), -1, present)
    ids = tuple(f"{k:02}" for k in range(60))

    def split(y: np.ndarray) -> Split:
        vocabulary = LabelVocabulary(list("abcd"))
        archive = Archive("manifest", Path(), ids, tuple(map(Path, ids)), torch.from_numpy(y), vocabulary)
        return draw_split(archive, 0, "stratified")

    known, unknown = split(present), split(states.astype(np.int8))
    assert (known.train, known.test) == (unknown.train, unknown.test)
    assert known.checksum != unknown.checksum


# ---- Embeddings with labels ----------------------------------------------------------------------


def test_vectors_are_joined_with_three_states(tmp_path: Path) -> None:
    Embeddings(("b", "a"), np.eye(2, dtype=np.float32)).save(tmp_path / "e.npz")
    table = written(tmp_path, "path,labels\na,road;?tree\nb,tree\n")
    joined = read_labelled(tmp_path / "e.npz", table)
    assert joined.labels.tolist() == [[0, 1], [1, -1]]
    unknown = read_labelled(tmp_path / "e.npz", table, unlisted="unknown")
    assert unknown.labels.tolist() == [[-1, 1], [1, -1]]
    assert unknown.fingerprint() != joined.fingerprint()


def test_the_fingerprint_of_complete_labels_is_that_of_earlier_versions() -> None:
    names = LabelVocabulary(["road", "tree"])
    vectors = Embeddings(("b", "a"), np.eye(2, dtype=np.float32))
    complete = LabelledEmbeddings(vectors, names.encode([["tree"], ["road", "tree"]]), names)
    assert complete.fingerprint().startswith("63dbe6e0a634678c")
    assert (
        LabelledEmbeddings(vectors, complete.labels.to(torch.int8), names).fingerprint()
        == complete.fingerprint()
    )


def test_a_label_that_only_the_other_table_has_is_absent_or_unknown_as_the_table_says() -> None:
    def embedded(name: str, unlisted: Unlisted) -> LabelledEmbeddings:
        names = LabelVocabulary([name])
        return LabelledEmbeddings(
            Embeddings((name,), np.ones((1, 1))), names.encode([[name]]), names, unlisted
        )

    queries, gallery = align_vocabularies(embedded("road", "absent"), embedded("tree", "unknown"))
    assert gallery is not None
    assert queries.labels.tolist() == [[1, 0]]
    assert gallery.labels.tolist() == [[-1, 1]]


def test_unknown_labels_alone_are_nothing_to_find(tmp_path: Path) -> None:
    Embeddings(("a", "b"), np.eye(2, dtype=np.float32)).save(tmp_path / "e.npz")
    table = written(tmp_path, "path,labels\na,road;?tree\nb,?road;?tree\n")
    with pytest.raises(DataError, match="no two images share a label"):
        read_queries_and_gallery(tmp_path / "e.npz", table)


# ---- Silence -------------------------------------------------------------------------------------


def test_silence_that_looks_unknown_is_noticed(shared: Path) -> None:
    complete = create_reader("ucm").read(shared / "data/ucmerced-multilabel").labels
    assert silence_warning(complete) is None
    for seed in range(3):
        kept = torch.rand(complete.shape, generator=torch.Generator().manual_seed(seed)) >= 0.6
        warning = silence_warning(complete & kept)
        assert warning is not None
        assert warning.startswith(("22 %", "23 %"))
        assert "--unlisted unknown" in warning
        hidden = torch.where(complete & ~kept, -1, complete.to(torch.int8))
        assert silence_warning(hidden) is None, "the table says itself what is unknown"
