"""Open any kind of data: arrays, frames, sparse matrices, files and remote files."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.core.validation import is_dask, is_frame, is_on_gpu
from banditsis.formats.labelled import Labelled, is_labelled, take_labels
from banditsis.formats.options import DEFAULTS, Patterns, ReadOptions, check_options
from banditsis.formats.registry import (
    Opened,
    find_format,
    import_optional,
    is_url,
    open_file,
    split_url,
    take_apart,
)
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source
from banditsis.sources.memmap import MappedSource, find_memmap

#: Packages that fsspec needs for each protocol.
PROTOCOL_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs", "http": "aiohttp", "https": "aiohttp"}


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
    return open_parts(data, (), options, names).source


def open_parts(
    data: Any,
    apart: Sequence[str] = (),
    options: ReadOptions = DEFAULTS,
    names: Sequence[str] | None = None,
) -> Opened:
    """Open any kind of data; see :func:`open_source` for names, and :func:`open_file` for the others."""
    if options.na and not is_text(data):
        raise ValueError(
            f"na={', '.join(map(repr, options.na))} applies to CSV and other text files alone: leave it out."
        )
    if isinstance(data, (str, os.PathLike)):
        opened = _rename(_open_named(data, apart, options), names)
        opened.source.label = str(data)
        return opened
    if is_stream(data):
        import pyarrow as pa  # only tables need it

        data = pa.table(data)  # read once: a query could return its rows in another order next time
    if is_frame(data):
        from banditsis.formats.arrow import open_frame  # only frames need it

        return open_frame(data, apart, options, names)
    if is_labelled(data):
        return _open_labelled(take_labels(data), apart, options, names)
    return take_apart(_open_in_memory(data, names), apart, "X", options)


def open_features(X: Any) -> Source:
    """Open the features of a call: all columns of a frame must be numeric."""
    return open_parts(X, (), ReadOptions(strict=True)).source if is_frame(X) else open_source(X)


def _open_labelled(
    data: Labelled, apart: Sequence[str], options: ReadOptions, names: Sequence[str] | None
) -> Opened:
    if isinstance(data.cells, (str, os.PathLike)):
        source = open_file(data.cells, (), ReadOptions(memory_limit=options.memory_limit)).source
        source.names = data.names if names is None else names  # they may have changed in memory
    else:
        source = _open_in_memory(data.cells, data.names if names is None else names)
    return take_apart(source, apart, "X", options, data.ids, data.columns)


def _open_named(data: str | os.PathLike[str], apart: Sequence[str], options: ReadOptions) -> Opened:
    """Open a file or a URL."""
    if is_url(data):
        return open_url(str(data), apart, options)
    return open_file(data, apart, options)


def _rename(opened: Opened, names: Sequence[str] | None) -> Opened:
    """Give other names to the features."""
    if names is not None and len(names) != opened.source.shape[1]:
        raise ValueError(f"got {len(names):,} names for {opened.source.shape[1]:,} columns.")
    if names is not None:
        opened.source.names = names
    return opened


def stack_columns(columns: Sequence[Array]) -> Array:
    """Several columns as one array, of objects if some hold text."""
    is_text = len(columns) > 1 and any(column.dtype.kind not in "fiub" for column in columns)
    return np.column_stack([column.astype(object) if is_text else column for column in columns])


def column_names(data: Any) -> Sequence[str]:
    """All columns of a table, after an empty name if it has an index; none for data of other kinds."""
    if is_stream(data):
        return [str(name) for name in getattr(data, "columns", ())]
    if is_frame(data):
        names = [str(name) for name in getattr(data, "column_names", None) or data.columns]
        index = getattr(data, "index", None)
        levels = [] if index is None else [str(name) for name in index.names if name is not None]
        has_ids = levels or getattr(getattr(index, "dtype", None), "kind", "i") not in "iuf"
        return [*([""] if has_ids else []), *levels, *names]
    if not isinstance(data, (str, os.PathLike)) or is_url(data):
        return []
    format_name = find_format(data)
    if format_name == "csv":
        from banditsis.formats.csv import find_files  # only tables need these
        from banditsis.formats.text import find_dialect

        return find_dialect(find_files(Path(data))[0]).names
    if format_name in ("parquet", "arrow"):
        from banditsis.formats.arrow import read_table
        from banditsis.formats.tables import find_index

        schema = read_table(Path(data)).schema
        return [*([""] if find_index(schema) else []), *schema.names]
    return []


def is_stream(data: Any) -> bool:
    """Whether data is a table of another library that Arrow can read, such as ``duckdb.sql("SELECT …")``."""
    return hasattr(data, "__arrow_c_stream__") and not (is_frame(data) or is_labelled(data) or is_dask(data))


def is_text(data: Any) -> bool:
    """Whether data is a file of delimited text, or a folder of such files."""
    return isinstance(data, (str, os.PathLike)) and find_format(data) == "csv"


def is_sparse(data: Any) -> bool:
    """Whether data is a sparse matrix or array of SciPy."""
    return hasattr(data, "toarray") and hasattr(data, "nnz")


def _open_in_memory(data: Any, names: Sequence[str] | None) -> Source:
    if isinstance(data, Source):
        return data
    if is_dask(data):
        from banditsis.formats.arrow import frame_names
        from banditsis.sources.dask import DaskSource

        return DaskSource(data, frame_names(data, names) if hasattr(data, "columns") else names)
    if is_on_gpu(data):
        from banditsis.sources.gpu.source import GpuSource

        return GpuSource(data, names)
    if is_sparse(data):
        from banditsis.sources.sparse import SparseSource

        return SparseSource(data, names)
    if find_memmap(data) is not None:
        return MappedSource(data, names)
    return ArraySource(data.to_numpy() if hasattr(data, "to_numpy") else np.asanyarray(data), names)


def open_url(url: str, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Open a remote file through fsspec.

    Only the requested parts of a Zarr array or of a shuffled folder are read. Files of other formats are
    copied to this machine, and the copy is removed with the source.
    """
    if find_format(url) == "shuffled":
        from banditsis.index.reader import open_shuffled  # only prepared folders need it

        return open_shuffled(url, apart, options)
    if find_format(url) == "zarr":
        from banditsis.formats.zarr import open_zarr  # only Zarr needs it

        url = url.replace(".zarr:/", ".zarr/")
        connect(url)
        return open_zarr(url, apart, options)
    outer, inner = split_url(url)
    opened: Opened = open_copy(
        outer, lambda copy: open_file(copy if inner is None else f"{copy}:{inner}", apart, options)
    )
    return opened


def open_copy(url: str, open_file: Callable[[Path], Any]) -> Any:
    """Copy a remote file or folder to this machine and open the copy, which is removed with what was opened.

    Errors name the URL and not the copy.
    """
    folder = tempfile.mkdtemp(prefix="banditsis-")
    copy = None
    try:
        files, path = connect(url)
        copy = Path(folder) / path.rsplit("/", 1)[-1]
        files.get(path, str(copy), recursive=files.isdir(path))
        opened = open_file(copy)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, (ValueError, TypeError)):
            error.args = tuple(a.replace(str(copy), url) if isinstance(a, str) else a for a in error.args)
        raise
    weakref.finalize(getattr(opened, "source", opened), shutil.rmtree, folder, ignore_errors=True)
    return opened


def connect(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    fsspec = import_optional("fsspec", "s3")
    try:
        files, path = fsspec.core.url_to_fs(url)
        if not files.exists(path):
            raise FileNotFoundError(f"{url} does not exist or is not readable: check the URL.")
    except ImportError as error:
        package = PROTOCOL_PACKAGES.get(url.split(":")[0], "another package")
        raise ImportError(f"reading {url} needs {package} ({error}).") from error
    return files, path.rstrip("/")
