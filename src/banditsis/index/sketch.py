"""The bits of an index: what they say about products of features with any columns.

In each block of rows, a feature z is centred and rotated at random. Its product with a query q, rotated
alike, is estimated by ``Σz² / Σ|z| · Σ sign(z) q``. The page :doc:`/indexes` derives the variance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby, product
from typing import Any, NamedTuple

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Floats, Indices
from banditsis.core.parallel import Workers, map_in_threads
from banditsis.plans import ALL_ROWS_READ, BY_BITS, Plan
from banditsis.sources.base import Source
from banditsis.sources.views import Subset
from banditsis.statistics.base import Statistic
from banditsis.statistics.linear import LinearStatistic

#: Rows of a block, of the smallest full one, and of the smallest.
BLOCK, SMALL_BLOCK, WORD = 1 << 13, 1 << 10, 64
N_MOMENTS, WIDTH, QUERY_BITS = 5, 16, 4  # of the kernels, which are not imported to read a folder
COLUMNS_AT_ONCE = 8 * WIDTH  # that one thread encodes
BYTES_AT_ONCE = 1 << 28  # of bits that threads share before they wait for each other
#: Features whose bits are used together: for few queries a long run of them, which memory delivers faster,
#: and for many queries those that stay in the cache.
FEW_QUERIES, LONG_RUN, SHORT_RUN = 4, 1 << 13, 1 << 8


class Block(NamedTuple):
    """Rows that are rotated together, filled with zeros to a size."""

    number: int
    start: int
    stop: int
    size: int
    #: lines of its bits and of its moments
    words: slice
    moments: slice

    @property
    def n_rows(self) -> int:
        return self.stop - self.start


def make_blocks(n: int) -> list[Block]:
    """Divide n rows into blocks of a power of two; only the last one is filled up."""
    blocks, start, word = list[Block](), 0, 0
    while start < n:
        left, k = n - start, len(blocks)
        size = min(BLOCK, 1 << (left.bit_length() - 1))
        if left < SMALL_BLOCK:  # the last block
            size = max(WORD, 1 << (left - 1).bit_length())
        words, moments = slice(word, word + size // WORD), slice(N_MOMENTS * k, N_MOMENTS * (k + 1))
        blocks.append(Block(k, start, min(n, start + size), size, words, moments))
        start, word = start + size, words.stop
    return blocks


def draw_signs(seed: int, block: Block) -> Array:
    """The signs before both rotations of a block, shape (2, size): the same in every version of NumPy."""
    words = np.random.PCG64([seed, block.number]).random_raw(2 * block.size // WORD)
    bits = np.unpackbits(words.astype("<u8").view(np.uint8)).reshape(2, block.size)
    return 2 * bits.astype(np.float32) - 1


def encode_panel(columns: Array, blocks: Sequence[Block], seed: int, code: Array, moments: Floats) -> None:
    """Fill the bits (words, features) and moments (5 × blocks, features) of some features, one a line."""

    def encode_some(piece: tuple[Block, int]) -> None:
        block, first = piece
        signs = draw_signs(seed, block)
        for low in range(first, min(first + COLUMNS_AT_ONCE, len(columns)), WIDTH):
            part = slice(low, low + WIDTH)
            cells = columns[part, block.start : block.stop]
            cells = cells.astype(np.float32) if cells.dtype == np.float16 else cells
            bits = np.empty((block.size // WORD, len(cells)), np.uint64)
            found = np.empty((N_MOMENTS, len(cells)))
            kernels.bits.encode(cells, signs, bits, found)
            code[block.words, part], moments[block.moments, part] = bits, found

    map_in_threads(encode_some, product(blocks, range(0, len(columns), COLUMNS_AT_ONCE)))


class Part(NamedTuple):
    """The bits of one folder."""

    bits: Source
    moments: Source
    seed: int
    n_rows: int


class Estimates(NamedTuple):
    """What bits say about all features, by feature in the last dimension."""

    #: Σ x·q for each query, and the variances of its errors
    products: Floats
    variances: Floats
    #: exact Σ(x - mean)²; infinite if out of range, where products are unknown, NaN if a cell is infinite
    squares: Floats
    #: number of missing cells
    missing: Floats


class Sketch:
    """The bits of all features in one or several folders, whose rows follow each other, or of some."""

    def __init__(self, parts: Sequence[Part], columns: Indices | None = None) -> None:
        self.parts, self.columns = parts, columns
        self._blocks, self._n_rows = list[tuple[Part, Block]](), 0
        for part in parts:
            for block in make_blocks(part.n_rows):
                moved = block._replace(start=self._n_rows + block.start, stop=self._n_rows + block.stop)
                self._blocks.append((part, moved))
            self._n_rows += part.n_rows

    def estimate(
        self, compute: Callable[[slice], Floats], workers: Workers, tick: Callable[[int], None]
    ) -> Estimates:
        """Estimate the products of all features with the columns that ``compute`` returns for rows.

        The columns must have mean 0 over all rows. ``tick`` is called with numbers of rows.
        """
        queries = self._rotate(compute)
        m, p = len(queries[0][0]), self.parts[0].bits.shape[1]
        shift = _read(self.parts[0].moments, slice(0, 1))[0].copy()
        shift[~np.isfinite(shift)] = 0.0
        run = LONG_RUN if m < FEW_QUERIES else SHORT_RUN
        out, width = np.zeros((2 * m + 4, p)), max(min(run, 1 << 10), -(-p // workers.n_jobs))
        step = max(1, BYTES_AT_ONCE // (BLOCK // 8 * p))

        def add(group: Sequence[tuple[Any, ...]], start: int) -> None:
            columns = start, min(start + width, p)
            for given in group:
                kernels.bits.add_block(*given[:2], shift, columns, *given[2:], run, out)

        for first in range(0, len(queries), step):
            some = self._blocks[first : first + step]
            group = [
                (_read(part.bits, block.words), _read(part.moments, block.moments), block.n_rows, *query)
                for (part, block), query in zip(some, queries[first : first + step], strict=True)
            ]
            workers.run((add, group, start) for start in range(0, p, width))
            tick(sum(block.n_rows for _, block in some))
        first, second, squares, missing = out[2 * m :]
        with np.errstate(over="ignore", invalid="ignore"):
            between = second - first * (first / np.maximum(self._n_rows - missing, 1.0))
            squares = squares + np.maximum(between, 0.0)
        squares = np.where(np.isfinite(first), np.nan_to_num(squares, nan=np.inf, posinf=np.inf), np.nan)
        # Rows that two folders with one seed share have the same error, so variances do not simply add up.
        out[m : 2 * m] *= max(Counter(part.seed for part in self.parts).values())
        out[:m, np.isinf(squares)], out[m : 2 * m, np.isinf(squares)] = 0.0, np.inf
        found = Estimates(out[:m], out[m : 2 * m], squares, missing)
        return found if self.columns is None else Estimates(*(values[..., self.columns] for values in found))

    def _rotate(self, compute: Callable[[slice], Floats]) -> list[tuple[Array, Floats]]:
        """Rotate the queries as the features of each block, and round them, as ``add_block`` takes them."""

        def rotate(some: list[tuple[Part, Block]]) -> list[tuple[Array, Floats]]:
            values = compute(slice(some[0][1].start, some[-1][1].stop))
            values = np.ascontiguousarray(values).reshape(len(some), -1, m)
            planes = np.zeros((len(some), m, QUERY_BITS, some[0][1].size // WORD), np.uint64)
            numbers = np.empty((len(some), m, 6))
            signs = np.stack([draw_signs(part.seed, block) for part, block in some])
            kernels.bits.round_queries(values, signs, planes, numbers)
            return list(zip(planes, numbers, strict=True))

        m, groups = compute(slice(0, 1)).shape[1], list[list[tuple[Part, Block]]]()
        size = max(1, WIDTH // max(m, 1))
        for _, alike in groupby(self._blocks, lambda given: (given[1].n_rows, given[1].size)):
            some = list(alike)
            groups += [some[k : k + size] for k in range(0, len(some), size)]
        return [query for found in map_in_threads(rotate, groups) for query in found]


def _read(array: Source, lines: slice) -> Array:
    return np.ascontiguousarray(array.read(lines, slice(0, array.shape[1])))


def find_sketch(source: Source) -> Sketch | None:
    """The bits of the features of an index, or of some of them; None for other sources."""
    if isinstance(source, Subset) and source.rows is None and (sketch := find_sketch(source.base)):
        columns = source.columns if sketch.columns is None else sketch.columns[source.columns]
        return Sketch(sketch.parts, columns)
    return getattr(source, "sketch", None)


def plan_by_bits(
    source: Source, statistic: Statistic, plan: Plan, settings: Any
) -> tuple[Plan | None, list[str]]:
    """The plan that reads the bits of an index, if it is asked for or left open; else None, and why."""
    (n, p), asked = source.shape, plan.name == BY_BITS
    is_open = (plan.why_exact, settings.row_order) == (ALL_ROWS_READ, "auto")
    if not asked and not (is_open and settings.sampling != "stratified" and source.shuffled):
        return None, []
    made = plan if asked else Plan.index(n, p, plan.n_keep)
    if not asked and 2 * made.steps[0].n_keep > p:
        return None, []
    if find_sketch(source) is None:
        reason = "the bits of an index are for all rows of its plain features"
    elif not isinstance(statistic, LinearStatistic) or statistic.layout.weighted:
        given = " with covariates" if statistic.rank else ""
        what = f"{statistic.name!r}{given}" if statistic.sample_weight is None else "sample weights"
        reason = f"the bits of the index do not support {what}"
    else:
        return made, []
    if asked:
        raise ValueError(f"{reason}: use another plan than Plan.index.")
    return None, [f"{reason}: its rows were sampled instead."]
