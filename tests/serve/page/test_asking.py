"""Ways to ask: an image of one's own, a hit, a label; and the address that holds the question."""

import base64
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from serve.page.browsing import Visit
from serve.page.conftest import Visiting
from serve.server_process import Server

pytestmark = pytest.mark.browser
FIRST, SECOND = "images/000000.png", "images/000001.png"
_FILES = """(target, [name, content, event]) => {
    const bytes = Uint8Array.from(atob(content), letter => letter.charCodeAt(0));
    const data = new DataTransfer();
    data.items.add(new File([bytes], name, { type: "image/png" }));
    const about = { bubbles: true, cancelable: true };
    target.dispatchEvent(event === "paste"
        ? new ClipboardEvent("paste", { ...about, clipboardData: data })
        : new DragEvent(event, { ...about, dataTransfer: data }));
}"""


def brought(visit: Visit, event: str, path: Path) -> None:
    """A file comes from outside of the page."""
    content = base64.b64encode(path.read_bytes()).decode()
    visit.page.locator("body").evaluate(_FILES, [path.name, content, event])


def is_searched_with(visit: Visit, image: str) -> None:
    """The page shows what the service finds for an uploaded image, and the image itself."""
    visit.until_asked(lambda asked: "vector" in asked)
    (vector,) = visit.asked["vector"]
    ids = visit.shows("/api/search", vector=vector)
    assert image in ids[:2]  # the archive holds the same pixels
    expect(visit.page.locator("#query img")).to_have_attribute("src", re.compile("^data:image/jpeg"))
    expect(visit.page).to_have_title(re.compile(f"^Images like {Path(image).name} · "))


def test_the_first_look_is_the_whole_archive_by_name_with_its_labels(visit: Visit) -> None:
    visit.open()
    assert (first := visit.shows("/api/images")) == sorted(first)
    archive = visit.server.get("/api/archive")
    expect(visit.role("heading", f"Search {archive['images']} images")).to_be_visible()
    for label in archive["labels"][:5]:
        chip = visit.page.locator("#welcome .chip", has=visit.page.get_by_text(label["name"], exact=True))
        expect(chip).to_contain_text(str(label["count"]))


def test_a_chosen_file_is_searched_with(visit: Visit) -> None:
    visit.open().page.set_input_files("#file", visit.server.images / FIRST)
    is_searched_with(visit, FIRST)


def test_a_pasted_image_is_searched_with(visit: Visit) -> None:
    visit.open()
    brought(visit, "paste", visit.server.images / FIRST)
    is_searched_with(visit, FIRST)


def test_a_dropped_image_is_searched_with_and_dragging_shows_where_it_may_fall(visit: Visit) -> None:
    visit.open()
    brought(visit, "dragenter", visit.server.images / FIRST)
    expect(visit.page.get_by_text("Drop to search with this image")).to_be_visible()
    brought(visit, "dragleave", visit.server.images / FIRST)
    expect(visit.page.get_by_text("Drop to search with this image")).to_be_hidden()
    brought(visit, "drop", visit.server.images / FIRST)
    is_searched_with(visit, FIRST)


def test_several_files_become_examples_of_one_search(visit: Visit) -> None:
    visit.open().page.set_input_files("#file", [visit.server.images / name for name in (FIRST, SECOND)])
    visit.until_asked(lambda asked: len(asked.get("like", [])) == 2)
    visit.shows("/api/search", like=visit.asked["like"])
    expect(visit.role("heading", "Images like 2 examples")).to_be_visible()


def test_a_shared_address_opens_the_same_search_elsewhere(visit: Visit, visiting: Visiting) -> None:
    visit.open({"none": "tree"}).page.set_input_files("#file", visit.server.images / FIRST)
    visit.until_asked(lambda asked: "vector" in asked)
    ids = visit.shows("/api/search", vector=visit.asked["vector"], none="tree")
    visit.page.reload()  # the tab still knows the thumbnail
    expect(visit.page.locator("#query img")).to_have_attribute("src", re.compile("^data:image/jpeg"))
    other = visiting(visit.server)
    other.page.goto(visit.page.url)
    assert other.shows("/api/search", vector=visit.asked["vector"], none="tree") == ids
    expect(other.role("heading", "Images like an uploaded image")).to_be_visible()


def test_clicking_through_hits_and_going_back(visit: Visit) -> None:
    visit.open({"id": FIRST})
    ids = visit.shows("/api/search", id=FIRST)
    visit.tile(2).locator("a").click()
    visit.shows("/api/search", id=ids[2])
    assert visit.asked == {"id": [ids[2]]}
    visit.page.go_back()
    visit.shows("/api/search", id=FIRST)
    expect(visit.page).to_have_title(re.compile("^Images like 000000.png · small archive"))
    visit.page.go_forward()
    visit.shows("/api/search", id=ids[2])


def test_a_hit_can_be_opened_in_a_tab_of_its_own(visit: Visit) -> None:
    visit.open()
    (first, *_) = visit.shows("/api/images")
    with visit.page.context.expect_page() as opened:
        visit.tile(0).locator("a").click(modifiers=["ControlOrMeta"])
    opened.value.wait_for_load_state()
    expect(opened.value.locator("#query")).to_be_visible()
    assert first.rsplit("/")[-1] in opened.value.title()


def test_searching_by_labels(visit: Visit) -> None:
    visit.open()
    one, two, *_ = [label["name"] for label in visit.server.get("/api/archive")["labels"]]
    visit.page.keyboard.press("/")
    field = visit.role("combobox", "Search by label")
    expect(field).to_be_focused()
    field.fill(one)
    expect(visit.role("option", one).first).to_have_attribute("aria-selected", "true")
    field.press("Enter")
    visit.shows("/api/search", label=one)
    field.fill(two)
    visit.role("option", re.compile(f"^{two}")).first.click()
    visit.shows("/api/search", label=[one, two])
    visit.role("button", f"Remove label {one}").click()
    visit.shows("/api/search", label=two)


def test_hits_show_similarity_shared_labels_and_agreement_in_words(visit: Visit, server: Server) -> None:
    visit.open({"id": FIRST})
    visit.shows("/api/search", id=FIRST)
    answer = server.get("/api/search", id=FIRST)
    wanted = answer["query"]["labels"]
    for at, hit in enumerate(answer["hits"]):
        tile = visit.tile(at)
        expect(tile.locator(".similarity .number")).to_have_text(f"{hit['similarity']:.3f}")
        assert len(hit["shared"]) == tile.locator(".shared .icon-check").count() or len(hit["labels"]) > 5
        level = "none" if not hit["shared"] else "all" if len(hit["shared"]) == len(wanted) else "some"
        if not hit["labelled"]:
            level = "open"
        style = {"all": "solid", "some": "dashed", "none": "dotted", "open": "double"}[level]
        expect(tile.locator(".frame")).to_have_css("border-top-style", style)
        words = {"all": f"all {len(wanted)} labels", "none": "no shared label", "open": "may share a label"}
        expect(tile.locator(".agreement")).to_have_text(
            words.get(level, f"{len(hit['shared'])} of {len(wanted)} labels")
        )
    expect(visit.page.locator(".legend")).to_contain_text("none of the query's labels")
