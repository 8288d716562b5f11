"""Who may ask, and what goes with every response."""

import http.client
import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from marcir.cli import main
from marcir.errors import ConfigError
from marcir.serve.middleware import COOKIE, Sessions
from marcir.serve.settings import Settings
from serve.server_process import Reply, Server

FIRST = "images/000000.png"
POLICY = (
    "default-src 'none'; img-src 'self' data: blob:; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
SECRET = [
    "/api/archive",
    "/api/labels",
    "/api/sample",
    f"/api/search?id={FIRST}",
    f"/api/image?id={FIRST}",
    f"/api/thumbnail?id={FIRST}",
    f"/api/original?id={FIRST}",
    "/api/nowhere",
    "//api/archive",
    "/api/session/",
    "/anything",
]


def without_token(server: Server, path: str, method: str = "GET", **headers: str) -> Reply:
    return server.ask(path, method=method, headers={"Authorization": "", **headers})


def session(server: Server, token: object, **headers: str) -> Reply:
    given = {"Authorization": "", "Content-Type": "application/json", **headers}
    body = json.dumps({"token": token}).encode()
    return server.ask("/api/session", method="POST", body=body, headers=given)


# ---- Headers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/health", 200),
        ("/api/archive", 200),
        ("/api/openapi.json", 200),
        (f"/api/thumbnail?id={FIRST}", 200),
        (f"/api/original?id={FIRST}", 200),
        ("/api/image?id=nowhere", 404),
        ("/api/search", 422),
        ("/nowhere", 404),
        ("/page/nowhere.js", 404),
    ],
)
def test_every_response_has_the_headers_that_keep_browsers_safe(
    server: Server, path: str, status: int
) -> None:
    reply = server.ask(path)
    assert reply.status == status
    assert reply.headers["content-security-policy"] == POLICY
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert reply.headers["cross-origin-resource-policy"] == "same-origin"
    assert "total;dur=" in reply.headers["server-timing"]
    assert "access-control-allow-origin" not in reply.headers


def test_what_is_no_http_is_refused_with_the_same_headers(server: Server) -> None:
    parts = urlsplit(server.url)
    for sent in (b"no HTTP\r\n\r\n", b"GET / HTTP/1.1\r\nno header\r\n\r\n"):
        with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
            connection.sendall(sent)
            head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert f"content-security-policy: {POLICY}".encode() in head
        assert list(json.loads(body)) == ["error"]


def test_the_page_and_its_files_are_sent_with_their_types(server: Server) -> None:
    page = server.ask("/?id=a&id=b")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    script = server.ask("/page/main.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    again = server.ask("/page/main.js", headers={"If-None-Match": script.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


# ---- Host names ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "192.168.0.1:80", "", "[::2]", "127.0.0.1.x"]
)
def test_a_foreign_name_for_this_machine_is_refused(server: Server, host: str) -> None:
    for path in ("/", "/health", "/api/archive"):
        reply = server.ask(path, headers={"Host": host})
        assert reply.status == 400
        assert "--token" in reply.error
        assert "--no-auth" in reply.error


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:9999", "127.1.2.3", "[::1]:80", "a.localhost"]
)
def test_names_of_this_machine_are_served(server: Server, host: str) -> None:
    assert server.ask("/api/archive", headers={"Host": host}).status == 200


def test_with_a_token_any_name_is_served(guarded_server: Server) -> None:
    assert guarded_server.ask("/api/archive", headers={"Host": "archive.example"}).status == 200


def test_pages_of_other_sites_cannot_make_the_service_work(server: Server) -> None:
    for site in ("cross-site", "same-site"):
        headers = {"Sec-Fetch-Site": site, "Content-Type": "image/png"}
        assert server.ask("/api/embed", method="POST", body=b"x", headers=headers).status == 403
    own = {"Sec-Fetch-Site": "same-origin", "Content-Type": "image/png"}
    assert server.ask("/api/embed", method="POST", body=b"x", headers=own).status == 422


@pytest.mark.parametrize(
    ("host", "origin", "site", "status"),
    [
        ("archive.example", "https://archive.example", "", 422),
        ("Archive.example:8443", "https://archive.example:8443", "", 422),
        ("archive.example", "https://archive.example:8443", "same-origin", 422),
        ("archive.example", "https://archive.example:8443", "", 403),
        ("archive.example", "https://evil.example", "", 403),
        ("archive.example", "http://archive.example.evil.example", "", 403),
        ("archive.example", "null", "", 403),
        ("", "null", "", 403),
    ],
)
def test_where_a_browser_does_not_say_which_site_asks_its_origin_must_be_the_host(
    guarded_server: Server, host: str, origin: str, site: str, status: int
) -> None:
    """Browsers leave `Sec-Fetch-Site` out over plain HTTP, except for this machine."""
    headers = {"Host": host, "Origin": origin, "Content-Type": "image/png"}
    headers |= {"Authorization": f"Bearer {guarded_server.token}"} | (
        {"Sec-Fetch-Site": site} if site else {}
    )
    reply = guarded_server.ask("/api/embed", method="POST", body=b"x", headers=headers)
    assert reply.status == status
    assert guarded_server.ask("/api/archive", headers={"Origin": origin}).status == 200, "nothing changes"


# ---- Tokens --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SECRET)
def test_without_the_token_nothing_of_the_archive_is_shown(guarded_server: Server, path: str) -> None:
    token = str(guarded_server.token)
    for given in ("", "Bearer", "Bearer wrong", f"Bearer {token}x", f"Basic {token}", token, "Bearer \xff"):
        reply = guarded_server.ask(path, headers={"Authorization": given})
        assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
        assert reply.error.startswith("Authorization: the token is missing or wrong.")
    for query in ("token", "access_token"):
        join = "&" if "?" in path else "?"
        assert without_token(guarded_server, f"{path}{join}{query}={token}").status == 401


def test_the_page_and_health_need_no_token(guarded_server: Server) -> None:
    for path in ("/", "/page/main.js", "/health", "/api/openapi.json"):
        assert without_token(guarded_server, path).status == 200


def test_a_session_stands_for_the_token(guarded_server: Server) -> None:
    reply = session(guarded_server, guarded_server.token)
    assert (reply.status, reply.body) == (204, b"")
    cookie, *attributes = reply.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(attributes)
    assert "Secure" not in attributes
    assert str(guarded_server.token) not in cookie
    assert without_token(guarded_server, "/api/archive", Cookie=cookie).status == 200
    assert without_token(guarded_server, f"/api/thumbnail?id={FIRST}", Cookie=f"a=b; {cookie}").status == 200
    name, value = cookie.split("=", 1)
    until, signature = value.split(".")
    for forged in (
        f"{int(until) + 1}.{signature}",
        f"{until}.",
        f".{signature}",
        "x.y",
        "",
        f"{until}.{signature}0",
    ):
        assert without_token(guarded_server, "/api/archive", Cookie=f"{name}={forged}").status == 401


def test_behind_tls_the_cookie_is_for_tls_alone(guarded_server: Server) -> None:
    reply = session(guarded_server, guarded_server.token, **{"X-Forwarded-Proto": "https"})
    assert "Secure" in reply.headers["set-cookie"].split("; ")


def test_a_session_needs_the_right_token(guarded_server: Server) -> None:
    reply = session(guarded_server, "wrong")
    assert (reply.status, "set-cookie" in reply.headers) == (401, False)
    assert session(guarded_server, 3).status == 422
    assert session(guarded_server, "x" * 2000).status == 422


@pytest.mark.parametrize("body", [b"", b"[[", b"[" * 9000, b"no JSON", b'{"token": "x", "more": 1}', b"\xff"])
def test_a_session_that_is_no_json_with_a_token_is_refused(guarded_server: Server, body: bytes) -> None:
    kind = {"Content-Type": "application/json"}
    reply = guarded_server.ask("/api/session", method="POST", body=body, headers=kind)
    assert reply.status == 422
    assert reply.error == 'the body must be JSON with the token alone: {"token": "..."}.'


def test_strangers_cannot_fill_the_memory_with_a_session(guarded_server: Server) -> None:
    connection = guarded_server.connect()
    parts = (bytes(2**16) for _ in range(64))
    connection.request(
        "POST", "/api/session", parts, {"Content-Type": "application/json"}, encode_chunked=True
    )
    reply = connection.getresponse()
    assert (reply.status, b"16 KiB" in reply.read()) == (413, True)
    connection.close()


def test_a_session_can_be_ended(guarded_server: Server) -> None:
    reply = without_token(guarded_server, "/api/session", "DELETE")
    assert reply.status == 204
    assert reply.headers["set-cookie"].startswith(f'{COOKIE}=""')
    assert "Max-Age=0" in reply.headers["set-cookie"]


def test_a_service_without_a_token_gives_no_cookie(server: Server) -> None:
    reply = session(server, "anything")
    assert (reply.status, "set-cookie" in reply.headers) == (204, False)


def test_a_cookie_ends_and_belongs_to_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions("a token of tests")
    cookie = sessions.cookie()
    assert sessions.is_cookie(cookie)
    assert Sessions("a token of tests").is_cookie(cookie), "replicas with one token share cookies"
    assert not Sessions("another token").is_cookie(cookie)
    monkeypatch.setattr("time.time", lambda: 1e12)
    assert not sessions.is_cookie(cookie)


# ---- Starting ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"host": "0.0.0.0"}, "others can reach it. Give --token"),  # noqa: S104
        ({"host": "archive.example"}, "others can reach it. Give --token"),
        ({"host": "::"}, "others can reach it. Give --token"),
        ({"token": "short"}, "--token: needs 8 or more"),
        ({"token": "with a space"}, "--token: needs 8 or more"),
        ({"token": "ümläut-token"}, "--token: needs 8 or more"),
        ({"token": "a-good-token", "no_auth": True}, "exclude each other"),
        ({"port": 70_000}, "--port 70000: must be 0 (any) to 65535."),
        ({"images": Path("/nowhere")}, "--images /nowhere: not a folder."),
    ],
)
def test_settings_that_are_not_safe_or_not_possible_are_refused(given: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError) as error:
        Settings("store", **given)  # type: ignore[arg-type]
    assert text in str(error.value)
    assert "short" not in str(error.value)


@pytest.mark.parametrize("given", [{"token": "a-good-token"}, {"no_auth": True}])
def test_others_are_let_in_with_a_token_or_on_purpose(given: dict[str, object]) -> None:
    assert not Settings("store", host="0.0.0.0", **given).loopback_names_only  # type: ignore[arg-type]  # noqa: S104


def test_the_token_may_come_from_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARCIR_TOKEN", "short")
    assert main(["serve", "--store", "x"]) == 2
    assert "needs 8 or more" in capsys.readouterr().err


def test_the_head_of_a_response_can_be_asked_for_alone(server: Server) -> None:
    for path in ("/health", "/", f"/api/thumbnail?id={FIRST}"):
        alone, whole = server.ask(path, method="HEAD"), server.ask(path)
        assert (alone.status, alone.body) == (200, b"")
        assert alone.headers["content-length"] == str(len(whole.body))


def test_a_connection_can_ask_many_times(server: Server) -> None:
    connection = server.connect()
    for _ in range(3):
        connection.request("GET", "/health")
        response: http.client.HTTPResponse = connection.getresponse()
        assert (response.status, bool(response.read())) == (200, True)
    connection.close()
