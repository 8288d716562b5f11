"""`marcir train`."""

from collections.abc import Sequence

from marcir.cli.parser import Parser


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, do it, and print what came out."""
    from marcir.config import loss_name, read_config

    if {"-h", "--help"} & set(arguments) and not any(each.startswith("--loss.name") for each in arguments):
        read_config(["--help"], None)  # without the options of any loss, torch need not be imported
    from marcir.catalog import loss_options

    config = read_config(arguments, loss_options(loss_name(arguments)))
    from marcir.training.train import train

    scores = train(config)
    if scores is not None:
        print(scores)
        print(f"\n{config.folder}: model.safetensors, config.json, metrics.json, history.csv, README.md")
