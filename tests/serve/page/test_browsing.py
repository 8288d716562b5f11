"""Everything that passes the filters, page by page, in several orders; and what the counts count."""

import re

import pytest
from playwright.sync_api import expect

from serve.page.browsing import Visit

pytestmark = pytest.mark.browser
ORDER = "Order of the images"


def sort_by(visit: Visit, order: str) -> None:
    visit.role("combobox", ORDER).focus()
    visit.role("combobox", ORDER).select_option(order)


def test_every_image_is_reached_page_by_page_and_back_returns_to_the_page(visit: Visit) -> None:
    visit.open({"limit": 20})
    total = visit.server.get("/api/archive")["images"]
    seen = visit.shows("/api/images", limit=20)
    expect(visit.page.locator(".places")).to_have_text(f"1\u201320 of {total} images")
    while visit.page.locator(".pager-next").is_enabled():
        visit.page.keyboard.press("n")
        seen += visit.shows("/api/images", limit=20, offset=len(seen))
    assert len(seen) == len(set(seen)) == total
    assert visit.asked == {"limit": ["20"], "offset": ["40"]}
    visit.page.go_back()
    visit.shows("/api/images", limit=20, offset=20)
    visit.page.reload()
    visit.shows("/api/images", limit=20, offset=20)


def test_images_are_sorted_by_name_and_date_in_both_orders(visit: Visit) -> None:
    visit.open()
    visit.shows("/api/images")
    for order, asked in (
        ("Name, Z to A", {"order": "desc"}),
        ("Newest first", {"sort": "date", "order": "desc"}),
        ("Oldest first", {"sort": "date"}),
    ):
        sort_by(visit, order)
        visit.shows("/api/images", **asked)
        assert visit.asked == {name: [value] for name, value in asked.items()}
        expect(visit.role("combobox", ORDER)).to_be_focused()
    sort_by(visit, "Name, A to Z")
    visit.shows("/api/images")
    assert visit.asked == {}


def test_a_random_order_can_be_drawn_again_and_shared(visit: Visit) -> None:
    visit.open({"limit": 8})
    sort_by(visit, "Random")
    first = visit.shows("/api/sample", seed=0, limit=8)
    total = visit.server.get("/api/archive")["images"]
    expect(visit.page.locator(".places")).to_have_text(f"8 of {total} images, at random")
    expect(visit.page.locator("#pager")).to_be_hidden()
    visit.role("button", "Other images").click()
    assert visit.shows("/api/sample", seed=1, limit=8) != first
    assert visit.asked == {"sort": ["random"], "seed": ["1"], "limit": ["8"]}
    visit.page.reload()
    visit.shows("/api/sample", seed=1, limit=8)
    visit.page.go_back()
    assert visit.shows("/api/sample", seed=0, limit=8) == first


def test_with_a_query_the_order_is_the_similarity_and_another_order_leaves_the_query(visit: Visit) -> None:
    visit.open({"id": "images/000000.png", "any": "tree"})
    visit.shows("/api/search", id="images/000000.png", any="tree")
    expect(visit.role("combobox", ORDER).locator("option:checked")).to_have_text("Most similar")
    sort_by(visit, "Newest first")
    visit.shows("/api/images", any="tree", sort="date", order="desc")
    expect(visit.page.locator("#query")).to_be_hidden()
    visit.page.go_back()
    visit.shows("/api/search", id="images/000000.png", any="tree")


def test_counts_say_what_they_count(visit: Visit) -> None:
    images = visit.server.get("/api/archive")["images"]
    tree = visit.server.get("/api/labels", all="tree")["images"]
    both = visit.server.get("/api/labels", all=["tree", "grass"])["images"]
    visit.open({"label": "tree"})
    expect(visit.page.locator("#carried")).to_contain_text(f"{tree} of {images} images carry tree.")
    visit.open({"label": ["tree", "grass"]})
    expect(visit.page.locator("#carried")).to_contain_text(f"{both} of {images} images carry tree and grass.")
    visit.open({"all": "tree", "limit": 5})
    expect(visit.page.locator(".places")).to_have_text(f"1\u20135 of {tree} images that pass the filters")
    expect(visit.page.locator("#filters")).to_contain_text(f"{tree} of {images} pass the filters")
    expect(visit.page.locator("#welcome")).to_be_hidden()


def test_a_list_without_images_says_why(visit: Visit) -> None:
    labels = [label["name"] for label in visit.server.get("/api/archive")["labels"]]
    visit.open({"all": labels})
    expect(visit.page.locator("#problem")).to_contain_text("No image passes the label filter.")
    visit.role("button", "Without the label filter").click()
    visit.shows("/api/images")
    visit.open({"offset": 5000})
    visit.role("button", "First page").click()
    visit.shows("/api/images")
    expect(visit.page).to_have_title(re.compile("small archive"))
