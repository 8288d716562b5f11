"""Score a trained model on an archive, or a run on its test images."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from marcir.config import Config, read_yaml
from marcir.data.archive import Archive, open_archive
from marcir.data.dataset import ArchiveDataset, open_images
from marcir.data.image_cache import checksum_of_files
from marcir.data.label_csv import Unlisted
from marcir.data.labelled_embeddings import LabelledEmbeddings
from marcir.data.split import PARTS, Split
from marcir.data.validation import OnBroken
from marcir.errors import ConfigError, DataError, MarcirError, did_you_mean
from marcir.model.encoder import Encoder
from marcir.model.model import BATCH, Model, load_model
from marcir.model.pretrained import is_imagenet_only, pretrained_model
from marcir.training.build import build_untrained
from marcir.training.evaluation import Evaluation, evaluate_embeddings, refuse_incomplete
from marcir.training.inputs import Examples, FrozenFeatures, embed_positions
from marcir.training.run_folder import RunFolder
from marcir.training.task import Task
from marcir.types import Embeddings


@dataclass(frozen=True, eq=False)
class ModelEvaluation:
    """Scores of a model on an archive, with the embeddings.

    Attributes:
        evaluation: Scores beside chance, oracle and the untrained backbone.
        queries: Vectors and labels.
        root: The archive's folder.
        notes: Remarks on the scores, one sentence each.
    """

    evaluation: Evaluation
    queries: LabelledEmbeddings
    root: Path
    notes: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([str(self.evaluation), *self.notes])


def evaluate(
    model: str | Path | None,
    dataset: str,
    root: str | Path | None,
    labels: str | Path | None = None,
    *,
    unlisted: Unlisted | None = None,
    part: str | None = None,
    split: str | Path | None = None,
    name: str | None = None,
    on_broken: OnBroken = "error",
    variants: Mapping[str, str] | None = None,
    seed: int = 0,
    device: str = "auto",
    batch_size: int = BATCH,
    allow_incomplete: bool = False,
) -> ModelEvaluation:
    """Embed an archive with a model and score it, beside chance, oracle and the backbone before training.

    >>> print(evaluate("runs/mine", "manifest", "tiles"))  # doctest: +SKIP

    Args:
        model: A folder of `marcir train`; None for ImageNet features.
        dataset: The dataset's name.
        root: Its folder.
        labels: A label table outside the folder.
        unlisted: What labels are that the table does not list, `absent` or `unknown`. By default what the
            table says, else as in training if the model was trained on this archive, else absent.
        part: `train`, `validation`, `test` or `all`. By default the run's test images if the model was
            trained on this archive, whatever its labels are now, else all images.
        split: A split of this archive, whatever its labels were, instead of that of the model's run: to score
            another model on the same images.
        name: Name of the model; by default that of its folder.
        on_broken: `error` refuses broken images; `skip` leaves them out.
        variants: Variants of the metrics by name.
        seed: Seed of the random rankings and the bootstrap.
        device: Device of the network.
        batch_size: Images per batch.
        allow_incomplete: Score also where unknown labels leave out more than half of the pairs, or leave no
            ranking better than another.

    Raises:
        DataError: Where they do and that is not allowed.
    """
    if part not in (None, "all", *PARTS):
        raise ConfigError(f"--part '{part}': unknown. {did_you_mean(str(part), ['all', *PARTS])}")
    archive = complete = open_archive(dataset, root, labels, unlisted)
    loaded = pretrained_model(archive, device)[0] if model is None else load_model(model, device)
    images = open_images(archive, loaded.config.packed_size, on_broken)
    _check_form(loaded, images)
    archive, notes = images.archive, list[str]()
    if unlisted is None and (loaded.config.unlisted, archive.unlisted) == ("unknown", "absent"):
        archive, notes = _read_as_in_training(loaded, images, dataset, labels)
    parts, note = (
        _split_of_run(loaded, archive, complete, images.checksum)
        if split is None
        else (Split.load(split, archive, other_labels=True), "")
    )
    positions, training, chosen = _select_images(parts, archive, part)
    if not allow_incomplete:
        try:
            refuse_incomplete(archive.labels[positions])
        except DataError as error:
            raise DataError(" ".join([str(error), *notes])) from error

    def embed(encoder: Encoder) -> Tensor:
        return embed_positions(encoder, images, loaded.config.size, positions, batch_size, show_progress=True)

    queries = _labelled(archive, positions, embed(loaded.encoder))
    untrained, notes = None, [chosen + note, *notes]
    if not is_imagenet_only(loaded.config):  # which is the untrained backbone itself
        try:
            config, like = Config.from_dict(read_yaml(loaded.path / "config.yaml")), loaded.encoder
            untrained = embed(build_untrained(config, like, images, loaded.config.size, training))
        except MarcirError as error:
            notes.append(f"No row of the untrained backbone: {error}")
    evaluation = evaluate_embeddings(
        name or loaded.path.resolve().name,
        queries,
        variants=variants,
        training_counts=_training_counts(loaded, archive),
        untrained=untrained,
        seed=seed,
    )
    return ModelEvaluation(evaluation, queries, archive.root, tuple(notes))


@dataclass(frozen=True, eq=False)
class TestResult:
    """Scores of a run on its test images, with their vectors and labels."""

    evaluation: Evaluation
    images: LabelledEmbeddings


def score_test(name: str, config: Config, task: Task, encoder: Encoder, examples: Examples) -> TestResult:
    """Score an encoder with its best weights on the test images, beside the same backbone untrained."""
    positions, source = task.positions("test"), task.source
    images = _labelled(task.archive, positions, examples.embed(encoder.eval(), positions))
    if isinstance(examples, FrozenFeatures):  # a frozen backbone is never trained
        untrained = examples.features(positions)
    else:
        backbone = build_untrained(config, encoder, source, task.size, task.positions("train"))
        untrained = embed_positions(backbone, source, task.size, positions)
    counts, seed = task.statistics.label_counts.tolist(), config.train.seed
    evaluation = evaluate_embeddings(name, images, training_counts=counts, untrained=untrained, seed=seed)
    return TestResult(evaluation, images)


def _labelled(archive: Archive, positions: list[int], vectors: Tensor) -> LabelledEmbeddings:
    ids = tuple(archive.ids[position] for position in positions)
    embeddings = Embeddings(ids, vectors.numpy())
    return LabelledEmbeddings(embeddings, archive.labels[positions], archive.vocabulary, archive.unlisted)


def _read_as_in_training(
    model: Model, images: ArchiveDataset, dataset: str, labels: str | Path | None
) -> tuple[Archive, list[str]]:
    """The archive with unlisted labels unknown, and a remark, if the model was trained on that."""
    try:
        read = open_archive(dataset, images.archive.root, labels, "unknown").without(images.broken)
    except DataError:  # the table says something else, or leaves no label out
        return images.archive, []
    if read.label_checksum != model.config.label_checksum:
        return images.archive, []
    return read, [
        "Labels that the table does not list are unknown, as in training; --unlisted absent takes them for "
        "absent."
    ]


def _check_form(model: Model, source: ArchiveDataset) -> None:
    config = model.config
    if (source.bands, str(source.dtype)) != (config.bands, config.dtype):
        raise DataError(
            f"{source.archive.root}: images of {source.bands} bands of {source.dtype}; the model "
            f"{model.path} was trained on {config.bands} bands of {config.dtype}."
        )


def _split_of_run(
    model: Model, archive: Archive, complete: Archive, image_checksum: str
) -> tuple[Split | None, str]:
    """The split of the run, if the model was trained on these images, and a remark if their labels differ.

    Args:
        model: The model.
        archive: The archive.
        complete: The archive with its broken images.
        image_checksum: Checksum of the complete archive's files.
    """
    path = model.path / "split.json"
    if archive.label_checksum == model.config.label_checksum:
        return Split.load(path, archive), ""
    try:
        split = Split.load(path, archive, other_labels=True)
    except DataError:
        return None, ""
    same_ids = len(split.train) + len(split.validation) + len(split.test) == len(archive)
    if not same_ids or not _same_files(RunFolder(model.path), complete, image_checksum):
        return None, ""
    return split, " Their labels are not those of training."


def _same_files(run: RunFolder, archive: Archive, image_checksum: str) -> bool:
    """Whether the archive has the image files of a run; its table may list them in another order."""
    if run.image_checksum == image_checksum:
        return True
    try:
        data = run.settings().data
        ids = open_archive(data.name, data.root, data.labels, data.unlisted).ids
    except MarcirError:  # the archive was moved since
        return False
    if ids == archive.ids or set(ids) != set(archive.ids):
        return False
    order = [archive.position_of[image] for image in ids]
    paths, labels = tuple(archive.paths[k] for k in order), archive.labels[order]
    return checksum_of_files(replace(archive, ids=ids, paths=paths, labels=labels)) == run.image_checksum


def _select_images(
    split: Split | None, archive: Archive, part: str | None
) -> tuple[list[int], list[int], str]:
    """Positions to score, positions for the untrained backbone's batch-norm statistics, and a remark."""
    everything = list(range(len(archive)))
    if split is None:
        if part not in (None, "all"):
            raise ConfigError(
                f"--part {part}: the model was not trained on this archive, which has no parts. "
                "Use --part all."
            )
        return everything, everything, "All images: this is not the archive that the model was trained on."
    training = split.positions(archive, "train")
    if part == "all":
        return everything, training, "All images, including the training images."
    chosen = part or "test"
    note = f"The {chosen} images of the run's split."
    return split.positions(archive, chosen), training, note


def _training_counts(model: Model, archive: Archive) -> list[int] | None:
    """Training images per label of the archive; None if the model does not know all of them."""
    known = dict(zip(model.config.labels, model.config.training_counts, strict=True))
    if not set(archive.vocabulary.names) <= set(known):
        return None
    return [known[name] for name in archive.vocabulary.names]
