"""Strata of rows made from the response, and the rows that each step reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import SMALLEST, Array, Floats, Indices, Rows, as_indices, chunks, count_rows
from banditsis.core.parallel import map_in_threads
from banditsis.plans import ORDINARY, SamplingDesign
from banditsis.statistics.base import RowSizes

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
    #: the stratum of each row, as uint8
    codes: Array
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
        design = SamplingDesign(
            tuple(counts.astype(int).tolist()), tuple(spreads.tolist()), tuple(largest.tolist())
        )
        code_of = np.zeros(total.shape[1], np.uint8)
        code_of[found] = stratum
        in_part = [np.bincount(code_of[used], some[0], len(labels)) for used, some in counted]
        # Where the rows of each part and stratum begin.
        starts = np.cumsum([np.cumsum(counts) - counts, *in_part[:-1]], axis=0).astype(np.uintp)
        codes, rows = np.empty(n, np.uint8), np.empty(n, np.uint32 if n < 1 << 32 else np.intp)

        def sort_some(number: int) -> None:
            part = parts[number]
            kernels.sorting.sort_by_stratum(
                keys[part], code_of, part.start, starts[number], codes[part], rows
            )

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

        Examples
        --------
        >>> rows = Strata.uniform(10)
        >>> [some.tolist() for some in rows.draw([3, 5], "random", 0)]
        [[2, 4, 7], [3, 5]]
        >>> list(rows.draw([3, 5], "stored", 0))
        [slice(0, 3, None), slice(3, 5, None)]
        >>> [some.tolist() for some in rows.draw([4, 8], "blocks", 0, edges=np.array([0, 4, 8, 10]))]
        [[8, 9], [0, 1, 2, 3]]
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
