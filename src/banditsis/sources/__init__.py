"""Where features live; one kind of source a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from banditsis._typing import Array
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source
from banditsis.sources.opening import is_frame, is_sparse, open_data
from banditsis.sources.targets import open_with_target

__all__ = ["ArraySource", "Source", "is_frame", "is_sparse", "open_source"]


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
        found = open_with_target(data, target, names=names, one_hot=one_hot, memory_limit=memory_limit)
        return found.source, found.y
    return open_data(data, None, names=names, one_hot=one_hot, memory_limit=memory_limit).source
