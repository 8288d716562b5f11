"""The commands that train a model on the labels of a store, and say whether it is better."""

import shlex
from pathlib import PurePosixPath

from marcir.annotations.annotations import Annotations, annotations_path
from marcir.annotations.merge import merged_table
from marcir.annotations.reader import folder_of_images
from marcir.config import TrainConfig, suggest_batch_size
from marcir.search.store import Store

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
    labelled = len(store.read(lambda snapshot: merged_table(snapshot, page)).rows)
    uri = store.uri.rstrip("/")  # a text, as `s3://bucket/a.store` is no path
    name = PurePosixPath(uri.rpartition("/")[2])
    run, new, table = (
        f"runs/{name.stem}",
        f"{uri.removesuffix(name.suffix)}-trained.store",
        f"{name.stem}-labels.csv",
    )
    beside = annotations_path(store.uri)
    if beside is not None and annotations.path in (None, beside):
        given, archive = [], ["--store", store.uri]
        scored = ["--dataset", "store", "--root", store.uri]
    else:  # training finds labels beside a store on a disk only
        given = (
            ["--source", "table"] if annotations.path is None else ["--annotations", str(annotations.path)]
        )
        archive = scored = ["--dataset", "manifest", "--root", folder, "--labels", table]
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
