"""`marcir index`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from marcir.cli.parser import CUTTING, SHARED, Parser, embedding_place
from marcir.cli.termination import interrupted_by_sigterm

if TYPE_CHECKING:
    from marcir.geo import SceneArchive


def run(parser: Parser, arguments: Sequence[str]) -> int:
    """Parse the arguments, run the command, and print its result."""
    parser.add_argument(
        "--model",
        metavar="RUN",
        help="a folder of marcir train (default: the store's own; for a new store, ImageNet features)",
    )
    parser.add_shared("--images", required=False)
    parser.add_shared("--scenes", required=False)
    for name in CUTTING:
        parser.add_shared(name, default=None, help=f"with --scenes: {SHARED[name]['help']}")
    parser.add_shared("--remote-assets")
    parser.add_shared("--store", help="a folder, or s3://bucket/path")
    parser.add_shared("--labels", help="label table; paths are relative to --images, or ids of windows")
    parser.add_shared("--unlisted")
    parser.add_argument(
        "--metadata", metavar="CSV", help="path, west, south, east, north, date, anything else"
    )
    parser.add_argument("--prune", action="store_true", help="remove images whose files are gone")
    parser.add_argument(
        "--root-moved", action="store_true", help="the images of the store lie in this folder now"
    )
    parser.add_argument(
        "--check-recall", action="store_true", help="build an approximate index and measure its recall"
    )
    parser.add_argument(
        "--shard",
        metavar="I/N",
        help="index only part I of N, from 0/N to N-1/N: one process for each part fills the store "
        "(I counts from 0, as SLURM_ARRAY_TASK_ID and JOB_COMPLETION_INDEX do)",
    )
    parser.add_argument(
        "--map",
        choices=("pca", "umap", "none"),
        help="how the map of the archive is made: pca, umap (needs umap-learn), or none to leave it as it is "
        "(default: as before, else pca; with --shard none)",
    )
    parser.add_shared("--device", "--batch-size", "--cluster", "--cpus-per-actor")
    options = parser.parse(arguments)
    if options.unlisted and not options.labels:
        parser.error("--unlisted goes with --labels")
    measured, shard = vars(options).pop("check_recall"), vars(options).pop("shard")
    if measured and shard:
        parser.error("--check-recall goes without --shard")
    images, scenes = vars(options).pop("images"), vars(options).pop("scenes")
    remote_assets = vars(options).pop("remote_assets")
    cut = {name: vars(options).pop(name[2:].replace("-", "_")) for name in CUTTING}
    if (images is None) == (scenes is None):
        parser.error("give one of --images and --scenes")
    for name, value in cut.items():
        if scenes is None and value is not None:
            parser.error(f"{name} goes with --scenes")
    if scenes is None and remote_assets:
        parser.error("--remote-assets goes with --scenes")
    from marcir.search.shard import WHOLE, Shard

    part = WHOLE if shard is None else Shard.parse(shard)
    with interrupted_by_sigterm(), embedding_place(parser, options) as cluster:
        from marcir.search.index import index

        embed = (lambda *files: cluster().rows(*files)) if cluster else None
        source = images if scenes is None else _scene_archive(scenes, cut, remote_assets)
        done = index(source, **vars(options), shard=(part.index, part.count), embed=embed)
    print(done)
    if measured:
        from marcir.search.store_info import check_recall

        print(check_recall(options.store))
    return 1 if done.broken else 0


def _scene_archive(scenes: str, cut: Mapping[str, Any], remote_assets: bool) -> "SceneArchive":
    """The windows of scenes, with the options that were given."""
    from marcir.geo import SceneArchive, WindowGrid
    from marcir.geo.scene import parse_bands

    given: dict[str, Any] = {
        name: SHARED[name].get("default") if value is None else value for name, value in cut.items()
    }
    bands = given["--bands"]
    return SceneArchive(
        scenes,
        WindowGrid(given["--window"], given["--stride"], given["--resolution"]),
        None if bands is None else parse_bands(bands),
        given["--nodata-max"],
        remote_assets,
    )
