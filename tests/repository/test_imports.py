"""Import layers, what an import costs, and what is public."""

import ast
import subprocess
import sys
import sysconfig
from importlib import import_module
from pathlib import Path

import pytest

import marcir
import marcir.losses
from marcir.catalog import LOSSES
from paper import loops

ROOT = Path(__file__).parents[2]


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_imports_go_down_only() -> None:
    lint = Path(sysconfig.get_path("scripts")) / "lint-imports"
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "action",
    [
        "import marcir",
        "import marcir.errors",
        "import marcir.catalog",
        "import marcir.cli",
        "from marcir.cli import main; main(['--help'])",
        "from marcir.cli import main; main(['--version'])",
        "from marcir.cli import main; main([])",
        "from marcir.cli import main; main(['demo', '--help'])",
        "from marcir.cli import main; main(['no-such-command'])",
    ],
)
def test_neither_torch_nor_numpy_is_imported_before_it_is_needed(action: str) -> None:
    code = (
        f"import sys\ntry:\n    {action}\nexcept SystemExit:\n    pass\n"
        "print('\\nheavy:', sorted({name.split('.')[0] for name in sys.modules} & {'torch', 'numpy'}))"
    )
    assert run(code).splitlines()[-1] == "heavy: []"


def test_every_public_name_is_there() -> None:
    assert len(set(marcir.__all__)) == len(marcir.__all__)
    for name in marcir.__all__:
        assert getattr(marcir, name) is not None
        assert name in dir(marcir)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'marcir' has no attribute 'no_such_name'"):
        marcir.no_such_name  # noqa: B018


@pytest.mark.parametrize(
    ("package", "own"), [("marcir", {"__version__"}), ("marcir.data", set()), ("marcir.geo", set())]
)
def test_type_checkers_see_the_names_that_are_resolved_on_use(package: str, own: set[str]) -> None:
    module = import_module(package)
    tree = ast.parse((ROOT / "src" / package.replace(".", "/") / "__init__.py").read_text("utf-8"))
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    seen = {}
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            assert alias.asname == alias.name, "only `as` the same name makes it public to a type checker"
            seen[alias.name] = statement.module
    assert seen == module._PUBLIC
    assert set(module.__all__) == own | set(seen)
    assert set(seen) <= set(dir(module))


# Each time as in a fresh interpreter, but that torch is imported once.
ONE_BY_ONE = """
import sys
for name in {names}:
    import marcir
    print(getattr(marcir, name).__name__)
    for imported in [each for each in sys.modules if each.split(".")[0] == "marcir"]:
        del sys.modules[imported]
"""


def test_every_package_is_there_without_importing_it() -> None:
    names = ["data", "labels", "losses", "metrics", "search"]
    assert run(ONE_BY_ONE.format(names=names)).splitlines() == [f"marcir.{name}" for name in names]


def test_a_name_that_is_not_public_in_a_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'marcir.data' has no attribute 'no_such_name'"):
        import_module("marcir.data").no_such_name  # noqa: B018


def test_loading_a_model_imports_nothing_of_training_scores_figures_and_experiments() -> None:
    code = (
        "import sys, marcir; marcir.load_model; print(*(m for m in sys.modules if m.startswith('marcir.')))"
    )
    packages = {name.split(".")[1] for name in run(code).split()}
    assert "model" in packages
    assert not packages & {"training", "metrics", "figures", "experiments", "search", "serve", "losses"}


WITHOUT = """
import sys
from marcir.cli import main
for name in {packages}:
    sys.modules[name] = None
import marcir.data
try:
    marcir.data.PackedImages
except marcir.errors.DependencyError as error:
    print(error)
for command in (["inspect", "--dataset", "whdld", "--root", "."], ["scenes", "--out", "nowhere"]):
    print(main(["data", *command]), flush=True)
"""


def test_archives_on_a_core_install_say_what_to_install(tmp_path: Path) -> None:
    packages = ("PIL", "tifffile", "imagecodecs", "filelock", "rich")
    code = WITHOUT.format(packages=packages)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    install = "Install it with: pip install 'marcir[train]'"
    assert done.returncode == 0, done.stderr
    assert [line.endswith(install) or line for line in done.stdout.splitlines()] == [True, "2", "2"]
    assert [line.endswith(install) or line for line in done.stderr.splitlines()] == [True, True]


@pytest.mark.parametrize(
    "module", ["marcir", "marcir.data", "marcir.labels", "marcir.losses", "marcir.data.samplers"]
)
def test_all_names_of_a_package_resolve(module: str) -> None:
    package = import_module(module)
    assert sorted(set(package.__all__)) == sorted(package.__all__)
    for name in package.__all__:
        assert hasattr(package, name)


@pytest.mark.parametrize("name", sorted(set(marcir.__all__) - {"__version__"}))
def test_every_public_name_has_an_example(name: str) -> None:
    assert ">>>" in str(getattr(marcir, name).__doc__)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_of_the_catalog_is_public(name: str) -> None:
    module, class_name = LOSSES[name].split(":")
    assert class_name in marcir.losses.__all__
    assert getattr(marcir.losses, class_name) is getattr(import_module(module), class_name)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_of_the_catalog_has_a_loop(name: str) -> None:
    assert callable(getattr(loops, name.replace("-", "_"), None))
