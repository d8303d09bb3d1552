"""Where features live; one kind of source a file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source

__all__ = ["ArraySource", "Source", "open_source"]


def open_source(data: Any, names: Sequence[str] | None = None) -> Source:
    """Make a source of an array or a frame; a source is passed through.

    Parameters
    ----------
    data : array-like of shape (n, p), pandas or polars frame, or Source
        An array is used where it lies, without a copy.
    names : sequence of str, optional
        Names of the features; by default those of the frame, or x0, x1, ….

    Examples
    --------
    >>> import numpy as np
    >>> source = open_source(np.zeros((5, 3)))
    >>> source.shape, source.name(2)
    ((5, 3), 'x2')
    """
    if isinstance(data, Source):
        return data
    if hasattr(data, "toarray") and hasattr(data, "nnz"):
        raise TypeError("sparse matrices are not supported; pass X.toarray() if it fits in memory.")
    if names is None and hasattr(data, "columns"):
        names = [str(name) for name in data.columns]
    array = data.to_numpy() if hasattr(data, "to_numpy") else np.asanyarray(data)
    if array.dtype == object and hasattr(data, "iloc"):  # mixed or nullable columns of a pandas frame
        with suppress(TypeError, ValueError):
            array = data.to_numpy(dtype=np.float64, na_value=np.nan)
    return ArraySource(array, names)
