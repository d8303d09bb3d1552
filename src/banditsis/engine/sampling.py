"""Which rows a run reads: strata of rows made from the response, the plan, the row order, and the draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import SMALLEST, Array, Floats, Indices, Rows, as_indices, chunks, count_rows
from banditsis.core.formatting import format_share
from banditsis.core.parallel import map_in_threads
from banditsis.core.validation import check_guarantee_possible
from banditsis.index.sketch import plan_by_bits
from banditsis.plans import ORDINARY, Plan, SamplingDesign, change_rows, round_to_blocks
from banditsis.sources.base import Source
from banditsis.statistics.base import RowSizes, Statistic

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
N_STRATA = 8
#: Sizes of rows are grouped by their exponent and this many bits of the fraction, to within 1/32.
FRACTION_BITS = 5
#: From the largest size down to 2⁻⁴⁰ of it.
N_KEYS = 40 << FRACTION_BITS
#: Rows whose sizes are computed together.
ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Strata:
    """The stratum of each row, and how many rows a sample has of each stratum."""

    design: SamplingDesign
    codes: Array  #: the stratum of each row, as uint8
    #: the rows of the first stratum, in order, then those of the second, and so on; None if stored so
    rows: Array | None = None

    @classmethod
    def uniform(cls, n: int) -> Strata:
        """All rows in one stratum."""
        return cls(SamplingDesign.uniform(n), np.broadcast_to(np.uint8(0), n))

    @classmethod
    def by_size(cls, n: int, row_sizes: RowSizes, n_strata: int = N_STRATA) -> Strata:
        """Strata in which the sizes of rows have about equal sums, so each is worth as many rows.

        Outliers have strata of their own, in each of which the largest is at most about twice the smallest.
        So their samples grow with their share of the sum of squares, up to all of them.
        There are ``n_strata`` of them for the rows that are not outliers.
        """
        keys = np.empty(n, np.uint16)
        total = np.zeros((3, 1 << (11 + FRACTION_BITS)))

        def count_some(part: slice) -> tuple[slice, Floats]:
            some, sizes = np.zeros((3, N_KEYS)), np.ascontiguousarray(row_sizes(part))
            first = kernels.sorting.count_sizes(sizes, 52 - FRACTION_BITS, keys[part], some)
            return slice(first, first + N_KEYS), some

        parts = list(chunks(slice(0, n), ROWS_AT_ONCE))
        counted = map_in_threads(count_some, parts, 2)
        for used, some in counted:
            total[:, used] += some
        found = np.flatnonzero(total[0])
        count, sums, squares = total[:, found]
        limits = ((found + 1) << (52 - FRACTION_BITS)).view(np.float64)  # larger than all sizes with a key
        excess = limits / (ORDINARY * np.sqrt(squares.sum() / n) or np.inf)
        ordinary = np.where(excess > 1, 0.0, sums)
        middle = (np.cumsum(ordinary) - ordinary / 2) / max(ordinary.sum(), SMALLEST)
        stratum = np.minimum(n_strata * middle, n_strata - 1).astype(np.uint8)
        stratum[excess > 1] = n_strata + np.log2(excess[excess > 1]).astype(np.uint8)
        # Number the strata that have rows.
        labels, stratum = np.unique(stratum, return_inverse=True)
        counts = np.bincount(stratum, count)[: len(labels)]
        spreads = np.sqrt(np.bincount(stratum, squares)[: len(labels)] / counts)
        largest = limits[np.searchsorted(stratum, np.arange(len(labels)), "right") - 1]
        sizes = tuple(counts.astype(int).tolist())
        design = SamplingDesign(sizes, tuple(spreads.tolist()), tuple(largest.tolist()))
        code_of = np.zeros(total.shape[1], np.uint8)
        code_of[found] = stratum
        in_part = [np.bincount(code_of[used], some[0], len(labels)) for used, some in counted]
        # Where the rows of each part and stratum begin.
        starts = np.cumsum([np.cumsum(counts) - counts, *in_part[:-1]], axis=0).astype(np.uintp)
        codes, rows = np.empty(n, np.uint8), np.empty(n, np.uint32 if n < 1 << 32 else np.intp)

        def sort_some(number: int) -> None:
            part, sort = parts[number], kernels.sorting.sort_by_stratum
            sort(keys[part], code_of, part.start, starts[number], codes[part], rows)

        map_in_threads(sort_some, range(len(parts)), 2)
        return cls(design, codes, rows)

    @property
    def n_strata(self) -> int:
        """Number of strata."""
        return self.design.n_strata

    def group(self, rows: Rows) -> tuple[Rows, Indices]:
        """The rows of one stratum after the other, and the edges of these groups."""
        if self.n_strata == 1:
            return rows, np.array([0, count_rows(rows)])
        codes = self.codes[rows]
        grouped = as_indices(rows)[np.argsort(codes, kind="stable")]
        return grouped, np.cumsum([0, *np.bincount(codes, minlength=self.n_strata)])

    def weights(self, counts: Indices) -> Floats:
        """Weight of the rows of each stratum in a sample with these counts; the mean over the sample is 1."""
        shares = self.design.shares_of_rows
        return np.asarray(shares * (counts.sum() / np.maximum(counts, 1)))

    def is_uniform(self, counts: Indices) -> bool:
        """Whether a sample with these counts is like a uniform one: one stratum, or all rows."""
        return self.n_strata == 1 or bool((counts == self.design.sizes).all())

    def row_weights(self, rows: Rows) -> Floats | None:
        """Weights of the rows of a sample, with mean 1; None if there is one stratum."""
        if self.n_strata == 1:
            return None
        codes = self.codes[rows]
        return self.weights(np.bincount(codes, minlength=self.n_strata))[codes]

    def draw(
        self,
        totals: Sequence[int],
        order: str,
        random_state: int | np.random.Generator,
        *,
        lazy: bool = False,
        edges: Indices | None = None,
        stored: Sequence[int] = (),
    ) -> Iterator[Rows]:
        """Yield the sorted rows that each step adds; after step l, about ``totals[l]`` rows have been drawn.

        "random" draws rows without replacement, as many of each stratum as the design allocates, so those up
        to any step are a random sample; ``lazy`` draws those of a step when they are needed, which pays off
        if the run may end early. "blocks" draws whole blocks between ``edges``; the total may fall short by a
        few rows if the last block is short. "stored" takes the first rows of each stratum. If rows are stored
        in several parts of the sizes ``stored``, it takes the first rows of each part, a random number, so
        they are a uniform sample; several strata then have random rows.
        """
        design, rng = self.design, np.random.default_rng(random_state)
        if totals[0] >= design.n_rows or (order == "stored" and self.n_strata == 1 and not stored):
            yield from (slice(start, stop) for start, stop in zip([0, *totals], totals, strict=False))
            return
        if order == "blocks":
            assert edges is not None
            yield from _draw_blocks(totals, rng, edges)
            return
        sizes, counts = design.sizes, np.array([design.allocate(m) for m in totals])
        in_order = order == "stored" and (self.n_strata == 1 or not stored)
        if in_order and stored:  # as many rows of each part as a uniform sample has
            sizes, ends = tuple(stored), np.cumsum(stored)
            codes = np.searchsorted(ends, rng.choice(ends[-1], totals[-1], replace=False), "right")
            counts = np.array([np.bincount(codes[:m], minlength=len(ends)) for m in totals])
        streams = [rng] if len(sizes) == 1 else rng.spawn(len(sizes))
        parts = [
            _draw_stratum(*given, in_order, lazy)
            for given in zip(sizes, counts.T.tolist(), streams, strict=True)
        ]
        starts = np.cumsum([0, *sizes[:-1]])
        for step in zip(*parts, strict=True):
            places = np.concatenate([start + some for start, some in zip(starts, step, strict=True)])
            rows = places if self.rows is None else self.rows[places]
            yield np.sort(rows).astype(np.intp, copy=False)  # smaller integers are sorted faster


def _draw_stratum(
    n: int, totals: Sequence[int], rng: np.random.Generator, in_order: bool, lazy: bool
) -> Iterator[Indices]:
    """Yield the rows of n that each step adds to one uniform sample, in any order; or the first rows."""
    if lazy and not in_order:
        drawn = np.empty(0, dtype=np.intp)
        for total in totals:
            ranks = rng.choice(n - len(drawn), total - len(drawn), replace=False)  # among rows that are left
            new = ranks + np.searchsorted(drawn - np.arange(len(drawn)), ranks, "right")
            yield new
            drawn = np.sort(np.concatenate([drawn, new]))
        return
    everything = in_order or totals[0] >= n
    sample = np.arange(totals[-1]) if everything else rng.choice(n, totals[-1], replace=False)
    yield from (sample[start:stop] for start, stop in zip([0, *totals], totals, strict=False))


def _draw_blocks(totals: Sequence[int], rng: np.random.Generator, edges: Indices) -> Iterator[Indices]:
    """Yield the rows of the blocks that each step adds."""
    order = rng.permutation(len(edges) - 1)
    typical, before = np.median(np.diff(edges)), 0
    for total in totals:
        wanted = len(order) if total >= edges[-1] else int(np.ceil(total / typical))
        after = max(before, min(len(order), wanted))
        chosen = np.sort(order[before:after])
        starts, lengths = edges[chosen], np.diff(edges)[chosen]
        offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        yield np.repeat(starts, lengths) + offsets
        before = after


def join_rows(rows: Rows, more: Rows) -> Rows:
    """The sorted union of disjoint rows."""
    if isinstance(rows, slice) and isinstance(more, slice):
        return slice(rows.start, more.stop)
    return np.sort(np.concatenate([rows, more]))


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
