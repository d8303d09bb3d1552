"""HDF5 files with a two-dimensional dataset."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.arrays import Array, Columns, Rows
from banditsis.formats.chunks import Piece, assemble, pick
from banditsis.formats.members import check_matrix, find_matrix, find_names, with_members
from banditsis.formats.registry import Opened, import_optional, split_path
from banditsis.formats.tables import damaged
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source
from banditsis.sources.blocks import BlockSource

WORTH_A_TILE = 1 << 17
DEFLATE, SHUFFLE = 1, 2  # filters, as HDF5 numbers them


class Hdf5Source(BlockSource):
    """A chunked dataset of an HDF5 file.

    The library lets in one thread at a time. So chunks are only fetched under its lock, and decompressed
    outside, where their filters are the usual ones.

    Parameters
    ----------
    dataset : h5py.Dataset
        Of shape (n, p), of numbers.
    names : list of str, optional
        Names of the columns.
    """

    def __init__(self, dataset: Any, names: list[str] | None = None) -> None:
        self.dataset, self.names = dataset, names
        self.shape, self.dtype = dataset.shape, np.dtype(dataset.dtype).newbyteorder("=")
        self.chunk = dataset.chunks or (max(1, WORTH_A_TILE // self.shape[1]), self.shape[1])
        self.cells_at_once = max(WORTH_A_TILE, self.chunk[0] * self.chunk[1])
        self._filters = _find_filters(dataset)

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        everything = slice(0, self.shape[1]) if columns is None else columns
        return assemble(rows, everything, self.chunk, self.dtype, self._part)

    def _part(self, row: Piece, column: Piece) -> Array:
        part = pick(self._chunk(row.chunk, column.chunk), row.inside, column.inside)
        return part if part.dtype == self.dtype else part.astype(self.dtype)

    def _chunk(self, i: int, j: int) -> Array:
        height, width = self.chunk
        top, left = i * height, j * width
        try:
            if self._filters is None:
                return np.asarray(self.dataset[top : top + height, left : left + width])
            try:
                skipped, data = self.dataset.id.read_direct_chunk((top, left))
            except (OSError, RuntimeError, ValueError):  # it was never written, or is damaged
                return np.asarray(self.dataset[top : top + height, left : left + width])
            return self._decode(data, skipped)
        except (OSError, RuntimeError, ValueError, zlib.error) as error:
            raise damaged(Path(self.dataset.file.filename), "HDF5", error) from error

    def _decode(self, data: Any, skipped: int) -> Array:
        """Undo the filters, the last one first; a bit of ``skipped`` tells that a chunk went without one."""
        assert self._filters is not None
        for k, code in reversed(list(enumerate(self._filters))):
            if skipped >> k & 1:
                continue
            if code == DEFLATE:
                data = zlib.decompress(data)
            else:  # the first bytes of all values, then the second ones, …
                planes = np.frombuffer(data, np.uint8).reshape(self.dtype.itemsize, -1)
                data = np.ascontiguousarray(planes.T)
        height, width = self.chunk
        return np.frombuffer(data, self.dataset.dtype, count=height * width).reshape(height, width)


def open_hdf5(path: Path, target: str | None = None, **options: Any) -> Opened:
    """Open the only two-dimensional dataset of a file, or the one named by ``file.h5:/name``."""
    file_path, inner = split_path(path)
    file = open_hdf5_file(file_path)
    _refuse_pandas(file_path, file)
    if inner is not None and inner not in file:
        there = ", ".join(sorted(_datasets(file))[:5]) or "none"
        raise ValueError(f"{file_path} has no dataset {inner}; there are: {there}.")
    node = file if inner is None else file[inner]
    dataset = (
        node if hasattr(node, "dtype") else find_matrix(path, _datasets(node), ":/" if inner is None else "/")
    )
    _, p = check_matrix(path, dataset)
    members = _datasets(dataset.parent)
    names = find_names(path, [dataset.attrs, dataset.parent.attrs], members, p)
    return with_members(source_of(dataset, names), target, path, members)


def source_of(dataset: Any, names: list[str] | None) -> Source:
    """A source of a dataset: a memory map where its cells lie in the file as they are."""
    mapped = map_dataset(dataset)
    return Hdf5Source(dataset, names) if mapped is None else ArraySource(mapped, names)


def map_dataset(dataset: Any) -> Array | None:
    """A memory map of a contiguous dataset that is stored as it is, else None."""
    start = dataset.id.get_offset()
    if start is None or dataset.chunks or dataset.external or np.dtype(dataset.dtype).kind not in "fiu":
        return None
    kind = dataset.dtype
    if not kind.isnative or Path(dataset.file.filename).stat().st_size < start + dataset.size * kind.itemsize:
        return None
    return np.memmap(dataset.file.filename, kind, "r", start, dataset.shape)


def open_hdf5_file(path: Path) -> Any:
    h5py = import_optional("h5py", "hdf5")
    try:
        return h5py.File(path, "r")
    except FileNotFoundError:
        raise
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise damaged(path, "HDF5", error) from error


def _find_filters(dataset: Any) -> tuple[int, ...] | None:
    """The filters of a dataset, or None if one of them is only known to the library."""
    plist = dataset.id.get_create_plist()
    codes = tuple(int(plist.get_filter(k)[0]) for k in range(plist.get_nfilters()))
    usual = dataset.chunks is not None and set(codes) <= {DEFLATE, SHUFFLE}
    return codes if usual and np.dtype(dataset.dtype).kind in "fiu" else None


def _datasets(group: Any) -> dict[str, Any]:
    """Datasets directly in a group, or below it if there are none, by their paths."""
    found = {name: node for name, node in group.items() if hasattr(node, "dtype")}
    if not found:
        group.visititems(lambda name, node: found.update({name: node}) if hasattr(node, "dtype") else None)
    return found


def _refuse_pandas(path: Path, file: Any) -> None:
    marked: list[str] = []
    file.visititems(lambda name, node: marked.append(name) if "pandas_type" in node.attrs else None)
    if marked:
        raise ValueError(
            f"{path} was written by pandas, in a layout of its own: read it with pandas.read_hdf(…, "
            f"{marked[0]!r}) and pass the frame, or save that as Parquet."
        )
