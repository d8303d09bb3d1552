"""Plans: how many rows each step reads and how many features it keeps; :func:`make_plan` makes any of them.

Other packages import from here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral

from banditsis.core.validation import check_integer, check_real
from banditsis.plans.design import ORDINARY, SamplingDesign
from banditsis.plans.floor import (
    MIN_INFORMATIVE,
    ORDINARY_KURTOSIS,
    detection_floor,
    error_level,
    excess_inflation,
    is_undecided,
    sampling_variance,
)
from banditsis.plans.keeping import EvidenceRule, KeepRule, strongest
from banditsis.plans.plan import BY_BITS, Plan, Step, change_rows, default_size, merge_steps, round_to_blocks

__all__ = ["Plan", "SamplingDesign", "Step", "change_rows", "default_size", "make_plan", "round_to_blocks"]
__all__ += ["ALL_ROWS_READ", "BY_BITS", "check_confidence", "check_exclusive"]
__all__ += ["detection_floor", "error_level", "excess_inflation", "is_undecided", "sampling_variance"]
__all__ += ["MIN_INFORMATIVE", "ORDINARY", "ORDINARY_KURTOSIS", "EvidenceRule", "KeepRule", "strongest"]

DEFAULT_ALPHA = 0.5
#: Why all rows are read if the user does not say what to read: p-values need them, or they take no longer.
NEEDS_ALL_ROWS = "all rows were read, because a false discovery rate needs the p-value of every feature."
ALL_ROWS_READ = "all rows were read, because that is about as fast here as reading a sample."


def make_plan(
    rows: int | SamplingDesign,
    p: int,
    d: int | None = None,
    *,
    by_fdr: bool = False,
    exact: bool = False,
    max_samples: int | float | None = None,
    alpha: float | None = None,
    budget: int | float | None = None,
    min_correlation: float | None = None,
    confidence: float | None = None,
    rereads: bool = False,
    pvalues: bool = False,
    n_selected: int | None = None,
) -> Plan:
    """Make the plan for some rows, or their sampling design, and p features that keeps d of them.

    The options of :meth:`Plan.exact`, :meth:`Plan.subsample` (``max_samples``, a number or a fraction of the
    rows), :meth:`Plan.paper` (``alpha``), :meth:`Plan.optimal` (``budget``) and :meth:`Plan.guaranteed`
    (``min_correlation``) are mutually exclusive. Without any of them the plan is the paper's with α = 0.5 in
    fewer rounds (:func:`merge_steps`), the optimal plan of the same cost if the statistic rereads its rows,
    or the exact plan if ``by_fdr``; it names the exact plan to follow where that is about as fast.

    By default d is :func:`default_size`, and with ``min_correlation`` 0: all that pass. ``by_fdr``
    keeps all features in exact runs, because p-values decide afterwards.
    """
    n, design = (rows.n_rows, rows) if isinstance(rows, SamplingDesign) else (rows, None)
    names = "exact", "max_samples", "alpha", "budget", "min_correlation"
    values = exact or None, max_samples, alpha, budget, min_correlation
    check_exclusive(dict(zip(names, values, strict=True)))
    confidence = check_confidence(confidence, min_correlation)
    size = None if d is None else check_integer("the number of features to keep", d, 1)
    if min_correlation is not None:
        return Plan.guaranteed(n, p, size, min_correlation, confidence, design=design)
    size = default_size(n, p) if size is None else size
    everything = replace(Plan.exact(n, p, p if by_fdr else size), rereads=rereads)
    if exact:
        return everything
    if max_samples is not None:
        return replace(Plan.subsample(n, p, size, _count_samples(max_samples, n)), rereads=rereads)
    if alpha is not None:
        return replace(Plan.paper(n, p, size, alpha), rereads=rereads)
    if budget is not None:
        return Plan.optimal(
            n, p, size, budget, rereads=rereads, pvalues=pvalues, n_selected=n_selected, design=design
        )
    if by_fdr:  # the threshold of Benjamini and Hochberg depends on all p-values, and no sample has these
        return replace(everything, why_exact=NEEDS_ALL_ROWS)
    paper = Plan.paper(n, p, size, DEFAULT_ALPHA)
    if rereads:
        plan = Plan.optimal(n, p, size, paper.cells, rereads=True, design=design)
    else:
        plan = replace(merge_steps(paper), uniform=False)
    return replace(plan, or_exact=everything, why_exact=ALL_ROWS_READ)


def check_confidence(confidence: float | None, min_correlation: float | None) -> float:
    """Return the confidence or its default. Raise if it is set without a minimum correlation."""
    if confidence is not None and min_correlation is None:
        raise ValueError(f"confidence={confidence} needs min_correlation: set that too, or omit it.")
    return 0.95 if confidence is None else confidence


def check_exclusive(options: Mapping[str, object]) -> None:
    """Raise if more than one of these options is set, that is, not None."""
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} are mutually exclusive: choose one of them.")


def _count_samples(max_samples: int | float, n: int) -> int:
    if isinstance(max_samples, Integral):
        return check_integer("max_samples", max_samples, min(3, n), n)
    m = math.ceil(check_real("max_samples", max_samples, 0, 1, high_included=True) * n)
    if m < min(3, n):
        raise ValueError(
            f"max_samples = {max_samples:g} is {m} of the {n:,} rows, but screening needs at least 3: use a "
            "larger fraction, or give a number of rows."
        )
    return m
