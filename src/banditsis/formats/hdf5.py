"""HDF5 files with a two-dimensional dataset, and AnnData's ``.h5ad`` files, dense or sparse."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Columns, Indices, Rows, count_rows
from banditsis.formats.anndata import Storage, open_anndata
from banditsis.formats.members import (
    check_matrix,
    check_not_packed,
    find_coordinates,
    find_matrix,
    find_names,
    take_members,
)
from banditsis.formats.options import DEFAULTS, ReadOptions
from banditsis.formats.registry import Opened, import_optional, split_path
from banditsis.formats.tables import damaged
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source
from banditsis.sources.blocks import BlockSource
from banditsis.sources.memmap import MappedSource

MIN_TILE = 1 << 17  # cells: smaller chunks are read several at once
DEFLATE, SHUFFLE = 1, 2  # HDF5's filter numbers
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
        rows, columns = find_coordinates(dataset, members)
        names = find_names(path, [dataset.attrs, dataset.parent.attrs], members, p, columns)
        return take_members(_open_dataset(dataset, names), apart, path, options, members, rows)


def _open_file(path: Path) -> Any:
    h5py = import_optional("h5py", "hdf5")
    with suppress(ImportError):
        import_module("hdf5plugin")  # adds filters to the HDF5 library
    try:
        return h5py.File(path, "r")
    except (*DAMAGE, ValueError) as error:
        raise _explain(path, error) from error


def _open_dataset(dataset: Any, names: list[str] | None) -> Source:
    check_not_packed(dataset)
    _warn_of_missing_cells(Path(dataset.file.filename), dataset)
    mapped = _map_dataset(dataset)
    return Hdf5Source(dataset, names) if mapped is None else MappedSource(mapped, names)


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
        storage = Storage(_open_dataset, _open_vector, partial(_explained_errors, path))
        return open_anndata(path, file, "X" if inner is None else inner.strip("/"), storage, apart, options)


def _open_vector(dataset: Any) -> Any:
    """A memory map of a vector, or the vector itself."""
    _warn_of_missing_cells(Path(dataset.file.filename), dataset)
    mapped = _map_dataset(dataset)
    return dataset if mapped is None else mapped


class Piece(NamedTuple):
    """Requested rows (or columns) within one chunk: their indices in the chunk and in the block."""

    chunk: int
    inside: slice | Indices
    place: slice


def split_by_chunk(index: Rows, length: int) -> Iterator[Piece]:
    """Split sorted rows (or columns) at multiples of a chunk length.

    Examples
    --------
    >>> [(piece.chunk, piece.inside, piece.place) for piece in split_by_chunk(slice(2, 5), 3)]
    [(0, slice(2, 3, None), slice(0, 1, None)), (1, slice(0, 2, None), slice(1, 3, None))]
    """
    if isinstance(index, slice):
        for start in range(index.start // length * length, index.stop, length):
            a, b = max(start, index.start), min(start + length, index.stop)
            yield Piece(start // length, slice(a - start, b - start), slice(a - index.start, b - index.start))
        return
    chunks = index // length
    edges = [0, *(np.flatnonzero(np.diff(chunks)) + 1).tolist(), len(index)]
    for a, b in pairwise(edges):
        if b > a:
            chunk = int(chunks[a])
            inside = index[a:b] - chunk * length
            first, last = int(inside[0]), int(inside[-1])
            consecutive = last - first == b - a - 1  # a slice needs no copy
            yield Piece(chunk, slice(first, last + 1) if consecutive else inside, slice(a, b))


def select(chunk: Array, rows: slice | Indices, columns: slice | Indices) -> Array:
    """Rows × columns of a chunk; a view if possible."""
    if isinstance(rows, slice) or isinstance(columns, slice):
        return chunk[rows, columns]
    return ArraySource(chunk).read(rows, columns)
