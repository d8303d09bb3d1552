"""AnnData's ``.h5ad``: observations × variables, dense or sparse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from banditsis.arrays import Array, Columns, Floats, Indices, Rows, count_rows
from banditsis.formats.hdf5 import map_dataset, open_hdf5_file, source_of
from banditsis.formats.members import as_text, check_matrix, values_of
from banditsis.formats.registry import Opened, allowed_memory, find_column, split_target_column
from banditsis.formats.tables import check_unique_names, damaged
from banditsis.sources.base import Source
from banditsis.sources.blocks import BlockSource
from banditsis.sources.sparse import SparseSource

SPARSE = {"csr_matrix": 0, "csc_matrix": 1}
ENTRIES_AT_ONCE = 1 << 16  # of contiguous entries that count as near each other


class H5SparseSource(BlockSource):
    """A sparse matrix in an HDF5 group, made dense a tile at a time.

    Parameters
    ----------
    group : h5py.Group
        With ``data``, ``indices`` and ``indptr``.
    shape : tuple of int
        Rows and columns.
    axis : int
        0 if it is compressed by row (CSR), 1 if by column (CSC).
    names : list of str, optional
        Names of the columns.
    """

    def __init__(self, group: Any, shape: tuple[int, int], axis: int, names: list[str] | None) -> None:
        self.shape, self.axis, self.names, self.path = shape, axis, names, Path(group.file.filename)
        self.starts: Array = group["indptr"][...].astype(np.int64)
        self.data, self.indices = (_mapped(group[name]) for name in ("data", "indices"))
        fitting = self.starts[-1] == len(self.data) == len(self.indices)
        if len(self.starts) != shape[axis] + 1 or not fitting:
            raise ValueError(f"{self.path} has a sparse X whose parts do not fit together: write it again.")
        self.dtype = np.dtype(self.data.dtype).newbyteorder("=")
        together = (getattr(self.data, "chunks", None) or (ENTRIES_AT_ONCE,))[0]
        lines = max(1, int(together * shape[axis] / max(1, len(self.data))))
        #: Lines (rows or columns) that are read together; of the other axis, all.
        self.near = min(shape[axis], lines)
        self.chunk = (self.near, shape[1]) if axis == 0 else (shape[0], self.near)

    def in_memory(self) -> SparseSource:
        """The same matrix, loaded."""
        try:
            parts = np.asarray(self.data[:]), np.asarray(self.indices[:]), self.starts
        except (OSError, RuntimeError) as error:
            raise damaged(self.path, "HDF5", error) from error
        make = scipy.sparse.csr_array if self.axis == 0 else scipy.sparse.csc_array
        return SparseSource(make(parts, shape=self.shape), self.names)

    def tile_columns(self, n_columns: int) -> int:
        # By row: all columns, since their entries are read in any case.
        return n_columns if self.axis == 0 else min(n_columns, max(1, self.cells_at_once // self.shape[0]))

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        if columns is None:
            columns = slice(0, self.shape[1])
        lines, others = (rows, columns) if self.axis == 0 else (columns, rows)
        block = np.zeros((count_rows(lines), count_rows(others)), self.dtype)
        place_of = np.full(self.shape[1 - self.axis], -1)
        place_of[others] = np.arange(count_rows(others))
        listed = np.arange(lines.start, lines.stop) if isinstance(lines, slice) else lines
        done = 0
        for near in np.split(listed, np.flatnonzero(np.diff(listed) > self.near) + 1):
            self._fill(near, place_of, block[done : done + len(near)])
            done += len(near)
        return block if self.axis == 0 else block.T

    def _fill(self, lines: Indices, place_of: Indices, block: Array) -> None:
        """Fill lines that lie near each other, from one run of entries."""
        first, last = int(self.starts[lines[0]]), int(self.starts[lines[-1] + 1])
        try:
            data, indices = self.data[first:last], self.indices[first:last]
            place = place_of[indices]
        except (OSError, RuntimeError, IndexError) as error:
            raise damaged(self.path, "HDF5", error) from error
        lengths = np.diff(self.starts[lines[0] : lines[-1] + 2])
        line = np.full(len(lengths), -1)
        line[lines - lines[0]] = np.arange(len(lines))
        line = np.repeat(line, lengths)
        wanted = (place >= 0) & (line >= 0)
        block[line[wanted], place[wanted]] = data[wanted]

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        share = len(self.data) / (self.shape[0] * self.shape[1])
        whole = super().bytes_touched(n_rows, n_columns, scattered=scattered)
        return float(whole * share * (1 + self.indices.dtype.itemsize / self.dtype.itemsize))


def open_h5ad(
    path: Path, target: str | None = None, *, memory_limit: int | None = None, **options: Any
) -> Opened:
    """Open X; the target is a column of ``obs``, or a variable."""
    file = open_hdf5_file(path)
    for part in ("X", "obs", "var"):
        if part not in file:
            raise ValueError(
                f"{path} has no {part}, as an .h5ad file has: it holds {', '.join(file) or 'nothing'}."
            )
    if hasattr(file["obs"], "dtype") or hasattr(file["var"], "dtype"):
        raise ValueError(
            f"{path} was written by an anndata before 0.7: read and write it again with a new one."
        )
    names = [as_text(name) for name in _index(path, file["var"], "var")]
    check_unique_names(names, path)
    source = _open_matrix(path, file["X"], names, memory_limit)
    if len(names) != source.shape[1]:
        raise ValueError(f"{path} has {len(names):,} variables and {source.shape[1]:,} columns of X.")
    ids = _index(path, file["obs"], "obs")
    if target is None:
        return Opened(source, None, ids)
    labels = [name for name in file["obs"] if name not in ("__categories", file["obs"].attrs.get("_index"))]
    if target not in labels and (target in names or target.isdigit()):
        return split_target_column(source, target, path, ids)
    label = labels[find_column(labels, target, f"obs of {path}")]
    return Opened(source, _values(file["obs"], label), ids)


def _open_matrix(path: Path, node: Any, names: list[str], memory_limit: int | None) -> Source:
    """X: where it lies if it is dense, in memory if it is sparse and fits there, else in tiles."""
    if hasattr(node, "dtype"):
        check_matrix(f"X of {path}", node)
        return source_of(node, names)
    kind = as_text(node.attrs.get("encoding-type", "unknown"))
    if kind not in SPARSE:
        raise ValueError(f"X of {path} is stored as {kind}; it must be dense, or sparse by row or column.")
    n, p = (int(length) for length in node.attrs["shape"])
    source = H5SparseSource(node, (n, p), SPARSE[kind], names)
    stored = len(source.data) * (source.dtype.itemsize + source.indices.dtype.itemsize)
    return source if stored > allowed_memory(memory_limit) else source.in_memory()


def _index(path: Path, group: Any, part: str) -> Array:
    name = as_text(group.attrs.get("_index", "_index"))
    if name not in group:
        raise ValueError(f"{path} has no names in {part}: write it again with a new anndata.")
    return np.array(_values(group, name), str)


def _values(group: Any, name: str) -> Array:
    """A column of obs or var: numbers, or text; categories and nullable ones included."""
    node = group[name]
    if hasattr(node, "dtype"):
        if "categories" in node.attrs:  # as anndata 0.7 wrote them
            return _by_code(values_of(group["__categories"][name]), node[...])
        return values_of(node)
    if "codes" in node:
        return _by_code(values_of(node["categories"]), node["codes"][...])
    if "mask" in node:
        values: Floats = np.array(node["values"][...], np.float64)
        values[node["mask"][...]] = np.nan
        return values
    raise ValueError(f"column {name!r} of {group.name[1:]} is stored in a way that is not known here.")


def _by_code(categories: Array, codes: Array) -> Array:
    """The category of each code; -1 stands for none."""
    if (codes >= 0).all():
        return categories[codes]
    missing = np.nan if categories.dtype.kind in "fiub" else None
    kind = np.dtype(np.float64) if categories.dtype.kind in "fiub" else np.dtype(object)
    return np.append(categories.astype(kind), np.array([missing], kind))[codes]


def _mapped(dataset: Any) -> Any:
    mapped = map_dataset(dataset)
    return dataset if mapped is None else mapped
