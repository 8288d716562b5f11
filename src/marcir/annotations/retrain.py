"""The commands that train a model on the labels of a store, and say whether it is better."""

import shlex
from pathlib import PurePosixPath

import numpy as np

from marcir.annotations.annotations import Annotations, annotations_path
from marcir.annotations.label_log import PageLabels
from marcir.annotations.reader import folder_of_images
from marcir.annotations.suggest import STATES
from marcir.config import TrainConfig, suggest_batch_size
from marcir.search.store import Snapshot, Store

_TRAIN_SHARE = 0.7  # of the images, in a random split


def retrain_commands(store: Store, annotations: Annotations) -> tuple[int, list[tuple[str, str]]]:
    """How a model is trained on the labels of a store: images with known labels, titles and commands.

    The commands train a head on ImageNet features, index into a new store, and score the model of the store
    and the new one on the test images of the new one.

    Args:
        store: The store, with the labels of its table.
        annotations: What the page states.

    Raises:
        DataError: Where the images cannot be trained on.
    """
    folder = str(folder_of_images(store))
    page = annotations.labels.states()
    labelled = store.read(lambda snapshot: count_labelled(snapshot, page))
    base = PurePosixPath(store.uri.rstrip("/"))
    run, new, table = f"runs/{base.stem}", f"{base.with_suffix('')}-trained.store", f"{base.stem}-labels.csv"
    own_file = annotations.path is not None and annotations.path != annotations_path(store.uri)
    given = ["--annotations", str(annotations.path)] if own_file else []
    archive = ["--store", store.uri]
    if own_file:  # training finds labels beside the store only
        archive = ["--dataset", "manifest", "--root", folder, "--labels", table]
    scored = ["--dataset", "store", "--root", store.uri] if not own_file else archive
    settings = ["--encoder.frozen", "true", "--train.epochs", "60", "--train.schedule", "cosine"]
    trained = int(_TRAIN_SHARE * labelled)
    if trained < 2 * TrainConfig.batch_size:
        settings += ["--train.batch_size", str(suggest_batch_size(trained))]
    commands = [
        ("write the labels as a table", ["labels", "--store", store.uri, *given, "--out", table]),
        ("train on the labels", ["train", *archive, *settings, "--run", run]),
        (
            "index into a new store",
            ["index", "--model", run, "--images", folder, "--labels", table, "--store", new],
        ),
        ("score the new model", ["evaluate", "--model", run, *scored, "--json", "new.json"]),
        (
            "score the model of this store on the same images",
            [
                *("evaluate", "--model", store.uri, *scored),
                *("--split", f"{run}/split.json", "--json", "old.json"),
            ],
        ),
        ("compare them", ["compare", "old.json", "new.json"]),
    ]
    return labelled, [(title, shlex.join(["marcir", *words])) for title, words in commands]


def count_labelled(snapshot: Snapshot, page: PageLabels) -> int:
    """Number of images of which any label is known: the rows of `merged_table`, without making them.

    Args:
        snapshot: What the store holds, with the labels of its table.
        page: What the page states.
    """
    stated: dict[str, dict[str, int]] = {}
    for image, states in page.items():
        for label, state in states.items():
            stated.setdefault(label, {})[image] = STATES[state]
    known = np.zeros(snapshot.count(), bool)
    for label in dict.fromkeys([*snapshot.label_counts(), *stated]):
        merged = snapshot.states(label)
        if said := stated.get(label):
            rows, values = snapshot.rows_of(list(said)), np.array(list(said.values()), np.int8)
            merged[rows[rows >= 0]] = values[rows >= 0]
        known |= merged >= 0
        if known.all():
            break
    return int(np.count_nonzero(known))
