"""Features that look like a mistake: those that may be made from the response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, spread
from banditsis.engine.runs import Run
from banditsis.results import LEAKAGE, ScreeningResult, selection_mask, strength_of
from banditsis.sources.base import Source
from banditsis.statistics.base import MIN_PRESENT

#: A feature that correlates more with the response is nearly a copy of it.
MAX_CORRELATION = 0.9999
#: Far above all others: |r| of at least 0.9, and 1 more than the next in Fisher's z, a factor of e² in
#: (1 + r) / (1 - r). Next to 0.9 this is 0.44, and next to 0.99 it is 0.93.
HIGH, GAP = 0.9, 1.0
#: A feature with this AUC separates two classes; if others have the second, the classes are that different.
SEPARATES, NEARLY = 0.999, 0.95
#: Statistics of which 1 is the largest score.
BOUNDED = ("pearson", "anova", "logistic", "spearman", "kendall")
#: The strongest features are checked, if the scores are from enough rows.
MAX_CHECKED, MIN_ROWS = 20, 30
#: Rows of each class that are read first, rows in which they are searched, and rows that decide.
OF_EACH_CLASS, SEARCHED, MAX_ROWS = 64, (4096, 1 << 16), 1 << 17


def flag_features(run: Run, results: Sequence[ScreeningResult]) -> list[ScreeningResult]:
    """Flag selected features that may be leaked from their response, if it is a single column."""
    source, y, flagged = run.source, run.statistic.y, []
    for k, result in enumerate(results):
        leaks = dict[int, str]()
        if len(results) == y.shape[1] and not source.recipe:
            leaks |= dict.fromkeys(_find_separating(result, source, y[:, k]), "separates the two classes")
        if result.parameters["statistic"] in BOUNDED:
            copies = result.selected[np.abs(result.scores[result.selected]) > MAX_CORRELATION]
            leaks |= dict.fromkeys(_find_far_above(result), "|r| far above all others")
            leaks |= dict.fromkeys(copies.tolist(), "nearly a copy of the response")
        if leaks:
            reasons = dict.fromkeys(leaks.values())
            why = [f"{_name(result, [k for k in leaks if leaks[k] == r])} ({r})" for r in reasons]
            note = f"{LEAKAGE}: {', '.join(why)}; drop columns known only after the response."
            flags = dict.fromkeys(sorted(leaks), LEAKAGE)
            result = replace(result, flags=flags, notes=(note, *result.notes))
        flagged.append(result)
    return flagged


def _name(result: ScreeningResult, features: Sequence[int]) -> str:
    """The names of some features, or of the first of many."""
    more = f" and {len(features) - 5:,} more" if len(features) > 5 else ""
    return ", ".join(repr(result.name(k)) for k in features[:5]) + more


def _find_far_above(result: ScreeningResult) -> list[int]:
    """Selected features whose scores are far above those of all others."""
    n_top, size = min(MAX_CHECKED, result.n_features // 2), np.abs(result.scores)
    few = result.rounds[-1].n_rows < MIN_ROWS or n_top == 0
    if few or size[result.selected].max(initial=0.0) < HIGH:  # as nearly always
        return []
    top = -np.sort(-np.partition(np.nan_to_num(size), -n_top - 1)[-n_top - 1 :])
    z = np.arctanh(np.minimum(top, MAX_CORRELATION))
    far = top[:-1][(z[:-1] - z[1:] >= GAP) & (top[:-1] >= HIGH)]
    return [k for k in result.selected.tolist() if size[k] >= far.min(initial=np.inf)]


def _find_separating(result: ScreeningResult, source: Source, y: Array) -> list[int]:
    """The strongest features that separate the two classes of a response, if no other nearly does."""
    rows, chosen = _first_of_each_class(y), result.selected[:MAX_CHECKED]
    if rows is None or chosen.size == 0:
        return []
    if _separation(source.read(rows, np.sort(chosen)), y[rows]).max() < NEARLY:  # as nearly always
        return []
    strength = np.where(selection_mask(result), -np.inf, np.nan_to_num(strength_of(result)))
    others = np.argsort(-strength, kind="stable")[: min(MAX_CHECKED, strength.size) - chosen.size]
    features, rows = np.sort(np.append(chosen, others)), spread(slice(0, len(y)), MAX_ROWS)
    if len(np.unique(y[rows])) != 2:
        return []
    found = _separation(source.read(rows, features), y[rows])
    separates = found >= SEPARATES
    if found[~separates].max(initial=1.0 if separates.all() else 0.0) >= NEARLY:
        return []
    return [int(feature) for feature in features[separates] if feature in chosen]


def _first_of_each_class(y: Array) -> Indices | None:
    """The first rows of each of two classes, which lie close together if classes are mixed; else None."""
    for size in SEARCHED:
        rows = np.arange(min(size, len(y))) if size == SEARCHED[0] else spread(slice(0, len(y)), size)
        labels, counts = np.unique(y[rows], return_counts=True)
        if len(labels) > 2:
            return None
        if len(labels) == 2 and counts.min() >= MIN_PRESENT:
            return np.sort(np.concatenate([rows[y[rows] == label][:OF_EACH_CLASS] for label in labels]))
    return None


def _separation(block: Array, y: Array) -> Floats:
    """AUC of each column for two classes, or 1 minus it if that is larger; 0.5 if few rows are known."""
    is_first, found = y == y[0], np.full(block.shape[1], 0.5)
    for j, x in enumerate(block.T):
        first, second = (part[np.isfinite(part)] for part in (x[is_first], x[~is_first]))
        if min(len(first), len(second)) >= MIN_PRESENT:
            first = np.sort(first)
            below = first.searchsorted(second) + first.searchsorted(second, "right")  # ties count half
            area = float(below.mean()) / (2 * len(first))
            found[j] = max(area, 1 - area)
    return found
