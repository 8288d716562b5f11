"""A store that names files which must never be shown."""

import os
import shutil
from pathlib import Path

from marcir.search.lance import LanceStore
from marcir.search.records import Row

FIRST = "images/000000.png"
# Ids that lead outside of the folder, or to what is no image.
OUTSIDE = [
    "../secret.png",
    "inside/../../secret.png",
    "link.png",
    "linked/secret.png",
    "%2e%2e/secret.png",
    "..%2fsecret.png",
    "inside//../..//secret.png",
    "labels.csv",
    "script.html",
    "drawing.svg",
    "folder.png",
    "pipe.png",
    "nul\0.png",
    ".",
    "x" * 300,
]


def write_hostile(folder: Path, images: Path, store: Path) -> tuple[Path, Path]:
    """A folder with traps beside real images, and a store that names them all."""
    archive, secret = folder / "archive", folder / "secret.png"
    shutil.copytree(images, archive)
    (archive / "inside").mkdir()
    shutil.copy(images / FIRST, secret)
    shutil.copy(images / FIRST, archive / "fine.png")
    (archive / "link.png").symlink_to(secret)
    (archive / "linked").symlink_to(folder)
    (archive / "good-link.png").symlink_to(archive / "fine.png")
    (archive / "script.html").write_text("<script>alert(1)</script>")
    (archive / "drawing.svg").write_text(
        "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    )
    (archive / "folder.png").mkdir()
    os.mkfifo(archive / "pipe.png")
    copied = shutil.copytree(store, folder / "store")
    vector = LanceStore(copied).look_up(FIRST).vector
    names = ["fine.png", "good-link.png", str(secret), *(name for name in OUTSIDE if "\0" not in name)]
    LanceStore(copied).add([Row(name, vector, thumbnail=b"<script>alert(1)</script>") for name in names])
    return archive, copied
