"""What others wrote into an archive stays text, and a token keeps strangers out."""

import pytest
from playwright.sync_api import expect

from serve.page.browsing import Visit
from serve.page.conftest import Visiting
from serve.server_process import Server
from serve.small_archive import NASTY, NASTY_LABELS

pytestmark = pytest.mark.browser


def test_ids_of_all_kinds_are_shown_searched_with_and_opened(visit: Visit) -> None:
    for image in NASTY:
        visit.open({"id": image, "limit": 4})
        visit.shows("/api/search", id=image, limit=4)
        name = image.rsplit("/")[-1]
        assert visit.page.locator("#query h1").text_content() == f"Images like {name}"
        with visit.page.expect_response(lambda response: "/api/original" in response.url) as original:
            visit.page.locator("#query .query-picture").click()
        assert original.value.ok
        assert visit.page.locator("#detail .facts dd").first.text_content() == image
        assert visit.page.locator("main script, main b, dialog b").count() == 0


def test_labels_of_all_kinds_filter_and_search(visit: Visit) -> None:
    visit.open()
    known = {label["name"] for label in visit.server.get("/api/archive")["labels"]}
    assert known >= set(NASTY_LABELS[:5])
    for label in NASTY_LABELS[:3]:
        visit.role("group", label, exact=True).get_by_role(
            "button", name=f"none: {label}", exact=True
        ).click()
    visit.shows("/api/images", none=list(NASTY_LABELS[:3]))
    visit.open({"label": NASTY_LABELS[2], "any": NASTY_LABELS[2]})
    visit.shows("/api/search", label=NASTY_LABELS[2], any=NASTY_LABELS[2])
    expect(visit.page.locator("#query h1")).to_have_text(f"Images of {NASTY_LABELS[2]}")


def test_a_thumbnail_in_storage_cannot_bring_anything_but_an_image(visit: Visit) -> None:
    visit.open().page.set_input_files("#file", visit.server.images / NASTY[0])
    visit.until_asked(lambda asked: "vector" in asked)
    visit.page.evaluate(
        'key => sessionStorage.setItem(key, \'{"thumbnail": "javascript:alert(1)", "name": "<b>x</b>"}\')',
        f"marcir:picture:{visit.asked['vector'][0]}",
    )
    visit.page.reload()
    expect(visit.page.locator("#query h1")).to_have_text("Images like an uploaded image")
    assert visit.page.locator("#query b").count() == 0


def test_a_guarded_archive_asks_for_its_token_once(visiting: Visiting, guarded_server: Server) -> None:
    visit = visiting(guarded_server).open({"id": "images/000000.png"})
    dialog = visit.role("dialog", "This archive needs a token")
    assert visit.page.locator(".tile").count() == 0
    visit.page.keyboard.press("Escape")
    expect(dialog).to_be_visible()
    for _ in range(4):  # Chromium closes a dialog that refused to be closed before
        visit.page.keyboard.press("Escape")
        expect(dialog.get_by_label("Token")).to_be_focused()
    dialog.get_by_label("Token").fill("not the token")
    dialog.get_by_role("button").click()
    expect(dialog.get_by_role("alert")).to_contain_text("This is not the token.")
    dialog.get_by_label("Token").fill(guarded_server.token or "")
    dialog.get_by_label("Token").press("Enter")
    visit.shows("/api/search", id="images/000000.png")
    expect(dialog).to_be_hidden()
    seen = "image => image.complete && image.naturalWidth > 0"
    visit.page.locator("#query img").scroll_into_view_if_needed()
    visit.page.wait_for_function(f"() => ({seen})(document.querySelector('#query img'))")
    visit.page.reload()  # the cookie speaks for us from now on
    visit.shows("/api/search", id="images/000000.png")
    assert guarded_server.token not in visit.page.evaluate(
        "document.cookie + JSON.stringify({...localStorage}) + JSON.stringify({...sessionStorage})"
    )
