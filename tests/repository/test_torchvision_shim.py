"""torchvision and timm beside any torch, each time in an interpreter that has imported only torch."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import pytest

needs_both = pytest.mark.skipif(
    find_spec("torchvision") is None or find_spec("timm") is None,
    reason="torchvision or timm is not installed",
)

THROUGH_THE_SHIM = """
import json
import torch
from marcir import torchvision_shim
from marcir.torchvision_shim import timm, torchvision
from torchvision.transforms import v2

torchvision_shim.declare_operators()
seen = {"declared": len(torchvision_shim._declared), "names": [torchvision.__name__, timm.__name__]}

transform = v2.Compose([
    v2.RandomHorizontalFlip(),
    v2.Resize((24, 32), antialias=True),
    v2.CenterCrop(20),
    v2.ToDtype(torch.float32, scale=True),
    v2.Normalize([0.5] * 3, [0.5] * 3),
])
x = transform(torch.full((2, 3, 40, 50), 255, dtype=torch.uint8))
seen["transformed"] = [list(x.shape), str(x.dtype), x.min().item(), x.max().item()]

network = timm.create_model("resnet18", pretrained=False, num_classes=0).eval()
with torch.no_grad():
    z = network(torch.zeros(2, 3, 64, 64))
seen["embedded"] = [list(z.shape), bool(z.isfinite().all())]

try:
    torch.ops.torchvision.nms(torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.ones(1), 0.5)
    seen["nms"] = "works"
except NotImplementedError:
    seen["nms"] = "refused"
print(json.dumps(seen))
"""
# A package that cannot be found, for `find_spec` as for `import`: what an interpreter without it sees.
ABSENT = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        return None if fullname.split(".")[0] == {name!r} else PathFinder.find_spec(fullname, path, target)

sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
"""
OPERATORS = """
import torch
library = torch.library.Library("torchvision", "DEF")
for operator in ("nms", "qnms"):
    library.define(operator + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
# What importing each package through the shim says.
TRY = """
from marcir import torchvision_shim
for name in ("torchvision", "timm"):
    try:
        getattr(torchvision_shim, name)
        print("imported")
    except ImportError as error:
        print(type(error).__name__, error.name, error, sep=": ")
"""
REFUSED = "DependencyError: None: {} is not installed. Install it with: pip install 'marcir[train]'"


BY_ITSELF = """
import sys
from marcir import torchvision_shim
print(torchvision_shim._declared, {"torchvision", "timm"} & set(sys.modules))
print(hasattr(torchvision_shim, "torchaudio"))
"""
PROGRAMS = {
    "through the shim": THROUGH_THE_SHIM,
    "torchvision alone": "import torchvision",
    "the shim by itself": BY_ITSELF,
    "with operators": OPERATORS
    + ABSENT.format(name="torchvision")
    + TRY
    + "print(torchvision_shim._declared)",
    "without torchvision": ABSENT.format(name="torchvision") + TRY,
    "without timm": ABSENT.format(name="timm") + TRY,
    "without PIL": ABSENT.format(name="PIL") + TRY,
}
# Imports torch once, and runs each program in a copy of the process.
COPIES = """
import json, os, sys, traceback
import torch

for number, program in enumerate(json.load(sys.stdin)):
    process = os.fork()
    if process == 0:
        output = os.open(str(number), os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        try:
            exec(program, {"__name__": "__main__"})
            code = 0
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(process, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@dataclass(frozen=True)
class Ran:
    """How a program ended, and what it printed."""

    code: int
    text: str

    @property
    def lines(self) -> list[str]:
        assert self.code == 0, self.text
        return self.text.splitlines()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """What became of all programs."""
    folder = tmp_path_factory.mktemp("programs")
    done = subprocess.run(
        [sys.executable, "-c", COPIES],
        input=json.dumps(list(PROGRAMS.values())),
        capture_output=True,
        text=True,
        timeout=200,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    codes = map(int, done.stdout.split())
    texts = [(folder / str(number)).read_text() for number in range(len(PROGRAMS))]
    return {name: Ran(*each) for name, *each in zip(PROGRAMS, codes, texts, strict=True)}


@pytest.fixture(scope="module")
def seen(ran: dict[str, Ran]) -> dict[str, Any]:
    """What both packages do through the shim."""
    found: dict[str, Any] = json.loads(ran["through the shim"].lines[-1])
    return found


@needs_both
def test_operators_are_declared_once_and_only_where_torchvision_fails_by_itself(
    ran: dict[str, Ran], seen: dict[str, Any], record_property: Callable[[str, object], None]
) -> None:
    works = ran["torchvision alone"].code == 0
    record_property("torchvision can be imported by itself", works)
    assert seen["names"] == ["torchvision", "timm"]
    assert seen["declared"] == (0 if works else 1)


@needs_both
def test_a_declared_operator_cannot_be_called(seen: dict[str, Any]) -> None:
    assert seen["nms"] == ("refused" if seen["declared"] else "works")


@needs_both
def test_images_pass_through_the_transforms_of_torchvision(seen: dict[str, Any]) -> None:
    assert seen["transformed"] == [[2, 3, 20, 20], "torch.float32", 1.0, 1.0]


@needs_both
def test_images_pass_through_a_network_of_timm(seen: dict[str, Any]) -> None:
    assert seen["embedded"] == [[2, 512], True]


def test_the_shim_by_itself_imports_and_declares_nothing_and_has_no_other_names(ran: dict[str, Ran]) -> None:
    assert ran["the shim by itself"].lines == ["[] set()", "False"]


def test_where_the_operators_exist_already_nothing_is_declared_and_a_missing_torchvision_is_told(
    ran: dict[str, Ran],
) -> None:
    found = ran["with operators"].lines
    assert found[0] == REFUSED.format("torchvision")
    assert found[-1] == "[]"


def test_a_missing_torchvision_is_told_with_the_command_that_installs_it(ran: dict[str, Ran]) -> None:
    """Also where timm is asked for, which needs it."""
    assert ran["without torchvision"].lines == [REFUSED.format("torchvision")] * 2


@needs_both
def test_a_missing_timm_is_told_with_the_command_that_installs_it(ran: dict[str, Ran]) -> None:
    assert ran["without timm"].lines == ["imported", REFUSED.format("timm")]


@needs_both
def test_a_package_that_lacks_a_part_of_its_own_says_so_itself(ran: dict[str, Ran]) -> None:
    assert ran["without PIL"].lines[-1] == "ModuleNotFoundError: PIL: No module named 'PIL'"
