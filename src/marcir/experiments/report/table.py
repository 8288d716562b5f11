"""A table whose numbers are kept beside their texts, and the four ways to write it."""

import csv
import html
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from marcir.experiments.report.runs import Spread
from marcir.text_tables import aligned, markdown, percent

Mark = Literal["", "best", "second", "chosen"]


@dataclass(frozen=True)
class Cell:
    """What stands in one place.

    Attributes:
        text: As it is read.
        value: The number behind it, for CSV.
        sd: Its standard deviation.
        mark: What is special about it.
    """

    text: str
    value: float | None = None
    sd: float | None = None
    mark: Mark = ""


@dataclass(frozen=True)
class Line:
    """A row of cells, and the heading it stands under."""

    cells: tuple[Cell, ...]
    group: str = ""


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        name: The name of its files, without an ending.
        title: What stands over it.
        columns: The header.
        lines: The rows, those of one group together.
        notes: What a reader must know.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """For a terminal: **best**, _second_."""
        rows = [list(self.columns), *([_plain(cell) for cell in line.cells] for line in self.lines)]
        rows[0][1:] = [f"{name}  " for name in rows[0][1:]]  # over the digits, beside the room of marks
        return "\n".join(line.rstrip() for line in aligned(rows).splitlines())

    def markdown(self) -> str:
        """Title, table and notes."""
        rows = [list(self.columns)]
        for heading, line in self._with_headings():
            if heading:
                rows.append([f"*{_markdown(heading)}*", *[""] * (len(self.columns) - 1)])
            rows.append([_starred(cell) for cell in line.cells])
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
            body.append(" & ".join(_tex_cell(cell) for cell in line.cells) + r" \\")
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
        """Numbers with more digits; spreads and marks in columns of their own."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        parts = [self._parts(place) for place in range(len(self.columns))]
        grouped = any(line.group for line in self.lines)
        names = [
            f"{name} {part}".strip() for name, of in zip(self.columns, parts, strict=True) for part in of
        ]
        writer.writerow([*(["group"] if grouped else []), *names])
        for line in self.lines:
            values = [
                _csv_value(cell, part) for cell, of in zip(line.cells, parts, strict=True) for part in of
            ]
            writer.writerow([*([line.group] if grouped else []), *values])
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
            first, *rest = map(_html_cell, line.cells)
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
        """Every row, and the heading that comes before it, if one does."""
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


def score_cell(of: Spread, mark: Mark = "") -> Cell:
    """A share of 1, shown in percent.

    >>> score_cell(Spread(0.8314, 0.004, 3), "best").text
    '83.1 ± 0.4'
    """
    if math.isnan(of.mean):
        return Cell("-", mark=mark)
    text = percent(of.mean) + ("" if of.sd is None else f" ± {percent(of.sd)}")
    return Cell(text, 100 * of.mean, None if of.sd is None else 100 * of.sd, mark)


def number_cell(value: float | None, digits: int = 1) -> Cell:
    """A number as it is."""
    if value is None or math.isnan(value):
        return Cell("-")
    return Cell(f"{value:,.{digits}f}", value)


def _plain(cell: Cell) -> str:
    around = {"best": "**{}**", "second": " _{}_ ", "chosen": "{} *"}
    return around.get(cell.mark, "{}  ").format(cell.text)


def _markdown(text: str) -> str:
    """Text in which Markdown sees no marks, links, formulas or HTML."""
    return re.sub(r"([\\`*_<\[\]$~])", r"\\\1", text)


def _starred(cell: Cell) -> str:
    around = {"best": "**{}**", "second": "_{}_", "chosen": "{} (chosen)"}
    return around.get(cell.mark, "{}").format(_markdown(cell.text))


def _tex(text: str) -> str:
    special = {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
        "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
        "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
        "[": "{[}", "*": "{*}",  # at the start of a line they would belong to the \\ before it
    }  # fmt: skip
    return "".join(special.get(letter, letter) for letter in text)


def _tex_cell(cell: Cell) -> str:
    around = {"best": r"\textbf{%s}", "second": r"\underline{%s}", "chosen": r"%s (chosen)"}
    return around.get(cell.mark, "%s") % _tex(cell.text)


def _csv_value(cell: Cell, part: str) -> str:
    if part == "mark":
        return cell.mark
    number = cell.sd if part == "sd" else cell.value
    if number is not None:
        return f"{number:.6f}".rstrip("0").rstrip(".")
    return "" if part == "sd" or cell.text == "-" else cell.text


def _html_cell(cell: Cell) -> str:
    text = html.escape(cell.text)
    around = {
        "best": "<strong>{}</strong>",
        "second": "<u>{}</u>",
        "chosen": '{} <span class="chosen">chosen</span>',
    }
    return around.get(cell.mark, "{}").format(text)
