"""HDF5 files with a two-dimensional dataset, and AnnData's ``.h5ad`` files, dense or sparse."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from banditsis.arrays import Array, Columns, Indices, Rows, count_rows
from banditsis.formats.chunks import select, split_by_chunk
from banditsis.formats.members import (
    check_matrix,
    find_matrix,
    find_names,
    read_vector,
    take_members,
    to_text,
)
from banditsis.formats.options import DEFAULTS, ReadOptions
from banditsis.formats.packing import unpack
from banditsis.formats.registry import Opened, allowed_memory, import_optional, split_path, take_apart
from banditsis.formats.tables import check_unique_names, damaged
from banditsis.sources.base import Source
from banditsis.sources.blocks import BlockSource
from banditsis.sources.memmap import MappedSource
from banditsis.sources.sparse import SparseSource

MIN_TILE = 1 << 17  # cells: smaller chunks are read several at once
DEFLATE, SHUFFLE = 1, 2  # HDF5's filter numbers
SPARSE_AXIS = {"csr_matrix": 0, "csc_matrix": 1}
ENTRIES_AT_ONCE = 1 << 16  # of an uncompressed sparse matrix
#: What h5py raises if a file is damaged, besides ValueError.
DAMAGE = (OSError, RuntimeError, LookupError, TypeError, AttributeError, ArithmeticError, SystemError)


@contextmanager
def _explained_errors(path: Path) -> Iterator[None]:
    """Raise one error that says what to do if the HDF5 library cannot read a file."""
    try:
        yield
    except (*DAMAGE, UnicodeDecodeError) as error:
        raise _explain(path, error) from error


def _explain(path: Path, error: Exception) -> Exception:
    """The error to raise instead of one from the HDF5 library; a missing filter is named if it says so."""
    text = str(error)
    if "required filter" in text or "plugin" in text:
        return ImportError(
            f"{path} is compressed with a filter that this HDF5 library does not have ({text}): "
            "pip install hdf5plugin"
        )
    return damaged(path, "HDF5", error)


class Hdf5Source(BlockSource):
    """A chunked dataset of an HDF5 file.

    The HDF5 library runs one thread at a time. Chunks with common filters are only fetched under its lock and
    decompressed outside it.
    """

    def __init__(self, dataset: Any, names: list[str] | None = None) -> None:
        self.dataset, self.names = dataset, names
        self.shape, self.dtype = dataset.shape, np.dtype(dataset.dtype).newbyteorder("=")
        self.chunk = dataset.chunks or (max(1, MIN_TILE // self.shape[1]), self.shape[1])
        self.cells_at_once = max(MIN_TILE, self.chunk[0] * self.chunk[1])
        self._filters = _find_filters(dataset)

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        if columns is None:
            columns = slice(0, self.shape[1])
        block = np.empty((count_rows(rows), count_rows(columns)), self.dtype)
        across = list(split_by_chunk(columns, self.chunk[1]))
        for row in split_by_chunk(rows, self.chunk[0]):
            for column in across:
                values = select(self._read_chunk(row.chunk, column.chunk), row.inside, column.inside)
                if values.shape == block.shape and values.dtype == block.dtype:
                    return values  # one chunk holds the whole block: no copy
                block[row.place, column.place] = values
        return block

    def _read_chunk(self, i: int, j: int) -> Array:
        height, width = self.chunk
        top, left = i * height, j * width
        try:
            if self._filters is not None:
                try:
                    skipped, data = self.dataset.id.read_direct_chunk((top, left))
                except (OSError, RuntimeError, ValueError):
                    pass  # never written, or damaged: the library finds out
                else:
                    return self._decode(data, skipped)
            return np.asarray(self.dataset[top : top + height, left : left + width])
        except (*DAMAGE, ValueError, zlib.error) as error:
            raise _explain(Path(self.dataset.file.filename), error) from error

    def _decode(self, data: Any, skipped: int) -> Array:
        """Undo the filters, last one first; bit k of ``skipped`` is set if filter k was not applied."""
        assert self._filters is not None
        for k, code in reversed(list(enumerate(self._filters))):
            if skipped >> k & 1:
                continue
            if code == DEFLATE:
                data = zlib.decompress(data)
            else:  # shuffled: the first bytes of all values, then the second bytes, …
                planes = np.frombuffer(data, np.uint8).reshape(self.dtype.itemsize, -1)
                data = np.ascontiguousarray(planes.T)
        height, width = self.chunk
        return np.frombuffer(data, self.dataset.dtype, count=height * width).reshape(height, width)


def _find_filters(dataset: Any) -> tuple[int, ...] | None:
    """The filters of a dataset; None if only the HDF5 library can decode it."""
    plist = dataset.id.get_create_plist()
    codes = tuple(int(plist.get_filter(k)[0]) for k in range(plist.get_nfilters()))
    known = dataset.chunks is not None and set(codes) <= {DEFLATE, SHUFFLE}
    return codes if known and np.dtype(dataset.dtype).kind in "fiu" else None


class Hdf5SparseSource(BlockSource):
    """A sparse matrix in an HDF5 group, by row (CSR, axis 0) or column (CSC, axis 1), read in dense tiles."""

    def __init__(self, group: Any, shape: tuple[int, int], axis: int, names: list[str] | None) -> None:
        self.shape, self.axis, self.names, self.path = shape, axis, names, Path(group.file.filename)
        self.starts: Array = group["indptr"][...].astype(np.int64)
        parts = [group[name] for name in ("data", "indices")]
        for part in (*parts, group["indptr"]):
            _warn_of_missing_cells(self.path, part)
        maps = [_map_dataset(part) for part in parts]
        self.data, self.indices = (m if m is not None else part for m, part in zip(maps, parts, strict=True))
        consistent = (self.starts[-1],) == self.data.shape == self.indices.shape
        kinds = np.dtype(self.data.dtype).kind in "fiub" and np.dtype(self.indices.dtype).kind in "iu"
        increasing = self.starts[0] == 0 and (np.diff(self.starts) >= 0).all()
        if self.starts.shape != (shape[axis] + 1,) or not (consistent and kinds and increasing):
            raise self._inconsistent()
        self.dtype = np.dtype(self.data.dtype).newbyteorder("=")
        chunk_entries = (parts[0].chunks or (ENTRIES_AT_ONCE,))[0]
        lines = max(1, int(chunk_entries * shape[axis] / max(1, len(self.data))))
        #: Rows (CSR) or columns (CSC) that are read together.
        self.block_lines = min(shape[axis], lines)
        self.chunk = (self.block_lines, shape[1]) if axis == 0 else (shape[0], self.block_lines)

    def _inconsistent(self) -> ValueError:
        return ValueError(
            f"{self.path} has a sparse matrix with inconsistent parts (data, indices, indptr): rewrite it."
        )

    def _read_entries(self, first: int, last: int) -> tuple[Array, Array]:
        """Values and indices of a range of entries."""
        with _explained_errors(self.path):
            data, indices = np.asarray(self.data[first:last]), np.asarray(self.indices[first:last])
        if last > first and not 0 <= indices.min() <= indices.max() < self.shape[1 - self.axis]:
            raise self._inconsistent()
        return data, indices

    def load(self) -> SparseSource:
        """Read the matrix into memory."""
        parts = *self._read_entries(0, len(self.data)), self.starts
        make = scipy.sparse.csr_array if self.axis == 0 else scipy.sparse.csc_array
        return SparseSource(make(parts, shape=self.shape), self.names)

    def tile_columns(self, n_columns: int) -> int:
        # CSR: all columns, because their entries are read anyway.
        return n_columns if self.axis == 0 else min(n_columns, max(1, self.cells_at_once // self.shape[0]))

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        if columns is None:
            columns = slice(0, self.shape[1])
        lines, others = (rows, columns) if self.axis == 0 else (columns, rows)
        block = np.zeros((count_rows(lines), count_rows(others)), self.dtype)
        position = np.full(self.shape[1 - self.axis], -1)
        position[others] = np.arange(count_rows(others))
        if isinstance(lines, slice):
            lines = np.arange(lines.start, lines.stop)
        start = 0
        for run in np.split(lines, np.flatnonzero(np.diff(lines) > self.block_lines) + 1):
            self._fill(run, position, block[start : start + len(run)])
            start += len(run)
        return block if self.axis == 0 else block.T

    def _fill(self, lines: Indices, position: Indices, block: Array) -> None:
        """Fill lines that are close together from one range of entries."""
        first, last = int(self.starts[lines[0]]), int(self.starts[lines[-1] + 1])
        data, indices = self._read_entries(first, last)
        place = position[indices]
        lengths = np.diff(self.starts[lines[0] : lines[-1] + 2])
        line = np.full(len(lengths), -1)
        line[lines - lines[0]] = np.arange(len(lines))
        line = np.repeat(line, lengths)
        requested = (place >= 0) & (line >= 0)
        cells = line[requested] * block.shape[1] + place[requested]
        np.add.at(block.reshape(-1), cells, data[requested].astype(block.dtype))  # duplicates are summed

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        density = len(self.data) / (self.shape[0] * self.shape[1])
        dense = super().bytes_touched(n_rows, n_columns, scattered=scattered)
        return float(dense * density * (1 + self.indices.dtype.itemsize / self.dtype.itemsize))


def open_hdf5(path: Path, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Open the only two-dimensional dataset of a file, or the one named by ``file.h5:/name``."""
    file_path, inner = split_path(path)
    file = _open_file(file_path)
    with _explained_errors(file_path):
        _check_not_pandas(file_path, file)
        if inner is not None and inner not in file:
            choices = ", ".join(sorted(_datasets(file))[:5]) or "none"
            raise ValueError(f"{file_path} has no dataset {inner}; its datasets are: {choices}.")
        dataset = file if inner is None else file[inner]
        if not hasattr(dataset, "dtype"):
            dataset = find_matrix(path, _datasets(dataset), ":/" if inner is None else "/")
        _, p = check_matrix(path, dataset)
        members = _datasets(dataset.parent)
        names = find_names(path, [dataset.attrs, dataset.parent.attrs], members, p)
        return take_members(_open_dataset(dataset, names), apart, path, members)


def _open_file(path: Path) -> Any:
    h5py = import_optional("h5py", "hdf5")
    with suppress(ImportError):
        import_module("hdf5plugin")  # adds filters to the HDF5 library
    try:
        return h5py.File(path, "r")
    except (*DAMAGE, ValueError) as error:
        raise _explain(path, error) from error


def _open_dataset(dataset: Any, names: list[str] | None) -> Source:
    _warn_of_missing_cells(Path(dataset.file.filename), dataset)
    mapped = _map_dataset(dataset)
    return unpack(Hdf5Source(dataset, names) if mapped is None else MappedSource(mapped, names), dataset)


def _warn_of_missing_cells(path: Path, dataset: Any) -> None:
    """Warn if cells were never written, or their source is missing: they read as the fill value."""
    what = None
    if dataset.is_virtual:
        absent = sorted({s.file_name for s in dataset.virtual_sources() if not _has_source(path, s)})
        what = (
            f"{len(absent):,} of its source files are missing ({', '.join(absent[:3])})" if absent else None
        )
    elif dataset.chunks:
        pairs = zip(dataset.shape, dataset.chunks, strict=True)
        expected = int(np.prod([-(-length // chunk) for length, chunk in pairs]))
        absent = expected - dataset.id.get_num_chunks()
        what = f"{absent:,} of {expected:,} chunks were never written" if absent > 0 else None
    elif dataset.size and not dataset.external and dataset.id.get_storage_size() == 0:
        what = "it was never written"
    if what is not None:
        warnings.warn(
            f"{path}:{dataset.name}: {what}; these cells read as {dataset.fillvalue}. If the file is "
            "incomplete, write it again.",
            stacklevel=3,
        )


def _has_source(path: Path, source: Any) -> bool:
    """Whether a source of a virtual dataset exists; a name with % stands for a series of files."""
    if "%" in source.file_name:
        return True
    import h5py

    file = path if source.file_name == "." else path.parent / source.file_name
    try:
        with h5py.File(file, "r") as opened:
            return source.dset_name in opened
    except DAMAGE:
        return False


def _map_dataset(dataset: Any) -> Array | None:
    """A memory map of a dataset; None if it is chunked, compressed or byte-swapped."""
    start = dataset.id.get_offset()
    if start is None or dataset.chunks or dataset.external or np.dtype(dataset.dtype).kind not in "fiu":
        return None
    path, dtype = dataset.file.filename, dataset.dtype
    if not dtype.isnative or Path(path).stat().st_size < start + dataset.size * dtype.itemsize:
        return None
    return np.memmap(path, dtype, "r", start, dataset.shape)


def _datasets(group: Any) -> dict[str, Any]:
    """Datasets directly in a group, or below it if there are none, by path."""
    datasets = {name: node for name, node in group.items() if hasattr(node, "dtype")}
    if not datasets:
        group.visititems(lambda name, node: datasets.update({name: node}) if hasattr(node, "dtype") else None)
    return datasets


def _check_not_pandas(path: Path, file: Any) -> None:
    frames: list[str] = []
    file.visititems(lambda name, node: frames.append(name) if "pandas_type" in node.attrs else None)
    if frames:
        raise ValueError(
            f"{path} was written by pandas, which uses its own layout: read it with pandas.read_hdf(…, "
            f"{frames[0]!r}) and pass the frame, or save the frame as Parquet."
        )


def open_h5ad(path: Path, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Open X of an AnnData file, or ``file.h5ad:/layers/name`` or ``file.h5ad:/raw/X``.

    The target is a column of ``obs``, or a variable.
    """
    path, inner = split_path(path)
    file = _open_file(path)
    with _explained_errors(path):
        return _open_anndata(path, file, "X" if inner is None else inner.strip("/"), apart, options)


def _open_anndata(path: Path, file: Any, matrix: str, apart: Sequence[str], options: ReadOptions) -> Opened:
    var_name = "raw/var" if matrix == "raw/X" else "var"
    if matrix != "X" and matrix not in (matrices := _anndata_matrices(file)):
        raise ValueError(f"{path} has no matrix {matrix}; open one of {', '.join(matrices)}.")
    for part in (matrix, "obs", var_name):
        if part not in file:
            contents = ", ".join(file) or "nothing"
            raise ValueError(f"{path} is not an AnnData file: it has no {part} and contains {contents}.")
    obs, var = file["obs"], file[var_name]
    if hasattr(obs, "dtype") or hasattr(var, "dtype"):
        raise ValueError(f"{path} was written by anndata < 0.7: read and rewrite it with a newer version.")
    names = [to_text(name) for name in _read_labels(path, var, var_name)]
    check_unique_names(names, path)
    ids = _read_labels(path, obs, "obs")
    shape = len(ids), len(names)
    source = _open_matrix(f"{matrix} of {path}", file[matrix], shape, names, options.memory_limit)
    columns = [name for name in obs if name not in ("__categories", obs.attrs.get("_index"))]
    others = {name: partial(_read_column, obs, name) for name in columns}
    return take_apart(source, apart, path, ids, others)


def _anndata_matrices(file: Any) -> list[str]:
    """Paths of the matrices whose columns are variables."""
    layers = [f"layers/{name}" for name in file.get("layers", ())]
    return [name for name in ("X", "raw/X", *layers) if name in file]


def _open_matrix(
    where: str, node: Any, expected: tuple[int, int], names: list[str], memory_limit: int | None
) -> Source:
    """Open a matrix; a sparse one is loaded if it fits in memory."""
    is_dense = hasattr(node, "dtype")
    kind = "dense" if is_dense else to_text(node.attrs.get("encoding-type", "unknown"))
    if not is_dense and kind not in SPARSE_AXIS:
        raise ValueError(f"{where} is stored as {kind}; it must be dense, csr_matrix or csc_matrix.")
    shape = check_matrix(where, node) if is_dense else tuple(int(length) for length in node.attrs["shape"])
    if shape != expected:
        n, p = expected
        raise ValueError(
            f"{where} has shape {shape}, and the file has {n:,} observations and {p:,} variables."
        )
    if is_dense:
        return _open_dataset(node, names)
    source = Hdf5SparseSource(node, expected, SPARSE_AXIS[kind], names)
    n_bytes = len(source.data) * (source.dtype.itemsize + source.indices.dtype.itemsize)
    return source if n_bytes > allowed_memory(memory_limit) else source.load()


def _read_labels(path: Path, group: Any, part: str) -> Array:
    name = to_text(group.attrs.get("_index", "_index"))
    if name not in group:
        raise ValueError(f"{path} has no names in {part}: rewrite it with a newer anndata.")
    labels = _read_column(group, name)
    if labels.dtype.kind == "O" and any(label is None for label in labels):
        raise ValueError(f"{path} has missing names in {part}: give every row a name.")
    return np.array(labels, str)


def _read_column(group: Any, name: str) -> Array:
    """A column of obs or var: numbers, text, categorical or nullable."""
    node = group[name]
    if hasattr(node, "dtype"):
        if "categories" in node.attrs:  # written by anndata 0.7
            return _decode_categories(read_vector(group["__categories"][name]), node[...])
        return read_vector(node)
    if "codes" in node:
        return _decode_categories(read_vector(node["categories"]), node["codes"][...])
    if "mask" in node:
        values, mask = read_vector(node["values"]), np.asarray(node["mask"][...], bool)
        is_text = values.dtype.kind == "U"
        values = values.astype(object if is_text else np.float64)
        values[mask] = None if is_text else np.nan
        return values
    raise ValueError(f"column {name!r} of {group.name[1:]} has an unsupported encoding.")


def _decode_categories(categories: Array, codes: Array) -> Array:
    """The category of each code; code -1 is a missing value."""
    if codes.size and not -1 <= codes.min() <= codes.max() < len(categories):
        raise ValueError(f"codes {codes.min()} to {codes.max()} for {len(categories)} categories.")
    if (codes >= 0).all():
        return categories[codes]
    numeric = categories.dtype.kind in "fiub"
    dtype = np.dtype(np.float64) if numeric else np.dtype(object)
    missing = np.array([np.nan if numeric else None], dtype)
    return np.append(categories.astype(dtype), missing)[codes]
