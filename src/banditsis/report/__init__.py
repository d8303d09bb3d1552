"""A result as one HTML file that needs nothing else: no network, no other scripts, no fonts.

Everything that comes from data is escaped, and a Content-Security-Policy with the hashes of the page's own
script and style lets a browser run nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from string import Template

import banditsis
from banditsis.describing import shows_better_in_logs
from banditsis.report import figures, words
from banditsis.report.features import MAX_LISTED, list_features
from banditsis.report.markup import embed_json, features_table, pairs, paragraphs, plain, rounds_table
from banditsis.results import ScreeningResult

__all__ = ["render"]


def render(result: ScreeningResult, title: str, most: int = MAX_LISTED) -> str:
    """The page as text; see :meth:`ScreeningResult.to_html`.

    Parameters
    ----------
    result : ScreeningResult
        What to show.
    title : str
        Heading of the page.
    most : int
        How many features to list at most, in the order of their rank.
    """
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    listed = list_features(result, most)
    return Template(_asset("page.html")).substitute(
        policy=policy,
        version=plain(banditsis.__version__),
        title=plain(title),
        style=style,
        script=script,
        summary=plain(words.summary(result)),
        key_numbers=pairs(words.key_numbers(result)),
        asked=pairs(words.what_was_asked(result)),
        listed=plain(words.what_is_listed(result, listed)),
        fallback=features_table(result, 20, longest=120),
        how_sure=paragraphs(words.how_sure(result)),
        funnel=figures.funnel(result),
        reading_map=figures.reading_map(result),
        map_scale=", log scale" if shows_better_in_logs(result) else "",
        rounds=rounds_table(result),
        parameters=pairs(words.settings(result)),
        code=words.how_to_repeat(result),
        data=embed_json(listed),
    )


@cache
def _asset(name: str) -> str:
    return files(__name__).joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    """What a Content-Security-Policy calls a text by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
