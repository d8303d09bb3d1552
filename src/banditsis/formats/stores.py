"""Matrices in HDF5 and Zarr: one array of a group, with the arrays that belong to it, or AnnData."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from banditsis.core.arrays import Array, Columns, Indices, Rows, StoredCells, as_indices, chunks, count_rows
from banditsis.formats.files import allowed_memory, check_memory, check_shape, readable, to_text
from banditsis.formats.opened import OpenedMatrix, ReadOptions, check_unique_names
from banditsis.sources.base import Source
from banditsis.sources.blocks import BlockSource
from banditsis.sources.sparse import SparseSource

FEATURE_NAMES = ("names", "feature_names", "columns", "column_names", "var_names")
SAMPLE_IDS = ("ids", "sample_ids", "index", "obs_names")
#: Attributes of netCDF that say that the cells of an array are not its values.
PACKING = ("scale_factor", "add_offset", "missing_value", "_Unsigned")
NAN_IN_BASE64 = "AAAAAAAA+H8="  # as xarray writes it
SPARSE_AXIS = {"csr_matrix": 0, "csc_matrix": 1}
ENTRIES_AT_ONCE = 1 << 16  # of an uncompressed sparse matrix


class Store(ABC):
    """A Zarr store or an HDF5 file that has been opened: groups of arrays, with attributes."""

    format_name: str

    def __init__(self, path: object, root: Any, memory_limit: int | None) -> None:
        self.path, self.root, self.memory_limit = path, root, memory_limit

    @abstractmethod
    def arrays(self, group: Any) -> Mapping[str, Any]:
        """The arrays of a group by name; they have a shape, a dtype and values in ``array[...]``."""

    @abstractmethod
    def prepare(self, array: Any) -> Any:
        """What can be sliced to read an array; raise if its cells are in other files or need unsafe code."""

    @abstractmethod
    def make_source(self, cells: Any, names: Sequence[str] | None) -> Source:
        """A source of the cells of an array that was checked."""

    def where(self, array: Any) -> str:
        """The name of an array in messages."""
        return f"{self.path}:{array.name}".removesuffix(":/")

    def readable(self) -> AbstractContextManager[None]:
        return readable(self.path, self.format_name)

    def check(self, array: Any) -> Any:
        """What can be sliced to read an array; raise if that is not safe, or its cells are not its values."""
        where, cells, chunk = self.where(array), self.prepare(array), array.chunks or ()
        version = getattr(getattr(array, "metadata", None), "zarr_format", 0)
        is_xarray = version == 2 and "_ARRAY_DIMENSIONS" in array.attrs  # which stores the attribute there
        fill = array.attrs.get("_FillValue", array.fill_value or None if is_xarray else None)
        packed = [name for name in PACKING if name in array.attrs]
        if fill is not None and any(v == v and v != NAN_IN_BASE64 for v in np.ravel(fill).tolist()):
            packed.append("_FillValue")
        if packed:
            raise ValueError(
                f"{where} is packed, as its attribute {packed[0]} says. Open it with xarray, which applies "
                "such attributes, and pass the array."
            )
        n_bytes = math.prod(chunk) * max(8, np.dtype(array.dtype).itemsize)
        check_memory(where, n_bytes, self.memory_limit, f"has chunks of {chunk} cells")
        return cells

    def read(self, array: Any) -> Array:
        """Values of a vector: numbers unchanged, everything else as text."""
        with self.readable():
            n_bytes = math.prod(array.shape) * max(8, np.dtype(array.dtype).itemsize)
            check_memory(self.where(array), n_bytes, self.memory_limit, f"has the shape {array.shape}")
            values = np.asarray(self.check(array)[...]).reshape(-1)
            return values if values.dtype.kind in "fiub" else np.array([to_text(value) for value in values])

    def open_dense(self, where: object, array: Any, names: Sequence[str] | None = None) -> Source:
        """A source of an array that is a numeric matrix, rows × features."""
        shape, kind = array.shape, np.dtype(array.dtype).kind
        if len(shape) != 2 or 0 in shape or kind not in "fiub":
            raise ValueError(
                f"{where} is an array of {array.dtype} of shape {shape}; it must be real numbers, rows × "
                "features."
            )
        check_shape(where, shape, self.memory_limit)
        return self.make_source(self.check(array), names)


def open_matrix(store: Store, where: object, inner: str, options: ReadOptions) -> OpenedMatrix:
    """Open an array, or the matrix of a group, with the names, ids and vectors that are next to it."""
    if inner and inner not in store.root:
        choices = ", ".join(sorted(store.arrays(store.root))[:5]) or "none"
        raise ValueError(f"{store.path} has no array {inner}; its arrays are: {choices}.")
    node = store.root[inner] if inner else store.root
    array = node if hasattr(node, "shape") else _find_matrix(where, store.arrays(node))
    parent = array.name.strip("/").rpartition("/")[0]
    group = store.root[parent] if parent else store.root
    members = store.arrays(group) if not hasattr(group, "shape") else {}
    source = store.open_dense(where, array)
    n, p = source.shape
    for key in FEATURE_NAMES:  # an attribute or an array of strings
        names = array.attrs.get(key, group.attrs.get(key))
        if names is None and key in members and len(members[key].shape) == 1:
            names = store.read(members[key])
        if names is not None and not isinstance(names, str) and len(names) == p:
            source.names = [to_text(name) for name in names]
            break
    vectors = {name: member for name, member in members.items() if member.shape in ((n,), (n, 1))}
    ids = next((vectors[name] for name in SAMPLE_IDS if name in vectors), None)
    read_ids = None if ids is None else lambda: np.array(store.read(ids), str)
    columns = {name: partial(store.read, member) for name, member in vectors.items()}
    return OpenedMatrix(source, where, options, read_ids, columns)


def _find_matrix(where: object, members: Mapping[str, Any]) -> Any:
    """The two-dimensional array of a group: X, or the only one."""
    matrices = {
        name: member
        for name, member in members.items()
        if len(member.shape) == 2 and member.shape[1] > 1 and np.dtype(member.dtype).kind in "fiub"
    }
    if "X" in matrices or len(matrices) == 1:
        return matrices.get("X", next(iter(matrices.values())))
    if not matrices:
        contents = ", ".join(f"{name} {member.shape}" for name, member in members.items()) or "no array"
        raise ValueError(f"{where} has no two-dimensional array of numbers: it contains {contents}.")
    separator = "/" if ":/" in str(where) else ":/"
    choices = ", ".join(f"{where}{separator}{name}" for name in sorted(matrices)[:5])
    raise ValueError(f"{where} has {len(matrices):,} matrices, and none is named X: open one of {choices}.")


class StoredSparseSource(BlockSource):
    """A sparse matrix in a file, by row (CSR, axis 0) or column (CSC, axis 1), read in dense tiles."""

    def __init__(self, store: Store, group: Any, axis: int, shape: tuple[int, int], names: list[str]) -> None:
        self.store, self.axis, self.shape, self.names = store, axis, shape, names
        self.starts: Array = store.read(group["indptr"]).astype(np.int64)
        self.data, self.indices = (store.check(group[part]) for part in ("data", "indices"))
        consistent = (self.starts[-1],) == self.data.shape == self.indices.shape
        kinds = np.dtype(self.data.dtype).kind in "fiub" and np.dtype(self.indices.dtype).kind in "iu"
        increasing = self.starts[0] == 0 and (np.diff(self.starts) >= 0).all()
        if self.starts.shape != (shape[axis] + 1,) or not (consistent and kinds and increasing):
            raise self._inconsistent()
        self.n_entries = int(self.starts[-1])
        self.density = self.n_entries / max(1, shape[0] * shape[1])
        self.dtype = np.dtype(self.data.dtype).newbyteorder("=")
        entries = group["data"]
        chunk_entries = (getattr(entries, "shards", None) or entries.chunks or (ENTRIES_AT_ONCE,))[0]
        n_lines = max(1, int(chunk_entries * shape[axis] / max(1, self.n_entries)))
        #: Rows (CSR) or columns (CSC) that are read together.
        self.block_lines = min(shape[axis], n_lines)
        self.chunk = (self.block_lines, shape[1]) if axis == 0 else (shape[0], self.block_lines)

    def _inconsistent(self) -> ValueError:
        parts = "inconsistent parts (data, indices, indptr)"
        return ValueError(f"{self.store.path} has a sparse matrix with {parts}: write it again.")

    def _read_entries(self, first: int, last: int) -> tuple[Array, Array]:
        """Values and indices of a range of entries."""
        with self.store.readable():
            data, indices = np.asarray(self.data[first:last]), np.asarray(self.indices[first:last])
        if last > first and not 0 <= indices.min() <= indices.max() < self.shape[1 - self.axis]:
            raise self._inconsistent()
        return data.astype(self.dtype, copy=False), indices

    def load(self) -> SparseSource:
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

    def read_stored(self, rows: Rows, columns: Indices | slice) -> StoredCells:
        lines, others = map(as_indices, (rows, columns) if self.axis == 0 else (columns, rows))
        parts = [self._read_lines(some)[:, others] for some in chunks(lines, self.block_lines)]
        cells = scipy.sparse.vstack(parts, format="csr")
        cells = cells.tocsc() if self.axis == 0 else cells
        return StoredCells(cells.indptr[:-1], cells.indptr[1:], cells.indices, cells.data)

    def _read_lines(self, lines: Indices) -> Any:
        """Lines that are close together, from one range of entries."""
        first, last = (int(lines[0]), int(lines[-1]) + 1) if len(lines) else (0, 0)
        starts = self.starts[first : last + 1]
        parts = *self._read_entries(int(starts[0]), int(starts[-1])), starts - starts[0]
        part = scipy.sparse.csr_array(parts, shape=(last - first, self.shape[1 - self.axis]))
        return part if len(lines) == last - first else part[lines - first]

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        dense = super().bytes_touched(n_rows, n_columns, scattered=scattered)
        return float(dense * self.density * (1 + self.indices.dtype.itemsize / self.dtype.itemsize))


def open_anndata(store: Store, matrix: str, options: ReadOptions) -> OpenedMatrix:
    """Open a matrix of AnnData with the tables of its rows and columns: X, raw/X or layers/name."""
    path, file, var_name = store.path, store.root, "raw/var" if matrix == "raw/X" else "var"
    layers = [f"layers/{name}" for name in sorted(file.get("layers", ()))]
    matrices = [name for name in ("X", "raw/X", *layers) if name in file]
    if matrix != "X" and matrix not in matrices:
        raise ValueError(f"{path} has no matrix {matrix}; open one of {', '.join(matrices)}.")
    for part in (matrix, "obs", var_name):
        if part not in file:
            contents = ", ".join(file) or "nothing"
            raise ValueError(f"{path} is not an AnnData file: it has no {part} and contains {contents}.")
    names, ids = (_read_labels(store, part) for part in (var_name, "obs"))
    check_unique_names(names.tolist(), path)
    source = _open_matrix(store, matrix, (len(ids), len(names)), names.tolist())
    obs = file["obs"]
    columns = [name for name in obs if name not in ("__categories", obs.attrs.get("_index"))]
    others = {name: partial(_read_column, store, obs, name) for name in columns}
    return OpenedMatrix(source, path, options, lambda: ids, others)


def _open_matrix(store: Store, matrix: str, expected: tuple[int, int], names: list[str]) -> Source:
    """Open a matrix; a sparse one is loaded if it fits in memory."""
    where, node = f"{matrix} of {store.path}", store.root[matrix]
    encoding = to_text(node.attrs.get("encoding-type", "unknown"))
    is_dense = hasattr(node, "dtype")
    if not is_dense and encoding not in SPARSE_AXIS:
        raise ValueError(f"{where} is stored as {encoding}; it must be dense, or {' or '.join(SPARSE_AXIS)}.")
    shape = tuple(int(length) for length in (node.shape if is_dense else node.attrs["shape"]))
    if shape != expected:
        n, p = expected
        raise ValueError(f"{where} has shape {shape}, and the file {n:,} observations and {p:,} variables.")
    if is_dense:
        return store.open_dense(where, node, names)
    source = StoredSparseSource(store, node, SPARSE_AXIS[encoding], expected, names)
    n_bytes = source.n_entries * (source.dtype.itemsize + np.dtype(source.indices.dtype).itemsize)
    return source if n_bytes > allowed_memory(store.memory_limit) else source.load()


def _read_labels(store: Store, part: str) -> Array:
    """The names of observations or variables."""
    group = store.root[part]
    name = to_text(group.attrs.get("_index", "_index"))
    labels = _read_column(store, group, name) if name in group else None
    if labels is None or (labels.dtype.kind == "O" and any(label is None for label in labels)):
        raise ValueError(f"{store.path} has missing names in {part}: rewrite it with a newer anndata.")
    return np.array(labels, str)


def _read_column(store: Store, group: Any, name: str) -> Array:
    """A column of obs or var: numbers, text, categorical or nullable; missing values are NaN or None."""
    node = group[name]
    with store.readable():
        if hasattr(node, "dtype"):
            if "categories" not in node.attrs:
                return store.read(node)
            node = {"codes": node, "categories": group["__categories"][name]}  # written by anndata 0.7
        if "mask" in node:
            values, missing = store.read(node["values"]), store.read(node["mask"]).astype(bool)
        else:
            codes, categories = store.read(node["codes"]), store.read(node["categories"])
            if codes.size and not -1 <= codes.min() <= codes.max() < len(categories):
                raise ValueError(f"codes {codes.min()} to {codes.max()} for {len(categories)} categories.")
            values, missing = np.append(categories, categories[:1])[codes], codes < 0
    if missing.any():
        is_number = values.dtype.kind in "fiub"
        values = values.astype(np.float64 if is_number else object)
        values[missing] = np.nan if is_number else None
    return values
