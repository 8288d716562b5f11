"""The commands on archives, as a person types them."""

import os
from pathlib import Path

import pytest
from PIL import Image

from data import fakes
from marcir.cli import main
from marcir.errors import DataError
from marcir.experiments.inspect import inspect, split

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "archive"
    folder.mkdir()
    fakes.write_manifest(folder)
    return folder


def test_inspect_counts_labels_sets_and_broken_images(root: Path, tmp_path: Path) -> None:
    (root / "a/two.jpg").write_bytes(b"")
    found = inspect("manifest", root, heat_map=tmp_path / "heat.png")
    assert found.counts == {"road": 1, "tree": 1, "water": 1}
    assert found.labels_per_image == {2: 1, 1: 1, 0: 1}
    assert (found.images, found.distinct_sets) == (3, 3)
    assert list(found.broken) == ["a/two.jpg"]
    with Image.open(tmp_path / "heat.png") as drawn:
        assert min(drawn.size) > 300


def test_inspect_warns_where_counts_differ_from_the_published_ones(tmp_path: Path) -> None:
    fakes.write_ucm(tmp_path)
    text = str(inspect("ucm", tmp_path))
    assert "ucm: 6 images" in text
    assert "WARNING: published 2,100" in text
    assert "WARNING: published 1,300" in text


def test_inspect_prints_what_it_found(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "inspect", "--dataset", "manifest", "--root", str(root)]) == 0
    printed = capsys.readouterr().out
    assert "without any label: 1" in printed
    assert "broken images: 0" in printed


def test_inspect_tells_what_the_table_does_not_name_and_names_that_look_like_slips(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fakes.save(root / "a/four.png", 0)
    table = root / "labels.csv"
    table.write_text(table.read_text().replace("water", "Road"))
    assert main(["data", "inspect", "--dataset", "manifest", "--root", str(root)]) == 0
    printed = capsys.readouterr().out
    assert "WARNING: image files in the folder that the table does not name: 1" in printed
    assert "WARNING: label 'Road' and 'road' differ only in spelling: one label?" in printed


def test_inspect_lists_all_images_where_all_are_broken(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a/one.png", "a/two.jpg", "three.webp"):
        (root / name).write_bytes(b"")
    assert main(["data", "inspect", "--dataset", "manifest", "--root", str(root)]) == 0
    printed = capsys.readouterr().out
    assert "broken images: 3" in printed
    assert all(name in printed for name in ("one.png", "two.jpg", "three.webp"))


def test_a_heat_map_that_cannot_be_written_does_not_hide_the_report(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["data", "inspect", "--dataset", "manifest", "--root", str(root), "--heat-map", str(tmp_path)]
    assert main(command) == 2
    printed = capsys.readouterr()
    assert "distinct label sets: 3" in printed.out
    assert printed.err.count("\n") == 1


def test_a_split_is_written_and_printed(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "split.json"
    assert main(["data", "split", "--dataset", "manifest", "--root", str(root), "--out", str(out)]) == 0
    assert "2 / 0 / 1 images" in capsys.readouterr().out
    again, _ = split("manifest", root, tmp_path / "again.json")
    assert again == split("manifest", root, out)[0]


def test_a_split_refuses_broken_images_and_leaves_them_out_on_demand(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "three.webp").write_bytes(b"RIFF")
    out = tmp_path / "split.json"
    command = ["data", "split", "--dataset", "manifest", "--root", str(root), "--out", str(out)]
    assert main(command) == 2
    assert "three.webp" in capsys.readouterr().err
    assert not out.exists()
    assert main([*command, "--on-broken", "skip"]) == 0
    printed = capsys.readouterr()
    assert "skipped" in printed.err
    assert "three.webp" in printed.err
    assert "three.webp" not in out.read_text()


def test_inspect_counts_without_broken_images_on_demand(root: Path) -> None:
    (root / "a/two.jpg").write_bytes(b"")
    found = inspect("manifest", root, on_broken="skip")
    assert found.counts == {"road": 1, "tree": 1, "water": 0}
    assert found.images == 2
    assert list(found.broken) == ["a/two.jpg"]


def test_inspect_lists_every_image_of_an_archive_that_is_all_broken(root: Path) -> None:
    for path in ("a/one.png", "a/two.jpg", "three.webp"):
        (root / path).write_bytes(b"")
    assert len(inspect("manifest", root).broken) == 3
    with pytest.raises(DataError, match=r"3 broken image\(s\)"):
        inspect("manifest", root, on_broken="skip")


@pytest.mark.parametrize(
    ("command", "out"),
    [
        ("split", "labels.csv"),
        ("split", "a/one.png"),
        ("split", "notes.md"),
        ("show", "a/one.png"),
        ("show", "new.png"),
        ("show", "labels.csv"),
        ("inspect", "a/../three.webp"),
    ],
)
def test_nothing_in_the_users_folder_is_replaced(
    root: Path, command: str, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "notes.md").write_text("mine")
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    option = "--heat-map" if command == "inspect" else "--out"
    assert main(["data", command, "--dataset", "manifest", "--root", str(root), option, str(root / out)]) == 2
    assert Path(out).name in capsys.readouterr().err
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_a_table_or_an_image_elsewhere_is_not_replaced_either(root: Path, tmp_path: Path) -> None:
    table = (root / "labels.csv").rename(tmp_path / "table.csv")
    (tmp_path / "link.png").symlink_to(root / "a/one.png")
    arguments = ["data", "show", "--dataset", "manifest", "--root", str(root), "--labels", str(table)]
    for out in (table, tmp_path / "link.png"):
        before = out.read_bytes()
        assert main([*arguments, "--out", str(out)]) == 2
        assert out.read_bytes() == before


def test_a_split_may_lie_beside_the_images_and_be_drawn_again(root: Path) -> None:
    first, _ = split("manifest", root, root / "split.json")
    second, _ = split("manifest", root, root / "split.json", seed=1)
    assert first.seed != second.seed


def test_inspect_can_print_a_file_name_that_is_not_utf_8(root: Path) -> None:
    found = inspect("manifest", root)
    found.broken["x"] = os.fsdecode(b"\xff.png: broken")
    assert str(found).encode().endswith(b"\\udcff.png: broken")


def test_show_draws_images_beside_their_augmented_versions(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "samples.png"
    command = [
        "data",
        "show",
        "--dataset",
        "manifest",
        "--root",
        str(root),
        "--out",
        str(out),
        "--size",
        "32",
    ]
    assert main(command) == 0
    with Image.open(out) as drawn:
        assert drawn.width > drawn.height


def test_show_refuses_broken_images_and_skips_them_on_demand(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "three.webp").write_bytes(b"RIFF")
    command = ["data", "show", "--dataset", "manifest", "--root", str(root), "--out", str(tmp_path / "s.png")]
    assert main(command) == 2
    assert "--on-broken skip" in capsys.readouterr().err
    assert main([*command, "--on-broken", "skip"]) == 0
    assert "skipped" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "manifst"], "unknown dataset 'manifst'. Did you mean 'manifest'?"),
        (["--dataset", "ucm"], "dataset 'ucm' needs --root"),
        (["--dataset", "ucm", "--root", "/nowhere"], "root=/nowhere is not a folder"),
        (["--dataset", "ucm", "--root", "s3://b/ucm"], "--root s3://b/ucm: must be on a disk."),
        (["--dataset", "whdld", "--root", ".", "--labels", "x.csv"], "labels come from its masks"),
        (["--root", "."], "the following arguments are required: --dataset"),
        (["--dataset", "ucm", "--rot", "."], "unknown argument '--rot'. Did you mean '--root'?"),
    ],
)
def test_a_mistake_is_answered_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        raise SystemExit(main(["data", "inspect", *arguments]))
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_a_table_without_images_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "labels.csv").write_text("path,labels\n")
    assert main(["data", "inspect", "--dataset", "manifest", "--root", str(tmp_path)]) == 2
    assert "lists no images" in capsys.readouterr().err


def test_inspect_counts_three_states_where_labels_are_unknown(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = root / "labels.csv"
    table.write_text("path,labels\na/one.png,road;tree\na/two.jpg,?road;water\nthree.webp,?road;?water\n")
    found = inspect("manifest", root)
    assert found.counts == {"road": 1, "tree": 1, "water": 1}
    assert found.unknown == {"road": 2, "tree": 0, "water": 1}
    assert found.absent == {"road": 0, "tree": 2, "water": 1}
    assert found.labels_per_image == {2: 1, 1: 1, 0: 1}
    assert found.silence is None
    assert main(["data", "inspect", "--dataset", "manifest", "--root", str(root)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].split() == ["present", "absent", "unknown"]
    assert printed[2].split() == ["road", "1", "0", "2"]
    assert "unknown: 33.3 % of the labels; what is not listed is absent" in printed
    assert not any("WARNING" in line for line in printed)


def test_inspect_asks_what_silence_means_where_many_images_have_no_label(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["data", "inspect", "--dataset", "manifest", "--root", str(root)]
    assert main(command) == 0
    assert (
        "WARNING: 33 % of the images have no label. If the table lists only what was seen, use --unlisted"
        in (capsys.readouterr().out)
    )
    assert main([*command, "--unlisted", "unknown"]) == 0
    printed = capsys.readouterr().out
    assert "WARNING" not in printed
    assert "unknown: 66.7 % of the labels; what is not listed is unknown" in printed


def test_a_table_with_a_column_per_label_says_nothing_about_silence(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "labels.csv").write_text("path,road,tree\na/one.png,1,?\na/two.jpg,0,1\nthree.webp,,\n")
    assert main(["data", "inspect", "--dataset", "manifest", "--root", str(root)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert "unknown: 50.0 % of the labels" in printed
    assert not any("listed" in line for line in printed)


def test_silence_that_is_unknown_already_is_not_advised(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "a/one.png,road\na/two.jpg,!road\nthree.webp,!road\n"
    (root / "labels.csv").write_text("# unlisted: unknown\npath,labels\n" + rows)
    assert main(["data", "inspect", "--dataset", "manifest", "--root", str(root)]) == 0
    assert "--unlisted" not in capsys.readouterr().out


def test_labels_that_are_unknown_in_every_image_are_named(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "a/one.png,road;?tree;?sea\na/two.jpg,road;?tree\nthree.webp,road;?tree;?sea\n"
    (root / "labels.csv").write_text("path,labels\n" + rows)
    command = ["data", "inspect", "--dataset", "manifest", "--root", str(root)]
    assert main(command) == 0
    assert "WARNING: unknown in every image: 'tree'. Nothing is learned from" in capsys.readouterr().out
    (root / "labels.csv").write_text("path,labels\n" + rows.replace("two.jpg,", "two.jpg,?sea;"))
    assert main(command) == 0
    assert "WARNING: unknown in every image: 'sea', 'tree'. Nothing is" in capsys.readouterr().out


def test_a_split_depends_on_what_silence_means(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["data", "split", "--dataset", "manifest", "--root", str(root), "--out"]
    for name, more in {
        "a.json": [],
        "b.json": ["--unlisted", "absent"],
        "c.json": ["--unlisted", "unknown"],
    }.items():
        assert main([*command, str(tmp_path / name), *more]) == 0
    absent, same, unknown = ((tmp_path / f"{name}.json").read_bytes() for name in "abc")
    assert absent == same != unknown
    table = root / "labels.csv"
    table.write_text("# unlisted: unknown\n" + table.read_text())
    assert main([*command, str(tmp_path / "d.json")]) == 0
    assert (tmp_path / "d.json").read_bytes() == unknown
    capsys.readouterr()
    assert main([*command, str(tmp_path / "e.json"), "--unlisted", "absent"]) == 2
    printed = capsys.readouterr().err
    assert "labels.csv line 1: found '# unlisted: unknown', but --unlisted is absent." in printed
    assert printed.count("\n") == 1
