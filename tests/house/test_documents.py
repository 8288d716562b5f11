"""What the documents say is true: code blocks run, files and names exist."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import urllib.request
from pathlib import Path

import pytest

from marcir.catalog import LOSSES, loss_options

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *ROOT.glob("C*.md")])
# Blocks that need what the shell blocks of the README have made.
NEEDS_MODEL = "runs/mine"
BLOCKS = [
    pytest.param(block, id=f"{document.name}-{number}")
    for document in DOCUMENTS
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", document.read_text("utf-8"), re.DOTALL))
    if NEEDS_MODEL not in block
]


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("block", BLOCKS)
def test_every_python_block_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README", "exec"), {"__name__": "block"})  # noqa: S102


def test_the_readme_has_blocks_to_run() -> None:
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_of_the_project_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text("utf-8"))
    missing = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert not missing


def test_every_function_and_test_named_in_the_equations_exists() -> None:
    text = (ROOT / "docs/equations.md").read_text("utf-8")
    for path, name in re.findall(r"`([a-z_/]+\.py)(?:: ([A-Za-z_.]+))?`", text):
        file = ROOT / path if path.startswith("tests/") else ROOT / "src/marcir" / path
        assert file.is_file(), path
        for part in name.split(".") if name else []:
            assert re.search(rf"(def|class) {part}\b", file.read_text("utf-8")), f"{path}: {part}"


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_and_every_option_of_it_is_documented(name: str) -> None:
    text = (ROOT / "docs/losses.md").read_text("utf-8")
    section = next(part for part in text.split("\n### ") if f"`{name}`" in part.splitlines()[0])
    options = set(loss_options(name)) - {"chunk_size", "tau"}
    missing = [option for option in options if f"`{option}`" not in section]
    assert f"`{name}`" in section
    assert not missing


def test_the_readme_names_every_loss() -> None:
    words = re.findall(r"[a-z-]+", (ROOT / "README.md").read_text("utf-8"))
    assert set(LOSSES) <= set(words)


@pytest.mark.slow
def test_every_shell_block_of_the_readme_runs_in_its_order(tmp_path: Path) -> None:
    blocks = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
    assert len(blocks) >= 4
    serving = [line for block in blocks for line in block.splitlines() if line.startswith("marcir serve")]
    script = "\n".join(blocks)
    for line in serving:
        script = script.replace(line, "")
    scripts = sysconfig.get_path("scripts")
    environment = {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "MARCIR_CACHE": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "hits.png").exists()
    assert (tmp_path / "results" / "report" / "report.html").exists()
    later = [b for b in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if NEEDS_MODEL in b]
    for block in later:
        subprocess.run([sys.executable, "-c", block], cwd=tmp_path, env=environment, check=True)
    for line in serving:
        check_that_it_serves(f"exec {line.split('#')[0]} --port 0", tmp_path, environment)


def check_that_it_serves(line: str, folder: Path, environment: dict[str, str]) -> None:
    """Start it, ask whether it is well, and stop it."""
    with subprocess.Popen(
        ["/bin/bash", "-c", line], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        address = served.stdout.readline().split()[0]
        with urllib.request.urlopen(f"{address.rstrip('/')}/health", timeout=60) as answer:  # noqa: S310
            assert b'"ok"' in answer.read()
        served.terminate()
    assert served.returncode == 0


def test_installs_and_make_targets_that_the_readme_names_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {name for names in re.findall(r"'\.\[([a-z,]+)\]'", README) for name in names.split(",")}
    assert extras
    assert extras <= project["optional-dependencies"].keys()
    targets = re.findall(r"^    make (\w+)", README, re.M)
    assert targets == ["demo", "test"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets)
