"""Screening results as one self-contained HTML page that needs no network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

import banditsis
from banditsis.core.formatting import write_text
from banditsis.core.validation import pair_rows
from banditsis.formats.opening import open_source
from banditsis.results.result import ScreeningResult
from banditsis.results.several import ScreeningResults
from banditsis.show.report import dataplots, tables, text
from banditsis.show.report.dataplots import Sample

__all__ = ["render", "write_report"]

#: What a page shows of each response, with headings: HTML by functions of the result and of a sample of the
#: data. Sections without content are left out.
SECTIONS: tuple[tuple[str, Callable[[ScreeningResult, Sample | None], str]], ...] = (
    ("The best features and the response", dataplots.plots_against_response),
    ("Correlations among the selected features", dataplots.redundancy),
    ("How they were found", lambda result, _: text.findings(result)),
    ("Settings", lambda result, _: text.settings(result)),
)


def write_report(found: Any, path: str | Path | None, title: str | None, X: Any, y: Any) -> str | None:
    """Write the page to a file, or return it as text; see :meth:`ScreeningResult.to_html`."""
    results = [found] if isinstance(found, ScreeningResult) else list(found)
    y = pair_rows(X, y=y)["y"]
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
    # Text from the data is escaped; in addition, the browser runs no other script than the page's own.
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    several = len(results) > 1
    source = None if X is None else open_source(X)
    ys = [None] * len(results) if responses is None else responses
    articles = []
    for k, (name, result, y) in enumerate(zip(ScreeningResults(results).names, results, ys, strict=True)):
        sample = None if source is None else dataplots.read_sample(result, source, y)
        heading = text.section_heading(name, result) if several else ""
        content = heading + _show(result, sample, max_listed // len(results))
        articles.append(f'<article class="response" id="response-{k}">{content}</article>')
    return Template(_asset("page.html")).substitute(
        policy=policy,
        version=tables.escape_text(banditsis.__version__),
        title=tables.escape_text(text.default_title(results) if title is None else title),
        style=style,
        script=script,
        facts=text.facts(results),
        overview=text.overview(results) if several else "",
        sections="\n".join(articles),
    )


def _show(result: ScreeningResult, sample: Sample | None, max_listed: int) -> str:
    """Everything about one response, the answer first."""
    listed = tables.list_features(result, max_listed)
    features = Template(_asset("features.html")).substitute(
        n_listed=f"{len(listed['columns']['index']):,} of {result.n_features:,}",
        table=tables.features_table(result, tables.MAX_SHOWN, max_length=48),
        data=tables.pack(listed),
    )
    sections = [("Features", features), *((title, show(result, sample)) for title, show in SECTIONS)]
    parts = (f"<section><h2>{title}</h2>{content}</section>" for title, content in sections if content)
    return text.answer(result) + tables.ranked_chart(result) + "\n".join(parts)


def _asset(name: str) -> str:
    return files(__name__).joinpath(name).read_text("utf-8")


def _digest(content: str) -> str:
    """Hash of an inline script or style, as a Content-Security-Policy writes it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
