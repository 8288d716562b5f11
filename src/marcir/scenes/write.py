"""A generated archive on disk.

    out/scenes.json           written first: number of images, size, seed, version of the drawing
    out/images/000000.png ...
    out/labels.csv            written last: path,labels

Every file appears whole or not at all and no file is ever replaced, so an interrupted run is finished by the
same call, and two processes that write the same archive at once do no harm to each other.
"""

import io
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import active_children, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from marcir.checks import check_int, check_seed
from marcir.errors import ConfigError, DataError, needs
from marcir.files import atomic_write
from marcir.processes import describe_exit
from marcir.progress import track
from marcir.scenes.drawing import SIZES, draw_scene

with needs("train"):
    from PIL import Image

# Raise it with every change that alters a pixel or a label: archives of two versions are not the same.
VERSION = 3
ABOUT, TABLE = "scenes.json", "labels.csv"
# Files of a run that was killed while it wrote them, as `atomic_write` names them.
_LEFT = re.compile(r"(images/)?\.(scenes\.json|labels\.csv|\d{6}\.png)\.\w{8}\.part")
_CHUNK = 50
_MOST = 1_000_000


class About(NamedTuple):
    """What an archive consists of: the content of `scenes.json`."""

    images: int
    size: int
    seed: int
    version: int = VERSION

    @classmethod
    def load(cls, path: Path) -> "About":
        """Read `scenes.json`; a ConfigError where it is something else."""
        try:
            found = json.loads(path.read_text("utf-8"))
            return cls(*(check_int(name, found[name], 0) for name in cls._fields))
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigError(
                f"{path}: not the sign of an archive of scenes ({error}). Choose another folder, or remove "
                "it."
            ) from error

    def __str__(self) -> str:
        return ", ".join(f"{name} {number}" for name, number in self._asdict().items())


def write_scenes(out: str | Path, images: int, size: int, seed: int, workers: int | None = None) -> None:
    """Draw an archive of scenes into a folder, or finish one that was interrupted, with a progress bar.

    Nothing happens where the same archive is complete.

    Args:
        out: Folder for the archive: absent, empty, or holding the same archive.
        images: Number of images, up to a million.
        size: Their width and height in pixels.
        seed: Names the archive, 0 to 2**63 - 1; the same seed gives the same bytes for any number of
            workers.
        workers: Processes; by default one for each processor.

    Raises:
        ConfigError: For numbers out of range, and for a folder that holds anything else.
    """
    images, size = check_int("images", images, 1, _MOST), check_int("size", size, SIZES[0], SIZES[-1])
    about = About(images, size, check_seed(seed))
    workers = _processors() if workers is None else check_int("workers", workers, 1)
    out = Path(out)
    _check_folder(out, about)
    if (out / TABLE).is_file() and all(_picture(out, index).is_file() for index in range(images)):
        return
    _write_new(out / ABOUT, (json.dumps(about._asdict(), indent=1) + "\n").encode())
    (out / "images").mkdir(exist_ok=True)
    rows = _draw_all(out, about, workers)
    _write_new(out / TABLE, "".join(["path,labels\n", *rows]).encode())
    for left in [*out.glob(".*"), *out.glob("images/.*")]:
        if _LEFT.fullmatch(left.relative_to(out).as_posix()):
            left.unlink(missing_ok=True)


def _check_folder(out: Path, about: About) -> None:
    """Refuse a folder with another archive, or with files and no archive."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: expected a folder for the scenes, found a file. Choose another folder.")
    # Another process may be about to write its first file.
    if not out.exists() or all(_LEFT.fullmatch(path.name) for path in out.iterdir()):
        return
    if not (out / ABOUT).is_file():
        raise ConfigError(f"{out}: not empty, and not an archive of scenes. Choose another folder.")
    found = About.load(out / ABOUT)
    if found != about:
        raise ConfigError(
            f"{out / ABOUT}: holds scenes of {found}, not of {about}. Choose another folder, or remove "
            "this one."
        )


def _picture(out: Path, index: int) -> Path:
    return out / "images" / f"{index:06}.png"


def _draw_all(out: Path, about: About, workers: int) -> list[str]:
    """Draw and write every image; the rows of the label table."""
    chunks = [range(start, min(start + _CHUNK, about.images)) for start in range(0, about.images, _CHUNK)]
    draw = partial(_draw_chunk, out, about)
    workers = min(workers, len(chunks))
    drawn = map(draw, chunks) if workers == 1 else _pooled(out, draw, chunks, workers)
    return [row for rows in track(drawn, len(chunks), "drawing scenes") for row in rows]


def _pooled(
    out: Path, draw: Callable[[range], list[str]], chunks: list[range], workers: int
) -> Iterator[list[str]]:
    """The chunks, drawn by several processes."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    children: list[BaseProcess] = []
    try:
        with _script_hidden():
            drawn = pool.map(draw, chunks)
        children += active_children()
        yield from drawn
    except BrokenProcessPool as error:
        pool.shutdown(wait=True, cancel_futures=True)  # two threads that wait for one child: one sees no code
        # What ended the first process; the pool ends all others with SIGTERM.
        codes = [child.exitcode for child in children if child.exitcode not in (None, 0, -signal.SIGTERM)]
        death = describe_exit(codes[0] or 0) if codes else "a process ended without a word"
        raise DataError(f"{out}: while drawing, {death}. Start it again to go on.") from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Let new processes start without the caller's script.

    A spawned process imports the script that started it, and so runs it again where it has no
    `if __name__ == "__main__"`. The drawing needs nothing of it.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _draw_chunk(out: Path, about: About, chunk: range) -> list[str]:
    """Draw some images and write those that are missing; their rows of the label table."""
    rows = []
    for index in chunk:
        image, labels = draw_scene(about.seed, index, about.size)
        png = io.BytesIO()
        Image.fromarray(image).save(png, "PNG")
        _write_new(_picture(out, index), png.getvalue(), durable=False)
        rows.append(f"images/{index:06}.png,{';'.join(sorted(labels))}\n")
    return rows


def _write_new(path: Path, content: bytes, durable: bool = True) -> None:
    """Write a file that appears at once and whole; one that is there already stays as it is."""
    if path.exists():
        return
    try:
        with atomic_write(path, durable) as temporary:
            temporary.write_bytes(content)
    except ConfigError:  # another process may have finished the same archive meanwhile and tidied up
        if not path.exists():
            raise


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
