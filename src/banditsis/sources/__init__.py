"""Where features live; one kind of source a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from banditsis._typing import Array
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source
from banditsis.sources.columns import take_out
from banditsis.sources.files import Opened, open_file

__all__ = ["ArraySource", "Source", "open_source"]


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
        A column of the data, by name or 1-based number, that is taken out of the features.
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
    if isinstance(data, (str, os.PathLike)):
        opened = open_file(data, target, one_hot=one_hot, memory_limit=memory_limit)
    elif is_frame(data):
        from banditsis.sources.frames import open_frame

        opened = open_frame(data, target, one_hot=one_hot, names=names)
    else:
        source = _in_memory(data, names)
        opened = Opened(source) if target is None else take_out(source, target, "X")
    if target is None:
        return opened.source
    assert opened.y is not None
    return opened.source, opened.y


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
    if is_sparse(data):
        from banditsis.sources.sparse import SparseSource

        return SparseSource(data, names)
    return ArraySource(data.to_numpy() if hasattr(data, "to_numpy") else np.asanyarray(data), names)
