"""Second derivatives, precision at extremes, and being compiled."""

import shutil
from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import marcir
from marcir.catalog import LOSSES
from marcir.errors import BatchError
from marcir.losses import MultiLabelLoss, PairLoss, pair_influence


def make(name: str, **options: object) -> MultiLabelLoss:
    statistics = marcir.LabelStatistics.from_labels(labels())
    return marcir.create_loss(name, statistics=statistics, embedding_dim=4, **options).double()


def labels(rows: int = 8) -> Tensor:
    return (torch.rand(rows, 5, generator=torch.Generator().manual_seed(1)) < 0.4).double()


def embeddings(rows: int = 8) -> Tensor:
    z = torch.randn(rows, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return z.requires_grad_()


@pytest.mark.parametrize("name", LOSSES)
def test_a_second_derivative_is_right_or_refused(name: str) -> None:
    loss = make(name, **({"anneal": 0.3} if name == "oml" else {}))
    z, y = embeddings(), labels()
    over_pairs = any(isinstance(part, PairLoss) for part in loss.modules())
    (first,) = torch.autograd.grad(loss(z, y), z, create_graph=not over_pairs)
    if over_pairs:
        with pytest.raises(BatchError, match="no second derivative"):
            torch.autograd.grad(loss(z, y), z, create_graph=True)
        return
    direction = torch.randn_like(z)
    (second,) = torch.autograd.grad((first * direction).sum(), z)
    step = 1e-5
    ends = [z.detach() + sign * step * direction for sign in (1, -1)]
    ahead, behind = (torch.autograd.grad(loss(end.requires_grad_(), y), end)[0] for end in ends)
    if name == "lreg":  # its stop-gradient is not what a finite difference sees
        assert second.isfinite().all()
    else:
        assert torch.allclose(second, (ahead - behind) / (2 * step), atol=1e-5)


@pytest.mark.parametrize("gamma", [1.0, 6.0, 16.0, 60.0])
def test_a_steep_overlap_costs_no_precision(gamma: float) -> None:
    y = (torch.rand(128, 17, generator=torch.Generator().manual_seed(0)) < 0.2).float()
    z = torch.randn(128, 16, generator=torch.Generator().manual_seed(0))
    gradients = []
    for dtype in (torch.float32, torch.float64):
        rows = z.detach().to(dtype).clone().requires_grad_()
        marcir.create_loss("marc-calibrated", gamma=gamma)(rows, y).backward()
        gradients.append(rows.grad.double())
    error = (gradients[0] - gradients[1]).norm() / gradients[1].norm()
    assert error < 1e-5


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("marc", {"alpha": 300.0, "beta": 0.0}),
        ("marc-calibrated", {"delta": 300.0}),
        ("mulsupcon", {"tau": 1e-40}),
    ],
)
def test_a_temperature_of_nearly_zero_gives_no_nan(name: str, options: dict[str, float]) -> None:
    z = embeddings().float().detach().requires_grad_()
    value = make(name, **options)(z, labels())
    value.backward()
    assert value.isfinite()
    assert z.grad is not None
    assert z.grad.isfinite().all()


@pytest.fixture(scope="module")
def compiled_frames() -> Iterator[Counter[str]]:
    """Counts what is compiled: parts that losses share, once. A part that is left out is an error."""
    from torch import _dynamo as compiler  # which takes a second to import

    torch.compiler.reset()
    with compiler.config.patch(recompile_limit=64, fail_on_recompile_limit_hit=True):
        yield compiler.utils.counters["frames"]
    torch.compiler.reset()


def assert_compiles(name: str, backend: str) -> None:
    loss, results = make(name), []
    for called in (torch.compile(loss, backend=backend), loss):
        z = embeddings()
        value = called(z, labels())
        results.append([value.detach(), *torch.autograd.grad(value, [z, *loss.parameters()])])
    for found, wanted in zip(*results, strict=True):
        assert torch.allclose(found, wanted)


@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("name", LOSSES)
def test_a_compiled_loss_is_the_same_loss(name: str, compiled_frames: Counter[str]) -> None:
    before = compiled_frames["ok"]
    assert_compiles(name, "eager")
    assert compiled_frames["ok"] > before


# One is enough: the others are compared without it, and each takes 20 s.
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is missing, which torch.compile needs")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("compiled_frames")
def test_a_loss_compiled_to_machine_code_is_the_same_loss() -> None:
    assert_compiles("marc", "inductor")


def test_a_queue_that_comes_with_a_checkpoint_is_not_used_where_there_is_none() -> None:
    first, second = make("lmsc", queue_size=50), make("lmsc")
    before = second(embeddings(), labels())
    first(embeddings(), labels())
    second.load_state_dict(first.state_dict())
    assert torch.equal(second(embeddings(), labels()), before)


def test_embeddings_of_inference_mode_and_half_precision_can_be_diagnosed() -> None:
    loss = make("marc")
    z, y = embeddings().detach(), labels()
    expected = marcir.diagnose(loss, z.float(), y)
    with torch.inference_mode():
        made = z.float().clone()
        assert marcir.diagnose(loss, made, y) == expected
    assert marcir.diagnose(loss, made, y) == expected
    scaled = marcir.diagnose(loss, (1000 * z).half(), y).gradient_norm
    assert scaled == pytest.approx(marcir.diagnose(loss, (1000 * z).half().float(), y).gradient_norm)
    assert scaled > 0


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e25])
def test_embeddings_may_have_any_length(scale: float) -> None:
    loss, y = make("marc"), labels()
    z = embeddings().float().detach()
    far = (z * scale).requires_grad_()
    value = loss(far, y)
    value.backward()
    assert value.item() == pytest.approx(loss(z, y).item(), rel=1e-5)
    assert far.grad is not None
    assert far.grad.isfinite().all()
    assert far.grad.any()


def test_a_diagnosis_is_exact_under_autocast() -> None:
    loss, y = make("marc", pair_frequency="shared_mean"), labels().float()
    expected = marcir.diagnose(loss, embeddings(), y), pair_influence(loss, y, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert marcir.diagnose(loss, embeddings(), y) == expected[0]
        assert torch.equal(pair_influence(loss, y, y), expected[1])


def test_a_loss_shows_its_options() -> None:
    assert repr(make("marc", alpha=0.5)).startswith("MARCLoss(")
    assert "alpha=0.5" in repr(make("marc", alpha=0.5))
    assert "queue_size" not in repr(make("mulsupcon"))


def test_numbers_of_numpy_are_numbers() -> None:
    import numpy as np

    loss = marcir.create_loss("mulsupcon", tau=np.float32(0.5), chunk_size=np.int64(4))
    assert (loss.tau, loss.chunk_size) == (0.5, 4)
