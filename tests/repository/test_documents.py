"""What the documents say is true: code blocks run, files and names exist."""

import json
import os
import re
import socket
import subprocess
import sys
import sysconfig
import tomllib
import urllib.request
from ast import literal_eval
from pathlib import Path

import pytest

import marcir
from marcir.catalog import LOSSES, loss_options
from marcir.cli import main
from marcir.serve.settings import Settings
from training_runs import train

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("C*.md")])
LOSS_PAGES = [page.read_text("utf-8") for page in sorted((ROOT / "docs/losses").glob("*.md"))]
# Blocks that need what the shell blocks of the README, and of the walk-through of scenes, have made.
NEEDS_MODEL, NEEDS_EXPORT = "runs/mine", "scenes.parquet"
# Documents whose bash and python blocks are run in their order, after those of the README.
GUIDES = [ROOT / "docs/search.md", ROOT / "docs/serve.md", ROOT / "docs/annotations.md"]
BLOCKS = [
    pytest.param(block, id=f"{document.name}-{number}")
    for document in DOCUMENTS
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", document.read_text("utf-8"), re.DOTALL))
    if NEEDS_MODEL not in block and NEEDS_EXPORT not in block and document not in GUIDES
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
def test_every_loss_has_a_page_with_its_options_and_their_defaults(name: str) -> None:
    (page,) = [page for page in LOSS_PAGES if f"`{name}`" in page.split("\n## ")[0]]
    documented = dict(re.findall(r"^\|[^|]*\| `(\w+)` \| `([^`]+)` \|", page, re.M))
    for option, default in loss_options(name).items():
        assert literal_eval(documented[option]) == default, option
    assert loss_class(name) in page


def loss_class(name: str) -> str:
    return LOSSES[name].split(":")[1]


@pytest.mark.parametrize("page", LOSS_PAGES, ids=lambda page: page.splitlines()[0])
def test_a_loss_page_has_formula_symbols_example_and_use(page: str) -> None:
    assert re.findall(r"^## (.*)", page, re.M) == ["Formula", "Example", "When to use it"]
    assert "$$" in page
    assert "| symbol | argument | default | meaning |" in page
    assert "```python" in page
    assert "../results.md" in page


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_prose_is_wrapped_at_100_columns(document: Path) -> None:
    text = re.sub(r"^```.*?^```", "", document.read_text("utf-8"), flags=re.DOTALL | re.M)
    prose = [line for line in text.splitlines() if not line.startswith(("|", "    ", "!["))]
    assert not [line for line in prose if len(line) > 100]


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
    environment.pop("OMP_NUM_THREADS", None)  # the longest test, as a user would run it: on all cores
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


@pytest.fixture(scope="module")
def readme_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder after the README: archive/, archive.store without labels, and runs/mine of a tiny backbone."""
    folder = tmp_path_factory.mktemp("readme")
    archive, run = str(folder / "archive"), str(folder / "runs/mine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARCIR_CACHE", str(tmp_path_factory.mktemp("readme-cache")))
        patch.chdir(folder)
        assert main(["data", "scenes", "--out", archive, "--images", "300", "--size", "128"]) == 0
        train(
            *("--data.name", "manifest", "--data.root", archive, "--data.size", "24"),
            *("--encoder.backbone", "test_resnet", "--encoder.weights", "none"),
            *("--encoder.dim", "16", "--train.epochs", "1", "--train.precision", "float32", "--run", run),
        )
        assert main(["index", "--images", archive, "--store", str(folder / "archive.store")]) == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("document", GUIDES, ids=lambda path: path.name)
def test_every_block_of_a_guide_runs_in_its_order(
    document: Path, readme_archive: Path, tmp_path: Path
) -> None:
    """As printed, with two exceptions: the service gets a free port, and an HTTP error fails the test."""
    # In the folder itself, not in a copy: a store belongs to the folder that was indexed.
    run_guide(document.read_text("utf-8"), readme_archive, tmp_path)


@pytest.mark.slow
def test_the_walk_through_of_scenes_runs_in_its_order(tmp_path: Path) -> None:
    text = (ROOT / "docs/geo.md").read_text("utf-8")
    (section,) = re.findall(r"^## From a folder to a map\n.*?(?=^## )", text, re.DOTALL | re.M)
    folder = tmp_path / "walk"
    folder.mkdir()
    run_guide(section, folder, tmp_path)
    assert json.loads((folder / "hits.geojson").read_bytes())["features"]
    assert (folder / "stac/collection.json").exists()
    assert (folder / "windows.gpkg").exists()


def run_guide(text: str, folder: Path, tmp_path: Path) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if name != "MARCIR_TOKEN"},
        "PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}",
        "MARCIR_CACHE": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        ["/bin/bash", "-exuo", "pipefail", "-c", guide_script(text)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


# A service runs in the background from its line to that of the next service, or to the end of the document.
GUIDE_START = r"""
served=
curl() { command curl --fail-with-body --silent --show-error --max-time 60 "$@"; }
stop() { if [ -n "$served" ]; then kill "$served"; wait "$served"; served=; fi; }
answers() {
    for _ in {1..300}; do
        if command curl --silent --output /dev/null "http://127.0.0.1:$1/health"; then return; fi
        kill -0 "$served"
        sleep 0.2
    done
    return 1
}
trap stop EXIT
"""
SERVE_LINE = re.compile(r"^(?:\w+=(?:\$\([^)]*\)|\S)*\s+)*marcir serve\b[^#\n]*", re.M)


def guide_script(text: str) -> str:
    """All bash and python blocks of a document as one script."""
    parts = [GUIDE_START]
    for language, block in re.findall(r"^```(bash|python)\n(.*?)^```", text, re.DOTALL | re.M):
        if language == "python":
            parts.append(f"'{sys.executable}' - <<'END_OF_PYTHON'\n{block}END_OF_PYTHON\n")
        else:
            parts.append(SERVE_LINE.sub(in_background, block.replace("\\\n", " ")))
    script = "\n".join([*parts, "stop"])
    for port in {port_of(line) for line in SERVE_LINE.findall(script)}:
        script = re.sub(
            rf"(localhost:|127\.0\.0\.1:|answers |--port ){port}\b", rf"\g<1>{free_port()}", script
        )
    return script


def in_background(line: re.Match[str]) -> str:
    port = port_of(line[0])
    given = line[0] if "--port" in line[0] else f"{line[0]} --port {port}"
    return f"stop\n{given} & served=$!\nanswers {port}\n"


def port_of(line: str) -> str:
    found = re.search(r"--port[ =](\d+)", line)
    return found[1] if found else str(Settings("").port)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_the_guides_have_blocks_to_run() -> None:
    for document in GUIDES:
        assert re.search(r"^```(bash|python)\n", document.read_text("utf-8"), re.M), document.name
    script = guide_script(
        "```bash\nA=$(cat x y) marcir serve --store s  # here\ncurl localhost:8000/health\n```\n"
    )
    port = re.search(r"^answers (\d+)$", script, re.M)
    assert port is not None
    assert f"A=$(cat x y) marcir serve --store s   --port {port[1]} & served=$!" in script
    assert f"curl localhost:{port[1]}/health" in script


def test_package_changelog_and_citation_have_one_version_and_date() -> None:
    changelog = re.search(r"^## (\S+) - (\S+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    cited = re.search(r"^version: (\S+)\ndate-released: (\S+)$", citation, re.M)
    assert changelog is not None
    assert cited is not None
    assert changelog.groups() == cited.groups()
    assert changelog[1] == marcir.__version__


def test_installs_and_make_targets_that_the_readme_names_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {name for names in re.findall(r"'\.\[([a-z,]+)\]'", README) for name in names.split(",")}
    assert extras
    assert extras <= project["optional-dependencies"].keys()
    targets = re.findall(r"^    make (\w+)", README, re.M)
    assert targets == ["demo", "test"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets)
