"""Small pieces of HTML. Every text that goes in is escaped here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from banditsis.describing import known_intervals, shorten
from banditsis.formatting import encodable, format_duration
from banditsis.results import ScreeningResult

# What could end a script element, or be read as something else than JSON inside one.
_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def embed_json(value: Any) -> str:
    r"""JSON that can stand in a script element.

    Examples
    --------
    >>> embed_json(["</script>"])
    '["\\u003c/script\\u003e"]'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return encodable(text.translate(_UNSAFE))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: int = 1) -> str:
    """A table whose first columns are text and the others numbers.

    Examples
    --------
    >>> table(["name", "size"], [["<b>", "1"]])
    '<table><thead><tr><th scope="col">name</th><th scope="col" class="number">size</th></tr></thead>\
<tbody><tr><td>&lt;b&gt;</td><td class="number">1</td></tr></tbody></table>'
    """
    classes = ["" if k < text_columns else ' class="number"' for k in range(len(head))]
    top = "".join(f'<th scope="col"{c}>{plain(cell)}</th>' for cell, c in zip(head, classes, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{c}>{plain(x)}</td>" for x, c in zip(row, classes, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def pairs(items: Iterable[tuple[str, str]]) -> str:
    """A list of terms and what they are."""
    inner = "".join(f"<div><dt>{plain(key)}</dt><dd>{plain(value)}</dd></div>" for key, value in items)
    return f"<dl>{inner}</dl>"


def paragraphs(sentences: Iterable[str]) -> str:
    """A list with a point for each sentence."""
    return "<ul>" + "".join(f"<li>{plain(sentence)}</li>" for sentence in sentences) + "</ul>"


def rounds_table(result: ScreeningResult) -> str:
    """A line for each round."""
    head = ["round", "rows read in all", "features", "kept", "cutoff", "cells read", "time"]
    rows = [
        [
            f"{k}",
            f"{r.n_rows:,}",
            f"{r.n_features:,}",
            f"{r.n_kept:,}",
            f"{r.cutoff:.4f}",
            f"{r.cells:,}",
            format_duration(r.seconds),
        ]
        for k, r in enumerate(result.rounds, 1)
    ]
    return table(head, rows)


def features_table(result: ScreeningResult, most: int, longest: int | None = None) -> str:
    """A line for each of the best features, with names of at most so many signs."""
    intervals = known_intervals(result)
    head = ["feature", "score", *([] if intervals is None else ["95% interval"])]
    rows = []
    for place, feature in enumerate(result.selected[:most]):
        name = result.name(feature)
        row = [name if longest is None else shorten(name, longest), f"{result.scores[feature]:+.4f}"]
        if intervals is not None:
            low, high = intervals[place]
            row.append(f"{low:+.3f}\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}{high:+.3f}")
        rows.append([cell.replace("-", "\N{MINUS SIGN}") if k else cell for k, cell in enumerate(row)])
    return table(head, rows)


def plain(text: str) -> str:
    """Text as HTML shows it; a lone surrogate, which a file cannot hold, is written as an escape."""
    return encodable(escape(text))
