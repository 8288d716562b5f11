"""Labels that people give on the page: one image at a time, to a selection, in the details."""

import re

import pytest
from playwright.sync_api import Locator, expect

from serve.page.browsing import Visit
from serve.page.conftest import Visiting
from serve.page.label_questions import give, history_of, labels_of, until_stated
from serve.page.test_looks import NARROW, findings
from serve.server_process import Server

pytestmark = pytest.mark.browser
FIRST, SECOND = "images/000000.png", "images/000001.png"
ASKED = {"id": "images/000002.png"}


@pytest.fixture
def labelling(visiting: Visiting, editing_server: Server) -> Visit:
    """A tab in which the images of a search are labelled."""
    visit = visiting(editing_server).open(ASKED)
    visit.role("button", "Label images").click()
    expect(dialog(visit)).to_be_visible()
    expect(row(visit, 1)).to_have_attribute("data-state", re.compile("present|absent|unknown"))
    return visit


def dialog(visit: Visit) -> Locator:
    return visit.page.locator("#labelling")


def row(visit: Visit, key: int) -> Locator:
    return dialog(visit).locator(".label-row").nth(key - 1)


def shown_image(visit: Visit) -> str:
    return dialog(visit).locator(".detail-picture").get_attribute("data-id") or ""


def key_labels(visit: Visit) -> list[str]:
    return [each.get_attribute("data-label") or "" for each in dialog(visit).locator(".label-row").all()]


def add_key(visit: Visit, name: str) -> int:
    """Put a label on a key; returns the key."""
    dialog(visit).get_by_label("Label, known or new").fill(name)
    dialog(visit).get_by_role("button", name="Put on a key").click()
    return key_labels(visit).index(name) + 1


def test_keys_say_present_and_absent_and_take_it_back(labelling: Visit) -> None:
    image, names = shown_image(labelling), key_labels(labelling)
    press = labelling.page.keyboard.press
    press("1")
    expect(row(labelling, 1)).to_have_attribute("data-state", "present")
    press("Shift+Digit2")
    expect(row(labelling, 2)).to_have_attribute("data-state", "absent")
    until_stated(labelling, image, {names[0]: "present", names[1]: "absent"})
    press("0")
    until_stated(labelling, image, {})
    press("u")
    until_stated(labelling, image, {names[0]: "present", names[1]: "absent"})
    press("Control+z")
    until_stated(labelling, image, {names[0]: "present"})
    press("Backspace")
    until_stated(labelling, image, {})
    assert len(history_of(labelling.server, image)) == 8  # nothing is forgotten


def test_withdrawing_takes_back_labels_that_are_on_no_key_too(labelling: Visit) -> None:
    image, names = shown_image(labelling), key_labels(labelling)
    give(labelling.server, "Güterbahnhof", "present", image)
    labelling.page.keyboard.press("1")
    until_stated(labelling, image, {names[0]: "present", "Güterbahnhof": "present"})
    expect(dialog(labelling)).to_contain_text("Güterbahnhof")
    labelling.page.keyboard.press("Backspace")
    until_stated(labelling, image, {})


def test_undo_takes_back_the_steps_of_this_tab_alone(labelling: Visit) -> None:
    """Everybody is the same author to the service."""
    image, names, press = shown_image(labelling), key_labels(labelling), labelling.page.keyboard.press
    for key in (1, 2):
        press(str(key))
        until_stated(labelling, image, dict.fromkeys(names[:key], "present"))
    give(labelling.server, "Kran", "present", image)
    press("u")
    until_stated(labelling, image, {names[0]: "present", "Kran": "present"})
    press("u")
    until_stated(labelling, image, {"Kran": "present"})
    press("u")
    expect(labelling.page.get_by_text("There is nothing to undo").last).to_be_visible()
    assert labels_of(labelling.server, image) == {"Kran": "present"}


def test_a_step_that_somebody_else_undid_is_named_and_the_one_before_it_comes_next(labelling: Visit) -> None:
    image, names, press = shown_image(labelling), key_labels(labelling), labelling.page.keyboard.press
    for key in (1, 2):
        press(str(key))
        until_stated(labelling, image, dict.fromkeys(names[:key], "present"))
    labelling.server.change("/api/labels/undo", edit=2)
    press("u")
    expect(labelling.role("alert", "")).to_contain_text("edit 2: somebody undid it already.")
    expect(labelling.role("button", "Try again")).to_have_count(0)
    press("u")
    until_stated(labelling, image, {})


def test_arrows_go_through_the_images_of_the_search(labelling: Visit) -> None:
    hits = labelling.server.get("/api/search", **ASKED, limit=60)["hits"]
    assert shown_image(labelling) == hits[0]["id"]
    for at in (1, 2):
        labelling.page.keyboard.press("ArrowRight")
        expect(dialog(labelling).locator(".detail-picture")).to_have_attribute("data-id", hits[at]["id"])
    labelling.page.keyboard.press("ArrowLeft")
    expect(dialog(labelling).locator(".detail-picture")).to_have_attribute("data-id", hits[1]["id"])
    labelling.page.keyboard.press("Escape")
    expect(dialog(labelling)).to_be_hidden()


def test_the_next_page_of_the_search_follows(visiting: Visiting, editing_server: Server) -> None:
    visit = visiting(editing_server).open({**ASKED, "limit": 2})
    hits = editing_server.get("/api/search", **ASKED, limit=3)["hits"]
    visit.page.keyboard.press("t")
    picture = dialog(visit).locator(".detail-picture")
    for hit in hits:
        expect(picture).to_have_attribute("data-id", hit["id"])
        visit.page.keyboard.press("ArrowRight")


def test_a_new_label_goes_on_a_key_and_the_browser_keeps_it(labelling: Visit) -> None:
    image = shown_image(labelling)
    dialog(labelling).get_by_role("button", name=re.compile("off the keys")).first.click()
    key = add_key(labelling, "Güterbahnhof")
    row(labelling, key).get_by_role("button", name="Güterbahnhof: present").click()
    until_stated(labelling, image, {"Güterbahnhof": "present"})
    expect(row(labelling, key).locator(".label-origin")).to_have_text("page")
    labelling.page.reload()
    labelling.role("button", "Label images").click()
    expect(row(labelling, key)).to_have_attribute("data-label", "Güterbahnhof")


def test_the_three_states_differ_without_colour_and_say_that_unlabelled_is_unknown(labelling: Visit) -> None:
    press = labelling.page.keyboard.press
    press("1")
    press("Shift+Digit2")
    row(labelling, 3).get_by_role("button", name=": unknown").click()
    styles = labelling.page.evaluate(
        "[...document.querySelectorAll('#labelling .label-row')].slice(0, 3).map(row => {"
        " const name = getComputedStyle(row.querySelector('.label-name'));"
        " return [getComputedStyle(row).borderInlineStartStyle, name.fontStyle, name.textDecorationLine]; })"
    )
    assert styles == [
        ["solid", "normal", "none"],
        ["dashed", "normal", "line-through"],
        ["dotted", "italic", "none"],
    ]
    expect(dialog(labelling)).to_contain_text("What nobody has labelled is unknown, not absent.")


def test_labels_of_the_table_and_of_the_page_are_told_apart(
    visiting: Visiting, editing_server: Server
) -> None:
    carried = editing_server.get("/api/image", id=FIRST)["labels"]
    give(editing_server, carried[0], "absent", FIRST)
    give(editing_server, "Neubau", "present", FIRST)
    visit = visiting(editing_server).open({"id": SECOND, "detail": FIRST})
    detail = visit.page.locator("#detail .label-detail")
    expect(detail.locator(".label-row")).to_have_count(len(carried) + 1)
    origin = {
        each.get_attribute("data-label"): each.locator(".label-origin").inner_text()
        for each in detail.locator(".label-row").all()
    }
    assert origin[carried[0]] == "page; table: present"
    assert origin["Neubau"] == "page"
    assert all(origin[label] == "table" for label in carried[1:])
    detail.get_by_text("History").click()
    expect(detail.locator(".label-history li")).to_have_count(2)
    detail.get_by_role("button", name=f"{carried[0]}: withdraw").click()
    expect(detail.locator(f'[data-label="{carried[0]}"] .label-origin')).to_have_text("table")
    detail.get_by_label("Label, known or new").fill("Kran")
    detail.get_by_label("Label, known or new").press("Enter")
    expect(detail.locator('[data-label="Kran"]')).to_have_attribute("data-state", "present")
    assert labels_of(editing_server, FIRST) == {"Neubau": "present", "Kran": "present"}


@pytest.mark.parametrize(
    ("state", "stated"), [("present", "present"), ("absent", "absent"), ("unknown", "unknown")]
)
def test_a_selection_gets_a_label_with_the_keyboard(
    visiting: Visiting, editing_server: Server, state: str, stated: str
) -> None:
    visit = visiting(editing_server).open(ASKED)
    visit.tile(0).locator("a").focus()
    for key in ("x", "Shift+ArrowRight"):
        visit.page.keyboard.press(key)
    images = [visit.tile(at).get_attribute("data-id") or "" for at in (0, 1)]
    visit.role("button", "Label", exact=True).press("Enter")
    choice = visit.page.locator("#label-selection")
    choice.get_by_label(state, exact=True).check()
    choice.get_by_label("Label, known or new").fill("Kran")
    choice.get_by_label("Label, known or new").press("Enter")
    expect(choice).to_be_hidden()
    assert [labels_of(editing_server, image) for image in images] == [{"Kran": stated}] * 2
    visit.page.locator(".notice").get_by_role("button", name="Undo").click()
    expect(visit.page.get_by_text("Undone: 2 labels.").first).to_be_visible()
    assert [labels_of(editing_server, image) for image in images] == [{}, {}]


@pytest.mark.parametrize("status", [500, 401])
def test_a_selection_that_was_labelled_at_the_second_attempt_is_done(
    visiting: Visiting, editing_server: Server, status: int
) -> None:
    visit = visiting(editing_server).open(ASKED)
    visit.tile(0).locator("a").focus()
    visit.page.keyboard.press("x")
    image = visit.tile(0).get_attribute("data-id") or ""
    visit.page.route(
        "**/api/labels", lambda route: route.fulfill(status=status, json={"error": "The disk is full."})
    )
    visit.role("button", "Label", exact=True).click()
    choice = visit.page.locator("#label-selection")
    choice.get_by_label("Label, known or new").fill("Kran")
    choice.get_by_label("Label, known or new").press("Enter")
    again = visit.role("button", "Try again" if status == 500 else "Open the archive")
    expect(again).to_be_visible()
    visit.page.unroute("**/api/labels")
    if status == 401:
        visit.role("textbox", "Token").fill("any")
    with visit.page.expect_response(re.compile(r"/api/labels\?")):  # of the counts, the last that is asked
        again.click()
    expect(choice).to_be_hidden()
    expect(visit.tile(0).locator(".labels")).to_contain_text("Kran")
    expect(visit.page.get_by_text("Kran is present in 1 image.")).to_be_visible()
    assert labels_of(editing_server, image) == {"Kran": "present"}


def test_the_first_label_of_an_archive_appears_in_filters_and_on_tiles(
    visiting: Visiting, editing_server: Server
) -> None:
    visit = visiting(editing_server).open(ASKED)
    visit.page.keyboard.press("t")
    dialog(visit).get_by_role("button", name=re.compile("off the keys")).first.click()
    key = add_key(visit, "Kran")
    dialog(visit).locator("#labelling-name").focus()
    visit.page.keyboard.press(str(key))
    until_stated(visit, shown_image(visit), {"Kran": "present"})
    visit.page.keyboard.press("Escape")
    expect(visit.role("button", "any: Kran", exact=True)).to_be_visible()
    expect(visit.tile(0).locator(".labels")).to_contain_text("Kran")


def test_two_browsers_that_label_the_same_images_lose_nothing(
    visiting: Visiting, editing_server: Server
) -> None:
    visits = [visiting(editing_server).open(ASKED) for _ in range(2)]
    images: list[str] = []
    for visit, name in zip(visits, ("Kran", "Silo"), strict=True):
        visit.page.keyboard.press("t")
        dialog(visit).get_by_role("button", name=re.compile("off the keys")).first.click()
        add_key(visit, name)
        dialog(visit).locator("#labelling-name").focus()
    for _ in range(5):
        for visit, name in zip(visits, ("Kran", "Silo"), strict=True):
            visit.page.keyboard.press(str(key_labels(visit).index(name) + 1))
        images.append(shown_image(visits[0]))
        for visit in visits:
            before = shown_image(visit)
            visit.page.keyboard.press("ArrowRight")
            expect(dialog(visit).locator(".detail-picture")).not_to_have_attribute("data-id", before)
    assert len(set(images)) == 5
    for image in images:
        until_stated(visits[0], image, {"Kran": "present", "Silo": "present"})


def test_a_label_that_cannot_be_saved_is_named_and_shown_as_it_was(labelling: Visit) -> None:
    before = row(labelling, 1).get_attribute("data-state")
    labelling.page.route(
        "**/api/labels", lambda route: route.fulfill(status=500, json={"error": "The disk is full."})
    )
    labelling.page.keyboard.press("1" if before != "present" else "Shift+Digit1")
    expect(labelling.page.get_by_text("The disk is full.")).to_be_visible()
    expect(row(labelling, 1)).to_have_attribute("data-state", before or "")
    labelling.page.unroute("**/api/labels")
    labelling.role("button", "Try again").click()
    image, names = shown_image(labelling), key_labels(labelling)
    expected = "present" if before != "present" else "absent"
    until_stated(labelling, image, {names[0]: expected})
    expect(row(labelling, 1)).to_have_attribute("data-state", expected)


def test_a_service_that_allows_no_edits_shows_nothing_that_edits(visit: Visit) -> None:
    visit.open(ASKED)
    for name in ("Label images", "Suggestions", "Label"):
        expect(visit.role("button", name, exact=True)).to_have_count(0)
        expect(visit.role("link", name, exact=True)).to_have_count(0)
    visit.page.keyboard.press("t")
    expect(dialog(visit)).to_be_hidden()
    visit.tile(0).get_by_role("button", name="Details").click()
    expect(visit.page.locator("#detail .facts")).to_be_visible()
    expect(visit.page.locator("#detail .label-detail")).to_have_count(0)
    visit.open({"view": "suggestions", "suggest": "tree"})
    expect(visit.tile(0)).to_be_visible()


def test_the_commands_of_training_are_copied_and_the_table_is_downloaded(
    visiting: Visiting, editing_server: Server
) -> None:
    give(editing_server, "Kran", "present", FIRST)
    visit = visiting(editing_server, permissions=["clipboard-read", "clipboard-write"])
    visit.page.goto(f"{editing_server.url}/?view=suggestions")
    visit.role("button", "Train with these").click()
    retrain = visit.role("dialog", "Train with these labels")
    found = editing_server.get("/api/retrain")
    commands = found["commands"]
    expect(retrain).to_contain_text(found["note"])
    expect(retrain.locator("pre")).to_have_text([each["command"] for each in commands])
    retrain.get_by_role("button", name=f"Copy: {commands[0]['title']}").click()
    expect(retrain.get_by_text("Copied")).to_be_visible()
    assert visit.page.evaluate("navigator.clipboard.readText()") == commands[0]["command"]
    retrain.get_by_role("button", name="Copy all").click()
    expect(retrain.get_by_text("Copied")).to_have_count(2)
    copied = visit.page.evaluate("navigator.clipboard.readText()")
    assert copied.splitlines() == [each["command"] for each in commands]
    expect(retrain).to_contain_text(f"{found['labelled']} images have a known label.")
    with visit.page.expect_download() as saved:
        retrain.get_by_role("button", name="Download labels.csv").click()
    assert saved.value.suggested_filename == "labels.csv"
    assert "Kran" in saved.value.path().read_text("utf-8")


def test_on_a_phone_a_message_covers_no_row_of_the_keys(visiting: Visiting, editing_server: Server) -> None:
    visit = visiting(editing_server, **{**NARROW, "viewport": {"width": 390, "height": 844}}).open(ASKED)
    visit.role("button", "Label images").click()
    row(visit, 1).get_by_role("button", name=": present").tap()
    dialog(visit).get_by_role("button", name="Undo").first.tap()
    message = dialog(visit).locator(".notice").first
    expect(message).to_be_visible()
    for scrolled in (False, True):
        if scrolled:
            dialog(visit).locator(".labelling-help").scroll_into_view_if_needed()
        above = message.bounding_box()
        assert above is not None
        tops = visit.page.evaluate(
            "[...document.querySelectorAll('#labelling .label-row')].map(row => ["
            " row.getBoundingClientRect().top, row.closest('.detail-words').getBoundingClientRect().top"
            "]).map(([row, words]) => Math.max(row, words))"  # what lies above is scrolled away
        )
        assert above["y"] + above["height"] <= min(tops)
        assert above["y"] >= 0
    expect(dialog(visit).locator(".detail-picture")).to_be_in_viewport()


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_axe_finds_nothing_where_labels_are_given(
    visiting: Visiting, editing_server: Server, axe: str, width: str
) -> None:
    give(editing_server, "Kran", "absent", FIRST)
    visit = visiting(editing_server, **(NARROW if width == "narrow" else {}))
    visit.page.add_init_script(axe)
    visit.open({"id": SECOND, "limit": 4, "detail": FIRST})
    visit.page.locator("#detail .label-history summary").click()
    expect(visit.page.locator("#detail .label-history li")).to_have_count(1)
    assert findings(visit) == []
    visit.page.keyboard.press("Escape")
    visit.role("button", "Label images").click()
    expect(row(visit, 1)).to_have_attribute("data-state", re.compile("present|absent|unknown"))
    assert findings(visit) == []
    assert visit.overflow() <= 0
    visit.page.keyboard.press("Escape")
    visit.tile(0).locator("a").focus()
    visit.page.keyboard.press("x")
    visit.role("button", "Label", exact=True).click()
    assert findings(visit) == []
    visit.page.keyboard.press("Escape")
    visit.page.goto(f"{editing_server.url}/?view=suggestions")
    visit.role("button", "Train with these").click()
    expect(visit.page.locator("#retrain pre").first).to_be_visible()
    assert findings(visit) == []
    assert visit.overflow() <= 0


@pytest.mark.parametrize(
    ("table", "page", "label", "expected"),
    [
        (None, {}, "ship", ["unknown", "not labelled"]),
        (None, {"ship": "absent"}, "ship", ["absent", "page"]),
        ([], {}, "ship", ["absent", "table"]),
        (["dock"], {}, "ship", ["absent", "table"]),
        (["dock"], {}, "constructor", ["absent", "table"]),
    ],
)
def test_a_label_of_an_image_that_nobody_labelled_is_unknown(
    labelling: Visit, table: list[str] | None, page: dict[str, str], label: str, expected: list[str]
) -> None:
    image = {
        "labels": table or [],
        "unknown": [],
        "page_labels": page,
        "table_labels": {"labels": table or [], "unknown": [], "labelled": table is not None},
    }
    found = labelling.page.evaluate(
        """async ([image, label]) => {
          const { stateOf, originOf } = await import("/page/label-states.js");
          const state = stateOf(image, label, () => true);
          return [state, originOf(image, label, state).words];
        }""",
        [image, label],
    )
    assert found == expected


def test_many_labels_that_are_unknown_of_an_image_are_counted(
    visiting: Visiting, editing_server: Server
) -> None:
    names = [each["name"] for each in editing_server.get("/api/archive")["labels"][:3]]
    for name in names:
        give(editing_server, name, "unknown", FIRST)
    visit = visiting(editing_server).open()
    expect(visit.page.locator(f'.tile[data-id="{FIRST}"] .labels')).to_contain_text("3 unknown")


def test_labels_that_only_the_page_has_are_not_unknown_on_every_tile(
    visiting: Visiting, editing_server: Server
) -> None:
    for name in ("Kran", "Mole", "Silo"):
        give(editing_server, name, "present", FIRST)
    visit = visiting(editing_server).open()
    labelled, other = (visit.page.locator(f'.tile[data-id="{image}"]') for image in (FIRST, SECOND))
    expect(labelled).to_contain_text("Kran")
    expect(other).to_be_visible()
    expect(visit.page.locator(".tile .unknown")).to_have_count(0)
    visit.open({"id": FIRST, "limit": 200})  # which has them
    expect(other.locator(".labels")).to_contain_text("3 unknown")
    other.get_by_role("button", name="Details").click()
    expect(visit.page.locator("#detail .labels")).to_contain_text("Kran")


def test_a_key_that_is_pressed_before_the_next_image_is_known_labels_that_image(labelling: Visit) -> None:
    hits = [hit["id"] for hit in labelling.server.get("/api/search", **ASKED, limit=60)["hits"]]
    labelling.page.route(
        "**/api/image?*", lambda route: (labelling.page.wait_for_timeout(150), route.continue_())
    )
    name = key_labels(labelling)[0]
    for image in hits[1:4]:
        labelling.page.keyboard.press("ArrowRight")
        labelling.page.keyboard.press("1")
        until_stated(labelling, image, {name: "present"})


def test_images_that_leave_the_filter_when_they_are_labelled_make_no_gap(
    visiting: Visiting, editing_server: Server
) -> None:
    expected = [hit["id"] for hit in editing_server.get("/api/images", all="tree", limit=8)["hits"]]
    visit = visiting(editing_server).open({"all": "tree", "limit": 3})
    visit.page.keyboard.press("t")
    expect(row(visit, 1)).to_have_attribute("data-state", re.compile("present|absent|unknown"))
    key = key_labels(visit).index("tree") + 1
    for image in expected:
        expect(dialog(visit).locator(".detail-picture")).to_have_attribute("data-id", image)
        visit.page.keyboard.press(f"Shift+Digit{key}")
        until_stated(visit, image, {"tree": "absent"})
        visit.page.keyboard.press("ArrowRight")


@pytest.mark.parametrize("state", ["present", "absent", "unknown"])
def test_a_new_label_in_details_gets_its_state_in_one_step(
    visiting: Visiting, editing_server: Server, state: str
) -> None:
    visit = visiting(editing_server).open({"id": SECOND, "detail": FIRST})
    detail = visit.page.locator("#detail .label-detail")
    detail.get_by_label("Label, known or new").fill("Kran")
    detail.get_by_role("button", name=state, exact=True).click()
    expect(detail.locator('[data-label="Kran"]')).to_have_attribute("data-state", state)
    assert [(each["label"], each["state"]) for each in history_of(editing_server, FIRST)] == [("Kran", state)]


def test_back_closes_labelling_and_stays_in_the_search(visiting: Visiting, editing_server: Server) -> None:
    visit = visiting(editing_server).open()
    visit.shows("/api/images")
    visit.page.goto(f"{editing_server.url}/?id={ASKED['id']}")
    ids = visit.shows("/api/search", **ASKED)
    visit.role("button", "Label images").click()
    expect(dialog(visit)).to_be_visible()
    visit.page.go_back()
    expect(dialog(visit)).to_be_hidden()
    assert visit.asked == {"id": [ASKED["id"]]}
    visit.page.go_forward()
    expect(dialog(visit)).to_be_visible()
    for key in ("Escape", "t", "Escape", "t", "Escape"):  # faster than the history
        visit.page.keyboard.press(key)
    expect(dialog(visit)).to_be_hidden()
    visit.page.keyboard.press("t")
    expect(dialog(visit)).to_be_visible()
    visit.page.reload()
    visit.shows("/api/search", **ASKED)
    expect(dialog(visit)).to_be_hidden()
    visit.tile(1).locator("a").click()
    visit.shows("/api/search", id=ids[1])
    visit.page.go_back()
    visit.shows("/api/search", **ASKED)
    visit.page.go_back()
    visit.shows("/api/images")


def test_a_view_that_is_not_offered_is_named_and_the_images_are_current(visit: Visit) -> None:
    visit.open({"view": "suggestions", "suggest": "tree"})
    visit.shows("/api/images")
    expect(visit.page.get_by_text("Suggestions need marcir serve --allow-edits.")).to_be_visible()
    expect(visit.page.locator("#views [aria-current]")).to_have_attribute("aria-label", "Images")
    visit.page.locator("#views [aria-label='Similarity map']").click()
    expect(visit.page.locator("#views [aria-current]")).to_have_attribute("aria-label", "Similarity map")
    expect(visit.page.get_by_text("Suggestions need")).to_have_count(0)
