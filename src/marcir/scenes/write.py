"""Write a generated archive.

    out/scenes.json           written first: number of images, size, seed, version of the drawing
    out/images/000000.png ...
    out/labels.csv            written last: path,labels

Files are written atomically and never replaced, so the same call finishes an interrupted run, and two
processes may write the same archive at once.
"""

import io
import json
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
from marcir.processes import describe_exit, processors
from marcir.progress import track
from marcir.scenes.drawing import SIZES, draw_scene

with needs("train"):
    from PIL import Image

# Raise it with every change of a pixel or a label.
VERSION = 3
SETTINGS, TABLE = "scenes.json", "labels.csv"
# Temporary files of a killed run, as named by `atomic_write`.
_TEMPORARY = re.compile(r"(images/)?\.(scenes\.json|labels\.csv|\d{6}\.png)\.\w{8}\.part")
_CHUNK = 50
_MAX_IMAGES = 1_000_000


class SceneSettings(NamedTuple):
    """The parameters of a generated archive: the content of `scenes.json`."""

    images: int
    size: int
    seed: int
    version: int = VERSION

    @classmethod
    def load(cls, path: Path) -> "SceneSettings":
        """Read `scenes.json`; a ConfigError if it is invalid."""
        try:
            content = json.loads(path.read_text("utf-8"))
            return cls(*(check_int(name, content[name], 0) for name in cls._fields))
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigError(
                f"{path}: not the settings of generated scenes ({error}). Remove it, or use another folder."
            ) from error

    def __str__(self) -> str:
        return ", ".join(f"{name} {number}" for name, number in self._asdict().items())


def write_scenes(out: str | Path, images: int, size: int, seed: int, workers: int | None = None) -> None:
    """Generate an archive of scenes in a folder, or finish an interrupted one, with a progress bar.

    Does nothing if the same archive is complete.

    Args:
        out: Folder for the archive: absent, empty, or holding the same archive.
        images: Number of images, up to a million.
        size: Their width and height in pixels.
        seed: Seed, 0 to 2**63 - 1; the same seed gives the same bytes for any number of workers.
        workers: Number of processes; by default one per processor.

    Raises:
        ConfigError: For numbers out of range, and for a folder with other content.
    """
    images, size = check_int("images", images, 1, _MAX_IMAGES), check_int("size", size, SIZES[0], SIZES[-1])
    settings = SceneSettings(images, size, check_seed(seed))
    workers = processors() if workers is None else check_int("workers", workers, 1)
    out = Path(out)
    _check_folder(out, settings)
    if (out / TABLE).is_file() and all(_image_path(out, index).is_file() for index in range(images)):
        return
    _write_new(out / SETTINGS, (json.dumps(settings._asdict(), indent=1) + "\n").encode())
    (out / "images").mkdir(exist_ok=True)
    chunks = [range(start, min(start + _CHUNK, images)) for start in range(0, images, _CHUNK)]
    draw, workers = partial(_draw_chunk, out, settings), min(workers, len(chunks))
    drawn = map(draw, chunks) if workers == 1 else _pooled(out, draw, chunks, workers)
    rows = [row for rows in track(drawn, len(chunks), "drawing scenes") for row in rows]
    _write_new(out / TABLE, "".join(["path,labels\n", *rows]).encode())
    for path in [*out.glob(".*"), *out.glob("images/.*")]:
        if _TEMPORARY.fullmatch(path.relative_to(out).as_posix()):
            path.unlink(missing_ok=True)


def _check_folder(out: Path, settings: SceneSettings) -> None:
    """Refuse a folder with another archive, or with files and no archive."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: expected a folder for the scenes, found a file. Choose another folder.")
    # Another process may be writing its first file.
    if not out.exists() or all(_TEMPORARY.fullmatch(path.name) for path in out.iterdir()):
        return
    if not (out / SETTINGS).is_file():
        raise ConfigError(f"{out}: not empty, and not an archive of scenes. Choose another folder.")
    saved = SceneSettings.load(out / SETTINGS)
    if saved != settings:
        raise ConfigError(
            f"{out / SETTINGS}: holds scenes of {saved}, not of {settings}. Choose another folder, or remove "
            "this one."
        )


def _image_path(out: Path, index: int) -> Path:
    return out / "images" / f"{index:06}.png"


def _pooled(
    out: Path, draw: Callable[[range], list[str]], chunks: list[range], workers: int
) -> Iterator[list[str]]:
    """Draw the chunks in several processes."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    children: list[BaseProcess] = []
    try:
        with _script_hidden():
            drawn = pool.map(draw, chunks)
        children += active_children()
        yield from drawn
    except BrokenProcessPool as error:
        # Else two threads wait for one child, and one gets no exit code.
        pool.shutdown(wait=True, cancel_futures=True)
        # Exit code of the first dead process; the pool ends all others with SIGTERM.
        codes = [child.exitcode for child in children if child.exitcode not in (None, 0, -signal.SIGTERM)]
        death = describe_exit(codes[0] or 0) if codes else "a process ended without an exit code"
        raise DataError(f"{out}: while drawing, {death}. Run it again to continue.") from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Let new processes start without importing the caller's script, and so running it again."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _draw_chunk(out: Path, settings: SceneSettings, chunk: range) -> list[str]:
    """Draw some images and write the missing ones; return their rows of the label table."""
    rows = []
    for index in chunk:
        image, labels = draw_scene(settings.seed, index, settings.size)
        png = io.BytesIO()
        Image.fromarray(image).save(png, "PNG")
        _write_new(_image_path(out, index), png.getvalue(), durable=False)
        rows.append(f"images/{index:06}.png,{';'.join(sorted(labels))}\n")
    return rows


def _write_new(path: Path, content: bytes, durable: bool = True) -> None:
    """Write a file atomically, unless it exists."""
    if path.exists():
        return
    try:
        with atomic_write(path, durable) as temporary:
            temporary.write_bytes(content)
    except ConfigError:  # another process may have finished the same archive and removed the temporary file
        if not path.exists():
            raise
