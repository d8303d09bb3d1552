"""HTML tables and lists, the chart of the best features, and all features as data for the page's script.

All text is escaped here. Charts are inline SVG: the page's style, light or dark, sets the colours, and
horizontal positions are percentages, so charts fit any width.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.core.formatting import printable
from banditsis.results import LEAKAGE, ScreeningResult, describe_features, rank_features, to_lists

#: Longest label, which fits a phone.
MAX_LABEL = 24
#: Marks of features, by what is known about them, in a table and a chart; shapes differ as well as colours.
WORD_MARKS = {"signal": "● ", "unclear": "◇ ", "unknown": "", "leak": "▲ "}
MARKS = {
    "signal": '<circle r="4.5"/>',
    "unclear": '<path d="M0-5.5 5.5 0 0 5.5-5.5 0z"/>',
    "unknown": '<path d="M-4-4h8v8h-8z"/>',
    "leak": '<path d="M0-6 5.5 4.5h-11z"/>',
}


def pack_features(result: ScreeningResult, max_listed: int) -> tuple[int, str]:
    """The number of features that are listed, and their table as data for the page's script.

    It is JSON, compressed, in base64: small, and without characters that could end an element.
    """
    n_selected = len(result.selected)
    rest = np.argsort(rank_features(result))[n_selected:max_listed]
    rest = rest[~np.isnan(result.scores[rest])]  # some scores are not known
    features = describe_features(result, np.concatenate([result.selected[:max_listed], rest]))
    selected = features.take(slice(n_selected))
    columns = to_lists(features.columns)
    for name, values in columns.items():
        # Few digits keep the page small; two of a p-value of 1e-5000 need more of its logarithm.
        digits = 8 if "log10" in name else 6
        columns[name] = [float(f"{x:.{digits}g}") if isinstance(x, float) else x for x in values]
    data = {
        "selected": len(selected),
        "words": selected.words,
        "evidence": selected.evidence,
        "one_sided": features.one_sided,
        "columns": columns,
    }
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return len(features), base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def features_table(result: ScreeningResult, max_features: int) -> str:
    """A table of the best features."""
    features = result.features.take(slice(max_features))
    columns = {"feature": features.labels(48)}
    columns |= {name: list(map(minus, cells)) for name, cells in features.texts().items()}
    if "evidence" in columns:
        marks = zip(features.evidence, columns["evidence"], strict=True)
        columns["evidence"] = [WORD_MARKS[kind] + word for kind, word in marks]
    return table(list(columns), zip(*columns.values(), strict=True))


def minus(text: str) -> str:
    """A number as text with the sign that typography has for it."""
    return text.replace("-", "\N{MINUS SIGN}")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ("".join(f"<td>{escape_text(cell)}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table>{heading(head)}<tbody>{body}</tbody></table>"


def heading(names: Sequence[str]) -> str:
    cells = "".join(f'<th scope="col">{escape_text(name)}</th>' for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


def definition_list(items: Iterable[tuple[str, Any]]) -> str:
    """Pairs of a term and its value."""
    escaped = ((escape_text(str(key)), escape_text(str(value))) for key, value in items)
    return f"<dl>{''.join(f'<div><dt>{key}</dt><dd>{value}</dd></div>' for key, value in escaped)}</dl>"


def bullet_list(sentences: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape_text(sentence)}</li>' for sentence in sentences)}</ul>"


def escape_text(text: str) -> str:
    """Text escaped for HTML; characters that are not printable become escape sequences."""
    return escape(printable(text))


def evidence_labels(result: ScreeningResult) -> dict[str, str]:
    """What a legend calls the marks of features, by their :attr:`Features.evidence`."""
    found = "discovery" if "fdr" in result.parameters else "clearly associated"
    return {"signal": found, "unclear": "unclear", "unknown": "score", "leak": LEAKAGE}


def find_cutoffs(result: ScreeningResult) -> list[float]:
    """The smallest score that was kept, on both sides of 0 if a selected score is negative."""
    cutoff = result.rounds[-1].cutoff
    if not math.isfinite(cutoff) or len(result.selected) == result.n_features:
        return []
    negative = not result.evidence.one_sided and bool((result.features["score"] < 0).any())
    return [cutoff, -cutoff] if negative and cutoff else [cutoff]


def ranked_chart(result: ScreeningResult, max_features: int) -> str:
    """Scores of the best features, with 95% intervals if there are any, and the last cutoff."""
    features, cutoffs = result.features.take(slice(max_features)), find_cutoffs(result)
    if not len(features):
        return ""
    scores, has_intervals = features["score"], "low" in features
    starts, ends = (features["low"], features["high"]) if has_intervals else (np.zeros(len(scores)), scores)
    scale = Scale(np.concatenate([scores, starts, ends, cutoffs]))
    lines = f'<line class="zero" x1="{scale(0)}" x2="{scale(0)}" y1="0" y2="100%"/>'
    for cutoff in cutoffs:
        lines += f'<line class="cutoff" x1="{scale(cutoff)}" x2="{scale(cutoff)}" y1="0" y2="100%"/>'
    rows, line = [], "interval" if has_intervals else "bar"
    labels, texts, kinds = features.labels(MAX_LABEL), features.scores(3), features.evidence
    for k, kind in enumerate(kinds):
        mark = (
            f'<line class="{line}" x1="{scale(starts[k])}" x2="{scale(ends[k])}" y1="50%" y2="50%"/>'
            f'<svg class="mark {kind}" x="{scale(scores[k])}" y="50%">{MARKS[kind]}</svg>'
        )
        strip = _strip(lines + (mark if math.isfinite(scores[k]) else ""))
        rows.append(
            f'<tr class="{kind}"><th scope="row" title="{escape_text(features["name"][k])}">'
            f"{escape_text(labels[k])}</th><td>{strip}</td><td>{minus(texts[k])}</td></tr>"
        )
    ticks = "".join(f'<text x="{scale(t)}" y="12">{minus(f"{t:.3g}")}</text>' for t in scale.ticks())
    head = heading(["feature", "score and 95% interval" if has_intervals else "score", "score"])
    return (
        f"{_legend(evidence_labels(result), kinds, has_intervals, cutoffs)}"
        f'<table class="ranked">{head}<tbody>{"".join(rows)}'
        f'<tr class="axis"><th></th><td>{_strip(ticks)}</td><td></td></tr></tbody></table>'
    )


def _strip(content: str) -> str:
    """A strip of the chart, as wide as its cell."""
    return f'<svg class="strip" aria-hidden="true">{content}</svg>'


def _legend(labels: dict[str, str], kinds: list[str], has_intervals: bool, cutoffs: list[float]) -> str:
    items = [
        f'<svg class="key mark {kind}" viewBox="-7 -7 14 14" aria-hidden="true">{MARKS[kind]}</svg>{text}'
        for kind, text in labels.items()
        if kind in kinds
    ]
    if has_intervals:
        line = '<svg class="key" viewBox="0 0 20 14"><path class="interval" d="M1 7h18"/></svg>'
        items.append(f"{line}95% interval")
    if cutoffs:
        line = '<svg class="key" viewBox="0 0 14 14"><path class="cutoff" d="M7 0v14"/></svg>'
        items.append(f"{line}cutoff {cutoffs[0]:.3g}")
    return f'<ul class="legend">{"".join(f"<li>{item}</li>" for item in items)}</ul>'


class Scale:
    """A linear scale from values to positions in percent, with room for marks at both ends; it includes 0."""

    def __init__(self, values: Array) -> None:
        finite = np.append(values[np.isfinite(values)], 0.0)
        self.low, self.high = float(finite.min()), float(finite.max())
        if self.low == self.high:
            self.high += 1.0

    def __call__(self, value: float) -> str:
        return f"{3 + 94 * (value - self.low) / (self.high - self.low):.2f}%"

    def ticks(self) -> list[float]:
        """About five round values."""
        raw = (self.high - self.low) / 5
        unit = 10.0 ** math.floor(math.log10(raw))
        step = unit * next(factor for factor in (1, 2, 5, 10) if raw <= factor * unit * 1.0001)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]
