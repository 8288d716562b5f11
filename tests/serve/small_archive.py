"""A small archive with names of all kinds, and a tiny model that was never trained."""

import csv
import io
import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import tifffile
import torch
from PIL import Image
from safetensors.torch import save_file

from marcir.model.backbone import create_backbone
from marcir.model.encoder import Encoder
from marcir.model.model_config import ModelConfig
from marcir.scenes.write import write_scenes
from marcir.search.lance import LanceStore

SIDE, DIM = 24, 16
# Ids that are quotes, parts of addresses, script, SQL, formulas, and other people's letters.
NASTY = (
    'it\'s "quoted".png',
    "100%_%41_#1?a=b&c.png",
    "<script>alert(1)</script>.png",
    "'; DROP TABLE images; --.png",
    "x' OR '1'='1.png",
    "=1+1@cmd.png",
    "übung/日本 🛰.png",
    " space + plus .png",
    "new\nline\r.png",
    "<img src=x onerror=alert(1)>.jpg",
)
# Labels and unknown labels of some images.
PARTLY_KNOWN = {
    "images/000001.png": (("tree",), ("grass", "it's")),
    "images/000002.png": ((), ("tree", "quay")),
    "images/000003.png": (("tree", "grass"), ()),
}
# Images that no table names.
NOT_LABELLED = {" space + plus .png", "new\nline\r.png", "bands.tif", "grey.png", "turned.jpg"}
NASTY_LABELS = ("it's", "100%", "<b>bold</b>", '=HYPERLINK("x")', "x' OR '1'='1", "ländlich")


def write_model(folder: Path, bands: int = 3, dtype: str = "uint8") -> Path:
    """A model of random weights."""
    torch.manual_seed(3)
    backbone = create_backbone("test_resnet", bands, SIDE)
    encoder = Encoder(backbone, DIM, "projection", (0.5,) * bands, (0.5,) * bands)
    config = ModelConfig(
        marcir="0.1.0",
        backbone="test_resnet",
        bands=bands,
        size=SIDE,
        packed_size=SIDE,
        dtype=dtype,
        mean=(0.5,) * bands,
        std=(0.5,) * bands,
        dim=DIM,
        embedding="projection",
        labels=("tree",),
        training_counts=(1,),
        loss={"name": "mulsupcon"},
        dataset="manifest",
        label_checksum="",
        split_checksum="",
    )
    folder.mkdir(parents=True)
    save_file(encoder.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(asdict(config)))
    return folder


def write_images(folder: Path, scenes: int = 40) -> Path:
    """Scenes with their labels.csv and metadata.csv, and images with nasty names beside them."""
    write_scenes(folder, scenes, SIDE, 0)
    rng = np.random.default_rng(0)
    for name in NASTY:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8), name[-3:]))
    pixels = rng.integers(0, 256, (SIDE, 2 * SIDE, 3), dtype=np.uint8)
    tifffile.imwrite(folder / "bands.tif", pixels, photometric="rgb")
    Image.fromarray(pixels[:, :, 0]).save(folder / "grey.png")
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    Image.fromarray(pixels).save(folder / "turned.jpg", exif=exif)
    _label(folder)
    return folder


def write_unknown(folder: Path, store: Path) -> Path:
    """A copy of a store in which the labels of some images are those of `PARTLY_KNOWN`."""
    copied = copied_store(store, folder)
    archive = LanceStore(copied)
    rows = archive.get(list(PARTLY_KNOWN))
    archive.add(
        [
            replace(row, labels=PARTLY_KNOWN[row.id][0], unknown=PARTLY_KNOWN[row.id][1], labelled=True)
            for row in rows
        ]
    )
    return copied


def write_labelled(folder: Path, store: Path) -> Path:
    """A copy of a store in which every image is labelled."""
    copied = copied_store(store, folder)
    archive = LanceStore(copied)
    archive.add([replace(row, labelled=True) for row in archive.get(sorted(NOT_LABELLED))])
    return copied


def copied_store(store: Path, folder: Path) -> Path:
    """A copy of a store that may be changed."""
    return Path(shutil.copytree(store, folder / "copied.store"))


def picture(pixels: np.ndarray, kind: str = "png") -> bytes:
    """An image file of some pixels."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, {"jpg": "JPEG"}.get(kind, kind.upper()))
    return out.getvalue()


def _label(folder: Path) -> None:
    """Nasty labels beside those of the scenes; a place and a date for every third image."""
    with (folder / "labels.csv").open("a", newline="") as file:
        table = csv.writer(file)
        for place, name in enumerate(NASTY):
            if "\n" not in name:  # which no table can hold
                table.writerow([name, ";".join(["tree", NASTY_LABELS[place % len(NASTY_LABELS)]])])
    with (folder / "metadata.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "sensor", "note", "west", "south", "east", "north", "date"])
        for place in range(0, 40, 3):
            west = -150 + 8 * place
            east = west + 20 if west < 160 else -170
            table.writerow(
                [
                    f"images/{place:06}.png",
                    "S2",
                    "=1+1 <b>",
                    west,
                    -10,
                    east,
                    10,
                    f"2024-05-{1 + place % 28:02}",
                ]
            )
        table.writerow([NASTY[2], "<script>", "a 'quoted' %", 7, 50, 8, 51, "2023-01-02"])
