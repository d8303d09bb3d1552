"""Weights, responses and scores in the memory of a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Self

import numpy as np

from banditsis.core.arrays import Floats, Indices, Rows, chunks, count_rows, take
from banditsis.core.parallel import map_in_threads
from banditsis.sources.base import WeightFunction
from banditsis.sources.gpu.device import (
    PINNED_CELLS,
    PRODUCT_CELLS,
    explain_lack_of_memory,
    import_cupy,
    to_pinned,
)
from banditsis.statistics.base import Weights, ratio
from banditsis.statistics.families import Pearson

#: Weights that a thread computes at once.
WEIGHTS_OF_THREAD = 1 << 17
#: So many features are scored on the GPU; the host takes less time for fewer.
MANY_FEATURES = 1 << 17


def make_matrices(weights: Weights) -> tuple[Floats, Floats | None, Floats | None]:
    """Weights of cells, those of their presence if some are missing, and those of squares if they differ.

    The weights of rows come first among those of cells, unless all are 1.
    """
    if weights.v is None:
        return weights.linear, weights.presence, None
    return weights.padded(np.dtype(np.float64)), weights.presence, weights.v[:, None]


def place_matrices(rows: Rows, weights: WeightFunction, dtype: np.dtype) -> list[Any]:
    """The matrices of the weights of some rows, which threads compute."""
    statistic = getattr(weights, "__self__", None)
    if isinstance(statistic, GpuPearson) and isinstance(rows, slice):
        return [statistic.scaled_on_gpu(rows, dtype), None, None]
    n, first = count_rows(rows), make_matrices(weights(take(rows, 0, 1)))
    filled = [None if matrix is None else np.empty((n, matrix.shape[1]), dtype) for matrix in first]
    step = max(1, WEIGHTS_OF_THREAD // first[0].shape[1])

    def fill(start: int) -> None:
        part = take(rows, start, start + step)
        for out, matrix in zip(filled, make_matrices(weights(part)), strict=True):
            if out is not None:
                out[start : start + step] = matrix

    map_in_threads(fill, range(0, n, step))
    return [None if matrix is None else import_cupy().asarray(matrix) for matrix in filled]


class GpuPearson(Pearson):
    """Pearson correlation with responses on a GPU, which passes over all rows read there.

    In an exact run, many features are also scored there.
    """

    _has_own_scores = False
    #: the responses again
    on_gpu: Any

    def subset(self, responses: Sequence[int]) -> Self:
        return super().subset(responses).copy_with(on_gpu=self.on_gpu[:, list(responses)])

    def scaled_on_gpu(self, rows: slice, dtype: np.dtype) -> Any:
        """As :meth:`scaled`, in the memory of the GPU."""
        cupy, both = import_cupy(), (self.scale, self.centre * self.scale)
        one = self.n_responses == 1  # two numbers need not be copied
        scale, shift = (a.item() for a in both) if one else cupy.asarray(np.stack(both))
        z = cupy.empty((count_rows(rows), self.n_responses), dtype)
        return _scaling()(self.on_gpu[rows], scale, shift, z)

    def find_ends(self, rows: Rows) -> tuple[Floats, Floats]:
        if not isinstance(rows, slice) or self.n_responses == 1:  # which the host reads faster
            return super().find_ends(rows)
        cupy, y = import_cupy(), self.on_gpu[rows]
        with y.device:
            low, high = cupy.stack([y.min(axis=0), y.max(axis=0)]).get().astype(np.float64)
        return low, high

    def make_sums(self, n_strata: int, n_features: int) -> Any:
        if self.evidence or self.n_responses > 1 or n_features < MANY_FEATURES:
            return super().make_sums(n_strata, n_features)
        cupy, shape = import_cupy(), (n_strata, self.n_sums, n_features)
        with self.on_gpu.device, explain_lack_of_memory(cupy, 8 * math.prod(shape)):
            return cupy.zeros(shape)

    def find_nonfinite(self, sums: Any) -> Indices:
        if isinstance(sums, np.ndarray):
            return super().find_nonfinite(sums)
        cupy = import_cupy()
        with sums.device:
            if np.isfinite(float(sums.sum())):
                return np.arange(0)
            return np.asarray(cupy.flatnonzero(~cupy.isfinite(sums).all(axis=0)).get())

    def scores_at_once(self, sums: Any) -> int:
        return super().scores_at_once(sums) if isinstance(sums, np.ndarray) else PINNED_CELLS

    def scores(self, sums: Any, summary: Floats, response: int, columns: Indices | slice) -> Floats:
        if isinstance(sums, np.ndarray):
            return super().scores(sums, summary, response, columns)
        n, sy, spread = self._response(summary, response)
        with sums.device:
            lines = [sums[line, columns] for line in (0, 1 + response, self.layout.squares)]
            return to_pinned(_correlation()(*lines, n, sy / n, spread))

    def _response(self, summary: Floats, response: int) -> tuple[float, float, float]:
        """n, Σy and √Σ(y - ȳ)² of a scaled response."""
        n, _, sy, syy = summary[:, response].tolist()
        return n, sy, math.sqrt(max(syy - sy * (sy / n), 0.0))

    def effect_factors(
        self, sums: Any, summary: Floats, response: int, columns: Indices | slice, scale: Floats
    ) -> Floats | None:
        if isinstance(sums, np.ndarray):
            return super().effect_factors(sums, summary, response, columns, scale)
        n, _, spread_y = self._response(summary, response)
        with sums.device:  # the first line is Σz, the last Σz²
            sx, sxx = sums[:: len(sums) - 1, import_cupy().asarray(columns)].get()
        spread_x = np.sqrt(np.maximum(sxx - sx * (sx / n), 0.0))
        factors = ratio(np.full_like(spread_x, spread_y), spread_x)
        return np.asarray(factors * scale / self.scale[response])

    def powers(self, rows: Rows, n_powers: int) -> Floats:
        if not isinstance(rows, slice) or self.n_responses == 1:
            return super().powers(rows, n_powers)
        with self.on_gpu.device:
            total = import_cupy().zeros((n_powers, self.n_responses))
            for part in chunks(rows, max(1, PRODUCT_CELLS // self.n_responses)):
                y = self.scaled_on_gpu(part, np.dtype(np.float64))
                power = y
                for line in total:
                    line += power.sum(axis=0)
                    power = power * y
            return np.asarray(total.get())


@cache
def _scaling() -> Any:
    """A kernel that scales and shifts in double precision."""
    operation = "z = (double)y * scale - shift"
    return import_cupy().ElementwiseKernel("T y, float64 scale, float64 shift", "Z z", operation, "scale")


@cache
def _correlation() -> Any:
    """A kernel that does the same as ``kernels.scores.correlate``."""
    given = "float64 sx, float64 sxy, float64 sxx, float64 n, float64 mean_y, float64 spread_y"
    operation = """
        double spread = sqrt(max(sxx - sx * (sx / n), 0.0)) * spread_y;
        r = spread > 0 ? min(max((sxy - sx * mean_y) / spread, -1.0), 1.0) : 0.0;
    """
    return import_cupy().ElementwiseKernel(given, "float64 r", operation, "correlate")
