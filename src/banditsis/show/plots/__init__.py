"""Plots of screening results: each function draws on Matplotlib Axes, which it returns."""

from __future__ import annotations

from typing import Any

from banditsis.results.result import ScreeningResult
from banditsis.show.plots.features import MAX_LARGE_NAMES, manhattan, qq, scores
from banditsis.show.plots.runs import funnel, reading_map
from banditsis.show.style import new_axes

__all__ = ["funnel", "manhattan", "plot", "qq", "reading_map", "scores"]


def plot(result: ScreeningResult) -> Any:
    """Plot the best 40 features, and the rounds or all p-values; see :meth:`ScreeningResult.plot`."""
    n_lines = max(len(result.rounds) + 1, min(len(result.selected), MAX_LARGE_NAMES))
    both = new_axes(12, max(3.2, 1.7 + 0.26 * n_lines), ncols=2)
    scores(result, both[0], max_features=MAX_LARGE_NAMES)
    if result.is_exact and result.has_pvalues:
        manhattan(result, both[1]).set_title("")
    else:
        funnel(result, both[1])
    return both
