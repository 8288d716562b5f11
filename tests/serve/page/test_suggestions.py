"""Suggestions of the page: images that probably have a label."""

import re

import pytest
from playwright.sync_api import Locator, Route, expect

from serve.page.browsing import Visit
from serve.page.conftest import Visiting
from serve.page.label_questions import give, until_stated
from serve.page.test_looks import NARROW, findings
from serve.server_process import Server

pytestmark = pytest.mark.browser
SCENES = [f"images/{number:06}.png" for number in range(40)]
LABEL = "Kran"
VIEW = {"view": "suggestions", "suggest": LABEL}


@pytest.fixture
def learned(editing_server: Server) -> Server:
    """A service on an archive in which 6 images have a label, and 6 have not."""
    give(editing_server, LABEL, "present", *SCENES[:6])
    give(editing_server, LABEL, "absent", *SCENES[6:12])
    return editing_server


def suggestion(visit: Visit, at: int) -> Locator:
    return visit.page.locator(".suggestion").nth(at)


def open_suggestions(visit: Visit, **more: str) -> list[str]:
    """Open the suggestions; returns the ids that are shown."""
    visit.page.goto(f"{visit.server.url}/?{'&'.join(f'{k}={v}' for k, v in {**VIEW, **more}.items())}")
    expect(suggestion(visit, 0)).to_be_visible()
    return [each.get_attribute("data-id") or "" for each in visit.page.locator(".suggestion").all()]


def test_suggestions_come_in_the_order_of_the_service_with_probability(
    visiting: Visiting, learned: Server
) -> None:
    visit = visiting(learned)
    for confident, order in (("false", "uncertain"), ("true", "confident")):
        shown = open_suggestions(visit, confident=confident)
        hits = learned.get("/api/suggestions", label=LABEL, order=order, limit=20)["hits"]
        assert shown == [hit["id"] for hit in hits]
        expect(suggestion(visit, 0)).to_contain_text(f"{round(100 * hits[0]['probability'])} %")
    expect(visit.page.get_by_text("Learned from 6 images with Kran and 6 without it")).to_be_visible()
    visit.role("button", "Uncertain first").click()
    visit.until_asked(lambda asked: "confident" not in asked)


def test_a_label_is_chosen_from_the_list(visiting: Visiting, learned: Server) -> None:
    visit = visiting(learned).open()
    visit.role("link", "Suggestions").click()
    expect(visit.page.get_by_text("Choose a label that some images have.")).to_be_visible()
    visit.page.get_by_label("Suggestions for").select_option(LABEL)
    expect(suggestion(visit, 0)).to_be_visible()
    assert visit.asked["suggest"] == [LABEL]
    visit.page.go_back()
    expect(visit.page.get_by_text("Choose a label that some images have.")).to_be_visible()
    visit.page.go_back()
    expect(visit.tile(0)).to_be_visible()


def test_keys_accept_reject_skip_and_undo(visiting: Visiting, learned: Server) -> None:
    visit = visiting(learned)
    shown = open_suggestions(visit)
    expect(suggestion(visit, 0).locator(".suggestion-link")).to_be_focused()  # nothing else has the focus
    for key, expected in (("a", {LABEL: "present"}), ("r", {LABEL: "absent"}), ("s", {})):
        image = visit.page.evaluate("document.activeElement.closest('.suggestion').dataset.id")
        visit.page.keyboard.press(key)
        until_stated(visit, image, expected)
    assert [suggestion(visit, at).get_attribute("data-answer") for at in range(4)] == [
        *("present", "absent", "skipped", "")
    ]
    visit.page.keyboard.press("ArrowRight")
    visit.page.keyboard.press("u")
    until_stated(visit, shown[1], {})
    until_stated(visit, shown[0], {LABEL: "present"})
    expect(visit.page.locator('.suggestion[data-answer="present"]')).to_have_count(0)  # learned again
    assert shown[2] not in [each.get_attribute("data-id") for each in visit.page.locator(".suggestion").all()]


def test_buttons_accept_and_reject(visiting: Visiting, learned: Server) -> None:
    visit = visiting(learned)
    shown = open_suggestions(visit)
    suggestion(visit, 0).get_by_role("button", name="Accept").click()
    suggestion(visit, 1).get_by_role("button", name="Reject").click()
    until_stated(visit, shown[0], {LABEL: "present"})
    until_stated(visit, shown[1], {LABEL: "absent"})
    visit.role("button", "Learn again").click()
    expect(visit.page.get_by_text("Learned from 7 images with Kran and 7 without it")).to_be_visible()


def test_answers_are_undone_with_a_button(visiting: Visiting, learned: Server) -> None:
    visit = visiting(learned, **NARROW)
    shown = open_suggestions(visit)
    button = visit.page.locator(".suggestions").get_by_role("button", name="Undo")
    expect(button).to_be_disabled()
    suggestion(visit, 0).get_by_role("button", name="Skip").tap()
    expect(button).to_be_enabled()
    button.tap()
    expect(suggestion(visit, 0)).to_have_attribute("data-answer", "")
    expect(button).to_be_disabled()
    suggestion(visit, 1).get_by_role("button", name="Accept").tap()
    until_stated(visit, shown[1], {LABEL: "present"})
    expect(button).to_be_enabled()
    button.focus()
    visit.page.keyboard.press("Enter")
    until_stated(visit, shown[1], {})
    expect(suggestion(visit, 1)).to_have_attribute("data-answer", "")
    expect(button).to_be_disabled()


def test_what_was_accepted_before_the_page_was_loaded_again_is_undone(
    visiting: Visiting, learned: Server
) -> None:
    visit = visiting(learned)
    open_suggestions(visit)
    found = learned.get("/api/suggestions/ids", label=LABEL, min_probability=0.5)["ids"]
    visit.page.get_by_label("Probability at least").fill("0.5")
    visit.page.get_by_label("Probability at least").press("Tab")
    visit.role("button", f"Accept all {len(found)}…").click()
    accept = visit.page.locator("#question").get_by_role("button", name="Accept")
    assert "danger" not in (accept.get_attribute("class") or "").split(), "nothing is deleted"
    accept.click()
    until_stated(visit, found[0], {LABEL: "present"})
    until_stated(visit, found[-1], {LABEL: "present"})
    give(learned, LABEL, "present", "images/000012.png")  # by somebody else
    visit.page.reload()
    expect(suggestion(visit, 0)).to_be_visible()
    visit.page.locator(".suggestions").get_by_role("button", name="Undo").click()
    until_stated(visit, found[0], {})
    until_stated(visit, found[-1], {})
    visit.page.reload()
    expect(suggestion(visit, 0)).to_be_visible()
    expect(visit.page.locator(".suggestions").get_by_role("button", name="Undo")).to_be_disabled()


def test_an_answer_that_is_saved_at_the_second_attempt_is_shown(visiting: Visiting, learned: Server) -> None:
    visit = visiting(learned)
    shown = open_suggestions(visit)
    visit.page.route(
        "**/api/labels", lambda route: route.fulfill(status=500, json={"error": "The disk is full."})
    )
    visit.page.keyboard.press("a")
    expect(visit.page.get_by_text("The disk is full.")).to_be_visible()
    expect(suggestion(visit, 0)).to_have_attribute("data-answer", "")
    visit.page.unroute("**/api/labels")
    visit.role("button", "Try again").click()
    expect(suggestion(visit, 0)).to_have_attribute("data-answer", "present")
    until_stated(visit, shown[0], {LABEL: "present"})


def test_all_above_a_probability_are_accepted_after_a_question(visiting: Visiting, learned: Server) -> None:
    visit = visiting(learned)
    open_suggestions(visit)
    hits = learned.get("/api/suggestions", label=LABEL, order="confident")["hits"]
    least = int(100 * hits[4]["probability"]) / 100
    ids = learned.get("/api/suggestions/ids", label=LABEL, min_probability=least)["ids"]
    assert len(ids) >= 5
    visit.page.get_by_label("Probability at least").fill(str(least))
    visit.page.get_by_label("Probability at least").press("Tab")
    button = visit.role("button", f"Accept all {len(ids)}…")
    button.click()
    question = visit.role("dialog", re.compile(f"Give {LABEL} to {len(ids)} image"))
    expect(question).to_contain_text(f"at least {least:.2f}")
    question.get_by_role("button", name="Cancel").click()
    until_stated(visit, ids[0], {})
    button.click()
    question.get_by_role("button", name=f"Accept {len(ids)}").click()
    expect(question).to_be_hidden()
    until_stated(visit, ids[-1], {LABEL: "present"})
    visit.page.locator(".notice").get_by_role("button", name="Undo").click()
    until_stated(visit, ids[0], {})


def test_the_curve_of_average_precision_has_its_numbers_in_words(visiting: Visiting, learned: Server) -> None:
    visit = visiting(learned)
    open_suggestions(visit)
    (score,) = learned.get("/api/suggestions/scores", label=LABEL)["scores"]
    curve = visit.role("img", re.compile("Average precision, cross-validated: "))
    words = curve.get_attribute("aria-label") or ""
    for point in score["curve"]:
        assert f"{point['average_precision']:.2f} with {point['labels']} labels" in words
    assert f"Random order: {score['chance']:.2f}" in words
    expect(visit.page.locator(".curve figcaption")).to_contain_text(f"AP {score['average_precision']:.2f}")


def test_a_label_that_no_image_has_says_what_to_do(visiting: Visiting, editing_server: Server) -> None:
    visit = visiting(editing_server)
    visit.page.goto(f"{editing_server.url}/?view=suggestions&suggest=nothing")
    reply = editing_server.ask("/api/suggestions", {"label": "nothing"})
    assert reply.status == 422
    expect(visit.page.locator(".suggestions-message")).to_have_text(reply.error)


def test_suggestions_follow_the_filters(visiting: Visiting, learned: Server) -> None:
    visit = visiting(learned)
    shown = open_suggestions(visit, all="tree")
    hits = learned.get("/api/suggestions", label=LABEL, limit=20, all="tree")["hits"]
    assert shown == [hit["id"] for hit in hits]
    visit.role("button", re.compile("tree.*remove this filter")).click()
    expect(visit.page.locator(".suggestion")).to_have_count(20)


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_axe_finds_nothing_in_suggestions(visiting: Visiting, learned: Server, axe: str, width: str) -> None:
    visit = visiting(learned, **(NARROW if width == "narrow" else {}))
    visit.page.add_init_script(axe)
    open_suggestions(visit)
    suggestion(visit, 0).get_by_role("button", name="Accept").click()
    expect(visit.page.locator(".curve")).to_be_visible()
    visit.page.evaluate("scrollTo(0, 0)")
    assert findings(visit) == []
    assert visit.overflow() <= 0


@pytest.mark.parametrize(("given", "used"), [("0", "0.01"), ("-3", "0.01"), ("7", "1"), ("", "0.9")])
def test_a_threshold_that_is_no_probability_is_corrected_where_it_was_typed(
    visiting: Visiting, learned: Server, given: str, used: str
) -> None:
    visit = visiting(learned)
    open_suggestions(visit)
    field = visit.page.get_by_label("Probability at least")
    field.fill("0.5")
    field.press("Tab")
    with visit.page.expect_response(re.compile(f"min_probability={used}&")):
        field.fill(given)
        field.press("Tab")
    expect(field).to_have_value(used)


def test_suggestions_of_which_none_is_uncertain_say_so(visiting: Visiting, learned: Server) -> None:
    visit = visiting(learned)

    def improbable(route: Route) -> None:
        content = route.fetch().json()
        for hit in content["hits"]:
            hit["probability"] = 0.04
        route.fulfill(json=content)

    visit.page.route(re.compile(r"/api/suggestions\?"), improbable)
    open_suggestions(visit)
    message = visit.page.locator(".suggestions-message")
    expect(message).to_have_text("None of these is near 50 %: try confident ones first, or another label.")
    visit.role("button", "Confident first").click()
    expect(message).to_be_empty()
    visit.page.unroute_all(behavior="ignoreErrors")


def test_the_answer_of_a_suggestion_lies_on_its_image(visiting: Visiting, learned: Server) -> None:
    visit = visiting(learned)
    open_suggestions(visit)
    suggestion(visit, 0).get_by_role("button", name="Accept").click()
    answer = suggestion(visit, 0).locator(".answered")
    expect(answer).to_have_text("accepted")
    inside, image = answer.bounding_box(), suggestion(visit, 0).locator(".frame").bounding_box()
    assert inside is not None
    assert image is not None
    assert image["y"] < inside["y"]
    assert inside["y"] + inside["height"] < image["y"] + image["height"]
