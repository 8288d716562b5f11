"""Score a trained model on an archive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from marcir.config import Config, read_yaml
from marcir.data.archive import Archive
from marcir.data.image_sources import ImageSource, open_images
from marcir.data.labelled import LabelledEmbeddings
from marcir.data.opening import open_archive
from marcir.data.resize import prepared
from marcir.data.split import PARTS, Split
from marcir.data.validation import OnBroken
from marcir.errors import ConfigError, DataError, MarcirError, did_you_mean
from marcir.metrics.retrieval_scores import retrieval_scores
from marcir.metrics.scores import Scores
from marcir.model.backbone import create_backbone
from marcir.model.encoder import Encoder, settle_batch_norm
from marcir.model.model import Model, load_model
from marcir.model.pretrained import is_pretrained, pretrained_model
from marcir.progress import track
from marcir.training.evaluation import Evaluation, evaluate
from marcir.types import Embeddings

_BATCH = 64


@dataclass(frozen=True, eq=False)
class ModelEvaluation:
    """Scores of a model on an archive, and what they were made from.

    Attributes:
        evaluation: Scores beside chance, oracle and the untrained backbone.
        queries: Vectors and labels.
        root: The archive's folder.
        notes: What a reader must know besides.
    """

    evaluation: Evaluation
    queries: LabelledEmbeddings
    root: Path
    notes: tuple[str, ...]


def evaluate_model(
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
) -> ModelEvaluation:
    """Embed an archive with a model and score it.

    Args:
        model: A folder of `marcir train`; None for ImageNet features.
        dataset: The dataset's name.
        root: Its folder.
        labels: A label table elsewhere.
        part: `train`, `validation`, `test` or `all`. By default the run's test images where this is the
            archive that it was trained on, else all images.
        name: What the model is called; its folder's name by default.
        on_broken: What broken images do.
        variants: Named variants of the columns.
        seed: Of chance and intervals.
    """
    if part not in (None, "all", *PARTS):
        raise ConfigError(f"--part '{part}': unknown. {did_you_mean(str(part), ['all', *PARTS])}")
    archive, _ = open_archive(dataset, root, labels)
    loaded = pretrained_model(archive.paths)[0] if model is None else load_model(model)
    source = open_images(archive, loaded.config.packed_size, on_broken)
    _check_form(loaded, source)
    positions, fitted_on, note = _choose(loaded, source.archive, part)
    archive, notes = source.archive, [note]
    y = archive.labels[positions]
    ids = tuple(archive.ids[position] for position in positions)
    queries = LabelledEmbeddings(
        Embeddings(ids, _embed(loaded, source, positions).numpy()), y, archive.vocabulary
    )
    more: dict[str, Scores] = {}
    if not is_pretrained(loaded.config):  # that one is the untrained backbone
        try:
            untrained = _untrained(loaded, source, fitted_on)
        except MarcirError as error:
            notes.append(f"No row of the untrained backbone: {error}")
        else:
            before = _embed(untrained, source, positions)
            more["untrained"] = retrieval_scores(before, y, ids=ids, per_label=False, variants=variants)
    evaluation = evaluate(
        name or loaded.path.resolve().name,
        queries,
        variants=variants,
        training_counts=_training_counts(loaded, archive),
        more=more,
        seed=seed,
    )
    return ModelEvaluation(evaluation, queries, archive.root, tuple(notes))


def _check_form(model: Model, source: ImageSource) -> None:
    config = model.config
    if (source.bands, str(source.dtype)) != (config.bands, config.dtype):
        raise DataError(
            f"{source.archive.root}: images of {source.bands} bands of {source.dtype}; the model "
            f"{model.path} was trained on {config.bands} bands of {config.dtype}."
        )


def _choose(model: Model, archive: Archive, part: str | None) -> tuple[list[int], list[int], str]:
    """Positions to score, positions that the untrained backbone's statistics are taken from, and a note."""
    everything = list(range(len(archive)))
    same = archive.label_checksum == model.config.label_checksum
    if not same:
        if part not in (None, "all"):
            raise ConfigError(
                f"--part {part}: the model was not trained on this archive, which has no parts. "
                "Use --part all."
            )
        return everything, everything, "All images: this is not the archive that the model was trained on."
    split = Split.load(model.path / "split.json", archive)
    training = split.positions(archive, "train")
    if part == "all":
        return everything, training, "All images, those that the model was trained on among them."
    chosen = part or "test"
    note = f"The {chosen} images of the run's split."
    return split.positions(archive, chosen), training, note


@torch.inference_mode()
def _embed(model: Model, source: ImageSource, positions: Sequence[int]) -> torch.Tensor:
    starts = range(0, len(positions), _BATCH)
    parts = [
        torch.from_numpy(model.embed_batch(source.batch(positions[start : start + _BATCH])))
        for start in track(starts, len(starts), "embedding")
    ]
    return torch.cat(parts)


def _untrained(model: Model, source: ImageSource, positions: Sequence[int]) -> Model:
    """The same backbone before training, with batch-norm statistics that fit the training images."""
    config = model.config
    settings = Config.of(read_yaml(model.path / "config.yaml"))
    with torch.random.fork_rng():
        torch.manual_seed(settings.train.seed)  # the run's own first weights
        backbone = create_backbone(config.backbone, config.bands, config.size, settings.encoder.weights)
    encoder = Encoder(backbone, config.dim, "backbone", config.mean, config.std)
    settle_batch_norm(
        encoder, settings.encoder.weights, positions, lambda part: prepared(source.batch(part), config.size)
    )
    return Model(encoder, config, model.path)


def _training_counts(model: Model, archive: Archive) -> list[int] | None:
    """Training images of the archive's labels; None where the model knows other labels."""
    known = dict(zip(model.config.labels, model.config.training_counts, strict=True))
    if not set(archive.vocabulary.names) <= set(known):
        return None
    return [known[name] for name in archive.vocabulary.names]
