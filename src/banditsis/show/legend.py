"""What all pictures of features share: names of marks, and cutoffs."""

from __future__ import annotations

import math

from banditsis.results.result import ScreeningResult


def evidence_labels(result: ScreeningResult) -> dict[str, str]:
    """What a legend calls the marks of features, by their :attr:`Features.evidence`."""
    return {
        "signal": "discovery" if "fdr" in result.parameters else "clearly associated",
        "noise": "indistinguishable from noise",
        "unknown": "score",
    }


def find_cutoffs(result: ScreeningResult) -> list[float]:
    """The smallest score that was kept, on both sides of 0 if a selected score is negative."""
    cutoff = result.rounds[-1].cutoff
    if not math.isfinite(cutoff) or len(result.selected) == result.n_features:
        return []
    negative = not result.evidence.one_sided and bool((result.features["score"] < 0).any())
    return [cutoff, -cutoff] if negative and cutoff else [cutoff]
