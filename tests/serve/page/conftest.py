"""Chromium and the page of a running service."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext

from serve.page.browsing import Visit
from serve.server_process import Server

AXE = Path(__file__).parents[3] / ".page-tools/node_modules/axe-core/axe.min.js"
WIDE = {"width": 1280, "height": 800}
Visiting = Callable[..., Visit]


@pytest.fixture
def visiting(browser: Browser) -> Iterator[Visiting]:
    """Begins visits, each of a person of its own; nothing may go wrong, and nobody else may be asked."""
    visits: list[Visit] = []

    def begin(server: Server, **options: Any) -> Visit:
        context = browser.new_context(**{"viewport": WIDE, **options})
        visits.append(Visit.begin(context, server))
        return visits[-1]

    yield begin
    for visit in visits:
        visit.page.context.close()
    assert [problem for visit in visits for problem in visit.problems] == []
    assert [url for visit in visits for url in visit.outside] == []


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
