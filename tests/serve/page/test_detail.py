"""One image in full, and hits as files."""

import csv
import json
import re
from pathlib import Path

import geopandas
import pytest
from playwright.sync_api import Locator, expect

from serve.page.browsing import Visit
from serve.page.conftest import Visiting

pytestmark = pytest.mark.browser
FIRST = "images/000000.png"


def opened(visit: Visit, at: int) -> Locator:
    visit.tile(at).get_by_role("button", name="Details").click()
    dialog = visit.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog


def test_the_detail_view_shows_the_original_and_all_that_is_known(visit: Visit) -> None:
    visit.open({"id": FIRST, "limit": 200})
    ids = visit.shows("/api/search", id=FIRST, limit=200)
    hits = visit.server.get("/api/search", id=FIRST, limit=200)["hits"]
    at = next(at for at, hit in enumerate(hits) if hit["bbox"])
    dialog = opened(visit, at)
    expect(dialog.locator(".detail-picture img")).to_have_attribute("src", re.compile("^api/original"))
    for text in (
        ids[at],
        "24 \u00d7 24 pixels",
        hits[at]["date"],
        "Box (W, S, E, N)",
        ", ".join(f"{number:g}" for number in hits[at]["bbox"]),
        "sensor",
        "S2",
        "=1+1 <b>",
        "Agreement",
    ):
        expect(dialog).to_contain_text(text)
    expect(dialog.locator(".similarity .number")).to_have_text(f"{hits[at]['similarity']:.3f}")
    expect(dialog.locator(".labels li")).to_have_count(len(hits[at]["labels"]))


def test_one_goes_from_detail_to_detail_and_acts_there(visit: Visit) -> None:
    visit.open({"id": FIRST})
    ids = visit.shows("/api/search", id=FIRST)
    dialog = opened(visit, 0)
    expect(dialog.locator(".detail-left")).to_be_disabled()
    dialog.get_by_role("button", name="Next image").click()
    expect(dialog.locator(".facts")).to_contain_text(ids[1])
    visit.page.keyboard.press("ArrowRight")
    visit.page.keyboard.press("ArrowRight")
    visit.page.keyboard.press("ArrowLeft")
    expect(dialog.locator(".facts")).to_contain_text(ids[2])
    visit.page.keyboard.press("+")
    expect(dialog.get_by_role("button", name="More like this")).to_have_attribute("aria-pressed", "true")
    visit.page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(visit.tile(2).locator("a")).to_be_focused()
    assert visit.tile(2).get_attribute("data-mark") == "like"
    opened(visit, 3).get_by_role("button", name="Search with this").click()
    visit.shows("/api/search", id=ids[3])


def test_back_closes_the_detail_view_and_stays_in_the_search(visit: Visit) -> None:
    visit.open()
    visit.shows("/api/images")
    visit.tile(0).locator("a").click()
    visit.until_asked(lambda asked: "id" in asked)
    (image,) = visit.asked["id"]
    ids = visit.shows("/api/search", id=image)
    dialog = opened(visit, 1)
    visit.page.keyboard.press("ArrowRight")
    visit.page.go_back()
    expect(dialog).to_be_hidden()
    expect(visit.tile(2).locator("a")).to_be_focused()
    visit.page.go_forward()
    expect(dialog.locator(".facts")).to_contain_text(ids[2])  # the one that was closed
    for key in ("Escape", "o", "Escape", "o", "Escape"):  # faster than the history
        visit.page.keyboard.press(key)
    expect(dialog).to_be_hidden()
    opened(visit, 3).get_by_role("button", name="Search with this").click()
    visit.shows("/api/search", id=ids[3])
    visit.page.go_back()
    visit.shows("/api/search", id=image)
    expect(dialog).to_be_hidden()
    visit.page.go_back()
    visit.shows("/api/images")


def test_the_original_is_downloaded_as_it_lies_in_the_folder(visit: Visit, tmp_path: Path) -> None:
    visit.open({"id": FIRST})
    (first, *_) = visit.shows("/api/search", id=FIRST)
    dialog = opened(visit, 0)
    with visit.page.expect_download() as download:
        dialog.get_by_role("link", name="Download original").click()
    download.value.save_as(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == (visit.server.images / first).read_bytes()


def test_hits_are_exported_as_csv_geojson_and_geoparquet(visit: Visit, tmp_path: Path) -> None:
    visit.open({"id": FIRST, "none": "tree", "offset": 2, "limit": 10})
    ids = visit.shows("/api/search", id=FIRST, none="tree", offset=2, limit=10)
    for name in ("CSV, these 10 hits", "GeoJSON, the first 200 hits", "GeoParquet, these 10 hits"):
        visit.page.locator(".menu summary", has_text="Export").click()
        with visit.page.expect_download() as download:
            visit.role("link", name).click()
        download.value.save_as(tmp_path / download.value.suggested_filename)
    (table,) = tmp_path.glob("*.csv")
    with table.open(newline="", encoding="utf-8-sig") as file:
        assert [row["id"] for row in csv.DictReader(file)] == ids
    (places,) = tmp_path.glob("*.geojson")
    assert json.loads(places.read_text())["type"] == "FeatureCollection"
    assert geopandas.read_parquet(tmp_path / "hits.parquet")["id"].tolist() == ids


def test_an_export_that_is_refused_says_why(visit: Visit) -> None:
    hits = visit.server.get("/api/search", id=FIRST, limit=200)["hits"]
    at = next(at for at, hit in enumerate(hits) if not hit["bbox"])
    visit.open({"id": FIRST, "offset": at, "limit": 1})
    visit.page.locator(".menu summary", has_text="Export").click()
    visit.role("link", "GeoJSON, this hit").click()
    status, sentence = visit.server.refusal("/api/search", id=FIRST, offset=at, limit=1, format="geojson")
    assert status == 422
    expect(visit.role("alert", "")).to_contain_text(sentence)


def test_an_open_image_has_an_address_that_can_be_shared_and_reloaded(
    visit: Visit, visiting: Visiting
) -> None:
    visit.open({"id": FIRST, "none": "tree"})
    ids = visit.shows("/api/search", id=FIRST, none="tree")
    opened(visit, 1)
    visit.page.keyboard.press("ArrowRight")
    visit.until_asked(lambda asked: asked.get("detail") == [ids[2]])
    visit.page.reload()  # there is still an entry below it
    expect(visit.page.get_by_role("dialog").locator(".facts")).to_contain_text(ids[2])
    other = visiting(visit.server)
    other.page.goto(visit.page.url)
    dialog = other.page.get_by_role("dialog")
    expect(dialog.locator(".facts")).to_contain_text(ids[2])
    other.page.keyboard.press("ArrowRight")  # its neighbours are there, too
    expect(dialog.locator(".facts")).to_contain_text(ids[3])
    other.page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(other.tile(3).locator("a")).to_be_focused()
    other.until_asked(lambda asked: asked == {"id": [FIRST], "none": ["tree"]})
    visit.page.go_back()
    expect(visit.page.get_by_role("dialog")).to_be_hidden()
    visit.shows("/api/search", id=FIRST, none="tree")
    assert "detail" not in visit.asked


def test_the_address_of_an_image_that_is_gone_says_so(visit: Visit) -> None:
    visit.open({"detail": "no such.png"})
    expect(visit.role("alert", "")).to_contain_text(visit.server.refusal("/api/image", id="no such.png")[1])
    expect(visit.page.get_by_role("dialog")).to_have_count(0)
    visit.shows("/api/images")
    visit.until_asked(lambda asked: asked == {})


def test_an_image_in_the_address_that_is_not_sent_is_opened_at_the_second_attempt(visit: Visit) -> None:
    visit.page.route(
        "**/api/image?*", lambda route: route.fulfill(status=500, json={"error": "The disk is broken."})
    )
    visit.open({"detail": FIRST, "offset": 30, "limit": 5})  # not one of the hits
    expect(visit.role("alert", "")).to_contain_text("The disk is broken.")
    visit.page.unroute("**/api/image?*")
    visit.role("button", "Try again").click()
    expect(visit.page.get_by_role("dialog").locator(".facts")).to_contain_text(FIRST)
    visit.until_asked(lambda asked: asked.get("detail") == [FIRST])
