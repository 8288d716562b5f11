"""Waiting, failing, finding nothing: what the page says, and the way on."""

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Error, Route, expect

from serve.page.browsing import Visit
from serve.page.conftest import Visiting
from serve.page.odd_archives import LABELS, LONG, ONLY, crowded, keep_only, relabel
from serve.server_process import Server, until
from serve.server_thread import serving_in_a_thread

pytestmark = pytest.mark.browser
FIRST, SECOND = "images/000000.png", "images/000001.png"
SEARCH = re.compile("/api/search")


def failing(times: int, fail: Callable[[Route], None]) -> Callable[[Route], None]:
    """Lets some requests fail, and the later ones through."""
    seen: list[Route] = []

    def handle(route: Route) -> None:
        seen.append(route)
        if len(seen) <= times:
            fail(route)
        else:
            route.continue_()

    return handle


def refusing(status: int, sentence: str, **headers: str) -> Callable[[Route], None]:
    return lambda route: route.fulfill(status=status, json={"error": sentence}, headers=headers)


def test_a_busy_service_is_asked_again_when_it_says(visit: Visit) -> None:
    visit.page.route(SEARCH, failing(2, refusing(503, "busy", **{"Retry-After": "1"})))
    visit.page.goto(f"{visit.server.url}/?id={FIRST}")
    expect(visit.page.locator(".notice")).to_contain_text("The service is busy. Trying again in a second.")
    expect(visit.page.locator(".skeleton").first).to_be_visible()
    visit.shows("/api/search", id=FIRST)
    expect(visit.page.locator(".notice")).to_have_count(0)


def test_a_problem_of_the_service_is_shown_and_can_be_tried_again(visit: Visit) -> None:
    visit.page.route(SEARCH, failing(1, refusing(500, "something broke in here.")))
    visit.open({"id": FIRST})
    problem = visit.page.locator("#problem")
    expect(problem.get_by_role("heading")).to_have_text("The service has a problem")
    expect(problem).to_contain_text("something broke in here.")
    problem.get_by_role("button", name="Try again").click()
    visit.shows("/api/search", id=FIRST)
    expect(problem).to_be_hidden()


def test_a_service_that_is_gone_is_reported_even_at_the_beginning(visit: Visit) -> None:
    visit.page.route(re.compile("/api/archive"), failing(1, lambda route: route.abort()))
    visit.open()
    expect(visit.page.locator("#problem")).to_contain_text("The service does not answer.")
    visit.role("button", "Try again").click()
    visit.shows("/api/images")


def test_an_image_that_is_not_in_the_archive(visit: Visit) -> None:
    visit.open({"id": "no such.png"})
    _, sentence = visit.server.refusal("/api/search", id="no such.png")
    expect(visit.page.locator("#problem")).to_contain_text(sentence)
    visit.page.locator("#problem").get_by_role("button", name="New search").click()
    visit.shows("/api/images")
    assert visit.asked == {}


def test_a_late_answer_never_overwrites_a_newer_one(visit: Visit) -> None:
    held: list[Route] = []
    visit.open({"id": FIRST})
    ids = visit.shows("/api/search", id=FIRST)
    visit.page.route(
        lambda url: "/api/search" in url and quote(ids[0], "") in url, lambda route: held.append(route)
    )
    visit.tile(0).locator("a").click()
    expect(visit.page.locator(".skeleton").first).to_be_visible()
    visit.page.go_back()
    visit.shows("/api/search", id=FIRST)
    for route in held:
        with contextlib.suppress(Error):  # the page has let go of it
            route.continue_()
    visit.page.wait_for_load_state("networkidle")
    visit.shows("/api/search", id=FIRST)


def test_too_large_an_image_is_refused_before_it_travels(visit: Visit, tmp_path: Path) -> None:
    limit = visit.server.get("/api/archive")["max_upload_bytes"]
    with (tmp_path / "large.tif").open("wb") as file:
        file.truncate(limit + 1)
    visit.open().page.set_input_files("#file", tmp_path / "large.tif")
    expect(visit.role("alert", "")).to_contain_text("large.tif has 32 MB, and this service takes up to 32 MB")
    assert not any("/api/embed" in url for url in visit.requests)


def test_a_file_that_is_no_image_is_refused_with_the_sentence_of_the_service(
    visit: Visit, tmp_path: Path
) -> None:
    (tmp_path / "words.png").write_text("these are words")
    visit.open().page.set_input_files("#file", tmp_path / "words.png")
    sentence = visit.server.upload("/api/embed", b"these are words").error
    expect(visit.role("alert", "")).to_contain_text(sentence)
    with visit.page.expect_file_chooser():
        visit.role("button", "Choose another").click()
    visit.shows("/api/images")  # what was there is still there


def test_nothing_found_says_why_and_leads_on(visit: Visit) -> None:
    labels = [label["name"] for label in visit.server.get("/api/archive")["labels"]]
    visit.open({"id": FIRST, "all": labels, "min_similarity": 0.5})
    problem = visit.page.locator("#problem")
    expect(problem).to_contain_text("No image passes both the label filter and the threshold.")
    problem.get_by_role("button", name="Without the label filter").click()
    visit.shows("/api/search", id=FIRST, min_similarity=0.5)
    visit.open({"id": FIRST, "offset": 5000})
    problem.get_by_role("button", name="First page").click()
    visit.shows("/api/search", id=FIRST)


@pytest.fixture(scope="module")
def odd(served_model: Path, served_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service on an archive that the tests after this one change, in their order."""
    store, images = crowded(tmp_path_factory.mktemp("odd"), served_model)
    with serving_in_a_thread(store, images, served_model, served_cache) as running:
        yield running


def test_very_many_labels_and_very_long_names(visiting: Visiting, odd: Server) -> None:
    visit = visiting(odd, viewport={"width": 360, "height": 740}).open({"id": LONG})
    visit.shows("/api/search", id=LONG)
    assert visit.overflow() <= 0
    visit.page.locator("#query .query-picture").click()
    expect(visit.page.locator("#detail .labels li")).to_have_count(40)
    assert visit.overflow() <= 0
    visit.page.keyboard.press("Escape")
    visit.role("button", "Filters").click()
    expect(visit.page.locator(".filter-row:visible")).to_have_count(50)
    visit.role("button", f"Show all {len(LABELS)} labels").click()
    expect(visit.page.locator(".filter-row:visible")).to_have_count(len(LABELS))
    assert visit.page.locator("#drawer").evaluate("drawer => drawer.scrollWidth - drawer.clientWidth") <= 0


def test_a_label_that_is_new_since_the_page_was_opened_joins_the_filters(
    visiting: Visiting, odd: Server
) -> None:
    visit = visiting(odd).open()
    relabel(odd.store, ONLY, "brand new")
    until(lambda: "brand new" in odd.ask("/api/archive").body.decode(), "the service sees the change")
    visit.role("button", "none: label 001", exact=True).click()
    visit.role("searchbox", "Find a label").fill("brand")
    visit.role("button", "all: brand new", exact=True).click()
    assert visit.shows("/api/images", all="brand new") == [ONLY]


def test_an_archive_of_one_image_without_labels_and_of_none(visiting: Visiting, odd: Server) -> None:
    relabel(odd.store, ONLY)
    keep_only(odd.store, ONLY)
    until(lambda: odd.get("/api/archive")["images"] == 1, "the service sees the change")
    visit = visiting(odd).open()
    expect(visit.role("heading", "Search 1 image by what it shows")).to_be_visible()
    expect(visit.page.locator("#filters")).to_contain_text("No image of this archive has labels.")
    expect(visit.role("combobox", "Search by label")).to_be_hidden()
    visit.tile(0).get_by_role("button", name="Details").click()
    expect(visit.role("link", "Download original")).to_be_hidden()
    visit.role("button", "Search with this").click()
    expect(visit.page.locator("#problem")).to_contain_text("There is no other image to compare with.")
    keep_only(odd.store)
    until(lambda: odd.get("/api/archive")["images"] == 0, "the service sees the change")
    visit.open()
    expect(visit.page.locator("#problem")).to_contain_text("This archive has no images yet")
