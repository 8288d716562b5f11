"""Score a trained model on an archive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from marcir.config import Config, read_yaml
from marcir.data.archive import Archive, open_archive
from marcir.data.dataset import ArchiveDataset, open_images
from marcir.data.labelled_embeddings import LabelledEmbeddings
from marcir.data.split import PARTS, Split
from marcir.data.validation import OnBroken
from marcir.errors import ConfigError, DataError, MarcirError, did_you_mean
from marcir.model.encoder import Encoder
from marcir.model.model import BATCH, Model, load_model
from marcir.model.pretrained import is_imagenet_only, pretrained_model
from marcir.training.build import build_untrained
from marcir.training.evaluation import Evaluation, evaluate_embeddings
from marcir.training.inputs import embed_positions
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
    part: str | None = None,
    name: str | None = None,
    on_broken: OnBroken = "error",
    variants: Mapping[str, str] | None = None,
    seed: int = 0,
    device: str = "auto",
    batch_size: int = BATCH,
) -> ModelEvaluation:
    """Embed an archive with a model and score it, beside chance, oracle and the backbone before training.

    >>> print(evaluate("runs/mine", "manifest", "tiles"))  # doctest: +SKIP

    Args:
        model: A folder of `marcir train`; None for ImageNet features.
        dataset: The dataset's name.
        root: Its folder.
        labels: A label table outside the folder.
        part: `train`, `validation`, `test` or `all`. By default the run's test images if the model was
            trained on this archive, else all images.
        name: Name of the model; by default that of its folder.
        on_broken: `error` refuses broken images; `skip` leaves them out.
        variants: Variants of the metrics by name.
        seed: Seed of the random rankings and the bootstrap.
        device: Device of the network.
        batch_size: Images per batch.
    """
    if part not in (None, "all", *PARTS):
        raise ConfigError(f"--part '{part}': unknown. {did_you_mean(str(part), ['all', *PARTS])}")
    archive = open_archive(dataset, root, labels)
    loaded = pretrained_model(archive.paths, device)[0] if model is None else load_model(model, device)
    images = open_images(archive, loaded.config.packed_size, on_broken)
    _check_form(loaded, images)
    archive = images.archive
    positions, training, note = _select_images(loaded, archive, part)

    def embed(encoder: Encoder) -> Tensor:
        return embed_positions(encoder, images, loaded.config.size, positions, batch_size, show_progress=True)

    ids = tuple(archive.ids[position] for position in positions)
    vectors = Embeddings(ids, embed(loaded.encoder).numpy())
    queries = LabelledEmbeddings(vectors, archive.labels[positions], archive.vocabulary)
    untrained, notes = None, [note]
    if not is_imagenet_only(loaded.config):  # which is the untrained backbone itself
        try:
            untrained = embed(_untrained(loaded, images, training))
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


def _untrained(model: Model, images: ArchiveDataset, positions: Sequence[int]) -> Encoder:
    """The model's backbone with the initial weights of its run."""
    settings = Config.from_dict(read_yaml(model.path / "config.yaml"))
    return build_untrained(
        settings.encoder, settings.train.seed, model.encoder, images, model.config.size, positions
    )


def _check_form(model: Model, source: ArchiveDataset) -> None:
    config = model.config
    if (source.bands, str(source.dtype)) != (config.bands, config.dtype):
        raise DataError(
            f"{source.archive.root}: images of {source.bands} bands of {source.dtype}; the model "
            f"{model.path} was trained on {config.bands} bands of {config.dtype}."
        )


def _select_images(model: Model, archive: Archive, part: str | None) -> tuple[list[int], list[int], str]:
    """Positions to score, positions for the untrained backbone's batch-norm statistics, and a remark."""
    everything = list(range(len(archive)))
    if archive.label_checksum != model.config.label_checksum:
        if part not in (None, "all"):
            raise ConfigError(
                f"--part {part}: the model was not trained on this archive, which has no parts. "
                "Use --part all."
            )
        return everything, everything, "All images: this is not the archive that the model was trained on."
    split = Split.load(model.path / "split.json", archive)
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
