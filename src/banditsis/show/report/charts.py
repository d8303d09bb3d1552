"""The ranked chart of the selected features."""

from __future__ import annotations

import math

import numpy as np

from banditsis.core.arrays import Floats
from banditsis.results.result import ScreeningResult
from banditsis.results.sentences import name_of_associated
from banditsis.show.report import svg
from banditsis.show.report.tables import escape_text, heading, minus

#: Features of the ranked chart; the table has all.
MAX_CHARTED = 25
#: Longest label, which fits a phone.
MAX_LABEL = 24
KEYS = {
    "signal": "",
    "noise": "indistinguishable from noise",
    "unknown": "score",
}


def ranked_chart(result: ScreeningResult) -> str:
    """Scores of the selected features, with 95% intervals if there are any, and the last cutoff."""
    features = result.features.take(slice(MAX_CHARTED))
    if not len(features):
        return ""
    cutoffs = _cutoffs(result)
    limits = np.column_stack([features["low"], features["high"]]) if "low" in features else None
    values = [features["score"], np.array(cutoffs), *([] if limits is None else [limits.ravel()])]
    scale = svg.Scale.covering(np.concatenate(values))
    lines = svg.vertical("zero", scale(0)) + "".join(svg.vertical("cutoff", scale(c)) for c in cutoffs)
    kinds = features.evidence
    rows = []
    for k, (label, kind, score) in enumerate(
        zip(features.labels(MAX_LABEL), kinds, features.scores(3), strict=True)
    ):
        drawn = lines + _draw_score(scale, features["score"][k], None if limits is None else limits[k], kind)
        rows.append(
            f'<tr class="{kind}"><th scope="row" title="{escape_text(features["name"][k])}">'
            f"{escape_text(label)}</th><td>{svg.strip(drawn)}</td><td>{minus(score)}</td></tr>"
        )
    axis = _axis(scale)
    head = heading(["feature", "score" if limits is None else "score and 95% interval", "score"])
    return (
        f'{_legend(result, kinds, cutoffs, limits is not None)}<table class="ranked">{head}'
        f"<tbody>{''.join(rows)}{axis}</tbody></table>"
    )


def _draw_score(scale: svg.Scale, score: float, limits: Floats | None, kind: str) -> str:
    """The mark of a score, on its interval or at the end of a bar."""
    if not math.isfinite(score):
        return ""
    if limits is None:
        return svg.horizontal("bar", scale(0), scale(score)) + svg.mark(kind, scale(score))
    return svg.horizontal("interval", *map(scale, limits)) + svg.mark(kind, scale(score))


def _cutoffs(result: ScreeningResult) -> list[float]:
    """The smallest score that was kept, on both sides of 0 if a selected score is negative."""
    cutoff = result.rounds[-1].cutoff
    if not math.isfinite(cutoff) or len(result.selected) == result.n_features:
        return []
    negative = not result.one_sided and bool((result.scores[result.selected] < 0).any())
    return [cutoff, -cutoff] if negative and cutoff else [cutoff]


def _legend(result: ScreeningResult, kinds: list[str], cutoffs: list[float], has_intervals: bool) -> str:
    keys = KEYS | {"signal": name_of_associated(result)}
    items = [f"{svg.key(kind)}{text}" for kind, text in keys.items() if kind in kinds]
    if has_intervals:
        items.append(
            '<svg class="key" viewBox="0 0 20 14"><path class="interval" d="M1 7h18"/></svg>95% interval'
        )
    if cutoffs:
        line = '<svg class="key" viewBox="0 0 14 14"><path class="cutoff" d="M7 0v14"/></svg>'
        items.append(f"{line}cutoff {cutoffs[0]:.3g}")
    return f'<ul class="legend">{"".join(f"<li>{item}</li>" for item in items)}</ul>'


def _axis(scale: svg.Scale) -> str:
    ticks = "".join(f'<text x="{scale(t)}" y="12">{t:.3g}</text>'.replace("-", "−") for t in scale.ticks())
    return f'<tr class="axis"><th></th><td>{svg.strip(ticks)}</td><td></td></tr>'
