"""bfloat16 is taken where a trial in a child process says so, and the trial's verdict is kept."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from marcir.errors import ConfigError
from marcir.model import precision
from marcir.model.precision import (
    Precision,
    Processor,
    Trial,
    TrialResult,
    cached_trial,
    choose_precision,
    run_trial,
)
from pretended_trials import CHILDREN, CLAIMS, child, pretend_processor

TINY = Trial("test_resnet", 24, 16, frozen=False, threads=1)


@pytest.fixture
def claims(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose processor claims bfloat16; its cache folder."""
    pretend_processor(monkeypatch)
    return own_cache


@pytest.fixture
def trial_is(
    claims: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Callable[[], int]]:
    """Let trials be done by one of the children; what is returned counts them."""

    def set_(kind: str) -> Callable[[], int]:
        count = tmp_path / "trials"
        count.write_text("")
        noted = f"open({str(count)!r}, 'a').write('x')"
        monkeypatch.setattr(precision, "_TRIAL", child(f"{noted}\n{CHILDREN[kind]}"))
        return lambda: len(count.read_text())

    return set_


# ---- One trial -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "verdict", "what"),
    [
        ("illegal instruction", "unusable", "bfloat16 ends with an illegal instruction on this processor"),
        ("killed", "open", "the trial of bfloat16 was killed, probably because memory ran out"),
        ("crash", "unusable", "bfloat16 ends with SIGSEGV on this processor"),
        (
            "exception",
            "unusable",
            "bfloat16 fails on this processor (RuntimeError: could not create a primitive)",
        ),
        ("not finite", "unusable", "bfloat16 gives infinite or NaN results on this processor"),
        ("slower", "usable", "bfloat16 is 0.50 times as fast as float32 on this processor"),
        ("hardly faster", "usable", "bfloat16 is 1.14 times as fast as float32 on this processor"),
        (
            "undecided",
            "open",
            "bfloat16 was 1.10 to 1.70 times as fast as float32 in the rounds of a trial, which does not "
            "decide it",
        ),
        ("faster", "usable", "bfloat16 is 2.00 times as fast as float32 on this processor"),
    ],
)
def test_the_end_of_the_child_is_the_verdict(kind: str, verdict: str, what: str) -> None:
    tried = run_trial(child(CHILDREN[kind]))
    assert (tried.verdict, tried.what) == (verdict, what)
    assert tried.is_faster == (kind == "faster")


def test_a_child_that_hangs_is_ended() -> None:
    started = time.monotonic()
    tried = run_trial(child("threading.Event().wait()"), limit=0.5)
    assert time.monotonic() - started < 10
    assert (tried.verdict, tried.what) == ("open", "the trial of bfloat16 did not end within 0 s")


@pytest.mark.parametrize("does", ["raise SystemExit('no such backbone')", CHILDREN["illegal instruction"]])
def test_a_child_that_fails_in_float32_says_nothing_about_bfloat16(does: str) -> None:
    tried = run_trial(child(does, before=""))
    assert tried.verdict == "open"
    assert tried.what in (
        "bfloat16 could not be tried (no such backbone)",
        "bfloat16 could not be tried (SIGILL)",
    )


def test_a_child_that_cannot_be_started_says_nothing_about_bfloat16() -> None:
    assert run_trial(["/no/such/program"]) == TrialResult(
        "open", 0, "bfloat16 could not be tried (No such file or directory)"
    )


def test_the_trial_agrees_with_a_plain_run() -> None:
    """On any machine: bfloat16 works in the trial if and only if it works outside of it."""
    tried, of_head = (
        run_trial([*precision._TRIAL, json.dumps(vars(replace(TINY, frozen=frozen)))], limit=60)
        for frozen in (False, True)
    )
    plain = subprocess.run(
        [
            sys.executable,
            "-c",
            "import resource, torch; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
            "a = torch.randn(128, 64).bfloat16(); assert torch.isfinite(a @ a.T).all()\n"
            "c = torch.nn.Conv2d(3, 64, 3); x = torch.randn(8, 3, 24, 24, requires_grad=True)\n"
            "with torch.autocast('cpu', dtype=torch.bfloat16): c(x).float().mean().backward()",
        ],
        capture_output=True,
    )
    for each in (tried, of_head):  # on a busy machine the rounds may not decide how fast it is
        assert each.verdict == "usable" or "does not decide it" in each.what or each.verdict == "unusable", (
            each
        )
        assert (each.verdict != "unusable") == (plain.returncode == 0), each
        assert (each.rate > 0) == (each.verdict == "usable")


# ---- The choice ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CHILDREN)
def test_auto_takes_bfloat16_only_where_it_is_faster(
    kind: str, trial_is: Callable[[str], Callable[[], int]], capfd: pytest.CaptureFixture[str]
) -> None:
    trial_is(kind)
    chosen = choose_precision("auto", TINY)
    assert chosen.name == ("bfloat16" if kind == "faster" else "float32")
    assert "bfloat16" in chosen.why
    assert capfd.readouterr().err.startswith("trying bfloat16 for up to 15 s")


def test_bfloat16_that_cannot_be_used_is_refused(trial_is: Callable[[str], Callable[[], int]]) -> None:
    trial_is("illegal instruction")
    with pytest.raises(ConfigError) as refused:
        choose_precision("bfloat16", TINY)
    assert str(refused.value) == (
        "train.precision bfloat16: bfloat16 ends with an illegal instruction on this processor. Use float32, "
        "or set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment, which avoids AMX."
    )


def test_the_advice_to_avoid_amx_is_not_given_to_those_who_follow_it(
    trial_is: Callable[[str], Callable[[], int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    trial_is("illegal instruction")
    with pytest.raises(ConfigError, match=r"on this processor. Use float32.$"):
        choose_precision("bfloat16", TINY)


@pytest.mark.parametrize("kind", ["slower", "killed"])
def test_bfloat16_that_is_slow_or_was_not_tried_to_the_end_is_taken_where_it_is_asked_for(
    kind: str, trial_is: Callable[[str], Callable[[], int]]
) -> None:
    trial_is(kind)
    chosen = choose_precision("bfloat16", TINY)
    assert chosen.name == "bfloat16"
    assert chosen.why.startswith("as set; ")


def test_float32_is_never_tried(trial_is: Callable[[str], Callable[[], int]]) -> None:
    trials = trial_is("faster")
    assert choose_precision("float32", TINY) == Precision("float32", "as set")
    assert trials() == 0


def test_a_processor_without_bfloat16_is_not_tried(
    trial_is: Callable[[str], Callable[[], int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = trial_is("faster")
    monkeypatch.setattr(precision, "processor", lambda: Processor("an old one", frozenset({"avx2"})))
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    assert str(choose_precision("auto", TINY)) == "float32: this processor has no bfloat16"
    assert choose_precision("bfloat16", TINY).name == "bfloat16"
    assert trials() == 0


@pytest.mark.parametrize(("native", "name"), [(True, "bfloat16"), (False, "float32")])
def test_a_gpu_is_asked_not_tried(
    native: bool,
    name: str,
    trial_is: Callable[[str], Callable[[], int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trials = trial_is("illegal instruction")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: native)
    assert choose_precision("auto", TINY).name == name
    assert choose_precision("bfloat16", TINY).name == "bfloat16"
    assert trials() == 0


# ---- The kept verdict ----------------------------------------------------------------------------


def test_a_verdict_is_used_again(trial_is: Callable[[str], Callable[[], int]]) -> None:
    trials = trial_is("faster")
    first = cached_trial(TINY)
    precision._cached_trial.cache_clear()  # as in another process
    trial_is_over = trials()
    assert cached_trial(TINY) == first
    assert trials() == trial_is_over == 1


@pytest.mark.parametrize("changed", ["torch", "processor", "flags", "threads", "backbone", "size", "isa"])
def test_a_verdict_on_something_else_is_not_used(
    changed: str, trial_is: Callable[[str], Callable[[], int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = trial_is("faster")
    cached_trial(TINY)
    trial = TINY
    if changed == "torch":
        monkeypatch.setattr(torch, "__version__", "99.0")
    elif changed == "processor":
        monkeypatch.setattr(precision, "processor", lambda: replace(CLAIMS, model="another"))
    elif changed == "flags":
        monkeypatch.setattr(precision, "processor", lambda: replace(CLAIMS, flags=frozenset({"amx_bf16"})))
    elif changed == "isa":
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    else:
        trial = replace(TINY, **{changed: "resnet10t" if changed == "backbone" else 2})
    cached_trial(trial)
    assert trials() == 2


@pytest.mark.parametrize("kind", ["killed", "illegal instruction"])
def test_only_a_verdict_that_may_have_been_chance_grows_old(
    kind: str,
    trial_is: Callable[[str], Callable[[], int]],
    claims: Path,
) -> None:
    trials = trial_is(kind)
    cached_trial(TINY)
    (file,) = (claims / "precision").glob("*.json")
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "time": content["time"] - 2 * 24 * 3600}))
    precision._cached_trial.cache_clear()
    cached_trial(TINY)
    assert trials() == (2 if kind == "killed" else 1)


@pytest.mark.parametrize("damaged", ["", "{}", "[]", '{"verdict": "usable", "rate": "x"}'])
def test_a_damaged_verdict_is_not_used(
    damaged: str, trial_is: Callable[[str], Callable[[], int]], claims: Path
) -> None:
    trials = trial_is("faster")
    cached_trial(TINY)
    (file,) = (claims / "precision").glob("*.json")
    file.write_text(damaged)
    precision._cached_trial.cache_clear()
    assert cached_trial(TINY).is_faster
    assert trials() == 2


def test_where_the_cache_cannot_be_written_a_process_tries_once(
    trial_is: Callable[[str], Callable[[], int]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    trials = trial_is("faster")
    monkeypatch.setenv(
        "MARCIR_CACHE", "/dev/null/cache"
    )  # root may write into a read-only folder, but not here
    assert choose_precision("auto", TINY).name == "bfloat16"
    assert choose_precision("auto", TINY).name == "bfloat16"
    assert trials() == 1
    assert "the result of the bfloat16 trial is not cached: /dev/null/cache" in capfd.readouterr().err


def test_of_two_processes_that_ask_at_once_one_tries(tmp_path: Path) -> None:
    count = tmp_path / "trials"
    trial = f"open({str(count)!r}, 'a').write('x'); {CHILDREN['faster']}"
    code = (
        "from marcir.model import precision as p\n"
        f"p.processor = lambda: p.Processor('a processor', frozenset({{'amx_bf16'}}))\n"
        f"p._TRIAL = {child(trial)!r}\n"
        "print('ready', flush=True)\ninput()\n"
        "print(p.choose_precision('auto', p.Trial('test_resnet', 24, 16, False, 1)))"
    )
    environment = {**os.environ, "MARCIR_CACHE": str(tmp_path / "cache")}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(2)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[0].strip() for process in running]
    assert said == ["bfloat16: bfloat16 is 2.00 times as fast as float32 on this processor"] * 2
    assert count.read_text() == "x"


# ---- Where it is read, and where it does not matter ----------------------------------------------


def test_the_processor_has_a_name_and_flags() -> None:
    found = precision.processor()
    assert found.model
    assert found.flags or not Path("/proc/cpuinfo").exists()


def test_an_arm_processor_claims_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "processor\t: 0\nFeatures\t: fp asimd bf16 i8mm\nCPU part\t: 0xd40\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: text)
    found = precision.processor.__wrapped__()
    assert found.claims_bfloat16
    assert found.model.endswith("0xd40")
