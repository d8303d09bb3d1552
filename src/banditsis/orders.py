"""In which order rows are read, and what that makes of a plan."""

from __future__ import annotations

from typing import NamedTuple

from banditsis.plans import Plan
from banditsis.sources.base import Source

#: So many blocks at least are read first, so that it shows whether blocks look alike.
LEAST_BLOCKS = 8
#: Random rows are right for any data, which is worth twice the bytes of whole blocks.
WORTH = 2.0


class Settled(NamedTuple):
    """What will really be done."""

    row_order: str
    plan: Plan
    notes: list[str]


def settle_order(source: Source, plan: Plan, row_order: str) -> Settled:
    """Decide what "auto" means for a source, and round the plan up to whole blocks where they are read.

    Random rows where they are cheap; the stored order where the data say that they were shuffled; else whole
    blocks in random order. A guarantee needs a simple random sample of rows, so that blocks will not do.
    """
    if row_order == "auto":
        row_order = _cheapest(source, plan)
    elif row_order == "blocks" and source.block_rows == 1:
        row_order = "random"  # the same thing
    if row_order == "random" or plan.by_evidence:
        return Settled(row_order, plan, [])
    rounded = _whole_blocks(source, plan, row_order)
    return Settled(row_order, rounded, _notes(source, plan, rounded))


def _cheapest(source: Source, plan: Plan) -> str:
    if source.shuffled:
        return "stored"
    if source.block_rows == 1 or plan.by_evidence:
        return "random"
    blocks = plan_bytes(source, _whole_blocks(source, plan, "blocks"), scattered=False)
    random = plan_bytes(source, plan, scattered=True)
    everything = source.bytes_touched(*source.shape, scattered=False)
    return "random" if random <= WORTH * blocks and WORTH * random <= everything else "blocks"


def _whole_blocks(source: Source, plan: Plan, row_order: str) -> Plan:
    return plan.whole_blocks(source.block_rows, LEAST_BLOCKS if row_order == "blocks" else 1)


def plan_bytes(source: Source, plan: Plan, *, scattered: bool) -> float:
    """Bytes that a plan touches."""
    touched, rows, left = 0.0, 0, plan.n_features
    for step, after in zip(plan.steps, plan.n_left, strict=True):
        if plan.by_evidence and left <= plan.n_keep:
            break
        touched += source.bytes_touched(step.n_rows - rows, left, scattered=scattered)
        rows, left = step.n_rows, after
    return touched


def slower_than_exact(source: Source, plan: Plan, row_order: str) -> bool:
    """Whether reading everything would take about as little time as the plan, or less."""
    n, p = source.shape
    row_order, plan, _ = settle_order(source, plan, row_order)
    if plan.steps[0].n_rows == n:
        return False
    bytes_a_second, seconds_a_step = 30e9, 1e-4  # of a machine of 2026; only their product matters
    if plan.rereads:  # what counts is not reading, but work on each cell
        return plan.cells >= n * p
    scattered = row_order == "random"
    # Scattered lines come at about half the speed of neighbouring ones.
    cost = plan_bytes(source, plan, scattered=scattered) * (2 if scattered else 1)
    cost += plan.n_steps * bytes_a_second * seconds_a_step
    return cost >= source.bytes_touched(n, p, scattered=False)


def _notes(source: Source, plan: Plan, rounded: Plan) -> list[str]:
    """Say what rounding up to whole blocks has changed, where it matters."""
    blocks = f"rows come in blocks of {source.block_rows:,} here"
    if rounded.steps[0].n_rows == plan.n_rows > plan.steps[0].n_rows:
        return [
            f"every row was read: {blocks}, so that fewer would save next to nothing; the result is exact."
        ]
    if rounded.cells > 1.5 * plan.cells:
        return [
            f"{blocks}: whole blocks, {LEAST_BLOCKS} at least, make {rounded.fraction:.1%} of the cells of "
            f"the {plan.fraction:.1%} asked for; `banditsis shuffle` once, and fewer will do."
        ]
    return []
