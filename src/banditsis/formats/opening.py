"""Whatever a user may pass as data, opened."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from banditsis.arrays import Array
from banditsis.formats.registry import Opened, open_file, split_target_column
from banditsis.formats.remote import is_address, open_address
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source
from banditsis.sources.memmap import MappedSource
from banditsis.validation import is_dask


def open_data(
    data: Any,
    target: str | None,
    *,
    names: Sequence[str] | None = None,
    one_hot: bool = False,
    memory_limit: int | None = None,
    ids_like: Sequence[str] | None = None,
) -> Opened:
    """Open arrays, frames, sparse matrices and files; the target is a column of theirs."""
    if is_address(data):
        opened = open_address(data, target, one_hot=one_hot, memory_limit=memory_limit, ids_like=ids_like)
        return opened if names is None else opened._replace(source=_named(opened.source, names))
    if isinstance(data, (str, os.PathLike)):
        opened = open_file(data, target, one_hot=one_hot, memory_limit=memory_limit, ids_like=ids_like)
        return opened if names is None else opened._replace(source=_named(opened.source, names))
    if is_frame(data):
        from banditsis.sources.frames import open_frame

        return open_frame(data, target, one_hot=one_hot, names=names, ids_like=ids_like)
    source = _in_memory(data, names)
    return Opened(source) if target is None else split_target_column(source, target, "X")


def _named(source: Source, names: Sequence[str]) -> Source:
    if len(names) != source.shape[1]:
        raise ValueError(f"got {len(names):,} names for {source.shape[1]:,} columns.")
    source.names = names
    return source


def is_frame(data: Any) -> bool:
    """Whether this is a frame of pandas, polars or pyarrow."""
    home = type(data).__module__.split(".")[0]
    return home in ("pandas", "polars", "pyarrow") and len(getattr(data, "shape", ())) == 2


def is_sparse(data: Any) -> bool:
    """Whether this is a sparse matrix or array of SciPy."""
    return hasattr(data, "toarray") and hasattr(data, "nnz")


def _in_memory(data: Any, names: Sequence[str] | None) -> Source:
    if isinstance(data, Source):
        return data
    if is_dask(data):
        from banditsis.sources.dask import DaskSource

        return DaskSource(data, names)
    if is_sparse(data):
        from banditsis.sources.sparse import SparseSource

        return SparseSource(data, names)
    if isinstance(data, np.memmap):
        return MappedSource(data, names)
    return ArraySource(data.to_numpy() if hasattr(data, "to_numpy") else np.asanyarray(data), names)


@overload
def open_source(
    data: Any,
    names: Sequence[str] | None = ...,
    *,
    target: None = ...,
    one_hot: bool = ...,
    memory_limit: int | None = ...,
) -> Source: ...


@overload
def open_source(
    data: Any,
    names: Sequence[str] | None = ...,
    *,
    target: str,
    one_hot: bool = ...,
    memory_limit: int | None = ...,
) -> tuple[Source, Array]: ...


def open_source(
    data: Any,
    names: Sequence[str] | None = None,
    *,
    target: str | None = None,
    one_hot: bool = False,
    memory_limit: int | None = None,
) -> Source | tuple[Source, Array]:
    """Make a source of an array, a frame or a file; a source is passed through.

    Parameters
    ----------
    data : array-like of shape (n, p), frame, path of a file, or Source
        An array is used where it lies, without a copy.
    names : sequence of str, optional
        Names of the features; by default those of the data, or x0, x1, ….
    target : str, optional
        The response: a column of the data, by name or 1-based number, which is taken out of the features; or
        ``file:column``, or a ``file`` with one column. It is joined on sample ids where both sides have them,
        else by row order; rows without a response are left out.
    one_hot : bool
        Whether columns that are no numbers become one feature for each of their values.
    memory_limit : int, optional
        Bytes that may be used for what has to be held in memory.

    Returns
    -------
    Source, or the source and the target if there is one

    Examples
    --------
    >>> import numpy as np
    >>> source = open_source(np.zeros((5, 3)))
    >>> source.shape, source.name(2)
    ((5, 3), 'x2')
    """
    if target is not None:
        from banditsis.formats.targets import open_with_target

        found = open_with_target(data, target, names=names, one_hot=one_hot, memory_limit=memory_limit)
        return found.source, found.y
    return open_data(data, None, names=names, one_hot=one_hot, memory_limit=memory_limit).source
