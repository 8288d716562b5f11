"""Embed images on a cluster: actors read and embed, this process receives and writes."""

import math
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar

import numpy as np
import torch
from torch import Tensor

import marcir
from marcir.checks import check_int
from marcir.cluster.actor_pool import AT_A_TIME, ActorPool
from marcir.cluster.connection import check_version
from marcir.data.image_folder import ImageFile
from marcir.data.image_source import SourceImage
from marcir.data.object_storage import ImagePath, S3Path, image_path
from marcir.data.prefetch import in_batches
from marcir.data.validation import OnBroken, check_on_broken, raise_if_broken
from marcir.errors import ClusterError, ConfigError, MarcirError, needs
from marcir.model.embed import embed_files
from marcir.model.model import Model, load_model
from marcir.progress import progress_bar
from marcir.search.image_rows import NotEmbedded, embed_rows
from marcir.search.records import Row
from marcir.types import Embeddings

with needs("store"):
    import pyarrow as pa

    from marcir.search.arrow import to_rows, to_table

Payload = TypeVar("Payload")

# Batches of one block, at most: a lost machine loses up to two blocks for each of its actors.
_BATCHES: Final = 8
# Blocks per actor, at least, where there are enough images: the last ones finish at about the same time.
_BLOCKS_PER_ACTOR: Final = 4
_NODES_SHOWN: Final = 4


@dataclass(frozen=True)
class ClusterEmbedding:
    """Embeds on a cluster. An actor per GPU, or else per so many CPUs, holds the model.

    Blocks are whole batches of the files in order, so vectors are those of one process, bit by bit, where all
    images are new, none is broken, and the machines compute alike.

    Args:
        ray: What `connect` yields.
        device: `auto` uses GPUs where the cluster has some; `cpu`; `cuda`.
        cpus: CPUs of an actor.

    Raises:
        ConfigError: For another device, or no CPU.
        ClusterError: Where the cluster has no such device, or too few CPUs.
    """

    ray: Any
    device: str = "auto"
    cpus: int = 1

    def __post_init__(self) -> None:
        check_int("--cpus-per-actor", self.cpus, 1)
        if self.device not in ("auto", "cpu", "cuda"):
            raise ConfigError(f"--device {self.device}: on a cluster it is auto, cpu or cuda.")
        if not self.actors:
            raise ClusterError(
                f"the cluster has {self._total('CPU')} CPUs and {self._total('GPU')} GPUs: not enough for "
                f"one actor with --cpus-per-actor {self.cpus} and --device {self.device}."
            )

    @property
    def actors(self) -> int:
        """Number of actors."""
        most = self._total("CPU") // self.cpus
        return min(most, self._total("GPU")) if self._on_gpus else most

    def rows(
        self,
        model: Mapping[str, bytes],
        images: Sequence[SourceImage],
        batch_size: int,
        note: Callable[[NotEmbedded], None],
    ) -> Iterator[list[Row]]:
        """Rows of a store, see `EmbedRows`."""
        blocks = self._blocks(images, batch_size)
        for _, result in self._run("rows", model, blocks, batch_size, "indexing"):
            for image in result.not_embedded:
                note(image)
            yield to_rows(result.rows)

    def vectors(
        self,
        model: Mapping[str, bytes],
        ids: Sequence[str],
        paths: Sequence[ImagePath],
        on_broken: OnBroken,
        batch_size: int,
    ) -> tuple[Embeddings, dict[str, str]]:
        """Embeddings in the order of the ids, see `EmbedFiles`."""
        check_on_broken(on_broken)
        files = [ImageFile(image, path) for image, path in zip(ids, paths, strict=True)]
        blocks = self._blocks(files, batch_size)
        parts: dict[int, Embeddings] = {}
        broken: dict[str, str] = {}
        for number, result in self._run("vectors", model, blocks, batch_size, "embedding"):
            parts[number] = result.embeddings
            broken |= {file.id: str(file.problem) for file in result.not_embedded}
            if on_broken == "error":
                raise_if_broken(broken)
        ordered = [parts[number] for number in sorted(parts)]
        found = tuple(image for part in ordered for image in part.ids)
        problems = {image: broken[image] for image in ids if image in broken}
        return Embeddings(found, np.concatenate([part.vectors for part in ordered])), problems

    def _run(
        self,
        what: str,
        model: Mapping[str, bytes],
        blocks: list[list[SourceImage]],
        batch_size: int,
        title: str,
    ) -> Iterator[tuple[int, Any]]:
        """Results of blocks as they arrive, with a progress bar."""
        if not blocks:
            return
        weights = self.ray.put(dict(model))  # once, whatever the number of actors
        root = blocks[0][0].root
        remote = self.ray.remote(_Embedder).options(
            num_cpus=self.cpus, num_gpus=int(self._on_gpus), max_concurrency=AT_A_TIME
        )
        device = "cuda" if self._on_gpus else "cpu"

        def new_actor() -> Any:
            return remote.remote(marcir.__version__, root, weights, device, self.cpus, batch_size, what)

        rates = _Rates()
        with progress_bar(title, sum(map(len, blocks))) as advance:
            for number, result in ActorPool[Any](self.ray, new_actor, self.actors).run(blocks):
                advance(len(blocks[number]), rates.after(result.node, len(blocks[number])))
                yield number, result

    def _blocks(self, images: Sequence[SourceImage], batch_size: int) -> list[list[SourceImage]]:
        """Images in blocks of whole batches; paths are absolute, since actors work in other folders."""
        check_int("batch_size", batch_size, 1)
        batches = math.ceil(len(images) / batch_size)
        size = min(_BATCHES, max(1, batches // (_BLOCKS_PER_ACTOR * self.actors)))
        return list(in_batches((image.absolute() for image in images), size * batch_size))

    @property
    def _on_gpus(self) -> bool:
        return self.device == "cuda" or (self.device == "auto" and self._total("GPU") > 0)

    def _total(self, resource: str) -> int:
        return int(self.ray.cluster_resources().get(resource, 0))


@dataclass(frozen=True, eq=False)
class _RowsResult:
    """Rows of a block as an Arrow table, the other files, and the machine that read them."""

    node: str
    rows: pa.Table
    not_embedded: list[NotEmbedded]


@dataclass(frozen=True, eq=False)
class _VectorsResult:
    """Embeddings of a block, the other files, and the machine that read them."""

    node: str
    embeddings: Embeddings
    not_embedded: list[NotEmbedded]


class _InTurns(Model):
    """A model that computes one block at a time, while the first batches of the next one are read."""

    def __init__(self, model: Model) -> None:
        super().__init__(model.encoder, model.config, model.path, model.device)
        self._computing = Lock()

    def embed_batches(
        self, batches: Iterable[tuple[Payload, Sequence[np.ndarray] | Tensor]]
    ) -> Iterator[tuple[Payload, np.ndarray]]:
        """Embed batches of images, see `Model`."""
        remaining = iter(batches)
        first = list(islice(remaining, 1))  # the threads that read go on to those behind it
        with self._computing:
            yield from super().embed_batches(chain(first, remaining))


class _Embedder:
    """The actor: it holds the model and embeds blocks with the loops of one process."""

    def __init__(
        self,
        version: str,
        root: str,
        weights: Mapping[str, bytes],
        device: str,
        threads: int,
        batch_size: int,
        what: str,
    ) -> None:
        self._version, self._root, self._weights, self._device = version, root, weights, device
        self._threads, self._batch_size, self._what = threads, batch_size, what
        self._node = socket.gethostname()

    def start(self) -> None:
        """Load the model; separate from the constructor, whose errors Ray wraps in a text."""
        check_version(self._version)
        self._check_images()
        with tempfile.TemporaryDirectory(prefix="marcir-model-") as folder:
            for name, content in self._weights.items():
                (Path(folder) / Path(name).name).write_bytes(content)
            self._model = _InTurns(load_model(folder, self._device))
        self._weights = {}

    def _check_images(self) -> None:
        """Refuse a machine that cannot read the images; otherwise all of them would seem to be broken."""
        root = image_path(self._root)
        if self._root.startswith(("http://", "https://")):
            return  # each scene is asked for by its own address
        if isinstance(root, S3Path):
            try:
                root.check()
            except MarcirError as error:
                raise ClusterError(
                    f"{self._node}: {error} The machines of the cluster read the images themselves: Ray must "
                    "be started there with these variables."
                ) from error
        elif not root.is_dir():
            raise self._no_images("has no folder")

    def _no_images(self, what: str) -> ClusterError:
        return ClusterError(
            f"{self._node}: {what} {self._root}. Images and scenes must lie on a disk that all machines of "
            "the cluster share, under the same path, or on object storage."
        )

    def work(self, block: list[Any]) -> _RowsResult | _VectorsResult:
        """Embed a block: images of any source for rows, files for vectors; in two threads at a time.

        Raises:
            ClusterError: Where none of them is there, as in an empty folder where nothing is mounted.
        """
        if not any(image.may_be_there() for image in block):
            raise self._no_images(f"has none of {len(block)} images below")
        torch.set_num_threads(self._threads)  # Ray's own number is that of OMP_NUM_THREADS, where that is set
        return self._rows(block) if self._what == "rows" else self._vectors(block)

    def _rows(self, images: list[SourceImage]) -> _RowsResult:
        others: list[NotEmbedded] = []
        batches = embed_rows(self._model, images, self._batch_size, others.append, self._threads)
        rows = [row for batch in batches for row in batch]
        return _RowsResult(self._node, to_table(rows, self._model.dim), others)

    def _vectors(self, files: list[ImageFile]) -> _VectorsResult:
        ids, paths = [file.id for file in files], [file.path for file in files]
        embeddings, broken = embed_files(self._model, ids, paths, "skip", self._batch_size, self._threads)
        return _VectorsResult(self._node, embeddings, [NotEmbedded(*each) for each in broken.items()])


class _Rates:
    """Images per second of every machine, since the first result of any."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._images: Counter[str] = Counter()

    def after(self, node: str, images: int) -> str:
        """Count images; describe the rates, of the slowest machines if there are many."""
        now = time.monotonic()
        if self._began is None:  # what the first block took includes the start
            self._began = now
            self._images[node] = 0
            return ""
        self._images[node] += images
        seconds = max(now - self._began, 1e-3)
        slowest = sorted(self._images.items(), key=lambda item: item[1])[:_NODES_SHOWN]
        shown = [f"{name} {count / seconds:.0f}/s" for name, count in slowest]
        others = len(self._images) - len(shown)
        return " ".join([*shown, *([f"and {others} more"] if others else [])])
