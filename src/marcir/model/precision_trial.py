"""A trial of bfloat16, run as a process of its own because it may die: `python -m ... '{JSON of a Trial}'`.

It prints `started` when float32 has worked, so that a failure after that line is bfloat16's, and then one
line of JSON: {"finite": true, "ratios": [2.1, 2.0, 2.2]}, how many times as fast bfloat16 was in each round.
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
_SECONDS = 4.0  # after which no further round begins: many rounds, because other work disturbs single ones
_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 200


def main() -> None:
    """Try, and print what came out."""
    with suppress(ImportError):  # Windows has no such limits
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it may well die: no core file then
    trial = Trial(**json.loads(sys.argv[1]))
    torch.set_num_threads(trial.threads)
    torch.manual_seed(0)
    step = _step_of(trial)
    step(torch.float32)
    print(STARTED, flush=True)
    finite = step(torch.bfloat16)
    ratios: list[float] = []
    end = time.monotonic() + _SECONDS
    while len(ratios) < _FEWEST_ROUNDS or (len(ratios) < _MOST_ROUNDS and time.monotonic() < end):
        seconds = {}
        for precision in (torch.float32, torch.bfloat16):
            start = time.perf_counter()
            finite &= step(precision)
            seconds[precision] = time.perf_counter() - start
        ratios.append(seconds[torch.float32] / seconds[torch.bfloat16])
    print(json.dumps({"finite": finite, "ratios": ratios}), flush=True)


def _step_of(trial: Trial) -> Callable[[torch.dtype], bool]:
    """Forward and backward of what will be trained; the result tells whether all values were finite."""
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
