"""Collections: keep images under a name, open, change, export and search with them."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from serve.page.browsing import Visit
from serve.page.conftest import Visiting
from serve.page.odd_archives import keep_only
from serve.server_process import Server, until
from serve.server_thread import serving_in_a_thread
from serve.small_archive import copied_store

pytestmark = pytest.mark.browser


def edit(server: Server, path: str, **content: Any) -> None:
    """A change by somebody else."""
    body = json.dumps(content).encode()
    reply = server.ask(path, method="POST", body=body, headers={"Content-Type": "application/json"})
    assert reply.status < 300, reply.body


def members(server: Server, name: str) -> list[str]:
    found = server.get("/api/collection", name=name, limit=200)["members"]
    return sorted(member["id"] for member in found)


def check(visit: Visit, at: int) -> Locator:
    return visit.tile(at).get_by_role("button", name="Select ")


def question(visit: Visit) -> Locator:
    return visit.page.locator("#question")


def row(visit: Visit, name: str) -> Locator:
    return visit.page.locator("#collections .collection-row", has_text=name)


@pytest.fixture
def visit(visiting: Visiting, editing_server: Server) -> Visit:
    """A tab with the list of all images, of a service that allows edits."""
    visit = visiting(editing_server).open()
    visit.shows("/api/images")
    return visit


def test_selected_images_are_kept_under_a_new_name_and_added_to_an_old_one(visit: Visit) -> None:
    ids = visit.shows("/api/images")
    check(visit, 1).click()
    check(visit, 3).click(modifiers=["Shift"])
    visit.role("button", "Add to collection").click()
    expect(question(visit)).to_contain_text("Add 3 images to a collection")
    question(visit).get_by_label("Name").fill(" Ships ")
    question(visit).get_by_role("button", name="Create and add").click()
    expect(visit.page.locator(".notice")).to_contain_text("3 images added to Ships.")
    expect(row(visit, "Ships")).to_contain_text("3")
    assert members(visit.server, "Ships") == sorted(ids[1:4])
    check(visit, 3).click()
    check(visit, 4).click()
    visit.role("button", "Add to collection").click()
    question(visit).get_by_role("button", name="Ships").click()
    expect(visit.page.get_by_text("1 image added to Ships; 4 are in it.")).to_be_visible()
    visit.role("button", "Show").last.click()
    visit.shows("/api/images", collection="Ships")
    assert visit.asked == {"collection": ["Ships"]}
    expect(visit.page.locator("#collection")).to_contain_text("4 images")


def test_the_same_by_keyboard(visit: Visit) -> None:
    ids = visit.shows("/api/images")
    press = visit.page.keyboard.press
    visit.tile(0).locator("a").focus()
    press("x")
    press("Shift+ArrowRight")
    press("c")
    expect(question(visit).get_by_label("Name")).to_be_focused()
    visit.page.keyboard.type("<b>Quay</b>")
    press("Enter")
    expect(row(visit, "<b>Quay</b>")).to_contain_text("2")
    assert members(visit.server, "<b>Quay</b>") == sorted(ids[:2])
    row(visit, "<b>Quay</b>").focus()
    press("Enter")
    visit.shows("/api/images", collection="<b>Quay</b>")
    visit.tile(0).locator("a").focus()
    press("x")
    press("c")
    press("Escape")
    expect(question(visit)).to_be_hidden()
    expect(visit.page.locator("#selection")).to_be_visible()  # the question is closed, nothing else


def test_all_that_pass_the_filters_become_a_collection(visit: Visit) -> None:
    expected = [hit["id"] for hit in visit.server.get("/api/images", any="tree", limit=200)["hits"]]
    visit.open({"any": "tree", "limit": 5})
    visit.shows("/api/images", any="tree", limit=5)
    check(visit, 0).click()
    visit.role("button", "Select all").click()
    visit.role("button", "Add to collection").click()
    question(visit).get_by_label("Name").fill("Trees")
    question(visit).get_by_label("Name").press("Enter")
    expect(row(visit, "Trees")).to_contain_text(str(len(expected)))
    assert members(visit.server, "Trees") == sorted(expected)


def test_members_are_removed_and_come_back(visit: Visit) -> None:
    ids = visit.shows("/api/images")[:5]
    edit(visit.server, "/api/collections", name="Five", ids=ids)
    visit.open({"collection": "Five"})
    visit.shows("/api/images", collection="Five")
    check(visit, 0).click()
    check(visit, 1).click()
    visit.role("button", "Remove from Five").click()
    expect(visit.page.locator(".tile")).to_have_count(3)
    assert members(visit.server, "Five") == sorted(ids[2:])
    expect(row(visit, "Five")).to_contain_text("3")
    expect(visit.page.locator("#collection")).to_contain_text("3 images")
    visit.role("button", "Undo").click()
    expect(visit.page.locator(".tile")).to_have_count(5)
    visit.tile(0).locator("a").focus()
    visit.page.keyboard.press("x")
    visit.role("button", "Select all 5 of the collection").click()
    visit.role("button", "Remove from Five").click()
    expect(question(visit)).to_contain_text("Remove 5 images from Five?")
    question(visit).get_by_role("button", name="Cancel").click()
    assert members(visit.server, "Five") == sorted(ids)
    visit.role("button", "Remove from Five").click()
    question(visit).get_by_role("button", name="Remove").click()
    expect(visit.page.locator("#problem")).to_contain_text("No image passes the filters.")
    assert members(visit.server, "Five") == []


def test_undo_of_a_removal_adds_what_was_removed_and_nothing_else(visit: Visit) -> None:
    ids = visit.shows("/api/images")
    edit(visit.server, "/api/collections", name="Three", ids=ids[1:4])
    visit.page.reload()
    for at in (0, 1):  # the first is not in the collection
        check(visit, at).click()
    row(visit, "Three").click()
    visit.shows("/api/images", collection="Three")
    visit.role("button", "Remove from Three").click()
    expect(visit.page.get_by_text("1 image removed from Three.")).to_be_visible()
    visit.role("button", "Undo").click()
    expect(visit.page.locator(".tile")).to_have_count(3)
    assert members(visit.server, "Three") == sorted(ids[1:4])


def test_a_collection_that_is_gone_is_named_and_left_with_one_click(visit: Visit) -> None:
    visit.open({"collection": "Gone"})
    problem = visit.page.locator("#problem")
    expect(problem.get_by_role("heading", name="Not found")).to_be_visible()
    expect(problem).to_contain_text("there is no collection 'Gone'.")
    expect(problem.locator("button")).to_have_text(["Without the collection"])
    expect(problem.locator(".primary")).to_have_text("Without the collection")


def test_a_collection_is_renamed_and_deleted_after_a_question(visit: Visit) -> None:
    ids = visit.shows("/api/images")[:2]
    edit(visit.server, "/api/collections", name="Old", ids=ids)
    edit(visit.server, "/api/collections", name="Taken", ids=ids)
    visit.open({"collection": "Old"})
    visit.role("button", "Rename").click()
    question(visit).get_by_label("Name").fill("Taken")
    question(visit).get_by_role("button", name="Rename").click()
    expect(visit.role("alert", "")).to_contain_text("Taken")
    visit.role("button", "Rename").click()
    expect(question(visit).get_by_label("Name")).to_be_focused()
    visit.page.keyboard.type("New")  # the old name is selected
    visit.page.keyboard.press("Enter")
    visit.until_asked(lambda asked: asked.get("collection") == ["New"])
    visit.shows("/api/images", collection="New")
    assert members(visit.server, "New") == sorted(ids)
    visit.role("button", "Delete").click()
    expect(question(visit)).to_contain_text("It lists 2 images. The images themselves stay in the archive.")
    expect(question(visit).get_by_role("button", name="Cancel")).to_be_focused()
    visit.page.keyboard.press("Enter")
    expect(question(visit)).to_be_hidden()
    assert members(visit.server, "New") == sorted(ids)
    visit.role("button", "Delete").click()
    question(visit).get_by_role("button", name="Delete").click()
    visit.shows("/api/images")
    assert [each["name"] for each in visit.server.get("/api/collections")["collections"]] == ["Taken"]
    expect(row(visit, "New")).to_have_count(0)


def test_a_collection_is_a_query_and_a_filter_beside_a_query(visit: Visit) -> None:
    ids = visit.shows("/api/images")
    edit(visit.server, "/api/collections", name="Some", ids=ids[:3])
    visit.open({"collection": "Some"})
    visit.role("button", "More like these").click()
    found = visit.shows("/api/search", like="collection:Some")
    assert not set(found) & set(ids[:3])
    expect(visit.role("heading", "Images like the collection Some")).to_be_visible()
    visit.open({"id": ids[5], "collection": "Some"})
    assert set(visit.shows("/api/search", id=ids[5], collection="Some")) == set(ids[:3])


def test_a_collection_is_exported_whole(visit: Visit, tmp_path: Path) -> None:
    ids = [each for each in visit.shows("/api/images") if each.startswith("images/")][:30]
    edit(visit.server, "/api/collections", name="Thirty", ids=ids)
    visit.open({"collection": "Thirty", "limit": 4})
    files = {}
    for words in ("CSV", "GeoJSON", "Paths, one per line"):
        visit.page.locator("#collection .menu summary").click()
        with visit.page.expect_download() as download:
            visit.role("link", words, exact=True).click()
        files[words] = tmp_path / download.value.suggested_filename
        download.value.save_as(files[words])
    with files["CSV"].open(newline="", encoding="utf-8-sig") as file:
        assert sorted(each["id"] for each in csv.DictReader(file)) == sorted(ids)
    assert json.loads(files["GeoJSON"].read_text())["type"] == "FeatureCollection"
    paths = files["Paths, one per line"].read_text()
    assert all(each in paths for each in ids)


def test_two_people_change_one_collection_and_nothing_is_lost(visit: Visit, visiting: Visiting) -> None:
    ids = visit.shows("/api/images")
    edit(visit.server, "/api/collections", name="Both", ids=ids[:1])
    other = visiting(visit.server).open()
    other.shows("/api/images")
    for tab, places in ((visit, (1, 2, 3)), (other, (3, 4, 5))):  # both have chosen before either sends
        for at in places:
            check(tab, at).click()
        tab.role("button", "Add to collection").click()
        expect(question(tab)).to_be_visible()
    for tab in (visit, other):
        question(tab).get_by_role("button", name="Both").click()
    expect(row(other, "Both")).to_contain_text("6")
    assert members(visit.server, "Both") == sorted(ids[:6])
    visit.open({"collection": "Both"})
    visit.shows("/api/images", collection="Both")
    edit(visit.server, "/api/collections/delete", name="Both")
    check(visit, 0).click()
    visit.role("button", "Remove from Both").click()
    expect(visit.role("alert", "")).to_contain_text("Both")
    visit.page.reload()
    expect(visit.page.locator("#problem")).to_contain_text("Both")
    visit.role("button", "Without the collection").click()
    visit.shows("/api/images")


def test_a_name_that_somebody_else_took_meanwhile_is_listed_and_the_selection_stays(
    visit: Visit, visiting: Visiting
) -> None:
    other = visiting(visit.server).open()
    ids = other.shows("/api/images")
    for tab, at in ((visit, 0), (other, 1)):  # both have asked for the names before either sends
        check(tab, at).click()
        tab.role("button", "Add to collection").click()
        question(tab).get_by_label("Name").fill("Quays")
    for tab in (visit, other):
        question(tab).get_by_role("button", name="Create and add").click()
        expect(row(tab, "Quays")).to_contain_text("1")
    expect(other.role("alert", "")).to_contain_text("Quays")
    expect(other.page.locator("#selection")).to_contain_text("1 selected")
    other.role("button", "Add to collection").click()
    question(other).get_by_role("button", name="Quays").click()
    expect(row(other, "Quays")).to_contain_text("2")
    assert members(visit.server, "Quays") == sorted(ids[:2])


def test_an_open_collection_is_counted_as_such_and_with_filters_as_what_passes(visit: Visit) -> None:
    ids = [hit["id"] for hit in visit.server.get("/api/images", any="tree", limit=3)["hits"]]
    edit(visit.server, "/api/collections", name="One", ids=ids[:1])
    edit(visit.server, "/api/collections", name="Three", ids=ids)
    places = visit.page.locator(".places")
    visit.open({"collection": "One"})
    expect(places).to_have_text("1 of 1 image of the collection")
    visit.open({"collection": "Three"})
    expect(places).to_have_text("1\u20133 of 3 images of the collection")
    visit.open({"collection": "One", "any": "tree"})
    expect(places).to_have_text("1 of 1 image that passes the filters")


def test_members_that_are_gone_are_counted_and_a_read_only_service_only_shows(
    visiting: Visiting,
    served_store: Path,
    served_images: Path,
    served_model: Path,
    served_cache: Path,
    tmp_path: Path,
) -> None:
    store = copied_store(served_store, tmp_path)
    given = (store, served_images, served_model, served_cache)
    beside = store.with_name(f"{store.name}.annotations.sqlite")
    with serving_in_a_thread(*given, edits=beside) as server:
        ids = [hit["id"] for hit in server.get("/api/images", limit=4)["hits"]]
        edit(server, "/api/collections", name="Four", ids=ids)
    keep_only(store, *ids[1:])
    with serving_in_a_thread(*given) as server:
        until(lambda: server.get("/api/archive")["images"] == 3, "the service sees the change")
        visit = visiting(server).open({"collection": "Four"})
        words = "4 images, of which 1 is no longer in the archive"
        expect(visit.page.locator("#collection")).to_contain_text(words)
        expect(visit.role("button", "More like these")).to_be_visible()
        for name in ("Rename", "Delete"):
            expect(visit.page.locator("#collection").get_by_role("button", name=name)).to_have_count(0)
        visit.role("button", "Which ones").click()
        expect(question(visit).locator("li")).to_have_text([ids[0]])
        expect(question(visit).get_by_role("button", name="Remove")).to_have_count(0)
        question(visit).get_by_role("button", name="Close").last.click()
        check(visit, 0).click()
        expect(visit.role("button", "Add to collection")).to_be_hidden()
        expect(visit.role("button", "Remove from Four")).to_be_hidden()
    with serving_in_a_thread(*given, edits=beside) as server:
        visit = visiting(server).open({"collection": "Four"})
        visit.role("button", "Which ones").click()
        question(visit).get_by_role("button", name="Remove 1").click()
        expect(visit.page.locator("#collection")).to_contain_text("3 images")
        assert members(server, "Four") == sorted(ids[1:])
