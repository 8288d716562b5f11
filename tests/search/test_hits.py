"""Hits as JSON, CSV and GeoJSON; metadata as columns and properties of their own."""

import csv
import datetime
import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from marcir.errors import StoreError
from marcir.search.hits import COLUMNS, Hit, as_csv, as_geojson, label_shares, metadata_names
from marcir.search.records import Row


def hit(name: str, **metadata: Any) -> Hit:
    return Hit(
        name,
        0.5,
        ("tree", "grass"),
        ("car", "ship"),
        (),
        None,
        64,
        32,
        (1.0, 2.0, 3.0, 4.0),
        datetime.date(2024, 5, 31),
        metadata,
    )


def rows(*hits: Hit) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(as_csv(list(hits)).decode("utf-8-sig"), newline="")))


def properties(*hits: Hit) -> list[dict[str, Any]]:
    return [feature["properties"] for feature in json.loads(as_geojson(list(hits)))["features"]]


OWN = list(COLUMNS)


def test_metadata_are_columns_after_our_own_and_empty_where_an_image_has_none() -> None:
    first, second = rows(hit("a", sensor="S2"), hit("b", note="two, words", sensor="S1"))
    assert list(first) == [*OWN, "sensor", "note"]
    assert (first["sensor"], first["note"]) == ("S2", "")
    assert (second["sensor"], second["note"]) == ("S1", "two, words")


def test_without_metadata_there_are_our_columns_alone() -> None:
    assert list(rows(hit("a"))[0]) == OWN


@pytest.mark.parametrize("name", OWN)
def test_metadata_named_as_one_of_our_columns_overwrite_nothing(name: str) -> None:
    given = hit("a", **{name: "theirs", f"metadata.{name}": "both"})
    (plain,), (row,) = rows(hit("a")), rows(given)
    assert {column: row[column] for column in OWN} == plain
    assert sorted(set(row.values()) & {"theirs", "both"}) == ["both", "theirs"]
    (ours,), (found,) = properties(hit("a")), properties(given)
    assert {each: found[each] for each in ours} == ours
    assert {"theirs", "both"} <= {value for value in found.values() if isinstance(value, str)}


def test_metadata_are_properties_of_a_feature_with_their_types() -> None:
    (found,) = properties(hit("a", sensor="S2", cloud=0.25, bands=["B2", "B3"]))
    assert (found["sensor"], found["cloud"], found["bands"]) == ("S2", 0.25, ["B2", "B3"])
    assert "metadata" not in found


def test_values_that_are_no_text_are_json_in_a_cell() -> None:
    (row,) = rows(hit("a", bands=["B2", "B3"], cloud=0.25, night=True, nothing=None))
    assert (row["bands"], row["cloud"], row["night"], row["nothing"]) == ('["B2", "B3"]', "0.25", "true", "")


def test_metadata_run_nothing_in_a_spreadsheet_and_numbers_stay_numbers() -> None:
    (row,) = rows(
        hit("a", **{"=cmd|x": "=1+1", "height above sea": "-12.5", "slope": "+3e-2", "range": "-1-2"})
    )
    assert row["'=cmd|x"] == "'=1+1"
    assert (row["height above sea"], row["slope"], row["range"]) == ("-12.5", "+3e-2", "'-1-2")


def test_names_of_our_own_columns_are_prefixed_in_exports() -> None:
    assert metadata_names([hit("a", sensor="S2", width="9")]) == {
        "sensor": "sensor",
        "width": "metadata.width",
    }


def test_every_format_has_the_same_values() -> None:
    one = hit("a", sensor="S2")
    (row,), (found,), json_ = rows(one), properties(one), one.as_json()
    assert (row["id"], row["date"], row["labels"]) == ("a", "2024-05-31", "tree;grass")
    assert row["unknown"] == "car;ship"
    for name in ("id", "similarity", "labels", "unknown", "date"):
        assert found[name] == json_[name]
    assert json.loads(json.dumps(json_))["bbox"] == [1, 2, 3, 4]


def test_hits_without_boxes_are_no_map() -> None:
    with pytest.raises(StoreError, match="no hit of this page has a bounding box"):
        as_geojson([replace(hit("a"), bbox=None)])


def test_a_cosine_that_rounding_has_carried_past_one_is_one() -> None:
    row = Row("a", np.ones(1, np.float32))
    assert [Hit.from_row(row, cosine).similarity for cosine in (1.0000001, -1.0000001, 0.5, None)] == [
        *(1.0, -1.0, 0.5, None)
    ]


@pytest.mark.parametrize(
    ("labels", "unknown", "query", "query_unknown", "shared", "agreement"),
    [
        ("a", "", "ab", "", "a", 1 / 2),
        ("a", "b", "ab", "", "a", 1),
        ("ac", "b", "ab", "", "a", 1 / 2),
        ("ac", "", "ab", "c", "a", 1 / 2),
        ("ac", "b", "ab", "c", "a", 1),
        ("c", "a", "ab", "", "", None),
        ("c", "", "ab", "c", "", None),
        ("c", "d", "ab", "d", "", 0),
        ("", "a", "a", "", "", None),
        ("c", "a", "a", "c", "", None),
        ("a", "b", "", "", "", None),
    ],
)
def test_agreement_counts_what_is_known_of_both(
    labels: str, unknown: str, query: str, query_unknown: str, shared: str, agreement: float | None
) -> None:
    row = Row("x", np.ones(1, np.float32), tuple(labels), unknown=tuple(unknown))
    found = Hit.from_row(row, 0.5, tuple(query), tuple(query_unknown))
    assert (found.labels, found.unknown) == (tuple(labels), tuple(unknown))
    assert (found.shared, found.agreement) == (tuple(shared), agreement)


def test_unknown_labels_have_no_share() -> None:
    assert label_shares([hit("a"), replace(hit("b"), labels=("car",), unknown=())]) == {
        "car": 0.5,
        "grass": 0.5,
        "tree": 0.5,
    }
