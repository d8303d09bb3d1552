"""Genotypes that are packed in bytes, as in a PLINK ``.bed`` file.

A byte has two bits for each of four samples, the first in the lowest bits: 0 for two copies of the counted
allele, 1 for a missing genotype, 2 for one copy and 3 for none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Columns, Floats, Indices, Rows, as_indices, count_rows
from banditsis.sources.base import Calibration
from banditsis.sources.blocks import BlockSource
from banditsis.sources.memmap import raise_if_shorter
from banditsis.statistics.moments import Weights

SAMPLES_AT_ONCE = 4 * 8192  # genotypes of one variant that a read of 8 KB returns
#: Samples, and at most so many variants, that are decoded for a matrix product: a block for the cache.
BLOCK_SAMPLES, BLOCK_VARIANTS = 5120, 64
#: OpenBLAS copies the factors of products with more multiplications, unless one is a vector.
SMALL_PRODUCT, MIN_VARIANTS = 1_000_000, 16
#: Rows are decoded together with those in between if these are at most as many times more.
MAX_SPAN = 8
WORD = 8  # bytes whose genotypes are counted at once
LOW_BITS = np.uint64(0x5555_5555_5555_5555)  # of each genotype
#: The number of each genotype, and those of the four genotypes of each byte.
NUMBERS = np.array([2, np.nan, 1, 0], np.float32)
SHIFTS = np.array([0, 2, 4, 6], np.uint8)
BYTE_NUMBERS = NUMBERS[np.arange(256)[:, None] >> SHIFTS & 3]
#: The same in float64, with 0 for missing genotypes.
BYTE_COPIES = np.nan_to_num(BYTE_NUMBERS.astype(np.float64))


class GenotypeSource(BlockSource):
    """Genotypes as counts of an allele: 0, 1, 2, or NaN if missing; they begin at ``offset`` of the file.

    The file stores variant after variant, so reading a few samples of a small file costs nearly as much as
    all. Sums are computed from the packed genotypes: those of a variant alone from its numbers of 0, 1, 2 and
    missing genotypes, and those with weights by matrix products of small decoded blocks in float64.
    """

    cells_at_once = 1 << 21  # 512 KB

    def __init__(self, path: Path, shape: tuple[int, int], offset: int, names: list[str]) -> None:
        n, p = shape
        self.path, self.shape, self.names, self.dtype = path, shape, names, np.dtype(np.float32)
        self.chunk = min(n, SAMPLES_AT_ONCE), 1
        self._map = np.memmap(path, np.uint8, "r", offset, (p, -(-n // 4)))
        self._packed = np.asarray(self._map)

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        self._check_size()
        columns = slice(0, self.shape[1]) if columns is None else columns
        if not isinstance(rows, slice):
            places = np.ix_(as_indices(columns), rows >> 2)
            codes = self._packed[places] >> (2 * (rows & 3)).astype(np.uint8) & 3
            return np.asarray(NUMBERS[codes].T)
        packed = self._packed[columns, rows.start // 4 : -(-rows.stop // 4)]
        block = np.empty((*packed.shape, 4), self.dtype)
        np.take(BYTE_NUMBERS, packed, axis=0, out=block, mode="clip")  # other modes use a buffer
        first = rows.start % 4
        return block.reshape(len(block), -1)[:, first : first + rows.stop - rows.start].T

    def calibrate(self, rows: Rows) -> Calibration:
        """Shift by a whole number of copies if all rows are read, so sums are integers."""
        if count_rows(rows) < self.shape[0]:  # sums of fourth powers need the mean
            return super().calibrate(rows)
        self._check_size()
        first = np.zeros((self.shape[1], WORD), np.uint8)
        n_bytes = min(WORD, self._packed.shape[1])
        first[:, :n_bytes] = self._packed[:, :n_bytes]
        missing, one, none = _count(first)
        n_present = 4 * n_bytes - missing
        shift = np.rint((2 * n_present - one - 2 * none) / np.maximum(n_present, 1)).astype(np.float32)
        return Calibration(shift, np.ones_like(shift))

    def _check_size(self) -> None:
        raise_if_shorter(self.path, self.path.stat().st_size, self._map.offset + self._map.nbytes)

    def _prepare_weights(self, rows: Rows, weights: Weights) -> Any:
        samples = as_indices(rows)
        is_dense = samples[-1] - samples[0] < MAX_SPAN * len(samples)
        return weights if weights.weighted or not is_dense else GenotypeWeights(samples, weights)

    def _add(
        self,
        rows: Rows,
        columns: Indices | slice,
        weights: Any,
        calibration: Calibration,
        out: Floats,
        start: int,
    ) -> None:
        if isinstance(weights, Weights):
            super()._add(rows, columns, weights, calibration, out, start)
            return
        self._check_size()
        packed = self._packed[columns, weights.start : weights.start + len(weights.mask)]
        shift = calibration.shift.astype(np.float64)  # the scale is always 1
        out[0, :, start : start + len(shift)] += weights.sums(packed, shift)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        return super().bytes_touched(n_rows, n_columns, scattered=scattered) / (4 * self.dtype.itemsize)


class GenotypeWeights:
    """The weights of some samples, with zeros for the samples in between that are left out."""

    def __init__(self, samples: Indices, weights: Weights) -> None:
        linear, presence = weights.linear, weights.presence
        values = linear if presence is None else np.column_stack([linear, presence])
        self.weights, self.totals = weights, values.sum(axis=0)
        self.start = int(samples[0]) // 4  # the first of the bytes that hold the samples
        places = samples - 4 * self.start
        n_places = -(-(int(places[-1]) + 1) // (4 * WORD)) * 4 * WORD
        bits = np.zeros(n_places, np.uint8)
        bits[places] = 3
        #: the bits of the samples that are not left out, in whole words
        self.mask = np.bitwise_or.reduce(bits.reshape(-1, 4) << SHIFTS, axis=1)
        #: the linear weights and, with pairwise deletion, what is summed over the present genotypes
        self.values = np.zeros((n_places, values.shape[1]))
        self.values[places] = values
        self.linear = np.ascontiguousarray(self.values[:, : linear.shape[1]])

    def sums(self, packed: Array, shift: Floats) -> Floats:
        """The lines of sums that :class:`Weights` lists; z is a number of copies less the shift."""
        w, n, q = self.weights, count_rows(self.weights.rows), self.weights.n_linear
        width = packed.shape[1]
        chosen = np.empty((len(packed), len(self.mask)), np.uint8)
        chosen[:, width:] = 0  # samples that are left out have two copies
        np.bitwise_and(packed, self.mask[:width], out=chosen[:, :width])
        missing, one, none = _count(chosen)
        two = n - missing - one - none
        present = np.repeat(self.totals[None], len(packed), axis=0)
        if w.n_presence and missing.any():
            kernels.cells.subtract_missing_genotypes(chosen, self.values, present)
        present = present.T
        sums = np.empty((w.n_lines, len(packed)))
        sums[0] = one + 2 * two - shift * (n - missing)
        sums[1 : q + 1] = _multiply(chosen, self.linear).T - shift * present[:q]
        sums[q + 1] = one * (1 - shift) ** 2 + two * (2 - shift) ** 2 + none * shift**2
        sums[q + 2 : q + 2 + w.n_presence] = present[q:]
        if w.fourth:
            sums[-1] = one * (1 - shift) ** 4 + two * (2 - shift) ** 4 + none * shift**4
        if not w.n_presence:
            sums[:, missing > 0] = np.nan
        return sums


def _count(packed: Array) -> tuple[Array, Array, Array]:
    """Numbers of missing genotypes, of one copy and of none, in each line."""
    words = packed.view(np.uint64)
    low, high, both = bits = np.empty((3, *words.shape), np.uint64)
    np.bitwise_and(words, LOW_BITS, out=low)
    np.bitwise_and(words >> np.uint64(1), LOW_BITS, out=high)
    np.bitwise_and(low, high, out=both)
    # Sums of 32 bits are faster than those of 64.
    n_low, n_high, n_both = np.bitwise_count(bits).sum(axis=2, dtype=np.uint32).astype(np.int64)
    return n_low - n_both, n_high - n_both, n_both


def _multiply(packed: Array, linear: Floats) -> Floats:
    """Products of the numbers of copies, 0 if missing, with the weights: shape (lines, weights)."""
    products = np.zeros((len(packed), linear.shape[1]))
    width = BLOCK_SAMPLES // 4
    for j in range(0, packed.shape[1], width):
        weights = linear[4 * j : 4 * (j + width)]
        height = min(BLOCK_VARIANTS, SMALL_PRODUCT // weights.size)
        height = BLOCK_VARIANTS if height < MIN_VARIANTS else height
        block = np.empty((height, len(weights) // 4, 4))
        for i in range(0, len(packed), height):
            here = packed[i : i + height, j : j + width]
            copies = block[: len(here)]
            BYTE_COPIES.take(here, 0, copies, "clip")  # other modes use a buffer
            products[i : i + height] += np.dot(copies.reshape(len(here), -1), weights)  # `@` keeps the GIL
    return products
