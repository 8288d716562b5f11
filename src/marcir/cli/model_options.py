"""Options that say how a model is run, the same in every command that embeds images."""

from marcir.cli.parser import Parser


def add_device(parser: Parser, default: str | None = "auto") -> None:
    """The option `--device`."""
    parser.add_argument(
        "--device",
        default=default,
        metavar="NAME",
        help="where the network runs: cpu, cuda, cuda:1, mps (default: CUDA, else MPS, else the CPU)",
    )


def add_batch_size(parser: Parser) -> None:
    """The option `--batch-size`."""
    parser.add_argument(
        "--batch-size", type=int, default=64, metavar="N", help="images that are embedded at a time (64)"
    )
