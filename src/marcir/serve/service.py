"""The archive, its files and the threads that work on them, for all routes."""

import os
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import torch
from fastapi import FastAPI, Request

from marcir.errors import MarcirError
from marcir.search.queries import open_store
from marcir.serve.archive import ServedArchive
from marcir.serve.embedding import EmbeddedImage, embed_content
from marcir.serve.errors import busy
from marcir.serve.image_files import Originals, files_warning
from marcir.serve.request_log import current_notes, log
from marcir.serve.settings import (
    WAITING_FILES,
    WAITING_PICTURES,
    WAITING_SEARCHES,
    WAITING_UPLOADS,
    Settings,
)
from marcir.serve.timing import add_time
from marcir.serve.uploads import UploadedFile, Uploads, image_of
from marcir.serve.workers import Workers

_MOST_SEARCHERS = 4


class Service:
    """Everything that requests share.

    Searches and uploads share the processors: a few searches at a time, and a part of the threads for torch.

    Args:
        settings: How it was started.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.archive = ServedArchive(open_store(settings.store, resident=True), settings.images is not None)
        self.originals = None if settings.images is None else Originals(settings.images)
        processors = _processors()
        searchers = min(_MOST_SEARCHERS, processors)
        torch.set_num_threads(min(torch.get_num_threads(), max(1, processors // searchers)))
        self.searchers = Workers("search", searchers, WAITING_SEARCHES)
        self.embedders = Workers("upload", 1, WAITING_UPLOADS)
        self.readers = Workers("files", 4, WAITING_FILES)
        self.painters = Workers("pictures", 1, WAITING_PICTURES)
        self.uploads = Uploads()

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Load the model while the first requests come; let threads finish at the end."""
        threading.Thread(target=self._warm_up, daemon=True).start()  # a stop need not wait for it
        yield
        for workers in (self.searchers, self.embedders, self.readers, self.painters):
            workers.close()

    def files_warning(self) -> str | None:
        """What to print at the start where `--images` does not hold the files of the store."""
        if self.originals is None or self.settings.images is None:
            return None
        return files_warning(self.archive.store, self.originals, self.settings.images)

    async def embedded(self, request: Request) -> EmbeddedImage:
        """The image that a request uploads, with its vector.

        Raises:
            Refusal: Where it cannot be used, and 503 where too many are at it.
        """
        self.embedders.check()
        async with self.uploads.received(request) as body:
            file, found, took = await self.embedders.run(self._embed, request, body)
        add_time("embed", took)
        current_notes().add_upload(len(file.content), found.width, found.height, file.name)
        return found

    def _embed(self, request: Request, body: bytes) -> tuple[UploadedFile, EmbeddedImage, float]:
        file = image_of(request, body)
        try:
            model = self.archive.archive.model
        except MarcirError as error:
            text = "the store's model cannot be loaded. The reason is in the log of the service."
            raise busy(text, reason=str(error)) from None
        start = time.perf_counter()
        return file, embed_content(model, file.content, file.title), time.perf_counter() - start

    def _warm_up(self) -> None:
        try:
            self.archive.archive.model  # noqa: B018
        except MarcirError as error:
            log.error("uploads will be refused: %s", error)


def _processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
