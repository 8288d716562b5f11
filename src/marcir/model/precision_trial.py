"""A trial of bfloat16 in a process of its own, because it may crash: `python -m ... '{JSON of a Trial}'`.

It prints `started` after a step in float32, so that a later failure is due to bfloat16, and then one line of
JSON: {"finite": true, "ratios": [2.1, 2.0, 2.2]}, the speed of bfloat16 relative to float32 in each round.
"""

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor

from marcir.model.backbone import create_backbone
from marcir.model.encoder import Encoder
from marcir.model.precision import STARTED, Trial

_BANDS = 3  # more of them change the first layer only
_ROWS = 128  # of the head's and the loss's matrices: the default batch
_PIXELS = 8 * 224 * 224  # of a batch of images: enough to keep the cores busy, few enough for two seconds
_SECONDS = 4.0  # after which no further round starts: many rounds, because other processes disturb some
_MIN_ROUNDS, _MAX_ROUNDS = 3, 200


def main() -> None:
    """Run the trial and print its result."""
    with suppress(ImportError):  # Windows has no such limits
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no core file if it crashes
    trial = Trial(**json.loads(sys.argv[1]))
    torch.set_num_threads(trial.threads)
    torch.manual_seed(0)
    step = _make_step(trial)
    step(torch.float32)
    print(STARTED, flush=True)
    finite = step(torch.bfloat16)
    ratios: list[float] = []
    end = time.monotonic() + _SECONDS
    while len(ratios) < _MIN_ROUNDS or (len(ratios) < _MAX_ROUNDS and time.monotonic() < end):
        seconds = {}
        for precision in (torch.float32, torch.bfloat16):
            start = time.perf_counter()
            finite &= step(precision)
            seconds[precision] = time.perf_counter() - start
        ratios.append(seconds[torch.float32] / seconds[torch.bfloat16])
    print(json.dumps({"finite": finite, "ratios": ratios}), flush=True)


def _make_step(trial: Trial) -> Callable[[torch.dtype], bool]:
    """A training step of the subject in a given precision; it returns whether all values are finite."""
    backbone = create_backbone(trial.backbone, _BANDS, trial.size)
    encoder = Encoder(backbone, trial.dim, "projection", backbone.mean, backbone.std).train()
    encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs lack it
    batch = max(2, min(_ROWS, _PIXELS // trial.size**2))
    images = torch.rand(batch, _BANDS, trial.size, trial.size, device="cpu")
    images = images.contiguous(memory_format=torch.channels_last)
    features = torch.randn(_ROWS, encoder.num_features, device="cpu")

    def step(precision: torch.dtype) -> bool:
        encoder.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == torch.bfloat16):
            z = encoder.project(features)  # (_ROWS, D)
            value = (z @ z.T).float().exp().mean()
            if not trial.frozen:
                value = value + encoder(images).float().square().mean()
        value.backward()
        return _finite(value) and all(_finite(p.grad) for p in encoder.parameters() if p.grad is not None)

    return step


def _finite(values: Tensor) -> bool:
    return bool(torch.isfinite(values).all())


if __name__ == "__main__":
    main()
