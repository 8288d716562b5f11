"""Unknown labels on the page: in hits and details, and in the filters."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from serve.page.browsing import Visit
from serve.page.conftest import Visiting
from serve.server_process import Server
from serve.server_thread import serving_in_a_thread
from serve.small_archive import NOT_LABELLED, PARTLY_KNOWN, write_labelled

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


def test_a_hit_that_may_share_a_label_is_neither_framed_as_none_nor_as_some(unknown_visit: Visit) -> None:
    visit = unknown_visit.open({"id": THIRD, "limit": 200})
    ids = visit.shows("/api/search", id=THIRD, limit=200)
    tile = visit.tile(ids.index(SECOND))
    expect(tile.locator(".agreement")).to_have_text("may share a label")
    expect(tile.locator(".frame")).to_have_css("border-top-style", "double")
    expect(visit.page.locator(".legend")).to_contain_text("may share a label")
    tile.get_by_role("button", name="Details").click()
    dialog = visit.page.get_by_role("dialog")
    expect(dialog.locator(".agreement")).to_have_text("may share a label")
    expect(dialog.locator(".facts")).to_contain_text("Agreementmay share a label: one that is unknown for")


def test_the_query_shows_its_unknown_labels_and_hits_are_compared_with_them(unknown_visit: Visit) -> None:
    visit = unknown_visit.open({"id": FIRST, "limit": 200})
    ids = visit.shows("/api/search", id=FIRST, limit=200)
    labels = visit.page.locator(".query-labels")
    expect(labels.locator("li")).to_have_text(["tree", "grass? (unknown)", "it's? (unknown)"])
    found = visit.server.get("/api/search", id=FIRST, limit=200)["hits"]
    grass = next(hit for hit in found if "grass" in hit["labels"] and "tree" not in hit["labels"])
    tile = visit.tile(ids.index(grass["id"]))
    expect(tile.locator(".agreement")).to_have_text("may share a label")
    none = next(hit for hit in found if not {"tree", "grass", "it's"} & {*hit["labels"], *hit["unknown"]})
    expect(visit.tile(ids.index(none["id"])).locator(".agreement")).to_have_text("no shared label")


def test_a_query_whose_labels_are_all_unknown_says_so(unknown_visit: Visit) -> None:
    visit = unknown_visit.open({"id": SECOND})
    visit.shows("/api/search", id=SECOND)
    expect(visit.page.locator("#query")).to_contain_text("No label is known to be present, so hits have")
    expect(visit.page.locator(".query-labels li")).to_have_text(["tree? (unknown)", "quay? (unknown)"])
    expect(visit.page.locator(".legend, .agreement")).to_have_count(0)


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
    expect(row.locator(".unknown-number")).to_have_text(f"{1 + len(NOT_LABELLED)}? unknown")
    row = visit.page.locator(".filter-row", has=visit.role("group", "quay", exact=True))
    expect(row.locator(".number")).to_have_text("0")


def test_an_archive_without_unknown_labels_has_no_switch(
    visiting: Visiting,
    served_store: Path,
    served_images: Path,
    served_model: Path,
    served_cache: Path,
    tmp_path: Path,
) -> None:
    store = write_labelled(tmp_path, served_store)
    with serving_in_a_thread(store, served_images, served_model, served_cache) as server:
        visit = visiting(server).open({"id": FIRST})
        assert_no_switch(visit)
        visit.page.close()


def assert_no_switch(visit: Visit) -> None:
    expect(visit.page.get_by_label(SWITCH)).to_be_hidden()
    expect(visit.page.locator(".unknown-number:visible, .labels .unknown")).to_have_count(0)
    expect(visit.page.locator(".legend")).not_to_contain_text("may share")
