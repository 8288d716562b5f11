"""What the documents say is true: code blocks run, files and names exist."""

import re
from pathlib import Path

import pytest

from marcir.catalog import LOSSES, loss_options

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *ROOT.glob("C*.md")])
BLOCKS = [
    pytest.param(block, id=f"{document.name}-{number}")
    for document in DOCUMENTS
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", document.read_text("utf-8"), re.DOTALL))
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
