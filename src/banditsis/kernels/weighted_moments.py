"""Sums over a tile with several columns of weights: Σz·w for each of them, and Σz² or Σv·z².

The arguments are those of :mod:`row_moments` and :mod:`column_moments`. The number of columns of weights is a
multiple of ``GROUP``; columns beyond the lines of ``out`` are padding. Partial sums are kept in the dtype of
the data for at most ``PANEL`` rows and then added to float64.

:func:`by_row` takes eight rows at a time, in strips of ``WIDTH`` columns. A vector of each row is loaded and
shifted once, and stays in registers while it is multiplied by all weights, three at a time. The partial sums
of a vector lie next to each other (``part``, vectors × lines × lanes), so they share no cache sets. The next
rows are prefetched. This is written in vector instructions, because Numba's loops need a check for overlap of
each pair of rows and lines, which takes longer than the products; it reaches three quarters of the speed of a
large matrix product.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

from banditsis.core.arrays import Array
from banditsis.kernels import column_moments
from banditsis.kernels.compile import elementwise, prefetch_address, reduction
from banditsis.kernels.row_moments import PANEL

ROWS, GROUP = 8, 3
WIDTH = 2048
INT64 = ir.IntType(64)


def _vector_bytes() -> int:
    """Size of a vector register; larger than any row if kernels run as plain Python, which has none."""
    if config.DISABLE_JIT:
        return 1 << 60
    features = config.CPU_FEATURES or get_host_cpu_features()
    return 64 if "+avx512f" in features else 32 if "+avx" in features else 16


VECTOR_BYTES = _vector_bytes()


@elementwise
def by_row(
    flat: Array, starts: Array, shift: Array, weights: Array, square: Array | None, part: Array, out: Array
) -> None:
    """Add ``Σz·w`` for each column w of the weights, and then ``Σv·z²``, to ``out``.

    ``weights`` has shape (rows, q). The v are ``square`` (rows,), or 1 if it is None. ``part`` has at least
    (q + 1) · min(m, WIDTH) values.
    """
    m, lanes, q = shift.size, VECTOR_BYTES // flat.itemsize, weights.shape[1]
    n = starts.size - starts.size % ROWS if m >= lanes else 0
    whole = m - m % lanes
    for first in range(0, n, PANEL):
        last, j = min(first + PANEL, n) - ROWS, 0
        while j < m:
            end = min(j + WIDTH, whole) if j < whole else m
            begin = j if j < whole else m - lanes  # the last vector overlaps the one before
            width = end - begin
            part[: (q + 1) * width] = 0
            for i in range(first, last + 1, ROWS):
                # Prefetch the next rows, and at the end of the panel the first rows of the next strip.
                ahead = (i + ROWS, begin) if i < last else (first, end)
                _add_strip(flat, starts, i, begin, *ahead, width, shift, weights, square, part)
            _add_part(part, width, lanes, j - begin, q, out[:, begin:end])
            j = end
    for i in range(n, starts.size):
        v = 1.0 if square is None else square[i]
        _add_row(flat[starts[i] : starts[i] + m], shift, weights[i], v, out)


@elementwise
def _add_part(part: Array, width: int, lanes: int, skip: int, q: int, out: Array) -> None:
    """Add partial sums to ``out``, without the first columns of a vector that were added before."""
    last = out.shape[0] - 1
    for line in range(last + 1):
        total, place = out[line], (line if line < last else q) * lanes
        for j in range(0, width, lanes):
            start = j * (q + 1) + place
            sums, more = total[j + skip : j + lanes], part[start + skip : start + lanes]
            for k in range(more.size):
                sums[k] += more[k]


@elementwise
def _add_row(x: Array, shift: Array, weights: Array, v: float, out: Array) -> None:
    """Add one of the remaining rows."""
    last = out.shape[0] - 1
    for line in range(last):
        total, w = out[line], weights[line]
        for j in range(x.size):
            total[j] += (x[j] - shift[j]) * w
    squares = out[last]
    for j in range(x.size):
        z = x[j] - shift[j]
        squares[j] += z * z * v


class _Vectors:
    """Vector instructions on cells of one dtype."""

    def __init__(self, context: Any, builder: Any, dtype: Any) -> None:
        self.builder, self.size = builder, dtype.bitwidth // 8
        self.lanes = VECTOR_BYTES // self.size
        self.type = ir.VectorType(context.get_value_type(dtype), self.lanes)

    def at(self, pointer: Any, *offsets: Any) -> Any:
        """A pointer moved by some numbers of cells, which may be Python integers."""
        for offset in offsets:
            pointer = self.builder.gep(pointer, [INT64(offset) if isinstance(offset, int) else offset])
        return pointer

    def load(self, pointer: Any) -> Any:
        return self.builder.load(self.builder.bitcast(pointer, self.type.as_pointer()), align=self.size)

    def fill(self, pointer: Any) -> Any:
        """Load one number into all lanes."""
        int32, undefined = ir.IntType(32), ir.Constant(self.type, ir.Undefined)
        one = self.builder.insert_element(undefined, self.builder.load(pointer), int32(0))
        return self.builder.shuffle_vector(one, undefined, ir.VectorType(int32, self.lanes)([0] * self.lanes))

    def add_line(self, z: list[Any], others: list[Any], line: Any) -> None:
        """Add the products of eight pairs of vectors to one in memory."""
        total, flags = self.load(line), ("contract",)
        for a, b in zip(z, others, strict=True):
            total = self.builder.fadd(self.builder.fmul(a, b, flags=flags), total, flags=flags)
        pointer = self.builder.bitcast(line, self.type.as_pointer())
        self.builder.store(total, pointer, align=self.size)


@intrinsic
def _add_strip(
    typing_context: Any,
    flat: Any,
    starts: Any,
    row: Any,
    column: Any,
    next_row: Any,
    next_column: Any,
    width: Any,
    shift: Any,
    weights: Any,
    square: Any,
    part: Any,
) -> Any:
    """Add the sums of eight rows of a strip to ``part``, and prefetch eight others."""
    integers = [types.intp] * 5
    return types.void(flat, starts, *integers, shift, weights, square, part), _generate_strip


def _generate_strip(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    flat, starts, row, column, next_row, next_column, width, shift, weights, square, part = (
        context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args, args, strict=True)
    )
    vectors = _Vectors(context, builder, signature.args[0].dtype)
    at, lanes, q = vectors.at, INT64(vectors.lanes), builder.extract_value(weights.shape, 1)
    rows = [builder.add(row, INT64(r)) for r in range(ROWS)]
    here = [at(flat.data, builder.load(at(starts.data, r)), column) for r in rows]
    ahead = [at(flat.data, builder.load(at(starts.data, next_row, r)), next_column) for r in range(ROWS)]
    row_weights = [at(weights.data, builder.mul(q, r)) for r in rows]
    factors = None
    if isinstance(signature.args[9], types.Array):
        factors = [vectors.fill(at(square.data, r)) for r in rows]
    with cgutils.for_range_slice(builder, INT64(0), width, lanes, INT64) as (j, _):
        s = vectors.load(at(shift.data, column, j))
        z = [builder.fsub(vectors.load(at(x, j)), s) for x in here]
        for x in ahead:
            prefetch_address(builder, at(x, j))
        sums = at(part.data, builder.mul(j, builder.add(q, INT64(1))))
        others = z if factors is None else [builder.fmul(a, b) for a, b in zip(z, factors, strict=True)]
        vectors.add_line(z, others, at(sums, builder.mul(q, lanes)))
        with cgutils.for_range_slice(builder, INT64(0), q, INT64(GROUP), INT64) as (c, _):
            for k in range(GROUP):
                w = [vectors.fill(at(line, c, k)) for line in row_weights]
                vectors.add_line(z, w, at(sums, builder.mul(builder.add(c, INT64(k)), lanes)))
    return context.get_dummy_value()


@reduction
def by_column(
    flat: Array, starts: Array, shift: Array, weights: Array, square: Array | None, out: Array
) -> None:
    """As :func:`by_row` for contiguous columns; ``weights`` has shape (q, rows)."""
    n, squares = weights.shape[1], out[out.shape[0] - 1]
    for k in range(0, starts.size, 4):
        stop = min(k + 4, starts.size)
        for i in range(0, n, column_moments.PANEL):
            m = min(column_moments.PANEL, n - i)
            _add_four(flat, starts[k:stop] + i, shift[k:stop], weights, i, m, out[:-1, k:stop])
            for j in range(k, stop):
                x, s, total = flat[starts[j] + i : starts[j] + i + m], shift[j], shift.dtype.type(0)
                for t in range(m):
                    z = x[t] - s
                    total += z * z if square is None else z * z * square[i + t]
                squares[j] += total


@reduction
def _add_four(flat: Array, starts: Array, shift: Array, weights: Array, i: int, m: int, out: Array) -> None:
    """Add ``Σz·w`` of some rows of up to four columns; each is loaded once for three columns of weights."""
    zero, last = shift.dtype.type(0), starts.size - 1
    kb, kc = min(1, last), min(2, last)  # fewer columns repeat the last one
    a, b = flat[starts[0] : starts[0] + m], flat[starts[kb] : starts[kb] + m]
    c, d = flat[starts[kc] : starts[kc] + m], flat[starts[last] : starts[last] + m]
    sa, sb, sc, sd = shift[0], shift[kb], shift[kc], shift[last]
    for g in range(0, out.shape[0], GROUP):
        u, v, w = weights[g, i : i + m], weights[g + 1, i : i + m], weights[g + 2, i : i + m]
        a0, b0, c0, d0 = zero, zero, zero, zero
        a1, b1, c1, d1 = zero, zero, zero, zero
        a2, b2, c2, d2 = zero, zero, zero, zero
        for t in range(m):
            za, zb, zc, zd = a[t] - sa, b[t] - sb, c[t] - sc, d[t] - sd
            a0 += za * u[t]
            b0 += zb * u[t]
            c0 += zc * u[t]
            d0 += zd * u[t]
            a1 += za * v[t]
            b1 += zb * v[t]
            c1 += zc * v[t]
            d1 += zd * v[t]
            a2 += za * w[t]
            b2 += zb * w[t]
            c2 += zc * w[t]
            d2 += zd * w[t]
        for h, values in enumerate(((a0, b0, c0, d0), (a1, b1, c1, d1), (a2, b2, c2, d2))):
            if g + h < out.shape[0]:
                for j in range(out.shape[1]):
                    out[g + h, j] += values[j]
