"""AnnData: a matrix of observations × variables with their tables, in HDF5 or Zarr."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from banditsis.core.arrays import Array, Columns, Indices, Rows, as_indices, count_rows
from banditsis.formats.checks import allowed_memory
from banditsis.formats.opened import OpenedMatrix
from banditsis.formats.options import ReadOptions
from banditsis.formats.stores import Store, to_text
from banditsis.formats.tables import check_unique_names
from banditsis.sources.base import Source
from banditsis.sources.blocks import BlockSource
from banditsis.sources.sparse import SparseSource

SPARSE_AXIS = {"csr_matrix": 0, "csc_matrix": 1}
ENTRIES_AT_ONCE = 1 << 16  # of an uncompressed sparse matrix


class StoredSparseSource(BlockSource):
    """A sparse matrix in a file, by row (CSR, axis 0) or column (CSC, axis 1), read in dense tiles."""

    def __init__(self, store: Store, group: Any, shape: tuple[int, int], names: list[str]) -> None:
        self.store, self.shape, self.names = store, shape, names
        axis = self.axis = SPARSE_AXIS[_encoding(group)]
        self.starts: Array = store.read(group["indptr"]).astype(np.int64)
        self.data, self.indices = (store.check(group[part]) for part in ("data", "indices"))
        consistent = (self.starts[-1],) == self.data.shape == self.indices.shape
        kinds = np.dtype(self.data.dtype).kind in "fiub" and np.dtype(self.indices.dtype).kind in "iu"
        increasing = self.starts[0] == 0 and (np.diff(self.starts) >= 0).all()
        if self.starts.shape != (shape[axis] + 1,) or not (consistent and kinds and increasing):
            raise self._inconsistent()
        self.n_entries = int(self.starts[-1])
        self.dtype = np.dtype(self.data.dtype).newbyteorder("=")
        entries = group["data"]
        chunk_entries = (getattr(entries, "shards", None) or entries.chunks or (ENTRIES_AT_ONCE,))[0]
        lines = max(1, int(chunk_entries * shape[axis] / max(1, self.n_entries)))
        #: Rows (CSR) or columns (CSC) that are read together.
        self.block_lines = min(shape[axis], lines)
        self.chunk = (self.block_lines, shape[1]) if axis == 0 else (shape[0], self.block_lines)

    def _inconsistent(self) -> ValueError:
        return ValueError(
            f"{self.store.path} has a sparse matrix with inconsistent parts (data, indices, indptr): write "
            "it again."
        )

    def _read_entries(self, first: int, last: int) -> tuple[Array, Array]:
        """Values and indices of a range of entries."""
        with self.store.readable():
            data, indices = np.asarray(self.data[first:last]), np.asarray(self.indices[first:last])
        if last > first and not 0 <= indices.min() <= indices.max() < self.shape[1 - self.axis]:
            raise self._inconsistent()
        return data, indices

    def load(self) -> SparseSource:
        """Read the matrix into memory."""
        parts = *self._read_entries(0, self.n_entries), self.starts
        make = scipy.sparse.csr_array if self.axis == 0 else scipy.sparse.csc_array
        return SparseSource(make(parts, shape=self.shape), self.names)

    def tile_columns(self, n_columns: int) -> int:
        # CSR: all columns, because their entries are read anyway.
        return n_columns if self.axis == 0 else min(n_columns, max(1, self.cells_at_once // self.shape[0]))

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        columns = slice(0, self.shape[1]) if columns is None else columns
        lines, others = (rows, columns) if self.axis == 0 else (columns, rows)
        lines = as_indices(lines)
        block = np.empty((len(lines), count_rows(others)), self.dtype)
        start = 0
        for run in np.split(lines, np.flatnonzero(np.diff(lines) > self.block_lines) + 1):
            part = self._read_lines(run)
            if count_rows(others) < part.shape[1]:
                part = part[:, others]
            part.toarray(out=block[start : start + len(run)])
            start += len(run)
        return block if self.axis == 0 else block.T

    def _read_lines(self, lines: Indices) -> Any:
        """Lines that are close together, from one range of entries."""
        first, last = (int(lines[0]), int(lines[-1]) + 1) if len(lines) else (0, 0)
        starts = self.starts[first : last + 1]
        data, indices = self._read_entries(int(starts[0]), int(starts[-1]))
        parts = data.astype(self.dtype, copy=False), indices, starts - starts[0]
        part = scipy.sparse.csr_array(parts, shape=(last - first, self.shape[1 - self.axis]))
        return part if len(lines) == last - first else part[lines - first]

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        density = self.n_entries / (self.shape[0] * self.shape[1])
        dense = super().bytes_touched(n_rows, n_columns, scattered=scattered)
        return float(dense * density * (1 + self.indices.dtype.itemsize / self.dtype.itemsize))


def open_anndata(store: Store, matrix: str, options: ReadOptions) -> OpenedMatrix:
    """Open a matrix of AnnData: ``X``, ``raw/X`` or ``layers/name``."""
    path, file, var_name = store.path, store.root, "raw/var" if matrix == "raw/X" else "var"
    layers = [f"layers/{name}" for name in sorted(file.get("layers", ()))]
    matrices = [name for name in ("X", "raw/X", *layers) if name in file]
    if matrix != "X" and matrix not in matrices:
        raise ValueError(f"{path} has no matrix {matrix}; open one of {', '.join(matrices)}.")
    for part in (matrix, "obs", var_name):
        if part not in file:
            contents = ", ".join(file) or "nothing"
            raise ValueError(f"{path} is not an AnnData file: it has no {part} and contains {contents}.")
    obs, var = file["obs"], file[var_name]
    if hasattr(obs, "dtype") or hasattr(var, "dtype"):
        raise ValueError(f"{path} was written by anndata < 0.7: read and rewrite it with a newer version.")
    names = [to_text(name) for name in _read_labels(store, var, var_name)]
    check_unique_names(names, path)
    ids = _read_labels(store, obs, "obs")
    source = _open_matrix(store, matrix, (len(ids), len(names)), names, options.memory_limit)
    columns = [name for name in obs if name not in ("__categories", obs.attrs.get("_index"))]
    others = {name: partial(_read_column, store, obs, name) for name in columns}
    return OpenedMatrix(source, path, options, lambda: ids, others)


def _open_matrix(
    store: Store, matrix: str, expected: tuple[int, int], names: list[str], memory_limit: int | None
) -> Source:
    """Open a matrix; a sparse one is loaded if it fits in memory."""
    where, node = f"{matrix} of {store.path}", store.root[matrix]
    is_dense = hasattr(node, "dtype")
    if not is_dense and _encoding(node) not in SPARSE_AXIS:
        raise ValueError(
            f"{where} is stored as {_encoding(node)}; it must be dense, csr_matrix or csc_matrix."
        )
    shape = tuple(int(length) for length in (node.shape if is_dense else node.attrs["shape"]))
    if shape != expected:
        n, p = expected
        raise ValueError(
            f"{where} has shape {shape}, and the file has {n:,} observations and {p:,} variables."
        )
    if is_dense:
        return store.open_dense(where, node, names)
    source = StoredSparseSource(store, node, expected, names)
    n_bytes = source.n_entries * (source.dtype.itemsize + np.dtype(source.indices.dtype).itemsize)
    return source if n_bytes > allowed_memory(memory_limit) else source.load()


def _encoding(group: Any) -> str:
    return to_text(group.attrs.get("encoding-type", "unknown"))


def _read_labels(store: Store, group: Any, part: str) -> Array:
    name = to_text(group.attrs.get("_index", "_index"))
    labels = _read_column(store, group, name) if name in group else None
    if labels is None or (labels.dtype.kind == "O" and any(label is None for label in labels)):
        raise ValueError(f"{store.path} has missing names in {part}: rewrite it with a newer anndata.")
    return np.array(labels, str)


def _read_column(store: Store, group: Any, name: str) -> Array:
    """A column of obs or var: numbers, text, categorical or nullable."""
    node = group[name]
    if hasattr(node, "dtype"):
        if "categories" in node.attrs:  # written by anndata 0.7
            return _decode_categories(store.read(group["__categories"][name]), store.read(node))
        return store.read(node)
    if "codes" in node:
        return _decode_categories(store.read(node["categories"]), store.read(node["codes"]))
    if "mask" not in node:
        raise ValueError(f"column {name!r} of {group.name[1:]} has an unsupported encoding.")
    return _fill_missing(store.read(node["values"]), store.read(node["mask"]).astype(bool))


def _decode_categories(categories: Array, codes: Array) -> Array:
    """The category of each code; code -1 is a missing value."""
    if codes.size and not -1 <= codes.min() <= codes.max() < len(categories):
        raise ValueError(f"codes {codes.min()} to {codes.max()} for {len(categories)} categories.")
    return _fill_missing(np.append(categories, categories[:1])[codes], codes < 0)


def _fill_missing(values: Array, missing: Array) -> Array:
    """Put NaN or None where values are missing."""
    if missing.any():
        is_number = values.dtype.kind in "fiub"
        values = values.astype(np.float64 if is_number else object)
        values[missing] = np.nan if is_number else None
    return values
