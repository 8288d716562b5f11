"""An argument parser whose errors are one line, and the options that several commands share."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from marcir import __version__
from marcir.checks import check_int
from marcir.errors import ConfigError, did_you_mean, needs

if TYPE_CHECKING:
    from marcir.cluster.embedding import ClusterEmbedding
    from marcir.experiments.workers import PerformAll

T = TypeVar("T")
_RUNS_ON = "where the network runs: cpu, cuda, cuda:1, mps (default: CUDA, else MPS, else the CPU)"
SHARED: dict[str, dict[str, Any]] = {
    "--dataset": {"required": True, "metavar": "NAME", "help": "manifest (your own), ucm, scenes ..."},
    "--root": {"metavar": "DIR", "help": "the archive's folder (optional for scenes)"},
    "--labels": {"metavar": "CSV", "help": "a label table outside the archive's folder"},
    "--unlisted": {
        "choices": ["absent", "unknown"],
        "help": "what labels are that the table does not list (default: what it says itself, else absent)",
    },
    "--on-broken": {
        "default": "error",
        "choices": ["error", "skip"],
        "help": "refuse broken images or skip them",
    },
    "--images": {
        "required": True,
        "metavar": "DIR",
        "help": "images anywhere below this folder, or below s3://bucket/prefix",
    },
    "--store": {"required": True, "metavar": "URI", "help": "a store of marcir index"},
    "--annotations": {
        "metavar": "FILE",
        "help": "collections and labels of the page (default: the file beside the store)",
    },
    "--device": {"default": "auto", "metavar": "NAME", "help": _RUNS_ON},
    "--batch-size": {"type": int, "default": 64, "metavar": "N", "help": "images per batch (default 64)"},
    "--cluster": {
        "metavar": "ADDRESS",
        "help": "use a Ray cluster: ray://HOST:10001, auto (that of this machine) or local (start one here)",
    },
    "--cpus-per-actor": {
        "type": int,
        "metavar": "N",
        "help": "with --cluster: CPUs of each process that embeds (default 1); on GPUs there is one per GPU",
    },
    "--cpus-per-run": {
        "type": int,
        "metavar": "N",
        "help": "with --cluster: CPUs, and threads, of each run (default 1)",
    },
    "--gpus-per-run": {
        "type": float,
        "metavar": "N",
        "help": "with --cluster: 1, 0 or a share of a GPU (default: 1 where the cluster has GPUs)",
    },
    "--scenes": {
        "required": True,
        "metavar": "DIR|JSON",
        "help": "GeoTIFFs below a folder, or a STAC item, collection or catalog",
    },
    "--remote-assets": {
        "action": "store_true",
        "help": "read assets of a local STAC catalog from http(s) servers",
    },
    "--window": {"type": int, "default": 256, "metavar": "PX", "help": "side of a window (default 256)"},
    "--stride": {
        "type": int,
        "metavar": "PX",
        "help": "pixels from one window to the next (default: the side of a window)",
    },
    "--bands": {"metavar": "LIST", "help": "numbers from 1 or names, such as 4,3,2 (default: all)"},
    "--resolution": {
        "type": float,
        "metavar": "METRES",
        "help": "read the scenes at these metres per pixel (default: as they are)",
    },
    "--nodata-max": {
        "type": float,
        "default": 0.2,
        "metavar": "SHARE",
        "help": "leave out windows with more missing pixels (default 0.2)",
    },
    "--seed": {"type": int, "default": 0},
    "--config": {"required": True, "metavar": "YAML", "help": "the plan, see docs/benchmark.md"},
    "--results": {"required": True, "metavar": "DIR", "help": "one record per run; done runs stay"},
    "--jobs": {"type": int, "metavar": "N", "help": "runs at a time (default 1)"},
}
ARCHIVE = ("--dataset", "--root", "--labels", "--unlisted")
CUTTING = ("--window", "--stride", "--bands", "--resolution", "--nodata-max")
PLAN = ("--config", "--results", "--jobs", "--cluster", "--cpus-per-run", "--gpus-per-run")


_NEGATIVE = re.compile(r"-[\d.]")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, with the nearest known name."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def add_shared(self, *names: str, **changes: Any) -> None:
        """Add options of `SHARED`; `changes` replace parts of their declarations."""
        for name in names:
            self.add_argument(name, **{**SHARED[name], **changes})

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with 2."""
        end = "" if message.endswith((".", "?")) else "."
        self.exit(2, f"{self.prog}: {message}{end} Try: {self.prog} --help\n")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse all arguments; unknown ones are an error."""
        parsed, unknown = self.parse_known_args(_with_negative_values(arguments))
        if unknown:
            options = [option for action in self._actions for option in action.option_strings]
            self.error(f"unknown argument '{unknown[0]}'. {did_you_mean(unknown[0], options)}")
        return parsed


def _with_negative_values(arguments: Sequence[str]) -> list[str]:
    """Join an option and a list of numbers that begins with a minus, which argparse takes for an option.

    >>> _with_negative_values(["--at", "-97.3,47.1", "--json"])
    ['--at=-97.3,47.1', '--json']
    """
    joined: list[str] = []
    for argument in arguments:
        if joined and _NEGATIVE.match(argument) and re.fullmatch(r"--[a-z-]+", joined[-1]):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def choose(
    parser: Parser, commands: Mapping[str, str], arguments: Sequence[str]
) -> tuple[str, Parser] | None:
    """The command named by the first argument and its parser; None after printing help.

    Args:
        parser: The parser of the program or of a group of commands.
        commands: Summaries by name.
        arguments: The arguments after the program or the group.
    """
    parser.epilog = "commands:\n" + "\n".join(f"  {name:12}{text}" for name, text in commands.items())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--version", action="version", version=f"marcir {__version__}")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of the commands below")
    if not arguments or arguments[0].startswith("-"):
        parser.parse(arguments)
        parser.print_help()
        return None
    name = arguments[0]
    if name not in commands:
        parser.error(f"unknown command '{name}'. {did_you_mean(name, commands)}")
    text = commands[name]
    return name, Parser(prog=f"{parser.prog} {name}", description=f"{text[0].upper()}{text[1:]}.")


def print_skipped(broken: Mapping[str, str]) -> None:
    """Print one line per broken image that was skipped."""
    for problem in broken.values():
        print(f"skipped {problem}", file=sys.stderr)


@contextmanager
def embedding_place(
    parser: Parser, options: argparse.Namespace
) -> "Iterator[Callable[[], ClusterEmbedding] | None]":
    """Gives the cluster of `--cluster`, or is None; takes its options out of the others.

    This process then only prepares the model, on its CPU.
    """
    address, cpus = vars(options).pop("cluster"), vars(options).pop("cpus_per_actor")
    if address is None:
        if cpus is not None:
            parser.error("--cpus-per-actor goes with --cluster")
        yield None
        return
    device, options.device = options.device, "cpu"
    per_actor = check_int("--cpus-per-actor", 1 if cpus is None else cpus, 1)
    if address == "local" and per_actor > (there := os.cpu_count() or 1):
        raise ConfigError(
            f"--cpus-per-actor {per_actor}: this machine has {there} CPUs. Use at most {there}."
        )

    def on_cluster(ray: Any) -> "ClusterEmbedding":
        from marcir.cluster.embedding import ClusterEmbedding

        return ClusterEmbedding(ray, device, per_actor)

    with _cluster(address, on_cluster) as cluster:
        yield cluster


@contextmanager
def _cluster(address: str, use: Callable[[Any], T]) -> Iterator[Callable[[], T]]:
    """Gives what `use` makes of a cluster, while the block runs.

    A cluster of this machine is started when it is first asked for: other errors are found sooner, and
    nothing is started where nothing is to be done. Others are connected at once, since they may be out of
    reach, and then nothing must have been written.
    """
    from marcir.cluster.connection import check_address, connect

    check_address(address)
    with needs("cluster"):
        import ray  # noqa: F401
    with ExitStack() as stack:

        @cache
        def connected() -> T:
            return use(stack.enter_context(connect(address)))

        if address != "local":
            connected()
        yield connected


@contextmanager
def runs_place(parser: Parser, options: argparse.Namespace) -> "Iterator[PerformAll | None]":
    """What performs runs on the cluster of `--cluster`, or None; takes its options out of the others."""
    address = vars(options).pop("cluster")
    cpus, gpus = vars(options).pop("cpus_per_run"), vars(options).pop("gpus_per_run")
    if address is not None and options.jobs is not None:
        parser.error(
            "--jobs goes without --cluster, where --cpus-per-run decides how many runs there are at a time"
        )
    options.jobs = 1 if options.jobs is None else options.jobs
    if address is None:
        for name, value in {"--cpus-per-run": cpus, "--gpus-per-run": gpus}.items():
            if value is not None:
                parser.error(f"{name} goes with --cluster")
        yield None
        return

    def on_cluster(ray: Any) -> "PerformAll":
        from marcir.cluster.tasks import ClusterTasks
        from marcir.experiments.remote import perform_with

        tasks = ClusterTasks(ray, 1 if cpus is None else cpus, gpus)
        print(
            f"the cluster has room for {tasks.at_a_time} runs at a time (--cpus-per-run {tasks.cpus}, "
            f"--gpus-per-run {tasks.gpus:g})",
            file=sys.stderr,
            flush=True,
        )
        return perform_with(tasks.run)

    with _cluster(address, on_cluster) as cluster:
        yield lambda records, results: cluster()(records, results)
