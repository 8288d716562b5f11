"""More like these, less like those."""

import pytest
from playwright.sync_api import expect

from serve.page.browsing import Visit

pytestmark = pytest.mark.browser
FIRST = "images/000000.png"


def test_marked_hits_join_the_query_in_the_tray_and_are_searched_with(visit: Visit) -> None:
    visit.open({"id": FIRST, "none": "tree"})
    ids = visit.shows("/api/search", id=FIRST, none="tree")
    tray = visit.role("region", "Examples for the next search")
    expect(tray).to_be_hidden()
    visit.tile(1).get_by_role("button", name="More like this").click()
    visit.tile(3).get_by_role("button", name="Less like this").click()
    expect(tray.get_by_role("list", name="More like").get_by_role("listitem")).to_have_count(2)
    expect(tray.get_by_role("list", name="Less like").get_by_role("listitem")).to_have_count(1)
    expect(visit.tile(1).locator(".mark-word")).to_have_text("more like")
    expect(visit.tile(3).get_by_role("button", name="Less like this")).to_have_attribute(
        "aria-pressed", "true"
    )
    tray.get_by_role("button", name="Search with these").click()
    asked = {"like": [f"id:{FIRST}", f"id:{ids[1]}"], "unlike": [f"id:{ids[3]}"], "none": ["tree"]}
    found = visit.shows("/api/search", **asked)
    assert visit.asked == asked
    assert not {FIRST, ids[1], ids[3]} & set(found)
    expect(tray).to_be_hidden()  # what is searched is shown above the hits
    expect(visit.role("heading", "Images like 2 examples, unlike 1")).to_be_visible()
    visit.role("button", f"Remove {ids[1].rsplit('/')[-1]}").click()
    visit.shows("/api/search", like=f"id:{FIRST}", unlike=f"id:{ids[3]}", none="tree")


def test_examples_can_be_removed_and_cleared_and_brought_back(visit: Visit) -> None:
    visit.open()
    visit.shows("/api/images")
    tray = visit.role("region", "Examples for the next search")
    visit.tile(0).get_by_role("button", name="Less like this").click()
    expect(tray.get_by_role("button", name="Search with these")).to_be_disabled()
    expect(tray).to_contain_text("Mark at least one image as more like.")
    visit.tile(1).get_by_role("button", name="More like this").click()
    visit.tile(2).get_by_role("button", name="More like this").click()
    tray.get_by_role("list", name="More like").get_by_role("button").first.click()
    expect(tray.get_by_role("list", name="More like").get_by_role("listitem")).to_have_count(1)
    visit.role("combobox", "Order of the images").select_option("Random")
    visit.shows("/api/sample", seed=0)  # examples are gathered over several looks
    expect(tray).to_be_visible()
    tray.get_by_role("button", name="Clear").click()
    expect(tray).to_be_hidden()
    visit.role("button", "Undo").click()
    expect(tray.get_by_role("listitem")).to_have_count(2)


def test_an_uploaded_image_can_be_an_example(visit: Visit) -> None:
    visit.open().page.set_input_files("#file", visit.server.images / FIRST)
    visit.until_asked(lambda asked: "vector" in asked)
    (vector,) = visit.asked["vector"]
    ids = visit.shows("/api/search", vector=vector)
    visit.tile(4).get_by_role("button", name="Less like this").click()
    visit.role("button", "Search with these").click()
    visit.shows("/api/search", like=f"vector:{vector}", unlike=f"id:{ids[4]}")
    expect(visit.page.locator(".query-pictures img")).to_have_count(2)


def test_examples_survive_a_reload_until_the_tab_is_closed(visit: Visit) -> None:
    visit.open({"id": FIRST})
    ids = visit.shows("/api/search", id=FIRST)
    tray = visit.role("region", "Examples for the next search")
    visit.tile(1).get_by_role("button", name="More like this").click()
    visit.tile(3).get_by_role("button", name="Less like this").click()
    visit.page.reload()
    expect(tray.get_by_role("list", name="More like").get_by_role("listitem")).to_have_count(2)
    expect(visit.tile(3).locator(".mark-word")).to_have_text("less like")
    visit.page.keyboard.press("s")
    visit.shows("/api/search", like=[f"id:{FIRST}", f"id:{ids[1]}"], unlike=f"id:{ids[3]}")
    visit.page.reload()
    expect(visit.tile(0)).to_be_visible()
    expect(tray).to_be_hidden()
    visit.page.evaluate(
        'sessionStorage.setItem(\'marcir:examples\', \'{"like": [7, "javascript:x"], "unlike": []}\')'
    )
    visit.page.reload()
    expect(visit.tile(0)).to_be_visible()
    expect(tray).to_be_hidden()
