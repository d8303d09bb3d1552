"""Selected features that look like a mistake: copies of the response, and ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from banditsis.arrays import Indices, are_distinct_integers
from banditsis.results import ScreeningResult
from banditsis.sources.base import Source

LEAKAGE, DISTINCT = "possible leakage", "distinct integers"
#: A feature that correlates more with the response is nearly a copy of it.
MAX_CORRELATION = 0.9999
#: Statistics of which 1 is the largest score.
BOUNDED = ("pearson", "anova", "logistic", "spearman", "kendall")
#: The strongest features are checked for ids, first in few rows, which rule out nearly all others.
MAX_CHECKED, MIN_ROWS, FIRST_ROWS = 20, 30, (16, 1024)


def flag_features(results: Sequence[ScreeningResult], source: Source) -> list[ScreeningResult]:
    """Flag selected features that are nearly a copy of their response, or may hold ids."""
    checked = [] if source.recipe else [result.selected[:MAX_CHECKED] for result in results]
    ids = _find_ids(source, np.array(sorted(set().union(*checked)), np.intp))
    return [_flag(result, ids) for result in results]


def _flag(result: ScreeningResult, ids: set[int]) -> ScreeningResult:
    flags: dict[int, str] = {}
    if result.parameters["statistic"] in BOUNDED:
        copies = np.abs(result.scores[result.selected]) > MAX_CORRELATION
        flags = dict.fromkeys(result.selected[copies].tolist(), LEAKAGE)
    flags |= {k: DISTINCT for k in result.selected[:MAX_CHECKED].tolist() if k in ids and k not in flags}
    return replace(result, flags=flags, notes=(*result.notes, *_describe(result, flags))) if flags else result


def _find_ids(source: Source, features: Indices) -> set[int]:
    """The features that have distinct integers in all rows, among some that are sorted."""
    n, left = source.shape[0], features
    if n < MIN_ROWS:
        return set()
    for n_rows in FIRST_ROWS:
        if left.size:
            block = source.read(slice(0, min(n, n_rows)), left)
            left = left[are_distinct_integers(block)]
    everything = slice(0, n)
    return {int(k) for k in left if are_distinct_integers(source.read(everything, slice(k, k + 1))).all()}


def _describe(result: ScreeningResult, flags: Mapping[int, str]) -> list[str]:
    copies = [result.name(k) for k, flag in flags.items() if flag == LEAKAGE]
    integers = [result.name(k) for k, flag in flags.items() if flag == DISTINCT]
    notes = []
    if copies:
        notes.append(
            f"possible leakage: {_list(copies)} {'is' if len(copies) == 1 else 'are'} nearly a copy of the "
            "response; drop what is not known before the response is."
        )
    if integers:
        has, it = ("has", "it") if len(integers) == 1 else ("have", "them")
        notes.append(
            f"{_list(integers)} {has} a different integer in every row: drop {it} if these are ids or row "
            "numbers."
        )
    return notes


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
