"""What is released: the files of wheel and sdist, and a wheel that works without the repository."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/marcir"

pytestmark = pytest.mark.slow


def run(*command: str | Path, folder: Path) -> str:
    """What a command prints, without the repository in reach; fails with its errors."""
    hidden = ("PYTHONPATH", "MARCIR_SHARED")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["MARCIR_CACHE"] = str(folder / "cache")
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist; the wheel is built from the sdist. Skips without a package index."""
    index = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder / "index")]
    found = subprocess.run([*index, "hatchling"], capture_output=True, text=True, timeout=300)
    if found.returncode != 0:
        pytest.skip(f"pip cannot install packages: {found.stderr.strip().splitlines()[-1]}")
    run(sys.executable, "-m", "build", "--quiet", "--outdir", folder / "dist", ROOT, folder=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    return wheel, sdist


def test_wheel_and_sdist_hold_what_is_needed_and_nothing_else(tmp_path: Path) -> None:
    wheel, sdist = build(tmp_path)
    package = {
        f"marcir/{path.relative_to(PACKAGE)}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    files = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert files == package
    assert {"marcir/py.typed", "marcir/serve/page/index.html"} <= files

    with tarfile.open(sdist) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames()]
    assert {f"src/{name}" for name in package} <= set(names)
    assert {name.split("/")[0] for name in names} == {
        *("benchmarks", "configs", "docs", "records", "src", "tests", "tools"),
        *("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md"),
        *("Makefile", "constraints.txt", "pyproject.toml", "zensical.toml", ".gitignore", "PKG-INFO"),
    }
    assert [name for name in names if name.startswith("records/")] == ["records/README.md"]
    assert not [name for name in names if "__pycache__" in name]


def test_the_wheel_trains_indexes_serves_and_has_types_in_an_empty_environment(
    installed: Path, tmp_path: Path
) -> None:
    train_and_index(installed.with_name("marcir"), tmp_path)
    serve(installed.with_name("marcir"), tmp_path)
    check_types(installed, tmp_path)


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Python of an environment with the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("release")
    wheel, _ = build(folder)
    run(sys.executable, "-m", "venv", "environment", folder=folder)
    python = folder / "environment/bin/python"
    constraints = ("--constraint", ROOT / "constraints.txt")
    install = ("pip", "install", "--quiet", "--no-compile", *constraints, f"{wheel}[train,serve]")
    run(python, "-m", *install, folder=folder)
    yield python
    shutil.rmtree(folder)  # more than a gigabyte, which pytest would keep


def train_and_index(marcir: Path, folder: Path) -> None:
    run(marcir, "data", "scenes", "--out", "archive", "--images", "60", "--size", "32", folder=folder)
    run(
        *(marcir, "train", "--data.root", "archive", "--data.size", "32", "--run", "run"),
        *("--encoder.backbone", "test_resnet", "--encoder.weights", "none", "--encoder.dim", "16"),
        *("--train.epochs", "1", "--train.batch_size", "16", "--train.precision", "float32"),
        folder=folder,
    )
    run(marcir, "index", "--model", "run", "--images", "archive", "--store", "store", folder=folder)
    assert "images/" in run(marcir, "search", "--store", "store", "--id", "images/000001.png", folder=folder)


def serve(marcir: Path, folder: Path) -> None:
    """Every file of the page is served, and the service stops cleanly."""
    command = [marcir, "serve", "--store", "store", "--images", "archive", "--port", "0"]
    environment = {**os.environ, "MARCIR_CACHE": str(folder / "cache")}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout is not None
            address = served.stdout.readline().split()[0].rstrip("/")
            assert b"<!doctype html>" in fetch(f"{address}/")
            page = PACKAGE / "serve/page"
            for file in page.rglob("*.*"):
                if file.suffix != ".html":
                    name = file.relative_to(page).as_posix()
                    assert fetch(f"{address}/page/{name}") == file.read_bytes(), name
        finally:
            served.terminate()
    assert served.returncode == 0


def fetch(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=60) as response:  # noqa: S310
        content: bytes = response.read()
    return content


USER = """
import marcir

reveal_type(marcir.create_loss("marc"))
reveal_type(marcir.create_loss("marc").forward)
reveal_type(marcir.list_losses())
reveal_type(marcir.load_model("run").embed(["a.png"]))
reveal_type(marcir.open_store("store").by_id("a.png"))
marcir.create_loss(3)
"""


def check_types(python: Path, folder: Path) -> None:
    """mypy, in strict mode, sees the types of the installed package."""
    (folder / "user.py").write_text(USER, "utf-8")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python), "user.py"]
    done = subprocess.run(mypy, cwd=folder, capture_output=True, text=True, timeout=600)
    types = re.findall(r'Revealed type is "(.*)"', done.stdout)
    patterns = (r"[\w.]+\.MultiLabelLoss", r"def \(.*Tensor", r".*list\[.*str\]", r".*ndarray\[", r"marcir\.")
    assert len(types) == len(patterns), done.stdout + done.stderr
    assert not [found for found, like in zip(types, patterns, strict=True) if not re.match(like, found)]
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1, done.stdout
    assert 'Argument 1 to "create_loss" has incompatible type "int"; expected "str"' in errors[0]
