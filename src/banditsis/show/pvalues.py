"""P-values as plots show them."""

from __future__ import annotations

import numpy as np

from banditsis.core.arrays import Floats, Indices
from banditsis.results.result import ScreeningResult, varied_log10_pvalues


def minus_log10(log10_pvalues: Floats) -> Floats:
    """-log10 p for plots; where p is 0, a little above the others."""
    finite = log10_pvalues[np.isfinite(log10_pvalues)]
    return -np.where(np.isneginf(log10_pvalues), 1.1 * finite.min(initial=-300.0), log10_pvalues)


def qq_points(result: ScreeningResult, n_points: int) -> tuple[Indices, Floats, Floats]:
    """Ranks, and the expected and observed -log10 p at them: all of the smallest, few of the others."""
    observed = minus_log10(varied_log10_pvalues(result))
    ranks = np.unique(np.rint(np.geomspace(1, max(1, observed.size), n_points)).astype(np.intp))
    ranks = ranks[: observed.size]
    return ranks, -np.log10((ranks - 0.5) / max(1, observed.size)), observed[ranks - 1]
