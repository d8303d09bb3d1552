"""An array in the memory of a GPU as a source."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import (
    Array,
    Columns,
    Indices,
    Rows,
    as_indices,
    chunks,
    count_rows,
    spread,
    take,
)
from banditsis.sources.array import array_bytes, check_names
from banditsis.sources.base import (
    PILOT_ROWS,
    Calibration,
    Source,
    SumContext,
    WeightFunction,
    calibrate,
    summing_dtype,
)
from banditsis.sources.gpu.device import (
    PRODUCT_CELLS,
    PRODUCT_ROWS,
    add_sums,
    explain_lack_of_memory,
    find_kernel,
    from_device,
    import_cupy,
    launch,
    to_pinned,
)
from banditsis.sources.gpu.weights import GpuPearson, make_matrices, place_matrices
from banditsis.statistics.base import Statistic, Weights
from banditsis.statistics.families import Pearson

#: Names of the types of cells in CUDA, and how many cells a thread loads at once.
CUDA_TYPES = {
    "float64": ("double", 2),
    "float32": ("float", 4),
    "float16": ("__half", 8),
    "int64": ("long long", 2),
    "uint64": ("unsigned long long", 2),
    "int32": ("int", 4),
    "uint32": ("unsigned int", 4),
    "int16": ("short", 4),
    "uint16": ("unsigned short", 4),
    "int8": ("signed char", 4),
    "uint8": ("unsigned char", 4),
    "bool": ("unsigned char", 4),
}
# Threads of a block, its rows and columns: as in kernels/moments.cu.
THREADS, TALL, WARP, WIDE = 128, 4, 32, 2
#: Blocks that keep every multiprocessor busy to the end, and rows of a piece, which have partial sums.
N_BLOCKS, MIN_PIECE, MAX_PIECE = 1 << 14, 64, 1 << 16
#: Weights that are on the GPU at once.
MAX_WEIGHTS = 1 << 27


class Pieces(NamedTuple):
    """Rows of a pass, cut into pieces that blocks of threads sum."""

    #: where pieces begin among the rows, and where the last one ends
    edges: Indices
    #: where strata begin among the pieces, and where the last one ends
    strata: Sequence[int]

    @classmethod
    def cut(cls, edges: Sequence[int], n_columns_of_block: int, p: int) -> Pieces:
        """Cut each stratum into pieces of equal length, whose sums fit in memory.

        They depend on the shape alone, so the sums are always added in the same order.

        Examples
        --------
        >>> Pieces.cut([0, 100, 100, 160], 128, 1000)
        Pieces(edges=array([  0,  64, 100, 160]), strata=[0, 2, 2, 3])
        """
        n_strips = -(-p // n_columns_of_block)
        height = min(max(edges[-1] * n_strips // N_BLOCKS, MIN_PIECE), MAX_PIECE)
        starts = [np.arange(a, b, height, dtype=np.int64) for a, b in pairwise(edges)]
        strata = list(accumulate(map(len, starts), initial=0))
        return cls(np.concatenate([*starts, np.array(edges[-1:], np.int64)]), strata)


class GpuSource(Source):
    """A two-dimensional array in the memory of a GPU, used without a copy.

    A fused kernel reads each cell once and gives Σz, Σzw and Σz² in float64. Several weights and
    missing values take matrix products besides. Only sums, and cells that ranks or distances need, are copied
    to the host.

    Parameters
    ----------
    data : array of shape (n, p)
        A CuPy array, or any other on a CUDA device that supports DLPack.
    names : sequence of str, optional
        Names of the columns.
    """

    bytes_per_second = 3e12

    def __init__(self, data: Any, names: Sequence[str] | None = None) -> None:
        self.array = from_device(data)
        if self.array.ndim != 2:
            raise ValueError(
                f"X must have two dimensions, rows × features, got {self.array.ndim}; "
                "reshape a single feature with X.reshape(-1, 1)."
            )
        self.dtype = np.dtype(self.array.dtype)
        if self.dtype.name not in CUDA_TYPES:
            raise TypeError(f"X must hold real numbers, got dtype {self.dtype}: convert it to float32.")
        self.shape = self.array.shape
        self.names = check_names(names, self.shape[1])
        self._stride = tuple(step // self.dtype.itemsize for step in self.array.strides)
        self.by_row = abs(self._stride[0]) >= abs(self._stride[1])
        self._summing_dtype = summing_dtype(self.dtype)
        #: names of both types in CUDA, and how many cells a thread loads at once
        self._types = [CUDA_TYPES[dtype.name][0] for dtype in (self.dtype, self._summing_dtype)]
        self._n_together = CUDA_TYPES[self.dtype.name][1]
        self._calibration: tuple[Calibration, Any, Any] | None = None

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        with self.array.device:
            return np.asarray(self.read_on_device(rows, columns).get())

    def read_on_device(self, rows: Rows, columns: Columns | slice) -> Any:
        """As :meth:`read`, but the block stays on the GPU."""
        cupy, columns = import_cupy(), slice(None) if columns is None else columns
        with self.array.device:
            rows, columns = (k if isinstance(k, slice) else cupy.asarray(k) for k in (rows, columns))
            if isinstance(rows, slice) or isinstance(columns, slice):
                return self.array[rows, columns]
            return self.array[rows[:, None], columns]

    def read_columns(self, rows: Rows, columns: Indices) -> Sequence[Array]:
        with self.array.device:
            lines = import_cupy().ascontiguousarray(self.read_on_device(rows, columns).T)
            return list(to_pinned(lines))

    def place(self, statistic: Statistic) -> Statistic:
        if (
            type(statistic) is not Pearson
            or statistic.rank
            or statistic.layout.weighted
            or statistic.pairwise
        ):
            return statistic
        cupy, kind = import_cupy(), statistic.y.dtype.kind
        with self.array.device:
            on_gpu = cupy.asarray(statistic.y if kind == "f" else statistic.y.astype(np.float64))
        return GpuPearson(statistic.y, False).copy_with(on_gpu=on_gpu)

    def calibrate(self, rows: Rows) -> Calibration:
        found = calibrate(self, rows, spread(rows, PILOT_ROWS), self._summing_dtype)
        return found if self.dtype.kind == "f" else Calibration(np.rint(found.shift), found.scale)

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        self.sums_by_stratum([rows], columns, weights, context._replace(out=context.out[None]))

    def sums_by_stratum(
        self, strata: Sequence[Rows], columns: Columns, weights: WeightFunction, context: SumContext
    ) -> None:
        cupy = import_cupy()
        rows = strata[0] if len(strata) == 1 else np.concatenate([as_indices(part) for part in strata])
        edges = list(accumulate(map(count_rows, strata), initial=0))  # faster than short arrays
        kind = weights(take(rows, 0, 1))
        step = max(PRODUCT_ROWS, MAX_WEIGHTS // sum(m.shape[1] for m in make_matrices(kind) if m is not None))
        with self.array.device, explain_lack_of_memory(cupy, context.out.nbytes):
            total = cupy.zeros(context.out.shape)
            cells = self._cells(columns, context.calibration)
            for start in range(0, edges[-1], step):
                run = take(rows, start, start + step)
                inner = [min(max(edge - start, 0), count_rows(run)) for edge in edges]
                listed = cells.with_rows(run)
                matrices = place_matrices(run, weights, self._summing_dtype)
                if kind.is_plain:
                    places = range(total.shape[1])
                    self._add_moments(listed, inner, total, places, matrices[0], fourth=kind.fourth)
                else:
                    self._add_products(listed, inner, total, kind, *matrices)
            add_sums(total, context.out)
        context.tick(edges[-1] * context.out.shape[-1])

    def _cells(self, columns: Columns, calibration: Calibration) -> Cells:
        """Some columns and their calibration, on the GPU."""
        cupy = import_cupy()
        if self._calibration is None or self._calibration[0] is not calibration:
            scale, shift = (
                cupy.asarray(a, self._summing_dtype) for a in (calibration.scale, calibration.shift)
            )
            self._calibration = calibration, scale, shift
        p = self.shape[1] if columns is None else len(columns)
        listed = None if columns is None else cupy.asarray(columns, np.int64)
        return Cells(self, slice(0, 0), None, listed, p, *self._calibration[1:])

    def _add_moments(
        self,
        cells: Cells,
        edges: Sequence[int],
        total: Any,
        places: Sequence[int],
        w: Any = None,
        square: Any = None,
        *,
        fourth: bool,
        skip: bool = False,
    ) -> None:
        """Add Σz, Σzw, Σz² and, if asked for, Σz⁴ of each stratum to lines of the sums; -1 leaves one out."""
        cupy, p = import_cupy(), cells.p
        n_together = self._cells_together(cells)
        width = WARP * n_together if self.by_row else WIDE
        n_strips, n_lines = -(-p // width), 3 + fourth
        given = self.array.device.id, tuple(edges), width, p, tuple(places[:n_lines])
        pieces, strata, lines = _place_pieces(*given)
        parts = cupy.empty((len(pieces) - 1, n_lines, p))
        options = [*self._types, *([str(n_together)] if self.by_row else [])]
        plain, listed = w is not None and square is None and not skip, cells.listed is not None
        options += [str(flag).lower() for flag in (fourth, plain, listed)]
        kernel = find_kernel(f"{'by_row' if self.by_row else 'by_column'}<{', '.join(options)}>")
        block = (WARP, TALL) if self.by_row else (THREADS,)
        rest = p, *cells.calibration, w, square, skip, pieces, n_strips, parts
        launch(kernel, (n_strips * len(parts),), block, *cells.arguments, *rest)
        grid = -(-n_lines * p // THREADS), len(edges) - 1
        launch(
            find_kernel("combine"), grid, (THREADS,), parts, strata, n_lines, p, lines, total.shape[1], total
        )

    def _cells_together(self, cells: Cells) -> int:
        """How many neighbouring cells a thread loads at once."""
        n = self._n_together
        aligned = self._stride[0] % n == 0 and self.array.data.ptr % (n * self.dtype.itemsize) == 0
        return n if cells.columns is None and self._stride[1] == 1 and cells.p % n == 0 and aligned else 1

    def _add_products(
        self,
        cells: Cells,
        edges: Sequence[int],
        total: Any,
        kind: Weights,
        linear: Any,
        presence: Any,
        square: Any,
    ) -> None:
        """Add the sums for several weights or missing values, by matrix products."""
        first = 1 if kind.v is None else 0  # the line before is Σz, unless rows have weights
        n_plain = first + linear.shape[1]
        places = [first - 1, -1, n_plain, total.shape[1] - 1]
        skip = kind.presence is not None
        self._add_moments(cells, edges, total, places, None, square, fourth=kind.fourth, skip=skip)
        for stratum, (start, stop) in enumerate(pairwise(edges)):
            for rows in chunks(slice(start, stop), PRODUCT_ROWS):
                for columns in chunks(slice(0, cells.p), PRODUCT_CELLS // PRODUCT_ROWS):
                    z, present = self._copy(cells.part(rows, columns), with_present=skip)
                    sums = total[stratum, :, columns]
                    sums[first:n_plain] += linear[rows].T @ z
                    if presence is not None:
                        lines = slice(n_plain + 1, n_plain + 1 + presence.shape[1])
                        sums[lines] += presence[rows].T @ present

    def _copy(self, cells: Cells, *, with_present: bool) -> tuple[Any, Any]:
        """Shifted cells, with 0 for missing ones, and 1 where they are present."""
        cupy = import_cupy()
        shape, order = (count_rows(cells.rows), cells.p), "C" if self.by_row else "F"
        z = cupy.empty(shape, self._summing_dtype, order=order)
        present = cupy.empty_like(z) if with_present else None
        kernel = find_kernel(f"copy<{', '.join(self._types)}>")
        arguments = *cells.arguments, *shape, *cells.calibration, self.by_row, z, present
        launch(kernel, (min(N_BLOCKS, -(-z.size // THREADS)),), (THREADS,), *arguments)
        return z, present

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        return array_bytes(self, n_rows, n_columns, scattered)


@lru_cache(maxsize=64)
def _place_pieces(device: int, edges: Sequence[int], width: int, p: int, places: Sequence[int]) -> list[Any]:
    """Where pieces and strata begin, and the lines of their sums, on the current device.

    They depend on the shape of a pass alone, so repeated passes need not copy them again.
    """
    pieces = Pieces.cut(edges, width, p)
    small = np.array([*pieces.strata, *places], np.int64)
    numbers = import_cupy().asarray(np.concatenate([pieces.edges, small]))  # one copy instead of three
    n_edges, n_strata = map(len, pieces)
    return [numbers[:n_edges], numbers[n_edges : n_edges + n_strata], numbers[n_edges + n_strata :]]


class Cells(NamedTuple):
    """Some cells of a source, as kernels need them."""

    source: GpuSource
    rows: Rows
    #: the same on the GPU if they are listed
    listed: Any
    #: None for all
    columns: Any
    p: int
    scale: Any
    shift: Any

    def with_rows(self, rows: Rows) -> Cells:
        """Other rows of the same columns."""
        listed = None if isinstance(rows, slice) else import_cupy().asarray(rows, np.int64)
        return self._replace(rows=rows, listed=listed)

    def part(self, rows: slice, columns: slice) -> Cells:
        """Some rows and columns, by their positions."""
        listed = None if self.listed is None else self.listed[rows]
        chosen = self.columns
        if columns != slice(0, self.p):
            chosen = import_cupy().arange(columns.start, columns.stop) if chosen is None else chosen[columns]
        p = count_rows(columns)
        run = take(self.rows, rows.start, rows.stop)
        return self._replace(rows=run, listed=listed, columns=chosen, p=p)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The first arguments of a kernel."""
        first = self.rows.start if isinstance(self.rows, slice) else 0
        return self.source.array, *self.source._stride, self.listed, first, self.columns

    @property
    def calibration(self) -> tuple[Any, Any]:
        return self.scale, self.shift
