"""The OpenAPI description: it is true, and nothing that fits it breaks the service."""

import json
import subprocess
import sysconfig
from pathlib import Path

import pytest

from serve.server_process import Server

SCHEMATHESIS = Path(sysconfig.get_path("scripts")) / "schemathesis"
OPERATIONS = {
    "add_to_collection",
    "create_collection",
    "delete_collection",
    "export_collection",
    "export_labels",
    "get_collection",
    "get_history",
    "get_retrain",
    "list_collections",
    "remove_from_collection",
    "rename_collection",
    "set_labels",
    "undo_labels",
    "get_archive",
    "count_labels",
    "get_sample",
    "search",
    "search_by_upload",
    "embed",
    "get_image",
    "list_images",
    "suggest",
    "suggest_ids",
    "score_suggestions",
    "get_map",
    "get_map_ids",
    "get_thumbnail",
    "get_original",
    "get_window",
    "get_scene",
    "get_health",
    "begin_session",
    "end_session",
}


def operations(server: Server) -> dict[str, dict[str, object]]:
    paths = server.get("/api/openapi.json")["paths"]
    return {each["operationId"]: each for methods in paths.values() for each in methods.values()}


def test_every_operation_has_a_name_a_summary_and_its_refusals(server: Server) -> None:
    found = operations(server)
    assert set(found) == OPERATIONS
    for operation in found.values():
        assert operation["summary"]
        assert operation["description"]
        assert "401" in operation["responses"]  # type: ignore[operator]


def test_the_token_is_described_where_there_is_one(server: Server, guarded_server: Server) -> None:
    assert all("security" not in operation for operation in operations(server).values())
    for name, operation in operations(guarded_server).items():
        assert operation["security"] == (
            [] if name in ("get_health", "begin_session", "end_session") else [{"token": []}]
        )


@pytest.mark.slow
def test_nothing_that_fits_the_description_or_does_not_breaks_a_service_that_is_edited(
    editing_server: Server, tmp_path: Path
) -> None:
    editing_server.change("/api/collections", name="Ships", ids=["images/000001.png"])
    changes = [{"label": "ship", "state": "present", "ids": ["images/000001.png"]}]
    editing_server.change("/api/labels", changes=changes)
    paths = ["--include-path-regex", "collection|labels|retrain|/api/search"]
    check_with_schemathesis(editing_server, "examples,coverage,fuzzing", tmp_path, *paths)
    assert editing_server.get("/api/archive")["editable"] is True


@pytest.mark.slow
@pytest.mark.parametrize("guarded", [False, True], ids=["open", "with a token"])
def test_nothing_that_fits_the_description_or_does_not_breaks_the_service(
    server: Server, guarded_server: Server, guarded: bool, tmp_path: Path
) -> None:
    """Valid and invalid requests are answered as described, never with a 5xx.

    Not checked: that all valid ones are accepted (a text is valid, and no label of this archive).
    """
    running = guarded_server if guarded else server
    description = running.get("/api/openapi.json")
    example = description["paths"]["/api/search"]["get"]["parameters"]
    assert {each["name"] for each in example} >= {
        "id",
        "vector",
        "like",
        "unlike",
        "label",
        "any",
        "all",
        "none",
    }
    token = ["--header", f"Authorization: Bearer {running.token}"] if guarded else []
    check_with_schemathesis(
        running, "examples,fuzzing" if guarded else "examples,coverage,fuzzing", tmp_path, *token
    )


def check_with_schemathesis(running: Server, phases: str, folder: Path, *more: str) -> None:
    command = [
        SCHEMATHESIS,
        "run",
        f"{running.url}/api/openapi.json",
        "--exclude-checks",
        "positive_data_acceptance",
    ]
    options = [
        "--max-examples",
        "5",
        "--phases",
        phases,
        "--seed",
        "1",
        "--generation-database",
        "none",
        "--no-color",
    ]
    done = subprocess.run(
        [*map(str, command), *options, *more], capture_output=True, text=True, timeout=120, cwd=folder
    )
    assert done.returncode == 0, json.dumps(done.stdout)[-4000:] + done.stderr
    assert "Traceback" not in running.log.read_text()
