"""A running service on a small archive, for all tests of the service and of its page."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from marcir.stages.index import index
from serve.hostile_archive import FIRST, IMPATIENT, write_hostile
from serve.server_process import Server, serving, until
from serve.small_archive import write_images, write_model


@pytest.fixture(scope="session")
def served_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of random weights."""
    return write_model(tmp_path_factory.mktemp("served") / "model")


@pytest.fixture(scope="session")
def served_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 scenes, images with nasty names, a TIFF, a grey one and a turned one; not to be changed."""
    return write_images(tmp_path_factory.mktemp("served") / "images")


@pytest.fixture(scope="session")
def served_store(served_model: Path, served_images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The indexed images, with labels, places and dates; not to be changed."""
    store = tmp_path_factory.mktemp("served") / "small archive.store"
    labels, metadata = served_images / "labels.csv", served_images / "metadata.csv"
    done = index(served_model, served_images, store, labels=labels, metadata=metadata)
    assert not done.broken
    return store


@pytest.fixture(scope="session")
def served_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of all services."""
    return tmp_path_factory.mktemp("served-cache")


@pytest.fixture(scope="session")
def server(
    served_store: Path, served_images: Path, served_model: Path, served_cache: Path
) -> Iterator[Server]:
    """A service without a token, which shows files, too: `server.url`, `.store`, `.images`, `.get(path)`."""
    images = ("--images", str(served_images))
    with serving(served_store, served_images, served_model, served_cache, *images) as running:
        yield running


@pytest.fixture(scope="session")
def guarded_server(
    served_store: Path, served_images: Path, served_model: Path, served_cache: Path
) -> Iterator[Server]:
    """A service that asks for a token, `server.token`, and shows no files."""
    token = "a-token-of-tests-0123456789"  # noqa: S105
    with serving(
        served_store,
        served_images,
        served_model,
        served_cache,
        token=token,
        environment={"MARCIR_TOKEN": token},
    ) as running:
        yield running


@pytest.fixture(scope="session")
def impatient(
    served_store: Path,
    served_images: Path,
    served_model: Path,
    served_cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """A service with a hostile store; it waits half a second, embeds TIFF slowly, lets one upload wait."""
    images, store = write_hostile(tmp_path_factory.mktemp("hostile"), served_images, served_store)
    temporary = served_cache / "temporary"
    temporary.mkdir()
    with serving(
        store,
        images,
        served_model,
        served_cache,
        *("--images", str(images)),
        environment={"TMPDIR": str(temporary)},
        program=IMPATIENT,
    ) as running:
        content = (images / FIRST).read_bytes()
        until(lambda: running.upload("/api/embed", content).status == 200, "a model")
        yield running
