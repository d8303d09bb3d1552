"""Frames of pandas, polars and pyarrow, read column by column through narwhals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from banditsis.arrays import Array, Columns, Rows
from banditsis.formats.registry import Opened, find_column, import_optional
from banditsis.formats.sample_ids import as_ids, find_id_columns
from banditsis.sources.array import ArraySource, line_bytes
from banditsis.sources.base import Source
from banditsis.sources.blocks import BlockSource
from banditsis.validation import NUMBERS

#: More different values than this are ids, not classes.
MAX_VALUES = 10_000


class Column(NamedTuple):
    """A feature: how to get some rows of it, as numbers, NaN where there is none."""

    name: str
    read: Callable[[Rows], Array]


class FrameSource(BlockSource):
    """Columns that lie in memory one by one; only what is asked for is converted, a tile at a time.

    Parameters
    ----------
    n_rows : int
        Length of all columns.
    columns : sequence of Column
        The features.
    dtype : dtype
        float32 if it holds all values exactly, else float64.
    """

    def __init__(self, n_rows: int, columns: Sequence[Column], dtype: np.dtype) -> None:
        self.columns = columns
        self.shape, self.dtype = (n_rows, len(columns)), dtype
        self.names = [column.name for column in columns]

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        if columns is None:
            columns = slice(0, self.shape[1])
        some = self.columns[columns] if isinstance(columns, slice) else [self.columns[k] for k in columns]
        n = len(range(*rows.indices(self.shape[0]))) if isinstance(rows, slice) else len(rows)
        block = np.empty((n, len(some)), self.dtype, order="F")
        for j, column in enumerate(some):
            block[:, j] = column.read(rows)
        return block

    #: of a tile: columns are copied into it, which should not leave the cache
    cells_at_once = 1 << 19

    def tile_columns(self, n_columns: int) -> int:
        return min(n_columns, 64)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        if scattered:
            return n_columns * line_bytes(self.shape[0], n_rows / self.shape[0], self.dtype.itemsize)
        return float(n_columns * n_rows * self.dtype.itemsize)


def open_frame(
    frame: Any,
    target: str | None = None,
    *,
    one_hot: bool = False,
    names: Sequence[str] | None = None,
    ids_like: Sequence[str] | None = None,
) -> Opened:
    """Make a source of a frame.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        Not copied: columns without gaps are read where they lie.
    target : str, optional
        A column that is taken out of the features, by name or 1-based number.
    one_hot : bool
        Whether a column that holds no numbers becomes a feature for each of its values, named
        ``column=value``.
    names : sequence of str, optional
        Names to use instead of the frame's own.
    ids_like : sequence of str, optional
        See :func:`open_file`.
    """
    own = getattr(frame, "column_names", None) or frame.columns
    if names is not None and len(names) != frame.shape[1]:
        raise ValueError(f"got {len(names):,} names for {frame.shape[1]:,} columns.")
    names = [str(name) for name in (own if names is None else names)]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(
            f"several columns are called {repeated[0]!r}: give every column a name of its own "
            f"({len(repeated):,} names are used more than once)."
        )
    place = None if target is None else find_column(names, target, "the frame")
    ids = _ids(frame)
    apart = find_id_columns(names, but=place, like=ids_like) if ids is None and ids_like is not None else []
    if target is None and not apart and (array := _one_array(frame)) is not None:
        return Opened(ArraySource(array, names), None, ids)
    nw = import_optional("narwhals", "frames")
    table = nw.from_native(frame, eager_only=True)
    y, label = (None, None) if place is None else (_response(table[:, place]), names[place])
    ids = as_ids([table[:, k].to_list() for k in apart]) if apart else ids
    left = [k for k in range(len(names)) if k != place and k not in apart]
    source = from_series([names[k] for k in left], [table[:, k] for k in left], one_hot)
    return Opened(source, y, ids, label)


def _ids(frame: Any) -> Array | None:
    """The index of a pandas frame, if it has names for the rows."""
    index = getattr(frame, "index", None)
    if index is None or getattr(index, "dtype", np.dtype(int)).kind in "iuf":
        return None
    return np.array([str(name) for name in index])


def from_series(names: Sequence[str], series: Sequence[Any], one_hot: bool) -> Source:
    """A source of narwhals series."""
    import narwhals as nw

    columns: list[Column] = []
    odd: list[str] = []
    small = True
    for name, values in zip(names, series, strict=True):
        if values.dtype.is_numeric() or values.dtype == nw.Boolean:
            small &= values.dtype in (nw.Float32, nw.Int8, nw.Int16, nw.UInt8, nw.UInt16, nw.Boolean)
            columns.append(Column(name, _reader(values)))
        elif (numbers := _numbers(values)) is not None:
            small = False
            columns.append(Column(name, numbers.__getitem__))
        elif one_hot and _has_labels(values):
            columns += _indicators(name, values)
        else:
            odd.append(f"{name!r} ({str(values.dtype).lower()})")
    if odd:
        some = ", ".join(odd[:5]) + (f" and {len(odd) - 5:,} others" if len(odd) > 5 else "")
        raise TypeError(
            f"these columns hold no numbers: {some}; drop them, convert them, or one-hot encode them with "
            "open_source(data, one_hot=True), which does not take dates."
        )
    return FrameSource(
        len(series[0]) if series else 0, columns, np.dtype(np.float32 if small else np.float64)
    )


def _one_array(frame: Any) -> Array | None:
    """The array that a pandas frame is a mere wrapping of, if it is."""
    dtypes = set(getattr(frame, "dtypes", [])) if hasattr(frame, "iloc") else set()
    if len(dtypes) != 1 or not isinstance(dtype := dtypes.pop(), np.dtype) or dtype.kind not in "fiub":
        return None
    first, second, last = (frame.iloc[:, k].to_numpy() for k in (0, min(1, frame.shape[1] - 1), -1))
    start, step, end = (part.__array_interface__["data"][0] for part in (first, second, last))
    if end - start != (frame.shape[1] - 1) * (step - start):  # in several pieces
        return None
    array = frame.to_numpy()
    return array if np.shares_memory(array, first) else None


def _reader(series: Any) -> Callable[[Rows], Array]:
    """Read a numeric column where it lies if it can be; what has gaps is converted as it is read."""
    view = _view(series.to_native())
    if view is not None:
        return view.__getitem__

    import narwhals as nw

    def read(rows: Rows) -> Array:
        some = series[rows.start : rows.stop] if isinstance(rows, slice) else series[rows]
        return np.asarray(some.cast(nw.Float64).to_numpy(), dtype=np.float64)

    return read


def _view(native: Any) -> Array | None:
    """A column as an array that shares its memory, or None if there can be none."""
    try:
        if hasattr(native, "get_chunks"):  # polars
            return np.asarray(native.to_numpy(allow_copy=False))
        if hasattr(native, "num_chunks"):  # pyarrow
            return (
                np.asarray(native.chunk(0).to_numpy(zero_copy_only=True)) if native.num_chunks == 1 else None
            )
    except (RuntimeError, ValueError):  # gaps, or bits
        return None
    return np.asarray(native.to_numpy()) if isinstance(native.dtype, np.dtype) else None


def _numbers(series: Any) -> Array | None:
    """The values of a column of objects, if all are numbers or missing."""
    import narwhals as nw

    if series.dtype != nw.Object:
        return None
    values = series.to_numpy()
    if not all(value is None or isinstance(value, NUMBERS) for value in values):
        return None
    return np.array([np.nan if value is None else float(value) for value in values])


def _has_labels(series: Any) -> bool:
    import narwhals as nw

    if series.dtype == nw.Object:
        return all(isinstance(value, str) for value in series.drop_nulls().to_list())
    return series.dtype in (nw.String, nw.Categorical, nw.Enum)


def _indicators(name: str, series: Any) -> list[Column]:
    """A feature for each value of a column, 1 where it has that value; made from its codes as it is read."""
    codes, values = import_optional("pandas", "frames").factorize(series.to_numpy().astype(object), sort=True)
    if len(values) > MAX_VALUES:
        raise ValueError(
            f"column {name!r} has {len(values):,} different values, too many to one-hot encode: drop it if "
            "they are ids, or put rare values together."
        )
    codes = codes.astype(np.int16 if len(values) < 2**15 else np.int32)

    def reader(code: int) -> Callable[[Rows], Array]:
        return lambda rows: np.asarray(codes[rows] == code)

    return [Column(f"{name}={value}", reader(code)) for code, value in enumerate(values)]


def _response(series: Any) -> Array:
    """A column as a response: numbers, NaN where there is none, or labels."""
    if series.dtype.is_numeric():
        return np.array(_reader(series)(slice(0, len(series))))
    numbers = _numbers(series)
    if numbers is not None:
        return numbers
    labels = np.array(series.to_numpy(), dtype=object)
    labels[np.asarray(series.is_null().to_numpy(), dtype=bool)] = None
    return labels
