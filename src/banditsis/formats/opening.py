"""Open any kind of data: arrays, frames, sparse matrices, files and remote files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from banditsis.core.validation import is_dask, is_frame, is_on_gpu
from banditsis.formats.labelled import is_labelled, open_labelled
from banditsis.formats.opened import Opened, OpenedMatrix
from banditsis.formats.options import DEFAULTS, Patterns, ReadOptions, check_options
from banditsis.formats.registry import is_url, open_file
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source
from banditsis.sources.memmap import MappedSource, find_memmap


def open_source(
    data: Any,
    names: Sequence[str] | None = None,
    *,
    columns: Patterns = (),
    drop: Patterns = (),
    id: str | None = None,
    one_hot: bool | int = False,
    dates: str = "skip",
    na: Patterns = (),
    memory_limit: int | None = None,
) -> Source:
    """Open an array, a frame or a file as a source.

    Parameters
    ----------
    data : array-like of shape (n, p), frame, AnnData, DataArray, path or URL, Arrow stream, or Source
        Arrays are not copied. A source is returned as it is. A stream, such as the result of a query
        (``duckdb.sql("SELECT …")``), is read into memory once.
    names : sequence of str, optional
        Names of the features; by default those of the data, or x0, x1, ….
    columns, drop : str or sequence of str
        The features to use, or not to use: names, 1-based numbers, or patterns such as ``"snp_*"``. All by
        default.
    id : str, optional
        The column of sample ids, on which other files are joined; not a feature.
    one_hot : bool or int
        Whether to one-hot encode columns of text and categories; by default they are skipped with a note. An
        integer is the largest number of levels of a column that is encoded, by default 10,000. Two levels
        become one feature, the indicator of the second, and more become one each.
    dates : {"skip", "numeric"}
        Whether columns of dates and times are skipped with a note, or used as numbers.
    na : str or sequence of str
        Text that stands for a missing value in CSV files and targets of text, besides the usual "NA", "nan",
        "null" and "": ``na="-9"`` matches the cell ``-9`` and not ``-9.0``.
    memory_limit : int, optional
        Bytes that may be used for data that must be held in memory.

    Returns
    -------
    Source

    See Also
    --------
    open_data : Also open a response, covariates and sample ids.

    Examples
    --------
    >>> import numpy as np
    >>> source = open_source(np.zeros((5, 3)))
    >>> source.shape, source.name(2)
    ((5, 3), 'x2')
    """
    options = check_options(
        columns=columns, drop=drop, id=id, one_hot=one_hot, dates=dates, na=na, memory_limit=memory_limit
    )
    return open_any(data, options, names).source()


def open_any(data: Any, options: ReadOptions = DEFAULTS, names: Sequence[str] | None = None) -> Opened:
    """Open any kind of data; ``names`` replace those of the features."""
    if isinstance(data, (str, os.PathLike)):
        opened = _open_named(data, options)
        opened.new_names, opened.label = names, str(data)
        return opened
    if _is_stream(data):
        import pyarrow as pa  # only tables need it

        data = pa.table(data)  # read once: a query could return its rows in another order next time
    if is_frame(data):
        from banditsis.formats.frames import OpenedFrame  # only frames need it

        return OpenedFrame(data, options, names)
    if is_labelled(data):
        return open_labelled(data, options, names)
    return OpenedMatrix(open_in_memory(data, names), "X", options)


def open_features(X: Any) -> Source:
    """Open the features of a call: all columns of a frame must be numeric."""
    return open_any(X, ReadOptions(strict=is_frame(X))).source()


def _open_named(data: str | os.PathLike[str], options: ReadOptions) -> Opened:
    """Open a file or a URL."""
    if is_url(data):
        from banditsis.formats.remote import open_url

        return open_url(str(data), options)
    return open_file(data, options)


def _is_stream(data: Any) -> bool:
    """Whether data is a table of another library that Arrow can read, such as ``duckdb.sql("SELECT …")``."""
    return hasattr(data, "__arrow_c_stream__") and not (is_frame(data) or is_labelled(data) or is_dask(data))


def is_sparse(data: Any) -> bool:
    """Whether data is a sparse matrix or array of SciPy."""
    return hasattr(data, "toarray") and hasattr(data, "nnz")


def open_in_memory(data: Any, names: Sequence[str] | None) -> Source:
    """Open an array of any kind, or a matrix of SciPy."""
    if isinstance(data, Source):
        return data
    if is_dask(data):
        from banditsis.formats.frames import frame_names
        from banditsis.sources.dask import DaskSource

        return DaskSource(data, frame_names(data, names) if hasattr(data, "columns") else names)
    if is_on_gpu(data):
        from banditsis.sources.gpu import GpuSource

        return GpuSource(data, names)
    if is_sparse(data):
        from banditsis.sources.sparse import SparseSource

        return SparseSource(data, names)
    if find_memmap(data) is not None:
        return MappedSource(data, names)
    return ArraySource(data.to_numpy() if hasattr(data, "to_numpy") else np.asanyarray(data), names)
