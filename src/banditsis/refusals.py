"""What a run refuses, with a message that says why and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from banditsis._typing import Columns, Rows
from banditsis.plans import Plan
from banditsis.sampling import count_rows, take
from banditsis.sources.base import Source
from banditsis.statistics.sample import SampleStatistic

CELLS_CHECKED_WHOLE = 1_000_000


def check_evidence(
    plan: Plan, name: str, row_order: str, missing: str, covariates: Any, shuffled: bool
) -> None:
    """Refuse to guarantee what cannot be."""
    if not plan.by_evidence:
        return
    if row_order == "auto" or (shuffled and row_order == "stored"):
        row_order = "random"
    for option, value, wanted in (
        ("statistic", name, "pearson"),
        ("missing", missing, "raise"),
        ("covariates", None if covariates is None else "given", None),
        ("row_order", row_order, "random"),
    ):
        if value != wanted:
            got = "and some were given" if option == "covariates" else f"got {value!r}"
            raise ValueError(
                f"min_correlation can be guaranteed with {option}={wanted!r} alone, {got}: "
                "use that, or a plan by alpha or budget."
            )


def check_law(kind: Any) -> None:
    """Refuse p-values where no null law is known."""
    unknown = isinstance(kind, SampleStatistic) and type(kind).null_law is SampleStatistic.null_law
    if unknown and not kind.tells_stretch:
        raise ValueError(
            f"pvalues=True, and the null law of statistic={kind.name!r} is not known: leave the p-values "
            "out, or use a statistic that has them, such as 'spearman', 'kendall' or 'chatterjee'."
        )


def find_seed(random_state: Any) -> int:
    """A number from which to start again, whatever was given."""
    if isinstance(random_state, bool):
        raise TypeError(f"random_state must be an integer, a Generator or None, got {random_state}.")
    if isinstance(random_state, (int, np.integer)):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state}.")
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    try:
        return int(np.random.default_rng(random_state).integers(2**53))
    except (TypeError, ValueError):
        raise TypeError(
            f"random_state must be an integer, a Generator, a RandomState or None, got {random_state!r}."
        ) from None


def check_elsewhere(kind: Any, covariates: Any) -> None:
    """Refuse what cannot be done with a response that stays on a cluster."""
    what = "covariates" if covariates is not None else f"statistic={kind.name!r}"
    if covariates is not None or kind.n_columns > 1:
        raise ValueError(f"y is a Dask collection, and {what} needs it in memory: pass y.compute().")


def check_shape(source: Source, plan: Plan) -> None:
    n, p = source.shape
    if p == 0:
        raise ValueError(f"X has 0 feature(s) (shape=({n}, 0)) while a minimum of 1 is required.")
    if n < 3:
        raise ValueError(f"X has {n} row(s), and correlations need at least 3 (n_samples={n}).")
    if not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan, such as Plan.exact({n}, {p}, 10); got {plan!r}.")
    if (plan.n_rows, plan.n_features) != (n, p):
        raise ValueError(
            f"the plan is for {plan.n_rows:,} rows × {plan.n_features:,} features and X has "
            f"{n:,} × {p:,}: make the plan for the shape of X."
        )


def refuse_nonfinite(source: Source, rows: Rows, columns: Columns, pairwise: bool) -> None:
    """Raise an error that names the first cell with a value that cannot be summed."""
    step = max(1, CELLS_CHECKED_WHOLE // (source.shape[1] if columns is None else len(columns)))
    for i in range(0, count_rows(rows), step):
        part = take(rows, i, i + step)
        block = source.read(part, columns)
        bad = np.isinf(block) if pairwise else ~np.isfinite(block)
        if not bad.any():
            continue
        row, j = (int(k) for k in np.argwhere(bad)[0])
        value = "NaN" if np.isnan(block[row, j]) else "infinity"
        name = source.name(j if columns is None else int(columns[j]))
        row = source.row_number(row + part.start if isinstance(part, slice) else int(part[row]))
        remedy = ", or use missing='pairwise' to leave NaN out" if value == "NaN" else ""
        raise ValueError(
            f"Input X contains {value} in column {name!r}, row {row:,}: drop or replace it{remedy}."
        )
    if columns is not None:
        raise ValueError(
            f"the values of column {source.name(int(columns[0]))!r} span too many orders of "
            f"magnitude to be summed as {source.dtype}: rescale it"
            f"{'' if source.dtype == np.float64 else ', or pass X as float64'}."
        )
