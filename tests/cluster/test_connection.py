"""Addresses, options and what is missing: one line each, soon."""

import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest

from marcir.cli import main
from marcir.cluster import connection
from marcir.cluster.actor_pool import ActorPool
from marcir.cluster.embedding import ClusterEmbedding
from marcir.data.image_folder import ImageFile
from marcir.errors import ClusterError, ConfigError

INDEX = ["index", "--images", "tiles", "--store", "tiles.store"]
EMBED = ["embed", "--images", "tiles", "--out", "tiles.npz"]


def error_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The only line that a command prints."""
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("command", [INDEX, EMBED])
@pytest.mark.parametrize(
    "address",
    ["", "10.0.0.1", "10.0.0.1:6379", "ray://host", "ray://host:0", "ray://host:99999", "http://h:1"],
)
def test_a_malformed_address_is_refused(
    command: list[str], address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error_of([*command, "--cluster", address], capsys) == (
        f"marcir: --cluster '{address}': expected ray://HOST:10001, auto or local."
    )


@pytest.mark.parametrize("command", [INDEX, EMBED])
def test_without_ray_the_extra_is_named(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert error_of([*command, "--cluster", "local"], capsys) == (
        "marcir: ray is not installed. Install it with: pip install 'marcir[cluster]'"
    )


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_cluster_that_is_not_there_is_one_line_within_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{free.getsockname()[1]}"
    import ray  # noqa: F401  # takes seconds on a busy machine, which are not those of the connection

    start = time.monotonic()
    line = error_of([*INDEX, "--cluster", f"ray://{closed}"], capsys)
    assert line.startswith(f"marcir: --cluster ray://{closed}: cannot be reached (Connection refused).")
    monkeypatch.setenv("RAY_ADDRESS", closed)
    line = error_of([*INDEX, "--cluster", "auto"], capsys)
    assert line.startswith(f"marcir: --cluster auto ({closed}): cannot be reached (Connection refused).")
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("found", ["nonsense", "host:", "host:99999", ":6379"])
def test_a_malformed_ray_address_is_one_line(
    found: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", found)
    assert error_of([*INDEX, "--cluster", "auto"], capsys) == (
        f"marcir: --cluster auto: RAY_ADDRESS is '{found}'. Set it to HOST:6379 or ray://HOST:10001."
    )


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_port_of_something_else_is_one_line_within_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    import ray  # noqa: F401

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        start = time.monotonic()
        line = error_of([*INDEX, "--cluster", f"ray://127.0.0.1:{other.getsockname()[1]}"], capsys)
        assert time.monotonic() - start < 10
    assert "Ray's client server does not listen there. Its port is 10001 by default" in line


@contextmanager
def grpc_server(*handlers: grpc.GenericRpcHandler) -> Iterator[str]:
    """The address of a gRPC server that is not Ray's."""
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool, handlers)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield f"127.0.0.1:{port}"
        server.stop(None).wait()


def test_another_server_of_ray_is_one_line_within_ten_seconds_that_names_the_port(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ray.init", lambda *_, **__: pytest.fail("that takes seconds, or for ever"))
    with grpc_server() as other:
        start = time.monotonic()
        line = error_of([*INDEX, "--cluster", f"ray://{other}"], capsys)
        assert line == (
            f"marcir: --cluster ray://{other}: Ray's client server does not listen there. Its port is 10001 "
            "by default; 6379 is another one."
        )
        monkeypatch.setenv("RAY_ADDRESS", other)
        line = error_of([*INDEX, "--cluster", "auto"], capsys)
        assert line == (
            f"marcir: --cluster auto ({other}): the head node of Ray does not listen there. Its port is 6379 "
            "by default; 10001 needs ray://."
        )
        assert time.monotonic() - start < 10


class RefusesAll(grpc.GenericRpcHandler):
    """Answers every call as a cluster does that asks for a token."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        def refuse(_: object, context: grpc.ServicerContext) -> None:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is missing.\nsecond line")

        return grpc.unary_unary_rpc_method_handler(refuse)


def test_a_cluster_that_asks_for_a_token_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ray.init", lambda *_, **__: pytest.fail("it would ask three times"))
    with grpc_server(RefusesAll()) as refusing:
        assert error_of([*INDEX, "--cluster", f"ray://{refusing}"], capsys) == (
            f"marcir: --cluster ray://{refusing}: cannot be used (the token is missing). Does it ask for a "
            "token? Then set RAY_AUTH_MODE and RAY_AUTH_TOKEN."
        )


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (INDEX, "--images tiles: not a folder"),
        (EMBED, "--images tiles: not a folder"),
        ([*INDEX, "--cpus-per-actor", "0"], "--cpus-per-actor"),
        ([*INDEX, "--cpus-per-actor", "9999"], "--cpus-per-actor 9999: this machine has"),
        (["benchmark", "--config", "plan.yaml", "--results", "results"], "plan.yaml"),
    ],
)
def test_no_cluster_is_started_for_a_command_that_is_wrong(
    command: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ray.init", lambda *_, **__: pytest.fail("started"))
    assert said in error_of([*command, "--cluster", "local"], capsys)


def test_a_lost_connection_is_an_error_of_the_cluster_and_no_actor_is_asked_to_end() -> None:
    def wait(*_: object, **__: object) -> None:
        raise ConnectionError("the other end is gone")

    ray = SimpleNamespace(wait=wait, kill=lambda _: pytest.fail("there is no connection"))
    actor = SimpleNamespace(start=SimpleNamespace(remote=object))
    pool = ActorPool[int](ray, lambda: actor, 2)
    with pytest.raises(ClusterError, match=r"was lost \(the other end is gone\)\. The same command goes on"):
        next(pool.run([1, 2, 3]))


def test_cpus_per_actor_needs_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*INDEX, "--cpus-per-actor", "2"])
    assert ended.value.code == 2
    assert "--cpus-per-actor goes with --cluster" in capsys.readouterr().err


def cluster_of(cpus: float, gpus: float = 0) -> SimpleNamespace:
    """A connection that knows only its resources."""
    return SimpleNamespace(cluster_resources=lambda: {"CPU": cpus} | ({"GPU": gpus} if gpus else {}))


@pytest.mark.parametrize(
    ("cpus", "gpus", "device", "per_actor", "actors"),
    [
        (8, 0, "auto", 1, 8),
        (8, 0, "auto", 3, 2),
        (8, 2, "auto", 1, 2),
        (8, 2, "cpu", 1, 8),
        (8, 4, "cuda", 4, 2),
    ],
)
def test_there_is_an_actor_per_gpu_or_per_so_many_cpus(
    cpus: int, gpus: int, device: str, per_actor: int, actors: int
) -> None:
    assert ClusterEmbedding(cluster_of(cpus, gpus), device, per_actor).actors == actors


def test_what_the_cluster_does_not_have_is_refused() -> None:
    with pytest.raises(ClusterError, match="2 CPUs and 0 GPUs: not enough for one actor .* --device cuda"):
        ClusterEmbedding(cluster_of(2), "cuda")
    with pytest.raises(ClusterError, match="not enough for one actor with --cpus-per-actor 4"):
        ClusterEmbedding(cluster_of(2), "auto", 4)
    with pytest.raises(ConfigError, match="--device cuda:1: on a cluster it is auto, cpu or cuda"):
        ClusterEmbedding(cluster_of(2), "cuda:1")
    with pytest.raises(ConfigError, match="--cpus-per-actor"):
        ClusterEmbedding(cluster_of(2), "auto", 0)


@pytest.mark.parametrize(("files", "actors", "sizes"), [(100, 2, [8] * 12 + [4]), (600, 1, [64] * 9 + [24])])
def test_blocks_are_whole_batches_and_more_than_actors(files: int, actors: int, sizes: list[int]) -> None:
    cluster = ClusterEmbedding(cluster_of(actors))
    blocks = cluster._blocks([ImageFile(str(n), Path(str(n))) for n in range(files)], 8)
    assert [len(block) for block in blocks] == sizes


def test_a_client_process_that_does_not_start_is_one_line_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import ray

    def refuse(*_: object, **__: object) -> None:
        raise ConnectionAbortedError(
            "Initialization failure from server:\nTraceback:\n  x\nRuntimeError: no port.\n"
        )

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setattr(connection, "_check_answers", lambda *_: None)
    assert error_of([*INDEX, "--cluster", "ray://127.0.0.1:10001"], capsys) == (
        "marcir: --cluster ray://127.0.0.1:10001: cannot be used (Initialization failure from server: "
        "RuntimeError: no port). Try again; with two Ray clusters on that machine, connect to one at a time."
    )


def test_a_client_process_that_dies_once_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    calls: list[str] = []

    def second_time(address: str, **_: object) -> None:
        calls.append(address)
        if len(calls) == 1:
            raise ConnectionAbortedError("Initialization failure from server")

    monkeypatch.setattr(ray, "init", second_time)
    monkeypatch.setattr(connection, "_check_answers", lambda *_: None)
    with connection.connect("ray://127.0.0.1:10001"):
        assert calls == ["ray://127.0.0.1:10001"] * 2
