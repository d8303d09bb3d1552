"""A screening result as one self-contained HTML page that needs no network.

All text from the data is escaped. In addition, a Content-Security-Policy with the hashes of the page's own
script and style keeps the browser from running anything else.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable
from importlib.resources import files
from string import Template
from typing import Any

import banditsis
from banditsis import plotting
from banditsis.report import tables, text
from banditsis.report.tables import definition_list, escape_text
from banditsis.results import ScreeningResult

__all__ = ["render"]

NO_CHARTS = "To add charts to this report, install Matplotlib: pip install 'banditsis[plots]'"
# Text stays text, which keeps the page small; a fixed salt makes the SVG reproducible.
SVG_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "banditsis",
    "font.sans-serif": ["DejaVu Sans", "Verdana"],
    "axes.facecolor": "none",
    "figure.dpi": 144,
}


def render(result: ScreeningResult, title: str, max_listed: int = tables.MAX_LISTED) -> str:
    """Return the page as text, with at most ``max_listed`` features; see :meth:`ScreeningResult.to_html`."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    listed = tables.list_features(result, max_listed)
    return Template(_asset("page.html")).substitute(
        policy=policy,
        version=escape_text(banditsis.__version__),
        title=escape_text(title),
        style=style,
        script=script,
        key_numbers=definition_list(text.key_numbers(result)),
        setup=definition_list(text.setup(result)),
        n_listed=f"{len(listed['index']):,} of {result.n_features:,}",
        fallback=tables.features_table(result, 20, max_length=120),
        reliability=tables.bullet_list(text.reliability(result)),
        charts=_charts(result),
        rounds=tables.rounds_table(result),
        provenance=definition_list({**result.parameters, **result.versions}.items()),
        code=text.code_to_reproduce(result),
        data=tables.embed_json(listed),
    )


def _charts(result: ScreeningResult) -> str:
    """The funnel and the reading map, or how to get them if Matplotlib is not installed."""
    height = 1.3 + 0.27 * (len(result.rounds) + 1)
    try:
        funnel = _figure("Features kept and rows read after each round", plotting.funnel, result, height)
        what = "Cells read, coloured by the last |score| of each feature"
        return funnel + _figure(what, plotting.reading_map, result, 3.4)
    except ImportError:
        return f"<p>{escape_text(NO_CHARTS)}</p>"


def _figure(caption: str, draw: Callable[..., Any], result: ScreeningResult, height: float) -> str:
    """A plot without its title as an image, drawn with Matplotlib's default settings."""
    import matplotlib.style
    from matplotlib.figure import Figure

    svg = io.BytesIO()
    with matplotlib.style.context(["default", SVG_SETTINGS]):
        figure = Figure(figsize=(4.6, height), layout="constrained")
        draw(result, figure.subplots()).set_title("")
        figure.savefig(svg, format="svg", facecolor="none", metadata={"Date": None})
    source = f"data:image/svg+xml;base64,{base64.b64encode(svg.getvalue()).decode()}"
    image = f'<img class="chart" alt="Chart of the rounds in the table below" src="{source}">'
    return f"<figure><figcaption>{caption}</figcaption>{image}</figure>"


def _asset(name: str) -> str:
    return files(__name__).joinpath(name).read_text("utf-8")


def _digest(content: str) -> str:
    """Hash of an inline script or style, as a Content-Security-Policy writes it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
