"""The documentation site: what it builds from, and what its pages link to and load."""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ["docs", "configs", "tools", "src", "Makefile", "zensical.toml"]
SOURCES += ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "LICENSE", "records/README.md"]

pytestmark = pytest.mark.slow


def sources(folder: Path) -> Path:
    """A copy of everything that the site is made of."""
    for name in SOURCES:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    return folder


def make_docs(folder: Path) -> subprocess.CompletedProcess[str]:
    scripts = sysconfig.get_path("scripts")
    command = ["make", "docs", "INSTALLED=", f"BIN={scripts}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = sources(tmp_path_factory.mktemp("site"))
    done = make_docs(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_every_document_is_a_page_of_the_menu(site: Path) -> None:
    documents = [
        path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")
    ]
    home = (site / "index.html").read_text("utf-8")
    assert not [page for page in documents if f'href="./docs/{page}"' not in home]


def test_every_link_of_every_page_leads_to_a_file_and_an_anchor_of_the_site(site: Path) -> None:
    pages = {page: page.read_text("utf-8") for page in site.rglob("*.html") if page.name != "404.html"}
    anchors = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in pages.items()}
    dead = []
    for page, text in pages.items():
        for link in re.findall(r'\b(?:href|src)="([^"]+)"', text):
            parts = urlsplit(link)
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() and link in (".", "./", "..", "../") else target
            is_anchor = not parts.fragment or parts.fragment in anchors.get(target, ()) or target == page
            if not parts.scheme and not (target.is_file() and is_anchor):
                dead.append(f"{page.relative_to(site)}: {link}")
    assert not dead


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    loaded = [
        f"{file.name}: {found}"
        for file in [*site.rglob("*.html"), *site.rglob("*.css")]
        for found in re.findall(
            r'(?:<(?:script|img|iframe|link)\b[^>]*|url\(|@import )["\'(=]?(?:https?:)?//[^"\')>\s]+',
            file.read_text("utf-8"),
        )
    ]
    assert not loaded


def test_formulas_are_mathml(site: Path) -> None:
    page = (site / "docs/losses/marc.html").read_text("utf-8")
    assert page.count("<math ") >= 5
    assert "arithmatex" not in page
    assert "\\frac" not in page


@pytest.mark.parametrize("link", ["[x](no-such-page.md)", "[x](training.md#no-such-heading)"])
def test_a_dead_link_fails_the_build(link: str, tmp_path: Path) -> None:
    folder = sources(tmp_path)
    with (folder / "docs/roadmap.md").open("a", encoding="utf-8") as page:
        page.write(f"\n{link}\n")
    done = make_docs(folder)
    assert done.returncode != 0
    assert "roadmap.md" in done.stdout + done.stderr
