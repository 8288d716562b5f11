"""Collections and labels over HTTP: what they do, who may change them, and what is refused."""

import csv
import io
import json
from pathlib import Path

import pytest

from marcir.annotations import open_annotations
from marcir.annotations.collection_table import CollectionTable
from marcir.data.label_csv import read_label_table
from marcir.errors import ConfigError
from marcir.search.hits import harmless
from marcir.search.records import Filter
from marcir.serve.parameters import FilterParameters
from marcir.serve.served_archive import ServedArchive
from marcir.serve.settings import MAX_CHOSEN, MAX_EDIT_BYTES, Settings
from serve.server_process import TOKEN, Server
from serve.server_thread import serving_in_a_thread
from serve.small_archive import NASTY

ONE, TWO, THREE = (f"images/00000{number}.png" for number in (1, 2, 3))


def ids(server: Server, path: str = "/api/sample", **parameters: object) -> set[str]:
    return {hit["id"] for hit in server.get(path, limit=200, **parameters)["hits"]}


# ---- Collections ---------------------------------------------------------------------------------


def test_a_collection_is_made_filled_renamed_emptied_and_deleted(editing_server: Server) -> None:
    server = editing_server
    assert server.get("/api/collections") == {"collections": []}
    made = server.change("/api/collections", name=" Ships ", ids=[TWO, ONE])
    assert (made["changed"], made["collection"]["name"], made["collection"]["images"]) == (2, "Ships", 2)
    assert made["collection"]["author"] == "local"
    added = server.change("/api/collections/add", name="Ships", ids=[ONE, THREE])
    assert (added["changed"], added["collection"]["images"]) == (1, 3)
    page = server.get("/api/collection", name="Ships", limit=2)
    assert [member["id"] for member in page["members"]] == [TWO, ONE], "in the order of their addition"
    assert (page["more"], page["missing"]) == (True, 0)
    assert page["members"][0]["image"]["thumbnail"].startswith("/api/thumbnail")
    renamed = server.change("/api/collections/rename", name="Ships", new_name="Boats")
    assert renamed["collection"]["name"] == "Boats"
    removed = server.change("/api/collections/remove", name="Boats", ids=[ONE, "never/there.png"])
    assert (removed["changed"], removed["collection"]["images"]) == (1, 2)
    server.change("/api/collections/delete", name="Boats")
    assert server.refusal("/api/collection", name="Boats")[0] == 404


def test_everything_that_passes_a_filter_goes_into_a_collection(editing_server: Server) -> None:
    server = editing_server
    wanted = ids(server, any="tree", none="grass")
    made = server.change("/api/collections", name="Trees", filter={"any": ["tree"], "none": ["grass"]})
    assert made["collection"]["images"] == len(wanted) > 0
    assert {
        each["id"] for each in server.get("/api/collection", name="Trees", limit=200)["members"]
    } == wanted
    everything = server.change("/api/collections", name="All", filter={})
    assert everything["collection"]["images"] == server.get("/api/archive")["images"]
    rest = server.change("/api/collections/remove", name="All", filter={"collection": "Trees"})
    assert rest["changed"] == len(wanted)


def test_images_that_were_removed_are_named_so_that_they_can_be_added_again(
    editing_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = editing_server
    server.change("/api/collections", name="Some", ids=[TWO, ONE])
    removed = server.change("/api/collections/remove", name="Some", ids=[ONE, THREE, TWO])
    assert (removed["changed"], removed["ids"]) == (2, [TWO, ONE])
    server.change("/api/collections/add", name="Some", ids=removed["ids"])
    monkeypatch.setattr("marcir.serve.served_annotations.MAX_RETURNED", 1)
    many = server.change("/api/collections/remove", name="Some", ids=[ONE, TWO])
    assert (many["changed"], many["ids"]) == (2, None)


def test_a_collection_filters_searches_samples_and_counts(editing_server: Server) -> None:
    server = editing_server
    server.change("/api/collections", name="Some", ids=[ONE, TWO, THREE, NASTY[0]])
    assert ids(server, collection="Some") == {ONE, TWO, THREE, NASTY[0]}
    assert server.get("/api/labels", collection="Some")["images"] == 4
    found = server.get("/api/search", id=ONE, collection="Some")
    assert {hit["id"] for hit in found["hits"]} == {TWO, THREE, NASTY[0]}
    assert found["total"] == 3
    server.change("/api/collections", name="Empty")
    assert ids(server, collection="Empty") == set()
    assert server.refusal("/api/sample", collection="Sme") == (
        404,
        "there is no collection 'Sme'. Did you mean 'Some'?",
    )


def test_a_collection_is_a_query_by_its_images(editing_server: Server) -> None:
    server = editing_server
    server.change("/api/collections", name="Some", ids=[ONE, TWO])
    by_collection = server.get("/api/search", like="collection:Some", limit=10)
    by_ids = server.get("/api/search", like=[f"id:{ONE}", f"id:{TWO}"], limit=10)
    assert by_collection == by_ids
    server.change("/api/collections", name="Empty")
    status, text = server.refusal("/api/search", like="collection:Empty")
    assert (status, text) == (422, "collection 'Empty': none of its images is in the store. Add some.")


def test_a_whole_collection_is_exported(editing_server: Server) -> None:
    server = editing_server
    everything = [image for image in sorted(ids(server)) if "\n" not in image]
    server.change("/api/collections", name="Ä", ids=everything)
    table = server.ask("/api/collection/export", {"name": "Ä", "format": "csv"})
    rows = list(csv.DictReader(io.StringIO(table.body.decode("utf-8-sig"), newline="")))
    assert [row["id"] for row in rows] == [harmless(image) for image in everything]
    features = server.ask("/api/collection/export", {"name": "Ä", "format": "geojson"}).body
    properties = [each["properties"] for each in json.loads(features)["features"]]
    assert len(properties) == len(everything)
    paths = server.ask("/api/collection/export", {"name": "Ä", "format": "paths"})
    assert paths.body.decode() == "".join(f"{image}\n" for image in everything)
    assert paths.headers["content-disposition"] == 'attachment; filename="marcir-collection.txt"'
    server.change("/api/collections/add", name="Ä", ids=["new\nline\r.png"])
    assert server.refusal("/api/collection/export", name="Ä", format="paths")[0] == 422


def test_a_collection_of_images_without_places_is_no_geojson(editing_server: Server) -> None:
    server = editing_server
    placeless = [hit["id"] for hit in server.get("/api/sample", limit=200)["hits"] if hit["bbox"] is None]
    server.change("/api/collections", name="Some", ids=placeless[:2])
    assert server.refusal("/api/collection/export", name="Some", format="geojson") == (
        422,
        "geojson: none of these images has a place. Use csv or paths.",
    )


def test_images_that_left_the_store_stay_in_collections_and_are_reported(
    editing_server: Server, tmp_path: Path
) -> None:
    server = editing_server
    server.change("/api/collections", name="Some", ids=[ONE])
    file = open_annotations(server.store, tmp_path / "annotations.sqlite", writable=True)
    file.collections.add("Some", ["gone.png"])
    file.labels.set([("ship", "present", ["gone.png"])])
    page = server.get("/api/collection", name="Some")
    assert page["missing"] == 1
    assert [(each["id"], each["image"] is None) for each in page["members"]] == [
        (ONE, False),
        ("gone.png", True),
    ]
    gone = server.get("/api/collection", name="Some", missing="true", limit=1)
    assert ([each["id"] for each in gone["members"]], gone["more"]) == (["gone.png"], False)
    table = server.ask("/api/collection/export", {"name": "Some", "format": "csv"}).body.decode("utf-8-sig")
    assert [(row["id"], row["missing"]) for row in csv.DictReader(io.StringIO(table))] == [
        (ONE, ""),
        ("gone.png", "true"),
    ]
    assert server.get("/api/search", like="collection:Some")["hits"]
    assert server.get("/api/labels/history", id="gone.png")["changes"][0]["label"] == "ship"


def test_images_that_left_the_store_are_counted_once_for_all_pages(
    editing_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = editing_server
    server.change("/api/collections", name="Some", ids=[ONE, TWO, THREE])
    file = open_annotations(server.store, tmp_path / "annotations.sqlite", writable=True)
    read, original = [], CollectionTable.images

    def images(table: CollectionTable, name: str) -> list[str]:
        read.append(name)
        return original(table, name)

    monkeypatch.setattr(CollectionTable, "images", images)
    for gone in ("gone.png", "lost.png"):
        file.collections.add("Some", [gone])
        pages = [server.get("/api/collection", name="Some", offset=at, limit=2) for at in (0, 2, 4)]
        assert {page["missing"] for page in pages} == {len(read)}
    assert read == ["Some", "Some"]


# ---- Labels --------------------------------------------------------------------------------------


def test_labels_of_the_page_win_over_the_table_label_by_label(editing_server: Server) -> None:
    server = editing_server
    before = server.get("/api/image", id=ONE)
    has = before["labels"][0]
    done = server.change(
        "/api/labels",
        changes=[
            {"label": has, "state": "absent", "ids": [ONE]},
            {"label": "barn", "state": "present", "ids": [ONE, TWO]},
        ],
    )
    assert (done["edit"], done["changed"], done["unchanged"]) == (1, 3, 0)
    after = server.get("/api/image", id=ONE)
    assert after["page_labels"] == {has: "absent", "barn": "present"}
    assert after["table_labels"]["labels"] == before["labels"]
    assert set(after["labels"]) == {*before["labels"], "barn"} - {has}
    assert ids(server, any="barn") == {ONE, TWO}
    assert ONE not in ids(server, any=has)
    assert ONE in ids(server, none=has)
    third = server.get("/api/image", id=THREE)
    assert third["unknown"] == ["barn"], "a label that only the page has is unknown where nobody stated it"
    assert ids(server, none="barn") == set()
    counts = {each["name"]: each for each in server.get("/api/labels")["labels"]}
    images = server.get("/api/archive")["images"]
    assert (counts["barn"]["count"], counts["barn"]["unknown"]) == (2, images - 2)
    server.change("/api/labels", changes=[{"label": has, "state": "cleared", "ids": [ONE]}])
    assert has in server.get("/api/image", id=ONE)["labels"], "the table applies again"


def test_edits_are_undone_one_by_one_and_all_are_kept(editing_server: Server) -> None:
    server = editing_server
    server.change("/api/labels", changes=[{"label": "barn", "state": "present", "ids": [ONE]}])
    server.change("/api/labels", changes=[{"label": "barn", "state": "absent", "ids": [ONE, TWO]}])
    assert server.change("/api/labels/undo") == {"edit": 3, "undone": 2, "changed": 2, "kept": 0}
    assert server.get("/api/image", id=ONE)["page_labels"] == {"barn": "present"}
    assert server.get("/api/image", id=TWO)["page_labels"] == {}
    assert server.change("/api/labels/undo")["undone"] == 1
    assert server.change("/api/labels/undo") == {"edit": None, "undone": None, "changed": 0, "kept": 0}
    changes = server.get("/api/labels/history", id=ONE)["changes"]
    assert [(each["before"], each["state"], each["undoes"]) for each in changes] == [
        ("present", "cleared", 1),
        ("absent", "present", 2),
        ("present", "absent", None),
        ("cleared", "present", None),
    ]
    assert all(each["author"] == "local" and each["time"].endswith("Z") for each in changes)


def test_a_change_of_labels_is_undone_by_its_number(editing_server: Server) -> None:
    server = editing_server
    mine = server.change("/api/labels", changes=[{"label": "barn", "state": "present", "ids": [ONE]}])
    server.change("/api/labels", changes=[{"label": "silo", "state": "present", "ids": [ONE]}])
    undone = server.change("/api/labels/undo", edit=mine["edit"])
    assert (undone["undone"], undone["changed"]) == (mine["edit"], 1)
    assert server.get("/api/image", id=ONE)["page_labels"] == {"silo": "present"}
    again = server.post("/api/labels/undo", {"edit": mine["edit"]})
    assert (again.status, "somebody undid it already" in again.error) == (422, True)
    for edit in (99, 0, -1, 2**63, "x"):
        assert server.post("/api/labels/undo", {"edit": edit}).status == 422


def test_numbers_and_truth_values_of_a_body_are_not_guessed(editing_server: Server) -> None:
    server = editing_server
    made = server.change("/api/labels", changes=[{"label": "barn", "state": "present", "ids": [ONE]}])
    assert made["edit"] == 1
    for edit in (True, "1", 1.5, [1]):
        reply = server.post("/api/labels/undo", {"edit": edit})
        assert (reply.status, "edit: input should be a valid integer" in reply.error) == (422, True)
    for value in ("true", 1, "yes"):
        reply = server.post("/api/collections", {"name": "x", "filter": {"none_unknown_ok": value}})
        assert (reply.status, "filter.none_unknown_ok: " in reply.error) == (422, True), reply.error
    assert server.get("/api/image", id=ONE)["page_labels"] == {"barn": "present"}
    assert server.get("/api/collections") == {"collections": []}
    server.change("/api/collections", name="x", filter={"none": ["tree"], "none_unknown_ok": True})


def test_a_label_that_looks_like_one_of_the_table_is_that_label(editing_server: Server) -> None:
    server = editing_server
    for written in ("la\u0308ndlich", "ländlich"):
        server.change("/api/labels", changes=[{"label": written, "state": "present", "ids": [ONE]}])
    assert server.get("/api/image", id=ONE)["page_labels"] == {"ländlich": "present"}


def test_labels_are_given_to_all_that_pass_a_filter(editing_server: Server) -> None:
    server = editing_server
    trees = ids(server, any="tree")
    done = server.change(
        "/api/labels", changes=[{"label": "checked", "state": "present", "filter": {"any": ["tree"]}}]
    )
    assert done["changed"] == len(trees)
    assert ids(server, any="checked") == trees
    assert server.change(
        "/api/labels", changes=[{"label": "checked", "state": "present", "ids": [*trees]}]
    ) == {
        "edit": None,
        "changed": 0,
        "unchanged": len(trees),
    }


def test_too_many_labels_are_refused_before_all_filters_are_applied(
    editing_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marcir.annotations.label_log.MAX_CHANGES", 60)
    applied, original = [], ServedArchive.where

    def where(archive: ServedArchive, given: FilterParameters) -> Filter:
        applied.append(given)
        return original(archive, given)

    monkeypatch.setattr(ServedArchive, "where", where)
    everything = [{"label": f"a{number}", "state": "present", "filter": {}} for number in range(21)]
    reply = editing_server.post("/api/labels", {"changes": everything[:20]})
    assert (reply.status, "more than 60 labels of images" in reply.error) == (422, True), reply.error
    assert len(applied) == 2  # of 53 images each
    reply = editing_server.post("/api/labels", {"changes": everything})
    assert (reply.status, "21 changes have a filter: at most 20" in reply.error) == (422, True), reply.error
    assert len(applied) == 2


def test_as_many_ids_as_one_request_may_have_fit_into_its_body(editing_server: Server) -> None:
    folder = "S2A_MSIL2A_20240501T103031_N0510_R108_T32UQD_20240501T164454.SAFE/GRANULE/L2A_T32UQD_A046"
    windows = [f"{folder}/IMG_DATA/R10m/TCI_10m.tif@x={x},y=10240,w=256,h=256" for x in range(MAX_CHOSEN)]
    changes = [{"label": "barn", "state": "cleared", "ids": windows}]
    assert editing_server.change("/api/labels", changes=changes)["unchanged"] == MAX_CHOSEN


def test_the_exported_label_table_has_the_three_states(editing_server: Server, tmp_path: Path) -> None:
    server = editing_server
    server.change(
        "/api/labels",
        changes=[
            {"label": "barn", "state": "present", "ids": [ONE]},
            {"label": "barn", "state": "absent", "ids": [TWO]},
            {"label": "tree", "state": "unknown", "ids": [ONE]},
        ],
    )
    reply = server.ask("/api/labels/export")
    (tmp_path / "labels.csv").write_bytes(reply.body)
    table = read_label_table(tmp_path / "labels.csv")
    rows = {row.image: row for row in table.rows}
    assert table.unlisted == "unknown"
    assert "barn" in rows[ONE].labels
    assert "tree" in rows[ONE].unknown
    assert "barn" not in (*rows[TWO].labels, *rows[TWO].unknown)
    assert "barn" in rows[THREE].unknown


def test_the_commands_to_retrain_are_shown_to_editors(editing_server: Server, server: Server) -> None:
    found = editing_server.get("/api/retrain")
    assert [each["command"].split()[:2] for each in found["commands"]] == [
        ["marcir", command] for command in ("labels", "train", "index", "evaluate", "evaluate", "compare")
    ]
    assert found["labelled"] > 40
    assert found["note"] is None
    assert server.refusal("/api/retrain")[0] == 403
    editing_server.change("/api/labels", changes=[{"label": "barn", "state": "present", "ids": [ONE]}])
    assert "Some labels are unknown" in editing_server.get("/api/retrain")["note"]


# ---- Who may change what -------------------------------------------------------------------------

CHANGES = [
    ("/api/collections", {"name": "x"}),
    ("/api/collections/add", {"name": "x", "ids": [ONE]}),
    ("/api/collections/remove", {"name": "x", "ids": [ONE]}),
    ("/api/collections/rename", {"name": "x", "new_name": "y"}),
    ("/api/collections/delete", {"name": "x"}),
    ("/api/labels", {"changes": [{"label": "x", "state": "present", "ids": [ONE]}]}),
    ("/api/labels/undo", {}),
]


@pytest.mark.parametrize(("path", "content"), CHANGES)
def test_nothing_is_changed_where_edits_are_not_allowed(server: Server, path: str, content: object) -> None:
    reply = server.post(path, content)
    assert (reply.status, reply.error) == (
        403,
        "changes are not allowed: the service was started without --allow-edits.",
    )
    assert server.get("/api/archive")["editable"] is False
    assert not list(server.store.parent.glob("*.sqlite*"))


def test_pages_of_other_sites_and_forms_change_nothing(editing_server: Server) -> None:
    server = editing_server
    for path, content in CHANGES:
        for site in ("cross-site", "same-site"):
            assert server.post(path, content, **{"Sec-Fetch-Site": site}).status == 403
        for origin in ("http://evil.example", "null", server.url.replace("127.0.0.1", "localhost"), ""):
            assert server.post(path, content, Origin=origin).status == 403
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            reply = server.post(path, content, **{"Content-Type": kind})
            assert (reply.status, reply.error) == (415, "Content-Type: send application/json.")
        reply = server.post(path, content, Host="evil.example")
        assert reply.status == 400, "a name that leads to this machine"
        assert server.ask(path, method="PUT").status == 405
    assert server.get("/api/collections") == {"collections": []}
    assert server.get("/api/image", id=ONE)["page_labels"] == {}


def test_changes_need_the_token_and_are_of_its_holder(
    served_store: Path, served_images: Path, served_model: Path, served_cache: Path, tmp_path: Path
) -> None:
    edits = tmp_path / "annotations.sqlite"
    with serving_in_a_thread(
        served_store, served_images, served_model, served_cache, token=TOKEN, edits=edits
    ) as server:
        for path, content in CHANGES:
            assert server.post(path, content, Authorization="Bearer wrong").status == 401
        assert server.change("/api/collections", name="x")["collection"]["author"] == "token"
        assert TOKEN not in server.log.read_text()


def test_edits_are_refused_where_others_could_send_them() -> None:
    with pytest.raises(ConfigError, match="--allow-edits and --no-auth exclude each other"):
        Settings("a.store", host="0.0.0.0", no_auth=True, allow_edits=True)  # noqa: S104
    with pytest.raises(ConfigError, match="not on a disk. Say where annotations are kept"):
        Settings("s3://bucket/a.store", allow_edits=True)
    assert Settings("a.store", allow_edits=True).author == "local"
    assert Settings("a.store", host="0.0.0.0", token=TOKEN, allow_edits=True).author == "token"  # noqa: S104


def test_annotations_are_never_kept_among_the_images(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lies in the folder of images"):
        Settings("a.store", tmp_path, allow_edits=True, annotations=tmp_path / "below" / "a.sqlite")


@pytest.mark.parametrize(
    ("path", "content", "status", "text"),
    [
        ("/api/collections", {"name": "a\nb"}, 422, "no line breaks"),
        ("/api/collections", {"name": " "}, 422, "give it a name"),
        ("/api/collections", {"name": "x" * 101}, 422, "name: string should have at most 100"),
        ("/api/collections", {"name": "x", "ids": [ONE], "filter": {}}, 422, "either ids or a filter"),
        ("/api/collections", {"name": "x", "ids": ["images/00001.png"]}, 404, "Did you mean"),
        (
            "/api/collections",
            {"name": "x", "filter": {"any": ["no such label"]}},
            422,
            "no image of the store",
        ),
        ("/api/collections", {"name": "x", "filter": {"anny": ["tree"]}}, 422, "Did you mean 'any'?"),
        ("/api/collections", {"name": "x", "extra": 1}, 422, "extra: extra inputs are not permitted"),
        ("/api/collections", {"name": "x", "filter": [None]}, 422, "filter: input should be"),
        ("/api/collections", [], 422, "the body"),
        ("/api/collections/add", {"name": "x"}, 422, "ids or a filter"),
        ("/api/collections/add", {"name": "x", "ids": [ONE]}, 404, "there is no collection 'x'"),
        ("/api/labels", {"changes": []}, 422, "changes"),
        *(
            ("/api/labels", {"changes": [{"label": name, "state": "present", "ids": [ONE]}]}, 422, "label")
            for name in ("a;b", "?a", "!a", "a?", "a\u202eb", "\x00", "", "x" * 101)
        ),
        (
            "/api/labels",
            {"changes": [{"label": "a", "state": "maybe", "ids": [ONE]}]},
            422,
            "changes.0.state",
        ),
        (
            "/api/labels",
            {"changes": [{"label": "a", "state": "present", "ids": [""]}]},
            422,
            "changes.0.ids.0",
        ),
        (
            "/api/labels",
            {"changes": [{"label": "a", "state": state, "ids": [ONE]} for state in ("present", "absent")]},
            422,
            "is to be present and absent",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_reason(
    editing_server: Server, path: str, content: object, status: int, text: str
) -> None:
    reply = editing_server.post(path, content)
    assert (reply.status, text in reply.error) == (status, True), reply.body
    assert editing_server.get("/api/collections") == {"collections": []}


def test_hostile_names_are_kept_as_they_are(editing_server: Server) -> None:
    for name in ("'; DROP TABLE members; --", '<img src=x onerror="alert(1)">', "=1+1", "日本 🛰", "100%_"):
        editing_server.change("/api/collections", name=name, ids=list(NASTY))
        assert editing_server.get("/api/collection", name=name)["collection"]["images"] == len(NASTY)
    assert len(editing_server.get("/api/collections")["collections"]) == 5


def test_a_body_that_is_too_large_or_no_json_is_refused(editing_server: Server) -> None:
    kind = {"Content-Type": "application/json"}
    large = b'{"name": "' + b"x" * MAX_EDIT_BYTES + b'"}'
    assert editing_server.ask("/api/collections", method="POST", body=large, headers=kind).status == 413
    for body in (b"", b"{", b"\xff", b'{"name": "\\ud800"}', b"[" * 100_000):
        assert editing_server.ask("/api/collections", method="POST", body=body, headers=kind).status == 422
