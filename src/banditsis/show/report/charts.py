"""The ranked chart of the selected features, in inline SVG.

Colours are classes of the page's style, so charts follow its light or dark theme. Horizontal positions are
percentages, so charts fit any width while text keeps its size.
"""

from __future__ import annotations

import math

import numpy as np

from banditsis.core.arrays import Array
from banditsis.results.features import Features
from banditsis.results.result import ScreeningResult
from banditsis.show.legend import evidence_labels, find_cutoffs
from banditsis.show.report.tables import MAX_SHOWN, escape_text, heading, minus

#: Longest label, which fits a phone.
MAX_LABEL = 24
#: Marks of features, by what is known about them; shapes differ as well as colours.
MARKS = {
    "signal": '<circle r="4.5"/>',
    "noise": '<path d="M0-5.5 5.5 0 0 5.5-5.5 0z"/>',
    "unknown": '<path d="M-4-4h8v8h-8z"/>',
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
