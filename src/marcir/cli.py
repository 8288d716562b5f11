"""The command line: parse, print, answer; no maths. `marcir --help` imports neither torch nor numpy."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from marcir import __version__
from marcir.errors import MarcirError, did_you_mean
from marcir.files import in_cache


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, with the nearest known name."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with 2."""
        end = "" if message.endswith((".", "?")) else "."
        self.exit(2, f"{self.prog}: {message}{end} Try: {self.prog} --help\n")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse all arguments; what is left over is an error."""
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            options = [option for action in self._actions for option in action.option_strings]
            self.error(f"unknown argument '{unknown[0]}'. {did_you_mean(unknown[0], options)}")
        return parsed


@dataclass(frozen=True)
class Command:
    """A command: what it does, and its options and work; or the commands below it."""

    summary: str
    run: Callable[[Parser, Sequence[str]], int | None] | None = None
    below: "dict[str, Command] | None" = None


def _demo(parser: Parser, arguments: Sequence[str]) -> None:
    parser.add_argument(
        "--out", default="marcir-demo", metavar="DIR", help="where it goes (default marcir-demo)"
    )
    parser.add_argument("--images", type=int, default=1000, help="scenes of the archive (default 1000)")
    parser.add_argument("--epochs", type=int, default=20, help="of training, for each loss (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="fixes everything (default 0)")
    parser.add_argument("--serve", action="store_true", help="then start the page")
    options = parser.parse(arguments)
    from marcir.experiments.demo import demo

    made = demo(options.out, options.images, options.epochs, options.seed)
    print(made)
    if options.serve:
        from marcir.serve.run import serve
        from marcir.serve.settings import Settings

        serve(Settings(str(made.store), made.images))


def _add_archive(parser: Parser) -> None:
    """The options that name an archive, spelled the same in every command."""
    parser.add_argument(
        "--dataset", required=True, metavar="NAME", help="manifest (your own), ucm, scenes ..."
    )
    parser.add_argument("--root", metavar="DIR", help="the archive's folder (scenes has one of its own)")
    parser.add_argument("--labels", metavar="CSV", help="a label table elsewhere than in the folder")


def _add_on_broken(parser: Parser) -> None:
    parser.add_argument(
        "--on-broken",
        default="error",
        choices=["error", "skip"],
        help="refuse broken images or skip them",
    )


def _say_skipped(broken: dict[str, str]) -> None:
    for problem in broken.values():
        print(f"skipped {problem}", file=sys.stderr)


def _inspect(parser: Parser, arguments: Sequence[str]) -> None:
    _add_archive(parser)
    parser.add_argument("--heat-map", metavar="PNG", help="draw which labels occur together")
    parser.add_argument(
        "--on-broken", default="list", choices=["list", "skip"], help="skip: count without broken images"
    )
    options = parser.parse(arguments)
    from marcir.experiments.inspect import inspect

    inspect(**vars(options), report=print)


def _split(parser: Parser, arguments: Sequence[str]) -> None:
    _add_archive(parser)
    parser.add_argument("--out", required=True, metavar="JSON", help="where the split goes")
    parser.add_argument("--seed", type=int, default=0, help="fixes the draw (default 0)")
    parser.add_argument("--method", default="random", help="random (default) or stratified")
    _add_on_broken(parser)
    options = parser.parse(arguments)
    from marcir.experiments.inspect import split

    drawn, broken = split(**vars(options))
    _say_skipped(broken)
    print(f"{options.out}: {drawn}")


def _show(parser: Parser, arguments: Sequence[str]) -> None:
    _add_archive(parser)
    parser.add_argument(
        "--out", default="samples.png", metavar="PNG", help="the picture (default samples.png)"
    )
    parser.add_argument("--images", type=int, default=6, help="images to show (default 6)")
    parser.add_argument("--views", type=int, default=5, help="augmented versions of each (default 5)")
    parser.add_argument("--size", type=int, default=128, help="side of the augmented images (default 128)")
    parser.add_argument("--seed", type=int, default=0, help="fixes which images and how (default 0)")
    _add_on_broken(parser)
    options = parser.parse(arguments)
    from marcir.experiments.inspect import show

    broken = show(**vars(options))
    _say_skipped(broken)
    print(options.out)


def _scenes(parser: Parser, arguments: Sequence[str]) -> None:
    parser.add_argument("--out", required=True, metavar="DIR", help="a new or empty folder")
    parser.add_argument("--images", type=int, default=2000, help="how many (default 2000)")
    parser.add_argument("--size", type=int, default=64, help="side in pixels (default 64)")
    parser.add_argument("--seed", type=int, default=0, help="fixes every pixel (default 0)")
    options = parser.parse(arguments)
    from marcir.scenes.writing import write_scenes

    write_scenes(Path(options.out), options.images, options.size, options.seed)
    print(f"{options.out}: {options.images} scenes of {options.size} x {options.size} pixels, labels.csv")


def _train(parser: Parser, arguments: Sequence[str]) -> None:
    from marcir.config import loss_name, read_config

    if {"-h", "--help"} & set(arguments) and not any(each.startswith("--loss.name") for each in arguments):
        read_config(["--help"], None)  # without the options of any loss, torch need not be imported
    from marcir.catalog import loss_options

    config = read_config(arguments, loss_options(loss_name(arguments)))
    from marcir.training.train import train

    scores = train(config)
    if scores is not None:
        print(scores)
        print(f"\n{config.folder}: model.safetensors, config.json, metrics.json, history.csv, README.md")


def _embed(parser: Parser, arguments: Sequence[str]) -> None:
    parser.add_argument(
        "--model", metavar="RUN", help="a folder of marcir train (default: ImageNet features)"
    )
    parser.add_argument("--images", required=True, metavar="DIR", help="images anywhere below this folder")
    parser.add_argument("--out", required=True, metavar="NPZ", help="where ids and vectors go")
    parser.add_argument(
        "--on-broken", default="error", choices=["error", "skip"], help="what broken images do"
    )
    options = parser.parse(arguments)
    from marcir.model.embed import embed_folder

    made, broken = embed_folder(options.model, options.images, options.out, options.on_broken)
    for problem in broken.values():
        print(f"skipped {problem}", file=sys.stderr)
    print(f"{options.out}: {len(made.ids):,} vectors of {made.vectors.shape[1]} numbers")


def _info(parser: Parser, arguments: Sequence[str]) -> None:
    parser.add_argument(
        "what", metavar="RUN|STORE", help="a folder of marcir train, or a store of marcir index"
    )
    options = parser.parse(arguments)
    if "://" in options.what or any(Path(options.what).glob("*.lance")):
        from marcir.search.store_info import store_info

        print(store_info(options.what))
    else:
        from marcir.model.info import info

        print(info(options.what))


def _index(parser: Parser, arguments: Sequence[str]) -> int:
    parser.add_argument(
        "--model",
        metavar="RUN",
        help="a folder of marcir train (default: the store's own; for a new store, ImageNet features)",
    )
    parser.add_argument("--images", required=True, metavar="DIR", help="images anywhere below this folder")
    parser.add_argument("--store", required=True, metavar="URI", help="a folder, or s3://bucket/path")
    parser.add_argument("--labels", metavar="CSV", help="label table; paths are relative to --images")
    parser.add_argument(
        "--metadata", metavar="CSV", help="path, west, south, east, north, date, anything else"
    )
    parser.add_argument("--prune", action="store_true", help="remove images whose files are gone")
    parser.add_argument(
        "--root-moved", action="store_true", help="the images of the store lie in this folder now"
    )
    parser.add_argument(
        "--check-recall", action="store_true", help="build an approximate index and measure its recall"
    )
    options = parser.parse(arguments)
    from marcir.search.index import index

    done = index(
        options.model,
        options.images,
        options.store,
        options.labels,
        options.metadata,
        options.prune,
        options.root_moved,
    )
    print(done)
    if options.check_recall:
        from marcir.search.store_info import check_recall

        print(check_recall(options.store))
    return 1 if done.broken else 0


def _search(parser: Parser, arguments: Sequence[str]) -> None:
    parser.add_argument("--store", required=True, metavar="URI", help="a store of marcir index")
    parser.add_argument("--image", metavar="FILE", help="find images like this file")
    parser.add_argument("--id", metavar="ID", help="find images like this one of the archive")
    for name, text in (
        ("like", "an example, a file or an id (repeat)"),
        ("unlike", "a counter-example, a file or an id (repeat)"),
        ("by-labels", "find what images with this label look like (repeat)"),
        ("any", "only images with one of these labels (repeat)"),
        ("all", "only images with all of these labels (repeat)"),
        ("none", "only images without these labels (repeat)"),
    ):
        parser.add_argument(
            f"--{name}", metavar="ID" if "like" in name else "LABEL", action="append", help=text
        )
    parser.add_argument(
        "--labels-from", metavar="URI", help="with --by-labels: a labelled store of one model"
    )
    parser.add_argument("--k", type=int, default=10, help="how many (default 10)")
    parser.add_argument("--min-similarity", type=float, help="least cosine with the query, -1 to 1")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--sheet", metavar="FILE", help="draw query and first 100 hits (.png, .pdf, .svg)")
    options = parser.parse(arguments)
    ways = [options.image, options.id, options.like, options.by_labels]
    if sum(way is not None for way in ways) != 1:
        parser.error("needs exactly one of --image, --id, --like and --by-labels")
    if options.unlike and not options.like:
        parser.error("--unlike goes with --like")
    if options.labels_from and not options.by_labels:
        parser.error("--labels-from goes with --by-labels")
    if options.sheet is not None and Path(options.sheet).suffix.lower() not in (".png", ".pdf", ".svg"):
        parser.error(f"--sheet {options.sheet}: use a name that ends in .png, .pdf or .svg")
    asked_with = (options.image, *(options.like or ()), *(options.unlike or ()))
    if options.sheet is not None and any(_is_same_file(options.sheet, file) for file in asked_with):
        parser.error(f"--sheet {options.sheet}: this is an image of the query. Use another name")
    from marcir.search.queries import open_store
    from marcir.search.records import Filter

    where = Filter(
        tuple(options.any or ()), tuple(options.all or ()), tuple(options.none or ()), options.min_similarity
    )
    archive = open_store(options.store)
    if options.image is not None:
        answer = archive.by_image(Path(options.image), options.k, where)
    elif options.id is not None:
        answer = archive.by_id(options.id, options.k, where)
    elif options.like is not None:
        answer = archive.by_examples(options.like, options.unlike or (), options.k, where)
    else:
        source = open_store(options.labels_from) if options.labels_from else None
        answer = archive.by_labels(options.by_labels, options.k, where, source)
    if options.sheet is not None:
        from marcir.search.sheet import draw_answer

        draw_answer(
            archive,
            answer,
            options.sheet,
            image=options.image,
            query=options.id,
            like=options.like or (),
            unlike=options.unlike or (),
        )
    if options.json:
        import json

        print(json.dumps(answer.as_json(), ensure_ascii=False, indent=1))
    else:
        print(answer)
    if options.sheet is not None:
        print(f"{options.sheet}: the hits as a picture", file=sys.stderr if options.json else sys.stdout)


def _is_same_file(first: str, second: str | None) -> bool:
    """Whether two paths are one file that is there."""
    return second is not None and Path(second).is_file() and Path(first).resolve() == Path(second).resolve()


def _serve(parser: Parser, arguments: Sequence[str]) -> None:
    parser.add_argument("--store", required=True, metavar="URI", help="a store of marcir index")
    parser.add_argument("--images", metavar="DIR", help="the folder that was indexed, to show its files")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default: this machine alone)")
    parser.add_argument("--port", type=int, default=8000, help="default 8000; 0: any that is free")
    parser.add_argument("--token", help="what requests must show; better in $MARCIR_TOKEN")
    parser.add_argument("--no-auth", action="store_true", help="let everybody in who can reach it")
    options = parser.parse(arguments)
    from marcir.serve.run import serve
    from marcir.serve.settings import Settings, token_from_environment

    token = token_from_environment() if options.token is None else options.token
    images = None if options.images is None else Path(options.images)
    serve(Settings(options.store, images, options.host, options.port, token, options.no_auth))


def _export(parser: Parser, arguments: Sequence[str]) -> None:
    parser.add_argument("--model", required=True, metavar="RUN", help="a folder of marcir train")
    parser.add_argument("--onnx", required=True, metavar="OUT", help="where the ONNX file goes")
    options = parser.parse(arguments)
    from marcir.model.export import export_onnx

    worst = export_onnx(options.model, options.onnx)
    print(f"{options.onnx}: agrees with the model to {worst:.1e} for batches of 1, 2 and 5")


def _evaluate(parser: Parser, arguments: Sequence[str]) -> None:
    _add_evaluated(parser)
    parser.add_argument("--name", help="what the model is called (default: the name of its file)")
    parser.add_argument("--json", metavar="OUT", help="write scores, also query by query, for marcir compare")
    parser.add_argument("--markdown", metavar="OUT", help="write the tables")
    parser.add_argument("--figures", metavar="DIR", help="draw curves and labels")
    parser.add_argument("--images", metavar="DIR", help="with --figures: draw what queries find, too")
    parser.add_argument("--query", metavar="ID", action="append", default=[], help="a query to draw (repeat)")
    parser.add_argument("--ideal", default="gallery", help="nDCG's ideal: gallery (default) or retrieved")
    parser.add_argument("--wap", default="any", help="what wAP counts: any (default) or threshold")
    parser.add_argument("--ap", default="sum", help="the Jaccard mAPs: sum (default) or trapezoid")
    parser.add_argument("--seed", type=int, default=0, help="of chance and intervals (default 0)")
    options = parser.parse(arguments)
    _check_evaluated(parser, options)
    variants = {"ideal": options.ideal, "wap": options.wap, "ap": options.ap}
    if options.dataset is not None:
        from marcir.training.evaluate_model import evaluate_model

        found = evaluate_model(
            options.model,
            options.dataset,
            options.root,
            options.labels,
            part=options.part,
            name=options.name,
            on_broken=options.on_broken,
            variants=variants,
            seed=options.seed,
        )
        done, queries, gallery, notes = found.evaluation, found.queries, None, found.notes
        _draw_hits(options, queries, gallery, options.images or (options.query and found.root))
    else:
        from marcir.data.labelled import read_judged
        from marcir.training.evaluation import evaluate

        queries, gallery = read_judged(
            options.embeddings, options.labels, options.gallery_embeddings, options.gallery_labels
        )
        # First: a wrong id or folder is told before the long work.
        _draw_hits(options, queries, gallery, options.images)
        name = options.name or Path(options.embeddings).stem
        done, notes = evaluate(name, queries, gallery, variants=variants, seed=options.seed), ()
    if options.json is not None:
        done.save_json(options.json)
    if options.markdown is not None:
        done.save_markdown(options.markdown)
    if options.figures:
        from marcir.training.evaluation_figures import draw_evaluation

        draw_evaluation(done, options.figures)
    print(done, *notes, sep="\n")


def _add_evaluated(parser: Parser) -> None:
    """What is scored: embeddings of any model, or a model of ours on an archive."""
    parser.add_argument("--embeddings", metavar="NPZ", help="ids and vectors (.npz or .parquet)")
    parser.add_argument("--labels", metavar="CSV", help="label table; ids are its first column")
    parser.add_argument("--gallery-embeddings", metavar="NPZ", help="a gallery other than the queries")
    parser.add_argument("--gallery-labels", metavar="CSV", help="its label table")
    parser.add_argument(
        "--dataset", metavar="NAME", help="instead of embeddings: manifest (your own), ucm, scenes ..."
    )
    parser.add_argument("--root", metavar="DIR", help="with --dataset: the archive's folder")
    parser.add_argument(
        "--model", metavar="RUN", help="with --dataset: a folder of marcir train (default: ImageNet features)"
    )
    parser.add_argument(
        "--part", help="with --model: train, validation, test or all (default: the run's test images)"
    )
    parser.add_argument(
        "--on-broken",
        default="error",
        choices=["error", "skip"],
        help="with --dataset: what broken images do",
    )


def _check_evaluated(parser: Parser, options: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if (options.dataset is None) == (options.embeddings is None):
        parser.error("needs either --embeddings and --labels, or --dataset and perhaps --model")
    if options.embeddings is not None and options.labels is None:
        parser.error("--embeddings needs --labels, the table that judges them")
    if options.dataset is not None and options.gallery_embeddings is not None:
        parser.error("--gallery-embeddings goes with --embeddings, not with --dataset")
    if options.dataset is None and (options.model or options.root or options.part):
        parser.error("--model, --root and --part go with --dataset")
    if (options.gallery_embeddings is None) != (options.gallery_labels is None):
        parser.error("--gallery-embeddings and --gallery-labels go together")
    if (options.images or options.query) and not options.figures:
        parser.error("--images and --query need --figures, the folder where pictures go")
    if options.query and not options.images and options.dataset is None:
        parser.error("--query needs --images, the folder of the images")


def _draw_hits(options: argparse.Namespace, queries: Any, gallery: Any, images: Any) -> None:
    if images:
        from marcir.training.evaluation_figures import draw_hits

        out = Path(options.figures) / "hits.png"
        draw_hits(queries, gallery, images, out, chosen=options.query, seed=options.seed)


def _compare(parser: Parser, arguments: Sequence[str]) -> None:
    parser.add_argument("first", metavar="A.json", help="what marcir evaluate --json wrote")
    parser.add_argument("second", metavar="B.json", help="the same of the other model")
    parser.add_argument("--json", metavar="OUT", help="write the comparison")
    parser.add_argument("--seed", type=int, default=0, help="of the resampling (default 0)")
    options = parser.parse(arguments)
    from marcir.experiments.compare import compare

    done = compare(options.first, options.second, options.seed)
    if options.json is not None:
        done.save_json(options.json)
    print(done)


def _report(parser: Parser, arguments: Sequence[str]) -> None:
    parser.add_argument("--results", required=True, metavar="DIR", help="a folder of marcir benchmark")
    parser.add_argument("--out", metavar="DIR", help="where the report goes (default: DIR/report)")
    options = parser.parse(arguments)
    from marcir.experiments.report.report import report

    print(report(options.results, options.out))


def _add_plan(parser: Parser) -> None:
    """The options that benchmark and ablate share."""
    parser.add_argument("--config", required=True, metavar="YAML", help="the plan, see docs/benchmark.md")
    parser.add_argument("--results", required=True, metavar="DIR", help="one record a run; done runs stay")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default 1)")


def _benchmark(parser: Parser, arguments: Sequence[str]) -> int:
    _add_plan(parser)
    options = parser.parse(arguments)
    from marcir.experiments.benchmark import benchmark

    done = benchmark(options.config, options.results, options.jobs)
    print(done)
    return 1 if done.failed else 0


def _ablate(parser: Parser, arguments: Sequence[str]) -> int:
    _add_plan(parser)
    parser.add_argument(
        "--study", metavar="NAME", action="append", default=[], help="a study (repeat); all by default"
    )
    parser.add_argument("--list", action="store_true", help="list the studies, and nothing else")
    if "--list" in arguments:
        from marcir.experiments.studies import STUDIES

        print("\n".join(f"{name:18}{study.question}" for name, study in STUDIES.items()))
        return 0
    options = parser.parse(arguments)
    from marcir.experiments.ablate import ablate

    done = ablate(options.config, options.study, options.results, options.jobs)
    print(done)
    return 1 if done.failed else 0


COMMANDS = {
    "demo": Command("generate an archive, train, compare, report, index and search it", _demo),
    "data": Command(
        "look at an archive, split it, generate one",
        below={
            "inspect": Command("count labels, label sets and broken images", _inspect),
            "split": Command("draw training, validation and test parts", _split),
            "show": Command("draw images beside their augmented versions", _show),
            "scenes": Command("generate an archive of aerial-like scenes", _scenes),
        },
    ),
    "train": Command("train an encoder on a labelled archive, or go on with it", _train),
    "embed": Command("turn the images of a folder into vectors", _embed),
    "evaluate": Command("score embeddings against labels, beside chance and ceiling", _evaluate),
    "compare": Command("compare two models query by query", _compare),
    "report": Command("turn the records of a results folder into tables, figures and a page", _report),
    "benchmark": Command("compare losses x datasets x seeds, or go on with it", _benchmark),
    "ablate": Command("perform ablation studies by name, or go on with them", _ablate),
    "index": Command("embed an archive into a store, or follow its changes", _index),
    "search": Command("find images in a store", _search),
    "serve": Command("answer searches over HTTP, with a page for browsers", _serve),
    "info": Command("show what a model or a store holds", _info),
    "export": Command("write a model as ONNX", _export),
}


def _choose(name: str, summary: str, commands: dict[str, Command], given: Sequence[str]) -> int:
    """Run the command that is named, or say which there are; 0, or the code of what it could not do."""
    parser = Parser(
        prog=name,
        description=summary,
        epilog="commands:\n"
        + "\n".join(f"  {each:12}{command.summary}" for each, command in commands.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"marcir {__version__}")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of the commands below")
    if not given or given[0].startswith("-"):
        parser.parse(given)
        parser.print_help()
        return 0
    chosen = commands.get(given[0])
    if chosen is None:
        parser.error(f"unknown command '{given[0]}'. {did_you_mean(given[0], commands)}")
    elif chosen.below is not None:
        return _choose(f"{name} {given[0]}", _sentence(chosen.summary), chosen.below, given[1:])
    elif chosen.run is not None:
        below = Parser(prog=f"{name} {given[0]}", description=_sentence(chosen.summary), allow_abbrev=False)
        return chosen.run(below, given[1:]) or 0
    return 0


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it worked, 2 for what the user can mend, 130 when it was interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    about = "Search remote-sensing image archives by content, learned from multi-label data."
    try:
        return _choose("marcir", about, COMMANDS, given)
    except MarcirError as error:
        print(f"marcir: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read our output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        advice = ""
        if error.filename is not None and in_cache(error.filename):
            advice = " Set MARCIR_CACHE to a folder that can be written."
        print(f"marcir: {error.filename or 'a file'}: {error.strerror or error}.{advice}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("marcir: stopped.", file=sys.stderr)
        return 130
