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

from banditsis.core.arrays import Array, Indices
from banditsis.core.formatting import printable
from banditsis.results import Features, ScreeningResult, describe_features, rank_features, to_lists
from banditsis.show.style import evidence_labels, find_cutoffs

#: Maximum number of features in the tables of a report, of all responses together.
MAX_LISTED = 100_000
#: Features that are shown without the page's script.
MAX_SHOWN = 25
#: Marks of what is known about a selected feature.
WORD_MARKS = {"signal": "● ", "unclear": "◇ ", "unknown": "", "leak": "▲ "}


def list_features(result: ScreeningResult, max_listed: int) -> dict[str, Any]:
    """The table of features by rank, selected ones first, as data for the page's script."""
    features = describe_features(result, _features_by_rank(result, max_listed))
    selected = features.take(slice(len(result.selected)))
    return {
        "selected": len(selected),
        "words": selected.words,
        "evidence": selected.evidence,
        "one_sided": result.evidence.one_sided,
        # Two digits of a p-value of 1e-5000 need more digits of its logarithm.
        "columns": {
            name: [_rounded(value, 8 if "log10" in name else 6) for value in values]
            for name, values in to_lists(features.columns).items()
        },
    }


def _features_by_rank(result: ScreeningResult, max_listed: int) -> Indices:
    """The best features. Features whose score was not stored are left out."""
    n_selected = len(result.selected)
    if n_selected >= max_listed:
        return result.selected[:max_listed]
    rest = np.argsort(rank_features(result))[n_selected:max_listed]
    return np.concatenate([result.selected, rest[~np.isnan(result.scores[rest])]])


def _rounded(value: Any, digits: int) -> Any:
    """A value for JSON; few digits keep the page small."""
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def pack(value: Any) -> str:
    """JSON, compressed, in base64: small, and without characters that could end an element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def features_table(result: ScreeningResult, max_features: int, max_length: int) -> str:
    """A table of the best features, with labels of at most ``max_length`` characters."""
    features = result.features.take(slice(max_features))
    columns = {"feature": features.labels(max_length)}
    columns |= {heading: list(map(minus, cells)) for heading, cells in features.texts().items()}
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
    pairs = (f"<div><dt>{key}</dt><dd>{value}</dd></div>" for key, value in escaped)
    return f"<dl>{''.join(pairs)}</dl>"


def bullet_list(sentences: Iterable[str]) -> str:
    """A list with an item per sentence."""
    return f"<ul>{''.join(f'<li>{escape_text(sentence)}</li>' for sentence in sentences)}</ul>"


def escape_text(text: str) -> str:
    """Text escaped for HTML; characters that are not printable become escape sequences."""
    return escape(printable(text))


#: Longest label, which fits a phone.
MAX_LABEL = 24
#: Marks of features, by what is known about them; shapes differ as well as colours.
MARKS = {
    "signal": '<circle r="4.5"/>',
    "unclear": '<path d="M0-5.5 5.5 0 0 5.5-5.5 0z"/>',
    "unknown": '<path d="M-4-4h8v8h-8z"/>',
    "leak": '<path d="M0-6 5.5 4.5h-11z"/>',
}


def ranked_chart(result: ScreeningResult) -> str:
    """Scores of the selected features, with 95% intervals if there are any, and the last cutoff."""
    features, cutoffs = result.features.take(slice(MAX_SHOWN)), find_cutoffs(result)
    if not len(features):
        return ""
    known = [features[name] for name in ("score", "low", "high") if name in features]
    scale = Scale(np.concatenate([*known, cutoffs]))
    lines = _vertical("zero", scale(0)) + "".join(_vertical("cutoff", scale(c)) for c in cutoffs)
    rows = []
    labels, scores = features.labels(MAX_LABEL), features.scores(3)
    for k, kind in enumerate(features.evidence):
        strip = _strip(lines + _draw_score(features, k, scale))
        rows.append(
            f'<tr class="{kind}"><th scope="row" title="{escape_text(features["name"][k])}">'
            f"{escape_text(labels[k])}</th><td>{strip}</td><td>{minus(scores[k])}</td></tr>"
        )
    ticks = "".join(f'<text x="{scale(t)}" y="12">{minus(f"{t:.3g}")}</text>' for t in scale.ticks())
    head = heading(["feature", "score and 95% interval" if "low" in features else "score", "score"])
    return (
        f'{_legend(result, features, cutoffs)}<table class="ranked">{head}<tbody>{"".join(rows)}'
        f'<tr class="axis"><th></th><td>{_strip(ticks)}</td><td></td></tr></tbody></table>'
    )


def _draw_score(features: Features, k: int, scale: Scale) -> str:
    """The mark of a score, on its interval or at the end of a bar; nothing for NaN."""
    score, kind = features["score"][k], features.evidence[k]
    if not math.isfinite(score):
        return ""
    has_interval = "low" in features
    line = "interval" if has_interval else "bar"
    start, end = (features["low"][k], features["high"][k]) if has_interval else (0.0, score)
    return (
        f'<line class="{line}" x1="{scale(start)}" x2="{scale(end)}" y1="50%" y2="50%"/>'
        f'<svg class="mark {kind}" x="{scale(score)}" y="50%">{MARKS[kind]}</svg>'
    )


def _legend(result: ScreeningResult, features: Features, cutoffs: list[float]) -> str:
    items = [
        f'<svg class="key mark {kind}" viewBox="-7 -7 14 14" aria-hidden="true">{MARKS[kind]}</svg>{text}'
        for kind, text in evidence_labels(result).items()
        if kind in features.evidence
    ]
    if "low" in features:
        line = '<svg class="key" viewBox="0 0 20 14"><path class="interval" d="M1 7h18"/></svg>'
        items.append(f"{line}95% interval")
    if cutoffs:
        line = '<svg class="key" viewBox="0 0 14 14"><path class="cutoff" d="M7 0v14"/></svg>'
        items.append(f"{line}cutoff {cutoffs[0]:.3g}")
    return f'<ul class="legend">{"".join(f"<li>{item}</li>" for item in items)}</ul>'


def _vertical(kind: str, at: str) -> str:
    return f'<line class="{kind}" x1="{at}" x2="{at}" y1="0" y2="100%"/>'


def _strip(content: str) -> str:
    """A strip of the chart, as wide as its cell."""
    return f'<svg class="strip" aria-hidden="true">{content}</svg>'


class Scale:
    """A linear scale from values to positions in percent, with room for marks at both ends; it includes 0."""

    def __init__(self, values: Array) -> None:
        finite = np.append(values[np.isfinite(values)], 0.0)
        self.low, self.high = float(finite.min()), float(finite.max())
        if self.low == self.high:
            self.high += 1.0

    def __call__(self, value: float) -> str:
        return f"{3 + 94 * (value - self.low) / (self.high - self.low):.2f}%"

    def ticks(self, n: int = 5) -> list[float]:
        """About n round values."""
        raw = (self.high - self.low) / n
        unit = 10.0 ** math.floor(math.log10(raw))
        step = unit * next(factor for factor in (1, 2, 5, 10) if raw <= factor * unit * 1.0001)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]
