"""Settings that hold for all tests."""

import os
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import HealthCheck, settings

from search.s3_server import moto_server, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Examples are the same in every run, and a slow machine is no failure.
settings.register_profile(
    "marcir", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("marcir")

# Tiny tensors: a second thread would only wait for the first, in here and in processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)

ALLOWED_SKIPS = Path(__file__).parents[1] / ".ci" / "allowed-skips.txt"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real data and weights; skips where it is absent."""
    folder = Path(os.environ.get("MARCIR_SHARED", "../shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"{folder / 'data'} is missing (set MARCIR_SHARED)")
    return folder


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """A browser without a window; one for all, because playwright runs only once in a process."""
    chromium = os.environ.get("MARCIR_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is missing (install it, or set MARCIR_CHROMIUM)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Without WebGL, so without maps: to draw them takes longer than most tests.
        args = ["--no-sandbox", "--disable-gpu", "--disable-3d-apis"]
        started = playwright.chromium.launch(executable_path=chromium, args=args)
        yield started
        started.close()


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder that this test alone uses, outside of its archives."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("MARCIR_CACHE", str(folder))
    return folder


@pytest.fixture(autouse=True)
def _same_random_state() -> None:
    """Every test starts from the same random state."""
    torch.manual_seed(0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """With MARCIR_FORBID_SKIPS, a skipped test that is not on the allow-list fails the run."""
    if not os.environ.get("MARCIR_FORBID_SKIPS"):
        return
    allowed = [line.strip() for line in ALLOWED_SKIPS.read_text().splitlines()]
    allowed = [line for line in allowed if line and not line.startswith("#")]
    skipped = [report.nodeid for report in terminalreporter.stats.get("skipped", [])]
    unexpected = [node for node in skipped if not any(node.startswith(prefix) for prefix in allowed)]
    for node in unexpected:
        terminalreporter.write_line(f"skipped, and not on .ci/allowed-skips.txt: {node}", red=True)
    if unexpected:
        terminalreporter._session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 generated scenes of 24 pixels, and their labels.csv; not to be changed."""
    from marcir.scenes.write import write_scenes

    folder = tmp_path_factory.mktemp("searched") / "scenes"
    write_scenes(folder, 40, 24, 0)
    return folder


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty bucket, and the environment that leads to it."""
    program = moto_server()
    if program is None:
        pytest.skip("moto_server is missing (set MARCIR_MOTO_SERVER)")
    with serving(program) as address:
        for name, value in {
            "AWS_ENDPOINT_URL": address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        made = urllib.request.Request(f"{address}/archive", method="PUT")  # noqa: S310
        with urllib.request.urlopen(made, timeout=20) as answer:  # noqa: S310
            assert answer.status == 200
        yield "s3://archive"
