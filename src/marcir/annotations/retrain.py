"""The commands that train a model on the labels of a store, and say whether it is better."""

import os
import shlex
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from marcir.annotations.annotations import Annotations, annotations_path
from marcir.annotations.label_log import PageLabels
from marcir.annotations.reader import folder_of_images
from marcir.annotations.suggest import STATES
from marcir.config import TrainConfig, suggest_batch_size
from marcir.search.store import Snapshot, Store

_TRAIN_SHARE = 0.7  # of the images, in a random split
_INCOMPLETE = (
    "Some labels are unknown: the scores leave out the pairs of images that these leave open, and say little "
    "where few pairs remain; marcir evaluate prints how many, and absent labels that are stated add pairs."
)


class Retraining(NamedTuple):
    """How a model is trained on the labels of a store, and compared.

    Attributes:
        labelled: Images of which any label is known.
        commands: Titles and commands.
        note: What the scores mean where labels are unknown; None where all are known.
    """

    labelled: int
    commands: list[tuple[str, str]]
    note: str | None


def retrain_commands(store: Store, annotations: Annotations) -> Retraining:
    """How a model is trained on the labels of a store.

    The commands train a head on ImageNet features, index into a new store, and score the model of the store
    and the new one on the test images of the new one. Local paths that they read are absolute, so that they
    work in any folder.

    Args:
        store: The store, with the labels of its table.
        annotations: What the page states.

    Raises:
        DataError: Where the images cannot be trained on.
    """
    folder = str(folder_of_images(store))
    page = annotations.labels.states()
    labelled, incomplete = store.read(lambda snapshot: count_labelled(snapshot, page))
    uri = _absolute(store.uri)  # a text, as `s3://bucket/a.store` is no path
    plain = uri.rstrip("/")
    name = PurePosixPath(plain.rpartition("/")[2])
    run, new, table = (
        f"runs/{name.stem}",
        f"{plain.removesuffix(name.suffix)}-trained.store",
        f"{name.stem}-labels.csv",
    )
    beside = annotations_path(store.uri)
    file = None if annotations.path is None else _absolute(annotations.path)
    if beside is not None and file in (None, str(beside)):
        given, archive = [], ["--store", uri]
        scored = ["--dataset", "store", "--root", uri]
    else:  # training finds labels beside a store on a disk only
        given = ["--source", "table"] if file is None else ["--annotations", file]
        archive = scored = ["--dataset", "manifest", "--root", folder, "--labels", table]
    # Also for the new model: labels may be changed after it was trained.
    scored = [*scored, "--split", f"{run}/split.json", *(["--allow-incomplete"] if incomplete else [])]
    settings = ["--encoder.frozen", "true", "--train.epochs", "60", "--train.schedule", "cosine"]
    trained = int(_TRAIN_SHARE * labelled)
    if trained < 2 * TrainConfig.batch_size:
        settings += ["--train.batch_size", str(suggest_batch_size(trained))]
    commands = [
        ("write the labels as a table", ["labels", "--store", uri, *given, "--out", table]),
        ("train on the labels", ["train", *archive, *settings, "--run", run]),
        (
            "index into a new store",
            ["index", "--model", run, "--images", folder, "--labels", table, "--store", new],
        ),
        ("score the new model", ["evaluate", "--model", run, *scored, "--json", "new.json"]),
        (
            "score the model of this store on the same images",
            ["evaluate", "--model", uri, *scored, "--json", "old.json"],
        ),
        ("compare them", ["compare", "old.json", "new.json"]),
    ]
    texts = [(title, shlex.join(["marcir", *words])) for title, words in commands]
    return Retraining(labelled, texts, _INCOMPLETE if incomplete else None)


def _absolute(path: str | Path) -> str:
    """A local path from the root of the disk; an address of object storage as it is."""
    return str(path) if "://" in str(path) else os.path.abspath(path)  # noqa: PTH100  as `annotations_path`


def count_labelled(snapshot: Snapshot, page: PageLabels) -> tuple[int, bool]:
    """Number of images of which any label is known, and whether another label of one of them is unknown.

    These are the rows of `merged_table`, without making them.

    Args:
        snapshot: What the store holds, with the labels of its table.
        page: What the page states.
    """
    stated: dict[str, dict[str, int]] = {}
    for image, states in page.items():
        for label, state in states.items():
            stated.setdefault(label, {})[image] = STATES[state]
    known, complete = np.zeros(snapshot.count(), bool), np.ones(snapshot.count(), bool)
    for label in dict.fromkeys([*snapshot.label_counts(), *stated]):
        merged = snapshot.states(label)
        if found := stated.get(label):
            rows, values = snapshot.rows_of(list(found)), np.array(list(found.values()), np.int8)
            merged[rows[rows >= 0]] = values[rows >= 0]
        known |= merged >= 0
        complete &= merged >= 0
        if known.all() and not complete.all():  # the other labels change neither answer
            break
    return int(np.count_nonzero(known)), bool((known & ~complete).any())
