"""Cut scenes into windows, label them from a map, and write a dataset that can be trained on."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, get_args

import marcir
from marcir.checks import check_choice, check_fraction, check_not_negative, check_positive
from marcir.errors import ConfigError, DataError
from marcir.files import atomic_folder, check_new_folder
from marcir.geo.blocks import places_of
from marcir.geo.class_areas import JSON, PARQUET, ClassAreas
from marcir.geo.class_rasters import ClassRaster
from marcir.geo.footprints import footprints_of
from marcir.geo.listing import SUFFIXES, fingerprint_of, list_scenes
from marcir.geo.reading import WindowCounts, WindowPixels, WindowReader, read_windows
from marcir.geo.scene import Scene, SceneList, content_hash, differences, is_remote
from marcir.geo.shares import Legend, Shares, Unmapped
from marcir.geo.window_table import SETTINGS, TABLE, WindowRow, WindowSettings, write_table
from marcir.geo.windows import Window, WindowGrid, windows_of
from marcir.progress import track
from marcir.schema import save
from marcir.text_tables import percent


class SharesOf(Protocol):
    """Returns the shares of classes in a window."""

    def __call__(self, pixels: WindowPixels, /) -> Shares: ...  # noqa: D102


class ClassMap(Protocol):
    """A map of classes, as a raster or as polygons."""

    def on_scene(self, scene: Scene, resolution: float | None = None, /) -> AbstractContextManager[SharesOf]:
        """A function for the windows of one scene."""


@dataclass(frozen=True)
class LabelledWindows:
    """What `label_windows` has written.

    Attributes:
        out: The folder.
        windows: Number of windows.
        scenes: Number of their scenes.
        counts: Windows in which each label is present.
        unknown: Share of the labels that are unknown.
        blocks: Number of blocks of space; None without blocks.
        unmapped: Windows left out because the map has no data there.
        skipped: Windows left out because too many pixels are missing.
        repaired: Polygons of the map that were not valid.
        broken: One line for each scene that could not be read, by scene.
        notes: Remarks, one sentence each.
    """

    out: Path
    windows: int
    scenes: int
    counts: dict[str, int]
    unknown: float
    blocks: int | None
    unmapped: int
    skipped: int
    repaired: int
    broken: dict[str, str]
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        labels = ", ".join(f"{name} {count:,}" for name, count in self.counts.items())
        blocks = "" if self.blocks is None else f", {self.blocks:,} blocks of space"
        lines = [
            f"{self.out}: {self.windows:,} windows of {self.scenes:,} scenes{blocks}",
            f"labels: {labels}; {percent(self.unknown)} % unknown",
        ]
        if self.unmapped:
            lines.append(f"left out: {self.unmapped:,} windows where the map has no data")
        if self.skipped:
            lines.append(f"left out: {self.skipped:,} windows with too many missing pixels")
        if self.repaired:
            lines.append(f"{self.repaired:,} polygons of the map were not valid and were repaired")
        return "\n".join([*lines, *(f"WARNING: {note}" for note in self.notes)])


def label_windows(
    scenes: str | Path,
    map: str | Path,
    out: str | Path,
    *,
    legend: str | Path | None = None,
    field: str | None = None,
    min_share: float = 0.01,
    unmapped: Unmapped = "unknown",
    split_blocks: float = 5000,
    window: int = 256,
    stride: int | None = None,
    bands: Sequence[int | str] | None = None,
    resolution: float | None = None,
    nodata_max: float = 0.2,
    remote_assets: bool = False,
) -> LabelledWindows:
    """Write a dataset of windows, with the classes of a map as labels; `--dataset windows` reads it.

    A class is present in a window if it covers at least `min_share` of the part that has pixels. It is absent
    if it does not, and unknown if it might, were the map complete.

    Args:
        scenes: A folder, a GeoTIFF, or a STAC item, collection or catalog.
        map: A GeoTIFF with one class per pixel, or polygons in GeoJSON or GeoParquet.
        out: A new or empty folder.
        legend: A table value,name of the classes; without it their values are the names.
        field: The field of the polygons that has the class.
        min_share: Smallest share of a window that makes a class one of its labels.
        unmapped: What classes are where the map has no data: `unknown`, or `absent` where it shows all that
            there is.
        split_blocks: Side of the blocks in metres that go into one part of a split; 0 for no blocks.
        window: Side of a window in pixels.
        stride: Pixels from one window to the next; the side of a window by default.
        bands: Bands by number (from 1) or name; all by default.
        resolution: Metres per pixel; the scenes' own by default.
        nodata_max: Largest share of missing pixels in a window.
        remote_assets: Whether assets of a local STAC catalog may be http(s) addresses.

    Raises:
        ConfigError: For an option out of range, or a folder that is not empty.
        DataError: For a map that cannot be used, or if no window is left.
    """
    check_fraction("min_share", check_positive("min_share", min_share))
    check_fraction("nodata_max", nodata_max)
    check_not_negative("split_blocks", split_blocks)
    check_choice("unmapped", unmapped, get_args(Unmapped))
    grid, out = WindowGrid(window, stride, resolution), Path(out)
    check_new_folder(out, "--out")
    class_map = _open_map(Path(map), field, Legend() if legend is None else Legend.load(legend))
    found = _scenes(list_scenes(scenes, bands, remote_assets), scenes, Path(map))
    cut = _Cut(class_map, grid, nodata_max, keep_unmapped=unmapped == "absent")
    for scene in found.scenes:
        cut.add(scene)
    names = cut.labels(min_share, f"{map}")
    settings = WindowSettings(
        marcir=marcir.__version__,
        source=_absolute(scenes),
        map=_absolute(map),
        legend=None if legend is None else _absolute(legend),
        field=field,
        window=window,
        stride=grid.step,
        resolution=resolution,
        bands=None if bands is None else tuple(bands),
        nodata_max=nodata_max,
        min_share=min_share,
        unmapped=unmapped,
        split_blocks=float(split_blocks),
        labels=names,
        scenes=cut.recorded_scenes(),
    )
    rows = _rows(cut, settings)
    with atomic_folder(out, "--out") as folder:
        write_table(folder / TABLE, rows)
        save(folder / SETTINGS, settings, indent=1)
    blocks = {row.place.block for row in rows if row.place is not None}
    return LabelledWindows(
        out=out,
        windows=len(rows),
        scenes=len(settings.scenes),
        counts={name: sum(name in row.present for row in rows) for name in names},
        unknown=sum(len(row.unknown) for row in rows) / (len(rows) * len(names)),
        blocks=len(blocks) if split_blocks else None,
        unmapped=cut.unmapped,
        skipped=sum(cut.counts.skipped.values()),
        repaired=getattr(class_map, "repaired", 0),
        broken=found.broken | cut.counts.broken,
        notes=_notes(found, blocks, settings),
    )


class _Cut:
    """Windows of scenes and the shares of the classes in them.

    Attributes:
        windows: The windows that are kept.
        shares: Their shares.
        unmapped: Number of windows without data in the map.
        counts: What became of all windows.
    """

    def __init__(self, class_map: ClassMap, grid: WindowGrid, nodata_max: float, keep_unmapped: bool) -> None:
        self._map, self._grid, self._nodata_max = class_map, grid, nodata_max
        self._keep_unmapped = keep_unmapped
        self.windows: list[Window] = []
        self.shares: list[Shares] = []
        self.unmapped = 0
        self.counts = WindowCounts()

    def add(self, scene: Scene) -> None:
        """Read all windows of a scene, and keep those that the map covers."""
        windows = list(windows_of(scene, self._grid))
        # The reader is closed first: GDAL's settings are left in the opposite order.
        with self._map.on_scene(scene, self._grid.resolution) as shares_of, WindowReader() as reader:
            read = read_windows(reader, windows, self._nodata_max, self.counts)
            for pixels in track(read, len(windows), f"labelling {scene.id}"):
                shares = shares_of(pixels)
                if shares.covered or self._keep_unmapped:
                    self.windows.append(pixels.window)
                    self.shares.append(shares)
                else:
                    self.unmapped += 1
        if scene.id in self.counts.broken:  # what was read before the damage
            kept = [k for k, window in enumerate(self.windows) if window.scene.id != scene.id]
            self.windows = [self.windows[k] for k in kept]
            self.shares = [self.shares[k] for k in kept]

    def labels(self, min_share: float, where: str) -> tuple[str, ...]:
        """Names of the classes that are present in any window, sorted.

        Raises:
            DataError: If there are none, and why.
        """
        names = {name for shares in self.shares for name in shares.present(min_share)}
        if names:
            return tuple(sorted(names))
        if self.counts.broken and not self.counts.read:
            raise DataError(next(iter(self.counts.broken.values())))
        if not self.counts.read.total():
            raise DataError(
                "too many pixels are missing in all windows of all scenes. Give a larger --nodata-max."
            )
        if not any(shares.covered for shares in self.shares):
            raise DataError(f"{where}: the map does not overlap the scenes. Give the map of their region.")
        raise DataError(
            f"{where}: no class covers {percent(min_share)} % of any window. Give a smaller --min-share."
        )

    def recorded_scenes(self) -> tuple[Scene, ...]:
        """The scenes of the windows, with all that shows whether they have changed."""
        scenes = {window.scene.id: window.scene for window in self.windows}
        return tuple(_recorded(scene) for scene in scenes.values())


def _recorded(scene: Scene) -> Scene:
    now = fingerprint_of(scene.hrefs)
    scene = replace(scene, file_bands=(), time=None, fingerprint=now)
    return replace(scene, fingerprint=replace(now, content=content_hash(scene)))


def _rows(cut: _Cut, settings: WindowSettings) -> list[WindowRow]:
    footprints = footprints_of(cut.windows)
    side = settings.split_blocks
    places = places_of(cut.windows, footprints, side) if side else [None] * len(footprints)
    rows = []
    for window, shares, footprint, place in zip(cut.windows, cut.shares, footprints, places, strict=True):
        present = sorted(shares.present(settings.min_share))
        unknown = (
            shares.unknown(settings.labels, settings.min_share) if settings.unmapped == "unknown" else []
        )
        rows.append(WindowRow(window, footprint, place, present, unknown))
    return rows


def _notes(found: SceneList, blocks: set[str], settings: WindowSettings) -> list[str]:
    notes = differences(found.scenes, settings.resolution)
    side = settings.split_blocks
    if side and len(blocks) < 3:
        notes.append(
            f"{len(blocks)} block(s) of {side:g} m are too few for training, validation and test. Give "
            "smaller ones with --split-blocks, or more scenes."
        )
    return notes


def _open_map(path: Path, field: str | None, legend: Legend) -> ClassMap:
    suffix = path.suffix.lower()
    if not path.is_file():
        raise DataError(f"{path}: there is no such map. Give a file with --map.")
    if suffix in SUFFIXES:
        if field is not None:
            raise ConfigError(f"--field {field}: goes with polygons, and {path} is a raster.")
        return ClassRaster(path, legend)
    if suffix not in JSON | PARQUET:
        known = ", ".join(sorted(SUFFIXES | JSON | PARQUET))
        raise ConfigError(f"--map {path}: not a kind of map that is read ({known}).")
    if field is None:
        raise ConfigError(f"--map {path}: polygons need --field, the name of the field with their class.")
    return ClassAreas(path, field, legend)


def _scenes(found: SceneList, source: str | Path, class_map: Path) -> SceneList:
    """The scenes, all with the same bands; without the map, which may lie in their folder."""
    real = class_map.resolve()
    scenes = tuple(
        scene
        for scene in found.scenes
        if not any(not is_remote(href) and Path(href).resolve() == real for href in scene.hrefs)
    )
    if not scenes:
        line = next(iter(found.broken.values()), f"{source}: there are no scenes besides the map.")
        raise DataError(line)
    if len({(len(scene.bands), scene.dtype) for scene in scenes}) > 1:
        raise DataError(f"{source}: {differences(scenes)[0]} A model needs them alike.")
    return SceneList(scenes, found.broken)


def _absolute(source: str | Path) -> str:
    return str(source) if is_remote(str(source)) else str(Path(source).absolute())
