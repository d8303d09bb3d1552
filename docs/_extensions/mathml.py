"""Render formulas as MathML, which browsers show without a script, a font or a network."""

from __future__ import annotations

import re

from docutils import nodes
from latex2mathml.converter import convert


def to_mathml(latex, display):
    """The formula as a <math> element, with its LaTeX source as alternative text."""
    latex = re.sub(r"\s+", " ", latex).strip()
    element = convert(latex, display=display)
    bar = '<mo stretchy="false">&#x0007C;</mo>'  # by default spaced like a relation
    element = element.replace(bar, bar.replace("<mo ", '<mo lspace="0" rspace="0" '))
    label = latex.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return element.replace("<math ", f'<math aria-label="{label}" ', 1)


def visit_math(translator, node):
    translator.body.append(to_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_math_block(translator, node):
    translator.body.append(f'<div class="math">{to_mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
