"""The map: where hits are, searching from it, filters by place and time."""

import json
import re
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Route, expect

from marcir.search.lance import LanceStore
from serve.page.browsing import Visit
from serve.page.conftest import Visiting
from serve.page.map_archive import ACROSS, STEP, corners, middle
from serve.page.map_visit import open_map
from serve.page.test_looks import NARROW, findings
from serve.server_process import Server, until
from serve.server_thread import serving_in_a_thread
from serve.small_archive import picture

pytestmark = pytest.mark.browser
QUERY, OTHER = 12, 7  # windows
ID = f"images/{QUERY:06}.png"
VIEW = "13.35,52.47,10.5"

EMPTY = (13.43, 52.47)  # a place beside all windows
BESIDE = (13.25, 52.47)  # another one, on the other side


def name(place: int) -> str:
    return f"images/{place:06}.png"


def on_map(visit: Visit) -> str | None:
    """The image whose tile is marked."""
    found = visit.page.locator(".tile.on-map")
    return found.first.get_attribute("data-id") if found.count() else None


def test_tiles_and_footprints_mark_each_other_and_a_click_searches(
    drawing: Visiting, places_server: Server
) -> None:
    visit = drawing(places_server)
    chart = open_map(visit, VIEW, id=ID, limit=60)
    visit.shows("/api/search", id=ID, limit=60)
    chart.hover(*middle(OTHER))
    until(lambda: on_map(visit) == name(OTHER), "the tile is marked")
    expect(visit.page.locator(".map-card")).to_contain_text(f"{OTHER:06}.png")
    corner = corners(OTHER)[1]  # a turned window: its corner is not that of its box
    chart.hover(*EMPTY)
    until(lambda: on_map(visit) is None, "no tile is marked")
    before = chart.pixels(corner)
    tile = visit.page.locator(f'.tile[data-id="{name(OTHER)}"]')
    tile.hover()
    until(lambda: (chart.pixels(corner) != before).any(), "the footprint is marked")
    visit.page.mouse.move(5, 5)
    until(lambda: (chart.pixels(corner) == before).all(), "the footprint is not marked")
    tile.locator("a").focus()
    until(lambda: (chart.pixels(corner) != before).any(), "the footprint is marked by the focus")
    visit.page.mouse.click(*chart.point(*middle(OTHER)))
    visit.shows("/api/search", id=name(OTHER), limit=60)
    assert "map" not in visit.asked  # the map follows the new images


def test_more_similar_images_have_other_colours_and_the_legend_says_which(
    drawing: Visiting, places_server: Server
) -> None:
    visit = drawing(places_server)
    chart = open_map(visit, VIEW, id=ID, limit=60)
    hits = [hit for hit in places_server.get("/api/search", id=ID, limit=60)["hits"] if hit["footprint"]]
    windows = [hit for hit in hits if hit["id"] != ACROSS]
    ends = [windows[0], windows[-1]]
    places = [middle(int(hit["id"][-10:-4])) for hit in ends]
    best, worst, ground = chart.pixels(*places, EMPTY)
    assert np.abs(best - worst).sum() > 60
    assert best.sum() < worst.sum() < ground.sum()  # the most similar is the darkest on a light ground
    legend = visit.page.locator(".map-legend")
    shown = [hit["similarity"] for hit in places_server.get("/api/search", id=ID, limit=60)["hits"]]
    expect(legend).to_contain_text(f"{min(shown):.3f}")
    expect(legend).to_contain_text(f"{max(shown):.3f}")


def test_of_several_dates_of_one_place_the_best_one_shows_its_colour(
    drawing: Visiting, places_server: Server, served_cache: Path, tmp_path: Path
) -> None:
    hits = places_server.get("/api/search", id=ID, limit=60)["hits"]
    best, worst = (next(hit["id"] for hit in some if hit["id"] != ACROSS) for some in (hits, hits[::-1]))
    store = Path(shutil.copytree(places_server.store, tmp_path / "dates.store"))
    archive = LanceStore(store)
    (above,) = archive.get([best])
    archive.add([replace(row, bbox=above.bbox, footprint=above.footprint) for row in archive.get([worst])])
    with serving_in_a_thread(store, places_server.images, places_server.model, served_cache) as server:
        visit = drawing(server)
        chart = open_map(visit, VIEW, id=ID, limit=60)
        visit.shows("/api/search", id=ID, limit=60)
        (found,) = chart.pixels(middle(int(best[-10:-4])))
        visit.page.close()
    legend = (0x44, 0x01, 0x54)  # of the highest similarity on a light ground
    assert np.abs(found - legend).max() < 40


def test_the_image_of_the_query_is_marked(drawing: Visiting, places_server: Server) -> None:
    visit = drawing(places_server)
    chart = open_map(visit, VIEW, id=ID, limit=60)
    visit.shows("/api/search", id=ID, limit=60)
    edge = tuple(np.mean(corners(QUERY)[:2], axis=0))
    until(lambda: np.abs(np.diff(chart.pixels(edge, EMPTY), axis=0)).max() > 60, "its outline is drawn")
    inside, ground = chart.pixels(middle(QUERY), EMPTY)
    assert (inside == ground).all()  # it is no hit


def test_a_box_that_is_drawn_or_typed_is_a_filter(drawing: Visiting, places_server: Server) -> None:
    visit = drawing(places_server)
    chart = open_map(visit, VIEW, id=ID)
    west, north = 13.30 + STEP / 2, 52.55 - STEP / 2
    visit.page.mouse.move(*chart.point(west, north))
    visit.page.keyboard.down("Shift")
    visit.page.mouse.down()
    visit.page.mouse.move(*chart.point(west + STEP, north - 2 * STEP), steps=3)
    visit.page.mouse.up()
    visit.page.keyboard.up("Shift")
    visit.until_asked(lambda asked: "bbox" in asked)
    drawn = visit.asked["bbox"][0]
    assert np.allclose(
        [float(part) for part in drawn.split(",")], [west, north - 2 * STEP, west + STEP, north], atol=1e-3
    )
    assert visit.asked["map"] == [VIEW]  # the view stays
    ids = visit.shows("/api/search", id=ID, bbox=drawn)
    assert set(ids) == {name(place) for place in (0, 1, 5, 6, 10, 11)}
    visit.role("button", re.compile("^box 13")).click()
    visit.shows("/api/search", id=ID)
    field = visit.page.get_by_label("Box", exact=True)
    field.fill("13.3, 52.5, 99")
    field.press("Enter")
    expect(visit.page.get_by_text("Not a box")).to_be_visible()
    assert "bbox" not in visit.asked
    field.fill("170, -20, -170, -10")
    field.press("Enter")
    assert visit.shows("/api/search", id=ID, bbox="170,-20,-170,-10") == [ACROSS]
    visit.page.go_back()
    visit.shows("/api/search", id=ID)
    expect(field).to_have_value("")
    visit.role("button", "This view").click()
    visit.until_asked(lambda asked: "bbox" in asked)
    west, south, east, north = (float(part) for part in visit.asked["bbox"][0].split(","))
    assert west < 13.30 < 13.40 < east
    assert south < 52.47 < north


def test_the_edge_of_a_box_is_seen_over_footprints(drawing: Visiting, places_server: Server) -> None:
    visit = drawing(places_server)
    west, north = middle(0)
    chart = open_map(visit, "13.35,52.47,12", bbox=f"{west},52.46,13.5,{north}")
    visit.shows("/api/images", bbox=f"{west},52.46,13.5,{north}")
    chart.wait()
    along = chart.pixels(*((west + step * STEP / 10, north) for step in range(1, 10)))
    beside = chart.pixels(*((west + step * STEP / 10, north - STEP / 4) for step in range(1, 10)))
    assert (np.abs(along - beside).sum(1) > 60).sum() > 2  # the halo between the dashes


def test_without_a_query_footprints_are_told_apart(drawing: Visiting, places_server: Server) -> None:
    visit = drawing(places_server)
    chart = open_map(visit, VIEW)
    visit.shows("/api/images")
    edge = tuple(np.mean([corners(OTHER)[1], corners(OTHER)[2]], axis=0))
    outline, inside, ground = chart.pixels(edge, middle(OTHER), EMPTY)
    assert np.abs(outline - inside).sum() > 60
    assert np.abs(ground - inside).sum() > 60


def test_an_area_is_taken_from_a_file(drawing: Visiting, places_server: Server, tmp_path: Path) -> None:
    visit = drawing(places_server)
    visit.page.on("filechooser", lambda _: None)  # or a dialog may open while nobody waits for one
    chart = open_map(visit, VIEW, id=ID)
    visit.shows("/api/search", id=ID)
    ring = [[13.3, 52.5], [13.3400000001, 52.5], [13.3, 52.55], [13.3, 52.5]]
    polygon = {"type": "Polygon", "coordinates": [ring]}
    long = np.random.default_rng(0).uniform(0, 1, (4000, 2)).tolist()

    def choose(name: str, content: object) -> None:
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
        button = visit.role("button", "Area from a file")
        button.focus()
        with visit.page.expect_file_chooser() as chooser:
            visit.page.keyboard.press("Enter")
        chooser.value.set_files(tmp_path / name)

    def is_refused(name: str, text: str) -> None:
        expect(visit.page.locator(".area-file .wrong")).to_contain_text(f"{name}: {text}")
        assert "within" not in visit.asked

    choose("text.geojson", "no")
    is_refused("text.geojson", "not GeoJSON, because it is no JSON.")
    choose("point.geojson", {"type": "Point", "coordinates": [1, 2]})
    is_refused("point.geojson", "within: a 'Point' has no area. Give polygons.")
    choose("list.json", [1])
    is_refused("list.json", "within: not GeoJSON")
    choose("long.geojson", {"type": "Polygon", "coordinates": [[*long, long[0]]]})
    is_refused("long.geojson", "the area takes 1")
    feature = {"type": "Feature", "properties": {"name": "x"}, "geometry": polygon}
    choose("area.geojson", {"type": "FeatureCollection", "features": [feature]})
    visit.until_asked(lambda asked: "within" in asked)
    ring[1] = [13.34, 52.5]
    assert json.loads(visit.asked["within"][0]) == polygon
    expect(visit.page.locator(".area-file .wrong")).to_be_empty()
    assert ID not in visit.shows("/api/search", id=ID, within=json.dumps(polygon))
    edge, ground = chart.pixels((13.3, 52.549), (13.29, 52.549))
    assert np.abs(edge - ground).sum() > 30  # it is drawn
    visit.role("button", "within an area").click()
    visit.shows("/api/search", id=ID)


def test_a_point_on_the_ground_is_a_query(drawing: Visiting, places_server: Server) -> None:
    visit = drawing(places_server)
    chart = open_map(visit, VIEW)
    visit.page.keyboard.down("Control")
    visit.page.mouse.click(*chart.point(*middle(OTHER)))
    visit.page.keyboard.up("Control")
    visit.until_asked(lambda asked: "at" in asked)
    at = visit.asked["at"][0]
    assert np.allclose([float(part) for part in at.split(",")], middle(OTHER), atol=1e-3)
    visit.shows("/api/search", id=name(OTHER))
    expect(visit.page.locator("#query h1")).to_contain_text("Images like the one at 13.3")
    expect(visit.page.locator("#query .query-picture")).to_have_attribute("title", name(OTHER))
    visit.tile(0).get_by_role("button", name="Less like this").click()
    expect(visit.page.locator("#tray .tray-like li")).to_have_attribute("title", name(OTHER))
    visit.page.keyboard.press("Escape")
    visit.open({"at": "0,0"})
    expect(visit.page.locator("#problem")).to_contain_text("no image of the store shows 0,0.")


def test_the_address_keeps_the_view(drawing: Visiting, places_server: Server) -> None:
    visit = drawing(places_server)
    chart = open_map(visit, VIEW, id=ID)
    x, y = chart.point(*EMPTY)
    visit.page.mouse.move(x, y)
    visit.page.mouse.down()
    visit.page.mouse.move(x - 100, y, steps=4)
    visit.page.mouse.move(x - 100, y + 1, steps=2)
    visit.page.mouse.up()
    visit.until_asked(lambda asked: asked["map"] != [VIEW])
    moved = visit.asked["map"]
    assert abs(float(moved[0].split(",")[0]) - (13.35 + 100 * 360 / 512 / 2**10.5)) < 0.01
    visit.tile(0).locator("a").click()
    visit.until_asked(lambda asked: "map" not in asked)
    visit.page.go_back()
    visit.until_asked(lambda asked: asked.get("map") == moved)
    visit.shows("/api/search", id=ID)
    visit.page.reload()
    visit.shows("/api/search", id=ID)
    chart.wait()
    assert visit.asked["map"] == moved
    expect(visit.page.locator(".map-where")).to_contain_text(f"centre {moved[0].split(',')[0]}")


def test_the_address_keeps_the_view_of_the_mouse_wheel(drawing: Visiting, places_server: Server) -> None:
    visit = drawing(places_server)
    chart = open_map(visit, VIEW, id=ID)
    visit.page.mouse.move(*chart.point(*EMPTY))
    visit.page.mouse.wheel(0, -300)
    # How far one turn goes depends on how fast the map is drawn.
    visit.until_asked(lambda asked: float(asked["map"][0].split(",")[2]) > 10.1)
    chart.wait()
    kept = visit.asked["map"]
    visit.page.reload()
    visit.shows("/api/search", id=ID)
    chart.wait()
    expect(visit.page.locator(".map-where")).to_contain_text(f"centre {kept[0].split(',')[0]}")


def test_a_view_in_the_address_that_is_none_leaves_the_map_where_the_hits_are(
    drawing: Visiting, places_server: Server
) -> None:
    visit = drawing(places_server)
    visit.open({"id": ID, "bbox": "170,-25,-170,-10", "map": "999,99,zz"})
    expect(visit.page.locator(".map-where")).to_have_text(re.compile(r"centre -?180\.0"))


def test_the_map_without_a_mouse(drawing: Visiting, places_server: Server) -> None:
    visit = drawing(places_server)
    open_map(visit, VIEW, id=ID)
    visit.page.keyboard.press("g")
    expect(visit.page.locator(".map-canvas canvas")).to_be_focused()
    visit.page.keyboard.press("ArrowRight")
    visit.until_asked(lambda asked: float(asked["map"][0].split(",")[0]) > 13.36)
    visit.page.keyboard.press("+")
    visit.until_asked(lambda asked: asked["map"][0].endswith(",11.50"))
    visit.open({"map": f"{middle(OTHER)[0]},{middle(OTHER)[1]},13"})
    visit.role("button", "Search here").press("Enter")
    expect(visit.page.locator(".map-where")).to_contain_text("Enter takes the centre")
    visit.page.keyboard.press("Escape")
    expect(visit.role("button", "Search here")).to_have_attribute("aria-pressed", "false")
    visit.role("button", "Search here").press("Enter")
    expect(visit.page.locator(".map-canvas canvas")).to_be_focused()
    visit.page.keyboard.press("Enter")
    visit.until_asked(lambda asked: "at" in asked)
    visit.shows("/api/search", id=name(OTHER))
    visit.role("separator", "Width of the map").press("ArrowLeft")
    expect(visit.role("separator", "Width of the map")).to_have_attribute("aria-valuenow", "35")
    visit.page.keyboard.press("g")
    expect(visit.page.locator("#map-panel")).to_be_hidden()
    visit.page.reload()
    expect(visit.page.locator(".tile").first).to_be_visible()
    expect(visit.page.locator("#map-panel")).to_be_hidden()  # the choice is kept


def test_dates_narrow_by_fields_and_by_a_slider(visiting: Visiting, places_server: Server) -> None:
    visit = visiting(places_server).open({"id": ID})
    visit.page.get_by_label("From", exact=True).fill("2021-01-01")
    visit.shows("/api/search", id=ID, **{"from": "2021-01-01"})
    visit.page.get_by_label("To", exact=True).fill("2021-06-30")
    visit.shows("/api/search", id=ID, **{"from": "2021-01-01", "to": "2021-06-30"})
    slider = visit.role("slider", "Earliest date")
    expect(slider).to_have_attribute("aria-valuetext", "2021-01-01")
    slider.press("Home")
    visit.shows("/api/search", id=ID, to="2021-06-30")
    visit.role("button", "until 2021-06-30").click()
    visit.shows("/api/search", id=ID)


def test_what_crosses_the_date_line_is_drawn_in_one_piece(drawing: Visiting, places_server: Server) -> None:
    visit = drawing(places_server)
    chart = open_map(visit, "180,-17,5.5", id=ID, bbox="170,-20,-170,-10")
    visit.shows("/api/search", id=ID, bbox="170,-20,-170,-10")
    # Along a line of water, from one side of the date line to the other: one colour.
    inside = chart.pixels(*((180 + step / 10, -17.9) for step in range(-10, 16) if step))
    assert (np.abs(inside - inside[0]) <= 3).all()
    beside = chart.pixels((177.5, -15.5), (182.5, -15.5))
    assert (beside[0] == beside[1]).all()
    assert (beside[0] != inside[0]).any()
    for longitude in (179, 181):
        visit.page.mouse.move(5, 5)
        chart.hover(longitude, -17.9)
        until(lambda: on_map(visit) == ACROSS, "the tile is marked")
    visit.role("button", "All hits").click()
    expect(visit.page.locator(".map-where")).to_have_text(re.compile(r"centre -?180\.0"))


def test_without_webgl_one_line_says_so_and_the_rest_works(visiting: Visiting, places_server: Server) -> None:
    visit = visiting(places_server).open({"id": ID, "bbox": "13.3,52.5,13.4,52.55"})
    visit.shows("/api/search", id=ID, bbox="13.3,52.5,13.4,52.55")
    expect(visit.page.get_by_text("There is no map, because this browser has no WebGL.")).to_be_visible()
    expect(visit.page.locator("#map-switch")).to_be_hidden()
    visit.page.keyboard.press("g")
    assert not [url for url in visit.requests if "/vendor/" in url]


def test_an_archive_without_places_looks_as_it_always_did(
    drawing: Visiting,
    served_store: Path,
    served_images: Path,
    served_model: Path,
    served_cache: Path,
    tmp_path: Path,
) -> None:
    store = Path(shutil.copytree(served_store, tmp_path / "placeless.store"))
    archive = LanceStore(store)
    archive.add([replace(row, bbox=None) for row in archive.get(archive.ids())])
    with serving_in_a_thread(store, served_images, served_model, served_cache) as server:
        visit = drawing(server).open()
        visit.shows("/api/images")
        for place in ("#map-panel", "#map-switch", ".map-missing", "#filter-box", ".dates"):
            expect(visit.page.locator(f"{place}:visible")).to_have_count(0)
        assert not [url for url in visit.requests if "/vendor/" in url or "map-view" in url]


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_axe_finds_nothing_on_the_map(drawing: Visiting, places_server: Server, axe: str, width: str) -> None:
    visit = drawing(
        places_server, **(NARROW if width == "narrow" else {"viewport": {"width": 1440, "height": 900}})
    )
    visit.page.add_init_script(axe)
    visit.open({"id": ID, "limit": 8, "bbox": "13.3,52.4,13.4,52.55", "from": "2020-01-02"})
    if width == "narrow":
        expect(visit.page.locator("#map-panel")).to_be_hidden()
        visit.role("button", "Map", exact=True).tap()
    expect(visit.page.locator(".map-canvas canvas")).to_be_visible()
    visit.page.evaluate("scrollTo(0, 0)")
    assert findings(visit) == []
    assert visit.overflow() <= 0
    if width == "narrow":
        visit.role("button", "Box", exact=True).tap()
        expect(visit.role("button", "Box", exact=True)).to_have_attribute("aria-pressed", "true")
        return
    visit.tile(0).get_by_role("button", name="Details").click()
    expect(visit.page.locator("#detail .detail-scale")).to_be_visible()
    assert findings(visit) == []


def test_details_show_the_window_with_its_surroundings_in_any_bands(
    visiting: Visiting, places_server: Server
) -> None:
    """The service that has scenes is pretended: the page must only ask it rightly."""
    visit = visiting(places_server, permissions=["clipboard-read", "clipboard-write"])
    scene = {
        "id": "fields/2012.tif",
        "href": "/api/scene?id=fields",
        "bands": [
            {"number": number, "name": text} for number, text in enumerate(["red", "green", "", "nir"], 1)
        ],
        "shown": [1, 2, 3],
        "crs": "EPSG:32633",
        "resolution": [2.0, 2.0],
        "window": [100, 50, 200, 200],
        "size": [1000, 800],
        "cut": 200,
    }
    asked: list[dict[str, list[str]]] = []

    def describe(route: Route) -> None:
        route.fulfill(json={**places_server.get("/api/image", id=ID), "original": None, "scene": scene})

    def draw(route: Route) -> None:
        asked.append(parse_qs(urlsplit(route.request.url).query))
        # At the upper left edge of the scene: 100 and 50 pixels are left of the surroundings there.
        around = int(asked[-1]["around"][0])
        size = (200 + (50 + 200) * bool(around), 200 + (100 + 200) * bool(around), 3)
        route.fulfill(body=picture(np.full(size, 120, dtype=np.uint8)), content_type="image/png")

    visit.page.route(re.compile("/api/image"), describe)
    visit.page.route(re.compile("/api/window"), draw)
    visit.open({"id": name(OTHER), "limit": 60})
    visit.page.locator(f'.tile[data-id="{ID}"]').get_by_role("button", name="Details").click()
    detail = visit.page.locator("#detail")
    expect(
        detail.get_by_role("img", name="Window of fields/2012.tif, with 1 window on each side")
    ).to_be_visible()
    shown, frame = (
        detail.locator(each).bounding_box() for each in (".detail-picture > img", ".detail-frame")
    )
    assert shown is not None
    assert frame is not None
    scale = min(shown["width"] / 500, shown["height"] / 450)
    assert frame["width"] == pytest.approx(200 * scale, abs=1)
    assert frame["x"] - shown["x"] == pytest.approx((shown["width"] - 500 * scale) / 2 + 100 * scale, abs=1)
    assert frame["y"] - shown["y"] == pytest.approx((shown["height"] - 450 * scale) / 2 + 50 * scale, abs=1)
    bar = detail.locator(".detail-scale")
    length = int(re.sub(r"\D", "", bar.text_content() or ""))  # metres, of 2 m per pixel
    box = bar.bounding_box()
    assert box is not None
    assert box["width"] == pytest.approx(length / 2 * scale, abs=1)
    detail.get_by_label("Band shown as red").select_option("4 nir")
    detail.get_by_label("Surroundings").select_option("the window alone")
    expect(detail.locator(".detail-frame")).to_be_hidden()
    assert [(each["around"], each["bands"]) for each in asked] == [
        (["1"], ["1,2,3"]),
        (["1"], ["4,2,3"]),
        (["0"], ["4,2,3"]),
    ]
    link = detail.get_by_role("link", name="Download the scene")
    assert link.get_attribute("href") == f"{places_server.url}/api/scene?id=fields"
    detail.get_by_role("button", name="Copy the centre").click()
    until(lambda: visit.page.evaluate("navigator.clipboard.readText()"), "something is copied")
    copied = visit.page.evaluate("navigator.clipboard.readText()")
    assert np.allclose([float(part) for part in copied.split(",")], middle(QUERY), atol=1e-6)


@pytest.mark.parametrize("coarser", [1, 2])
def test_a_window_at_the_edge_of_its_scene_is_framed_where_it_is(
    visiting: Visiting, places_server: Server, coarser: int
) -> None:
    """A window of 38 x 83 pixels in the corner, with 128 pixels of surroundings above and left of it."""
    visit = visiting(places_server)
    scene = {
        **{"id": "a.tif", "href": "/api/scene?id=a", "bands": [{"number": 1, "name": ""}], "shown": [1]},
        **{"crs": "EPSG:32633", "resolution": [2.0, 2.0], "window": [896, 640, 38, 83]},
        **{"size": [934, 723], "cut": 128},
    }
    shape = (211 // coarser, 166 // coarser, 3)
    drawn = picture(np.full(shape, 120, dtype=np.uint8))
    described = {**places_server.get("/api/image", id=ID), "original": None, "scene": scene}
    visit.page.route(re.compile("/api/image"), lambda route: route.fulfill(json=described))
    visit.page.route(
        re.compile("/api/window"), lambda route: route.fulfill(body=drawn, content_type="image/png")
    )
    visit.open({"id": name(OTHER), "limit": 60})
    visit.page.locator(f'.tile[data-id="{ID}"]').get_by_role("button", name="Details").click()
    detail = visit.page.locator("#detail")
    expect(detail.get_by_role("img", name="Window of a.tif, with 1 window on each side")).to_be_visible()
    shown, frame, bar = (
        detail.locator(each).bounding_box()
        for each in (".detail-picture > img", ".detail-frame", ".detail-scale")
    )
    assert shown is not None
    assert frame is not None
    assert bar is not None
    scale = min(shown["width"] / shape[1], shown["height"] / shape[0]) / coarser
    left, top = shown["width"] / 2 - 83 * scale, shown["height"] / 2 - 105.5 * scale
    assert frame["x"] - shown["x"] == pytest.approx(left + 128 * scale, abs=2)
    assert frame["y"] - shown["y"] == pytest.approx(top + 128 * scale, abs=2)
    assert (frame["width"], frame["height"]) == pytest.approx((38 * scale, 83 * scale), abs=2)
    length = int(re.sub(r"\D", "", detail.locator(".detail-scale").text_content() or ""))
    assert bar["width"] == pytest.approx(length / 2 * scale, abs=2)


def test_tiles_of_windows_tell_scene_place_and_date(visiting: Visiting, places_server: Server) -> None:
    visit = visiting(places_server)
    answer = places_server.get("/api/search", id=ID, limit=60)
    answer["hits"][0]["id"] = "naip/m_4709963_se_14_1_20120731.tif@x=896,y=640,w=38,h=83"
    answer["hits"][0]["date"] = "2012-07-31"
    visit.page.route(re.compile("/api/search"), lambda route: route.fulfill(json=answer))
    visit.open({"id": ID, "limit": 60})
    name_, place = (visit.tile(0).locator(".tile-name").nth(at) for at in (0, 1))
    expect(name_.locator("span").last).to_have_text("20120731.tif")  # the end is not cut off
    expect(name_).to_have_text("m_4709963_se_14_1_20120731.tif")
    expect(place).to_have_text("896,640 · 2012-07-31")


def test_tiles_of_another_service_are_the_only_requests_to_it(
    drawing: Visiting, places_server: Server, served_cache: Path
) -> None:
    tiles = "https://tiles.example/{z}/{x}/{y}.png"
    grey = np.full((256, 256, 3), 90, dtype=np.uint8)
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(
            body=picture(grey), headers={"Content-Type": "image/png", "Access-Control-Allow-Origin": "*"}
        )

    with serving_in_a_thread(
        places_server.store, places_server.images, places_server.model, served_cache, basemap=tiles
    ) as server:
        visit = drawing(server)
        visit.page.route("https://tiles.example/**", answer)
        chart = open_map(visit, "13.35,52.47,10", id=ID)
        # Tiles are faded in after they are loaded; land and water of the built-in map are above 150.
        until(lambda: np.abs(chart.pixels(BESIDE) - 90).max() <= 20, "the tiles are drawn")
        assert asked
        assert all(re.fullmatch(r"https://tiles\.example/\d+/\d+/\d+\.png", url) for url in asked)
        expect(visit.page.locator(".map-foot")).to_contain_text("Tiles: tiles.example")
        assert set(visit.outside) == set(asked)
        visit.requests.clear()
        visit.page.close()


def archive_of_tiles(kind: int, tile: bytes) -> bytes:
    """PMTiles, version 3, with one tile at zoom 0: header, directory and tile, not compressed."""
    directory = bytes([1, 0, 1]) + varint(len(tile)) + bytes([1])  # of each: id, run, length, offset + 1
    end = 127 + len(directory)
    sections = (127, len(directory), end, 2, end + 2, 0, end + 2, len(tile), 1, 1, 1)
    place = struct.pack("<4iB2i", -1800000000, -850000000, 1800000000, 850000000, 0, 0, 0)
    header = b"PMTiles\x03" + struct.pack("<11Q", *sections) + bytes([1, 1, 1, kind, 0, 0]) + place
    return header + directory + b"{}" + tile


def varint(number: int) -> bytes:
    """A number, 7 bits in a byte."""
    return bytes([number]) if number < 128 else bytes([number % 128 | 128]) + varint(number // 128)


@pytest.mark.parametrize("content", ["pictures", "vectors", "broken", "missing"])
def test_a_file_of_tiles_is_shown_or_the_outlines_of_countries(
    drawing: Visiting, places_server: Server, served_cache: Path, content: str
) -> None:
    address = "https://tiles.example/map.pmtiles"
    grey = picture(np.full((256, 256, 3), 90, dtype=np.uint8))
    files = {
        "pictures": archive_of_tiles(2, grey),
        "vectors": archive_of_tiles(1, b"no picture"),
        "broken": b"no archive" * 2000,
    }
    ranges: list[str | None] = []

    def answer(route: Route) -> None:
        ranges.append(route.request.headers.get("range"))
        allowed = {"Access-Control-Allow-Origin": "*"}
        if content == "missing":
            return route.fulfill(status=404, headers=allowed)
        first, last = map(int, (ranges[-1] or "").removeprefix("bytes=").split("-"))
        return route.fulfill(status=206, body=files[content][first : last + 1], headers=allowed)

    with serving_in_a_thread(
        places_server.store, places_server.images, places_server.model, served_cache, basemap=address
    ) as server:
        visit = drawing(server)
        visit.page.route("https://tiles.example/**", answer)
        chart = open_map(visit, "13.35,52.47,10", id=ID)
        assert set(visit.outside) == {address}
        assert all((each or "").startswith("bytes=") for each in ranges)
        if content == "pictures":
            for _ in range(50):  # tiles are faded in after they are loaded
                if (chart.pixels((13.25, 52.47)) == 90).all():
                    break
            assert (chart.pixels((13.25, 52.47)) == 90).all()
            expect(visit.page.locator(".map-foot")).to_contain_text("Tiles: tiles.example")
        else:
            shown = visit.page.locator(".notice-problem")
            expect(shown).to_have_count(1)
            expect(shown).to_contain_text("The base map of tiles.example cannot be shown: ")
            expect(shown).to_contain_text(
                {
                    "vectors": "its tiles are no pictures, but vectors.",
                    "broken": "the archive cannot be read (Wrong magic number for PMTiles archive).",
                    "missing": "the archive cannot be read (Bad response code: 404).",
                }[content]
            )
            expect(visit.page.locator(".map-foot")).to_contain_text("Natural Earth")
            assert any(url.endswith("/vendor/basemap.json") for url in visit.requests)
        visit.requests.clear()
        visit.page.close()
