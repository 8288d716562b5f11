"""Narrow and wide, light and dark, and for people who see or move otherwise."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Route, expect

from serve.page.browsing import Visit
from serve.page.conftest import Visiting
from serve.server_process import Server

pytestmark = pytest.mark.browser
FIRST = "images/000000.png"
NARROW = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_FINDINGS = """rules => axe.run(document, { runOnly: rules }).then(found => JSON.stringify(
    found.violations.map(each => [each.id, each.nodes.map(node => node.html + node.failureSummary)])
))"""

# Of every name on a tile its parts: the text, how wide it is shown, and how wide it is.
_PARTS_OF_NAMES = """[...document.querySelectorAll('.tile-name')].map(name => [...name.children].map(part => {
    const text = document.createRange();
    text.selectNodeContents(part);
    return [part.textContent, part.getBoundingClientRect().width, text.getBoundingClientRect().width];
}))"""


def mark_some(visit: Visit) -> None:
    visit.tile(0).get_by_role("button", name="More like this").click()
    visit.tile(1).get_by_role("button", name="Less like this").click()


def open_detail(visit: Visit) -> None:
    visit.tile(0).get_by_role("button", name="Details").click()
    expect(visit.page.locator("#detail .facts")).to_be_visible()


def open_drawer(visit: Visit) -> None:
    visit.role("button", re.compile("^Filters")).click()


def search_nothing(visit: Visit) -> None:
    visit.open({"id": FIRST, "offset": 5000})


def search_badly(visit: Visit) -> None:
    visit.open({"id": "no such.png"})


def select_some(visit: Visit) -> None:
    visit.tile(0).get_by_role("button", name="Select ").click()
    visit.tile(2).get_by_role("button", name="Select ").click(modifiers=["Shift"])
    expect(visit.page.locator("#selection")).to_be_visible()


def be_dense(visit: Visit) -> None:
    visit.role("button", "Dense").click()
    visit.tile(2).locator("a").focus()


def press(key: str) -> Callable[[Visit], None]:
    return lambda visit: visit.page.keyboard.press(key)


QUESTION = {"id": FIRST, "any": "tree", "none": "sea", "min_similarity": 0.1}
WIDE_STATES: list[tuple[dict[str, object], Callable[[Visit], None] | None]] = [
    ({}, None),
    ({}, press("/")),
    (QUESTION, None),
    (QUESTION, mark_some),
    ({"like": f"id:{FIRST}", "unlike": "id:images/000003.png"}, None),
    ({"label": "tree"}, open_detail),
    ({}, press("?")),
    (QUESTION, select_some),
    ({}, search_nothing),
    ({}, search_badly),
    ({"any": "tree"}, be_dense),  # which is remembered
    (QUESTION, None),
]
NARROW_STATES: list[tuple[dict[str, object], Callable[[Visit], None] | None]] = [
    ({}, None),
    (QUESTION, mark_some),
    (QUESTION, open_drawer),
    (QUESTION, open_detail),
    (QUESTION, select_some),
    ({"any": "tree"}, be_dense),
]


def findings(visit: Visit) -> list[object]:
    """What axe finds in light and in dark, where only colours can differ."""
    found: list[object] = []
    for scheme, rules in (("light", _RULES), ("dark", ["color-contrast"])):
        visit.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found += [[scheme, *each] for each in json.loads(visit.page.evaluate(_FINDINGS, rules))]
    return found


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_axe_finds_nothing_in_any_state_in_light_and_dark(
    visiting: Visiting, server: Server, axe: str, width: str
) -> None:
    visit = visiting(server, **(NARROW if width == "narrow" else {}))
    visit.page.add_init_script(axe)
    for question, act in NARROW_STATES if width == "narrow" else WIDE_STATES:
        visit.open({**question, "limit": 8})  # a tile is like the next one
        if act is not None:
            act(visit)
        visit.page.evaluate("scrollTo(0, 0)")  # nothing half under the head of the page
        assert findings(visit) == [], (question, act)
        assert visit.overflow() <= 0, (question, act)


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_axe_finds_nothing_where_labels_are_unknown(
    visiting: Visiting, unknown_server: Server, axe: str, width: str
) -> None:
    visit = visiting(unknown_server, **(NARROW if width == "narrow" else {}))
    visit.page.add_init_script(axe)
    visit.open({"id": "images/000001.png", "limit": 24})
    assert findings(visit) == []
    assert visit.overflow() <= 0


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_axe_finds_nothing_around_collections(
    visiting: Visiting, editing_server: Server, axe: str, width: str
) -> None:
    visit = visiting(editing_server, **(NARROW if width == "narrow" else {}))
    visit.page.add_init_script(axe)
    visit.open({"limit": 8})
    select_some(visit)
    visit.role("button", "Add to collection").click()
    assert findings(visit) == []
    visit.page.get_by_label("Name").fill("A collection with a long name, of the second survey in the north")
    visit.page.keyboard.press("Enter")
    visit.role("button", "Show").click()
    expect(visit.page.locator("#collection")).to_contain_text("3 images")
    select_some(visit)
    assert findings(visit) == []
    assert visit.overflow() <= 0
    visit.role("button", "Delete").click()
    assert findings(visit) == []
    if width == "narrow":
        visit.page.keyboard.press("Escape")
        open_drawer(visit)
        assert findings(visit) == []


def test_a_guarded_archive_greets_accessibly(visiting: Visiting, guarded_server: Server, axe: str) -> None:
    visit = visiting(guarded_server)
    visit.page.add_init_script(axe)
    visit.open()
    assert findings(visit) == []


def test_on_a_narrow_screen_the_filters_are_in_a_drawer(visiting: Visiting, server: Server) -> None:
    visit = visiting(server, **NARROW).open({"id": FIRST})
    expect(visit.page.locator("#side")).to_be_hidden()
    open_drawer(visit)
    drawer = visit.role("dialog", "Filters")
    drawer.get_by_role("button", name="none: tree", exact=True).tap()
    visit.shows("/api/search", id=FIRST, none="tree")
    drawer.get_by_role("button", name="Show the images").tap()
    expect(drawer).to_be_hidden()
    expect(visit.role("button", "Filters (1)")).to_be_visible()
    small = visit.page.evaluate(
        "[...document.querySelectorAll('main button, main a, header button')]"
        ".map(each => each.getBoundingClientRect())"
        ".filter(box => box.width > 0 && (box.height < 32 || box.width < 32)).length"
    )
    assert small == 0
    assert visit.overflow() <= 0


@pytest.mark.parametrize("width", [1440, 1024])
def test_a_name_that_is_cut_has_an_ellipsis_and_its_end(
    visiting: Visiting, server: Server, width: int
) -> None:
    visit = visiting(server, viewport={"width": width, "height": 900})
    names = ["UCMerced/baseballdiamond04.jpg", "a/000001.png", "a/mmmmmmmmmmmm.jpg"]

    def named(route: Route) -> None:
        content = route.fetch().json()
        for hit, name in zip(content["hits"], names, strict=False):
            hit["id"] = name
        route.fulfill(json=content)

    visit.page.route(re.compile(r"/api/images\?"), named)
    visit.open()
    parts = visit.page.evaluate(_PARTS_OF_NAMES)
    (start, shown, whole), (end, end_shown, end_whole) = parts[0]
    assert start + end == "baseballdiamond04.jpg"
    assert whole > shown >= 24, "a letter and the ellipsis are visible"
    assert end_whole <= end_shown, "the end is whole"
    assert [part[0] for part in parts[1]] == ["000001.png"]
    assert [part[0] for part in parts[2]] == ["mmmmmmmmm", "mmm.jpg"]
    cut = "[...document.querySelectorAll('.tile-name')].filter(name => name.scrollWidth > name.clientWidth)"
    assert visit.page.evaluate(f"{cut}.length") == 0, "nothing is cut without an ellipsis"
    visit.page.unroute_all(behavior="ignoreErrors")


def test_the_theme_follows_the_system_until_the_switch_says_otherwise(
    visiting: Visiting, server: Server
) -> None:
    visit = visiting(server, color_scheme="dark").open()

    def ground() -> str:
        found: str = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return found

    dark = ground()
    visit.role("button", "Theme: auto").click()
    assert visit.role("button", "Theme: light").is_visible()
    light = ground()
    assert light != dark
    visit.page.reload()
    assert ground() == light
    visit.role("button", "Theme: light").click()
    assert ground() == dark
    visit.role("button", "Theme: dark").click()
    visit.page.emulate_media(color_scheme="light")
    assert ground() == light
