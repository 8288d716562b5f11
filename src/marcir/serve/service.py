"""What all requests share: the archive, its files, and worker threads with bounded queues."""

import asyncio
import base64
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np
import torch
from fastapi import FastAPI, Request

from marcir.annotations.annotated_store import AnnotatedStore
from marcir.annotations.annotations import Annotations
from marcir.annotations.suggest import STATES
from marcir.data.images import decode_image
from marcir.data.object_storage import reading_threads
from marcir.errors import MarcirError
from marcir.processes import processors
from marcir.search.lance import LanceStore
from marcir.search.records import About
from marcir.serve.errors import unavailable
from marcir.serve.image_files import Originals, files_warning
from marcir.serve.request_log import current_notes, log
from marcir.serve.schemas import EmbedResponse
from marcir.serve.served_annotations import ServedAnnotations
from marcir.serve.served_archive import ServedArchive, encode_vector
from marcir.serve.settings import (
    WAITING_EDITS,
    WAITING_FILES,
    WAITING_PICTURES,
    WAITING_SEARCHES,
    WAITING_SUGGESTIONS,
    WAITING_UPLOADS,
    Settings,
)
from marcir.serve.uploads import UploadedFile, Uploads, uploaded_file

if TYPE_CHECKING:
    from marcir.model.model import Model
    from marcir.serve.scenes import ServedScenes

_MAX_SEARCHERS = 4

P = ParamSpec("P")
R = TypeVar("R")


class Workers:
    """A few threads, named after what they do, with a number of requests that may wait for them."""

    def __init__(self, name: str, threads: int, waiting: int) -> None:
        self._name, self._limit = name, threads + waiting
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._running = 0

    async def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of some work in a thread.

        Raises:
            RequestError: 503, where too many wait already.
        """
        self.check()
        self._running += 1
        submitted = time.perf_counter()

        def start() -> tuple[float, R]:
            started = time.perf_counter()
            return started, work(*args, **kwargs)

        future = asyncio.get_running_loop().run_in_executor(self._pool, start)
        future.add_done_callback(self._finish)
        started, result = await future
        times = current_notes().times
        times["wait"] = times.get("wait", 0.0) + started - submitted
        return result

    def check(self) -> None:
        """Refuse a request that would have to wait too long."""
        if self._running >= self._limit:
            raise unavailable(f"{self._name}: {self._limit} requests are waiting already.")

    def close(self) -> None:
        """Let the threads finish what they do."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _finish(self, _: object) -> None:
        self._running -= 1


class Service:
    """Everything that requests share.

    Searches and uploads share the processors: a few searches run at a time, and torch gets a part of the
    threads.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        annotations = Annotations(settings.annotations_file, settings.allow_edits)
        annotations.check()
        store = AnnotatedStore(LanceStore(settings.store, resident=True), annotations)
        self.scenes = None if settings.scenes is None else _scenes(settings, store.about)
        self.archive = ServedArchive(
            store, settings.images is not None, self.scenes, settings.basemap, settings.device
        )
        self.edits = ServedAnnotations(self.archive, settings.author)
        self.originals = None if settings.images is None else Originals(settings.images)
        cores = processors()
        searchers = min(_MAX_SEARCHERS, cores)
        torch.set_num_threads(min(torch.get_num_threads(), max(1, cores // searchers)))
        self.searchers = Workers("search", searchers, WAITING_SEARCHES)
        self.embedders = Workers("upload", 1, WAITING_UPLOADS)
        self.readers = Workers("files", 4, WAITING_FILES)
        self.converters = Workers("pictures", 1, WAITING_PICTURES)
        self.suggesters = Workers("suggestions", 1, WAITING_SUGGESTIONS)
        self.editors = Workers("edits", 1, WAITING_EDITS)
        self.uploads = Uploads()

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Load the model in the background at the start; let threads finish at the end."""
        threading.Thread(target=self._warm_up, daemon=True).start()  # a stop need not wait for it
        yield
        for workers in (
            self.searchers,
            self.embedders,
            self.readers,
            self.converters,
            self.suggesters,
            self.editors,
        ):
            workers.close()

    def statements(self, label: str) -> Mapping[str, int]:
        """What people have stated of a label, by image, in the order in which they did."""
        stated = self.archive.annotations.labels.of_label(label)
        return {image: STATES[state] for image, state in stated.items()}

    def files_warning(self) -> str | None:
        """What to print at the start where `--images` does not hold the files of the store."""
        store, settings = self.archive.store, self.settings
        if self.scenes is not None:
            return files_warning(store, self.scenes, f"--scenes {settings.scenes}", 1)
        if self.originals is None or settings.images is None:
            return None
        threads = reading_threads(self.originals.root, 1)
        return files_warning(store, self.originals, f"--images {settings.images}", threads)

    async def embed_upload(self, request: Request) -> tuple[np.ndarray, EmbedResponse]:
        """The vector of the image that a request uploads, and the response that describes it. (D,)

        Raises:
            RequestError: Where it cannot be used; 503 where too many are waiting.
        """
        self.embedders.check()
        async with self.uploads.received(request) as body:
            file, vector, found, seconds = await self.embedders.run(self._embed, request, body)
        notes = current_notes()
        notes.times["embed"] = seconds
        notes.add_upload(len(file.content), found.width, found.height, file.name)
        return vector, found

    def _embed(self, request: Request, body: bytes) -> tuple[UploadedFile, np.ndarray, EmbedResponse, float]:
        file = uploaded_file(request, body)
        try:
            model = self.archive.archive.model
        except MarcirError as error:
            text = "the store's model cannot be loaded. The reason is in the log of the service."
            raise unavailable(text, log_text=str(error)) from None
        start = time.perf_counter()
        vector, found = embed_content(model, file.content, file.title)
        return file, vector, found, time.perf_counter() - start

    def _warm_up(self) -> None:
        with suppress(MarcirError):  # requests will report it
            # Of 1,000,000 rows, labels take a second of the processor, which no request should wait for.
            self.archive.store.label_counts()
            self.archive.store.page(0, 1, sort="date")
        try:
            self.archive.archive.model  # noqa: B018
        except MarcirError as error:
            log.error("uploads will be refused: %s", error)


def _scenes(settings: Settings, about: About) -> "ServedScenes":
    from marcir.serve.scenes import ServedScenes  # with the packages of `marcir[geo]`

    return ServedScenes(str(settings.scenes), about, settings.remote_assets)


def embed_content(model: "Model", content: bytes, title: str) -> tuple[np.ndarray, EmbedResponse]:
    """Read an image as files of the archive are read, and embed it; errors call it by its title. (D,)

    Raises:
        BrokenImageError: For bytes that are no image that the model can see.
    """
    from marcir.search.image_rows import (
        thumbnail,
    )  # with the network: the service answers before it is loaded

    pixels = decode_image(content, title)
    (vector,) = model.embed_preprocessed([model.preprocess(pixels, Path(title))])
    picture = base64.b64encode(thumbnail(pixels, content)).decode()
    height, width = pixels.shape[:2]
    return vector, EmbedResponse(
        vector=encode_vector(vector),
        thumbnail=f"data:image/jpeg;base64,{picture}",
        width=width,
        height=height,
    )
