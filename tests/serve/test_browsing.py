"""Listing all images, suggestions and the map over HTTP."""

from collections.abc import Iterator
from dataclasses import replace
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
import pytest

from marcir.annotations.suggest import fit_classifier, learned_rows, probabilities, weak_rows
from marcir.search.index import index
from marcir.search.lance import LanceStore
from serve.server_process import Server
from serve.server_thread import serving_in_a_thread

LABEL, OTHER = "quay", "field"


def listed(server: Server, **asked: object) -> list[dict[str, Any]]:
    """All pages of a listing."""
    hits: list[dict[str, Any]] = []
    more = True
    while more:
        page = server.get("/api/images", offset=len(hits), limit=7, **asked)
        hits += page["hits"]
        more = page["more"]
        assert page["total"] >= len(hits)
    assert page["total"] == len(hits)
    return hits


def test_every_image_is_on_one_page_in_the_order_of_ids(server: Server) -> None:
    found = [hit["id"] for hit in listed(server)]
    assert found == sorted(found) == LanceStore(server.store).ids()
    assert [hit["id"] for hit in listed(server, order="desc")] == found[::-1]


def test_dates_are_sorted_and_images_without_one_come_last(server: Server) -> None:
    for order, sign in (("asc", 1), ("desc", -1)):
        dates = [hit["date"] for hit in listed(server, sort="date", order=order)]
        known = [date for date in dates if date is not None]
        assert 0 < len(known) < len(dates)
        assert dates[: len(known)] == sorted(known)[::sign]


def test_a_listing_keeps_the_filters_and_ends_beyond_the_last_page(server: Server) -> None:
    hits = listed(server, all="tree", none="grass")
    assert hits
    assert all("tree" in hit["labels"] and "grass" not in hit["labels"] for hit in hits)
    beyond = server.get("/api/images", offset=2**53)
    assert (beyond["hits"], beyond["more"], beyond["total"]) == ([], False, len(listed(server)))


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"sort": "similarity"}, "sort=similarity: needs a query. Ask /api/search"),
        ({"sort": "name"}, "sort: "),
        ({"offset": -1}, "offset: "),
        ({"limit": 201}, "limit: "),
        ({"any": "tre"}, "Did you mean 'tree'?"),
    ],
)
def test_a_listing_that_cannot_be_is_refused(server: Server, asked: dict[str, object], text: str) -> None:
    status, answer = server.refusal("/api/images", **asked)
    assert status == 422
    assert text in answer


# ---- Suggestions ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def partly(
    served_images: Path, served_model: Path, served_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """An archive in which `quay` is known of some images: it follows the first number of their vectors."""
    store = tmp_path_factory.mktemp("partly") / "partly.store"
    index(served_images, store, model=served_model)
    archive = LanceStore(store)
    rows = archive.get(archive.ids())
    values = np.array([row.vector[0] for row in rows])
    present = values > np.median(values)
    known = np.arange(len(rows)) % 3 < 2
    archive.add(
        [
            replace(
                row,
                labels=() if not known[place] else (LABEL,) if present[place] else (OTHER,),
                unknown=() if known[place] else (LABEL,),
                labelled=True,
            )
            for place, row in enumerate(rows)
        ]
    )
    with serving_in_a_thread(store, served_images, served_model, served_cache) as running:
        yield running


@pytest.fixture
def expected(partly: Server) -> dict[str, float]:
    """Probabilities of the images of which the label is unknown, computed from the store by hand."""
    archive = LanceStore(partly.store)
    rows = archive.get(archive.ids())
    states = np.array([1 if LABEL in row.labels else -1 if LABEL in row.unknown else 0 for row in rows])
    vectors = np.stack([row.vector for row in rows])
    known = learned_rows(states)
    classifier = fit_classifier(vectors[known], states[known], vectors[weak_rows(states)])
    chances = probabilities(classifier.logits(vectors))
    return {row.id: chances[place] for place, row in enumerate(rows) if states[place] < 0}


def test_suggestions_are_what_the_classifier_says_of_unknown_images(
    partly: Server, expected: dict[str, float]
) -> None:
    for order in ("uncertain", "confident"):
        found = partly.get("/api/suggestions", label=LABEL, order=order, limit=200)
        assert {hit["id"]: hit["probability"] for hit in found["hits"]} == pytest.approx(expected, abs=1e-5)
        assert (found["total"], found["more"], found["weak"]) == (len(expected), False, len(expected))
        chances = [hit["probability"] for hit in found["hits"]]
        keys = [abs(chance - 0.5) if order == "uncertain" else -chance for chance in chances]
        assert keys == sorted(keys)
    assert found["present"] + found["absent"] + found["total"] == partly.get("/api/archive")["images"]
    pages = [
        partly.get("/api/suggestions", label=LABEL, offset=offset, limit=5)["hits"] for offset in (0, 5, 10)
    ]
    assert len({hit["id"] for page in pages for hit in page}) == 15


def test_ids_above_a_threshold_are_those_that_are_suggested(
    partly: Server, expected: dict[str, float]
) -> None:
    wanted = sorted(
        (image for image, chance in expected.items() if chance >= 0.5), key=lambda i: -expected[i]
    )
    found = partly.get("/api/suggestions/ids", label=LABEL, min_probability=0.5)
    assert (found["ids"], found["total"]) == (wanted, len(wanted))
    page = partly.get("/api/suggestions", label=LABEL, min_probability=0.5, limit=1)
    assert page["total"] == len(wanted)
    assert partly.get("/api/suggestions/ids", label=LABEL, min_probability=1)["ids"] == []


def test_scores_have_counts_and_a_curve_that_ends_in_the_score(partly: Server) -> None:
    found = partly.get("/api/suggestions/scores", label=[LABEL, OTHER, LABEL])["scores"]
    scores = {score["label"]: score for score in found}
    assert list(scores) == [LABEL, OTHER]
    assert len(found) == 2
    score = scores[LABEL]
    assert score["curve"][-1] == {
        "labels": score["present"] + score["absent"],
        "average_precision": score["average_precision"],
    }
    assert score["average_precision"] > score["chance"] > 0
    assert partly.get("/api/suggestions/scores", label=LABEL)["scores"] == [score]


@pytest.mark.parametrize("labels", [[], [""], [f"a{number}" for number in range(21)]])
def test_scores_are_of_1_to_20_labels(server: Server, labels: list[str]) -> None:
    status, text = server.refusal("/api/suggestions/scores", label=labels)
    assert (status, text.startswith("label: ")) == (422, True), text


def test_rare_labels_have_no_score(server: Server) -> None:
    (score,) = server.get("/api/suggestions/scores", label="it's")["scores"]
    assert 0 < score["present"] < 5
    assert (score["average_precision"], score["chance"], score["curve"]) == (None, None, [])


def test_only_images_that_the_table_does_not_label_are_suggested(server: Server) -> None:
    archive = LanceStore(server.store)
    unlabelled = {row.id for row in archive.get(archive.ids()) if not row.labels}
    found = server.get("/api/suggestions", label="tree")
    assert {hit["id"] for hit in found["hits"]} == unlabelled != set()
    assert (found["total"], found["weak"]) == (len(unlabelled), len(unlabelled))


def test_where_everything_is_known_nothing_is_suggested(partly: Server) -> None:
    found = partly.get("/api/suggestions", label=OTHER)
    assert (found["hits"], found["total"], found["weak"]) == ([], 0, 0)


@pytest.mark.parametrize("path", ["/api/suggestions", "/api/suggestions/ids", "/api/suggestions/scores"])
def test_a_label_that_nobody_knows_is_refused(server: Server, path: str) -> None:
    assert server.refusal(path, label="tre") == (
        422,
        "no image of the store has the label 'tre'. Did you mean 'tree'?",
    )


def test_suggestions_are_for_one_label(server: Server) -> None:
    for asked in ({}, {"label": ["tree", "grass"]}):
        status, text = server.refusal("/api/suggestions", **asked)
        assert status == 422
        assert "label: " in text


# ---- The map -------------------------------------------------------------------------------------


def points(server: Server, **asked: object) -> tuple[np.ndarray, np.ndarray, np.ndarray, Message]:
    with urlopen(f"{server.url}/api/map?{urlencode(asked, doseq=True)}") as response:  # noqa: S310
        content, headers = response.read(), response.headers
    count = int(headers["X-Marcir-Points"])
    assert len(content) == 16 * count
    places = np.frombuffer(content, "<f4", 2 * count).reshape(2, count).T
    rows, bits = np.frombuffer(content, "<u4", offset=8 * count).reshape(2, count)
    return places, rows, bits, headers


def test_the_map_has_the_points_of_the_store_with_ids_and_labels(server: Server) -> None:
    places, rows, bits, headers = points(server, label=["tree", "grass"])
    store = LanceStore(server.store)
    made = store.read_map()
    assert made is not None
    np.testing.assert_array_equal(places, made.points)
    assert server.get("/api/archive")["has_map"] is True
    found = server.get("/api/map/ids", version=headers["X-Marcir-Version"], row=rows.tolist())["ids"]
    assert found == made.ids
    for row, bit in zip(store.get(found), bits.tolist(), strict=True):
        assert bit == ("tree" in row.labels) + 2 * ("grass" in row.labels)


def test_the_map_keeps_the_filters(server: Server) -> None:
    _, rows, bits, headers = points(server, all="tree", label="tree")
    assert int(headers["X-Marcir-Total"]) == len(rows) == server.get("/api/images", all="tree")["total"]
    assert set(bits.tolist()) == {1}


def test_a_label_that_the_archive_does_not_have_colours_nothing_and_is_refused(server: Server) -> None:
    assert server.refusal("/api/map", label=["grass", "tre"]) == (
        422,
        "no image of the store has the label 'tre'. Did you mean 'tree'?",
    )


def test_of_too_many_points_the_same_random_part_is_drawn(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marcir.serve.map_points.MAX_POINTS", 10)
    first, second = points(server), points(server)
    assert len(set(first[1].tolist())) == 10
    np.testing.assert_array_equal(first[1], second[1])
    assert int(first[3]["X-Marcir-Total"]) > 10


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"version": "other", "row": 0}, 409),
        ({"version": None, "row": 10**6}, 422),
        ({"version": None, "row": list(range(1001))}, 422),
        ({"version": None}, 422),
    ],
)
def test_ids_of_points_that_there_are_not_are_refused(
    server: Server, asked: dict[str, Any], status: int
) -> None:
    version = asked["version"] or points(server)[3]["X-Marcir-Version"]
    assert server.refusal("/api/map/ids", **{**asked, "version": version})[0] == status
