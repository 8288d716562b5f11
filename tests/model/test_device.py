"""The device of a network, and the loop that runs it over batches."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from marcir.errors import ConfigError
from marcir.model import device
from marcir.model.backbone import create_backbone
from marcir.model.device import choose_device, in_slices, inference_precision, run_batches
from marcir.model.encoder import Encoder


def test_auto_is_cuda_then_mps_then_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for cuda, mps, expected in ((1, 1, "cuda"), (0, 1, "mps"), (0, 0, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=cuda: bool(there))
        monkeypatch.setattr(torch.cuda, "device_count", lambda there=cuda: there)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda there=mps: bool(there))
        assert choose_device("auto").type == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [("gpu", "Choose auto, cpu, cuda"), ("cud", "Choose"), ("xpu", "unknown"), ("meta", "unknown")],
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
        ((_, found),) = run_batches(lambda _, images: images @ images, [(None, a)], cpu)
        ((_, lowered),) = run_batches(
            lambda _, images: (images @ images).bfloat16(), [(None, a)], cpu, inference_precision
        )
    assert torch.equal(found, a @ a)
    assert lowered.dtype == torch.float32


def batches_of(count: int, taken: list[int]) -> Iterator[tuple[int, Tensor]]:
    for k in range(count):
        taken.append(k)
        yield k, torch.full((1, 2), float(k))


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_batches_are_computed_in_threads_and_come_in_order(count: int) -> None:
    threads, taken = set[tuple[str, int]](), list[int]()
    barrier = threading.Barrier(3)

    def network(payload: int, images: Tensor) -> Tensor:
        threads.add((threading.current_thread().name, torch.get_num_threads()))
        if payload < 3 and count == 9:
            barrier.wait(timeout=60)  # three batches are computed at the same time, or this fails
        return images + payload

    results = list(run_batches(network, batches_of(count, taken), torch.device("cpu")))
    assert [(payload, float(vectors[0, 0])) for payload, vectors in results] == [
        (k, 2.0 * k) for k in range(count)
    ]
    if count == 1:  # a single query uses all processors
        assert threads == {(threading.current_thread().name, 3)}
    if count == 9:
        assert len(threads) == 3
        assert {number for _, number in threads} == {1}
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_few_batches_share_all_processors() -> None:
    threads = set[tuple[str, int]]()
    barrier = threading.Barrier(2)

    def network(_: int, images: Tensor) -> Tensor:
        barrier.wait(timeout=60)
        threads.add((threading.current_thread().name, torch.get_num_threads()))
        return images

    list(run_batches(network, batches_of(2, []), torch.device("cpu")))
    assert sorted(number for _, number in threads) == [1, 2]


@pytest.mark.usefixtures("three_threads")
def test_runs_at_the_same_time_leave_the_number_of_threads_as_it_was() -> None:
    def one_run(_: int) -> int:
        list(run_batches(lambda _, images: images @ images.T, batches_of(9, []), torch.device("cpu")))
        return torch.get_num_threads()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(one_run, range(12))) == {3}
        assert {each.result() for each in [pool.submit(torch.get_num_threads) for _ in range(8)]} == {3}
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_a_new_thread_waits_for_the_default_while_a_pool_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    arrived, lock = threading.Event(), threading.Lock()

    class PoolStart:
        def __enter__(self) -> None:
            arrived.set()
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    monkeypatch.setattr(device, "_POOL_START", PoolStart())

    def one_run() -> int:
        list(run_batches(lambda _, images: images, batches_of(9, []), torch.device("cpu")))
        return torch.get_num_threads()

    with ThreadPoolExecutor(1) as pool:
        with lock:
            torch.set_num_threads(1)  # as the threads of a pool do
            found = pool.submit(one_run)
            assert arrived.wait(60)
            torch.set_num_threads(3)
        assert found.result() == 3


@pytest.mark.usefixtures("three_threads")
def test_few_batches_are_taken_before_the_first_result_is_used() -> None:
    taken = list[int]()
    results = run_batches(lambda _, images: images, batches_of(50, taken), torch.device("cpu"))
    next(results)
    assert len(taken) == 4
    results.close()  # type: ignore[attr-defined]  # a generator
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("embed")]


def test_a_single_thread_computes_the_first_batch_while_the_second_is_read() -> None:
    computing = threading.Event()

    def batches() -> Iterator[tuple[int, Tensor]]:
        yield 0, torch.zeros(1, 2)
        assert computing.wait(timeout=60)
        yield 1, torch.ones(1, 2)

    def network(_: int, images: Tensor) -> Tensor:
        computing.set()
        return images

    found = run_batches(network, batches(), torch.device("cpu"))
    assert [payload for payload, _ in found] == [0, 1]


def test_an_error_of_the_network_reaches_the_caller() -> None:
    def network(payload: int, images: Tensor) -> Tensor:
        if payload == 2:
            raise ValueError("broken")
        return images

    with pytest.raises(ValueError, match="broken"):
        list(run_batches(network, batches_of(5, []), torch.device("cpu")))


@pytest.mark.usefixtures("three_threads")
def test_vectors_do_not_depend_on_the_number_of_batches_at_a_time() -> None:
    backbone = create_backbone("resnet18", 3, 64)
    encoder = Encoder(backbone, 32, "projection", backbone.mean, backbone.std).eval()
    images = torch.rand(4, 101, 3, 64, 64)
    found = run_batches(
        lambda _, batch: in_slices(encoder.embed, batch), enumerate(images), torch.device("cpu")
    )
    with torch.inference_mode():
        for (_, vectors), batch in zip(found, images, strict=True):
            assert_close(vectors, encoder.embed(batch), rtol=0, atol=1e-6)
