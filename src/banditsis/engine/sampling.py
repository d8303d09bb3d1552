"""Which rows each step reads: the row order, and the rows themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from banditsis.core.arrays import Indices, Rows
from banditsis.core.formatting import format_share
from banditsis.plans.plan import Plan
from banditsis.sources.base import Source

ROW_ORDERS = ("auto", "random", "blocks", "stored")
#: The first step reads at least this many blocks; fewer could not show whether blocks are exchangeable.
MIN_BLOCKS = 8
#: Random rows are valid for any data, so they may touch this many times the bytes of whole blocks.
RANDOM_ORDER_TOLERANCE = 2.0
# Of machines of 2026, as `make bench-adaptive` shows: what a step, a row of the response and a feature cost
# besides reading.
SECONDS_PER_STEP, SECONDS_PER_ROW, SECONDS_PER_FEATURE = 1e-3, 1e-8, 5e-7
STEPS_PER_EVIDENCE_STEP = STEPS_PER_REREADING = 5  # in the time of an ordinary step


class ResolvedOrder(NamedTuple):
    """The row order and the plan that a run uses."""

    row_order: str
    plan: Plan
    notes: list[str]


def resolve_row_order(source: Source, plan: Plan, row_order: str) -> ResolvedOrder:
    """Choose the row order if it is "auto", and round the plan to whole blocks if blocks are read.

    "auto" is the stored order for shuffled data, random rows where they are cheap, and otherwise whole blocks
    in random order. A guarantee needs a simple random sample of rows, so a guaranteed plan never reads
    blocks. Neither does a plan for rows that are stored in strata: it reads the first rows of each.
    """
    if row_order == "auto" and source.shuffled:
        row_order = "stored"
    elif row_order in ("auto", "blocks") and source.block_rows == 1:
        row_order = "random"  # the same thing
    elif row_order == "auto":
        in_blocks = plan.round_to_blocks(source.block_rows, MIN_BLOCKS)
        blocks = plan_bytes(source, in_blocks, scattered=False)
        everything = source.bytes_touched(*source.shape, scattered=False)
        some = plan_bytes(source, plan, scattered=True)
        cheap = some <= RANDOM_ORDER_TOLERANCE * blocks and RANDOM_ORDER_TOLERANCE * some <= everything
        row_order = "random" if plan.by_evidence or cheap else "blocks"
    elif row_order == "blocks" and source.stratum_sizes:
        row_order = "stored"  # blocks of one stratum do not represent the others
    # The first rows of several strata do not end where blocks end.
    if row_order == "random" or plan.by_evidence or source.stratum_sizes:
        return ResolvedOrder(row_order, plan, [])
    rounded = plan.round_to_blocks(source.block_rows, MIN_BLOCKS if row_order == "blocks" else 1)
    return ResolvedOrder(row_order, rounded, _rounding_notes(source, plan, rounded, row_order))


def reads_rows_cheaply(source: Source) -> bool:
    """Whether a few random rows cost little more than as many consecutive ones."""
    n, p = source.shape
    some = -(-n // 100)
    random, together = (source.bytes_touched(some, p, scattered=scattered) for scattered in (True, False))
    everything = source.bytes_touched(n, p, scattered=False)
    cheap = random <= RANDOM_ORDER_TOLERANCE * min(together, everything / 4)
    return source.block_rows == 1 or cheap


def _rounding_notes(source: Source, plan: Plan, rounded: Plan, row_order: str) -> list[str]:
    """Report what rounding to whole blocks has changed, if it matters."""
    stored = f"the data are stored in blocks of {source.block_rows:,} rows"
    if rounded.steps[0].n_rows == plan.n_rows > plan.steps[0].n_rows:
        exact = "all rows were read and the result is exact"
        return [f"{exact}: {stored}, so reading fewer rows would save almost nothing."]
    taken, planned = format_share(rounded.fraction), format_share(plan.fraction)
    over_budget = rounded.cells > plan.cells and "budget" in dict(plan.parameters)
    if taken == planned or not (over_budget or rounded.cells > 1.5 * plan.cells):
        return []
    at_least = f", at least {MIN_BLOCKS}," if row_order == "blocks" else ""
    note = f"{stored}; reading whole blocks{at_least} takes {taken} of the cells instead of {planned}."
    return [note + ("" if source.shuffled else " Run `banditsis index` once to read less.")]


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
    steps = plan.n_steps * (STEPS_PER_EVIDENCE_STEP if plan.by_evidence else 1)
    steps += STEPS_PER_REREADING if n_reread else 0
    overhead = SECONDS_PER_STEP * steps + SECONDS_PER_ROW * n * passes + SECONDS_PER_FEATURE * p
    saved = source.bytes_touched(n, p, scattered=False) - touched
    return saved <= overhead * (source.bytes_per_second or source.bytes_per_thread)


def join_rows(rows: Rows, more: Rows) -> Rows:
    """The sorted union of disjoint rows.

    Examples
    --------
    >>> join_rows(slice(0, 3), slice(3, 5))
    slice(0, 5, None)
    >>> join_rows(np.array([1, 5]), np.array([0, 3]))
    array([0, 1, 3, 5])
    """
    if isinstance(rows, slice) and isinstance(more, slice):
        return slice(rows.start, more.stop)
    return np.sort(np.concatenate([rows, more]))


def draw_rows(
    n: int,
    totals: Sequence[int],
    order: str,
    random_state: int | np.random.Generator,
    *,
    lazy: bool = False,
    edges: Indices | None = None,
) -> Iterator[Rows]:
    """Yield the sorted rows that each step adds; after step l, ``totals[l]`` rows have been drawn.

    "random" draws one uniform sample without replacement and yields it piece by piece, so the rows up to any
    step are a uniform sample; ``lazy`` draws each piece when it is needed, which pays off if the run may end
    early. "blocks" does the same with whole blocks between ``edges``; the total may fall short by a few rows
    if the last block is short. "stored" takes the first rows.

    Examples
    --------
    >>> import numpy as np
    >>> [rows.tolist() for rows in draw_rows(10, [3, 5], "random", 0)]
    [[2, 4, 7], [3, 5]]
    >>> list(draw_rows(10, [3, 5], "stored", 0))
    [slice(0, 3, None), slice(3, 5, None)]
    >>> edges = np.array([0, 4, 8, 10])
    >>> [rows.tolist() for rows in draw_rows(10, [4, 8], "blocks", 0, edges=edges)]
    [[8, 9], [0, 1, 2, 3]]
    """
    if order == "stored" or totals[0] >= n:  # the order of all rows at once does not matter
        for start, stop in zip([0, *totals], totals, strict=False):
            yield slice(start, stop)
        return
    rng = np.random.default_rng(random_state)
    if order == "blocks":
        assert edges is not None
        yield from _draw_blocks(n, totals, rng, edges)
    else:
        draw = draw_lazily if lazy else draw_at_once
        yield from map(np.sort, draw(n, totals, rng))


def draw_at_once(n: int, totals: Sequence[int], rng: np.random.Generator) -> Iterator[Indices]:
    """Yield the rows that each step adds to one uniform sample, in any order."""
    everything = totals[0] >= n
    sample = np.arange(n) if everything else rng.choice(n, totals[-1], replace=False, shuffle=True)
    for start, stop in zip([0, *totals], totals, strict=False):
        yield sample[start:stop]


def _draw_blocks(
    n: int, totals: Sequence[int], rng: np.random.Generator, edges: Indices
) -> Iterator[Indices]:
    order = rng.permutation(len(edges) - 1)
    typical = np.median(np.diff(edges))
    before = 0
    for total in totals:
        after = len(order) if total >= n else max(before, min(len(order), int(np.ceil(total / typical))))
        chosen = np.sort(order[before:after])
        starts, lengths = edges[chosen], np.diff(edges)[chosen]
        offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        yield np.repeat(starts, lengths) + offsets
        before = after


def draw_lazily(n: int, totals: Sequence[int], rng: np.random.Generator) -> Iterator[Indices]:
    """As :func:`draw_at_once`, with the rows of each step drawn when they are needed."""
    drawn = np.empty(0, dtype=np.intp)
    for total in totals:
        n_new = total - len(drawn)
        if total > n // 4:
            unseen = np.ones(n, dtype=bool)
            unseen[drawn] = False
            new = rng.permutation(np.flatnonzero(unseen))[:n_new]
        else:
            new = _draw_unseen(n, n_new, drawn, rng)
        yield new
        drawn = np.union1d(drawn, new)


def _draw_unseen(n: int, size: int, drawn: Indices, rng: np.random.Generator) -> Indices:
    """Draw rows and reject those drawn before, at most one in four."""
    new = np.empty(0, dtype=np.intp)
    while len(new) < size:
        more = rng.integers(0, n, size=2 * (size - len(new)) + 16, dtype=np.intp)
        new = np.concatenate([new, more[~np.isin(more, drawn, kind="sort")]])
        _, first = np.unique(new, return_index=True)
        new = new[np.sort(first)]
    return new[:size]
