"""`marcir serve`."""

from collections.abc import Sequence
from pathlib import Path

from marcir.cli.parser import Parser
from marcir.files import refuse_address


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    parser.add_shared("--store")
    parser.add_shared(
        "--images",
        required=False,
        help="the folder, or s3://bucket/prefix, that was indexed, to show its files",
    )
    parser.add_shared(
        "--scenes",
        required=False,
        help="the scenes that were indexed, to show windows with their surroundings and other bands",
    )
    parser.add_shared("--remote-assets")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen at (default: this machine only)"
    )
    parser.add_argument("--port", type=int, default=8000, help="default 8000; 0: any free port")
    parser.add_argument("--token", help="what requests must carry; better in $MARCIR_TOKEN")
    parser.add_argument("--no-auth", action="store_true", help="accept requests of others without a token")
    parser.add_argument(
        "--basemap",
        metavar="URL",
        help="tiles under the map of the page, with {z}, {x} and {y}, or a raster .pmtiles file; browsers "
        "load them from there",
    )
    parser.add_argument(
        "--allow-edits",
        action="store_true",
        help="collections and labels may be changed, on this machine or with a token",
    )
    parser.add_shared("--annotations", "--device")
    options = parser.parse(arguments)
    if options.device not in ("auto", "cpu"):
        from marcir.model.device import choose_device

        choose_device(options.device)  # refused now, not when the first image comes
    from marcir.data.object_storage import image_path
    from marcir.serve.basemap import Basemap
    from marcir.serve.run import serve
    from marcir.serve.settings import Settings, token_from_environment

    token = token_from_environment() if options.token is None else options.token
    images = None if options.images is None else image_path(options.images)
    basemap = None if options.basemap is None else Basemap.parse(options.basemap)
    refuse_address("--annotations", options.annotations)
    serve(
        Settings(
            options.store,
            images,
            options.host,
            options.port,
            token,
            options.no_auth,
            options.device,
            options.scenes,
            basemap=basemap,
            allow_edits=options.allow_edits,
            annotations=None if options.annotations is None else Path(options.annotations),
            remote_assets=options.remote_assets,
        )
    )
