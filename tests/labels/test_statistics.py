"""Training frequencies f and h, against counting with Python sets."""

from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from marcir.errors import LabelError
from marcir.labels import LabelStatistics
from marcir.labels.statistics import ANCHOR_FREQUENCIES, PAIR_FREQUENCIES, AnchorFrequency, PairFrequency

# A table of all sets holds up to 20 labels; above that sets are counted on demand. Words hold 24.
WIDTHS = [3, 17, 20, 21, 25, 43, 60, 1000]
UCM = Path("data") / "ucmerced-multilabel" / "LandUse_Multilabeled.txt"

LabelSet = frozenset[int]


# ---- The same by counting ------------------------------------------------------------------------


def count(labels: LabelSet, training: list[LabelSet]) -> int:
    """Training images that carry every one of the labels."""
    return sum(labels <= image for image in training)


def counted_f(one: LabelSet, other: LabelSet, training: list[LabelSet], kind: str) -> float:
    """f of two label sets that share a label; what was never seen counts as one."""
    shared = [max(1, count(frozenset({k}), training)) for k in one & other]
    both = [count(frozenset({a, b}), training) for a in one for b in other]
    return {
        "joint": lambda: max(1, count(one & other, training)),
        "pair_mean": lambda: max(1, sum(both) / len(both)),
        "shared_mean": lambda: sum(shared) / len(shared),
        "shared_min": lambda: min(shared),
    }[kind]()


def counted_h(labels: LabelSet, training: list[LabelSet], kind: str) -> float:
    """h of a label set; an unseen label counts as one, and so does an empty set."""
    counts = [max(1, count(frozenset({k}), training)) for k in labels] or [1]
    return min(counts) if kind == "min" else sum(counts) / len(counts)


def multi_hot(sets: list[LabelSet], num_labels: int, dtype: torch.dtype = torch.float64) -> Tensor:
    y = torch.zeros(len(sets), num_labels, dtype=dtype)
    for i, labels in enumerate(sets):
        y[i, sorted(labels)] = 1
    return y


def drawn_sets(images: int, num_labels: int, seed: int, seen: float = 1.0) -> list[LabelSet]:
    """Label sets around a few scenes, an empty one among them; only the first share of labels is seen."""
    generator = torch.Generator().manual_seed(seed)
    width = max(1, int(seen * num_labels))
    scenes = torch.rand(4, width, generator=generator) < min(0.5, 5 / width)
    scene = scenes[torch.randint(4, (images,), generator=generator)]
    chance = torch.rand(images, width, generator=generator)
    y = (scene & (chance < 0.8)) | (chance < min(0.2, 1 / width))
    y[0] = False
    return [frozenset(row.nonzero().flatten().tolist()) for row in y]


def assert_f_is_counted(
    f: Tensor, ours: list[LabelSet], theirs: list[LabelSet], training: list[LabelSet], kind: str
) -> None:
    assert f.shape == (len(ours), len(theirs))
    assert f.isfinite().all()
    assert f.ge(1).all()
    for i, one in enumerate(ours):
        for p, other in enumerate(theirs):
            if one & other:
                expected = counted_f(one, other, training, kind)
                assert f[i, p].item() == pytest.approx(expected, rel=1e-12), (sorted(one), sorted(other))


@st.composite
def archives(draw: st.DrawFn) -> tuple[int, list[LabelSet], list[LabelSet], list[LabelSet]]:
    """A number of labels, training images, and the label sets of two sides, labels unseen among them."""
    num_labels = draw(st.sampled_from([1, 2, 5, 12, 21, 24, 25, 49]))
    sets = st.frozensets(st.integers(0, num_labels - 1), max_size=6)
    sides = st.lists(sets, min_size=1, max_size=5)
    return num_labels, draw(st.lists(sets, min_size=1, max_size=10)), draw(sides), draw(sides)


# ---- f -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PAIR_FREQUENCIES)
@pytest.mark.parametrize("num_labels", WIDTHS)
def test_f_is_what_counting_gives(num_labels: int, kind: PairFrequency) -> None:
    training = drawn_sets(60, num_labels, seed=1, seen=0.7)
    ours, theirs = drawn_sets(14, num_labels, seed=2), drawn_sets(11, num_labels, seed=3)
    statistics = LabelStatistics.from_labels(multi_hot(training, num_labels))
    f = statistics.pair_frequency(multi_hot(ours, num_labels), multi_hot(theirs, num_labels), kind)
    assert f.dtype == torch.float64
    assert_f_is_counted(f, ours, theirs, training, kind)


@pytest.mark.parametrize("kind", PAIR_FREQUENCIES)
@settings(max_examples=40)
@given(archive=archives())
def test_f_is_what_counting_gives_for_any_archive(
    kind: PairFrequency, archive: tuple[int, list[LabelSet], list[LabelSet], list[LabelSet]]
) -> None:
    num_labels, training, ours, theirs = archive
    statistics = LabelStatistics.from_labels(multi_hot(training, num_labels))
    f = statistics.pair_frequency(multi_hot(ours, num_labels), multi_hot(theirs, num_labels), kind)
    assert_f_is_counted(f, ours, theirs, training, kind)


@pytest.mark.parametrize("kind", PAIR_FREQUENCIES)
@pytest.mark.parametrize("num_labels", [20, 25, 60])
def test_f_stays_right_when_other_batches_follow(num_labels: int, kind: PairFrequency) -> None:
    training = drawn_sets(40, num_labels, seed=1)
    statistics = LabelStatistics.from_labels(multi_hot(training, num_labels))
    batches = [drawn_sets(images, num_labels, seed) for seed, images in enumerate((5, 9, 1, 7))]
    for ours in [*batches, *batches[::-1]]:
        for theirs in (ours, batches[0], batches[1]):
            y, y_other = multi_hot(ours, num_labels), multi_hot(theirs, num_labels)
            assert_f_is_counted(statistics.pair_frequency(y, y_other, kind), ours, theirs, training, kind)


@pytest.mark.parametrize("num_labels", WIDTHS)
def test_f_of_a_batch_with_itself_is_symmetric(num_labels: int) -> None:
    statistics = LabelStatistics.from_labels(multi_hot(drawn_sets(40, num_labels, 1), num_labels))
    y = multi_hot(drawn_sets(12, num_labels, 2), num_labels)
    for kind in PAIR_FREQUENCIES:
        f = statistics.pair_frequency(y, y, kind)
        assert torch.allclose(f, f.T, rtol=1e-12, atol=0)


@pytest.mark.parametrize("num_labels", WIDTHS)
def test_what_was_never_seen_counts_as_one(num_labels: int) -> None:
    statistics = LabelStatistics.from_labels(multi_hot([frozenset({0})] * 9, num_labels))
    unseen = multi_hot([frozenset({1}), frozenset({1, 2})], num_labels)
    for kind in PAIR_FREQUENCIES:
        assert statistics.pair_frequency(unseen, unseen, kind).eq(1).all()
    for kind in ANCHOR_FREQUENCIES:
        assert statistics.anchor_frequency(unseen, kind).eq(1).all()


@pytest.mark.parametrize("num_labels", [3, 20, 21, 1000])
def test_a_fuller_match_is_never_more_frequent(num_labels: int) -> None:
    statistics = LabelStatistics.from_labels(multi_hot(drawn_sets(60, num_labels, 1), num_labels))
    y = multi_hot(drawn_sets(20, num_labels, 2), num_labels)
    f = statistics.pair_frequency(y, y)
    assert (f.diagonal()[:, None] <= f).all()


@pytest.mark.parametrize("kind", PAIR_FREQUENCIES)
@pytest.mark.parametrize("num_labels", [3, 25])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
def test_f_of_labels_that_are_not_float64_is_float32(
    dtype: torch.dtype, num_labels: int, kind: PairFrequency
) -> None:
    training = drawn_sets(30, num_labels, seed=1)
    statistics = LabelStatistics.from_labels(multi_hot(training, num_labels, dtype))
    y = multi_hot(drawn_sets(8, num_labels, seed=2), num_labels)
    f = statistics.pair_frequency(y.to(dtype), y.to(dtype), kind)
    assert f.dtype == torch.float32
    torch.testing.assert_close(f.double(), statistics.pair_frequency(y, y, kind), rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", PAIR_FREQUENCIES)
@pytest.mark.parametrize("num_labels", [3, 25])
@pytest.mark.parametrize(("dtype", "dtype_other"), [(torch.float64, torch.bool), (torch.bool, torch.float64)])
def test_the_two_sides_may_have_labels_of_different_dtypes(
    dtype: torch.dtype, dtype_other: torch.dtype, num_labels: int, kind: PairFrequency
) -> None:
    statistics = LabelStatistics.from_labels(multi_hot(drawn_sets(30, num_labels, seed=1), num_labels))
    y = multi_hot(drawn_sets(8, num_labels, seed=2), num_labels)
    f = statistics.pair_frequency(y.to(dtype), y.to(dtype_other), kind)
    assert f.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(f.double(), statistics.pair_frequency(y, y, kind), rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", PAIR_FREQUENCIES)
@pytest.mark.parametrize("num_labels", [3, 25])
def test_f_of_no_rows_is_empty(num_labels: int, kind: PairFrequency) -> None:
    y = multi_hot(drawn_sets(6, num_labels, seed=1), num_labels)
    statistics = LabelStatistics.from_labels(y)
    assert statistics.pair_frequency(y[:0], y, kind).shape == (0, 6)
    assert statistics.pair_frequency(y, y[:0], kind).shape == (6, 0)


# ---- h -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ANCHOR_FREQUENCIES)
@pytest.mark.parametrize("num_labels", WIDTHS)
def test_h_is_what_counting_gives(num_labels: int, kind: AnchorFrequency) -> None:
    training = drawn_sets(60, num_labels, seed=1, seen=0.7)
    anchors = [frozenset[int](), *drawn_sets(14, num_labels, seed=2)]
    statistics = LabelStatistics.from_labels(multi_hot(training, num_labels))
    h = statistics.anchor_frequency(multi_hot(anchors, num_labels), kind)
    assert h.tolist() == pytest.approx([counted_h(y, training, kind) for y in anchors], rel=1e-12)


@pytest.mark.parametrize("kind", ANCHOR_FREQUENCIES)
@settings(max_examples=40)
@given(archive=archives())
def test_h_is_what_counting_gives_for_any_archive(
    kind: AnchorFrequency, archive: tuple[int, list[LabelSet], list[LabelSet], list[LabelSet]]
) -> None:
    num_labels, training, anchors, _ = archive
    statistics = LabelStatistics.from_labels(multi_hot(training, num_labels))
    h = statistics.anchor_frequency(multi_hot(anchors, num_labels), kind)
    assert h.tolist() == pytest.approx([counted_h(y, training, kind) for y in anchors], rel=1e-12)


@pytest.mark.parametrize("kind", ANCHOR_FREQUENCIES)
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
def test_h_of_labels_that_are_not_float64_is_float32(dtype: torch.dtype, kind: AnchorFrequency) -> None:
    y = multi_hot(drawn_sets(30, 17, seed=1), 17)
    statistics = LabelStatistics.from_labels(y)
    h = statistics.anchor_frequency(y.to(dtype), kind)
    assert h.dtype == torch.float32
    torch.testing.assert_close(h.double(), statistics.anchor_frequency(y, kind), rtol=1e-6, atol=0)


def test_the_kinds_are_those_of_the_types() -> None:
    assert get_args(PairFrequency) == PAIR_FREQUENCIES
    assert get_args(AnchorFrequency) == ANCHOR_FREQUENCIES


# ---- The counts themselves -----------------------------------------------------------------------


@settings(max_examples=40)
@given(archives())
def test_the_training_split_is_counted(
    archive: tuple[int, list[LabelSet], list[LabelSet], list[LabelSet]],
) -> None:
    num_labels, training, _, _ = archive
    statistics = LabelStatistics.from_labels(multi_hot(training, num_labels))
    labels = range(num_labels)
    assert (statistics.num_images, statistics.num_labels) == (len(training), num_labels)
    rows = [frozenset(row.nonzero().flatten().tolist()) for row in statistics.rows]
    assert dict(zip(rows, statistics.counts.tolist(), strict=True)) == Counter(training)
    assert len(rows) == len(set(training))
    assert statistics.label_counts.tolist() == [count(frozenset({k}), training) for k in labels]
    both = [[count(frozenset({a, b}), training) for b in labels] for a in labels]
    assert statistics.cooccurrence.tolist() == both


def huge(num_labels: int) -> tuple[LabelStatistics, Tensor]:
    """Three sets with so many images that float32 cannot tell a count from its neighbour."""
    rows = multi_hot([frozenset({0}), frozenset({0, 1}), frozenset({0, 1, 2})], num_labels)
    return LabelStatistics(rows.bool(), torch.tensor([2**31 + 1, 2**24 + 1, 2**25 + 1])), rows


@pytest.mark.parametrize("num_labels", [3, 20, 21, 60])
def test_counts_beyond_the_whole_numbers_of_float32_stay_exact(num_labels: int) -> None:
    statistics, rows = huge(num_labels)
    with_0, with_01, with_012 = 2**31 + 2**25 + 2**24 + 3, 2**25 + 2**24 + 2, 2**25 + 1
    assert statistics.num_images == with_0
    assert statistics.label_counts[:3].tolist() == [with_0, with_01, with_012]
    expected = [[with_0, with_01, with_012], [with_01, with_01, with_012], [with_012] * 3]
    assert statistics.cooccurrence[:3, :3].tolist() == expected
    f = [[with_0, with_0, with_0], [with_0, with_01, with_01], [with_0, with_01, with_012]]
    assert statistics.pair_frequency(rows, rows, "joint").tolist() == f
    assert statistics.pair_frequency(rows, rows, "shared_min").tolist() == f
    assert statistics.pair_frequency(rows[:1], rows[:1], "pair_mean").item() == with_0


def test_counts_are_the_same_after_a_move_to_a_device() -> None:
    y = multi_hot(drawn_sets(20, 25, 1), 25)
    statistics = LabelStatistics.from_labels(y)
    moved = statistics.to("cpu")
    assert torch.equal(moved.rows, statistics.rows)
    assert torch.equal(moved.pair_frequency(y, y), statistics.pair_frequency(y, y))


@pytest.mark.parametrize(
    "y",
    [torch.tensor([1, 0]), torch.tensor(1), torch.zeros(2, 3, 4), []],
    ids=["1-D", "0-D", "3-D", "nothing"],
)
def test_labels_that_are_not_a_matrix_are_refused(y: Tensor) -> None:
    with pytest.raises(LabelError, match=r"^label statistics: expected multi-hot labels \(N, L\), found"):
        LabelStatistics.from_labels(y)


@pytest.mark.parametrize("value", [2, -2, 0.5, float("nan"), float("inf")])
def test_labels_that_are_neither_0_1_nor_unknown_are_refused(value: float) -> None:
    with pytest.raises(LabelError, match=r"labels must be 0, 1 or -1 \(unknown\)"):
        LabelStatistics.from_labels(torch.tensor([[0, 1], [value, 0]]))


def test_unknown_labels_are_counted_as_absent() -> None:
    y = torch.tensor([[1, -1, 0], [1, 1, -1], [-1, 1, 1]])
    found, absent = LabelStatistics.from_labels(y), LabelStatistics.from_labels(y.clamp_min(0))
    assert found.label_counts.tolist() == [2, 2, 1]
    assert torch.equal(found.rows, absent.rows)
    assert torch.equal(found.counts, absent.counts)


def test_a_training_split_without_images_is_refused() -> None:
    with pytest.raises(LabelError, match="there are no training images"):
        LabelStatistics.from_labels(torch.zeros(0, 3))


@pytest.mark.parametrize(
    ("rows", "counts"), [((3,), (3,)), ((3, 2), (2,)), ((3, 2), (3, 1))], ids=["rows", "number", "counts"]
)
def test_rows_and_counts_of_other_shapes_are_refused(rows: tuple[int, ...], counts: tuple[int, ...]) -> None:
    with pytest.raises(LabelError, match=r"expected rows \(S, L\) and counts \(S,\)"):
        LabelStatistics(torch.zeros(rows, dtype=torch.bool), torch.ones(counts, dtype=torch.int64))


def test_a_list_of_rows_will_do() -> None:
    assert LabelStatistics.from_labels([[1, 0], [1, 1]]).label_counts.tolist() == [2, 1]  # type: ignore[arg-type]


# ---- Files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_labels", [3, 25, 1000])
def test_saved_statistics_are_loaded_as_they_were(tmp_path: Path, num_labels: int) -> None:
    y = multi_hot(drawn_sets(30, num_labels, 1), num_labels)
    statistics = LabelStatistics.from_labels(y)
    statistics.save(tmp_path / "statistics.safetensors")
    for path in (tmp_path / "statistics.safetensors", str(tmp_path / "statistics.safetensors")):
        loaded = LabelStatistics.load(path)
        assert loaded.rows.dtype == torch.bool
        assert loaded.counts.dtype == torch.int64
        assert torch.equal(loaded.rows, statistics.rows)
        assert torch.equal(loaded.counts, statistics.counts)
        for kind in PAIR_FREQUENCIES:
            assert torch.equal(loaded.pair_frequency(y, y, kind), statistics.pair_frequency(y, y, kind))


def test_huge_counts_are_saved_exactly(tmp_path: Path) -> None:
    statistics, _ = huge(3)
    statistics.save(tmp_path / "statistics.safetensors")
    assert torch.equal(LabelStatistics.load(tmp_path / "statistics.safetensors").counts, statistics.counts)


@pytest.mark.parametrize("content", ["nothing", "noise", "cut"])
def test_a_broken_file_is_refused_with_its_path(tmp_path: Path, content: str) -> None:
    path = tmp_path / "statistics.safetensors"
    LabelStatistics.from_labels(torch.eye(3)).save(path)
    path.write_bytes({"nothing": b"", "noise": b"no tensors" * 20, "cut": path.read_bytes()[:-5]}[content])
    with pytest.raises(LabelError, match=r"statistics\.safetensors: cannot read label statistics"):
        LabelStatistics.load(path)


def test_a_missing_file_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(LabelError, match=r"missing\.safetensors: cannot read label statistics"):
        LabelStatistics.load(tmp_path / "missing.safetensors")


def test_a_folder_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(LabelError, match=f"^{tmp_path}: cannot read label statistics"):
        LabelStatistics.load(tmp_path)


@pytest.mark.parametrize("missing", ["rows", "counts"])
def test_a_file_with_other_keys_is_refused_with_its_path_and_what_is_missing(
    tmp_path: Path, missing: str
) -> None:
    path = tmp_path / "weights.safetensors"
    tensors = {"rows": torch.eye(2), "counts": torch.ones(2), "weight": torch.ones(2)}
    del tensors[missing]
    save_file(tensors, path)
    with pytest.raises(
        LabelError, match=rf"weights\.safetensors: not label statistics: '{missing}' is missing"
    ):
        LabelStatistics.load(path)


@pytest.mark.parametrize(
    ("rows", "counts"),
    [(torch.ones(3), torch.ones(3)), (torch.eye(3), torch.ones(2)), (torch.zeros(0, 3), torch.zeros(0))],
    ids=["a vector", "too few counts", "no rows"],
)
def test_a_file_with_tensors_of_other_shapes_is_refused_with_its_path(
    tmp_path: Path, rows: Tensor, counts: Tensor
) -> None:
    save_file({"rows": rows, "counts": counts}, tmp_path / "other.safetensors")
    with pytest.raises(LabelError, match=r"other\.safetensors"):
        LabelStatistics.load(tmp_path / "other.safetensors")


# ---- A real archive ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ucm_sets(shared: Path) -> list[LabelSet]:
    path = shared / UCM
    if not path.is_file():
        pytest.skip(f"{path} is missing")
    _, *rows = path.read_text("utf-8").splitlines()
    return [frozenset(k for k, x in enumerate(row.split("\t")[1:]) if x == "1") for row in rows]


def test_uc_merced_has_its_published_label_counts(ucm_sets: list[LabelSet]) -> None:
    statistics = LabelStatistics.from_labels(multi_hot(ucm_sets, 17))
    assert (statistics.num_images, statistics.num_labels, len(statistics.rows)) == (2100, 17, 202)
    assert statistics.label_counts.tolist() == [
        *(100, 718, 691, 886, 115, 105, 100, 103, 975),
        *(102, 1300, 294, 100, 102, 100, 1009, 203),
    ]


@pytest.mark.parametrize("num_labels", [17, 25], ids=["table", "on demand"])
def test_f_of_all_label_sets_of_uc_merced_is_what_counting_gives(
    ucm_sets: list[LabelSet], num_labels: int
) -> None:
    """Eight labels that no image has take the same archive beyond the table of all sets."""
    statistics = LabelStatistics.from_labels(multi_hot(ucm_sets, num_labels))
    times = Counter(ucm_sets)
    sets = list(times)
    carrying: dict[LabelSet, int] = {}
    for shared_labels in {one & other for one in sets for other in sets}:
        carrying[shared_labels] = sum(n for image, n in times.items() if shared_labels <= image)
    y = multi_hot(sets, num_labels)
    expected = [[carrying[one & other] for other in sets] for one in sets]
    assert statistics.pair_frequency(y, y).tolist() == expected
