"""A check of small p-values by a second reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, Rows, as_indices, count_rows
from banditsis.core.formatting import count, were
from banditsis.core.parallel import map_in_threads
from banditsis.core.progress import clock
from banditsis.results import ScreeningResult
from banditsis.sources.base import Source
from banditsis.statistics.base import Statistic
from banditsis.statistics.linear import normal_responses
from banditsis.statistics.null_distributions import CorrectedNull, NormalNull, NullDistribution
from banditsis.statistics.saddlepoint import TailTest

#: Every feature that a selection at this false discovery rate or a lower one can return is checked,
MAX_FDR = 0.1
#: and every feature with a smaller p-value, or about as many of the features without association.
MIN_LEVEL, MAX_LEVEL, N_FEATURES = 0.001, 0.05, 20
#: Unless p-values are requested, so many are checked at most: a check takes longer than screening a feature.
MAX_CHECKED = 1000
BYTES_AT_ONCE = 1 << 26
#: Cells of a thread: others wait for each other between short operations.
CELLS_OF_THREAD = 1 << 20


def correct_pvalues(
    source: Source, statistic: Statistic, results: Sequence[ScreeningResult], rows: Rows, pvalues: bool
) -> list[ScreeningResult]:
    """Check small p-values of each response, which come from these rows, unless the response is normal."""
    started = clock()
    normal = normal_responses(statistic, rows)

    def correct(k: int) -> ScreeningResult:
        result, null = results[k], results[k].evidence.null_distribution
        if normal[k] or null is None:
            return result
        return _correct(source, statistic.subset([k]), result, null, rows, pvalues)

    min_items = -(-CELLS_OF_THREAD // (N_FEATURES * count_rows(rows)))
    corrected = map_in_threads(correct, range(len(results)), min_items)
    seconds = (clock() - started) / len(results)
    for k, result in enumerate(corrected):
        *others, last = result.rounds
        corrected[k] = replace(result, rounds=(*others, replace(last, seconds=last.seconds + seconds)))
    return corrected


def _correct(
    source: Source,
    statistic: Statistic,
    result: ScreeningResult,
    null: NullDistribution,
    rows: Rows,
    pvalues: bool,
) -> ScreeningResult:
    """Check small p-values of one response, and without ``pvalues`` only those of a few selected features."""
    notes, remarks = list[str](), list[str]()
    if (reason := statistic.few_events(rows)) is not None:
        return _finish(result, NormalNull(np.nan), [reason])
    tested = np.flatnonzero(result.last_round == len(result.rounds) - 1)
    scores = result.scores[tested]
    reason = statistic.unknown_pvalues
    if reason and (n_unknown := int(np.isnan(null.log10_pvalues(scores)).sum())):
        notes.append(f"p-values of {count(n_unknown, 'feature')} are not available: {reason}.")
    level, n_small = find_level(null, scores, result.scores.size)
    # The test takes memory and time for every row, so candidates come first.
    parts = statistic.score_parts(rows) if n_small else None
    if n_small and parts is None and statistic.sample_weight is None and statistic.unchecked_pvalues:
        notes.append(statistic.unchecked_pvalues)
    test = None if parts is None else TailTest(parts)
    if test is None or test.is_exempt:
        return _finish(result, null, notes)
    positions = np.searchsorted(tested, tested if pvalues else np.sort(result.selected))
    usual = null.take(positions).log10_pvalues(scores[positions])
    small = np.flatnonzero(usual <= level)
    small = small if pvalues or small.size <= MAX_CHECKED else small[:0]
    found = _check(source, statistic, rows, test, tested[positions[small]], usual[small])
    n_left, n_raised = max(0, n_small - small.size), int(np.count_nonzero(found != usual[small]))
    if n_raised or n_left:
        null = CorrectedNull(null, positions[small], found, level if n_left else -np.inf)
    cells = count_rows(rows) * small.size
    if n_raised:
        remarks.append(
            f"{count(small.size, 'feature')} with small p-values {were(small.size)} read again ({cells:,} "
            f"cells), and {count(n_raised, 'p-value')} raised, because {test.reason}."
        )
    if n_left:
        remarks.append(
            f"small p-values of {count(n_left, 'feature')} are not available, because they were not checked: "
            "set pvalues=True to get them."
        )
    evidence = replace(result.evidence, cells_reread=result.evidence.cells_reread + cells)
    return _finish(replace(result, notes=(*result.notes, *remarks), evidence=evidence), null, notes)


def _finish(result: ScreeningResult, null: NullDistribution, notes: Sequence[str]) -> ScreeningResult:
    """The result with another null distribution, and notes."""
    evidence = replace(result.evidence, null_distribution=null)
    return replace(result, evidence=evidence, notes=(*notes, *result.notes))


def _check(
    source: Source, statistic: Statistic, rows: Rows, test: TailTest, features: Indices, log10: Floats
) -> Floats:
    """Decimal logarithms of the p-values of some features, which are read again, a few at a time."""

    def corrected(pair: tuple[Array, float]) -> float:
        x, log = pair
        if not statistic.pairwise or (present := np.isfinite(x)).all():
            return test.log_pvalue(x, log)
        parts = statistic.score_parts(as_indices(rows)[present])
        assert parts is not None  # as it is for all rows
        return TailTest(parts).log_pvalue(x[present], log)

    logs, n = log10 * np.log(10), count_rows(rows)
    width = max(1, BYTES_AT_ONCE // (n * source.dtype.itemsize))
    found = list[float]()
    for i in range(0, features.size, width):
        columns = source.read_columns(rows, features[i : i + width])
        pairs = zip(columns, logs[i : i + width].tolist(), strict=True)
        found += map_in_threads(corrected, pairs, -(-CELLS_OF_THREAD // n))
    return np.where(found != logs, np.array(found) / np.log(10), log10)


def find_level(null: NullDistribution, scores: Floats, n_features: int) -> tuple[float, int]:
    """Decimal logarithm of the largest p-value that is small enough to matter, and how many are.

    P-values are only raised, so a feature that is not selected by the usual ones at a false discovery rate of
    10% is not selected by the corrected ones.
    """
    some = np.flatnonzero(null.candidates(scores, MAX_FDR))
    log10 = null.take(some).log10_pvalues(scores[some])
    n_known = scores.size - int(np.count_nonzero(np.isnan(log10)))
    level = np.log10(min(MAX_LEVEL, max(MIN_LEVEL, N_FEATURES / max(n_known, 1))))
    small = np.sort(log10[log10 <= np.log10(MAX_FDR)])
    selected = small[small <= np.log10(MAX_FDR / n_features * np.arange(1, small.size + 1))]
    level = max(float(level), float(selected.max(initial=-np.inf)))
    return level, int(np.count_nonzero(small <= level))
