"""Questions to the service that tests of labels ask behind the back of the page."""

import json
from typing import Any

from serve.page.browsing import Visit
from serve.server_process import Server


def labels_of(server: Server, image: str) -> dict[str, str]:
    """What the page has stated of an image."""
    found: dict[str, str] = server.get("/api/image", id=image)["page_labels"]
    return found


def until_stated(visit: Visit, image: str, expected: dict[str, str]) -> None:
    """Wait for the service: a change is shown at once, and sent then."""
    for _ in range(100):
        if labels_of(visit.server, image) == expected:
            return
        visit.page.wait_for_timeout(50)
    assert labels_of(visit.server, image) == expected


def give(server: Server, label: str, state: str, *ids: str) -> None:
    """Give a label to images, as another person would."""
    content = {"changes": [{"label": label, "state": state, "ids": list(ids)}]}
    reply = server.ask(
        "/api/labels",
        method="POST",
        body=json.dumps(content).encode(),
        headers={"Content-Type": "application/json"},
    )
    assert reply.status == 200, reply.body


def history_of(server: Server, image: str) -> list[dict[str, Any]]:
    """Every change of the labels of an image, the newest first."""
    found: list[dict[str, Any]] = server.get("/api/labels/history", id=image)["changes"]
    return found
