"""Whatever a user may pass as data, opened."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from banditsis._checks import is_dask
from banditsis.sources.addresses import is_address, open_address
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source
from banditsis.sources.columns import take_out
from banditsis.sources.files import Opened, open_file
from banditsis.sources.mapped import MappedSource


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
    return Opened(source) if target is None else take_out(source, target, "X")


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
