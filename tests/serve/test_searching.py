"""Searching over HTTP: every way to ask, filters, pages, formats."""

import csv
import io
import json
from typing import Any

import geopandas
import numpy as np
import pytest
import shapely

from marcir.search import Filter
from marcir.search.queries import SearchableArchive, open_store, query_by_examples
from marcir.serve.served_archive import decode_vector, encode_vector
from serve.server_process import Server
from serve.small_archive import DIM, NASTY, NASTY_LABELS, NOT_LABELLED

FIRST = "images/000000.png"


@pytest.fixture(scope="module")
def archive(server: Server) -> SearchableArchive:
    """The same store in this process."""
    return open_store(server.store)


def ids(answer: dict[str, Any]) -> list[str]:
    return [hit["id"] for hit in answer["hits"]]


# ---- What the archive holds ----------------------------------------------------------------------


def test_the_archive_shows_what_it_holds(server: Server, archive: SearchableArchive) -> None:
    about = server.get("/api/archive")
    assert about["name"] == "small archive.store"
    assert (about["images"], about["dim"], about["model"]) == (53, DIM, archive.store.about.model)
    assert {label["name"]: label["count"] for label in about["labels"]} == archive.store.label_counts()
    counts = [label["count"] for label in about["labels"]]
    assert counts == sorted(counts, reverse=True)
    assert (about["has_bbox"], about["has_originals"], about["dates"]) == (True, True, True)
    assert about["max_results"] == 10_000


def test_labels_are_counted_among_what_a_filter_lets_through(server: Server) -> None:
    everything, trees = server.get("/api/labels"), server.get("/api/labels", any="tree", none=["grass"])
    assert everything["images"] == 53
    assert {label["name"] for label in trees["labels"]} == {label["name"] for label in everything["labels"]}
    counts = {label["name"]: label["count"] for label in trees["labels"]}
    assert counts["tree"] == trees["images"] < 53
    assert counts["grass"] == 0


def test_empty_parameters_say_nothing(server: Server) -> None:
    assert server.get("/api/labels", any="", all="", none="") == server.get("/api/labels")


def test_health_shows_images_and_model(server: Server, archive: SearchableArchive) -> None:
    assert server.get("/health") == {"status": "ok", "images": 53, "model": archive.store.about.model}


def test_a_sample_is_the_same_for_the_same_seed(server: Server, archive: SearchableArchive) -> None:
    first = server.get("/api/sample", seed=5, limit=10)
    assert first == server.get("/api/sample", seed=5, limit=10)
    assert first != server.get("/api/sample", seed=6, limit=10)
    assert (len(set(ids(first))), first["total"]) == (10, 53)
    assert {(hit["similarity"], hit["agreement"]) for hit in first["hits"]} == {(None, None)}
    trees = server.get("/api/sample", seed=5, limit=200, any="tree")
    assert len(trees["hits"]) == trees["total"] == archive.store.label_counts()["tree"]
    assert all("tree" in hit["labels"] for hit in trees["hits"])


# ---- Ways to ask ---------------------------------------------------------------------------------


def test_an_id_finds_the_others(server: Server, archive: SearchableArchive) -> None:
    answer = server.get("/api/search", id=FIRST, limit=10)
    expected = archive.by_id(FIRST, 10)
    assert ids(answer) == [hit.id for hit in expected.hits]
    assert [hit["similarity"] for hit in answer["hits"]] == [hit.similarity for hit in expected.hits]
    labels = list(expected.query_labels)
    assert answer["query"] == {"kind": "id", "images": [FIRST], "labels": labels, "unknown": []}
    assert (answer["offset"], answer["limit"], answer["total"], answer["more"]) == (0, 10, 52, True)
    assert answer["label_shares"] == expected.label_shares
    for hit in answer["hits"]:
        assert hit["shared"] == [label for label in hit["labels"] if label in labels]
        both, one = set(hit["labels"]) & set(labels), set(hit["labels"]) | set(labels)
        if hit["id"] in NOT_LABELLED:
            assert (hit["labelled"], hit["agreement"]) == (False, None)
        else:
            assert hit["agreement"] == pytest.approx(len(both) / len(one))


def test_a_hit_has_all_that_is_known(server: Server) -> None:
    found = {hit["id"]: hit for hit in server.get("/api/search", id=FIRST, limit=200)["hits"]}
    hit = found["images/000003.png"]
    assert (hit["width"], hit["height"], hit["bbox"]) == (24, 24, [-126, -10, -106, 10])
    assert (hit["date"], hit["metadata"]) == ("2024-05-04", {"sensor": "S2", "note": "=1+1 <b>"})
    assert hit["thumbnail"] == "/api/thumbnail?id=images%2F000003.png"
    other = found["images/000001.png"]
    assert (other["bbox"], other["date"], other["metadata"]) == (None, None, {})


def test_an_upload_finds_itself_and_its_vector_finds_the_same(server: Server) -> None:
    content = (server.images / FIRST).read_bytes()
    embedded = server.upload("/api/embed", content).json()
    assert (embedded["width"], embedded["height"]) == (24, 24)
    assert embedded["thumbnail"].startswith("data:image/jpeg;base64,/9j/")
    direct = server.upload("/api/search", content, limit=10).json()
    by_vector = server.get("/api/search", vector=embedded["vector"], limit=10)
    assert direct == by_vector
    assert direct["hits"][0]["id"] == FIRST
    assert direct["hits"][0]["similarity"] == pytest.approx(1, abs=1e-5)
    assert direct["query"] == {"kind": "vector", "images": [], "labels": [], "unknown": []}
    assert (direct["total"], direct["hits"][0]["agreement"]) == (53, None)


def test_examples_may_be_ids_and_vectors(server: Server, archive: SearchableArchive) -> None:
    embedded = server.upload("/api/embed", (server.images / FIRST).read_bytes()).json()["vector"]
    vector = decode_vector(embedded, DIM)
    like, unlike = ["images/000001.png", NASTY[0]], ["images/000002.png"]
    answer = server.get(
        "/api/search",
        like=[*(f"id:{image}" for image in like), f"vector:{embedded}"],
        unlike=[f"id:{image}" for image in unlike],
    )
    expected = archive.search(lambda snapshot: query_by_examples(snapshot, [*like, vector], unlike), 24)
    assert ids(answer) == [hit.id for hit in expected.hits]
    assert not {*like, *unlike} & set(ids(answer))
    assert answer["total"] == 50
    carried = [label for image in like for label in archive.store.look_up(image).labels]
    labels = list(dict.fromkeys(carried))
    assert answer["query"] == {
        "kind": "examples",
        "images": [*like, *unlike],
        "labels": labels,
        "unknown": [],
    }


def test_labels_alone_find_images(server: Server, archive: SearchableArchive) -> None:
    answer = server.get("/api/search", label=["tree", "grass"], limit=5)
    assert ids(answer) == [hit.id for hit in archive.by_labels(["tree", "grass"], 5).hits]
    assert answer["query"] == {"kind": "labels", "images": [], "labels": ["tree", "grass"], "unknown": []}
    assert answer["total"] == 53


@pytest.mark.parametrize("name", NASTY)
def test_ids_may_hold_anything(server: Server, name: str) -> None:
    assert server.get("/api/image", id=name)["id"] == name
    assert name not in ids(server.get("/api/search", id=name, limit=200))
    assert name not in ids(server.get("/api/search", like=f"id:{name}", limit=200))
    assert name in ids(server.get("/api/search", id=FIRST, limit=200))


@pytest.mark.parametrize("name", NASTY_LABELS)
def test_labels_may_hold_anything(server: Server, archive: SearchableArchive, name: str) -> None:
    answer = server.get("/api/search", id=FIRST, any=name)
    assert answer["total"] == archive.store.count(Filter(any=(name,))) >= 1
    assert all(name in hit["labels"] for hit in answer["hits"])
    without = server.get("/api/search", label=name, none=name)["total"]
    assert without == 53 - len(NOT_LABELLED) - answer["total"]


# ---- Filters and pages ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where",
    [{}, {"any": ["tree", "sand"]}, {"all": ["tree", "grass"]}, {"none": ["tree"]}, {"min_similarity": 0.2}],
    ids=str,
)
def test_pages_hold_every_hit_once_in_order(
    server: Server, archive: SearchableArchive, where: dict[str, Any]
) -> None:
    found, offset, more = [], 0, True
    while more:
        page = server.get("/api/search", id=FIRST, limit=7, offset=offset, **where)
        found += page["hits"]
        offset, more = offset + 7, page["more"]
    least = where.pop("min_similarity", None)
    kept = Filter(**{name: tuple(labels) for name, labels in where.items()}, min_similarity=least)
    assert [hit["id"] for hit in found] == [hit.id for hit in archive.by_id(FIRST, 100, kept).hits]
    if least is None:
        assert page["total"] == len(found)


def test_a_page_after_the_last_is_empty(server: Server) -> None:
    answer = server.get("/api/search", id=FIRST, offset=60)
    assert (answer["hits"], answer["more"], answer["label_shares"], answer["total"]) == ([], False, {}, 52)
    assert server.get("/api/search", id=FIRST, offset=28, limit=24)["more"] is False


def test_the_total_counts_the_query_only_where_it_could_be_found(server: Server) -> None:
    labels = server.get("/api/image", id=FIRST)["labels"]
    with_it = server.get("/api/labels", any=labels[0])["images"]
    assert server.get("/api/search", id=FIRST, any=labels[0])["total"] == with_it - 1
    without = server.get("/api/labels", none=labels[0])["images"]
    assert server.get("/api/search", id=FIRST, none=labels[0])["total"] == without


# ---- Tables and maps -----------------------------------------------------------------------------


def test_hits_as_csv_run_nothing_in_a_spreadsheet(server: Server) -> None:
    reply = server.ask("/api/search", {"id": FIRST, "format": "csv", "limit": 200})
    assert reply.headers["content-type"] == "text/csv; charset=utf-8"
    assert reply.headers["content-disposition"] == 'attachment; filename="marcir-search.csv"'
    rows = list(csv.DictReader(io.StringIO(reply.body.decode("utf-8-sig"), newline="")))
    hits = server.get("/api/search", id=FIRST, limit=200)["hits"]
    for row, hit in zip(rows, hits, strict=True):
        assert row["id"] in (hit["id"], f"'{hit['id']}")
        assert float(row["similarity"]) == hit["similarity"]
        assert row["sensor"] == hit["metadata"].get("sensor", "")
        for cell in (row["id"], row["labels"], row["note"]):
            assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    west = {row["id"]: row["west"] for row in rows}
    assert float(west["images/000003.png"]) == -126, "a number stays one"
    assert f"'{NASTY[5]}" in west


def test_hits_as_geojson_have_their_boxes(server: Server) -> None:
    reply = server.ask("/api/search", {"id": FIRST, "format": "geojson", "limit": 200})
    assert reply.headers["content-type"] == "application/geo+json"
    assert reply.headers["content-disposition"] == 'attachment; filename="marcir-search.geojson"'
    features = {each["id"]: each for each in json.loads(reply.body)["features"]}
    ring = [[-126, -10], [-106, -10], [-106, 10], [-126, 10], [-126, -10]]
    assert features["images/000003.png"]["geometry"] == {"type": "Polygon", "coordinates": [ring]}
    assert features["images/000001.png"]["geometry"] is None
    crossing = features["images/000039.png"]["geometry"]
    assert crossing["type"] == "MultiPolygon"
    assert {max(x for x, _ in part[0]) - min(x for x, _ in part[0]) for part in crossing["coordinates"]} == {
        18,
        10,
    }


def test_hits_as_geoparquet_are_those_of_geojson(server: Server) -> None:
    query = {"id": FIRST, "limit": 200}
    reply = server.ask("/api/search", {**query, "format": "geoparquet"})
    assert reply.headers["content-type"] == "application/vnd.apache.parquet"
    assert reply.headers["content-disposition"] == 'attachment; filename="hits.parquet"'
    frame = geopandas.read_parquet(io.BytesIO(reply.body))
    features = json.loads(server.ask("/api/search", {**query, "format": "geojson"}).body)["features"]
    assert frame["id"].tolist() == [feature["id"] for feature in features]
    for geometry, feature in zip(frame.geometry, features, strict=True):
        assert (geometry and shapely.geometry.mapping(geometry)["type"]) == (
            feature["geometry"] and feature["geometry"]["type"]
        )


def test_a_map_of_hits_without_boxes_is_refused(server: Server) -> None:
    status, text = server.refusal("/api/search", id=FIRST, format="geojson", min_similarity=1)
    assert (status, text) == (422, "geojson: no hit of this page has a bounding box. Ask for json or csv.")


# ---- Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "asked", "status", "text"),
    [
        ("search", {}, 422, "a search needs one of id, vector, like, label and at"),
        (
            "search",
            {"id": FIRST, "label": "tree"},
            422,
            "a search needs one of id, vector, like, label and at",
        ),
        ("search", {"unlike": f"id:{FIRST}"}, 422, "unlike needs at least one example"),
        ("search", {"like": FIRST}, 422, "an example is id:ID, vector:VECTOR or collection:NAME"),
        ("search", {"like": "id:"}, 422, "an example is id:ID, vector:VECTOR or collection:NAME"),
        ("search", {"like": "id:/etc/passwd"}, 404, "no image '/etc/passwd' in the store"),
        ("search", {"id": "images/00000.png"}, 404, "Did you mean 'images/0000"),
        ("search", {"id": ""}, 422, "id: string should have at least 1 character."),
        ("search", {"id": "x" * 5000}, 422, "id: string should have at most 4096 characters."),
        ("search", {"id": [FIRST, FIRST]}, 422, "id: given 2 times. Give it once."),
        ("search", {"vector": "AAAA"}, 422, "vector: not a vector of 16 numbers"),
        ("search", {"vector": "A" * 86}, 422, "vector: not a vector of 16 numbers"),
        ("search", {"vector": "ü!" * 43}, 422, "vector: not a vector of 16 numbers"),
        ("search", {"label": "tre"}, 422, "no image of the store has the label 'tre'. Did you mean 'tree'?"),
        ("search", {"id": FIRST, "any": "tre"}, 422, "Did you mean 'tree'?"),
        ("search", {"label": ["airplane", "it's"]}, 422, "no image of the store carries all of"),
        ("search", {"id": FIRST, "anyy": "tree"}, 422, "unknown parameter 'anyy'. Did you mean 'any'?"),
        ("search", {"id": FIRST, "limit": 0}, 422, "limit: input should be greater than or equal to 1."),
        ("search", {"id": FIRST, "limit": 201}, 422, "limit: input should be less than or equal to 200."),
        ("search", {"id": FIRST, "limit": "many"}, 422, "limit: input should be a valid integer"),
        ("search", {"id": FIRST, "offset": -1}, 422, "offset: "),
        ("search", {"id": FIRST, "offset": 9990, "limit": 24}, 422, "offset + limit = 10014: at most 10000"),
        ("search", {"id": FIRST, "min_similarity": "nan"}, 422, "min_similarity: "),
        ("search", {"id": FIRST, "min_similarity": 2}, 422, "min_similarity: "),
        (
            "search",
            {"id": FIRST, "format": "xml"},
            422,
            "format: input should be 'json', 'csv', 'geojson' or 'geoparquet'.",
        ),
        ("labels", {"all": "nothing"}, 422, "no image of the store has the label 'nothing'."),
        ("labels", {"id": FIRST}, 422, "unknown parameter 'id'."),
        ("archive", {"x": 1}, 422, "unknown parameter 'x'. There are none."),
        ("sample", {"seed": -1}, 422, "seed: "),
        ("image", {}, 422, "id: field required."),
        ("image", {"id": "nowhere.png"}, 404, "no image 'nowhere.png' in the store."),
        ("nowhere", {}, 404, "there is no such address."),
        ("search/", {}, 404, "there is no such address."),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(
    server: Server, path: str, asked: dict[str, Any], status: int, text: str
) -> None:
    got, sentence = server.refusal(f"/api/{path}", **asked)
    assert text in sentence
    assert got == status


def test_examples_that_cancel_each_other_have_no_direction(server: Server) -> None:
    one = np.eye(DIM)[0]
    like = [f"vector:{encode_vector(one)}", f"vector:{encode_vector(-one)}"]
    assert server.refusal("/api/search", like=like)[0] == 422


def test_a_method_that_an_address_has_not_is_refused_with_those_it_has(server: Server) -> None:
    reply = server.ask("/api/search", method="PUT")
    assert (reply.status, reply.headers["allow"]) == (405, "GET, POST")
    assert reply.error.startswith("PUT is not for this address")


def test_the_time_of_each_part_is_a_header(server: Server) -> None:
    timing = server.ask("/api/search", {"id": FIRST}).headers["server-timing"]
    assert [part.split(";")[0] for part in timing.split(", ")] == ["search", "wait", "total"]
    timing = server.upload("/api/search", (server.images / FIRST).read_bytes()).headers["server-timing"]
    assert "embed;dur=" in timing
