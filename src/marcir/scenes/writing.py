"""A generated archive on disk: images, labels.csv, and scenes.json as the sign that it is complete.

    out/scenes.json           written last: number of images, size, seed, version of the drawing
    out/labels.csv            path,labels
    out/images/000000.png ...

While the archive is being written, `scenes.unfinished.json` stands for `scenes.json`. Every file appears
whole or not at all and no file is ever replaced, so an interrupted run is finished by the same call, and two
processes that write the same archive at once do no harm to each other.
"""

import csv
import io
import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType

from marcir.checks import check_int, check_seed
from marcir.errors import ConfigError, DataError, needs
from marcir.files import atomic_write
from marcir.processes import describe_exit
from marcir.progress import track
from marcir.scenes.drawing import SCENE_LABELS, SIZES, draw_scene

with needs("train"):
    from PIL import Image

# Raise it with every change that alters a pixel or a label: archives of two versions are not the same.
VERSION = 2
COMPLETE, UNFINISHED, TABLE = "scenes.json", "scenes.unfinished.json", "labels.csv"
_OURS = re.compile(r"scenes\.json|scenes\.unfinished\.json|labels\.csv|images/\d{6}\.png")
# Files of a run that was killed while it wrote them, as `atomic_write` names them.
_LEFT = re.compile(r"(images/)?\.(scenes\.json|scenes\.unfinished\.json|labels\.csv|\d{6}\.png)\.\w{8}\.part")
_CHUNK = 50
_MOST = 1_000_000


def write_scenes(out: str | Path, images: int, size: int, seed: int, workers: int | None = None) -> None:
    """Draw an archive of scenes into a folder, or finish one that was interrupted, with a progress bar.

    Nothing happens where the same archive stands complete.

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
    about = {
        "images": check_int("images", images, 1, _MOST),
        "size": check_int("size", size, SIZES[0], SIZES[-1]),
        "seed": check_seed(seed),
        "version": VERSION,
    }
    if workers is not None:
        check_int("workers", workers, 1)
    out = Path(out)
    if _is_complete(out, about):
        return
    _check_folder(out, about)
    text = json.dumps(about, indent=1) + "\n"
    _write_new(out / UNFINISHED, text.encode())
    (out / "images").mkdir(exist_ok=True)
    rows = _draw_all(out, about, workers)
    _write_new(out / TABLE, _table(rows).encode())
    _write_new(out / COMPLETE, text.encode())
    for left in [out / UNFINISHED, *out.glob(".*"), *out.glob("images/.*")]:
        if left.name == UNFINISHED or _LEFT.fullmatch(left.relative_to(out).as_posix()):
            left.unlink(missing_ok=True)


def _is_complete(out: Path, about: dict[str, int]) -> bool:
    """Whether the same archive stands there with all its files."""
    if not (out / COMPLETE).is_file() or read_about(out / COMPLETE) != about:
        return False
    return (out / TABLE).is_file() and all(path.is_file() for path in _image_paths(out, about["images"]))


def _check_folder(out: Path, about: dict[str, int]) -> None:
    """Refuse a folder with another archive or with files that are no part of one."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: expected a folder for the scenes, found a file. Choose another folder.")
    # Another process may just be writing the first sign, or exchanging it for the last.
    if not out.exists() or all(_LEFT.fullmatch(path.name) for path in out.iterdir()):
        return
    for sign in (COMPLETE, UNFINISHED, COMPLETE):
        if (out / sign).is_file():
            found = read_about(out / sign)
            if found != about:
                raise ConfigError(
                    f"{out / sign}: holds scenes of {_words(found)}, not of {_words(about)}. "
                    "Choose another folder, or remove this one."
                )
            break
    else:
        raise ConfigError(f"{out}: not empty, and not an archive of scenes. Choose another folder.")
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out).as_posix()
        known = name == "images" if path.is_dir() else _OURS.fullmatch(name) or _LEFT.fullmatch(name)
        if not known or (path.suffix == ".png" and int(path.stem) >= about["images"]):
            raise ConfigError(
                f"{path}: no part of the unfinished scenes there. Move it, or choose another folder."
            )


def read_about(path: Path) -> dict[str, int]:
    """What `scenes.json` says: images, size, seed and version.

    Raises:
        ConfigError: Where it is not one of ours.
    """
    try:
        about = json.loads(path.read_text("utf-8"))
        return {name: check_int(name, about[name], 0) for name in ("images", "size", "seed", "version")}
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigError(
            f"{path}: not the sign of an archive of scenes ({error}). Choose another folder, or remove it."
        ) from error


def _words(about: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in about.items())


def _image_paths(out: Path, images: int) -> Iterator[Path]:
    return (out / "images" / f"{index:06}.png" for index in range(images))


def _table(rows: list[list[str]]) -> str:
    """The label table: one row per image, labels in the vocabulary's order."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["path", "labels"])
    writer.writerows([f"images/{index:06}.png", ";".join(labels)] for index, labels in enumerate(rows))
    return text.getvalue()


def _draw_all(out: Path, about: dict[str, int], workers: int | None) -> list[list[str]]:
    """Draw and write every image; the labels of each."""
    images = about["images"]
    chunks = [range(start, min(start + _CHUNK, images)) for start in range(0, images, _CHUNK)]
    workers = min(_processors() if workers is None else workers, len(chunks))
    rows: list[list[str]] = [[] for _ in range(images)]
    drawn = _in_process(out, about, chunks) if workers == 1 else _pooled(out, about, chunks, workers)
    for chunk, labels in track(drawn, len(chunks), "drawing scenes"):
        rows[chunk.start : chunk.stop] = labels
    return rows


Drawn = Iterator[tuple[range, list[list[str]]]]


def _in_process(out: Path, about: dict[str, int], chunks: list[range]) -> Drawn:
    for chunk in chunks:
        yield chunk, _draw_chunk(out, about, chunk)


def _pooled(out: Path, about: dict[str, int], chunks: list[range], workers: int) -> Drawn:
    """Chunks as they are finished, in any order."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    children: list[BaseProcess] = []
    try:
        with _script_hidden():
            waiting: dict[Future[list[list[str]]], range] = {
                pool.submit(_draw_chunk, out, about, chunk): chunk for chunk in chunks
            }
        children += active_children()
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BrokenProcessPool as error:
        pool.shutdown(wait=True, cancel_futures=True)  # two threads that wait for one child: one sees no code
        raise DataError(
            f"{out}: while drawing, {_first_death(children)}. Start it again to go on."
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _first_death(children: Sequence[BaseProcess]) -> str:
    """What ended the first process; the pool ends all others with SIGTERM."""
    codes = [child.exitcode for child in children if child.exitcode not in (None, 0, -signal.SIGTERM)]
    return describe_exit(codes[0] or 0) if codes else "a process ended without a word"


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


def _draw_chunk(out: Path, about: dict[str, int], chunk: range) -> list[list[str]]:
    """Draw some images and write those that are missing; the labels of each, in the vocabulary's order."""
    rows = []
    for index in chunk:
        image, labels = draw_scene(about["seed"], index, about["size"])
        rows.append([label for label in SCENE_LABELS if label in labels])
        png = io.BytesIO()
        Image.fromarray(image).save(png, "PNG")
        _write_new(out / "images" / f"{index:06}.png", png.getvalue(), durable=False)
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
