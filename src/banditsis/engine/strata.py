"""Strata of rows made from the response, and samples of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import (
    SMALLEST,
    Array,
    Floats,
    Indices,
    Rows,
    as_indices,
    as_slice,
    chunks,
    count_rows,
    take,
)
from banditsis.core.parallel import map_in_threads
from banditsis.engine.sampling import draw_at_once, draw_lazily, reads_rows_cheaply
from banditsis.plans.design import ORDINARY, SamplingDesign
from banditsis.sources.base import Source
from banditsis.statistics.base import RowSizes, Statistic

N_STRATA = 8
#: Sizes of rows are grouped by their exponent and this many bits of the fraction, to within 1/32.
FRACTION_BITS = 5
#: From the largest size down to 2⁻⁴⁰ of it.
N_KEYS = 40 << FRACTION_BITS
#: Rows whose sizes are computed together.
ROWS_AT_ONCE = 1 << 16
#: Rows of a stratum that a first step has on average; fewer could not represent it.
MIN_ROWS_PER_STRATUM = 2
#: Strata pay if a sample needs at most this share of the rows of a uniform one.
MAX_DESIGN_EFFECT = 0.95


class Strata:
    """The stratum of each row, and how many rows a sample has of each stratum.

    Parameters
    ----------
    design : SamplingDesign
        Sizes of the strata, and the allocation.
    codes : ndarray of uint8
        Stratum of each row.
    rows : ndarray of int, optional
        The rows of the first stratum, in order, then those of the second, and so on; by default they are
        stored so.
    """

    def __init__(self, design: SamplingDesign, codes: Array, rows: Array | None = None) -> None:
        self.design, self.codes, self._rows = design, codes, rows

    @classmethod
    def uniform(cls, n: int) -> Strata:
        """All rows in one stratum."""
        return cls(SamplingDesign.uniform(n), np.broadcast_to(np.uint8(0), n))

    @classmethod
    def by_size(cls, n: int, row_sizes: RowSizes, n_strata: int = N_STRATA) -> Strata:
        """Strata in which the sizes of rows have about equal sums, so each is worth as many rows.

        Outliers have strata of their own, in each of which the largest is at most about twice the smallest.
        So their samples grow with their share of the sum of squares, up to all of them.

        Parameters
        ----------
        n : int
            Number of rows.
        row_sizes : RowSizes
            See :meth:`Statistic.row_sizes`.
        n_strata : int
            Number of strata for the rows that are not outliers.
        """
        keys = np.empty(n, np.uint16)
        total = np.zeros((3, 1 << (11 + FRACTION_BITS)))
        values, *line = row_sizes

        def count_some(part: slice) -> tuple[slice, Floats]:
            some, given = np.zeros((3, N_KEYS)), np.ascontiguousarray(values(part))
            first = kernels.strata.count(given, *line, 52 - FRACTION_BITS, keys[part], some)
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
            kernels.strata.sort(keys[part], code_of, part.start, starts[number], codes[part], rows)

        map_in_threads(sort_some, range(len(parts)), 2)
        return cls(design, codes, rows)

    @classmethod
    def stored(cls, sizes: Sequence[int], row_sizes: RowSizes) -> Strata:
        """Strata of the given sizes that are stored one after the other."""
        edges = np.cumsum([0, *sizes])
        spreads, largest = [], []
        for start, stop in pairwise(edges.tolist()):
            parts = (row_sizes(part) for part in chunks(slice(start, stop)))
            squares, ends = zip(*((np.square(part).sum(), part.max()) for part in parts), strict=True)
            spreads.append(float(np.sqrt(sum(squares) / (stop - start))))
            largest.append(float(max(ends)))
        codes = np.repeat(np.arange(len(sizes), dtype=np.uint8), sizes)
        return cls(SamplingDesign(tuple(sizes), tuple(spreads), tuple(largest)), codes)

    @property
    def n_strata(self) -> int:
        """Number of strata."""
        return self.design.n_strata

    def for_guarantee(self) -> Strata:
        """The same strata with more of the outliers in a sample."""
        return Strata(replace(self.design, guaranteed=True), self.codes, self._rows)

    @property
    def may_miss_outliers(self) -> bool:
        """Whether the response may have outliers, and a sample none of them."""
        return self.n_strata == 1 or bool(self.design.has_outliers.any())

    def is_worthwhile(self, n_rows: int) -> bool:
        """Whether a first step of this many rows is large enough, and more precise than a uniform one."""
        enough = n_rows >= MIN_ROWS_PER_STRATUM * self.n_strata
        return enough and n_rows <= MAX_DESIGN_EFFECT * self.design.effective_rows(n_rows)

    def group(self, rows: Rows) -> tuple[Rows, Indices]:
        """The rows of one stratum after the other, and the edges of these groups."""
        if self.n_strata == 1:
            return rows, np.array([0, count_rows(rows)])
        codes = self.codes[rows]
        grouped = as_indices(rows)[np.argsort(codes, kind="stable")]
        return grouped, np.cumsum([0, *np.bincount(codes, minlength=self.n_strata)])

    def split(self, rows: Rows) -> list[Rows]:
        """The rows of each stratum, as a slice if they are consecutive."""
        grouped, edges = self.group(rows)
        return [as_slice(take(grouped, start, stop)) for start, stop in pairwise(edges.tolist())]

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

    def unread_shares(self, rows: Rows) -> Floats | None:
        """For each row of a sample, the share of its stratum that was not read; None if there is one."""
        if self.n_strata == 1:
            return None
        codes = self.codes[rows]
        return np.asarray(1 - np.bincount(codes, minlength=self.n_strata) / self.design.sizes)[codes]

    def draw(
        self, totals: Sequence[int], order: str, rng: np.random.Generator, *, lazy: bool
    ) -> Iterator[Indices]:
        """Yield the sorted rows that each step adds; see :func:`~banditsis.engine.sampling.draw_rows`.

        In the order "stored" the first rows of each stratum are read.
        """
        counts = [self.design.allocate(m) for m in totals]
        if order == "stored":
            for first in read_first(self.design.sizes, counts):
                yield first if self._rows is None else np.sort(self._rows[first].astype(np.intp))
            return
        draw = draw_lazily if lazy else draw_at_once
        draws = [
            draw(size, stratum_totals, stream)
            for size, stratum_totals, stream in zip(
                self.design.sizes, np.array(counts).T.tolist(), rng.spawn(self.n_strata), strict=True
            )
        ]
        assert self._rows is not None
        starts = np.cumsum([0, *self.design.sizes[:-1]])
        for step in zip(*draws, strict=True):
            places = [start + some for start, some in zip(starts, step, strict=True)]
            rows = self._rows[np.concatenate(places)].astype(np.intp)
            rows.sort()
            yield rows


def read_first(sizes: Sequence[int], counts: Iterable[Indices]) -> Iterator[Indices]:
    """Yield the rows that each step adds if the first rows of each stored stratum are read.

    Examples
    --------
    >>> [rows.tolist() for rows in read_first([5, 3], [np.array([2, 1]), np.array([3, 3])])]
    [[0, 1, 5], [2, 6, 7]]
    """
    start = np.cumsum([0, *sizes[:-1]])
    before = np.zeros_like(start)
    for after in counts:
        yield np.concatenate([np.arange(a, b) for a, b in zip(start + before, start + after, strict=True)])
        before = after


def draw_counts(sizes: Indices, m: int, rng: np.random.Generator) -> Indices:
    """Rows of each stratum in a uniform sample of m rows: a multivariate hypergeometric draw.

    That of NumPy raises an error for 10^9 rows or more. Here every row is drawn with probability m/n, which
    is a binomial draw for each stratum. Then the surplus of about √m rows is removed, or the missing rows are
    added, one by one.

    Examples
    --------
    >>> draw_counts(np.array([7 * 10**9, 3 * 10**9]), 1000, np.random.default_rng(0)).tolist()
    [709, 291]
    """
    drawn = rng.binomial(sizes, m / max(1, sizes.sum()))
    missing = m - int(drawn.sum())
    pool = sizes - drawn if missing > 0 else drawn
    moved = rng.choice(pool.sum(), abs(missing), replace=False)
    counts = np.bincount(np.searchsorted(np.cumsum(pool), moved, "right"), minlength=len(sizes))
    return np.asarray(drawn + (counts if missing > 0 else -counts))


def draw_uniformly(
    sizes: Sequence[int], totals: Sequence[int], rng: np.random.Generator
) -> Iterator[Indices]:
    """Yield the rows that each step adds to a uniform sample of rows that are stored by stratum."""
    drawn = np.zeros(len(sizes), np.intp)
    counts = [
        drawn := drawn + draw_counts(sizes - drawn, total - before, rng)
        for before, total in pairwise([0, *totals])
    ]
    yield from read_first(sizes, counts)


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
