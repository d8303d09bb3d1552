"""Frames in memory: pandas, polars and pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.formats.options import ReadOptions, as_ids
from banditsis.formats.tables import OpenedTable, check_unique_names, match_names, may_hold_ids
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source
from banditsis.sources.tables import Feature, FrameSource, RowGroup, Table


class OpenedFrame(OpenedTable):
    """A frame; numeric columns without missing values are not copied. ``names`` replace its own."""

    source_type = FrameSource

    def __init__(self, frame: Any, options: ReadOptions, names: Sequence[str] | None = None) -> None:
        if names is not None and len(names) != frame.shape[1]:
            raise ValueError(f"got {len(names):,} names for {frame.shape[1]:,} columns.")
        super().__init__("the frame", frame_names(frame, names), options)
        self.frame = frame
        index = getattr(frame, "index", None)
        self._row_names = [] if index is None else [index.get_level_values(k) for k in range(index.nlevels)]
        is_number = len(self._row_names) == 1 and getattr(self._row_names[0].dtype, "kind", "O") in "iuf"
        self._has_row_names = bool(self._row_names) and not is_number

    @property
    def n_rows(self) -> int:
        return int(self.frame.shape[0])

    def _load_table(self) -> Table:
        return _frame_table(self.frame, self.names)

    @property
    def key_names(self) -> Sequence[str]:
        if self.options.id is not None:
            return super().key_names
        levels = [str(level.name) for level in self._row_names if level.name is not None]
        return [*([""] if self._has_row_names or levels else []), *levels, *self.names]

    def _read(self, name: str) -> Array:
        if hasattr(self.frame, "iloc"):  # ordered categories are labels here, and numbers as features
            series = self.frame.iloc[:, self._places[name]]
            return in_memory([name], [_pandas_column(series, name)], self.where).values(0)
        return super()._read(name)

    def _read_ids(self) -> Array | None:
        if self.id_columns or not self._has_row_names:
            return super()._read_ids()
        return as_ids([level.tolist() for level in self._row_names])

    def use_ids(self, like: Sequence[str]) -> None:
        if self.options.id is None and not match_names(self.names, like):
            self._has_row_names |= bool(match_names([str(level.name) for level in self._row_names], like))
        if not self._has_row_names or match_names(self.names, like):
            super().use_ids(like)

    def _make_source(self) -> Source:
        if len(self.candidates) == len(self.names) and not any(
            may_hold_ids(name, self.options) for name in self.names
        ):
            array = _underlying_array(self.frame)
            if array is not None:
                return ArraySource(array, self.names)
        return super()._make_source()


def encode_frame(frame: Any, features: Sequence[tuple[str, object]]) -> Array:
    """Features of a frame, each given by a column and a level as in :attr:`Source.encoding`."""
    places = {name: k for k, name in enumerate(frame_names(frame))}
    used = {column: j for j, column in enumerate(dict.fromkeys(column for column, _ in features))}
    missing = [column for column in used if column not in places]
    if missing:
        raise ValueError(f"the frame has no column {missing[0]!r}, which the selector was fitted on.")
    numbers = [places[column] for column in used]
    if hasattr(frame, "iloc"):
        part = frame.iloc[:, numbers]
    else:
        part = frame[:, numbers] if hasattr(frame, "get_columns") else frame.select(numbers)
    levels: dict[int, list[Any]] = {}
    encoded = []
    for column, level in features:
        j = used[column]
        encoded.append(Feature(j) if level is None else Feature(j, len(levels.setdefault(j, []))))
        if level is not None:
            levels[j].append(level)
    source = FrameSource(_frame_table(part, list(used)), encoded, [""] * len(encoded), levels)
    return source.read(slice(0, source.shape[0]), None)


def frame_names(frame: Any, names: Sequence[str] | None = None) -> list[str]:
    """Names of the columns of a frame, its own by default; raise if two are the same."""
    own = getattr(frame, "column_names", None) or frame.columns
    texts = [str(name) for name in (own if names is None else names)]
    check_unique_names(texts, "the frame")
    return texts


def in_memory(names: Sequence[str], columns: Sequence[Any], where: object) -> Table:
    """A table of Arrow columns or NumPy arrays in memory."""
    import pyarrow as pa

    types = [
        pa.from_numpy_dtype(column.dtype) if isinstance(column, np.ndarray) else column.type
        for column in columns
    ]
    schema = pa.schema(list(zip(names, types, strict=True)))
    n_rows = len(columns[0]) if columns else 0
    group = RowGroup(n_rows, lambda numbers, n_rows: [columns[j] for j in numbers])
    return Table(schema, [group] if n_rows else [], where)


def _frame_table(frame: Any, names: Sequence[str]) -> Table:
    """The columns of a frame; ordered categories are numbers."""
    import pyarrow as pa

    if hasattr(frame, "iloc"):
        numbered = frame.set_axis(range(frame.shape[1]), axis=1)  # its names take as long as its columns
        pairs = zip(names, numbered.items(), strict=True)
        columns = [_pandas_column(series, name, ordered_as_numbers=True) for name, (_, series) in pairs]
    else:
        columns = (frame if isinstance(frame, pa.Table) else frame.to_arrow()).columns
    return in_memory(names, columns, "the frame")


def _pandas_column(series: Any, name: str, *, ordered_as_numbers: bool = False) -> Any:
    """The NumPy array of a numeric column, or the Arrow column of any other."""
    import pyarrow as pa

    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "fiub" and dtype.isnative:
        return series.to_numpy()
    if ordered_as_numbers and getattr(dtype, "ordered", False):
        codes = series.cat.codes.to_numpy()
        return pa.chunked_array([pa.array(codes, mask=codes < 0)])
    try:
        column = pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise TypeError(
            f"column {name!r} of the frame has values of mixed types ({dtype}): convert them to "
            "numbers or text, or leave the column out."
        ) from error
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _underlying_array(frame: Any) -> Array | None:
    """The array that a pandas frame wraps, if its columns share one."""
    dtypes = set(frame.dtypes) if hasattr(frame, "iloc") else set()
    if len(dtypes) != 1 or not isinstance(dtype := dtypes.pop(), np.dtype) or dtype.kind not in "fiub":
        return None
    first, second, last = (frame.iloc[:, k].to_numpy() for k in (0, min(1, frame.shape[1] - 1), -1))
    start, step, end = (part.__array_interface__["data"][0] for part in (first, second, last))
    if end - start != (frame.shape[1] - 1) * (step - start):  # several arrays
        return None
    array = frame.to_numpy()
    return array if np.shares_memory(array, first) else None
