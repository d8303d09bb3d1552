"""P-values: the final pass over the selected features, and a check of small ones by a second reading."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from banditsis.arrays import Array, Floats, Indices, Rows, as_indices, count_rows, near_zero
from banditsis.engine.accumulators import start_accumulators
from banditsis.engine.strata import Strata
from banditsis.engine.trace import Trace
from banditsis.formatting import count
from banditsis.parallel import Workers
from banditsis.plans.keeping import strongest
from banditsis.results import Round
from banditsis.sources.base import Source
from banditsis.statistics.base import Statistic
from banditsis.statistics.null_distributions import CorrectedNull
from banditsis.statistics.saddlepoint import TailTest
from banditsis.validation import raise_nonfinite

#: Every feature that a selection at this false discovery rate or a lower one can return is checked,
MAX_FDR = 0.1
#: and every feature with a smaller p-value, or about as many of the features without association.
MIN_LEVEL, MAX_LEVEL, N_FEATURES = 0.001, 0.05, 20
BYTES_AT_ONCE = 1 << 28
COLUMNS_OF_JOB = 8


def read_in_full(
    source: Source,
    statistic: Statistic,
    traces: list[Trace],
    workers: Workers,
    tick: Callable[[int], None],
) -> None:
    """Add a round that reads every row of the selected features from the start."""
    n = source.shape[0]
    for k, trace in enumerate(traces):
        if trace.rounds[-1].n_rows >= n or trace.selected.size == 0:
            continue
        started = time.perf_counter()
        bound = statistic.subset([k]).calibrate(slice(0, n))
        (accumulator,) = start_accumulators(source, bound, slice(0, n), Strata.uniform(n))
        accumulator.restrict(trace.selected)
        accumulator.read(slice(0, n), workers, tick)
        if (bad := accumulator.nonfinite_features()).size:
            raise_nonfinite(source, slice(0, n), bad, statistic.pairwise)
        d, p = trace.selected.size, trace.scores.size
        (cutoff,) = accumulator.keep_best(lambda size, _: strongest(size, len(size)), [trace])
        trace.add_round(Round(n, d, d, cutoff, n * d, time.perf_counter() - started))
        trace.notes.append(
            f"p-values are from all {n:,} rows of the {d:,} features selected from {p:,}; selection by false "
            f"discovery rate accounts for all {p:,}."
        )
        accumulator.finish([trace])
        accumulator.record_effects([trace])


def correct_pvalues(
    source: Source, statistic: Statistic, trace: Trace, rows: Rows, workers: Workers, pvalues: bool | str
) -> None:
    """Check small p-values of a statistic with one response, which come from these rows.

    Unless ``pvalues`` are requested, only those of the selected features are checked: there may be thousands
    of others.
    """
    robust = pvalues == "robust"
    if trace.null_distribution is None or (parts := statistic.score_parts(rows)) is None:
        return
    test = TailTest(parts)
    if test.has_normal_residuals and not robust:
        return
    tested = np.flatnonzero(trace.last_round == len(trace.rounds) - 1)
    null = trace.null_distribution
    log10 = null.log10_pvalues(null.drop_weak(trace.scores[tested]))
    chosen = find_candidates(log10, trace.scores.size)
    if not pvalues:
        is_selected = np.isin(tested[chosen], trace.selected)
        if n_left := int(np.count_nonzero(~is_selected)):
            trace.notes.append(
                f"{count(n_left, 'small p-value')} of features that were not selected may be too small, "
                "because the data are not normal: set pvalues=True to check them."
            )
        chosen = chosen[is_selected]
    if chosen.size == 0:
        return
    check = Check(statistic, rows, test, robust)
    logs = log10[chosen] * np.log(10)
    usual = logs.copy()
    n = count_rows(rows)
    width = max(1, BYTES_AT_ONCE // (n * source.dtype.itemsize))
    for i in range(0, chosen.size, width):
        block = near_zero(source.read(rows, tested[chosen[i : i + width]]))
        here = logs[i : i + width]
        pieces = [slice(j, j + COLUMNS_OF_JOB) for j in range(0, len(here), COLUMNS_OF_JOB)]
        workers.run([(check.raise_pvalues, block[:, piece], here[piece]) for piece in pieces])
    cells = n * chosen.size
    trace.cells_reread += cells
    raised = logs > usual
    if raised.any():
        corrected = CorrectedNull(null, chosen[raised], logs[raised] / np.log(10))
        trace.null_distribution = corrected
        trace.notes.append(
            f"{count(chosen.size, 'feature')} with small p-values were read again ({cells:,} "
            f"cells), and {count(int(raised.sum()), 'p-value')} raised, because feature and response are "
            f"skewed or heavy-tailed{', or the variance of the response depends on the feature' * robust}."
        )


class Check(NamedTuple):
    """What a small p-value is checked with."""

    statistic: Statistic
    rows: Rows
    test: TailTest
    robust: bool

    def raise_pvalues(self, block: Array, logs: Floats) -> None:
        """Raise the logarithms of p-values of the columns of a block, over the rows that are present."""
        for j, column in enumerate(block.T):
            x, test = np.asarray(column, np.float64), self.test
            present = np.isfinite(x)
            if not present.all():
                parts = self.statistic.score_parts(as_indices(self.rows)[present])
                assert parts is not None  # as it is for all rows
                x, test = x[present], TailTest(parts)
            logs[j] = test.log_pvalue(x, logs[j], self.robust)


def find_candidates(log10: Floats, n_features: int) -> Indices:
    """Positions of the p-values that are small enough to matter.

    P-values are only raised. So a feature that is not selected by the usual p-values at a false discovery
    rate of 10% is not selected by the corrected ones.
    """
    known = log10[~np.isnan(log10)]
    level = min(MAX_LEVEL, max(MIN_LEVEL, N_FEATURES / max(known.size, 1)))
    smallest = np.sort(known[known <= np.log10(MAX_FDR)])
    ranks = np.arange(1, smallest.size + 1)
    passed = smallest[smallest <= np.log10(MAX_FDR * ranks / n_features)]
    limit = max(np.log10(level), passed.max(initial=-np.inf))
    return np.flatnonzero(log10 <= limit)
