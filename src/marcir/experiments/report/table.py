"""Tables as plain text, Markdown, LaTeX, CSV and HTML."""

import csv
import html
import io
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from marcir.experiments.report.runs import Spread
from marcir.text_tables import aligned, markdown, percent

Mark = Literal["", "best", "second", "chosen"]
_MARKS: dict[str, dict[Mark, str]] = {
    "text": {"": "%s  ", "best": "**%s**", "second": " _%s_ ", "chosen": "%s *"},
    "markdown": {"": "%s", "best": "**%s**", "second": "_%s_", "chosen": "%s (chosen)"},
    "latex": {"": "%s", "best": r"\textbf{%s}", "second": r"\underline{%s}", "chosen": "%s (chosen)"},
    "html": {
        "": "%s",
        "best": "<strong>%s</strong>",
        "second": "<u>%s</u>",
        "chosen": '%s <span class="chosen">chosen</span>',
    },
}


@dataclass(frozen=True)
class Cell:
    """A cell.

    Attributes:
        text: The displayed text.
        value: The number, for CSV.
        sd: Its standard deviation.
        mark: How it is highlighted.
    """

    text: str
    value: float | None = None
    sd: float | None = None
    mark: Mark = ""


@dataclass(frozen=True)
class Line:
    """A row of cells, and the heading of its group."""

    cells: tuple[Cell, ...]
    group: str = ""


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        name: The name of its files, without an ending.
        title: The caption.
        columns: The header.
        lines: The rows, those of one group together.
        notes: Sentences below the table.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """For a terminal: **best**, _second_."""
        rows = [list(self.columns), *([_marked(cell, "text") for cell in line.cells] for line in self.lines)]
        rows[0][1:] = [f"{name}  " for name in rows[0][1:]]  # aligned with the digits, not with the marks
        return "\n".join(line.rstrip() for line in aligned(rows).splitlines())

    def markdown(self) -> str:
        """Title, table and notes."""
        rows = [list(self.columns)]
        for heading, line in self._with_headings():
            if heading:
                rows.append([f"*{_markdown(heading)}*", *[""] * (len(self.columns) - 1)])
            rows.append([_marked(cell, "markdown", _markdown) for cell in line.cells])
        notes = [_markdown(" ".join(note.split())) for note in self.notes]
        return "\n\n".join([f"### {_markdown(self.title)}", markdown(rows), *notes]) + "\n"

    def latex(self) -> str:
        """A booktabs tabular."""
        body = []
        for heading, line in self._with_headings():
            if heading:
                body.append(
                    rf"\midrule\multicolumn{{{len(self.columns)}}}{{l}}{{\emph{{{_tex(heading)}}}}} \\"
                )
            body.append(" & ".join(_marked(cell, "latex", _tex) for cell in line.cells) + r" \\")
        if body and not self.lines[0].group:
            body.insert(0, r"\midrule")
        notes = [
            f"% {' '.join(note.split())}"
            for note in (self.title, *self.notes, r"needs \usepackage{booktabs}")
        ]
        head = " & ".join(map(_tex, self.columns)) + r" \\"
        begin = rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}"
        lines = [*notes, begin, r"\toprule", head, *body, r"\bottomrule", r"\end{tabular}"]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """Numbers with more digits; standard deviations and marks in their own columns."""
        columns = [(place, part) for place in range(len(self.columns)) for part in self._parts(place)]
        rows = [["group", *(f"{self.columns[place]} {part}".strip() for place, part in columns)]]
        for line in self.lines:
            rows.append([line.group, *(_csv_value(line.cells[place], part) for place, part in columns)])
        grouped = any(line.group for line in self.lines)
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(row if grouped else row[1:] for row in rows)
        return out.getvalue()

    def html(self) -> str:
        """A <figure> with the table and its notes."""
        looks = [' class="text"' if self._is_text(place) else "" for place in range(len(self.columns))]
        head = "".join(
            f'<th scope="col"{look}>{html.escape(name).replace("@", "<wbr>@")}</th>'
            for name, look in zip(self.columns, looks, strict=True)
        )
        rows = []
        for heading, line in self._with_headings():
            if heading:
                span = f'<th class="group" scope="rowgroup" colspan="{len(self.columns)}">'
                rows.append(f"<tr>{span}<span>{html.escape(heading)}</span></th></tr>")
            first, *rest = (_marked(cell, "html", html.escape) for cell in line.cells)
            cells = "".join(f"<td{look}>{cell}</td>" for cell, look in zip(rest, looks[1:], strict=True))
            rows.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return (
            f'<figure class="table" id="{html.escape(self.name)}"><figcaption>{html.escape(self.title)}'
            '</figcaption><div class="scroll" tabindex="0" role="region" '
            f'aria-label="{html.escape(self.title)}"><table><thead><tr>{head}</tr></thead>'
            f'<tbody>\n{chr(10).join(rows)}\n</tbody></table></div><div class="notes">{notes}</div></figure>'
        )

    def _with_headings(self) -> Iterator[tuple[str, Line]]:
        """Every row, and the heading before it, if any."""
        last = ""
        for line in self.lines:
            yield (line.group if line.group != last else ""), line
            last = line.group

    def _is_text(self, place: int) -> bool:
        return all(line.cells[place].value is None for line in self.lines)

    def _parts(self, place: int) -> list[str]:
        cells = [line.cells[place] for line in self.lines]
        spread = any(cell.sd is not None for cell in cells)
        return ["", *(["sd"] if spread else []), *(["mark"] if any(cell.mark for cell in cells) else [])]


def score_cell(score: Spread, mark: Mark = "") -> Cell:
    """A score in 0..1, shown in percent.

    >>> score_cell(Spread(0.8314, 0.004, 3), "best").text
    '83.1 ± 0.4'
    """
    if math.isnan(score.mean):
        return Cell("-", mark=mark)
    if score.sd is None:
        return Cell(percent(score.mean), 100 * score.mean, None, mark)
    return Cell(f"{percent(score.mean)} ± {percent(score.sd)}", 100 * score.mean, 100 * score.sd, mark)


def number_cell(value: float | None, digits: int = 1) -> Cell:
    """A number with thousands separators."""
    if value is None or math.isnan(value):
        return Cell("-")
    return Cell(f"{value:,.{digits}f}", value)


def _marked(cell: Cell, markup: str, escape: Callable[[str], str] = str) -> str:
    return _MARKS[markup][cell.mark] % escape(cell.text)


def _markdown(text: str) -> str:
    """Escape the special characters of Markdown."""
    return re.sub(r"([\\`*_<\[\]$~])", r"\\\1", text)


def _tex(text: str) -> str:
    special = {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
        "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
        "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
        "[": "{[}", "*": "{*}",  # at the start of a line they would belong to the \\ before it
    }  # fmt: skip
    return "".join(special.get(letter, letter) for letter in text)


def _csv_value(cell: Cell, part: str) -> str:
    if part == "mark":
        return cell.mark
    number = cell.sd if part == "sd" else cell.value
    if number is not None:
        return f"{number:.6f}".rstrip("0").rstrip(".")
    return "" if part == "sd" or cell.text == "-" else cell.text
