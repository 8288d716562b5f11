"""Everything without a mouse."""

import pytest
from playwright.sync_api import expect

from serve.page.browsing import Visit

pytestmark = pytest.mark.browser
FIRST = "images/000000.png"


def test_arrows_move_over_the_images_in_two_dimensions(visit: Visit) -> None:
    visit.open({"id": FIRST})
    ids = visit.shows("/api/search", id=FIRST)
    tops = visit.page.evaluate("[...document.querySelectorAll('.tile')].map(tile => tile.offsetTop)")
    columns = tops.count(tops[0])
    assert 1 < columns < 12
    visit.tile(0).locator("a").focus()
    for key, at in (
        *(("ArrowRight", 1), ("ArrowDown", 1 + columns), ("ArrowLeft", columns), ("ArrowUp", 0)),
        *(("ArrowUp", 0), ("ArrowLeft", 0), ("End", len(ids) - 1), ("ArrowRight", len(ids) - 1), ("Home", 0)),
    ):
        visit.page.keyboard.press(key)
        assert visit.focused_id == ids[at], (key, at)
    assert visit.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_arrows_lead_to_the_images_from_anywhere(visit: Visit) -> None:
    visit.open()
    ids = visit.shows("/api/images")
    visit.page.keyboard.press("ArrowDown")
    assert visit.focused_id == ids[0]
    visit.page.keyboard.press("/")
    visit.page.keyboard.type("tre")
    visit.page.keyboard.press("Enter")
    ids = visit.shows("/api/search", label="tree")
    visit.page.wait_for_function("() => document.activeElement.matches('.tile-link')")
    visit.page.keyboard.press("ArrowRight")
    assert visit.focused_id == ids[1]


def test_keys_mark_and_search_and_open(visit: Visit) -> None:
    visit.open({"id": FIRST})
    ids = visit.shows("/api/search", id=FIRST)
    visit.tile(1).locator("a").focus()
    visit.page.keyboard.press("m")
    visit.page.keyboard.press("ArrowRight")
    visit.page.keyboard.press("-")
    visit.page.keyboard.press("o")
    expect(visit.page.get_by_role("dialog")).to_contain_text(ids[2])
    visit.page.keyboard.press("Escape")
    visit.page.keyboard.press("s")
    visit.shows("/api/search", like=[f"id:{FIRST}", f"id:{ids[1]}"], unlike=f"id:{ids[2]}")
    visit.tile(0).locator("a").focus()
    next_id = visit.focused_id
    visit.page.keyboard.press("Enter")
    visit.shows("/api/search", id=next_id)
    assert visit.focused_id is not None  # one can go on from the first hit


def test_escape_clears_the_examples_and_question_mark_tells_the_keys(visit: Visit) -> None:
    visit.open()
    visit.shows("/api/images")
    visit.tile(0).locator("a").focus()
    visit.page.keyboard.press("+")
    expect(visit.page.locator("#tray")).to_be_visible()
    visit.page.keyboard.press("?")
    help_dialog = visit.role("dialog", "Keyboard shortcuts")
    for words in ("more like the image", "suggestions: accept, reject, skip", "similarity map: a rectangle"):
        expect(help_dialog).to_contain_text(words)
    visit.page.keyboard.press("Escape")
    expect(help_dialog).to_be_hidden()
    expect(visit.page.locator("#tray")).to_be_visible()
    visit.page.keyboard.press("Escape")
    expect(visit.page.locator("#tray")).to_be_hidden()


def test_letters_typed_into_a_field_are_letters(visit: Visit) -> None:
    visit.open()
    visit.shows("/api/images")
    visit.page.keyboard.press("/")
    visit.page.keyboard.type("?moln")
    expect(visit.role("combobox", "Search by label")).to_have_value("?moln")
    expect(visit.role("option", "No label has this in its name")).to_be_visible()
    visit.page.keyboard.press("Escape")
    expect(visit.role("combobox", "Search by label")).to_have_value("")
