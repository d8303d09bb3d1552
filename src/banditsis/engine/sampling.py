"""Which rows are read, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from banditsis.arrays import Indices, Rows
from banditsis.plans.plan import Plan
from banditsis.sources.base import Source

ROW_ORDERS = ("auto", "random", "blocks", "stored")


def draw_rows(
    n: int,
    totals: Sequence[int],
    order: str,
    rng: np.random.Generator,
    *,
    as_needed: bool = False,
    edges: Indices | None = None,
) -> Iterator[Rows]:
    """Yield the rows that each step adds, sorted, so that after step l ``totals[l]`` have been read.

    ``random`` draws one uniform sample without replacement and hands it out piece by piece, so the rows
    read up to any step are a uniform sample themselves. No array of length n is made if fewer than n / 50
    rows are needed. ``as_needed`` draws each piece when it is asked for, which is right where a run may end
    long before its last step.

    ``blocks`` draws blocks, which lie between the ``edges``, and hands out as many whole ones as the total
    makes: with the last block, which may be short, the rows are a little fewer.

    Examples
    --------
    >>> import numpy as np
    >>> [rows.tolist() for rows in draw_rows(10, [3, 5], "random", np.random.default_rng(0))]
    [[2, 4, 7], [3, 5]]
    >>> list(draw_rows(10, [3, 5], "stored", np.random.default_rng(0)))
    [slice(0, 3, None), slice(3, 5, None)]
    >>> edges = np.array([0, 4, 8, 10])
    >>> [rows.tolist() for rows in draw_rows(10, [4, 8], "blocks", np.random.default_rng(0), edges=edges)]
    [[8, 9], [0, 1, 2, 3]]
    """
    before = 0
    if order == "stored" or totals[0] >= n:  # all at once needs no order
        for total in totals:
            yield slice(before, total)
            before = total
        return
    if order == "blocks":
        assert edges is not None
        yield from _rows_of_blocks(n, totals, rng, edges)
        return
    if as_needed:
        yield from _rows_as_needed(n, totals, rng)
        return
    sample = rng.choice(n, size=totals[-1], replace=False, shuffle=True)
    for total in totals:
        yield np.sort(sample[before:total])
        before = total


def _rows_of_blocks(
    n: int, totals: Sequence[int], rng: np.random.Generator, edges: Indices
) -> Iterator[Indices]:
    order = rng.permutation(len(edges) - 1)
    usual = np.median(np.diff(edges))
    before = 0
    for total in totals:
        after = len(order) if total >= n else max(before, min(len(order), int(np.ceil(total / usual))))
        chosen = np.sort(order[before:after])
        starts, lengths = edges[chosen], np.diff(edges)[chosen]
        # Row by row: where its block starts, and how far into the block it is.
        into = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        yield np.repeat(starts, lengths) + into
        before = after


def _rows_as_needed(n: int, totals: Sequence[int], rng: np.random.Generator) -> Iterator[Indices]:
    seen = np.empty(0, dtype=np.intp)
    for total in totals:
        wanted = total - len(seen)
        if total > n // 4:
            unseen = np.ones(n, dtype=bool)
            unseen[seen] = False
            fresh = rng.permutation(np.flatnonzero(unseen))[:wanted]
        else:
            fresh = _draw_unseen(n, wanted, seen, rng)
        fresh.sort()
        yield fresh
        seen = np.union1d(seen, fresh)


def _draw_unseen(n: int, wanted: int, seen: Indices, rng: np.random.Generator) -> Indices:
    """Draw rows, throw back those seen before: at most one in four."""
    drawn = np.empty(0, dtype=np.intp)
    while len(drawn) < wanted:
        more = rng.integers(0, n, size=2 * (wanted - len(drawn)) + 16, dtype=np.intp)
        drawn = np.concatenate([drawn, more[~np.isin(more, seen, kind="sort")]])
        _, first = np.unique(drawn, return_index=True)
        drawn = drawn[np.sort(first)]
    return drawn[:wanted]


#: So many blocks at least are read first, so that it shows whether blocks look alike.
MIN_BLOCKS = 8


#: Random rows are right for any data, which is worth twice the bytes of whole blocks.
RANDOM_ORDER_TOLERANCE = 2.0


class ResolvedOrder(NamedTuple):
    """What will really be done."""

    row_order: str
    plan: Plan
    notes: list[str]


def resolve_row_order(source: Source, plan: Plan, row_order: str) -> ResolvedOrder:
    """Decide what "auto" means for a source, and round the plan up to whole blocks where they are read.

    Random rows where they are cheap; the stored order where the data say that they were shuffled; else whole
    blocks in random order. A guarantee needs a simple random sample of rows, so that blocks will not do.
    """
    if row_order == "auto":
        row_order = _cheapest(source, plan)
    elif row_order == "blocks" and source.block_rows == 1:
        row_order = "random"  # the same thing
    if row_order == "random" or plan.by_evidence:
        return ResolvedOrder(row_order, plan, [])
    rounded = _whole_blocks(source, plan, row_order)
    return ResolvedOrder(row_order, rounded, _notes(source, plan, rounded))


def _cheapest(source: Source, plan: Plan) -> str:
    if source.shuffled:
        return "stored"
    if source.block_rows == 1 or plan.by_evidence:
        return "random"
    blocks = plan_bytes(source, _whole_blocks(source, plan, "blocks"), scattered=False)
    random = plan_bytes(source, plan, scattered=True)
    everything = source.bytes_touched(*source.shape, scattered=False)
    return (
        "random"
        if random <= RANDOM_ORDER_TOLERANCE * blocks and RANDOM_ORDER_TOLERANCE * random <= everything
        else "blocks"
    )


def _whole_blocks(source: Source, plan: Plan, row_order: str) -> Plan:
    return plan.round_to_blocks(source.block_rows, MIN_BLOCKS if row_order == "blocks" else 1)


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
    row_order, plan, _ = resolve_row_order(source, plan, row_order)
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
            f"{blocks}: whole blocks, {MIN_BLOCKS} at least, make {rounded.fraction:.1%} of the cells of "
            f"the {plan.fraction:.1%} asked for; `banditsis shuffle` once, and fewer will do."
        ]
    return []
