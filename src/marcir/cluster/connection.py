"""Connect to a Ray cluster, or start one on this machine."""

import logging
import os
import re
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import marcir
from marcir.errors import ClusterError, ConfigError, needs
from marcir.files import reason

# Read by Ray and gRPC when they start: no usage statistics, no messages of workers on the driver's terminal;
# devices that a process does not reserve stay visible to it (Ray warns that this will be its default); three
# attempts to connect take 5 s at most, after the check that takes up to `_SECONDS`.
_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_LOG_TO_DRIVER": "0",
    "GRPC_VERBOSITY": "ERROR",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "1",
    "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "2",
}
_SECONDS: Final = 4.0  # until the cluster has answered
# Ray's server starts a process per client; now and then that process ends when it starts (gRPC after a fork).
_TRIES: Final = 3
_REFUSED: Final = " Does it ask for a token? Then set RAY_AUTH_MODE and RAY_AUTH_TOKEN."
_CLIENT = re.compile(r"ray://([^\s:/]+|\[[0-9a-fA-F:]+\]):(\d{1,5})")


@contextmanager
def connect(address: str, cpus: int | None = None) -> Iterator[Any]:
    """Connect to a cluster while the block runs; yields the module `ray`.

    Leaving the block ends the connection, and a cluster that was started for it. Where the process is
    connected already, that connection is used and stays.

    Args:
        address: `ray://HOST:PORT` of a cluster's client server (its port is 10001 by default); `auto` for
            the cluster that this machine belongs to, or that of `$RAY_ADDRESS`; `local` starts one here.
        cpus: CPUs of a cluster that is started here; None for those of the machine.

    Raises:
        ConfigError: For another address.
        ClusterError: Where the cluster cannot be reached.
        DependencyError: Where Ray is not installed.
    """
    check_address(address)
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with needs("cluster"):
        import ray
    if ray.is_initialized():
        yield ray
        return
    _start(ray, address, cpus)
    try:
        yield ray
    finally:
        ray.shutdown()


def check_address(address: str) -> None:
    """Refuse what is not the address of a cluster.

    >>> check_address("ray://10.0.0.1:10001")
    >>> check_address("10.0.0.1")
    Traceback (most recent call last):
    marcir.errors.ConfigError: --cluster '10.0.0.1': expected ray://HOST:10001, auto or local.
    """
    client = _CLIENT.fullmatch(address)
    if address not in ("auto", "local") and (client is None or not 0 < int(client[2]) < 2**16):
        raise ConfigError(f"--cluster '{address}': expected ray://HOST:10001, auto or local.")


def check_version(version: str) -> None:
    """Refuse, on a machine of the cluster, another version of marcir than that of the driver."""
    if marcir.__version__ != version:
        raise ClusterError(
            f"{socket.gethostname()}: has marcir {marcir.__version__}, not {version}. Install the same "
            "version on all machines."
        )


def _start(ray: Any, address: str, cpus: int | None) -> None:
    """Connect, or start a cluster of one machine."""
    found = _running(address) if address == "auto" else address
    settings: dict[str, Any] = {}
    if found == "local":
        settings = {"include_dashboard": False, "num_cpus": cpus}
    else:
        _check_answers(address, found)
        if found != address:
            print(f"using the Ray cluster at {found}", file=sys.stderr, flush=True)
    if not found.startswith("ray://"):
        settings["log_to_driver"] = False
    for left in reversed(range(_TRIES)):
        try:
            with warnings.catch_warnings(), _own_sigterm():
                warnings.simplefilter("ignore")  # what matters is in the error
                ray.init(found, logging_level=logging.ERROR, **settings)
            return
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            if left and isinstance(error, ConnectionAbortedError):
                continue
            raise ClusterError(
                f"--cluster {address}: cannot be used ({_cause(error)}).{_hint(found, error)}"
            ) from error


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep this process's own handler of SIGTERM, if it has one: Ray's ends the process."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _cause(error: Exception) -> str:
    """What Ray says, in one line: of a traceback of its server, the last one.

    >>> _cause(ConnectionAbortedError("Failure from server:\\nTraceback:\\nRuntimeError: no port."))
    'Failure from server: RuntimeError: no port'
    >>> _cause(ConnectionError("ray client connection timeout"))
    'ray client connection timeout'
    """
    first, last = reason(error), str(error).strip().rpartition("\n")[2]
    return f"{first} {last.strip().rstrip('.')}" if first.endswith(":") else first


def _hint(found: str, error: Exception) -> str:
    """What to do about a cluster that answers but cannot be used."""
    if found == "local":
        return ""
    if isinstance(error, ConnectionAbortedError):
        # Ray starts a process per client, at ports from 23000; two clusters on one machine may choose the
        # same.
        return " Try again; with two Ray clusters on that machine, connect to one at a time."
    return _REFUSED


def _running(address: str) -> str:
    """Address of the running cluster that `auto` means."""
    from ray._private.services import get_ray_address_from_environment

    try:
        return str(get_ray_address_from_environment("auto", None))
    except ConnectionError:
        raise ClusterError(
            f"--cluster {address}: no Ray runs on this machine, and RAY_ADDRESS is not set. Start one with: "
            "ray start --head"
        ) from None


def _check_answers(address: str, found: str) -> None:
    """Fail soon where no Ray answers: Ray itself would try for minutes, or without end."""
    with needs("cluster"):
        import grpc
        from ray._private.grpc_utils import init_grpc_channel
        from ray.exceptions import AuthenticationError
    until = time.monotonic() + _SECONDS
    shown = f"--cluster {address}" + ("" if address == found else f" ({found})")
    target = found.removeprefix("ray://")
    host, _, port = target.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise ClusterError(
            f"--cluster {address}: RAY_ADDRESS is '{found}'. Set it to HOST:6379 or ray://HOST:10001."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS).close()
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"{shown}: cannot be reached ({reason(error)}). Is Ray running there, and is its port open?"
        ) from None
    with init_grpc_channel(target) as channel:  # with the token and the certificates of Ray, if it has some
        try:
            grpc.channel_ready_future(channel).result(until - time.monotonic())
            _ping(channel, found, until - time.monotonic())
        except grpc.FutureTimeoutError:
            raise ClusterError(f"{shown}: {_not_ray(found)}") from None
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise ClusterError(f"{shown}: {_not_ray(found)}") from None
            cause = reason(ConnectionError(error.details()))
            raise ClusterError(f"{shown}: cannot be used ({cause}).{_REFUSED}") from None
        except AuthenticationError as error:  # there is no token to send
            raise ClusterError(f"{shown}: cannot be used ({reason(error)}).") from None


def _ping(channel: Any, found: str, seconds: float) -> None:
    """Ask the client server, or the head node, what only they can answer."""
    from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc, ray_client_pb2, ray_client_pb2_grpc

    if found.startswith("ray://"):
        question = ray_client_pb2.ClusterInfoRequest(type=ray_client_pb2.ClusterInfoType.PING)
        ray_client_pb2_grpc.RayletDriverStub(channel).ClusterInfo(question, timeout=seconds)
    else:
        nodes = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel)
        nodes.GetClusterId(gcs_service_pb2.GetClusterIdRequest(), timeout=seconds)


def _not_ray(found: str) -> str:
    """What is wrong with the port, and which one is right."""
    if found.startswith("ray://"):
        return "Ray's client server does not listen there. Its port is 10001 by default; 6379 is another one."
    return "the head node of Ray does not listen there. Its port is 6379 by default; 10001 needs ray://."
