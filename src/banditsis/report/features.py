"""The features of a result as columns of plain data, for the table of a report."""

from __future__ import annotations

from typing import Any

import numpy as np

from banditsis.arrays import Array, Indices
from banditsis.describing import known_intervals
from banditsis.results import ScreeningResult

MAX_LISTED = 100_000
#: Above this many features only the selected ones are listed: ranking all would take long.
MAX_RANKED = 10_000_000


def list_features(result: ScreeningResult, most: int) -> dict[str, Any]:
    """Columns of the features in the order of their rank, selected ones first; None stands for unknown."""
    chosen = _in_order(result, most)
    selected = min(len(result.selected), len(chosen))
    intervals = known_intervals(result)
    last = result.last_round[chosen].tolist()
    low, high = (None, None) if intervals is None else intervals[:selected].T
    return {
        "selected": selected,
        "index": chosen.tolist(),
        "name": [result.name(k) for k in chosen],
        "score": _plain(result.scores[chosen]),
        "low": None if low is None else _plain(low),
        "high": None if high is None else _plain(high),
        "log10p": known_pvalues(result, chosen),
        "rows": [result.rounds[k].n_rows for k in last],
        "round": [k + 1 for k in last],
    }


def known_pvalues(result: ScreeningResult, chosen: Indices) -> list[float | None] | None:
    """Decimal logarithms of the p-values of some features, or None for a result without."""
    tested: Any = result
    return _plain(tested.log10_pvalues[chosen]) if tested.has_pvalues else None


def _in_order(result: ScreeningResult, most: int) -> Indices:
    """The best features. Those that a stored result does not know the score of are left out."""
    rest = np.empty(0, dtype=np.intp)
    if len(result.selected) < most and result.n_features <= MAX_RANKED:
        order = np.argsort(result.ranking)[len(result.selected) : most]
        rest = order[~np.isnan(result.scores[order])]
    return np.concatenate([result.selected[:most], rest]).astype(np.intp)


def _plain(values: Array) -> list[float | None]:
    """Six digits, which keep the file small; None for what is not finite."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]
