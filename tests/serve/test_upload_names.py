"""Errors of an uploaded file name the file, where the request has its name."""

import pytest

from serve.server_process import Reply, Server


def sent(server: Server, content: bytes, name: bytes) -> Reply:
    """A form with one file, to be embedded."""
    head = b'--b0undary\r\nContent-Disposition: form-data; name="image"; filename="%s"\r\n\r\n' % name
    headers = {"Content-Type": "multipart/form-data; boundary=b0undary"}
    return server.ask(
        "/api/embed", method="POST", body=head + content + b"\r\n--b0undary--\r\n", headers=headers
    )


@pytest.mark.parametrize(
    ("name", "title"),
    [
        (b"query.png", "the upload 'query.png'"),
        ("übung 🛰.png".encode(), "the upload 'übung 🛰.png'"),
        (b"/home/me/query.png", "the upload 'query.png'"),
        (b"tab\there.png", "the upload 'tab\\there.png'"),
        (b"x" * 500, f"the upload '{'x' * 97}...'"),
        (b"\xff.png", "the upload '\ufffd.png'"),
        (b"", "the upload"),
    ],
)
def test_a_file_of_a_form_that_is_no_image_is_named(server: Server, name: bytes, title: str) -> None:
    reply = sent(server, b"no image", name)
    assert reply.status == 422
    assert reply.error.startswith(f"{title}: not a readable JPEG, PNG, WebP or TIFF file")


def test_an_empty_file_of_a_form_is_named(server: Server) -> None:
    reply = sent(server, b"", b"empty.png")
    assert (reply.status, reply.error) == (
        422,
        "the upload 'empty.png' is empty. Send the bytes of an image.",
    )
