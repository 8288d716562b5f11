"""Archives of images: read, split, pack and augment them.

Names are resolved on first use: only reading images needs the packages of `marcir[train]`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marcir.data.archive import Archive as Archive
    from marcir.data.augment import Augmentation as Augmentation
    from marcir.data.dataset import ArchiveDataset as ArchiveDataset
    from marcir.data.dataset import ImageFiles as ImageFiles
    from marcir.data.dataset import PackedImages as PackedImages
    from marcir.data.split import Split as Split
    from marcir.data.split import draw_split as draw_split

_PUBLIC = {
    "Archive": "marcir.data.archive",
    "ArchiveDataset": "marcir.data.dataset",
    "Augmentation": "marcir.data.augment",
    "ImageFiles": "marcir.data.dataset",
    "PackedImages": "marcir.data.dataset",
    "Split": "marcir.data.split",
    "draw_split": "marcir.data.split",
}

__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'marcir.data' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
