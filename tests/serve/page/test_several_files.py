"""Several files at once, of which some are no images."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from serve.page.browsing import Visit

pytestmark = pytest.mark.browser
FIRST, SECOND = "images/000000.png", "images/000001.png"


def test_of_several_files_the_bad_one_is_named_and_the_others_are_searched_with(
    visit: Visit, tmp_path: Path
) -> None:
    bad = tmp_path / "words.png"
    bad.write_text("these are words")
    images = visit.server.images
    visit.open().page.set_input_files("#file", [images / FIRST, bad, images / SECOND])
    visit.until_asked(lambda asked: len(asked.get("like", [])) == 2)
    visit.shows("/api/search", like=visit.asked["like"])
    expect(visit.role("alert", "")).to_contain_text("The file words.png was left out: not a readable JPEG")


def test_several_files_that_are_all_bad_are_all_named(visit: Visit, tmp_path: Path) -> None:
    bad = [tmp_path / "one.png", tmp_path / "two.png"]
    for path in bad:
        path.write_text("these are words")
    visit.open().page.set_input_files("#file", bad)
    for path in bad:
        expect(visit.page.get_by_text(f"The file {path.name} was left out")).to_be_visible()
    visit.shows("/api/images")


def test_a_file_that_is_too_large_or_empty_does_not_stop_the_others(visit: Visit, tmp_path: Path) -> None:
    empty, large = tmp_path / "empty.PNG", tmp_path / "tooLarge.tif"
    empty.touch()
    with large.open("wb") as file:
        file.truncate(visit.server.get("/api/archive")["max_upload_bytes"] + 1)
    images = visit.server.images
    visit.open().page.set_input_files("#file", [large, images / FIRST, empty, images / SECOND])
    visit.until_asked(lambda asked: len(asked.get("like", [])) == 2)
    visit.shows("/api/search", like=visit.asked["like"])
    expect(visit.page.get_by_text("The file tooLarge.tif has 32 MB")).to_be_visible()
    expect(visit.page.get_by_text("The file empty.PNG is empty or a folder.")).to_be_visible()


def test_messages_keep_the_spelling_of_names(visit: Visit) -> None:
    visit.open({"id": "no such.png"})
    text = visit.page.locator("#problem p")
    assert text.evaluate("text => getComputedStyle(text, '::first-letter').textTransform") == "none"
