"""Choose between float32 and bfloat16; on a CPU by a trial, because CPU flags are not reliable.

A virtual machine may advertise AMX and end the first bfloat16 matrix product with an illegal instruction. So
a child process trains a few steps in both precisions (`precision_trial`); its result is cached.
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
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import torch
from filelock import FileLock

from marcir.errors import ConfigError, DataError
from marcir.files import cache_folder, reason
from marcir.model.device import choose_device
from marcir.processes import signal_name
from marcir.schema import load, record, save

PrecisionName = Literal["float32", "bfloat16"]
Verdict = Literal["usable", "unusable", "open"]

# bfloat16 is used if it is at least this many times as fast as float32.
MIN_SPEEDUP = 1.15
# Time limit of a trial, including the start of its process.
TIMEOUT_SECONDS = 15.0
STARTED = "started"
# An open verdict (a busy machine, no memory) is cached for this long, the others without limit.
_OPEN_SECONDS = 24 * 3600
_VERSION = 2
_TRIAL = (sys.executable, "-P", "-m", "marcir.model.precision_trial")
# Environment variables that select CPU instructions.
_SETTINGS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "ONEDNN_DEFAULT_FPMATH_MODE")
_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16"})


@dataclass(frozen=True)
class Precision:
    """The precision of a run, and the reason as a text for users."""

    name: PrecisionName  # bfloat16 is mixed: weights and loss stay float32
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


@dataclass(frozen=True)
class Trial:
    """The subject of a trial: a network, the side of its images, and whether only the head is trained."""

    backbone: str
    size: int
    dim: int
    frozen: bool
    threads: int


@record()
class TrialResult:
    """The result of a trial.

    Attributes:
        verdict: `usable` (fast or not), `unusable`, or `open` if the trial was inconclusive.
        rate: Speed relative to float32; 0 if it is not usable.
        what: What happened, as a text for users.
    """

    verdict: Verdict
    rate: float
    what: str

    @property
    def is_faster(self) -> bool:
        """Whether bfloat16 works and is fast enough to be used."""
        return self.verdict == "usable" and self.rate >= MIN_SPEEDUP


@record()
class _CachedResult(TrialResult):
    """A result in the cache, with its time and subject."""

    time: float
    subject: str


@dataclass(frozen=True)
class Processor:
    """Model name and instruction-set flags of a processor, as described by the operating system."""

    model: str
    flags: frozenset[str]

    @property
    def claims_bfloat16(self) -> bool:
        """Whether its flags include bfloat16; without it, bfloat16 is emulated and slow."""
        return bool(self.flags & _FLAGS) or bool(torch.cpu._is_avx512_bf16_supported())


def choose_precision(
    requested: Literal["auto", "float32", "bfloat16"], trial: Trial, device: str = "auto"
) -> Precision:
    """Choose the precision of a run on this machine.

    Raises:
        ConfigError: If bfloat16 is requested and unusable, and for a device that the machine lacks.
    """
    device_type = choose_device(device).type
    if requested == "float32":
        return Precision("float32", "as set")
    if device_type == "mps":
        return Precision("bfloat16" if requested == "bfloat16" else "float32", "this GPU is not tried")
    if device_type == "cuda":
        native = bool(torch.cuda.is_bf16_supported(including_emulation=False))
        if requested == "bfloat16":
            return Precision("bfloat16", "as set")
        return Precision(
            "bfloat16" if native else "float32",
            f"this GPU has {'native' if native else 'no native'} bfloat16",
        )
    if not processor().claims_bfloat16:
        if requested == "bfloat16":
            return Precision("bfloat16", "as set; this processor emulates it, which is slow")
        return Precision("float32", "this processor has no bfloat16")
    if trial.frozen and requested == "auto":
        return Precision("float32", "the backbone is frozen, and the head alone gains little from bfloat16")
    result = cached_trial(trial)
    if requested == "bfloat16":
        if result.verdict == "unusable":
            raise UnusablePrecisionError(result)
        return Precision("bfloat16", f"as set; {result.what}")
    return Precision("bfloat16" if result.is_faster else "float32", result.what)


class UnusablePrecisionError(ConfigError):
    """bfloat16 is requested but unusable on this machine.

    Attributes:
        what: What the trial found.
        setting: An environment variable that may help, with the reason; empty if there is none.
    """

    def __init__(self, result: TrialResult) -> None:
        cap = "ONEDNN_MAX_CPU_ISA"
        avoidable = "amx_bf16" in processor().flags and "illegal instruction" in result.what
        self.what = result.what
        self.setting = ""
        if avoidable and cap not in os.environ:
            self.setting = f"set {cap}=AVX512_CORE_BF16 in the environment, which avoids AMX"
        way_out = f"Use float32, or {self.setting}." if self.setting else "Use float32."
        super().__init__(f"train.precision bfloat16: {self.what}. {way_out}")


def cached_trial(trial: Trial) -> TrialResult:
    """The cached result of a trial, or that of a new one."""
    subject = {
        "version": _VERSION,
        "processor": processor().model,
        "flags": sorted(processor().flags),
        "torch": torch.__version__,
        "settings": {name: os.environ[name] for name in _SETTINGS if name in os.environ},
        **asdict(trial),
    }
    return _cached_trial(json.dumps(subject, sort_keys=True), trial)


@cache  # if the cache folder is not writable, there is still only one trial per process
def _cached_trial(subject: str, trial: Trial) -> TrialResult:
    file = cache_folder() / "precision" / f"{hashlib.sha256(subject.encode()).hexdigest()[:24]}.json"
    with _lock(file):
        result = _load_cached(file, subject)
        if result is None:
            _report(f"trying bfloat16 for up to {TIMEOUT_SECONDS:.0f} s, once per machine and network ...")
            result = run_trial([*_TRIAL, json.dumps(asdict(trial))])
            _save_cached(file, subject, result)
    return result


def run_trial(command: Sequence[str], limit: float = TIMEOUT_SECONDS) -> TrialResult:
    """Run a command of `precision_trial` in a child process, which may crash."""
    try:
        done = subprocess.run(  # noqa: S603  our own module
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return TrialResult("open", 0, f"the trial of bfloat16 did not end within {limit:.0f} s")
    except OSError as error:
        return TrialResult("open", 0, f"bfloat16 could not be tried ({reason(error)})")
    started, _, result = done.stdout.partition("\n")
    if started != STARTED:  # float32 did not work either: the trial is inconclusive
        return TrialResult("open", 0, f"bfloat16 could not be tried ({_ending(done)})")
    if done.returncode != 0:
        return _failed(done)
    measured = json.loads(result)
    if not measured["finite"]:
        return TrialResult("unusable", 0, "bfloat16 gives infinite or NaN results on this processor")
    return _compare(measured["ratios"])


def _compare(ratios: Sequence[float]) -> TrialResult:
    """The verdict of a trial: open if the interquartile range of its rounds includes the minimum speedup."""
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
    """The verdict on a child that crashed while computing in bfloat16."""
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
    """Describe the processor of this machine."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
    except OSError:  # not Linux
        return Processor(f"{platform.machine()} {platform.processor()}", frozenset())
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip().lower(), value.strip())
    # x86 has "flags" and "model name"; ARM has "features" and "cpu part".
    flags = f"{fields.get('flags', '')} {fields.get('features', '')}".split()
    parts = (fields.get(name, "") for name in ("vendor_id", "model name", "model", "stepping", "cpu part"))
    return Processor(" ".join(part for part in (platform.machine(), *parts) if part), frozenset(flags))


def _lock(file: Path) -> AbstractContextManager[object]:
    """Let only one process run the trial; without a lock if the cache is not writable."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(file.with_suffix(".lock")).acquire(timeout=2 * TIMEOUT_SECONDS)
    except OSError:
        return nullcontext()


def _load_cached(file: Path, subject: str) -> TrialResult | None:
    """The result in the cache; None if it is missing, too old or damaged."""
    try:
        cached = load(_CachedResult, file, "the result of a trial")
    except DataError:
        return None
    recent = cached.verdict != "open" or 0 <= time.time() - cached.time < _OPEN_SECONDS
    if cached.subject != subject or not recent:
        return None
    return TrialResult(cached.verdict, cached.rate, cached.what)


def _save_cached(file: Path, subject: str, result: TrialResult) -> None:
    try:
        cached = _CachedResult(**asdict(result), time=time.time(), subject=subject)
        save(file, cached, indent=1, durable=False)
    except ConfigError as error:
        _report(f"the result of the bfloat16 trial is not cached: {error}")


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
