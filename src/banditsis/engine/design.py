"""Which rows a run reads: the strata, the plan and the row order, resolved in this order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from banditsis.core.formatting import format_share
from banditsis.core.validation import check_guarantee_possible
from banditsis.engine.sampling import Strata
from banditsis.index.sketch import plan_by_bits
from banditsis.plans import Plan, SamplingDesign, change_rows, round_to_blocks
from banditsis.sources.base import Source
from banditsis.statistics.base import Statistic

#: A plan, or a function that makes it from the sampling design.
PlanLike: TypeAlias = "Plan | Callable[[SamplingDesign], Plan]"
ROW_ORDERS = ("auto", "random", "blocks", "stored")
#: The first step reads at least this many blocks; fewer could not show whether blocks are exchangeable.
MIN_BLOCKS = 8
#: Random rows are valid for any data, so they may touch this many times the bytes of whole blocks.
RANDOM_ORDER_TOLERANCE = 2.0
# Of machines of 2026, as `make bench-adaptive` shows: what a step, a row of the response and a feature cost
# besides reading.
SECONDS_PER_STEP, SECONDS_PER_ROW, SECONDS_PER_FEATURE = 1e-3, 1e-8, 5e-7
STEPS_PER_EVIDENCE_STEP = STEPS_PER_REREADING = 5  # in the time of an ordinary step
#: Rows of a stratum that a first step has on average; fewer could not represent it.
MIN_ROWS_PER_STRATUM = 2
#: Strata pay off if a sample needs at most this share of the rows of a uniform one.
MAX_DESIGN_EFFECT = 0.95


def choose_design(
    source: Source, statistic: Statistic, plan: PlanLike, settings: Any
) -> tuple[Plan, str, Strata, list[str]]:
    """Choose the strata of rows, make the plan, and resolve the row order; with remarks about them."""
    n, row_order, strata = source.shape[0], settings.row_order, Strata.uniform(source.shape[0])

    def is_uniform(plan: Plan) -> bool:  # it does not gain by strata, or is meant for uniform samples
        return plan.steps[0].n_rows >= n or (plan.uniform and settings.sampling == "auto")

    if not (isinstance(plan, Plan) and is_uniform(plan)):
        strata = find_strata(source, statistic, settings.sampling, row_order)
    made = plan if isinstance(plan, Plan) else plan(strata.design)
    n_reread = made.n_keep if settings.pvalues else 0
    by_bits, notes = plan_by_bits(source, statistic, made, settings)
    if by_bits is not None:
        return by_bits, "stored", Strata.uniform(n), notes
    if made.why_exact and (made.or_exact is None or slower_than_exact(source, made, row_order, n_reread)):
        notes, made = [made.why_exact, *notes], made.or_exact or made
    made = replace(made, rereads=statistic.rereads)
    if n < made.n_rows:  # in the others the response is not known
        made = change_rows(made, lambda rows: min(rows, n), n)
    if made.by_evidence:
        random = row_order == "auto" or (source.shuffled and row_order == "stored")
        check_guarantee_possible(statistic, "random" if random else row_order)
    first = made.steps[0].n_rows
    # Strata pay off if the first step can represent them, and is more precise than a uniform one.
    enough = first >= MIN_ROWS_PER_STRATUM * strata.n_strata
    if is_uniform(made) or not (enough and first <= MAX_DESIGN_EFFECT * strata.design.effective_rows(first)):
        strata = Strata.uniform(n)
        row_sizes = statistic.row_sizes() if made.by_evidence and first < n else None
        if row_sizes is not None:  # outliers are read in any case
            strata = Strata.by_size(n, row_sizes, 1)
    else:
        row_order = "random"
    if made.by_evidence:
        strata = replace(strata, design=replace(strata.design, guaranteed=True))
    row_order, made, remarks = resolve_row_order(source, made, row_order)
    if slower_than_exact(source, made, row_order, n_reread):
        notes.append(
            "exact screening, which reads every row, would be about as fast here or faster: this plan saves "
            "cells, not time."
        )
    return made, row_order, strata, [*remarks, *notes]


def find_strata(source: Source, statistic: Statistic, sampling: str, row_order: str) -> Strata:
    """Strata of rows by the response; a single one if rows are to be drawn uniformly."""
    (n, p), is_chosen = source.shape, row_order == "auto"
    if sampling == "uniform":
        return Strata.uniform(n)
    if sampling == "auto" and is_chosen and source.block_rows > 1:
        some = -(-n // 100)  # read cheaply at random if that costs little more than as many consecutive rows
        random, together = (source.bytes_touched(some, p, scattered=scattered) for scattered in (True, False))
        everything = source.bytes_touched(n, p, scattered=False)
        if random > RANDOM_ORDER_TOLERANCE * min(together, everything / 4):
            return Strata.uniform(n)
    if statistic.y.shape[1] > statistic.n_columns:
        reason = "there are several responses"
    elif not is_chosen and row_order != "random":
        reason = f"the row order is {row_order!r}, not random"
    elif is_chosen and source.shuffled:
        reason = "the data were shuffled, and their first rows are a uniform sample"
    elif (row_sizes := statistic.row_sizes()) is not None:
        return Strata.by_size(n, row_sizes)
    else:
        reason = f"the statistic {statistic.name!r} needs a uniform sample"
    if sampling == "stratified":
        raise ValueError(f"rows cannot be sampled in strata: {reason}. Set sampling to 'uniform' or 'auto'.")
    return Strata.uniform(n)


def resolve_row_order(source: Source, plan: Plan, row_order: str) -> tuple[str, Plan, list[str]]:
    """Choose the row order if it is "auto", and round the plan to whole blocks; with remarks about that.

    "auto" is the stored order for shuffled data, random rows where they are cheap, and otherwise whole blocks
    in random order. A guarantee needs a simple random sample of rows, so a guaranteed plan never reads
    blocks. Neither does a plan for data in several parts: it reads the first rows of each.
    """
    if row_order == "auto" and source.shuffled:
        row_order = "stored"
    elif row_order in ("auto", "blocks") and source.block_rows == 1:
        row_order = "random"  # the same thing
    elif row_order == "auto":
        in_blocks = round_to_blocks(plan, source.block_rows, MIN_BLOCKS)
        blocks = plan_bytes(source, in_blocks, scattered=False)
        everything = source.bytes_touched(*source.shape, scattered=False)
        some = plan_bytes(source, plan, scattered=True)
        cheap = some <= RANDOM_ORDER_TOLERANCE * blocks and RANDOM_ORDER_TOLERANCE * some <= everything
        row_order = "random" if plan.by_evidence or cheap else "blocks"
    elif row_order == "blocks" and source.stratum_sizes:
        row_order = "stored"  # blocks of one part do not represent the others
    # The first rows of several parts do not end where blocks end.
    if row_order == "random" or plan.by_evidence or source.stratum_sizes:
        return row_order, plan, []
    rounded = round_to_blocks(plan, source.block_rows, MIN_BLOCKS if row_order == "blocks" else 1)
    stored, notes = f"the data are stored in blocks of {source.block_rows:,} rows", list[str]()
    if rounded.steps[0].n_rows == plan.n_rows > plan.steps[0].n_rows:
        exact = "all rows were read and the result is exact"
        notes = [f"{exact}: {stored}, so reading fewer rows would save almost nothing."]
    elif rounded.cells > (plan.cells if "budget" in dict(plan.parameters) else 1.5 * plan.cells):
        taken, planned = format_share(rounded.fraction), format_share(plan.fraction)
        advice = "" if source.shuffled else " Run `banditsis index` once to read less."
        notes = [f"{stored}; reading whole blocks takes {taken} of the cells instead of {planned}.{advice}"]
    return row_order, rounded, notes


def plan_bytes(source: Source, plan: Plan, *, scattered: bool) -> float:
    """Bytes that a plan reads from a source."""
    touched, rows, left = 0.0, 0, plan.n_features
    for step, after in zip(plan.steps, plan.n_left, strict=True):
        if plan.by_evidence and left <= plan.n_keep:
            break
        touched += source.bytes_touched(step.n_rows - rows, left, scattered=scattered)
        rows, left = step.n_rows, after
    return touched


def slower_than_exact(source: Source, plan: Plan, row_order: str, n_reread: int = 0) -> bool:
    """Whether reading everything would take about as long as the plan, or less, with one thread.

    More threads share the cells but not the work between steps, and results must not depend on their number.
    ``n_reread`` features are read in full at the end.
    """
    n, p = source.shape
    row_order, plan, _ = resolve_row_order(source, plan, row_order)
    if plan.steps[0].n_rows == n:
        return False
    if plan.rereads:  # dominated by computation on each cell, not by reading
        return plan.cells >= n * p
    scattered = row_order == "random"
    # Scattered cache lines are read at about half the speed of consecutive ones.
    touched = plan_bytes(source, plan, scattered=scattered) * (2 if scattered else 1)
    touched += source.bytes_touched(n, n_reread, scattered=False) if n_reread else 0.0
    passes = scattered + (n_reread > 0)  # over the response
    steps = len(plan.steps) * (STEPS_PER_EVIDENCE_STEP if plan.by_evidence else 1)
    steps += STEPS_PER_REREADING if n_reread else 0
    overhead = SECONDS_PER_STEP * steps + SECONDS_PER_ROW * n * passes + SECONDS_PER_FEATURE * p
    saved = source.bytes_touched(n, p, scattered=False) - touched
    return saved <= overhead * (source.bytes_per_second or source.bytes_per_thread)
