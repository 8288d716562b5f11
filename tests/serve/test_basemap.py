"""Tiles of another service under the map, and what the page may load."""

from pathlib import Path

import pytest

from marcir.cli import main
from marcir.errors import ConfigError
from marcir.serve.basemap import Basemap
from marcir.serve.middleware import security_headers
from serve.server_process import Server

VENDOR = Path(__file__).parents[2] / "src/marcir/serve/page/vendor"
TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".json": "application/json",
    ".txt": "text/plain",
}


def policy(basemap: Basemap | None) -> dict[str, list[str]]:
    """The rules of the content policy by their names."""
    text = dict(security_headers(basemap))[b"content-security-policy"].decode()
    return {name: values for name, *values in (rule.split() for rule in text.split(";"))}


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://tiles.example/{z}/{x}/{y}.png", "https://tiles.example"),
        ("http://localhost:8080/{z}/{y}/{x}?key=a,b;c", "http://localhost:8080"),
        ("HTTPS://A-1.Example:443/wmts/{z}/{x}/{y}@2x.jpg", "https://a-1.example:443"),
    ],
)
def test_the_policy_allows_the_host_of_the_tiles_and_nothing_else(url: str, origin: str) -> None:
    basemap = Basemap.parse(url)
    assert basemap == Basemap(url, origin)
    without, with_tiles = policy(None), policy(basemap)
    for rule in ("img-src", "connect-src"):
        assert with_tiles.pop(rule) == [*without.pop(rule), origin]
    assert with_tiles == without
    assert not {"'unsafe-eval'", "'unsafe-inline'"} & {each for values in without.values() for each in values}


@pytest.mark.parametrize("url", ["https://tiles.example/a.pmtiles", "https://tiles.example/A.PMTILES?key=1"])
def test_a_file_of_tiles_needs_requests_and_no_pictures_of_its_host(url: str) -> None:
    without, with_tiles = policy(None), policy(Basemap.parse(url))
    assert with_tiles.pop("connect-src") == [*without.pop("connect-src"), "https://tiles.example"]
    assert with_tiles == without


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://tiles.example/{z}.pmtiles",
        "https://tiles.example/a?b=.pmtiles",
        "s3://tiles.example/a.pmtiles",
        "map.pmtiles",
        "tiles.example/{z}/{x}/{y}.png",
        "ftp://tiles.example/{z}/{x}/{y}",
        "https://tiles.example/{z}/{x}",
        "https://tiles.example/{z}/{x}/{y}/{y}",
        "https://{s}.tiles.example/{z}/{x}/{y}",
        "https://tiles.example/{z}/{x}/{y}?{r}",
        "https://user:password@tiles.example/{z}/{x}/{y}",
        "https://tiles.example;script-src/{z}/{x}/{y}",
        "https://tiles.example, *.example/{z}/{x}/{y}",
        "https://tiles.example:99999/{z}/{x}/{y}",
        "https://[::1]/{z}/{x}/{y}",
        "https://tiles.example/{z}/{x}/{y}\r\nX: y",
        "pmtiles://tiles.example/{z}/{x}/{y}",
    ],
)
def test_any_other_address_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(ConfigError, match="--basemap .*not an address of tiles") as error:
        Basemap.parse(url)
    assert "\n" not in str(error.value)


def test_the_command_refuses_it_before_it_listens(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--store", "x", "--basemap", "https://tiles.example/"]) == 2
    assert "--basemap 'https://tiles.example/': not an address of tiles." in capsys.readouterr().err


@pytest.mark.parametrize("file", sorted(VENDOR.iterdir()), ids=lambda path: path.name)
def test_files_of_others_are_served_with_their_types(server: Server, file: Path) -> None:
    reply = server.ask(f"/page/vendor/{file.name}")
    assert (reply.status, reply.body) == (200, file.read_bytes())
    assert reply.headers["content-type"].split(";")[0] == TYPES.get(file.suffix, "text/markdown")


def test_the_offline_base_map_is_small() -> None:
    assert (VENDOR / "basemap.json").stat().st_size < 300_000
