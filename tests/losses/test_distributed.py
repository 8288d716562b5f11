"""A loss across two processes is the loss of one process on the joined batch.

Two real processes run all cases once (this file, as a script); each test compares what they saved with
one process.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from marcir.catalog import LOSSES, create_loss
from marcir.labels import LabelStatistics
from marcir.losses import CrossBatchMemory, DistributedLoss, MultiLabelLoss, diagnose

FEATURES, DIMENSIONS, LABELS = 5, 3, 4
WORLD = 2
# A collective that waits this long has no partner; the whole file takes a few seconds.
WAIT = timedelta(seconds=30)
PATIENCE = 120

Result = dict[str, Tensor]


# ---- Cases ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """What one process hands to a loss: features of its images, labels, and perhaps a comparison side."""

    x: Tensor
    y: Tensor
    x_other: Tensor | None = None
    y_other: Tensor | None = None
    self_index: Tensor | None = None


@dataclass(frozen=True)
class Case:
    """A loss, and the steps of both processes.

    Attributes:
        make: Makes the loss, always the same.
        steps: For every step what each process hands in.
        frozen: Whether no gradient flows into the comparison side.
        wrapped: Whether DistributedDataParallel averages the encoder's gradients.
        wrapped_loss: Whether it averages the loss's own gradients too.
    """

    make: Callable[[], MultiLabelLoss]
    steps: list[list[Step]]
    frozen: bool = False
    wrapped: bool = False
    wrapped_loss: bool = False


def drawn(seed: int, images: int, labelled: bool = True) -> Step:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(images, FEATURES, generator=generator, dtype=torch.float64)
    y = (torch.rand(images, LABELS, generator=generator) < 0.5).long()
    y[0, 0] = 1
    y[-1] = y[0]  # a full match, for the losses that know no other
    return Step(x, y if labelled else torch.zeros_like(y))


def with_others(seed: int, images: int, others: int) -> Step:
    """A comparison side in which every second image finds itself again."""
    mine, side = drawn(seed, images), drawn(seed + 100, others)
    self_index = torch.tensor([i if i % 2 == 0 else -1 for i in range(images)])
    x_other, y_other = side.x.clone(), side.y.clone()
    own = self_index[self_index >= 0]
    x_other[own], y_other[own] = mine.x[own], mine.y[own]
    return Step(mine.x, mine.y, x_other, y_other, self_index)


def partly_unknown(seed: int, images: int) -> Step:
    step = drawn(seed, images)
    hidden = torch.rand(images, LABELS, generator=torch.Generator().manual_seed(seed)) < 0.3
    return Step(step.x, step.y.masked_fill(hidden, -1))


def views(seed: int, images: int) -> Step:
    step = drawn(seed, 2 * images)
    return Step(step.x.view(images, 2, FEATURES), step.y[:images])


BATCHES: dict[str, list[Step]] = {
    "equal batches": [drawn(1, 5), drawn(2, 5)],
    "unequal batches": [drawn(3, 7), drawn(4, 4)],
    "one row on one process": [drawn(5, 1), drawn(6, 6)],
    "one process without labels": [drawn(7, 6), drawn(8, 4, labelled=False)],
    "no labels anywhere": [drawn(9, 3, labelled=False), drawn(10, 2, labelled=False)],
    "a comparison side": [with_others(11, 4, 6), with_others(12, 5, 5)],
    "views": [views(13, 4), views(14, 3)],
}
UNKNOWN = [partly_unknown(15, 5), drawn(16, 4)]  # on one process
STEPS = [[drawn(21, 4), drawn(22, 3)], [drawn(23, 5), drawn(24, 2)], [drawn(25, 3), drawn(26, 4)]]
VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "sim-dis inside": ("sim-dis", {"placement": "inside"}),
    "oml label": ("oml", {"norm": "label"}),
    "marc by two": ("marc", {"chunk_size": 2}),
    "calibrated plr": ("marc-calibrated", {"plr": True}),
    "marc-proto with light images": ("marc-proto", {"beta": 0.1, "rarity": 1.0}),
    "marc-proto by two, images as anchors alone": (
        "marc-proto",
        {"chunk_size": 2, "prototype_anchors": False},
    ),
    "lreg inside": ("lreg", {"overlap_power": -1.0}),
}


def statistics() -> LabelStatistics:
    return LabelStatistics.from_labels(torch.cat([drawn(seed, 10).y for seed in range(6)]))


def maker(name: str, memory: int | None = None, **options: object) -> Callable[[], MultiLabelLoss]:
    def make() -> MultiLabelLoss:
        loss = create_loss(name, statistics=statistics(), embedding_dim=DIMENSIONS, **options).double()
        return loss if memory is None else CrossBatchMemory(loss, memory)

    return make


def cases() -> Iterator[tuple[str, Case]]:
    for name in LOSSES:
        for what, parts in BATCHES.items():
            yield f"{name}, {what}", Case(maker(name), [parts])
        frozen = Case(maker(name), [BATCHES["a comparison side"]], frozen=True)
        yield f"{name}, a comparison side without gradient", frozen
        for what in ("unequal batches", "one process without labels"):
            wrapped = Case(
                maker(name), [BATCHES[what]] * 2, wrapped=True, wrapped_loss=name in WITH_PROTOTYPES
            )
            yield f"{name}, DistributedDataParallel, {what}", wrapped
        if name != "lproto":
            yield f"{name}, memory", Case(maker(name, memory=9), STEPS)
        if name != "oml":
            memory = None if name == "lproto" else 9
            yield f"{name}, unknown labels", Case(maker(name, memory=memory), [UNKNOWN, *STEPS[:2]])
    yield "lmsc, queue", Case(maker("lmsc", queue_size=9), STEPS)
    for what, (name, options) in VARIANTS.items():
        yield what, Case(maker(name, **options), [BATCHES["unequal batches"]])


WITH_PROTOTYPES = ("lproto", "lmsc", "l-wo-reg", "lreg", "marc-proto")
CASES = dict(cases())


# ---- One case, on one process or on one of two ---------------------------------------------------


def joined(parts: list[Step]) -> Step:
    """What one process would hand in: the rows of all, in order."""
    x, y = torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts])
    if parts[0].x_other is None:
        return Step(x, y)
    self_index, start = [], 0
    for part in parts:
        self_index.append(torch.where(part.self_index >= 0, part.self_index + start, -1))
        start += len(part.x_other)
    x_other, y_other = (torch.cat([getattr(part, side) for part in parts]) for side in ("x_other", "y_other"))
    return Step(x, y, x_other, y_other, torch.cat(self_index))


def make_encoder() -> nn.Linear:
    encoder = nn.Linear(FEATURES, DIMENSIONS).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return encoder


def forward(case: Case, encoder: nn.Module, loss: nn.Module, step: Step) -> Tensor:
    if step.x_other is None:
        return loss(encoder(step.x), step.y)
    # One call: DistributedDataParallel wants one forward for each backward.
    z = encoder(torch.cat([step.x, step.x_other]))
    z, z_other = z[: len(step.x)], z[len(step.x) :]
    z_other = z_other.detach() if case.frozen else z_other
    return loss(z, step.y, z_other, step.y_other, step.self_index)


def run(case: Case, process: int | None = None) -> list[Result]:
    """Values and gradients of every step, gradients averaged over processes; a small descent in between."""
    inner, encoder = case.make(), make_encoder()
    loss: nn.Module = inner if process is None else DistributedLoss(inner)
    parameters = {"weight": encoder.weight, "bias": encoder.bias}
    parameters |= dict(zip(["prototypes"], loss.parameters(), strict=False))
    averaged = [] if process is None else list(parameters)
    model: nn.Module = encoder
    if case.wrapped and process is not None:
        model, averaged = DistributedDataParallel(encoder), averaged[2:]
        if case.wrapped_loss:
            loss, averaged = DistributedDataParallel(loss), []
    results = []
    for parts in case.steps:
        step = joined(parts) if process is None else parts[process]
        loss.eval()
        with torch.no_grad():
            seen = forward(case, encoder, loss, step)
        loss.train()
        for parameter in parameters.values():
            parameter.grad = None
        value = forward(case, model, loss, step)
        value.backward()
        result = {"value": value.detach(), "value without gradient": seen}
        for name, parameter in parameters.items():
            assert parameter.grad is not None, name
            if name in averaged:
                dist.all_reduce(parameter.grad)
                parameter.grad /= WORLD
            result[name] = parameter.grad.clone()
            with torch.no_grad():
                parameter -= 0.1 * parameter.grad
        if isinstance(inner, CrossBatchMemory):
            result |= {"past z": inner.memory.z.clone(), "past y": inner.memory.y.clone()}
        results.append(result)
    return results


def look(name: str, process: int | None = None) -> Result:
    """What a diagnosis says of a batch, and of how many images."""
    parts = BATCHES["unequal batches"]
    loss = maker(name)()
    step = joined(parts) if process is None else parts[process]
    diagnosis = diagnose(loss if process is None else DistributedLoss(loss), make_encoder()(step.x), step.y)
    valid = torch.tensor(diagnosis.valid_anchors * len(step.x), dtype=torch.float64)
    return {"loss": torch.tensor(diagnosis.loss, dtype=torch.float64), "valid": valid}


def work(folder: Path, process: int) -> None:
    """One of the two processes."""
    torch.set_num_threads(1)
    store = f"file://{folder / 'store'}"
    dist.init_process_group("gloo", store, timeout=WAIT, world_size=WORLD, rank=process)
    results = {what: run(case, process) for what, case in CASES.items()}
    looks = {name: look(name, process) for name in LOSSES}
    torch.save((results, looks), folder / f"{process}.pt")
    dist.destroy_process_group()


# ---- Tests ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(
    tmp_path_factory: pytest.TempPathFactory,
) -> list[tuple[dict[str, list[Result]], dict[str, Result]]]:
    """What both processes saved; a process that fails or waits in vain fails all tests with its text."""
    folder = tmp_path_factory.mktemp("processes")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    if sys.platform == "linux":
        environment["GLOO_SOCKET_IFNAME"] = "lo"
    command, log = [sys.executable, __file__, str(folder)], folder / "log"
    with log.open("w") as output:
        running = subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    try:
        code = running.wait(PATIENCE)
    except BaseException:
        os.killpg(running.pid, signal.SIGKILL)  # with both processes
        running.wait()
        raise
    assert code == 0, log.read_text()
    return [torch.load(folder / f"{process}.pt", weights_only=True) for process in range(WORLD)]


def assert_close(found: Result, expected: Result) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(
            found[name], expected[name], rtol=1e-9, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("what", CASES)
def test_two_processes_give_what_one_gives_on_the_joined_batch(what: str, saved: list) -> None:
    expected = run(CASES[what])
    for results, _ in saved:
        assert len(results[what]) == len(expected)
        for found, wanted in zip(results[what], expected, strict=True):
            assert_close(found, wanted)


@pytest.mark.parametrize("name", LOSSES)
def test_only_a_batch_without_labels_has_neither_loss_nor_gradient(name: str) -> None:
    """So the cases above compare no zeros with zeros."""
    for what in BATCHES:
        (result,) = run(CASES[f"{name}, {what}"])
        some = result["value"].abs() > 0 and result["weight"].abs().sum() > 0
        assert some == (what != "no labels anywhere")


@pytest.mark.parametrize("name", LOSSES)
def test_a_diagnosis_sees_the_joined_batch(name: str, saved: list) -> None:
    expected = look(name)
    looks = [look_of[name] for _, look_of in saved]
    for found in looks:
        torch.testing.assert_close(found["loss"], expected["loss"], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(sum(found["valid"] for found in looks), expected["valid"])


def same_as_the_loss_itself(name: str) -> None:
    step = BATCHES["equal batches"][0]
    results = []
    for wrap in (DistributedLoss, lambda loss: loss):
        loss, z = wrap(maker(name)()), make_encoder()(step.x).detach().requires_grad_()
        value = loss(z, step.y)
        results.append([value.detach(), *torch.autograd.grad(value, [z, *loss.parameters()])])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


@pytest.mark.parametrize("name", LOSSES)
def test_without_a_process_group_it_is_the_loss_itself(name: str) -> None:
    assert not dist.is_initialized()
    same_as_the_loss_itself(name)


def test_in_a_group_of_one_process_it_is_the_loss_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform == "linux":
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", f"file://{tmp_path / 'store'}", timeout=WAIT, world_size=1, rank=0)
    try:
        for name in LOSSES:
            same_as_the_loss_itself(name)
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("name", WITH_PROTOTYPES)
def test_the_prototypes_are_parameters_and_saved(name: str) -> None:
    loss = DistributedLoss(maker(name)())
    assert [key for key, _ in loss.named_parameters()] == ["loss.prototypes"]
    assert "loss.prototypes" in loss.state_dict()


def main(folder: Path) -> bool:
    """Start both processes, as copies of this one: torch is imported once. Returns whether one failed."""
    fork = get_context("fork")
    workers = [fork.Process(target=work, args=(folder, process)) for process in range(WORLD)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return any(worker.exitcode for worker in workers)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
