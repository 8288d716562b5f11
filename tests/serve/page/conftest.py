"""Chromium and the page of a running service."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext

from serve.page.browsing import Visit
from serve.page.map_archive import write_places
from serve.server_process import Server
from serve.server_thread import serving_in_a_thread

AXE = Path(__file__).parents[3] / ".page-tools/node_modules/axe-core/axe.min.js"
WIDE = {"width": 1280, "height": 800}
Visiting = Callable[..., Visit]


@pytest.fixture
def visiting(browser: Browser) -> Iterator[Visiting]:
    """Begins visits, each of a person of its own; nothing may go wrong, and nobody else may be asked."""
    yield from _visits(browser, {})


@pytest.fixture
def drawing(drawing_browser: Browser) -> Iterator[Visiting]:
    """As `visiting`, with a browser that draws maps; they do not move slowly."""
    yield from _visits(drawing_browser, {"reduced_motion": "reduce"})


def _visits(browser: Browser, defaults: dict[str, Any]) -> Iterator[Visiting]:
    visits: list[Visit] = []

    def begin(server: Server, **options: Any) -> Visit:
        context = browser.new_context(**{"viewport": WIDE, **defaults, **options})
        visits.append(Visit.begin(context, server))
        return visits[-1]

    yield begin
    for visit in visits:
        visit.page.context.close()
    assert [problem for visit in visits for problem in visit.problems] == []
    assert [url for visit in visits for url in visit.outside] == []


@pytest.fixture(scope="session")
def drawing_browser(browser: Browser) -> Iterator[Browser]:
    """A browser that draws maps, by a WebGL without a graphics card."""
    args = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    started = browser.browser_type.launch(
        executable_path=os.environ.get("MARCIR_CHROMIUM") or shutil.which("chromium"), args=args
    )
    yield started
    started.close()


@pytest.fixture(scope="session")
def places_server(
    served_store: Path,
    served_images: Path,
    served_model: Path,
    served_cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """A service on an archive with footprints, see `map_archive`."""
    store = write_places(tmp_path_factory.mktemp("places"), served_store)
    with serving_in_a_thread(store, served_images, served_model, served_cache, originals=True) as running:
        yield running


@pytest.fixture(scope="session")
def window(browser: Browser) -> Iterator[BrowserContext]:
    """A window for the tabs of most tests: to open one takes chromium as long as many a test."""
    context = browser.new_context(viewport=WIDE)
    context.new_page()  # holds it open
    yield context
    context.close()


@pytest.fixture
def visit(window: BrowserContext, server: Server) -> Iterator[Visit]:
    """A tab that is ready to open the page of the small archive; as `visiting`, but in a window of many."""
    visit = Visit.begin(window, server)
    yield visit
    visit.end()
    assert (visit.problems, visit.outside) == ([], [])


@pytest.fixture(scope="session")
def axe() -> str:
    """The program that looks for what people with other senses stumble over."""
    if not AXE.is_file():
        pytest.skip(f"{AXE} is missing (make page-tools)")
    return AXE.read_text("utf-8")
