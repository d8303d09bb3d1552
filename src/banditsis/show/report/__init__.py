"""Screening results as one self-contained HTML page that needs no network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import banditsis
from banditsis.core.formatting import write_text
from banditsis.results import ScreeningResult, ScreeningResults
from banditsis.show.report import tables, text

__all__ = ["render", "write_report"]


def write_report(found: Any, path: str | Path | None, title: str | None) -> str | None:
    """Write the page to a file, or return it as text; see :meth:`ScreeningResult.to_html`."""
    page = render([found] if isinstance(found, ScreeningResult) else list(found), title)
    if path is None:
        return page
    write_text(Path(path), page)
    return None


def render(
    results: Sequence[ScreeningResult], title: str | None = None, max_listed: int = tables.MAX_LISTED
) -> str:
    """The page as text, with a limit for the features in all tables."""
    style, script = _asset("page.css"), _asset("page.js")
    # Text from the data is escaped; in addition, the browser runs no other script than the page's own.
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    several = len(results) > 1
    articles = []
    for k, (name, result) in enumerate(zip(ScreeningResults(results).names, results, strict=True)):
        heading = text.section_heading(name, result) if several else ""
        content = heading + _show(result, max_listed // len(results))
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


def _show(result: ScreeningResult, max_listed: int) -> str:
    """Everything about one response, the answer first."""
    listed = tables.list_features(result, max_listed)
    features = Template(_asset("features.html")).substitute(
        n_listed=f"{len(listed['columns']['index']):,} of {result.n_features:,}",
        table=tables.features_table(result, tables.MAX_SHOWN, max_length=48),
        data=tables.pack(listed),
    )
    sections = {
        "Features": features,
        "Redundant features": text.redundancy(result),
        "How they were found": text.findings(result),
        "Settings": text.settings(result),
    }
    parts = (
        f"<section><h2>{title}</h2>{content}</section>" for title, content in sections.items() if content
    )
    return text.answer(result) + tables.ranked_chart(result) + "\n".join(parts)


def _asset(name: str) -> str:
    return files(__name__).joinpath(name).read_text("utf-8")


def _digest(content: str) -> str:
    """Hash of an inline script or style, as a Content-Security-Policy writes it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
