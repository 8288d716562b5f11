"""The OpenAPI description: it is true, and nothing that fits it breaks the service."""

import json
import subprocess
import sysconfig
from pathlib import Path

import pytest

from serve.server_process import Server

SCHEMATHESIS = Path(sysconfig.get_path("scripts")) / "schemathesis"
OPERATIONS = {
    "get_archive",
    "count_labels",
    "get_sample",
    "search",
    "search_by_upload",
    "embed",
    "get_image",
    "get_thumbnail",
    "get_original",
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
    command = [
        SCHEMATHESIS,
        "run",
        f"{running.url}/api/openapi.json",
        "--exclude-checks",
        "positive_data_acceptance",
    ]
    phases = "examples,fuzzing" if guarded else "examples,coverage,fuzzing"
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
    token = ["--header", f"Authorization: Bearer {running.token}"] if guarded else []
    done = subprocess.run(
        [*map(str, command), *options, *token], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.returncode == 0, json.dumps(done.stdout)[-4000:] + done.stderr
    assert "Traceback" not in running.log.read_text()
