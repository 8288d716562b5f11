"""Suggestions learned from labels that were given on the page."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from marcir.annotations import Annotations
from marcir.search.lance import LanceStore
from serve.server_process import Server
from serve.server_thread import serving_in_a_thread

LABEL = "harbour wall"


def give(server: Server, state: str, images: list[str]) -> None:
    server.change("/api/labels", changes=[{"label": LABEL, "state": state, "ids": images}])


@pytest.fixture
def ordered(editing_server: Server) -> list[str]:
    """All images by the first number of their vectors, the largest first: what the label will follow."""
    store = LanceStore(editing_server.store)
    rows = store.get(store.ids())
    return [row.id for row in sorted(rows, key=lambda row: -float(row.vector[0]))]


def test_present_labels_alone_are_enough_and_answers_are_not_suggested_again(
    editing_server: Server, ordered: list[str]
) -> None:
    server = editing_server
    assert server.refusal("/api/suggestions", label=LABEL)[0] == 422
    give(server, "present", ordered[:3])
    first = server.get("/api/suggestions", label=LABEL, order="confident", limit=200)
    assert (first["present"], first["absent"], first["total"]) == (3, 0, len(ordered) - 3)
    found = [hit["id"] for hit in first["hits"]]
    assert set(found) == set(ordered[3:])
    give(server, "present", found[:2])
    give(server, "absent", found[-2:])
    second = server.get("/api/suggestions", label=LABEL, limit=200)
    assert (second["present"], second["absent"]) == (5, 2)
    assert {hit["id"] for hit in second["hits"]} == set(found[2:-2])
    server.change("/api/labels/undo")
    again = server.get("/api/suggestions", label=LABEL, limit=200)
    assert (again["present"], again["absent"]) == (5, 0)


def test_everything_above_a_threshold_is_accepted_in_one_change(
    editing_server: Server, ordered: list[str]
) -> None:
    server = editing_server
    give(server, "present", ordered[:5])
    give(server, "absent", ordered[-5:])
    sure = server.get("/api/suggestions/ids", label=LABEL, min_probability=0.5)["ids"]
    give(server, "present", sure)
    left = server.get("/api/suggestions", label=LABEL, limit=200)
    assert left["present"] == 5 + len(sure)
    assert not {hit["id"] for hit in left["hits"]}.intersection(sure)


def test_scores_follow_the_order_in_which_labels_were_given(
    editing_server: Server, ordered: list[str]
) -> None:
    server = editing_server
    give(server, "absent", ordered[-12:])
    give(server, "present", ordered[:12])
    (late,) = server.get("/api/suggestions/scores", label=LABEL)["scores"]
    assert [point["labels"] for point in late["curve"]] == [20, 24], "the first ten labels are all absent"
    for image in reversed(ordered[-12:]):  # stated again, after the present ones
        give(server, "cleared", [image])
        give(server, "absent", [image])
    (early,) = server.get("/api/suggestions/scores", label=LABEL)["scores"]
    assert [point["labels"] for point in early["curve"]] == [10, 20, 24]
    assert early["average_precision"] > early["chance"]


def test_labels_of_a_table_that_is_sorted_by_class_count_in_random_order(
    served_store: Path, served_images: Path, served_model: Path, served_cache: Path, tmp_path: Path
) -> None:
    store = Path(shutil.copytree(served_store, tmp_path / "sorted.store"))
    archive = LanceStore(store)
    rows = archive.get(archive.ids())
    half = len(rows) // 2
    archive.add(
        [
            replace(row, labels=("ship",) if place < half else ("barn",), labelled=True)
            for place, row in enumerate(rows)
        ]
    )
    with serving_in_a_thread(store, served_images, served_model, served_cache) as server:
        (score,) = server.get("/api/suggestions/scores", label="ship")["scores"]
        (again,) = server.get("/api/suggestions/scores", label="ship")["scores"]
    points = [point["labels"] for point in score["curve"]]
    assert points[:2] == [10, 20]
    assert points[-1] == len(rows)
    assert again == score


def test_listing_suggestions_and_the_map_keep_to_a_collection(
    editing_server: Server, ordered: list[str]
) -> None:
    server = editing_server
    give(server, "present", ordered[:3])
    server.change("/api/collections", name="Some", ids=ordered[2:6])
    assert [hit["id"] for hit in server.get("/api/images", collection="Some")["hits"]] == sorted(ordered[2:6])
    found = server.get("/api/suggestions", label=LABEL, collection="Some")
    assert {hit["id"] for hit in found["hits"]} == set(ordered[3:6])
    reply = server.ask("/api/map", {"collection": "Some", "label": LABEL})
    bits = np.frombuffer(reply.body, "<u4")[-4:]
    assert sorted(bits.tolist()) == [0, 0, 0, 1]


def test_what_was_stated_last_of_a_label_comes_last(annotated: Annotations) -> None:
    labels = annotated.labels
    labels.set([("ship", "present", ["c", "a"]), ("dock", "absent", ["b"])])
    labels.set([("ship", "absent", ["b"])])
    labels.set([("ship", "unknown", ["c"]), ("dock", "present", ["a"])])
    assert list(labels.of_label("ship").items()) == [("a", "present"), ("b", "absent"), ("c", "unknown")]
    labels.set([("ship", "cleared", ["b"])])
    assert list(labels.of_label("ship")) == ["a", "c"]
    assert labels.of_label("it's") == {}


@pytest.fixture
def annotated(tmp_path_factory: pytest.TempPathFactory) -> Annotations:
    return Annotations(tmp_path_factory.mktemp("annotated") / "a.sqlite", writable=True)
