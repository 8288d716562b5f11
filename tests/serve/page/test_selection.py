"""Selecting images by mouse and by keyboard, and what a selection is for the service."""

import re

import pytest
from playwright.sync_api import Locator, Route, expect

from serve.page.browsing import Visit

pytestmark = pytest.mark.browser


@pytest.fixture
def listed(visit: Visit) -> Visit:
    """A tab with the list of all images."""
    visit.open()
    visit.shows("/api/images")
    return visit


def check(visit: Visit, at: int) -> Locator:
    return visit.tile(at).get_by_role("button", name="Select ")


def selected(visit: Visit) -> list[int]:
    """Places of the tiles that are shown as selected."""
    found: list[int] = visit.page.evaluate(
        "[...document.querySelectorAll('.tile')].flatMap((tile, at) => tile.hasAttribute('data-selected')"
        " && tile.querySelector('.check').ariaPressed === 'true' ? [at] : [])"
    )
    return found


def bar(visit: Visit) -> Locator:
    return visit.role("region", "Selected images")


def test_check_marks_select_and_shift_takes_all_between(listed: Visit) -> None:
    expect(bar(listed)).to_be_hidden()
    check(listed, 2).click()
    check(listed, 5).click(modifiers=["Shift"])
    assert selected(listed) == [2, 3, 4, 5]
    check(listed, 3).click(modifiers=["Shift"])  # a shorter range
    assert selected(listed) == [2, 3]
    check(listed, 7).click()
    listed.tile(9).locator("a").click(modifiers=["Shift"])  # the image itself, while some are selected
    assert selected(listed) == [2, 3, 7, 8, 9]
    check(listed, 8).click()
    assert selected(listed) == [2, 3, 7, 9]
    expect(bar(listed)).to_contain_text("4 selected")
    bar(listed).get_by_role("button", name="Clear the selection").click()
    assert selected(listed) == []
    expect(bar(listed)).to_be_hidden()


def test_keys_select_extend_take_all_and_clear(listed: Visit) -> None:
    press = listed.page.keyboard.press
    listed.tile(1).locator("a").focus()
    press("x")
    press("Shift+ArrowRight")
    press("Shift+ArrowRight")
    assert selected(listed) == [1, 2, 3]
    press("Shift+ArrowLeft")
    assert selected(listed) == [1, 2]
    press("ArrowRight")
    press("ArrowRight")
    press("x")
    assert selected(listed) == [1, 2, 4]
    press("Escape")
    assert selected(listed) == []
    press("Shift+ArrowRight")  # begins at the focused image
    assert selected(listed) == [4, 5]
    press("ControlOrMeta+a")
    assert len(selected(listed)) == listed.page.locator(".tile").count()
    press("Escape")
    expect(bar(listed)).to_be_hidden()
    press("/")
    press("ControlOrMeta+a")  # letters in a field
    assert selected(listed) == []


def test_escape_clears_the_selection_before_the_examples(listed: Visit) -> None:
    listed.tile(0).locator("a").focus()
    for key in ("+", "x", "Escape"):
        listed.page.keyboard.press(key)
    assert selected(listed) == []
    expect(listed.page.locator("#tray")).to_be_visible()
    listed.page.keyboard.press("Escape")
    expect(listed.page.locator("#tray")).to_be_hidden()


def test_a_selection_is_kept_over_pages_and_searches(visit: Visit) -> None:
    visit.open({"limit": 10})
    first = visit.shows("/api/images", limit=10)
    check(visit, 3).click()
    visit.page.keyboard.press("n")
    visit.shows("/api/images", limit=10, offset=10)
    check(visit, 0).click()
    check(visit, 1).click(modifiers=["Shift"])
    expect(bar(visit)).to_contain_text("3 selected")
    visit.page.go_back()
    visit.shows("/api/images", limit=10)
    assert selected(visit) == [3]
    visit.tile(0).locator("a").click()
    ids = visit.shows("/api/search", id=first[0], limit=10)
    assert selected(visit) == [at for at, each in enumerate(ids) if each == first[3]]
    expect(bar(visit)).to_contain_text("3 selected")


def test_all_that_pass_the_filters_are_selected_as_one_until_the_filters_change(visit: Visit) -> None:
    passing = visit.server.get("/api/labels", any="tree")["images"]
    visit.open({"any": "tree", "limit": 5})
    visit.shows("/api/images", any="tree", limit=5)
    check(visit, 0).click()
    bar(visit).get_by_role("button", name=f"Select all {passing} that pass the filters").click()
    expect(bar(visit)).to_contain_text(f"{passing} selected")
    assert selected(visit) == [0, 1, 2, 3, 4]
    visit.page.keyboard.press("n")
    visit.shows("/api/images", any="tree", limit=5, offset=5)
    assert selected(visit) == [0, 1, 2, 3, 4]
    check(visit, 1).click()  # then it is no longer all: the others of this page stay
    expect(bar(visit)).to_contain_text("4 selected")
    assert selected(visit) == [0, 2, 3, 4]
    bar(visit).get_by_role("button", name=f"Select all {passing} that pass the filters").click()
    visit.role("button", "any tree remove this filter", exact=True).click()
    visit.shows("/api/images", limit=5)
    expect(bar(visit)).to_be_hidden()


def test_more_like_these_searches_with_the_selected_images(listed: Visit) -> None:
    ids = listed.shows("/api/images")
    check(listed, 1).click()
    check(listed, 4).click()
    bar(listed).get_by_role("button", name="More like these").click()
    listed.shows("/api/search", like=[f"id:{ids[1]}", f"id:{ids[4]}"])
    expect(bar(listed)).to_be_hidden()
    listed.page.go_back()
    listed.shows("/api/images")
    check(listed, 0).click()
    bar(listed).get_by_role("button", name="Select all").click()
    bar(listed).get_by_role("button", name="More like these").click()
    expect(listed.page.locator(".notice")).to_contain_text("A search takes up to 50 images as examples.")


def test_a_service_that_allows_no_edits_offers_none(listed: Visit) -> None:
    check(listed, 0).click()
    expect(bar(listed).get_by_role("button", name="More like these")).to_be_visible()
    expect(bar(listed).get_by_role("button", name="Add to collection")).to_be_hidden()
    listed.page.keyboard.press("c")
    expect(listed.page.locator("dialog[open]")).to_have_count(0)
    expect(listed.page.locator("#collections")).to_be_hidden()


def test_all_that_pass_can_be_selected_once_they_are_counted(listed: Visit) -> None:
    passing = listed.server.get("/api/labels", any="tree")["images"]
    held: list[Route] = []
    check(listed, 0).click()
    button = bar(listed).get_by_role("button", name="Select all")
    expect(button).to_be_visible()
    listed.page.route(re.compile(r"/api/labels\?any=tree"), lambda route: held.append(route))
    listed.role("button", "any: tree", exact=True).click()
    listed.shows("/api/images", any="tree")
    expect(button).to_be_hidden()
    (route,) = held
    route.continue_()
    expect(button).to_have_text(f"Select all {passing} that pass the filters")
    button.click()
    expect(bar(listed)).to_contain_text(f"{passing} selected")
