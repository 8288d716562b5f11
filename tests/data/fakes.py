"""Tiny fakes in the real layouts of the published archives."""

from pathlib import Path

import numpy as np
from PIL import Image

from marcir.data.readers.base import LAND_COVER
from marcir.data.readers.whdld import WHDLD

# The spellings of the published tables.
UCM_HEADER = (
    "airplane", "bare-soil", "buildings", "cars", "chaparral", "court", "dock", "field", "grass",
    "mobile-home", "pavement", "sand", "sea", "ship", "tanks", "trees", "water",
)  # fmt: skip


def pixels(seed: int, size: int = 16, bands: int = 3, dtype: type = np.uint8) -> np.ndarray:
    largest = 255 if dtype == np.uint8 else 60000
    return (np.random.default_rng(seed).random((size, size, bands)) * largest).astype(dtype)


def save(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels(seed)).save(path)


def write_ucm(root: Path) -> dict[str, set[str]]:
    """Two scenes of three images; returns the labels of each image."""
    expected = {}
    lines = ["IMAGE\\LABEL\t" + "\t".join(UCM_HEADER)]
    for scene in ("agricultural", "harbor"):
        for number in range(3):
            name = f"{scene}{number:02}"
            save(root / "Images" / scene / f"{name}.tif", number)
            present = [(number + k) % 5 == 0 for k in range(17)]
            lines.append(name + "\t" + "\t".join(str(int(flag)) for flag in present))
            expected[name] = {label for label, flag in zip(LAND_COVER, present, strict=True) if flag}
    (root / "LandUse_Multilabeled.txt").write_bytes(("\r\n".join(lines) + "\r\n").encode())
    return expected


def write_ml_aid(root: Path, scene_folders: bool = True) -> dict[str, set[str]]:
    expected = {}
    lines = ["IMAGE\\LABEL," + ",".join(UCM_HEADER)]
    for folder, scene in (("images_tr", "airport"), ("images_test", "beach")):
        for number in range(2):
            name = f"{scene}_{number}"
            where = root / folder / scene if scene_folders else root / folder
            save(where / f"{name}.jpg", number)
            present = [(number + k) % 4 == 0 for k in range(17)]
            lines.append(name + "," + ",".join(str(int(flag)) for flag in present))
            expected[name] = {label for label, flag in zip(LAND_COVER, present, strict=True) if flag}
    (root / "multilabel.csv").write_text("\n".join(lines) + "\n", "utf-8")
    return expected


def indexed_mask(values: list[int], size: int = 16) -> Image.Image:
    mask = Image.fromarray(np.resize(np.array(values, np.uint8), (size, size)), "P")
    mask.putpalette([channel for value in range(256) for channel in (value, 255 - value, 7 * value % 256)])
    return mask


def write_dlrsd(root: Path) -> dict[str, set[str]]:
    expected = {}
    for scene in ("beach", "runway"):
        for number in range(2):
            name = f"{scene}{number:02}"
            save(root / "Images" / scene / f"{name}.tif", number)
            values = [1 + number, 12, 17]
            (root / "Labels" / scene).mkdir(parents=True, exist_ok=True)
            indexed_mask(values).save(root / "Labels" / scene / f"{name}.png")
            expected[name] = {LAND_COVER[value - 1] for value in values}
    return expected


def write_whdld(root: Path, colours: bool = True) -> dict[str, set[str]]:
    expected = {}
    for number in range(1, 4):
        name = f"wh{number:04}"
        save(root / "Images" / f"{name}.jpg", number)
        values = [number, 6]
        mask = indexed_mask(values)
        if colours:
            table = np.array([(0, 0, 0), *WHDLD.COLOURS], np.uint8)
            mask = Image.fromarray(table[np.asarray(mask)])
        (root / "ImagesPNG").mkdir(parents=True, exist_ok=True)
        mask.save(root / "ImagesPNG" / f"{name}.png")
        expected[name] = {WHDLD.LABELS[value - 1] for value in values}
    return expected


def write_manifest(root: Path, matrix: bool = False) -> dict[str, set[str]]:
    expected = {"a/one.png": {"road", "tree"}, "a/two.jpg": {"water"}, "three.webp": set()}
    for seed, name in enumerate(expected):
        save(root / name, seed)
    names = ["road", "tree", "water"]
    if matrix:
        lines = ["path," + ",".join(names)]
        lines += [
            path + "," + ",".join(str(int(n in labels)) for n in names) for path, labels in expected.items()
        ]
    else:
        lines = ["path,labels", *(f"{path},{';'.join(sorted(labels))}" for path, labels in expected.items())]
    (root / "labels.csv").write_text("\n".join(lines) + "\n", "utf-8")
    return expected
