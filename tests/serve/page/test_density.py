"""How many images fit on the screen, and label names of any length."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from serve.page.browsing import Visit
from serve.page.conftest import Visiting
from serve.page.odd_archives import relabel
from serve.server_process import Server, until
from serve.server_thread import serving_in_a_thread
from serve.small_archive import copied_store

pytestmark = pytest.mark.browser
DESKTOP = {"width": 1440, "height": 900}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
FORTY = "aeronautical engineering test facilities"
_WHOLE = """() => [...document.querySelectorAll(".tile .frame")].filter(frame => {
    const box = frame.getBoundingClientRect();
    const head = document.querySelector(".top").getBoundingClientRect().bottom;
    return box.width > 0 && box.top >= head && box.left >= 0
        && box.bottom <= innerHeight && box.right <= innerWidth;
}).length"""


def whole_images(visit: Visit) -> int:
    """Images of which every pixel is visible."""
    found: int = visit.page.evaluate(_WHOLE)
    return found


def be_dense(visit: Visit) -> None:
    visit.role("button", "Dense").click()
    expect(visit.role("button", "Dense")).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("question", [{}, {"id": "images/000000.png"}, {"any": "tree"}])
def test_at_least_twenty_images_are_visible_in_dense_mode_on_a_desk(
    visiting: Visiting, server: Server, question: dict[str, str]
) -> None:
    visit = visiting(server, viewport=DESKTOP).open(question)
    assert whole_images(visit) >= 10  # five before there was a choice
    be_dense(visit)
    assert whole_images(visit) >= min(32, visit.page.locator(".tile").count())


def test_twenty_images_are_visible_beside_the_map(drawing_browser: Browser, server: Server) -> None:
    context = drawing_browser.new_context(viewport=DESKTOP)
    visit = Visit.begin(context, server).open()
    expect(visit.page.locator(".with-map")).to_be_visible()
    be_dense(visit)
    assert whole_images(visit) >= 20
    context.close()


@pytest.mark.parametrize("question", [{}, {"id": "images/000000.png"}, {"any": "tree"}])
def test_at_least_six_images_are_visible_in_dense_mode_on_a_phone(
    visiting: Visiting, server: Server, question: dict[str, str]
) -> None:
    visit = visiting(server, **PHONE).open(question)
    be_dense(visit)
    assert whole_images(visit) >= 6
    assert visit.overflow() <= 0


def test_the_size_of_tiles_is_chosen_with_a_slider_and_remembered(visit: Visit) -> None:
    visit.open()
    slider = visit.role("slider", "Size of the images")
    usual = visit.tile(0).locator(".frame").bounding_box()
    slider.fill("320")
    large = visit.tile(0).locator(".frame").bounding_box()
    assert usual is not None
    assert large is not None
    assert large["width"] > 1.5 * usual["width"]
    be_dense(visit)
    expect(slider).to_have_value("112")  # each mode has its own
    slider.press("Home")
    visit.page.reload()
    expect(visit.tile(0)).to_be_visible()
    expect(slider).to_have_value("96")
    expect(visit.page.locator("#grid.dense")).to_be_visible()
    small = visit.tile(0).locator(".frame").bounding_box()
    assert small is not None
    assert small["width"] < usual["width"]


def test_in_dense_mode_words_appear_when_a_tile_is_pointed_at_or_focused(visit: Visit) -> None:
    visit.open({"id": "images/000000.png"})
    visit.page.keyboard.press("d")
    words = visit.tile(1).locator(".tile-words")
    expect(words).to_be_hidden()
    visit.tile(1).hover()
    expect(words).to_be_visible()
    visit.page.mouse.move(0, 0)
    expect(words).to_be_hidden()
    visit.tile(0).locator("a").focus()
    visit.page.keyboard.press("ArrowRight")
    expect(words).to_be_visible()
    visit.page.keyboard.press("d")
    expect(visit.tile(2).locator(".tile-words")).to_be_visible()


@pytest.mark.parametrize("size", ["96", "112", "160"])
def test_everything_of_a_dense_tile_can_be_clicked_at_any_size(visit: Visit, size: str) -> None:
    visit.open({"any": "tree"})
    be_dense(visit)
    visit.role("slider", "Size of the images").fill(size)
    for name in ("Select ", "More like this", "Less like this", "Select "):
        visit.tile(3).get_by_role("button", name=name).click()
    expect(visit.page.locator("#selection")).to_be_hidden()
    expect(visit.tile(3).locator(".labels li").first).to_be_in_viewport(ratio=0.9)
    visit.tile(3).get_by_role("button", name="Details").click()
    expect(visit.page.get_by_role("dialog")).to_be_visible()


def test_something_else_in_storage_changes_nothing(visit: Visit) -> None:
    visit.open().page.evaluate('localStorage.setItem(\'marcir:tiles\', \'{"size": "x", "dense": 7}\')')
    visit.page.reload()
    expect(visit.tile(0)).to_be_visible()
    expect(visit.role("slider", "Size of the images")).to_have_value("160")


def test_a_label_name_of_forty_letters_is_shown_whole_beside_its_switches(
    visiting: Visiting,
    served_store: Path,
    served_images: Path,
    served_model: Path,
    served_cache: Path,
    tmp_path: Path,
) -> None:
    assert len(FORTY) == 40
    store = copied_store(served_store, tmp_path)
    relabel(store, "images/000001.png", FORTY, "tree")
    with serving_in_a_thread(store, served_images, served_model, served_cache) as odd:
        until(lambda: FORTY in odd.ask("/api/archive").body.decode(), "the service sees the label")
        visit = visiting(odd, viewport=DESKTOP).open()
        name = visit.page.locator(".filter-name", has_text=FORTY)
        cut = "name => [name.scrollWidth - name.clientWidth, name.scrollHeight - name.clientHeight]"
        assert name.evaluate(cut) == [0, 0]
        assert name.evaluate("name => getComputedStyle(name).textOverflow") == "clip"
        expect(visit.role("button", f"none: {FORTY}", exact=True)).to_be_visible()
        short = visit.page.locator(".filter-row", has=visit.role("group", "tree", exact=True)).bounding_box()
        assert short is not None
        assert short["height"] < 40  # one line


def test_a_label_name_of_forty_letters_can_be_read_on_a_tile(visit: Visit) -> None:
    visit.open()
    shown = visit.page.evaluate(
        """name => {
          const label = document.querySelector(".tile .labels li");
          label.replaceChildren(name);
          return [label.scrollWidth - label.clientWidth, label.scrollHeight - label.clientHeight];
        }""",
        FORTY,
    )
    assert shown == [0, 0]


def test_above_the_hits_are_two_lines_on_a_small_laptop(visiting: Visiting, server: Server) -> None:
    visit = visiting(server, viewport={"width": 1024, "height": 768}).open({"id": "images/000000.png"})
    toolbar = visit.page.locator("#toolbar").bounding_box()
    assert toolbar is not None
    assert toolbar["height"] < 100
    assert whole_images(visit) >= 6
    assert visit.overflow() <= 0
    legend = visit.page.locator(".legend")
    legend.locator("summary").click()
    expect(legend.get_by_text("none of the query's labels")).to_be_visible()
    visit.page.keyboard.press("Escape")
    expect(legend.get_by_text("none of the query's labels")).to_be_hidden()
    visit.page.locator(".shares summary").click()
    shares = server.get("/api/search", id="images/000000.png", limit=60)["label_shares"]
    expect(visit.page.locator(".shares li")).to_have_count(len(shares))


def test_on_a_phone_the_name_of_the_archive_and_all_actions_of_a_selection_are_visible(
    visiting: Visiting, editing_server: Server
) -> None:
    visit = visiting(editing_server, **PHONE).open({"id": "images/000000.png"})
    brand = "name => name.scrollWidth - name.clientWidth"
    assert visit.page.locator(".brand-name").evaluate(brand) <= 0
    expect(visit.page.locator("#archive-name")).to_be_in_viewport(ratio=1)
    top = visit.tile(0).locator(".frame").bounding_box()
    assert top is not None
    assert top["y"] < 430
    visit.tile(0).get_by_role("button", name="Select ").tap()
    buttons = visit.page.locator("#selection .selection-acts button:visible").all()
    assert len(buttons) == 3
    for button in buttons:
        expect(button).to_be_in_viewport(ratio=1)
    assert visit.overflow() <= 0
