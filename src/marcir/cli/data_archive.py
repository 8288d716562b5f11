"""Options that name an archive, the same in every command."""

import sys

from marcir.cli.parser import Parser


def add_archive(parser: Parser, required: bool = True) -> None:
    """The options that name an archive, spelled the same in every command."""
    parser.add_argument(
        "--dataset", required=required, metavar="NAME", help="manifest (your own), ucm, scenes ..."
    )
    parser.add_argument("--root", metavar="DIR", help="the archive's folder (scenes has one of its own)")
    parser.add_argument("--labels", metavar="CSV", help="a label table elsewhere than in the folder")


def add_on_broken(parser: Parser) -> None:
    """The option that says what broken images do."""
    parser.add_argument(
        "--on-broken",
        default="error",
        choices=["error", "skip"],
        help="refuse broken images or skip them",
    )


def say_skipped(broken: dict[str, str]) -> None:
    """One line per broken image that was left out."""
    for problem in broken.values():
        print(f"skipped {problem}", file=sys.stderr)
