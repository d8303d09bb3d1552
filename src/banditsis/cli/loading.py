"""A file and its target, as the commands open them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from banditsis.arrays import Array
from banditsis.cli.errors import UsageError
from banditsis.formats.registry import Opened, find_column, find_format, format_label
from banditsis.formats.targets import join, open_with_target, read_target, split_target
from banditsis.formatting import count, format_bytes
from banditsis.sources.base import Source
from banditsis.sources.views import RowSubset
from banditsis.store.metadata import read_record


class Loaded(NamedTuple):
    """Data that have been opened for a command."""

    path: Path
    format: str
    source: Source
    y: Array
    #: how the target was found and joined, in a sentence
    how: str
    #: ids of all rows of the data, if they are known
    ids: Array | None = None

    @property
    def missing(self) -> str:
        """What is done about NaN unless asked otherwise: genotypes have gaps, other data should not."""
        before = read_record(self.path).source if self.format == "shuffled" else str(self.path)
        return "pairwise" if before.lower().endswith(".bed") else "raise"

    def describe(self) -> str:
        """The data in one line."""
        return describe_source(self.path, self.format, self.source)


def describe_source(path: Path, format_name: str, source: Source) -> str:
    """Format, shape, dtype and size in one line."""
    n, p = source.shape
    size = format_bytes(n * p * source.dtype.itemsize)
    return (
        f"{path}: {format_label(format_name)}, {count(n, 'row')} × {count(p, 'feature')}, {source.dtype}, "
        f"{size} of cells."
    )


def load(
    path: Path,
    target: str | None,
    *,
    covariates: str | None = None,
    one_hot: bool = False,
    memory_limit: int | None = None,
) -> Loaded:
    """Open data and join the target; a shuffled store may carry its own.

    Where covariates are of a file with ids of samples, a column of the data that is named as ids are is that.
    """
    format_name = find_format(path)
    if target is None:
        target = carried_target(path, format_name)
    found = open_with_target(
        path, target, one_hot=one_hot, memory_limit=memory_limit, ids_like=_ids_beside(covariates)
    )
    return Loaded(path, format_name, *found)


def _ids_beside(covariates: str | None) -> Sequence[str] | None:
    """What ids are called in the file of the covariates, if they have one, and it has ids."""
    file, columns = (None, None) if covariates is None else split_target(covariates)
    if file is None:
        return None
    read = read_target(file, None if columns is None else columns.split(",")[0])
    return None if read.ids is None else read.id_names


def on_workers(
    loaded: Loaded, target: str | None, *, one_hot: bool = False, memory_limit: int | None = None
) -> Source:
    """The same data, to be opened by the workers of a cluster under the same path."""
    from banditsis.sources.dask.windows import FileOnWorkers

    target = target or carried_target(loaded.path, loaded.format)
    options = {"target": target, "one_hot": one_hot, "memory_limit": memory_limit}
    return FileOnWorkers(loaded.path.resolve(), loaded.source, **options)


def carried_target(path: Path, format_name: str) -> str:
    """The target that comes with a shuffled store."""
    carried = read_record(path).target if format_name == "shuffled" else None
    if carried is None:
        raise UsageError(
            f"{path} carries no target: name a column of it, another file or file:column with --target."
        )
    return carried


def read_covariates(loaded: Loaded, wanted: str) -> Array:
    """Columns of the data, or ``file:columns``, for the rows that have a target; names apart by commas."""
    own = set(loaded.source.names or ()).issuperset(wanted.split(","))  # goes before a file of the same name
    file, columns = (None, wanted) if own else split_target(wanted)
    names = [None] if columns is None else columns.split(",")
    return np.column_stack([_covariate(loaded, file, name) for name in names])


def _covariate(loaded: Loaded, file: Path | None, name: str | None) -> Array:
    source = loaded.source
    n, p = source.shape
    if file is None:
        column = find_column([source.name(j) for j in range(p)], str(name), loaded.path)
        return np.asarray(source.read(slice(0, n), slice(column, column + 1))[:, 0])
    whole = source.base if isinstance(source, RowSubset) else source
    joined, values = join(Opened(whole, None, loaded.ids), read_target(file, name), file)[:2]
    known = joined.rows if isinstance(joined, RowSubset) else np.arange(len(values))
    rows = source.rows if isinstance(source, RowSubset) else np.arange(n)
    place = np.searchsorted(known, rows)
    found = (place < len(known)) & (known[np.minimum(place, len(known) - 1)] == rows)
    if not found.all():
        lacking = np.count_nonzero(~found)
        raise ValueError(
            f"{lacking:,} of {n:,} rows have no value of {name or 'the covariate'} in {file}: covariates "
            "must be known for every row that has a target."
        )
    return values[place]
