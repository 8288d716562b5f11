"""The commands on archives, as a person types them."""

from pathlib import Path

import pytest
from PIL import Image

from data import fakes
from marcir.cli import main
from marcir.stages.data import inspect, split

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


def test_a_split_is_written_and_printed(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "split.json"
    assert main(["data", "split", "--dataset", "manifest", "--root", str(root), "--out", str(out)]) == 0
    assert "2 / 0 / 1 images" in capsys.readouterr().out
    assert split("manifest", root, tmp_path / "again.json").train == split("manifest", root, out).train


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
    assert "names no images" in capsys.readouterr().err
