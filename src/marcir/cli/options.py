"""Options that several commands share, with one spelling."""

import sys

from marcir.cli.parser import Parser


def add_archive(parser: Parser, required: bool = True) -> None:
    """Add the options that select an archive."""
    parser.add_argument(
        "--dataset", required=required, metavar="NAME", help="manifest (your own), ucm, scenes ..."
    )
    parser.add_argument("--root", metavar="DIR", help="the archive's folder (optional for scenes)")
    parser.add_argument("--labels", metavar="CSV", help="a label table outside the archive's folder")


def add_on_broken(parser: Parser) -> None:
    """Add `--on-broken`."""
    parser.add_argument(
        "--on-broken",
        default="error",
        choices=["error", "skip"],
        help="refuse broken images or skip them",
    )


def add_device(parser: Parser, default: str | None = "auto") -> None:
    """Add `--device`."""
    parser.add_argument(
        "--device",
        default=default,
        metavar="NAME",
        help="where the network runs: cpu, cuda, cuda:1, mps (default: CUDA, else MPS, else the CPU)",
    )


def add_batch_size(parser: Parser) -> None:
    """Add `--batch-size`."""
    parser.add_argument(
        "--batch-size", type=int, default=64, metavar="N", help="images per batch (default 64)"
    )


def print_skipped(broken: dict[str, str]) -> None:
    """Print one line per broken image that was skipped."""
    for problem in broken.values():
        print(f"skipped {problem}", file=sys.stderr)
