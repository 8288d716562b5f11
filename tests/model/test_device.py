"""The device of a network, and the loop that runs it over batches."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from marcir.errors import ConfigError
from marcir.model.device import batches_ahead, choose_device, inference_precision, run_batches


def test_auto_is_cuda_then_mps_then_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for cuda, mps, expected in ((1, 1, "cuda"), (0, 1, "mps"), (0, 0, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=cuda: bool(there))
        monkeypatch.setattr(torch.cuda, "device_count", lambda there=cuda: there)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda there=mps: bool(there))
        assert choose_device("auto").type == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [("gpu", "Did you mean"), ("cud", "Did you mean 'cuda'?"), ("xpu", "unknown"), ("meta", "unknown")],
)
def test_an_unknown_device_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        choose_device(name)


def test_something_that_is_no_device_is_refused() -> None:
    with pytest.raises(ConfigError, match="device 'None': unknown"):
        choose_device(None)  # type: ignore[arg-type]


def test_a_device_that_the_machine_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert choose_device("cuda:0").index == 0
    with pytest.raises(ConfigError, match="'cuda:1': this machine has 1 such device. Use auto or cpu."):
        choose_device("cuda:1")


def test_vectors_on_a_cpu_are_float32_whatever_autocast_surrounds_them() -> None:
    a, cpu = torch.randn(4, 4), torch.device("cpu")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ((_, found),) = run_batches(lambda images: images @ images, [(None, a)], cpu)
        ((_, lowered),) = run_batches(
            lambda images: (images @ images).bfloat16(), [(None, a)], cpu, inference_precision
        )
    assert torch.equal(found, a @ a)
    assert lowered.dtype == torch.float32


def test_a_cpu_reads_nothing_ahead_and_answers_batch_by_batch() -> None:
    seen = list[str]()

    def batches() -> Iterator[tuple[int, Tensor]]:
        for k in range(3):
            seen.append(f"read {k}")
            yield k, torch.full((1, 2), float(k))

    for payload, vectors in run_batches(lambda images: images + 1, batches(), torch.device("cpu")):
        seen.append(f"used {payload} {vectors[0, 0]:g}")
    assert seen == ["read 0", "used 0 1", "read 1", "used 1 2", "read 2", "used 2 3"]
    assert batches_ahead(torch.device("cpu")) == 0 < batches_ahead(torch.device("cuda"))
