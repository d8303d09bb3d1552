"""Which rows a run reads: the strata, the plan and the row order, resolved in this order."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from banditsis.core.validation import check_guarantee_possible
from banditsis.engine.sampling import reads_rows_cheaply, resolve_row_order, slower_than_exact
from banditsis.engine.settings import Settings
from banditsis.engine.strata import Strata
from banditsis.plans.design import SamplingDesign
from banditsis.plans.plan import Plan
from banditsis.sources.base import Source
from banditsis.statistics.base import Statistic

#: A plan, or a function that makes it from the sampling design.
PlanLike: TypeAlias = "Plan | Callable[[SamplingDesign], Plan]"


class Design(NamedTuple):
    """Which rows a run reads, and remarks about them."""

    plan: Plan
    row_order: str
    strata: Strata
    notes: list[str]


def choose_design(
    source: Source, statistic: Statistic | None, plan: PlanLike, settings: Settings, n_covariates: int
) -> Design:
    """Choose the strata of rows, make the plan, and resolve the row order.

    ``statistic`` has the responses, and is None if they are all constant.
    """
    n, row_order = source.shape[0], settings.row_order
    strata = Strata.uniform(n)
    if statistic is not None and not (isinstance(plan, Plan) and _is_uniform(plan, n, settings)):
        strata = find_strata(source, statistic, settings.sampling, row_order)
    made = plan if isinstance(plan, Plan) else plan(strata.design)
    n_reread = made.n_keep if settings.pvalues else 0
    notes = []
    if made.why_exact and (made.or_exact is None or slower_than_exact(source, made, row_order, n_reread)):
        notes, made = [made.why_exact], made.or_exact or made
    made = made.rereading(settings.statistic.rereads).limit_rows(n)
    if made.by_evidence and statistic is not None:
        random = row_order == "auto" or (source.shuffled and row_order == "stored")
        check_guarantee_possible(
            statistic.name,
            statistic.is_correlation,
            "random" if random else row_order,
            settings.missing,
            n_covariates > 0,
            settings.sample_weight is not None,
        )
    first = made.steps[0].n_rows
    if _is_uniform(made, n, settings) or not strata.is_worthwhile(first):
        strata = Strata.uniform(n)
        if made.by_evidence and first < n and statistic is not None:
            strata = find_outliers(source, statistic, row_order)
    elif not source.shuffled:
        row_order = "random"
    row_order, made, remarks = resolve_row_order(source, made, row_order)
    notes = [*remarks, *notes]
    if slower_than_exact(source, made, row_order, made.n_keep if settings.pvalues else 0):
        notes.append(
            "exact screening, which reads every row, would be about as fast here or faster: this plan saves "
            "cells, not time."
        )
    return Design(made, row_order, strata.for_guarantee() if made.by_evidence else strata, notes)


def _is_uniform(plan: Plan, n: int, settings: Settings) -> bool:
    """Whether a plan does not gain by strata, or is meant for uniform samples."""
    return plan.steps[0].n_rows >= n or (plan.uniform and settings.sampling == "auto")


def find_outliers(source: Source, statistic: Statistic, row_order: str) -> Strata:
    """Strata of the outliers of the response, with all other rows in one stratum; or those of the source."""
    row_sizes = statistic.row_sizes()
    assert row_sizes is not None  # scores are correlations with one response
    if source.stratum_sizes and row_order != "random":
        return Strata.stored(source.stratum_sizes, row_sizes)
    return Strata.by_size(source.shape[0], row_sizes, 1)


def find_strata(source: Source, statistic: Statistic, sampling: str, row_order: str) -> Strata:
    """Strata of rows by the response; a single one if rows are to be drawn uniformly."""
    n = source.shape[0]
    if sampling == "uniform":
        return Strata.uniform(n)
    reason = _why_uniform(source, statistic, sampling, row_order)
    row_sizes = statistic.row_sizes() if reason is None else None
    if row_sizes is not None:
        stored = source.stratum_sizes and row_order != "random"
        return Strata.stored(source.stratum_sizes, row_sizes) if stored else Strata.by_size(n, row_sizes)
    if sampling == "stratified":
        reason = reason or f"the statistic {statistic.name!r} needs a uniform sample"
        raise ValueError(f"rows cannot be sampled in strata: {reason}. Set sampling to 'uniform' or 'auto'.")
    return Strata.uniform(n)


def _why_uniform(source: Source, statistic: Statistic, sampling: str, row_order: str) -> str | None:
    """Why rows are drawn uniformly; None if they can be drawn from strata."""
    if statistic.n_responses > 1:
        return "there are several responses"
    if row_order == "random" or (source.stratum_sizes and row_order != "blocks"):
        return None
    if row_order != "auto":
        return f"the row order is {row_order!r}, not random"
    if source.shuffled:
        return "the data were shuffled without a target, and their first rows are a uniform sample"
    return "rows are stored in blocks" if sampling == "auto" and not reads_rows_cheaply(source) else None
