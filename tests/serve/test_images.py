"""Thumbnails and files: what is shown, and what can never be read."""

import io
import re
import shutil
import socket
import struct
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
import tifffile
from fastapi.testclient import TestClient
from PIL import Image

from marcir.data.object_storage import S3Path
from marcir.errors import BrokenImageError, MissingImageError
from marcir.serve.app import create_app
from marcir.serve.image_files import Originals, as_png
from marcir.serve.service import Service
from marcir.serve.settings import Settings
from serve.hostile_archive import OUTSIDE
from serve.server_process import Server, until
from serve.small_archive import NASTY

FIRST = "images/000000.png"


# ---- What is shown -------------------------------------------------------------------------------


def test_a_thumbnail_is_a_jpeg_that_a_browser_keeps(server: Server) -> None:
    reply = server.ask("/api/thumbnail", {"id": FIRST})
    assert (reply.status, reply.headers["content-type"]) == (200, "image/jpeg")
    assert Image.open(io.BytesIO(reply.body)).size == (24, 24)
    assert reply.headers["cache-control"].startswith("private")
    again = server.ask("/api/thumbnail", {"id": FIRST}, headers={"If-None-Match": reply.headers["etag"]})
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", reply.headers["etag"])


@pytest.mark.parametrize("name", [FIRST, *NASTY])
def test_the_file_of_every_id_is_shown_byte_by_byte(server: Server, name: str) -> None:
    reply = server.ask("/api/original", {"id": name})
    assert reply.body == (server.images / name).read_bytes()
    assert reply.headers["content-type"] == ("image/jpeg" if name.endswith(".jpg") else "image/png")
    assert "content-disposition" not in reply.headers
    assert server.get("/api/image", id=name)["original"]["url"].startswith("/api/original?id=")
    again = server.ask("/api/original", {"id": name}, headers={"If-None-Match": reply.headers["etag"]})
    assert again.status == 304


@pytest.mark.parametrize("name", [*NASTY, "bands.tif"])
def test_a_file_is_saved_under_its_name_and_no_header_is_smuggled_in(server: Server, name: str) -> None:
    reply = server.ask("/api/original", {"id": name, "download": "true"})
    assert reply.body == (server.images / name).read_bytes()
    assert reply.headers["content-type"] == "application/octet-stream"
    header = re.fullmatch(r"attachment; filename\*=UTF-8''([\w.%~-]+)", reply.headers["content-disposition"])
    assert header is not None
    last = name.split("/")[-1]
    assert unquote(header[1]) == "".join(letter for letter in last if letter.isprintable()).strip(". ")


def test_a_file_that_no_browser_shows_is_shown_as_png(server: Server) -> None:
    reply = server.ask("/api/original", {"id": "bands.tif"})
    assert reply.headers["content-type"] == "image/png"
    shown = np.asarray(Image.open(io.BytesIO(reply.body)))
    assert np.abs(shown.astype(int) - tifffile.imread(server.images / "bands.tif")).max() <= 1


def test_without_a_folder_no_files_are_shown(guarded_server: Server) -> None:
    assert guarded_server.get("/api/archive")["has_originals"] is False
    assert guarded_server.get("/api/image", id=FIRST)["original"] is None
    status, text = guarded_server.refusal("/api/original", id=FIRST)
    assert (status, text) == (404, "the service was started without --images and shows no files.")
    assert guarded_server.ask("/api/thumbnail", {"id": FIRST}).status == 200


# ---- What is closed again ------------------------------------------------------------------------


def open_files(server: Server) -> list[Path]:
    """Files of the archive that the service has open."""
    return [path for path in server.open_files if path.is_relative_to(server.images.resolve())]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed by /proc alone")
def test_a_file_that_nobody_waits_for_any_more_is_closed(server: Server) -> None:
    parts = urlsplit(server.url)
    request = f"GET /api/original?id={FIRST} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    for _ in range(20):
        with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(request)
        assert server.ask("/api/original", {"id": FIRST}).status == 200
    until(lambda: not open_files(server), "the service closes all files")


def test_closing_twice_closes_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "broken.tif").write_bytes(b"II*\0" + bytes(100))
    Image.new("RGB", (2, 2)).save(tmp_path / "a.png")
    originals = Originals(tmp_path)
    broken = originals.open("broken.tif")
    with pytest.raises(BrokenImageError):
        as_png(broken, "broken.tif")
    other = originals.open("a.png")  # by the number that the first one had
    broken.close()
    assert b"".join(other.chunks()) == (tmp_path / "a.png").read_bytes()


class Storage:
    """Object storage that answers until something happens, and then with an error."""

    def __init__(self, error: str, fails_at: str) -> None:
        self.error, self.fails_at, self.closed = error, fails_at, 0

    def get_file_info(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(type=None)

    def open_input_file(self, _: str) -> "Storage":
        self._fail("open")
        return self

    def read_at(self, *_: int) -> bytes:
        self._fail("read")
        return b"no image"

    def metadata(self) -> dict[str, str]:
        return {}

    def size(self) -> int:
        return 8

    def close(self) -> None:
        self.closed += 1

    def __enter__(self) -> "Storage":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fail(self, at: str) -> None:
        if at == self.fails_at:
            raise OSError(self.error)


OUTAGE = "When reading: AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 7"


@pytest.mark.parametrize(
    ("error", "fails_at", "status"),
    [
        (OUTAGE, "open", 503),
        (OUTAGE, "read", 503),
        ("AWS Error INVALID_OBJECT_STATE during GetObject operation", "read", 404),
        ("", "never", 404),  # no image
    ],
)
def test_an_outage_of_object_storage_is_not_a_missing_file(
    served_store: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: str,
    fails_at: str,
    status: int,
) -> None:
    storage = Storage(error, fails_at)
    monkeypatch.setattr("marcir.data.object_storage._file_system", lambda _: storage)
    service = Service(Settings(str(served_store), S3Path("archive", "tiles")))
    reply = TestClient(create_app(service), base_url="http://127.0.0.1").get(
        "/api/original", params={"id": FIRST}
    )
    assert (reply.status_code, "AWS" in reply.text, storage.closed) == (status, False, fails_at != "open")
    assert ("NETWORK_CONNECTION" in caplog.text) == (status == 503)
    assert service.originals is not None
    assert not service.originals.has(FIRST)


# ---- What can never be read ----------------------------------------------------------------------


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("download", ["false", "true"])
def test_ids_that_lead_outside_or_to_other_files_show_nothing(
    hostile_server: Server, name: str, download: str
) -> None:
    reply = hostile_server.ask("/api/original", {"id": name, "download": download})
    assert reply.status == 404
    assert "secret" not in reply.error.replace(name, "")


def test_an_absolute_id_shows_nothing(hostile_server: Server) -> None:
    for name in (str(hostile_server.images.parent / "secret.png"), "/etc/passwd", "/etc/hostname"):
        assert hostile_server.ask("/api/original", {"id": name}).status == 404


def test_files_and_links_inside_are_shown(hostile_server: Server) -> None:
    content = (hostile_server.images / "fine.png").read_bytes()
    assert hostile_server.ask("/api/original", {"id": "fine.png"}).body == content
    assert hostile_server.ask("/api/original", {"id": "good-link.png"}).body == content


def test_a_file_that_the_store_does_not_name_is_not_shown(hostile_server: Server) -> None:
    shutil.copy(hostile_server.images / "fine.png", hostile_server.images / "unnamed.png")
    assert hostile_server.ask("/api/original", {"id": "unnamed.png"}).status == 404
    assert hostile_server.ask("/api/original", {"id": "./fine.png"}).status == 404


def test_a_thumbnail_that_is_no_jpeg_is_not_shown(hostile_server: Server) -> None:
    assert hostile_server.refusal("/api/thumbnail", id="fine.png") == (404, "'fine.png' has no thumbnail.")


def test_files_of_the_page_are_those_of_its_folder(server: Server) -> None:
    for name in ("..%2Frun.py", "../run.py", "%2e%2e/guard.py", "__init__.py", "nowhere.js", "", "a/b.js"):
        assert server.ask(f"/page/{name}").status == 404


def test_a_folder_that_is_a_link_itself_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    Image.new("RGB", (2, 2)).save(tmp_path / "real" / "a.png")
    originals = Originals(tmp_path / "link")
    opened = originals.open("a.png")
    assert b"".join(opened.chunks()) == (tmp_path / "real" / "a.png").read_bytes()
    with pytest.raises(MissingImageError):
        originals.open("../link/b.png")
