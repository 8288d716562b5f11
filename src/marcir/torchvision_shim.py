"""Import torchvision and timm with a CPU-only torch.

The torchvision wheel on PyPI is built for CUDA. With a CPU-only torch its native library
does not load, and `import torchvision` fails with "operator torchvision::nms does not exist"
(pytorch/vision #9077), although models and transforms need none of those operators. Declaring the
two schemas that the import looks up is enough. Calling an operator still fails, as it should.

Both packages must be imported from here, which the import contract checks:

    from marcir.torchvision_shim import timm, torchvision
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import torch

from marcir.errors import DependencyError

if TYPE_CHECKING:
    import timm as timm
    import torchvision as torchvision

# A Library removes its declarations when it is garbage-collected, so it must live as long as the process.
_declared: list[torch.library.Library] = []


def _native_operators_load() -> bool:
    """Whether torchvision's native library can be loaded (loading it twice is harmless)."""
    spec = find_spec("torchvision")
    if spec is None or not spec.submodule_search_locations:
        raise DependencyError("torchvision is not installed. Install it with: pip install 'marcir[train]'")
    for folder in spec.submodule_search_locations:
        for library in sorted(Path(folder).glob("_C.*")):
            try:
                torch.ops.load_library(library)
            except OSError:
                continue
            return True
    return False


def declare_operators() -> None:
    """Declare `torchvision::nms` and `qnms` if the native operators are missing."""
    if _declared or hasattr(torch.ops.torchvision, "nms") or _native_operators_load():
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)


def __getattr__(name: str) -> ModuleType:
    if name not in ("torchvision", "timm"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    declare_operators()
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in ("torchvision", "timm"):
            raise
        raise DependencyError(
            f"{error.name} is not installed. Install it with: pip install 'marcir[train]'"
        ) from error
