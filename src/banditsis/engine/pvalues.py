"""A check of small p-values by a second reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, Rows, as_indices, count_rows
from banditsis.core.compilation import clock
from banditsis.core.formatting import count, were
from banditsis.core.parallel import map_in_threads, one_blas_thread
from banditsis.engine.trace import Trace
from banditsis.sources.base import Source
from banditsis.statistics.base import Statistic
from banditsis.statistics.null_distributions import CorrectedNull, NormalNull, NullDistribution
from banditsis.statistics.tail_test import TailTest

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
    source: Source, statistic: Statistic, traces: Sequence[Trace], rows: Rows, pvalues: bool | str
) -> None:
    """Check small p-values of each response, which come from these rows, unless the response is normal."""
    started = clock()
    normal = np.zeros(len(traces), bool) if pvalues == "robust" else statistic.normal_responses(rows)
    with one_blas_thread(not normal.all()):  # its threads would take longer than short products
        map_in_threads(
            lambda k: _correct_response(source, statistic.subset([k]), traces[k], rows, pvalues),
            np.flatnonzero(~normal).tolist(),
            -(-CELLS_OF_THREAD // (N_FEATURES * count_rows(rows))),
        )
    seconds = (clock() - started) / len(traces)
    for trace in traces:
        trace.rounds[-1] = replace(trace.rounds[-1], seconds=trace.rounds[-1].seconds + seconds)


def _correct_response(
    source: Source, statistic: Statistic, trace: Trace, rows: Rows, pvalues: bool | str
) -> None:
    """Check small p-values of a statistic with one response.

    Unless ``pvalues`` are requested, only those of the selected features are checked, and only if these are
    few: there may be thousands of others. Those that are not checked are not available.
    """
    null = trace.null_distribution
    if null is None:
        return
    if (reason := statistic.few_events(rows)) is not None:
        trace.null_distribution = NormalNull(np.nan)
        trace.notes.append(reason)
        return
    tested = np.flatnonzero(trace.last_round == len(trace.rounds) - 1)
    scores = trace.scores[tested]
    reason = statistic.unknown_pvalues
    if reason and (n_unknown := int(np.isnan(null.log10_pvalues(scores)).sum())):
        trace.notes.append(f"p-values of {count(n_unknown, 'feature')} are not available: {reason}.")
    level, n_small = find_level(null, scores, trace.scores.size)
    # The test takes memory and time for every row, so candidates come first.
    test = _make_test(statistic, trace, rows, pvalues == "robust") if n_small else None
    if test is None:
        return
    features = tested if pvalues else trace.selected
    positions = np.searchsorted(tested, features)
    usual = null.take(positions).log10_pvalues(scores[positions])
    small = np.flatnonzero(usual <= level)
    small = small if pvalues or small.size <= MAX_CHECKED else small[:0]
    found = _check(source, statistic, rows, test, features[small], usual[small])
    n_left, n_raised = max(0, n_small - small.size), int(np.count_nonzero(found != usual[small]))
    if n_raised or n_left:
        unknown = level if n_left else -np.inf
        trace.null_distribution = CorrectedNull(null, positions[small], found, unknown)
    trace.cells_reread += (cells := count_rows(rows) * small.size)
    if n_raised:
        trace.details.append(
            f"{count(small.size, 'feature')} with small p-values {were(small.size)} read again ({cells:,} "
            f"cells), and {count(n_raised, 'p-value')} raised, because {test.reason}."
        )
    if n_left:
        trace.details.append(
            f"small p-values of {count(n_left, 'feature')} are not available, because they were not checked: "
            "set pvalues=True to get them."
        )


def _make_test(statistic: Statistic, trace: Trace, rows: Rows, robust: bool) -> TailTest | None:
    """What small p-values of the response are checked by; None if the usual ones are kept."""
    if (parts := statistic.score_parts(rows)) is None:
        if statistic.sample_weight is None and statistic.unchecked_pvalues is not None:
            trace.notes.append(statistic.unchecked_pvalues)
        return None
    test = TailTest(parts, robust)
    return None if test.is_exempt else test


def _check(
    source: Source, statistic: Statistic, rows: Rows, test: TailTest, features: Indices, log10: Floats
) -> Floats:
    """Decimal logarithms of the p-values of some features, which are read again, a few at a time."""

    def corrected(x: Array, log: float) -> float:
        if not statistic.pairwise or (present := np.isfinite(x)).all():
            return test.log_pvalue(x, log)
        parts = statistic.score_parts(as_indices(rows)[present])
        assert parts is not None  # as it is for all rows
        return TailTest(parts, test.robust).log_pvalue(x[present], log)

    logs, n = log10 * np.log(10), count_rows(rows)
    width = max(1, BYTES_AT_ONCE // (n * source.dtype.itemsize))
    found = list[float]()
    for i in range(0, features.size, width):
        columns = source.read_columns(rows, features[i : i + width])
        pairs = zip(columns, logs[i : i + width].tolist(), strict=True)
        found += map_in_threads(lambda pair: corrected(*pair), pairs, -(-CELLS_OF_THREAD // n))
    return np.where(found != logs, np.array(found) / np.log(10), log10)


def find_level(null: NullDistribution, scores: Floats, n_features: int) -> tuple[float, int]:
    """Decimal logarithm of the largest p-value that is small enough to matter, and how many are.

    P-values are only raised. So a feature that is not selected by the usual p-values at a false discovery
    rate of 10% is not selected by the corrected ones.
    """
    some = np.flatnonzero(null.candidates(scores, MAX_FDR))
    log10 = null.take(some).log10_pvalues(scores[some])
    n_known = scores.size - int(np.count_nonzero(np.isnan(log10)))
    level = np.log10(min(MAX_LEVEL, max(MIN_LEVEL, N_FEATURES / max(n_known, 1))))
    small = np.sort(log10[log10 <= np.log10(MAX_FDR)])
    selected = small[small <= np.log10(MAX_FDR / n_features * np.arange(1, small.size + 1))]
    level = max(float(level), float(selected.max(initial=-np.inf)))
    return level, int(np.count_nonzero(small <= level))
