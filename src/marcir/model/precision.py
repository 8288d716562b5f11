"""float32 or bfloat16: decided on a CPU by trying, because processors claim instructions they cannot run.

A virtual machine may advertise AMX and end the first bfloat16 matrix product with an illegal instruction. So
a child process trains a few steps in both precisions (`precision_trial`); the cache keeps its verdict.
"""

import hashlib
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import torch
from filelock import FileLock

from marcir.errors import ConfigError, DataError
from marcir.files import cache_folder, reason
from marcir.processes import signal_name
from marcir.schema import load, record, save

PrecisionName = Literal["float32", "bfloat16"]
Verdict = Literal["usable", "unusable", "open"]

# bfloat16 is taken where it is at least so many times as fast as float32.
MIN_SPEEDUP = 1.15
# Seconds that a trial may take, with the start of its process.
TIMEOUT_SECONDS = 15.0
STARTED = "started"
# An open verdict (a busy machine, no memory) is kept for so many seconds; one about the processor for good.
_OPEN_SECONDS = 24 * 3600
_VERSION = 2
_TRIAL = (sys.executable, "-P", "-m", "marcir.model.precision_trial")
# What changes which instructions the libraries use.
_SETTINGS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "ONEDNN_DEFAULT_FPMATH_MODE")
_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16"})


@dataclass(frozen=True)
class Precision:
    """What a run computes in.

    Attributes:
        name: float32 or bfloat16 (mixed: weights and loss stay float32).
        why: Why, in words for people.
    """

    name: PrecisionName
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


@dataclass(frozen=True)
class Trial:
    """What is tried.

    Attributes:
        backbone: timm's name.
        size: Side of the images.
        dim: Length of an embedding.
        frozen: Whether the head alone is trained.
        threads: Threads that compute.
    """

    backbone: str
    size: int
    dim: int
    frozen: bool
    threads: int


@record()
class TrialResult:
    """The result of a trial.

    Attributes:
        verdict: `usable` (fast or not), `unusable`, or `open` where the trial was cut short.
        rate: How many times as fast as float32; 0 where it is not usable.
        what: What happened, in words for people.
    """

    verdict: Verdict
    rate: float
    what: str

    @property
    def worth(self) -> bool:
        """Whether bfloat16 should be taken."""
        return self.verdict == "usable" and self.rate >= MIN_SPEEDUP


@record()
class _Kept(TrialResult):
    """A verdict in the cache, when it was found, and what it is about."""

    time: float
    subject: str


@dataclass(frozen=True)
class Processor:
    """A processor as the system describes it.

    Attributes:
        model: Its name.
        flags: What it claims to have.
    """

    model: str
    flags: frozenset[str]

    @property
    def claims_bfloat16(self) -> bool:
        """Whether it claims instructions for bfloat16; without them, bfloat16 is emulated and slow."""
        return bool(self.flags & _FLAGS) or bool(torch.cpu._is_avx512_bf16_supported())


def choose_precision(asked: Literal["auto", "float32", "bfloat16"], trial: Trial) -> Precision:
    """The precision of a run on this machine.

    Args:
        asked: What the settings say.
        trial: What will be trained.

    Raises:
        ConfigError: Where bfloat16 is asked for and cannot be used.
    """
    if asked == "float32":
        return Precision("float32", "as set")
    if torch.cuda.is_available():
        native = bool(torch.cuda.is_bf16_supported(including_emulation=False))
        if asked == "bfloat16":
            return Precision("bfloat16", "as set")
        return Precision(
            "bfloat16" if native else "float32",
            f"this GPU has {'native' if native else 'no native'} bfloat16",
        )
    if not processor().claims_bfloat16:
        if asked == "bfloat16":
            return Precision("bfloat16", "as set; this processor emulates it, which is slow")
        return Precision("float32", "this processor has no bfloat16")
    if trial.frozen and asked == "auto":
        return Precision("float32", "the backbone is frozen, and the head alone gains little from bfloat16")
    tried = cached_trial(trial)
    if asked == "bfloat16":
        if tried.verdict == "unusable":
            raise UnusablePrecisionError(tried)
        return Precision("bfloat16", f"as set; {tried.what}")
    return Precision("bfloat16" if tried.worth else "float32", tried.what)


class UnusablePrecisionError(ConfigError):
    """bfloat16 was asked for and cannot be used on this machine.

    Attributes:
        what: What the trial found.
        setting: A setting of the environment that may help, with its reason; empty where there is none.
    """

    def __init__(self, tried: TrialResult) -> None:
        cap = "ONEDNN_MAX_CPU_ISA"
        avoidable = "amx_bf16" in processor().flags and "illegal instruction" in tried.what
        self.what = tried.what
        self.setting = ""
        if avoidable and cap not in os.environ:
            self.setting = f"set {cap}=AVX512_CORE_BF16 in the environment, which avoids AMX"
        way_out = f"Use float32, or {self.setting}." if self.setting else "Use float32."
        super().__init__(f"train.precision bfloat16: {self.what}. {way_out}")


def cached_trial(trial: Trial) -> TrialResult:
    """The verdict in the cache, or that of a trial now."""
    subject = {
        "version": _VERSION,
        "processor": processor().model,
        "flags": sorted(processor().flags),
        "torch": torch.__version__,
        "settings": {name: os.environ[name] for name in _SETTINGS if name in os.environ},
        **asdict(trial),
    }
    return _tried(json.dumps(subject, sort_keys=True), trial)


@cache  # where the cache folder cannot be written, there is still only one trial per process
def _tried(subject: str, trial: Trial) -> TrialResult:
    file = cache_folder() / "precision" / f"{hashlib.sha256(subject.encode()).hexdigest()[:24]}.json"
    with _alone(file):
        tried = _kept(file, subject)
        if tried is None:
            _report(f"trying bfloat16 for up to {TIMEOUT_SECONDS:.0f} s, once per machine and network ...")
            tried = run_trial([*_TRIAL, json.dumps(asdict(trial))])
            _keep(file, subject, tried)
    return tried


def run_trial(command: Sequence[str], limit: float = TIMEOUT_SECONDS) -> TrialResult:
    """Run a trial in a child process, which may die.

    Args:
        command: The child: `precision_trial` and what it tries.
        limit: Seconds that it may take.
    """
    try:
        done = subprocess.run(  # noqa: S603  our own module
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return TrialResult("open", 0, f"the trial of bfloat16 did not end within {limit:.0f} s")
    except OSError as error:
        return TrialResult("open", 0, f"bfloat16 could not be tried ({reason(error)})")
    started, _, result = done.stdout.partition("\n")
    if started != STARTED:  # float32 did not work either: this says nothing about bfloat16
        return TrialResult("open", 0, f"bfloat16 could not be tried ({_ending(done)})")
    if done.returncode != 0:
        return _failed(done)
    found = json.loads(result)
    if not found["finite"]:
        return TrialResult("unusable", 0, "bfloat16 gives infinite or NaN results on this processor")
    return _compared(found["ratios"])


def _compared(ratios: Sequence[float]) -> TrialResult:
    """The verdict of a trial's rounds: open where the middle half of them does not decide it."""
    low, rate, high = statistics.quantiles(ratios, n=4, method="inclusive")
    if low < MIN_SPEEDUP <= high:
        what = (
            f"bfloat16 was {_times(low)} to {_times(high)} times as fast as float32 in the rounds of a trial"
        )
        return TrialResult("open", 0, f"{what}, which does not decide it")
    return TrialResult(
        "usable", rate, f"bfloat16 is {_times(rate)} times as fast as float32 on this processor"
    )


def _times(rate: float) -> str:
    """Two decimals, never rounded up: 1.149 is not enough."""
    return f"{math.floor(100 * rate) / 100:.2f}"


def _failed(done: "subprocess.CompletedProcess[str]") -> TrialResult:
    """The verdict on a child that died when it computed in bfloat16."""
    if done.returncode == -signal.SIGILL:
        return TrialResult("unusable", 0, "bfloat16 ends with an illegal instruction on this processor")
    if done.returncode == -signal.SIGKILL:
        return TrialResult("open", 0, "the trial of bfloat16 was killed, probably because memory ran out")
    if done.returncode < 0:
        return TrialResult("unusable", 0, f"bfloat16 ends with {_ending(done)} on this processor")
    return TrialResult("unusable", 0, f"bfloat16 fails on this processor ({_ending(done)})")


def _ending(done: "subprocess.CompletedProcess[str]") -> str:
    if done.returncode < 0:
        return signal_name(-done.returncode)
    lines = done.stderr.strip().splitlines()
    return lines[-1][:200] if lines else f"exit code {done.returncode}"


@cache
def processor() -> Processor:
    """The processor of this machine."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
    except OSError:  # not Linux
        return Processor(f"{platform.machine()} {platform.processor()}", frozenset())
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip().lower(), value.strip())
    # x86 says "flags" and "model name"; ARM says "features" and "cpu part".
    flags = f"{found.get('flags', '')} {found.get('features', '')}".split()
    parts = (found.get(name, "") for name in ("vendor_id", "model name", "model", "stepping", "cpu part"))
    return Processor(" ".join(part for part in (platform.machine(), *parts) if part), frozenset(flags))


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """One trial at a time: the others wait for its verdict. Without a lock where none can be made."""
    lock = FileLock(file.with_suffix(".lock"))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=2 * TIMEOUT_SECONDS)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        lock.release()


def _kept(file: Path, subject: str) -> TrialResult | None:
    """A verdict that was kept; None where there is none, it is too old or damaged."""
    try:
        kept = load(_Kept, file, "the verdict of a trial")
    except DataError:
        return None
    recent = kept.verdict != "open" or 0 <= time.time() - kept.time < _OPEN_SECONDS
    return kept if kept.subject == subject and recent else None


def _keep(file: Path, subject: str, tried: TrialResult) -> None:
    try:
        save(file, _Kept(**asdict(tried), time=time.time(), subject=subject), indent=1, durable=False)
    except ConfigError as error:
        _report(f"the verdict on bfloat16 is not kept: {error}")


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
