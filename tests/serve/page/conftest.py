"""Chromium and the page of a running service."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from serve.page.browsing import Visit
from serve.server_process import Server

AXE = Path(__file__).parents[3] / ".page-tools/node_modules/axe-core/axe.min.js"
Visiting = Callable[..., Visit]


@pytest.fixture
def visiting(browser: Browser) -> Iterator[Visiting]:
    """Begins visits; afterwards nothing may have gone wrong, and nobody else may have been asked."""
    visits: list[Visit] = []

    def begin(server: Server, **options: Any) -> Visit:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        visits.append(Visit.begin(context, server))
        return visits[-1]

    yield begin
    for visit in visits:
        visit.page.context.close()
    assert [problem for visit in visits for problem in visit.problems] == []
    for visit in visits:
        outside = [url for url in visit.requests if not url.startswith((visit.server.url, "data:", "blob:"))]
        assert outside == []


@pytest.fixture
def visit(visiting: Visiting, server: Server) -> Visit:
    """A tab that is ready to open the page of the small archive."""
    return visiting(server)


@pytest.fixture(scope="session")
def axe() -> str:
    """The program that looks for what people with other senses stumble over."""
    if not AXE.is_file():
        pytest.skip(f"{AXE} is missing (make page-tools)")
    return AXE.read_text("utf-8")
