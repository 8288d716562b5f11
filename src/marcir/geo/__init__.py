"""Georeferenced scenes: list them, cut them into windows, read and label these, and compute footprints.

Names are resolved on first use, with the packages of `marcir[geo]`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marcir.geo.footprints import Footprint as Footprint
    from marcir.geo.footprints import footprints_of as footprints_of
    from marcir.geo.labelling import label_windows as label_windows
    from marcir.geo.listing import list_scenes as list_scenes
    from marcir.geo.reading import WindowReader as WindowReader
    from marcir.geo.scene import Scene as Scene
    from marcir.geo.scene_archive import SceneArchive as SceneArchive
    from marcir.geo.windows import Window as Window
    from marcir.geo.windows import WindowGrid as WindowGrid
    from marcir.geo.windows import windows_of as windows_of

_PUBLIC = {
    "Footprint": "marcir.geo.footprints",
    "Scene": "marcir.geo.scene",
    "SceneArchive": "marcir.geo.scene_archive",
    "Window": "marcir.geo.windows",
    "WindowGrid": "marcir.geo.windows",
    "WindowReader": "marcir.geo.reading",
    "footprints_of": "marcir.geo.footprints",
    "label_windows": "marcir.geo.labelling",
    "list_scenes": "marcir.geo.listing",
    "windows_of": "marcir.geo.windows",
}

__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'marcir.geo' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
