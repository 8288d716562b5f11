"""The map of similarity: points, hover, lasso, and the same with the keyboard."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from marcir.search import Row
from marcir.search.embedding_map import updated_map
from marcir.search.lance import LanceStore
from serve.page.browsing import Visit
from serve.page.conftest import Visiting
from serve.page.test_looks import NARROW, findings
from serve.server_process import Server
from serve.server_thread import serving_in_a_thread
from serve.small_archive import DIM, copied_store

pytestmark = pytest.mark.browser
VIEW = {"view": "similarity"}


def canvas(visit: Visit) -> Locator:
    return visit.page.locator(".similarity-area canvas")


def open_map(visit: Visit, **more: Any) -> Visit:
    query = "&".join(f"{name}={value}" for name, value in {**VIEW, **more}.items())
    visit.page.goto(f"{visit.server.url}/?{query}")
    expect(visit.role("heading", re.compile(r"Map of similarity: \d+ image"))).to_be_visible()
    return visit


def points(server: Server, **filters: Any) -> tuple[np.ndarray, list[str]]:
    """Places of all points of the service, and their ids."""
    reply = server.ask("/api/map", filters)
    size = int(reply.headers["x-marcir-points"])
    places = np.frombuffer(reply.body, "<f4", 2 * size).reshape(2, size).T
    rows = np.frombuffer(reply.body, "<u4", size, 8 * size)
    found = server.get("/api/map/ids", version=reply.headers["x-marcir-version"], row=rows.tolist())
    return places, found["ids"]


def on_screen(visit: Visit, places: np.ndarray) -> np.ndarray:
    """Where points are in the window while everything is shown."""
    box = canvas(visit).bounding_box()
    assert box is not None
    scale = 0.46 * min(box["width"], box["height"])
    middle = np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])
    return middle + places * scale * (1, -1)


def lonely(screen: np.ndarray) -> int:
    """The point that is farthest from all others, so that a pointer can only mean it."""
    distances = np.linalg.norm(screen[:, None] - screen[None], axis=-1)
    np.fill_diagonal(distances, np.inf)
    return int(distances.min(axis=1).argmax())


def selected(visit: Visit) -> Locator:
    return visit.page.locator("#selection strong")


def test_pointing_at_a_point_shows_its_image_and_a_click_opens_it(visit: Visit) -> None:
    open_map(visit)
    places, ids = points(visit.server)
    screen = on_screen(visit, places)
    at = lonely(screen)
    visit.page.mouse.move(*screen[at])
    card = visit.page.locator(".similarity-card")
    expect(card).to_have_attribute("data-id", ids[at])
    expect(card.locator("img")).to_be_visible()
    visit.page.mouse.click(*screen[at])
    expect(visit.page.locator("#detail .facts")).to_contain_text(ids[at].strip())
    visit.page.keyboard.press("Escape")
    expect(canvas(visit)).to_be_visible()


def draw_lasso(visit: Visit, right: float | None = None) -> None:
    """Around everything, or around what is left of a place in the window."""
    visit.role("button", "Lasso").click()
    box = canvas(visit).bounding_box()
    assert box is not None
    top, bottom, left = box["y"] + 2, box["y"] + box["height"] - 2, box["x"] + 2
    right = box["x"] + box["width"] - 2 if right is None else right
    visit.page.mouse.move(left, top)
    visit.page.mouse.down()
    for place in ((right, top), (right, bottom), (left, bottom)):
        visit.page.mouse.move(*place, steps=3)
    visit.page.mouse.up()


def test_a_lasso_selects_what_is_inside(visit: Visit) -> None:
    open_map(visit)
    places, ids = points(visit.server)
    screen = on_screen(visit, places)
    middle = float(np.median(screen[:, 0]))
    draw_lasso(visit, middle)
    inside = [image for image, (x, _) in zip(ids, screen, strict=True) if x < middle]
    expect(selected(visit)).to_have_text(f"{len(inside)} selected")
    visit.role("button", "Clear the selection").click()
    expect(visit.page.locator("#selection")).to_be_hidden()


def test_a_lasso_selects_more_images_than_one_request_names(
    visiting: Visiting,
    served_store: Path,
    served_images: Path,
    served_model: Path,
    served_cache: Path,
    tmp_path: Path,
) -> None:
    store = copied_store(served_store, tmp_path)
    archive = LanceStore(store)
    vectors = np.random.default_rng(0).normal(size=(10_001, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    archive.add([Row(f"more/{place:05}.png", vector) for place, vector in enumerate(vectors)])
    made = updated_map(archive, None)
    assert made is not None
    archive.write_map(made)
    with serving_in_a_thread(store, served_images, served_model, served_cache) as server:
        visit = visiting(server)
        visit.page.goto(f"{server.url}/?view=similarity")
        expect(visit.role("heading", f"Map of similarity: {archive.count():,} images")).to_be_visible()
        draw_lasso(visit)
        expect(selected(visit)).to_have_text(f"{archive.count():,} selected")


def test_the_keyboard_selects_with_a_rectangle(visit: Visit) -> None:
    open_map(visit)
    canvas(visit).focus()
    visit.page.keyboard.press("r")
    for _ in range(60):  # until it holds the whole map
        visit.page.keyboard.press("Shift+ArrowRight")
        visit.page.keyboard.press("Shift+ArrowUp")
    visit.page.keyboard.press("Enter")
    _, ids = points(visit.server)
    expect(selected(visit)).to_have_text(f"{len(ids)} selected")
    visit.page.keyboard.press("Escape")  # the rectangle
    visit.page.keyboard.press("Escape")  # the selection
    expect(visit.page.locator("#selection")).to_be_hidden()


def test_the_keyboard_moves_and_zooms_and_shows_everything_again(visit: Visit) -> None:
    open_map(visit)
    canvas(visit).focus()
    visit.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    before = visit.page.evaluate("document.querySelector('.similarity-area canvas').toDataURL()")
    for key in ("+", "ArrowLeft", "ArrowUp"):
        visit.page.keyboard.press(key)
    visit.page.wait_for_function(
        "before => document.querySelector('.similarity-area canvas').toDataURL() !== before", arg=before
    )
    visit.page.keyboard.press("0")
    visit.page.wait_for_function(
        "before => document.querySelector('.similarity-area canvas').toDataURL() === before", arg=before
    )


def test_the_image_in_the_middle_is_opened_and_selected_with_the_keyboard(visit: Visit) -> None:
    open_map(visit)
    canvas(visit).focus()
    card = visit.page.locator(".similarity-card")
    moves = ["ArrowLeft", "ArrowUp", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft"]
    for key in moves * 3:  # somewhere there is an image
        visit.page.keyboard.press(key)
        visit.page.wait_for_timeout(100)
        if card.is_visible():
            break
    image = card.get_attribute("data-id")
    assert image is not None
    visit.page.keyboard.press(" ")
    expect(selected(visit)).to_have_text("1 selected")
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("#detail .facts")).to_contain_text(image.strip())


def test_the_map_follows_the_filters_and_colours_chosen_labels(visit: Visit) -> None:
    open_map(visit, all="tree")
    _, ids = points(visit.server, all="tree")
    expect(visit.role("heading", f"Map of similarity: {len(ids)} images")).to_be_visible()
    legend = visit.page.locator(".similarity-legend")
    expect(legend.get_by_role("button")).to_have_count(8)
    legend.get_by_role("button", name=re.compile("^tree ")).click()
    expect(legend.get_by_role("button")).to_have_count(7)
    visit.until_asked(lambda asked: len(asked["colour"]) == 7 and "tree" not in asked["colour"])
    legend.get_by_label("Colour another label").select_option("tree")
    expect(legend.get_by_role("button", name=f"tree {len(ids)} images: remove the colour")).to_be_visible()
    visit.page.go_back()
    expect(legend.get_by_role("button")).to_have_count(7)


def test_an_archive_that_changes_meanwhile_is_loaded_again(visit: Visit) -> None:
    open_map(visit)
    places, _ = points(visit.server)
    screen = on_screen(visit, places)
    visit.page.route(
        "**/api/map/ids*", lambda route: route.fulfill(status=409, json={"error": "the store has changed"})
    )
    with visit.page.expect_request(re.compile(r"/api/map\?")):
        visit.page.mouse.move(*screen[lonely(screen)])
    expect(visit.page.get_by_text("The archive has changed; the map was loaded again.")).to_be_visible()
    visit.page.unroute("**/api/map/ids*")


def test_without_a_canvas_the_page_says_so_and_works(visit: Visit) -> None:
    visit.page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
    visit.page.goto(f"{visit.server.url}/?view=similarity")
    expect(visit.page.get_by_text("This browser cannot draw the map (no canvas).")).to_be_visible()
    visit.role("link", "Images", exact=True).click()
    expect(visit.tile(0)).to_be_visible()


def test_points_are_drawn_in_light_and_dark(visit: Visit) -> None:
    open_map(visit)
    grounds = []
    for theme in ("light", "dark"):
        visit.page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        visit.page.wait_for_timeout(200)
        grounds.append(
            visit.page.evaluate(
                "[...document.querySelector('.similarity-area canvas').getContext('2d')"
                ".getImageData(2, 2, 1, 1).data]"
            )
        )
    assert grounds == [[255, 255, 255, 255], [23, 28, 30, 255]]


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_axe_finds_nothing_on_the_map_of_similarity(
    visiting: Visiting, server: Server, axe: str, width: str
) -> None:
    visit = visiting(server, **(NARROW if width == "narrow" else {}))
    visit.page.add_init_script(axe)
    open_map(visit)
    assert findings(visit) == []
    assert visit.overflow() <= 0


def test_points_that_arrive_before_the_size_of_the_map_is_known_are_drawn_later(visit: Visit) -> None:
    visit.page.add_init_script(
        """(() => {
          const held = [];
          let isHeld = true;
          const Observer = ResizeObserver;
          window.ResizeObserver = class extends Observer {
            constructor(act) {
              super((...given) => (isHeld ? held.push(() => act(...given)) : act(...given)));
            }
          };
          window.reportSizes = () => {
            isHeld = false;
            for (const act of held) act();
          };
        })()"""
    )
    open_map(visit)
    frames = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    visit.page.evaluate(frames)
    visit.page.evaluate("reportSizes()")
    visit.page.evaluate(frames)
    ground = "canvas => [...canvas.getContext('2d').getImageData(2, 2, 1, 1).data]"
    assert canvas(visit).evaluate(ground) == [255, 255, 255, 255]
