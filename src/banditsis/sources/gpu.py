"""Arrays in the memory of a GPU: CuPy arrays, and PyTorch and JAX arrays through DLPack."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Columns, Floats, Indices, Rows, chunks, count_rows, spread, take
from banditsis.core.parallel import map_in_threads
from banditsis.sources.array import check_matrix
from banditsis.sources.base import (
    PILOT_ROWS,
    Calibration,
    Source,
    SumContext,
    calibrate,
    split_groups,
    summing_dtype,
)
from banditsis.statistics.moments import Weights

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
#: Cells that are summed at once, and weights; the host computes the next weights while the GPU works.
MAX_CELLS, MAX_WEIGHTS = 1 << 30, 1 << 24
#: Rows and cells of a matrix product, whose sums are in the dtype of the data.
PRODUCT_ROWS, PRODUCT_CELLS = 1 << 13, 1 << 27
#: Cells that are copied to the host at once, and weights that a thread computes at once.
PINNED_CELLS, WEIGHTS_OF_THREAD = 1 << 22, 1 << 17


def import_cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            "screening arrays on a GPU needs CuPy: pip install 'banditsis[gpu]' (for CUDA 12; otherwise the "
            "package of CuPy for your version)."
        ) from error
    _check_devices(cupy)
    return cupy


@cache
def _check_devices(cupy: Any) -> None:
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            f"CuPy finds no CUDA device ({error}): check the driver with nvidia-smi, or pass NumPy arrays."
        ) from error


def from_device(data: Any) -> Any:
    """A CuPy array that shares the memory of an array on a GPU."""
    cupy = import_cupy()
    if isinstance(data, cupy.ndarray):
        return data
    data = data.detach() if hasattr(data, "detach") else data  # PyTorch exports no tensor with a gradient
    try:
        array = cupy.from_dlpack(data)
        if array.dtype.kind == "V":  # bfloat16, which NumPy does not have
            raise TypeError("it has no such type")
        return array
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        kind = f"{type(data).__module__.split('.')[0]} array of dtype {getattr(data, 'dtype', 'unknown')}"
        raise TypeError(f"a {kind} cannot be read in place ({error}): convert it to float32.") from error


def take_columns(X: Any, columns: Indices, *, check_finite: bool) -> Any:
    """Some columns of an array on a GPU, as an array of the same library."""
    cupy = import_cupy()
    kept = X[:, cupy.asarray(columns) if isinstance(X, cupy.ndarray) else columns]
    if check_finite and not bool(cupy.isfinite(from_device(kept)).all()):
        raise ValueError("the selected columns contain NaN or infinite values: drop or replace them.")
    return kept


def place_weights(weights: Weights, n: int, dtype: np.dtype) -> tuple[Any, Any, Any]:
    """The arrays ``linear``, ``v`` and ``presence`` of n rows, which threads compute, on the GPU."""
    widths = weights.n_linear, int(weights.weighted), weights.n_presence
    arrays = [np.empty((n, width), dtype) if width else None for width in widths]

    def fill(rows: slice) -> None:
        for array, values in zip(arrays, weights.part(rows).arrays, strict=True):
            if array is not None and values is not None:
                array[rows] = values.reshape(len(values), -1)

    map_in_threads(fill, chunks(slice(0, n), max(1, WEIGHTS_OF_THREAD // weights.n_linear)))
    linear, v, presence = (None if array is None else import_cupy().asarray(array) for array in arrays)
    return linear, v, presence


def add_to_host(total: Any, out: Floats) -> None:
    """Add sums on the GPU, groups × lines × columns, to those on the host."""
    n_lines = max(1, PINNED_CELLS // total.shape[2])
    for sums, host in zip(total, out, strict=True):
        for lines in chunks(slice(0, len(host)), n_lines):
            host[lines] += to_pinned(sums[lines])


def to_pinned(array: Any) -> Array:
    """A small copy of an array on the GPU in pinned memory, which is fast to fill and never freed."""
    import cupyx

    return np.asarray(array.get(out=cupyx.empty_pinned(array.shape, array.dtype)))


@cache
def find_kernel(name: str) -> Any:
    """A kernel of kernels/moments.cu, compiled at its first use; CuPy keeps the machine code on disk."""
    code = resources.files("banditsis.kernels").joinpath("moments.cu").read_text()
    module = import_cupy().RawModule(code=code, options=("-std=c++17",), name_expressions=[name])
    return module.get_function(name)


def launch(kernel: Any, grid: tuple[int, ...], block: tuple[int, ...], *arguments: Any) -> None:
    """Start a kernel; None is a null pointer, and integers have 64 bits."""
    converted = []
    for a in arguments:
        if a is None:
            a = np.uint64(0)
        elif isinstance(a, bool | int):
            a = np.bool_(a) if isinstance(a, bool) else np.int64(a)
        converted.append(a)
    kernel(grid, block, tuple(converted))


class Pieces(NamedTuple):
    """Rows of a pass, cut into pieces that blocks of threads sum."""

    #: where pieces begin among the rows, and where the last one ends
    edges: Indices
    #: where groups begin among the pieces, and where the last one ends
    groups: Sequence[int]

    @classmethod
    def cut(cls, edges: Sequence[int], n_columns_of_block: int, p: int) -> Pieces:
        """Cut each group into pieces of equal length, by the shape alone; their sums fit in memory."""
        n_strips = -(-p // n_columns_of_block)
        height = min(max(edges[-1] * n_strips // N_BLOCKS, MIN_PIECE), MAX_PIECE)
        starts = [np.arange(a, b, height, dtype=np.int64) for a, b in pairwise(edges)]
        groups = list(accumulate(map(len, starts), initial=0))
        return cls(np.concatenate([*starts, np.array(edges[-1:], np.int64)]), groups)


class Cells(NamedTuple):
    """Some cells of a source, as kernels need them."""

    #: numbers of the rows on the GPU; None if they follow each other from the first
    rows: Any
    first: int
    #: numbers of the columns on the GPU; None for all
    columns: Any
    p: int
    #: of all columns of the source
    scale: Any
    shift: Any

    def take(self, rows: slice, columns: slice) -> Cells:
        chosen, p = self.columns, columns.stop - columns.start
        if p < self.p:
            chosen = import_cupy().arange(*columns.indices(self.p)) if chosen is None else chosen[columns]
        listed = None if self.rows is None else self.rows[rows]
        return self._replace(rows=listed, first=self.first + rows.start, columns=chosen, p=p)


class GpuSource(Source):
    """An array on a GPU, of CuPy or any library that supports DLPack, used without a copy.

    A fused kernel reads each cell once and gives Σz, Σzw and Σz² in float64. Several weights and missing
    values take matrix products too. Only sums, and cells for ranks or distances, are copied to the host.
    """

    bytes_per_second = 3e12

    def __init__(self, data: Any, names: Sequence[str] | None = None) -> None:
        self.array = from_device(data)
        self.names = check_matrix(self.array.shape, self.array.dtype, names)
        self.shape, self.dtype = self.array.shape, np.dtype(self.array.dtype)
        self._stride = tuple(step // self.dtype.itemsize for step in self.array.strides)
        self.by_row = abs(self._stride[0]) >= abs(self._stride[1])
        self._summing_dtype = summing_dtype(self.dtype)
        #: names of both types in CUDA
        self._types = [CUDA_TYPES[dtype.name][0] for dtype in (self.dtype, self._summing_dtype)]

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        with self.array.device:
            return np.asarray(self._read(rows, columns).get())

    def read_columns(self, rows: Rows, columns: Indices) -> Sequence[Array]:
        with self.array.device:
            return list(to_pinned(import_cupy().ascontiguousarray(self._read(rows, columns).T)))

    def _read(self, rows: Rows, columns: Columns | slice) -> Any:
        """A block of cells on the GPU."""
        cupy, columns = import_cupy(), slice(None) if columns is None else columns
        rows, columns = (k if isinstance(k, slice) else cupy.asarray(k) for k in (rows, columns))
        if isinstance(rows, slice) or isinstance(columns, slice):
            return self.array[rows, columns]
        return self.array[rows[:, None], columns]

    def calibrate(self, rows: Rows) -> Calibration:
        found = calibrate(self, rows, spread(rows, PILOT_ROWS), self._summing_dtype)
        return found if self.dtype.kind == "f" else Calibration(np.rint(found.shift), found.scale)

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        cupy, n, (calibration, out, _, tick) = import_cupy(), count_rows(rows), context
        step = max(PRODUCT_ROWS, min(MAX_CELLS // out.shape[-1], MAX_WEIGHTS // weights.n_lines))
        with self.array.device:
            total = cupy.zeros(out.shape)
            chosen = None if columns is None else cupy.asarray(columns, np.int64)
            placed = [cupy.asarray(a, self._summing_dtype) for a in (calibration.scale, calibration.shift)]
            for start in range(0, n, step):
                part = take(rows, start, start + step)
                first = part.start if isinstance(part, slice) else 0
                listed = None if isinstance(part, slice) else cupy.asarray(part, np.int64)
                cells = Cells(listed, first, chosen, out.shape[-1], *placed)
                inner = np.clip(edges - start, 0, count_rows(part))
                self._add(cells, inner, weights.part(slice(start, start + count_rows(part))), total)
            add_to_host(total, out)
        tick(n * out.shape[-1])

    def _add(self, cells: Cells, edges: Indices, weights: Weights, total: Any) -> None:
        """Add the sums of each group of some rows to its part of the total."""
        q, s = weights.n_linear, weights.n_presence
        linear, v, presence = place_weights(weights, int(edges[-1]), self._summing_dtype)
        w = linear if weights.is_plain else v
        moments = self._moments(cells, edges.tolist(), w, v, weights)
        if weights.is_plain:
            total += moments
            return
        total[:, 0] += moments[:, 1 if weights.weighted else 0]
        total[:, q + 1] += moments[:, 2]
        if weights.fourth:
            total[:, -1] += moments[:, 3]
        for g, group in split_groups(edges):
            for rows in chunks(group, PRODUCT_ROWS):
                for columns in chunks(slice(0, cells.p), PRODUCT_CELLS // PRODUCT_ROWS):
                    z, present = self._copy(cells.take(rows, columns), count_rows(rows), with_present=s > 0)
                    sums = total[g, :, columns]
                    sums[1 : q + 1] += linear[rows].T @ z
                    if s > 0:
                        sums[q + 2 : q + 2 + s] += presence[rows].T @ present

    def _moments(self, cells: Cells, edges: Sequence[int], w: Any, v: Any, weights: Weights) -> Any:
        """Σz, Σzw, Σvz² and, if asked for, Σz⁴ of each group of rows."""
        cupy, p, n_together = import_cupy(), cells.p, self._cells_together(cells)
        width = WARP * n_together if self.by_row else WIDE
        pieces, n_strips = Pieces.cut(edges, width, p), -(-p // width)
        parts = cupy.empty((len(pieces.edges) - 1, 3 + weights.fourth, p))
        flags = weights.fourth, weights.is_plain, cells.rows is not None
        options = [*self._types, *([str(n_together)] if self.by_row else [])]
        options += [str(flag).lower() for flag in flags]
        kernel = find_kernel(f"{'by_row' if self.by_row else 'by_column'}<{', '.join(options)}>")
        launch(
            kernel,
            (n_strips * len(parts),),
            (WARP, TALL) if self.by_row else (THREADS,),
            *self._arguments(cells),
            p,
            cells.scale,
            cells.shift,
            w,
            v,
            weights.n_presence > 0,
            cupy.asarray(pieces.edges),
            n_strips,
            parts,
        )
        return cupy.stack([parts[start:stop].sum(axis=0) for start, stop in pairwise(pieces.groups)])

    def _cells_together(self, cells: Cells) -> int:
        """How many neighbouring cells a thread loads at once."""
        n = CUDA_TYPES[self.dtype.name][1]
        aligned = self._stride[0] % n == 0 and self.array.data.ptr % (n * self.dtype.itemsize) == 0
        return n if cells.columns is None and self._stride[1] == 1 and cells.p % n == 0 and aligned else 1

    def _copy(self, cells: Cells, n_rows: int, *, with_present: bool) -> tuple[Any, Any]:
        """Shifted cells, with 0 for missing ones, and 1 where they are present."""
        cupy, order = import_cupy(), "C" if self.by_row else "F"
        z = cupy.empty((n_rows, cells.p), self._summing_dtype, order=order)
        present = cupy.empty_like(z) if with_present else None
        rest = n_rows, cells.p, cells.scale, cells.shift, self.by_row, z, present
        grid = (min(N_BLOCKS, -(-z.size // THREADS)),)
        kernel = find_kernel(f"copy<{', '.join(self._types)}>")
        launch(kernel, grid, (THREADS,), *self._arguments(cells), *rest)
        return z, present

    def _arguments(self, cells: Cells) -> tuple[Any, ...]:
        """The first arguments of a kernel: the array, and the cells of it."""
        return self.array, *self._stride, cells.rows, cells.first, cells.columns
