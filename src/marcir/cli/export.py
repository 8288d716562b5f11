"""`marcir export`."""

from collections.abc import Sequence

from marcir.cli.parser import Parser


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    parser.add_argument("--model", required=True, metavar="RUN", help="a folder of marcir train")
    parser.add_argument("--onnx", required=True, metavar="OUT", help="where the ONNX file goes")
    options = parser.parse(arguments)
    from marcir.model.export import export_onnx

    worst = export_onnx(options.model, options.onnx)
    print(f"{options.onnx}: agrees with the model to {worst:.1e} for batches of 1, 2 and 5")
