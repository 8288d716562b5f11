"""What the service logs: one line per search, upload and error, and nothing that a request can forge."""

import asyncio
import json
import logging
import re
import time
from collections.abc import Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi import FastAPI

from marcir.serve.errors import add_handlers
from marcir.serve.middleware import SecurityMiddleware
from marcir.serve.parameters import SearchParameters
from marcir.serve.request_log import LineFormatter, RequestLogMiddleware, RequestNotes
from marcir.serve.settings import Settings
from serve.server_process import Server, until

FIRST = "images/000000.png"
TOKEN = "a-token-of-tests-0123456789"  # noqa: S105


@contextmanager
def logged(server: Server) -> Iterator[list[str]]:
    """The lines that the requests of a block have caused, without their times.

    A line is written after its response was sent, so a request that always causes a line begins and ends the
    block: lines of earlier requests are before the first, lines of the block between both.
    """
    lines: list[str] = []
    begin = mark(server)
    yield lines
    end = mark(server)
    text = server.log.read_bytes().decode()
    for line in text[text.index(begin) : text.index(end)].splitlines()[1:-1]:
        stamp = re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ", line)
        assert stamp, f"a line without a time: {line}"
        lines.append(line[stamp.end() :])


def mark(server: Server) -> str:
    """A path that is unknown to the service, in the log."""
    path = f"/mark-{time.monotonic_ns()}"
    server.ask(path)
    until(lambda: path in server.log.read_text(), "the line of a mark")
    return path


def test_a_search_is_one_line_with_question_hits_time_and_status(server: Server) -> None:
    with logged(server) as lines:
        server.get("/api/search", id=FIRST, any=["tree", "grass"], limit=5)
    (line,) = lines
    assert re.fullmatch(
        rf"127\.0\.0\.1 GET /api/search 200, \d+ ms, 5 hits: id='{FIRST}' any='tree' any='grass' limit=5",
        line,
    )


def test_vectors_are_not_logged(server: Server) -> None:
    content = (server.images / FIRST).read_bytes()
    vector = server.upload("/api/embed", content).json()["vector"]
    with logged(server) as lines:
        server.get("/api/search", vector=vector)
        server.get("/api/search", like=[f"vector:{vector}", f"id:{FIRST}"], unlike=f"vector:{vector}")
    assert [line.partition(" hits: ")[2] for line in lines] == [
        "vector",
        f"like=vector like='id:{FIRST}' unlike=vector",
    ]


def test_an_upload_is_one_line(server: Server) -> None:
    content = (server.images / FIRST).read_bytes()
    with logged(server) as lines:
        server.upload("/api/embed", content)
        server.upload("/api/search", content, none="tree", limit=3)
    assert re.fullmatch(
        rf"127\.0\.0\.1 POST /api/embed 200, \d+ ms: upload of {len(content):,} bytes, 24 x 24 pixels",
        lines[0],
    )
    assert re.fullmatch(
        rf"127\.0\.0\.1 POST /api/search 200, \d+ ms, 3 hits: upload of {len(content):,} bytes, "
        "24 x 24 pixels, none='tree' limit=3",
        lines[1],
    )


def test_a_refused_request_is_one_line_with_the_reason(server: Server) -> None:
    with logged(server) as lines:
        server.refusal("/api/search", label="tre")
        server.upload("/api/embed", b"no image")
        server.ask("/page/nothing.css")
        server.ask("/api/thumbnail", {"id": "nothing.png"})
    assert [re.sub(r"\d+ ms", "n ms", line.partition(" ")[2])[:70] for line in lines] == [
        "GET /api/search 422, n ms: no image of the store has the label 'tre'. ",
        "POST /api/embed 422, n ms: the upload: not a readable JPEG, PNG, WebP ",
        "GET /page/nothing.css 404, n ms: there is no such file of the page.",
        "GET /api/thumbnail 404, n ms: no image 'nothing.png' in the store. Ids",
    ]


def test_thumbnails_files_the_page_and_health_are_not_logged(server: Server) -> None:
    with logged(server) as lines:
        for path in ("/", "/page/main.js", "/page/layout.css", "/health", "/api/openapi.json"):
            assert server.ask(path).status == 200
        for path in ("/api/thumbnail", "/api/original", "/api/image"):
            assert server.ask(path, {"id": FIRST}).status == 200
        for path in ("/api/archive", "/api/labels", "/api/sample"):
            assert server.ask(path).status == 200
    assert lines == []


def test_ids_labels_and_paths_cannot_forge_a_line(server: Server) -> None:
    forged = "x\r\n2024-01-01 00:00:00,000 127.0.0.1 GET /api/search 200\x1b[31m\u2028\u202e"
    with logged(server) as lines:
        server.get("/api/search", id="new\nline\r.png", limit=1)
        server.ask("/api/search", {"id": forged})
        server.ask("/api/search", {"label": forged})
        server.ask("/api/labels", {"any": forged})
        server.ask("/api/search", {"id": FIRST, forged: "1"})
        server.ask("/nowhere/%0a2024-01-01%2000:00:00,000%20forged%1b[31m")
        server.ask("/nowhere", headers={"X-Forwarded-For": "1.2.3.4 GET /api/search 200"})
        server.upload("/api/search", (server.images / FIRST).read_bytes(), any=forged)
    assert len(lines) == 8
    assert "id='new\\nline\\r.png'" in lines[0]
    assert all(line.isprintable() for line in lines)
    assert all(re.match(r"\S+ (GET|POST) \S+ \d{3}, \d+ ms", line) for line in lines)


def test_long_questions_are_shortened(server: Server) -> None:
    with logged(server) as lines:
        server.refusal("/api/search", id="x" * 4000)
        server.refusal("/api/search", **{"y" * 4000: 1})
        server.ask(f"/{'z' * 4000}")
        server.get("/api/search", like=[f"id:images/{number:06}.png" for number in range(20)])
    assert all(len(line) < 600 for line in lines)
    assert lines[3].endswith("like='id:images/000002.png' (17 more)")


def test_the_token_is_never_logged(guarded_server: Server) -> None:
    token = str(guarded_server.token)
    with logged(guarded_server) as lines:
        guarded_server.ask("/api/search", {"id": FIRST, "any": token})
        guarded_server.ask("/api/search", {"label": f"{'x' * 70}{token}"})
        guarded_server.ask("/api/search", {"id": token, token: token})
        guarded_server.ask(f"/nowhere/{token}")
        guarded_server.ask(f"/{'x' * 180}{token}")
    assert len(lines) == 5
    assert token not in "".join(lines)
    assert token[:9] not in "".join(lines), "not even the beginning of it, where a text is cut"


def test_requests_without_the_token_are_logged_without_their_question(guarded_server: Server) -> None:
    with logged(guarded_server) as lines:
        guarded_server.ask("/api/search", {"id": "private"}, headers={"Authorization": "Bearer wrong-guess"})
    (line,) = lines
    assert " GET /api/search 401, " in line
    assert "private" not in line
    assert "guess" not in line


# ---- The parts -----------------------------------------------------------------------------------


def test_a_token_with_quotes_and_backslashes_is_not_logged() -> None:
    notes = RequestNotes(token="it's\\a-token")  # noqa: S106
    notes.add_parameters({"id": "x it's\\a-token y"})
    assert notes.asked == ["id='x *** y'"]


def test_a_bug_is_logged_with_its_traceback_and_answered_without_it(caplog: pytest.LogCaptureFixture) -> None:
    app = FastAPI()
    add_handlers(app)

    @app.get("/bug")
    async def fail() -> None:
        raise ZeroDivisionError("inside")

    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    guarded = RequestLogMiddleware(SecurityMiddleware(app, Settings("store")))
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/bug",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    # In a thread: tests of the page leave an event loop in this one.
    with caplog.at_level(logging.INFO, "marcir.serve"), ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(guarded(scope, receive, send))).result()
    assert sent[0]["status"] == 500
    assert json.loads(sent[1]["body"]) == {
        "error": "something went wrong in the service. The reason is in its log."
    }
    # Servers of other tests, in threads of their own, may log at the same time.
    ours = [record for record in caplog.records if record.exc_info or "/bug" in record.getMessage()]
    failed, line = [record for record in ours if record.name == "marcir.serve"]
    assert failed.exc_info is not None
    assert isinstance(failed.exc_info[1], ZeroDivisionError)
    assert line.getMessage().startswith("- GET /bug 500, ")


def test_a_traceback_is_indented_so_that_no_line_of_it_looks_like_an_entry() -> None:
    try:
        raise ValueError(f"first\n2024-01-01 00:00:00,000 forged {TOKEN}\x1b")
    except ValueError as error:
        record = logging.LogRecord(
            "x", logging.ERROR, "x.py", 1, "%s failed", ("/a\nb",), (type(error), error, None)
        )
    first, *others = LineFormatter(TOKEN).format(record).splitlines()
    assert first.endswith(" /a\\nb failed")
    assert others
    assert all(line.startswith("    ") for line in others)
    assert TOKEN not in "".join(others)
    assert "\x1b" not in "".join(others)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"id": "a"}, "id='a'"),
        ({"label": ["a", "b"], "offset": 24}, "label='a' label='b' offset=24"),
        ({"id": "a", "min_similarity": 0.5, "format": "csv"}, "id='a' min_similarity=0.5 format=csv"),
    ],
)
def test_a_question_is_logged_in_short(asked: dict[str, object], text: str) -> None:
    notes = RequestNotes()
    notes.add_parameters(SearchParameters.model_validate(asked).non_defaults)
    assert notes.asked == [text]
