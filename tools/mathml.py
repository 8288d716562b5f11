"""Formulas of the documentation as MathML, made when the site is built, so that no page needs a script."""

import html
import re

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.postprocessors import Postprocessor

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)

# Spaces as TeX sets them: none around the bars of |y|, a thin one after a function without brackets.
_SPACES = (
    (re.compile(r"<mo>&#x0007C;</mo>"), '<mo lspace="0" rspace="0" stretchy="false">&#x0007C;</mo>'),
    (re.compile(r"(<mi>(?:log|exp)</mi>)(?!<mo stretchy)"), r'\1<mspace width="0.17em"></mspace>'),
)


class FormulasToMathML(Postprocessor):
    """Replaces what `pymdownx.arithmatex` has marked as LaTeX."""

    def run(self, text: str) -> str:
        """The page with MathML in place of LaTeX."""
        return _FORMULA.sub(_mathml, text)


def _mathml(found: re.Match[str]) -> str:
    kind, latex = found.groups()
    display = "block" if kind == "div" else "inline"
    mathml = convert(html.unescape(latex), display=display)
    for pattern, spaced in _SPACES:
        mathml = pattern.sub(spaced, mathml)
    return f'<{kind} class="formula">{mathml}</{kind}>'


class MathMLExtension(Extension):
    """The extension that `zensical.toml` names."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Convert formulas after everything else, raw HTML included, is in place."""
        md.postprocessors.register(FormulasToMathML(md), "formulas_to_mathml", 0)


def makeExtension(**options: object) -> MathMLExtension:
    """What Python-Markdown calls."""
    return MathMLExtension(**options)
