"""Unknown labels over HTTP: hits, filters, counts, exports."""

import csv
import io
import json
from typing import Any

import pytest

from serve.server_process import Server
from serve.small_archive import NOT_LABELLED, PARTLY_KNOWN

FIRST, SECOND, THIRD = PARTLY_KNOWN


def ids(answer: dict[str, Any]) -> set[str]:
    return {hit["id"] for hit in answer["hits"]}


@pytest.fixture(scope="module")
def hits(unknown_server: Server) -> dict[str, dict[str, Any]]:
    """All images but the third, as hits of it."""
    found = unknown_server.get("/api/search", id=THIRD, limit=200)["hits"]
    return {hit["id"]: hit for hit in found}


def test_unknown_labels_of_hits_are_listed_apart(
    unknown_server: Server, hits: dict[str, dict[str, Any]]
) -> None:
    for image, (labels, unknown) in PARTLY_KNOWN.items():
        for hit in [unknown_server.get("/api/image", id=image), hits.get(image)]:
            if hit is not None:
                assert (hit["labels"], hit["unknown"]) == (list(labels), list(unknown))
    assert (hits[FIRST]["shared"], hits[FIRST]["agreement"]) == (["tree"], 1)
    assert (hits[SECOND]["shared"], hits[SECOND]["agreement"]) == ([], None)  # both may have the tree
    assert hits["images/000004.png"]["unknown"] == []


def test_an_image_with_unknown_labels_is_compared_by_those_that_are_known(unknown_server: Server) -> None:
    found = unknown_server.get("/api/search", id=FIRST, limit=200)
    third = next(hit for hit in found["hits"] if hit["id"] == THIRD)
    assert found["query"] == {
        "kind": "id",
        "images": [FIRST],
        "labels": ["tree"],
        "unknown": ["grass", "it's"],
    }
    assert (third["shared"], third["agreement"]) == (["tree"], 1)


def test_unknown_labels_are_counted_apart(unknown_server: Server, server: Server) -> None:
    about = {label["name"]: label for label in unknown_server.get("/api/archive")["labels"]}
    # For images that are not labelled, every label is unknown.
    more = {name: label["unknown"] - len(NOT_LABELLED) for name, label in about.items()}
    assert {name: count for name, count in more.items() if count} == dict.fromkeys(
        ("grass", "it's", "tree", "quay"), 1
    )
    assert about["quay"]["count"] == 0
    plain = server.get("/api/archive")["labels"]
    assert {label["unknown"] for label in plain} == {len(NOT_LABELLED)}
    found = unknown_server.get("/api/labels", all="tree", none="it's")
    counts = {label["name"]: label for label in found["labels"]}
    assert counts["tree"]["count"] == found["images"]
    assert (counts["grass"]["unknown"], counts["quay"]["unknown"]) == (0, 0)


@pytest.mark.parametrize("path", ["/api/search", "/api/sample"])
def test_none_is_known_to_be_absent_unless_unknown_will_do(unknown_server: Server, path: str) -> None:
    def found(**where: object) -> set[str]:
        query = {"id": "images/000000.png"} if path == "/api/search" else {}
        return ids(unknown_server.get(path, limit=200, **query, **where))

    everything = found()
    trees = found(any="tree")
    assert FIRST in trees
    assert SECOND not in trees
    assert found(none="tree") == everything - trees - NOT_LABELLED - {SECOND}
    assert found(none="tree", none_unknown_ok="false") == found(none="tree")
    assert found(none="tree", none_unknown_ok="true") == everything - trees
    assert found(none_unknown_ok="true") == everything
    assert found(none="quay") == everything - NOT_LABELLED - {SECOND}
    assert found(any="quay") == set()


def test_unknown_labels_have_no_share_and_no_mean(unknown_server: Server) -> None:
    shares = unknown_server.get("/api/search", id=THIRD, limit=200)["label_shares"]
    assert "quay" not in shares
    assert shares["tree"] == (unknown_server.get("/api/labels", any="tree")["images"] - 1) / 52
    status, text = unknown_server.refusal("/api/search", label="quay")
    assert (status, text) == (422, "no image of the store carries all of: quay.")


def test_exports_have_unknown_labels_apart(unknown_server: Server, hits: dict[str, dict[str, Any]]) -> None:
    query = {"id": THIRD, "limit": 200}
    reply = unknown_server.ask("/api/search", {**query, "format": "csv"})
    rows = {row["id"]: row for row in csv.DictReader(io.StringIO(reply.body.decode("utf-8-sig"), newline=""))}
    assert (rows[FIRST]["labels"], rows[FIRST]["unknown"]) == ("tree", "grass;it's")
    assert rows["images/000004.png"]["unknown"] == ""
    assert {image for image, row in rows.items() if row["labelled"] == "False"} == NOT_LABELLED
    reply = unknown_server.ask("/api/search", {**query, "format": "geojson"})
    features = {each["id"]: each["properties"] for each in json.loads(reply.body)["features"]}
    assert {name: each["unknown"] for name, each in features.items()} == {
        name: hit["unknown"] for name, hit in hits.items()
    }


def test_the_description_has_the_states(server: Server) -> None:
    described = server.get("/api/openapi.json")
    for path in ("search", "labels", "sample"):
        names = [each["name"] for each in described["paths"][f"/api/{path}"]["get"]["parameters"]]
        assert "none_unknown_ok" in names
    assert "unknown" in described["components"]["schemas"]["HitResponse"]["properties"]
