"""Unknown labels on the page: in hits and details, and in the filters."""

import pytest
from playwright.sync_api import expect

from serve.page.browsing import Visit
from serve.page.conftest import Visiting
from serve.server_process import Server
from serve.small_archive import PARTLY_KNOWN

pytestmark = pytest.mark.browser
FIRST, SECOND, THIRD = PARTLY_KNOWN
SWITCH = "none: also where unknown"


@pytest.fixture
def unknown_visit(visiting: Visiting, unknown_server: Server) -> Visit:
    """A tab for an archive in which some labels are unknown."""
    return visiting(unknown_server)


def test_unknown_labels_have_a_question_mark_and_a_word_for_readers(unknown_visit: Visit) -> None:
    visit = unknown_visit.open({"id": THIRD, "limit": 200})
    ids = visit.shows("/api/search", id=THIRD, limit=200)
    tile = visit.tile(ids.index(FIRST))
    expect(tile.locator(".labels li")).to_have_count(3)
    unknown = tile.locator(".labels .unknown")
    expect(unknown).to_have_text(["grass? (unknown)", "it's? (unknown)"])
    expect(unknown.first).to_have_attribute("title", "Unknown whether the image has the label grass")
    expect(tile.locator(".agreement")).to_have_text("1 of 2 labels, 1 unknown")
    tile.get_by_role("button", name="Details").click()
    dialog = visit.page.get_by_role("dialog")
    expect(dialog.locator(".labels .unknown")).to_have_text(["grass? (unknown)", "it's? (unknown)"])
    expect(dialog).to_contain_text("without unknown ones")


def test_none_lets_unknown_labels_through_where_the_switch_is_on(unknown_visit: Visit) -> None:
    visit = unknown_visit.open({"id": THIRD, "none": "tree"})
    visit.shows("/api/search", id=THIRD, none="tree")
    switch = visit.page.get_by_label(SWITCH)
    expect(switch).not_to_be_checked()
    switch.check()
    visit.shows("/api/search", id=THIRD, none="tree", none_unknown_ok="true")
    assert visit.asked == {"id": [THIRD], "none": ["tree"], "none_unknown_ok": ["true"]}
    visit.role("button", "none or unknown tree remove this filter", exact=True).click()
    visit.shows("/api/search", id=THIRD)
    expect(switch).to_be_disabled()
    visit.page.go_back()
    expect(switch).to_be_checked()


def test_counts_show_for_how_many_images_a_label_is_unknown(unknown_visit: Visit) -> None:
    visit = unknown_visit.open()
    row = visit.page.locator(".filter-row", has=visit.role("group", "grass", exact=True))
    expect(row.locator(".unknown-number")).to_have_text("1? unknown")
    row = visit.page.locator(".filter-row", has=visit.role("group", "quay", exact=True))
    expect(row.locator(".number")).to_have_text("0")


def test_an_archive_without_unknown_labels_has_no_switch(visit: Visit) -> None:
    visit.open({"id": FIRST})
    expect(visit.page.get_by_label(SWITCH)).to_be_hidden()
    expect(visit.page.locator(".unknown-number:visible, .labels .unknown")).to_have_count(0)
