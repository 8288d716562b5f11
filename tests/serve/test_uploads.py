"""Uploads: the same vectors as files have, and limits of bytes and pixels."""

import io
import struct
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from marcir.serve.settings import MAX_UPLOAD_BYTES
from serve.server_process import Reply, Server
from serve.small_archive import picture

FIRST = "images/000000.png"
LIMIT = "32 MiB"
NOISE = picture(np.random.default_rng(0).integers(0, 256, (99, 99, 3), dtype=np.uint8))


def form(
    content: bytes, name: str = "image", boundary: str = "b0undary", more: bytes = b""
) -> tuple[bytes, dict[str, str]]:
    """A form with one file, and its headers."""
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="x.png"\r\n\r\n'
    body = head.encode() + content + f"\r\n--{boundary}".encode() + more + b"--\r\n"
    return body, {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def post(server: Server, body: bytes, kind: str | None = "application/octet-stream") -> Reply:
    headers = {} if kind is None else {"Content-Type": kind}
    return server.ask("/api/embed", method="POST", body=body, headers=headers)


# ---- The same as files ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [FIRST, "grey.png", "bands.tif", "turned.jpg", "<img src=x onerror=alert(1)>.jpg"]
)
def test_the_same_bytes_uploaded_and_indexed_have_the_same_vector(server: Server, name: str) -> None:
    hits = server.upload("/api/search", (server.images / name).read_bytes(), limit=1).json()["hits"]
    assert hits[0]["id"] == name
    assert hits[0]["similarity"] > 0.9999


def test_a_form_and_plain_bytes_are_the_same(server: Server) -> None:
    content = (server.images / FIRST).read_bytes()
    body, headers = form(content)
    by_form = server.ask("/api/embed", method="POST", body=body, headers=headers).json()
    for kind in ("application/octet-stream", "image/png", "image/jpeg", "IMAGE/PNG; charset=x"):
        assert post(server, content, kind).json() == by_form


# ---- What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [None, "", "text/html", "application/json", "application/x-www-form-urlencoded"]
)
def test_other_types_are_refused_with_what_to_do(server: Server, kind: str | None) -> None:
    reply = post(server, (server.images / FIRST).read_bytes(), kind)
    assert reply.status == 415
    assert "curl -F image=@file" in reply.error


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "the upload is empty"),
        (b"no image", "the upload: not a readable JPEG, PNG, WebP or TIFF file"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a readable JPEG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "not a readable JPEG"),
        (NOISE[: len(NOISE) // 2], "the upload: "),
        (b"GIF89a" + bytes(100), "not a readable JPEG"),
        (b"II*\0" + bytes(100), "the upload: "),
    ],
)
def test_bytes_that_are_no_image_are_refused(server: Server, body: bytes, text: str) -> None:
    reply = post(server, body)
    assert reply.status == 422
    assert text in reply.error


def test_an_image_that_the_model_cannot_see_is_refused_as_indexing_refuses_it(server: Server) -> None:
    out = io.BytesIO()
    tifffile.imwrite(out, np.zeros((8, 8, 5), np.uint8), photometric="minisblack")
    assert "5 bands" in post(server, out.getvalue()).error
    deep = io.BytesIO()
    Image.fromarray(np.zeros((8, 8), np.uint16)).save(deep, "PNG")
    assert "its pixels are uint16" in post(server, deep.getvalue()).error


@pytest.mark.parametrize(
    "broken",
    [
        form(b"x", name="picture"),
        form(b"x", more=b'\r\nContent-Disposition: form-data; name="other"\r\n\r\ny\r\n--b0undary'),
        (b"no form at all", {"Content-Type": "multipart/form-data; boundary=x"}),
        (b"--x\r\n\r\n", {"Content-Type": "multipart/form-data; boundary=x"}),
        (b"--x", {"Content-Type": "multipart/form-data"}),
        (b"", {"Content-Type": "multipart/form-data; boundary=x"}),
    ],
    ids=["another name", "two parts", "no form", "half a form", "no boundary", "empty"],
)
def test_a_form_without_one_image_is_refused(server: Server, broken: tuple[bytes, dict[str, str]]) -> None:
    reply = server.ask("/api/embed", method="POST", body=broken[0], headers=broken[1])
    assert reply.status == 422
    assert "image" in reply.error


def test_a_form_of_very_many_parts_is_refused_at_its_first(server: Server) -> None:
    body, headers = form(NOISE)
    field = b'--b0undary\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'
    begun = time.monotonic()
    reply = server.ask("/api/embed", method="POST", body=500_000 * field + body, headers=headers)
    assert (reply.status, "nothing else" in reply.error) == (422, True)
    assert time.monotonic() - begun < 5


def bomb(side: int) -> bytes:
    """A PNG that says it is large, of a few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    packed = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [10_000, 100_000, 2**31 - 1])
def test_a_decompression_bomb_is_refused_before_it_is_unpacked(server: Server, side: int) -> None:
    begun = time.monotonic()
    reply = post(server, bomb(side))
    assert reply.status == 422
    assert "the limit of 89,478,485" in reply.error
    assert time.monotonic() - begun < 5


def test_more_bytes_than_the_limit_are_refused_also_without_a_length(server: Server) -> None:
    content = bytes(MAX_UPLOAD_BYTES + 1)
    reply = post(server, content)
    assert (reply.status, LIMIT in reply.error) == (413, True)
    body, headers = form(content + bytes(100_000))
    assert server.ask("/api/embed", method="POST", body=body, headers=headers).status == 413
    connection = server.connect()
    parts = (content[start : start + 2**20] for start in range(0, len(content), 2**20))
    connection.request("POST", "/api/embed", parts, {"Content-Type": "image/png"}, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_nothing_is_left_on_the_disk(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    noise = np.random.default_rng(0).integers(0, 256, (1200, 1200, 3), dtype=np.uint8)
    body, headers = form(picture(noise))
    assert server.ask("/api/embed", method="POST", body=body, headers=headers).status == 200
    assert list(tmp_path.iterdir()) == []
    assert not [path for path in server.open_files if path.is_relative_to(tmp_path.resolve())]
