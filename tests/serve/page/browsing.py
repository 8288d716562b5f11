"""A visit to the page with a real browser, and everything that went wrong during it."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, Request, expect

from serve.server_process import Server

expect.set_options(timeout=15_000)
PAGE = 60  # images of a page, unless the address says otherwise
_IDS = "ids => JSON.stringify([...document.querySelectorAll('.tile')].map(tile => tile.dataset.id)) === ids"
_VIOLATIONS = """
    addEventListener("securitypolicyviolation", event => console.error("policy: " + event.violatedDirective));
"""


@dataclass
class Visit:
    """One tab.

    Attributes:
        server: What is visited.
        page: The tab.
        problems: Errors of scripts, of the console and of the content policy, and dialogs.
        requests: Addresses of all requests.
    """

    server: Server
    page: Page
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @classmethod
    def begin(cls, context: BrowserContext, server: Server) -> "Visit":
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.add_init_script(_VIOLATIONS)
        visit = cls(server, page)
        page.on("pageerror", lambda error: visit.problems.append(str(error)))
        page.on("console", visit._heard)
        page.on("dialog", lambda dialog: (visit.problems.append(dialog.message), dialog.dismiss()))
        context.on("request", visit._requested)
        return visit

    def end(self) -> None:
        """Close the tab and those that were opened from it, and forget what the page has stored."""
        context = self.page.context
        everything = {"origin": self.server.url, "storageTypes": "all"}
        context.new_cdp_session(self.page).send("Storage.clearDataForOrigin", everything)
        context.remove_listener("request", self._requested)
        for page in [page for page in context.pages if page is self.page or page.url != "about:blank"]:
            page.close()

    @property
    def outside(self) -> list[str]:
        """Requests to others than the service."""
        return [url for url in self.requests if not url.startswith((self.server.url, "data:", "blob:"))]

    def _requested(self, request: Request) -> None:
        self.requests.append(request.url)

    def _heard(self, message: ConsoleMessage) -> None:
        # A refused request is a line of the console, too; what the page makes of it is tested by itself.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.problems.append(message.text)

    def open(self, parameters: Mapping[str, Any] | None = None) -> "Visit":
        """Load the page at a search, and wait until there is something to see."""
        query = f"?{urlencode(parameters, doseq=True)}" if parameters else ""
        self.page.goto(f"{self.server.url}/{query}")
        expect(self.page.locator(".tile, #problem h2, dialog[open]").first).to_be_visible()
        return self

    def shows(self, path: str, **parameters: Any) -> list[str]:
        """Wait until the images are those that the service gives for a question; returns their ids."""
        ids = [hit["id"] for hit in self.server.get(path, **{"limit": PAGE, **parameters})["hits"]]
        self.page.wait_for_function(_IDS, arg=json.dumps(ids, ensure_ascii=False, separators=(",", ":")))
        return ids

    def tile(self, at: int) -> Locator:
        return self.page.locator(".tile").nth(at)

    def role(self, role: Any, name: str | re.Pattern[str], exact: bool = False) -> Locator:
        return self.page.get_by_role(role, name=name, exact=exact)

    @property
    def asked(self) -> dict[str, list[str]]:
        """What stands in the address."""
        return parse_qs(urlsplit(self.page.url).query)

    def until_asked(self, true: Callable[[dict[str, list[str]]], bool]) -> None:
        """Wait for the address."""
        self.page.wait_for_url(lambda url: true(parse_qs(urlsplit(url).query)))

    @property
    def focused_id(self) -> str | None:
        """The image that has the focus."""
        found: str | None = self.page.evaluate("document.activeElement.closest('.tile')?.dataset.id ?? null")
        return found

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        found: int = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return found
