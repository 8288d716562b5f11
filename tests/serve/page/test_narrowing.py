"""Filters, threshold and pages."""

import re

import pytest
from playwright.sync_api import Locator, expect

from serve.page.browsing import Visit

pytestmark = pytest.mark.browser
FIRST = "images/000000.png"


def way(visit: Visit, label: str, which: str) -> Locator:
    """The button that puts a label into a filter."""
    return visit.role("group", label, exact=True).get_by_role("button", name=f"{which}: {label}", exact=True)


def has_counts(visit: Visit, **where: str) -> None:
    """The counts beside the labels are those of the service for a filter."""
    found = visit.server.get("/api/labels", **where)
    for label in found["labels"]:
        row = visit.page.locator(".filter-row", has=visit.role("group", label["name"], exact=True))
        expect(row.locator(".number")).to_have_text(str(label["count"]))
    expect(visit.page.locator("#filters")).to_contain_text(f"{found['images']} of ")


def test_labels_filter_as_any_all_and_none_with_counts_that_follow(visit: Visit) -> None:
    visit.open({"id": FIRST})
    one, two, three, *_ = [label["name"] for label in visit.server.get("/api/archive")["labels"]]
    way(visit, one, "any").click()
    visit.shows("/api/search", id=FIRST, any=one)
    has_counts(visit, any=one)
    expect(way(visit, one, "any")).to_have_attribute("aria-pressed", "true")
    way(visit, two, "all").click()
    way(visit, three, "none").click()
    visit.shows("/api/search", id=FIRST, any=one, all=two, none=three)
    has_counts(visit, any=one, all=two, none=three)
    assert visit.asked == {"id": [FIRST], "any": [one], "all": [two], "none": [three]}
    way(visit, one, "none").click()  # a label is in one filter at a time
    visit.shows("/api/search", id=FIRST, all=two, none=[three, one])
    visit.role("button", f"none {one} remove this filter", exact=True).click()
    visit.shows("/api/search", id=FIRST, all=two, none=three)
    way(visit, two, "all").click()  # a second time takes it off
    visit.shows("/api/search", id=FIRST, none=three)
    visit.role("button", "Clear", exact=True).click()
    visit.shows("/api/search", id=FIRST)
    visit.page.go_back()
    visit.shows("/api/search", id=FIRST, none=three)
    has_counts(visit, none=three)


def test_the_list_and_the_random_order_are_filtered_too(visit: Visit) -> None:
    visit.open()
    one = visit.server.get("/api/archive")["labels"][-1]["name"]
    way(visit, one, "all").click()
    visit.shows("/api/images", all=one)
    expect(visit.page.locator(".places")).to_contain_text(re.compile("images? that pass(es)? the filters"))
    visit.role("combobox", "Order of the images").select_option("Random")
    visit.shows("/api/sample", all=one, seed=0)


def test_a_label_is_found_among_many_by_some_of_its_letters(visit: Visit) -> None:
    visit.open()
    names = [label["name"] for label in visit.server.get("/api/archive")["labels"]]
    visit.role("searchbox", "Find a label").fill(names[3][:4].upper())
    shown = visit.page.locator(".filter-row:visible")
    expect(shown).to_have_count(sum(names[3][:4] in name for name in names))
    visit.role("searchbox", "Find a label").fill("no such")
    expect(visit.page.get_by_text("No label has this in its name.")).to_be_visible()


def test_the_filter_list_is_one_stop_of_the_tab_key_and_arrows_move_in_it(visit: Visit) -> None:
    visit.open()
    one, two, *_ = [label["name"] for label in visit.server.get("/api/archive")["labels"]]
    assert visit.page.locator(".filter-list [tabindex='0']").count() == 1
    way(visit, one, "any").focus()
    visit.page.keyboard.press("ArrowDown")
    visit.page.keyboard.press("ArrowRight")
    expect(way(visit, two, "all")).to_be_focused()
    visit.page.keyboard.press("Space")
    visit.shows("/api/images", all=two)
    expect(way(visit, two, "all")).to_be_focused()  # counts change, the focus stays


def test_the_threshold_hides_less_similar_images_and_is_one_step_back(visit: Visit) -> None:
    hits = visit.server.get("/api/search", id=FIRST, limit=200)["hits"]
    least = next(
        hundredth / 100
        for hundredth in range(2, 100)
        if 0 < sum(hit["similarity"] >= hundredth / 100 for hit in hits) < len(hits)
    )
    visit.open({"id": FIRST})
    visit.shows("/api/search", id=FIRST)
    slider = visit.role("slider", "Similarity at least")
    slider.fill(f"{least - 0.01:.2f}")
    visit.until_asked(lambda asked: "min_similarity" in asked)
    slider.press("ArrowRight")
    visit.until_asked(lambda asked: float(asked["min_similarity"][0]) == least)
    visit.shows("/api/search", id=FIRST, min_similarity=least)
    expect(visit.page.locator("output")).to_have_text(f"{least:.2f}")
    expect(slider).to_have_attribute("aria-valuetext", f"at least {least:.2f}")
    visit.page.go_back()
    visit.shows("/api/search", id=FIRST)
    expect(visit.page.locator("output")).to_have_text("off")


def test_pages_end_where_the_service_does(visit: Visit) -> None:
    about = {**visit.server.get("/api/archive"), "max_results": 30}
    visit.page.route("**/api/archive", lambda route: route.fulfill(json=about))
    visit.open({"id": FIRST, "limit": 24})
    expect(visit.role("button", "Next")).to_be_disabled()
    expect(visit.page.locator("#pager")).to_contain_text("This service shows the first 24 hits.")


def test_pages_go_forth_and_back_with_the_numbers_of_places(visit: Visit) -> None:
    total = visit.server.get("/api/search", id=FIRST)["total"]
    visit.open({"id": FIRST, "limit": 24})
    expect(visit.page.locator(".places")).to_have_text(f"1\u201324 of {total} images")
    visit.role("button", "Next 25\u201348").click()
    visit.shows("/api/search", id=FIRST, offset=24, limit=24)
    expect(visit.page.locator(".places")).to_have_text(f"25\u201348 of {total} images")
    expect(visit.tile(0).locator(".place")).to_have_text("25")
    visit.page.keyboard.press("n")
    visit.shows("/api/search", id=FIRST, offset=48, limit=24)
    expect(visit.role("button", "Next")).to_be_disabled()
    visit.page.keyboard.press("p")
    visit.shows("/api/search", id=FIRST, offset=24, limit=24)
    visit.page.go_back()
    visit.shows("/api/search", id=FIRST, offset=48, limit=24)
