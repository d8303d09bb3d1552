"""A check of small p-values by a second reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Floats, Indices, Rows, as_indices, count_rows, near_zero
from banditsis.core.compilation import clock
from banditsis.core.formatting import count, were
from banditsis.core.parallel import map_in_threads, one_blas_thread
from banditsis.engine.trace import Trace
from banditsis.sources.base import Source
from banditsis.statistics.base import Statistic
from banditsis.statistics.null_distributions import CorrectedNull, NormalNull, NullDistribution
from banditsis.statistics.saddlepoint import TailTest

#: Every feature that a selection at this false discovery rate or a lower one can return is checked,
MAX_FDR = 0.1
#: and every feature with a smaller p-value, or about as many of the features without association.
MIN_LEVEL, MAX_LEVEL, N_FEATURES = 0.001, 0.05, 20
#: Unless p-values are requested, so many are checked at most: a check takes longer than screening a feature.
MAX_CHECKED = 1000
#: For more features, limits of scores are found in less time than p-values.
MANY = 1 << 15
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
    # The parts take memory and time for every row, so candidates come first.
    if n_small == 0:
        return
    if (parts := statistic.score_parts(rows)) is None:
        if statistic.sample_weight is None and statistic.unchecked_pvalues is not None:
            trace.notes.append(statistic.unchecked_pvalues)
        return
    test, robust = TailTest(parts), pvalues == "robust"
    if test.is_exempt and not robust:
        return
    features = tested if pvalues else trace.selected
    positions = np.searchsorted(tested, features)
    usual = null.take(positions).log10_pvalues(scores[positions])
    small = np.flatnonzero(usual <= level)
    small = small if pvalues or small.size <= MAX_CHECKED else small[:0]
    usual = usual[small]
    logs = Check(statistic, rows, test, robust).corrected(source, features[small], usual)
    n_left, n_raised = max(0, n_small - small.size), int(np.count_nonzero(logs != usual))
    if n_raised or n_left:
        unknown = level if n_left else -np.inf
        trace.null_distribution = CorrectedNull(null, positions[small], logs, unknown)
    trace.cells_reread += (cells := count_rows(rows) * small.size)
    if n_raised:
        trace.details.append(
            f"{count(small.size, 'feature')} with small p-values {were(small.size)} read again ({cells:,} "
            f"cells), and {count(n_raised, 'p-value')} raised, because {test.reason}"
            f"{', or the variance of the response depends on the feature' * robust}."
        )
    if n_left:
        trace.details.append(
            f"small p-values of {count(n_left, 'feature')} are not available, as the data "
            f"{'have equal values' if parts.ranks else 'are not normal'} and they were not checked: set "
            "pvalues=True to get them."
        )


class Check(NamedTuple):
    """What a small p-value is checked with."""

    statistic: Statistic
    rows: Rows
    test: TailTest
    robust: bool

    def corrected(self, source: Source, features: Indices, log10: Floats) -> Floats:
        """Decimal logarithms of the p-values of some features, which are read again, a few at a time."""
        usual = log10 * np.log(10)
        logs, n = usual.copy(), count_rows(self.rows)
        width = max(1, BYTES_AT_ONCE // (n * source.dtype.itemsize))
        size = max(1, CELLS_OF_THREAD // n)  # a run can be interrupted only between pieces
        for i in range(0, features.size, width):
            columns, here = source.read_columns(self.rows, features[i : i + width]), logs[i : i + width]
            pieces = ((columns[j : j + size], here[j : j + size]) for j in range(0, len(here), size))
            map_in_threads(lambda piece: self.raise_pvalues(*piece), pieces)
        return np.where(logs != usual, logs / np.log(10), log10)

    def raise_pvalues(self, columns: Sequence[Array], logs: Floats) -> None:
        """Raise the logarithms of p-values of some columns, over the rows that are present."""
        columns, complete = [near_zero(column[:, None])[:, 0] for column in columns], []
        for j, x in enumerate(columns):
            if self.statistic.pairwise and not (present := np.isfinite(x)).all():
                parts = self.statistic.score_parts(as_indices(self.rows)[present])
                assert parts is not None  # as it is for all rows
                logs[[j]] = TailTest(parts).log_pvalues([x[present]], logs[[j]], self.robust)
            else:
                complete.append(j)
        if complete:
            some = [columns[j] for j in complete]
            logs[complete] = self.test.log_pvalues(some, logs[complete], self.robust)


def find_level(null: NullDistribution, scores: Floats, n_features: int) -> tuple[float, int]:
    """Decimal logarithm of the largest p-value that is small enough to matter, and how many are.

    P-values are only raised. So a feature that is not selected by the usual p-values at a false discovery
    rate of 10% is not selected by the corrected ones.
    """
    # p ≤ level means strength ≥ limit; the p-values of many features take longer to compute.
    common = null.is_common and scores.size > MANY
    values, both = (scores, null.two_sided) if common else (-null.log10_pvalues(scores), False)
    n_known = values.size
    if np.isnan(values.sum()):
        n_known -= int(np.count_nonzero(np.isnan(values)))
    level = min(MAX_LEVEL, max(MIN_LEVEL, N_FEATURES / max(n_known, 1)))

    def count_small(level: float) -> int:
        limit = null.invert(level) if common else -np.log10(level)
        if kernels.are_loaded():
            return int(kernels.scores.count_at_least(values, limit, both))
        return int(np.count_nonzero((np.abs(values) if both else values) >= limit))

    n_passed, before = count_small(MAX_FDR), -1
    while 0 < n_passed != before:  # as many as Benjamini and Hochberg select, without sorting
        n_passed, before = count_small(MAX_FDR * n_passed / n_features), n_passed
    if MAX_FDR * n_passed / n_features > level:
        return float(np.log10(MAX_FDR * n_passed / n_features)), n_passed
    return float(np.log10(level)), count_small(level)
