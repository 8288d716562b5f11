"""What all requests share: the archive, its files, and the worker threads."""

import os
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import torch
from fastapi import FastAPI, Request

from marcir.errors import MarcirError
from marcir.search.queries import open_store
from marcir.serve.embedding import EmbeddedImage, embed_content
from marcir.serve.errors import unavailable
from marcir.serve.image_files import Originals, files_warning
from marcir.serve.request_log import current_notes, log
from marcir.serve.served_archive import ServedArchive
from marcir.serve.settings import (
    WAITING_FILES,
    WAITING_PICTURES,
    WAITING_SEARCHES,
    WAITING_UPLOADS,
    Settings,
)
from marcir.serve.uploads import UploadedFile, Uploads, uploaded_file
from marcir.serve.workers import Workers

_MAX_SEARCHERS = 4


class Service:
    """Everything that requests share.

    Searches and uploads share the processors: a few searches run at a time, and torch gets a part of the
    threads.

    Args:
        settings: How it was started.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.archive = ServedArchive(open_store(settings.store, resident=True), settings.images is not None)
        self.originals = None if settings.images is None else Originals(settings.images)
        processors = _processors()
        searchers = min(_MAX_SEARCHERS, processors)
        torch.set_num_threads(min(torch.get_num_threads(), max(1, processors // searchers)))
        self.searchers = Workers("search", searchers, WAITING_SEARCHES)
        self.embedders = Workers("upload", 1, WAITING_UPLOADS)
        self.readers = Workers("files", 4, WAITING_FILES)
        self.painters = Workers("pictures", 1, WAITING_PICTURES)
        self.uploads = Uploads()

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Load the model in the background at the start; let threads finish at the end."""
        threading.Thread(target=self._warm_up, daemon=True).start()  # a stop need not wait for it
        yield
        for workers in (self.searchers, self.embedders, self.readers, self.painters):
            workers.close()

    def files_warning(self) -> str | None:
        """What to print at the start where `--images` does not hold the files of the store."""
        if self.originals is None or self.settings.images is None:
            return None
        return files_warning(self.archive.store, self.originals, self.settings.images)

    async def embed_upload(self, request: Request) -> EmbeddedImage:
        """The image that a request uploads, with its vector.

        Raises:
            RequestError: Where it cannot be used; 503 where too many are waiting.
        """
        self.embedders.check()
        async with self.uploads.received(request) as body:
            file, found, seconds = await self.embedders.run(self._embed, request, body)
        notes = current_notes()
        notes.times["embed"] = seconds
        notes.add_upload(len(file.content), found.width, found.height, file.name)
        return found

    def _embed(self, request: Request, body: bytes) -> tuple[UploadedFile, EmbeddedImage, float]:
        file = uploaded_file(request, body)
        try:
            model = self.archive.archive.model
        except MarcirError as error:
            text = "the store's model cannot be loaded. The reason is in the log of the service."
            raise unavailable(text, log_text=str(error)) from None
        start = time.perf_counter()
        return file, embed_content(model, file.content, file.title), time.perf_counter() - start

    def _warm_up(self) -> None:
        try:
            self.archive.archive.model  # noqa: B018
        except MarcirError as error:
            log.error("uploads will be refused: %s", error)


def _processors() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
