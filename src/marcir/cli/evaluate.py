"""`marcir evaluate`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from marcir.cli.parser import Parser


def run(parser: Parser, arguments: Sequence[str]) -> None:
    """Parse the arguments, run the command, and print its result."""
    _add_inputs(parser)
    parser.add_argument("--name", help="name of the model (default: the name of its file)")
    parser.add_argument("--json", metavar="OUT", help="write scores, also query by query, for marcir compare")
    parser.add_argument("--markdown", metavar="OUT", help="write the tables")
    parser.add_argument("--figures", metavar="DIR", help="draw curves and labels")
    parser.add_argument("--images", metavar="DIR", help="with --figures: draw what queries find, too")
    parser.add_argument("--query", metavar="ID", action="append", default=[], help="a query to draw (repeat)")
    parser.add_argument("--ideal", default="gallery", help="nDCG's ideal: gallery (default) or retrieved")
    parser.add_argument("--wap", default="any", help="what wAP counts: any (default) or threshold")
    parser.add_argument("--ap", default="sum", help="the Jaccard mAPs: sum (default) or trapezoid")
    parser.add_shared("--seed", help="of chance and intervals (default 0)")
    parser.add_shared("--device", "--batch-size")
    options = parser.parse(arguments)
    _check_inputs(parser, options)
    variants = {"ideal": options.ideal, "wap": options.wap, "ap": options.ap}
    if options.dataset is not None:
        from marcir.training.evaluate import evaluate

        names = (
            "root",
            "labels",
            "unlisted",
            "part",
            "split",
            "name",
            "on_broken",
            "seed",
            "device",
            "batch_size",
        )
        folder = _model_folder(options)  # gives the model a name, too
        given = {name: getattr(options, name) for name in (*names, "allow_incomplete")}
        result = evaluate(folder, options.dataset, variants=variants, **given)
        evaluation, queries, gallery, notes = result.evaluation, result.queries, None, result.notes
        _draw_hits(options, queries, gallery, options.images or (options.query and result.root))
    else:
        from marcir.data.labelled_embeddings import read_queries_and_gallery
        from marcir.training.evaluation import evaluate_embeddings, refuse_incomplete

        queries, gallery = read_queries_and_gallery(
            options.embeddings,
            options.labels,
            options.gallery_embeddings,
            options.gallery_labels,
            options.unlisted,
        )
        if not options.allow_incomplete:
            refuse_incomplete(queries.labels, None if gallery is None else gallery.labels)
        # First, to report a wrong id or folder before the long computation.
        _draw_hits(options, queries, gallery, options.images)
        name = options.name or Path(options.embeddings).stem
        evaluation = evaluate_embeddings(name, queries, gallery, variants=variants, seed=options.seed)
        notes = ()
    if options.json is not None:
        evaluation.save_json(options.json)
    if options.markdown is not None:
        evaluation.save_markdown(options.markdown)
    if options.figures:
        from marcir.training.evaluation_figures import draw_evaluation

        draw_evaluation(evaluation, options.figures)
    print(evaluation, *notes, sep="\n")


def _add_inputs(parser: Parser) -> None:
    """Add the options of what is scored: embeddings of any model, or a model on an archive."""
    parser.add_argument("--embeddings", metavar="NPZ", help="ids and vectors (.npz or .parquet)")
    parser.add_shared("--labels", help="label table; ids are its first column")
    parser.add_shared("--unlisted")
    parser.add_argument(
        "--allow-incomplete",
        action="store_true",
        help="score also where unknown labels leave out most pairs, or leave no ranking better than another",
    )
    parser.add_argument("--gallery-embeddings", metavar="NPZ", help="a gallery other than the queries")
    parser.add_argument("--gallery-labels", metavar="CSV", help="its label table")
    parser.add_shared(
        "--dataset", required=False, help="instead of embeddings: manifest (your own), ucm, scenes ..."
    )
    parser.add_shared("--root", help="with --dataset: the archive's folder")
    parser.add_argument(
        "--model",
        metavar="RUN|STORE",
        help="with --dataset: a folder of marcir train, or the model of a store (default: ImageNet features)",
    )
    parser.add_argument(
        "--part", help="with --model: train, validation, test or all (default: the run's test images)"
    )
    parser.add_argument(
        "--split",
        metavar="JSON",
        help="with --dataset: the parts of this split (default: of the model's run)",
    )
    parser.add_shared("--on-broken", help="with --dataset: refuse broken images or skip them")


def _check_inputs(parser: Parser, options: argparse.Namespace) -> None:
    """Refuse contradictory options."""
    if (options.dataset is None) == (options.embeddings is None):
        parser.error("needs either --embeddings and --labels, or --dataset and perhaps --model")
    if options.embeddings is not None and options.labels is None:
        parser.error("--embeddings needs --labels, their label table")
    if options.dataset is not None and options.gallery_embeddings is not None:
        parser.error("--gallery-embeddings goes with --embeddings, not with --dataset")
    if options.dataset is None and (options.model or options.root or options.part or options.split):
        parser.error("--model, --root, --part and --split go with --dataset")
    if (options.gallery_embeddings is None) != (options.gallery_labels is None):
        parser.error("--gallery-embeddings and --gallery-labels go together")
    if (options.images or options.query) and not options.figures:
        parser.error("--images and --query need --figures, the folder where pictures go")
    if options.query and not options.images and options.dataset is None:
        parser.error("--query needs --images, the folder of the images")


def _model_folder(options: argparse.Namespace) -> str | Path | None:
    """The folder of the model; that of a store is unpacked into the cache, and called after the store."""
    if options.model is None or not _may_be_store(options.model):
        return options.model  # type: ignore[no-any-return]
    from marcir.search.lance import LanceStore
    from marcir.search.stored_model import unpacked_model

    store = LanceStore(options.model)
    name = options.model.rstrip("/").rpartition("/")[2] if "://" in options.model else None
    options.name = options.name or name or Path(options.model).resolve().name
    return unpacked_model(store, options.device).path


def _may_be_store(model: str) -> bool:
    """Whether a model is that of a store, which may be half written: opening it says so.

    Models of runs are in folders, and are scored also where no store can be opened.
    """
    return "://" in model or any(Path(model).glob("*.lance"))


def _draw_hits(options: argparse.Namespace, queries: Any, gallery: Any, images: Any) -> None:
    if images:
        from marcir.training.evaluation_figures import draw_hits

        out = Path(options.figures) / "hits.png"
        draw_hits(queries, gallery, images, out, chosen=options.query, seed=options.seed)
