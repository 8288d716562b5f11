"""Write the report of a results folder: page, tables and figures."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from marcir.errors import DataError
from marcir.experiments.record import COMPARISON, UNKNOWN_LABELS, Results
from marcir.experiments.report.ablation import ablation_table, draw_ablation, study_title
from marcir.experiments.report.archive_figures import draw_archive
from marcir.experiments.report.comparison import brief_table, comparison_table, failures, overall_table
from marcir.experiments.report.comparison_figures import draw_comparison, draw_maps
from marcir.experiments.report.page import Block, Figure, Heading, Sentences, render_page
from marcir.experiments.report.paper import paper_ablation, paper_table
from marcir.experiments.report.runs import Study, group_records
from marcir.experiments.report.significance import METHOD, compare_methods
from marcir.experiments.report.summary import comparison_sentences, runs_table
from marcir.experiments.report.table import Table
from marcir.experiments.report.unknown_labels import unknown_labels_blocks
from marcir.figures.canvas import vector_copies
from marcir.files import atomic_write


@dataclass(frozen=True)
class Report:
    """The written files.

    Attributes:
        page: The HTML file.
        tables: Markdown, LaTeX and CSV files.
        figures: PNG files; each exists as PDF and SVG, too.
        comparisons: The comparison of each dataset, for a terminal.
    """

    page: Path
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]
    comparisons: tuple[Table, ...]

    def __str__(self) -> str:
        shown = [f"{table.title}\n{table.text()}\n" for table in self.comparisons]
        folder = self.page.parent
        return "\n".join(
            [
                *shown,
                f"{self.page}: the whole report in one file",
                f"{folder / 'tables'}: {len(self.tables) // 3} tables as Markdown, LaTeX and CSV",
                f"{folder / 'figures'}: {len(self.figures)} figures as PNG, PDF and SVG",
            ]
        )


def report(results: str | Path, out: str | Path | None = None) -> Report:
    """Write the report of a results folder.

    Args:
        results: A folder of `marcir benchmark` and `marcir ablate`.
        out: Where page, tables and figures go; `report` in the results folder by default.

    Raises:
        DataError: Without records, and where runs of one table have different splits or test labels.
    """
    folder = Results(Path(results))
    out = Path(out) if out is not None else folder.path / "report"
    records = folder.records()
    if not records:
        raise DataError(
            f"{folder.path}: no results. Make some with: marcir benchmark --config PLAN.yaml --results "
            + shlex.quote(str(folder.path))
        )
    found = group_records(records)
    blocks: list[Block] = [Heading("Summary")]
    chapters: list[Block] = []
    for own in found.values():
        with vector_copies():
            short, chapter = _dataset(own, folder, out / "figures")
        blocks += [Heading(own[0].dataset_title, 3), *short]
        chapters += chapter
    compared = [study for own in found.values() for study in own if _compared(study)]
    if overall := overall_table(compared):
        blocks += [Heading("All datasets", 3), overall]
    runs = runs_table([study for own in found.values() for study in own])
    blocks += [Heading("Runs"), runs, *chapters]
    tables = [block for block in blocks if isinstance(block, Table)]
    figures = tuple(block.file for block in blocks if isinstance(block, Figure))
    target = out / "report.html"
    _write(target, render_page("Results of marcir", blocks))
    brief = tuple(brief_table(study) for study in compared)
    return Report(target, tuple(_write_tables(tables, out / "tables")), figures, brief)


def _compared(study: Study) -> bool:
    return study.name == COMPARISON and bool(study.done)


def _dataset(own: list[Study], results: Results, figures: Path) -> tuple[list[Block], list[Block]]:
    """The blocks of the summary, and the chapter."""
    short: list[Block] = []
    chapter: list[Block] = [Heading(own[0].dataset_title)]
    for study in own:
        if study.name == COMPARISON:
            summary, blocks = _comparison(study, results, figures)
            short.append(summary)
            chapter += blocks
    ablations = [study for study in own if study.name != COMPARISON]
    if ablations:
        chapter.append(Heading("Ablations", 3))
        if not short:
            names = ", ".join(study.name for study in ablations)
            short.append(Sentences((f"No comparison; ablations: {names}.",)))
    comparison = next((study for study in own if study.name == COMPARISON), None)
    for study in ablations:
        chapter += _ablation(study, comparison, figures)
    return short, chapter


def _comparison(study: Study, results: Results, figures: Path) -> tuple[Block, list[Block]]:
    compared = compare_methods(study)
    summary = Sentences(tuple(comparison_sentences(study, compared)), listed=True)
    blocks: list[Block] = [Heading("Comparison", 3)]
    if study.done:
        blocks += [comparison_table(study), *draw_comparison(study, figures)]
    else:
        blocks.append(Sentences(tuple(failures(study)), listed=True))
    if compared:
        blocks += [Heading("Statistical significance", 3), Sentences((METHOD,))]
        blocks += [each.table(study) for each in compared]
    if published := paper_table(study):
        blocks += [Heading("Comparison with the paper", 3), published]
    if study.done:
        blocks += [Heading("Embeddings and retrieved images", 3), *draw_maps(study, results, figures)]
        blocks += draw_archive(study, results, figures)
    return summary, blocks


def _ablation(study: Study, comparison: Study | None, figures: Path) -> list[Block]:
    blocks: list[Block] = [Heading(study_title(study.name), 4)]
    if study.done and study.name == UNKNOWN_LABELS:
        blocks += unknown_labels_blocks(study, comparison, figures)
    elif study.done:
        blocks += [ablation_table(study), *draw_ablation(study, figures)]
    else:
        blocks.append(Sentences(tuple(failures(study)), listed=True))
    if published := paper_ablation(study):
        blocks.append(published)
    return blocks


def _write_tables(tables: Iterable[Table], folder: Path) -> Iterable[Path]:
    for table in tables:
        for ending, text in (("md", table.markdown()), ("tex", table.latex()), ("csv", table.csv())):
            path = folder / f"{table.name}.{ending}"
            _write(path, text)
            yield path


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(text, "utf-8")
