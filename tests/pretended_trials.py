"""A processor that claims bfloat16, and trials of it that end, for real, in every way."""

import sys

import pytest
import torch

from marcir.model import precision
from marcir.model.precision import Processor

CLAIMS = Processor("a processor", frozenset({"avx512_bf16", "amx_bf16"}))
# What a child does after float32 has worked.
CHILDREN = {
    "illegal instruction": "os.kill(os.getpid(), signal.SIGILL)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "crash": "os.kill(os.getpid(), signal.SIGSEGV)",
    "exception": "raise RuntimeError('could not create a primitive')",
    "not finite": "print(json.dumps(dict(finite=False, ratios=[2.0] * 5)))",
    "slower": "print(json.dumps(dict(finite=True, ratios=[0.5] * 5)))",
    "hardly faster": "print(json.dumps(dict(finite=True, ratios=[1.149] * 5)))",
    "undecided": "print(json.dumps(dict(finite=True, ratios=[0.9, 1.1, 1.2, 1.7, 2.4])))",
    "faster": "print(json.dumps(dict(finite=True, ratios=[2.0] * 5)))",
}


def child(does: str, before: str = "print('started', flush=True)") -> list[str]:
    """A process that ends, for real, in the way that is asked for."""
    return [sys.executable, "-c", f"import json, os, signal, threading\n{before}\n{does}"]


def pretend_processor(monkeypatch: pytest.MonkeyPatch, kind: str | None = None) -> None:
    """Let the processor claim bfloat16, and trials of it be done by one of the children."""
    monkeypatch.setattr(precision, "processor", lambda: CLAIMS)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    precision._cached_trial.cache_clear()
    if kind is not None:
        monkeypatch.setattr(precision, "_TRIAL", child(CHILDREN[kind]))
