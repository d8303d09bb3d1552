"""Screening results as one self-contained HTML page that needs no network.

All text from the data is escaped. In addition, a Content-Security-Policy with the hashes of the page's own
script and style keeps the browser from running anything else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

import banditsis
from banditsis.core.alignment import align_rows
from banditsis.core.formatting import ROUND_HEADS, round_rows, write_text
from banditsis.formats.opening import open_source
from banditsis.results.result import ScreeningResult
from banditsis.results.sentences import describe_answer, sentence
from banditsis.results.several import ScreeningResults
from banditsis.show.report import charts, dataplots, overview, tables, text
from banditsis.show.report.samples import read_sample
from banditsis.show.report.tables import bullet_list, definition_list, escape_text
from banditsis.sources.base import Source

__all__ = ["render", "write_report"]


def write_report(
    results: Sequence[ScreeningResult], path: str | Path | None, title: str | None, X: Any, y: Any
) -> str | None:
    """Write the page to a file, or return it as text; see :meth:`ScreeningResult.to_html`."""
    y = align_rows(X, y=y)[0]["y"]
    if y is not None:
        y = [y] if len(results) == 1 else list(np.asarray(y).T)
    page = render(results, title, X, y)
    if path is None:
        return page
    write_text(Path(path), page)
    return None


def render(
    results: Sequence[ScreeningResult],
    title: str | None = None,
    X: Any = None,
    responses: Sequence[Any] | None = None,
    *,
    max_listed: int = tables.MAX_LISTED,
) -> str:
    """The page as text, with the values of each response, and a limit for the features in all tables."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    several = len(results) > 1
    source = None if X is None else open_source(X)
    ys = [None] * len(results) if responses is None else responses
    names, each = ScreeningResults(results).names, max_listed // len(results)
    sections = [
        _section(result, source, y, each, k, overview.section_heading(name) if several else "")
        for k, (name, result, y) in enumerate(zip(names, results, ys, strict=True))
    ]
    return Template(_asset("page.html")).substitute(
        policy=policy,
        version=escape_text(banditsis.__version__),
        title=escape_text(text.default_title(results) if title is None else title),
        style=style,
        script=script,
        facts=definition_list(text.facts(results)),
        overview=overview.overview(results) if several else "",
        sections="".join(sections),
    )


def _section(
    result: ScreeningResult, source: Source | None, y: Any, max_listed: int, number: int, heading: str
) -> str:
    """Everything about one response, the answer first."""
    sample = None if source is None else read_sample(result, source, y)
    listed = tables.list_features(result, max_listed)
    return Template(_asset("response.html")).substitute(
        number=number,
        heading=heading,
        answer=escape_text(sentence(describe_answer(result))),
        cost=escape_text(text.cost(result, several=bool(heading))),
        warnings="".join(f'<p class="warning">{escape_text(line)}</p>' for line in text.warnings(result)),
        chart=charts.ranked_chart(result),
        n_listed=f"{len(listed['columns']['index']):,} of {result.n_features:,}",
        fallback=tables.features_table(result, charts.MAX_CHARTED, max_length=48),
        data=tables.pack(listed),
        against=_part(
            "The best features and the response",
            "" if sample is None else dataplots.plots_against_response(result, sample),
        ),
        redundancy=_part(
            "Correlations among the selected features",
            dataplots.redundancy(result, sample),
        ),
        pvalues=_part("Q–Q plot of all p-values", dataplots.qq_plot(result)),
        rounds=tables.table(ROUND_HEADS, round_rows(result.rounds)),
        reliability=bullet_list(text.reliability(result)),
        settings=definition_list(text.settings(result)),
        command=f"<p>The command:</p><pre><code>{escape_text(result.about.command)}</code></pre>"
        if result.about.command
        else "",
    )


def _part(title: str, content: str) -> str:
    """A part of the page with a heading; nothing if it has no content."""
    return f"<section><h2>{title}</h2>{content}</section>" if content else ""


def _asset(name: str) -> str:
    return files(__name__).joinpath(name).read_text("utf-8")


def _digest(content: str) -> str:
    """Hash of an inline script or style, as a Content-Security-Policy writes it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
