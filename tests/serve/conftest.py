"""Running services on a small archive, for all tests of the service and of its page."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from marcir.search.index import index
from serve.hostile_archive import write_hostile
from serve.server_process import TOKEN, Server
from serve.server_thread import serving_in_a_thread
from serve.small_archive import write_images, write_model, write_unknown


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
    done = index(served_images, store, model=served_model, labels=labels, metadata=metadata)
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
    with serving_in_a_thread(
        served_store, served_images, served_model, served_cache, originals=True
    ) as running:
        yield running


@pytest.fixture(scope="session")
def guarded_server(
    served_store: Path, served_images: Path, served_model: Path, served_cache: Path
) -> Iterator[Server]:
    """A service that asks for a token, `server.token`, and shows no files."""
    with serving_in_a_thread(served_store, served_images, served_model, served_cache, token=TOKEN) as running:
        yield running


@pytest.fixture
def editing_server(
    served_store: Path, served_images: Path, served_model: Path, served_cache: Path, tmp_path: Path
) -> Iterator[Server]:
    """A service that allows edits, without any so far."""
    edits = tmp_path / "annotations.sqlite"
    with serving_in_a_thread(served_store, served_images, served_model, served_cache, edits=edits) as running:
        yield running


@pytest.fixture(scope="session")
def unknown_server(
    served_store: Path,
    served_images: Path,
    served_model: Path,
    served_cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """A service on an archive in which some labels are unknown, see `PARTLY_KNOWN`."""
    store = write_unknown(tmp_path_factory.mktemp("unknown"), served_store)
    with serving_in_a_thread(store, served_images, served_model, served_cache) as running:
        yield running


@pytest.fixture(scope="session")
def hostile_server(
    served_store: Path,
    served_images: Path,
    served_model: Path,
    served_cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """A service with a folder of images and traps, which shows files, and a store that names them all."""
    images, store = write_hostile(tmp_path_factory.mktemp("hostile"), served_images, served_store)
    with serving_in_a_thread(store, images, served_model, served_cache, originals=True) as running:
        yield running
