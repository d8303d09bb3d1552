"""HDF5 files with a two-dimensional dataset, and AnnData's ``.h5ad`` files, dense or sparse."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Columns, Rows, count_rows
from banditsis.formats.files import import_optional, readable, split_path
from banditsis.formats.opened import OpenedMatrix, ReadOptions
from banditsis.formats.stores import Store, open_anndata, open_matrix
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source
from banditsis.sources.blocks import BlockSource, split_rows
from banditsis.sources.memmap import MappedSource

MIN_TILE = 1 << 17  # cells: smaller chunks are read several at once
MAX_DEPTH = 32  # of groups: the time to open an object grows with it
DEFLATE, SHUFFLE = 1, 2  # HDF5's filter numbers


class Hdf5Source(BlockSource):
    """A chunked dataset of an HDF5 file; chunks with common filters are decompressed by all threads."""

    def __init__(self, store: Hdf5Store, dataset: Any, names: Sequence[str] | None = None) -> None:
        self.store, self.dataset, self.names = store, dataset, names
        self.shape, self.dtype = dataset.shape, np.dtype(dataset.dtype).newbyteorder("=")
        self.chunk = dataset.chunks or (max(1, MIN_TILE // self.shape[1]), self.shape[1])
        self.cells_at_once = max(MIN_TILE, self.chunk[0] * self.chunk[1])
        plist = dataset.id.get_create_plist()
        codes = tuple(int(plist.get_filter(k)[0]) for k in range(plist.get_nfilters()))
        known = dataset.chunks is not None and set(codes) <= {DEFLATE, SHUFFLE} and self.dtype.kind in "fiu"
        self._filters = codes if known else None  # if only the HDF5 library can decode chunks
        self._chunk_bytes = self.chunk[0] * self.chunk[1] * self.dtype.itemsize
        pairs = zip(self.shape, self.chunk, strict=True)
        self._edges = [np.arange(0, length + size, size) for length, size in pairs]

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        columns = slice(0, self.shape[1]) if columns is None else columns
        block = np.empty((count_rows(rows), count_rows(columns)), self.dtype)
        across = split_rows(columns, self._edges[1])
        down = slice(0, 0)
        for i, inside in split_rows(rows, self._edges[0]):
            down, place = slice(down.stop, down.stop + count_rows(inside)), slice(0, 0)
            for j, some in across:
                place = slice(place.stop, place.stop + count_rows(some))
                values = ArraySource(self._read_chunk(i, j)).read(inside, some)
                if values.shape == block.shape and values.dtype == block.dtype:
                    return values  # one chunk holds the whole block: no copy
                block[down, place] = values
        return block

    def _read_chunk(self, i: int, j: int) -> Array:
        (height, width), dataset = self.chunk, self.dataset
        top, left = i * height, j * width
        with self.store.readable():
            if self._filters is not None:
                stored = dataset.id.get_chunk_info_by_coord((top, left))
                if stored.byte_offset is not None:  # else it was never written
                    if stored.filter_mask == (1 << len(self._filters)) - 1:  # no filter was applied
                        self._check_size(stored.size)
                    return self._decode(*dataset.id.read_direct_chunk((top, left)))  # in threads
            return np.asarray(dataset[top : top + height, left : left + width])

    def _decode(self, skipped: int, data: Any) -> Array:
        """Undo the filters, last one first; bit k of ``skipped`` is set if filter k was not applied."""
        for k, code in reversed(list(enumerate(self._filters or ()))):
            if not skipped >> k & 1 and code == DEFLATE:
                data = zlib.decompressobj().decompress(data, self._chunk_bytes + 1)
            elif not skipped >> k & 1:  # shuffled: the first bytes of all values, then the second bytes, …
                data = np.ascontiguousarray(np.frombuffer(data, np.uint8).reshape(self.dtype.itemsize, -1).T)
        self._check_size(memoryview(data).nbytes)
        return np.frombuffer(data, self.dataset.dtype).reshape(self.chunk)

    def _check_size(self, n_bytes: int) -> None:
        """Raise if a chunk has another size than its shape has: the library would write beyond its memory."""
        if n_bytes != self._chunk_bytes:
            raise ValueError(f"a chunk has {n_bytes:,} bytes instead of {self._chunk_bytes:,}")


class Hdf5Store(Store):
    format_name = "HDF5"

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Explain the errors of the HDF5 library; a missing filter is named if it says so."""
        with readable(self.path, "HDF5"):
            try:
                yield
            except (OSError, RuntimeError) as error:
                if "required filter" not in str(error) and "plugin" not in str(error):
                    raise
                raise ImportError(
                    f"{self.path} is compressed with a filter that this HDF5 library does not have "
                    f"({error}): pip install hdf5plugin"
                ) from error

    def arrays(self, group: Any) -> dict[str, Any]:
        """Datasets directly in a group, or below it if there are none, by path."""
        datasets = {name: node for name, node in group.items() if hasattr(node, "dtype")}
        if not datasets:
            names: list[str] = []
            group.visit_links(names.append)
            nodes = {name: group.get(name) for name in names if name.count("/") < MAX_DEPTH}
            datasets = {name: node for name, node in nodes.items() if hasattr(node, "dtype")}
        return datasets

    def prepare(self, array: Any) -> Any:
        """A memory map of a dataset if it is neither chunked nor compressed, or the dataset itself."""
        if array.is_virtual or array.external:
            raise ValueError(
                f"{self.where(array)} has its cells in other files: write all of them to one file."
            )
        dtype, start = np.dtype(array.dtype), array.id.get_offset()
        if start is None or array.chunks or dtype.kind not in "fiu" or not dtype.isnative:
            return array
        is_whole = Path(array.file.filename).stat().st_size >= start + array.size * dtype.itemsize
        return np.memmap(array.file.filename, dtype, "r", start, array.shape) if is_whole else array

    def make_source(self, cells: Any, names: Sequence[str] | None) -> Source:
        return MappedSource(cells, names) if isinstance(cells, np.memmap) else Hdf5Source(self, cells, names)


def open_hdf5(path: Path, options: ReadOptions) -> OpenedMatrix:
    """Open the only two-dimensional dataset of a file, or the one named by ``file.h5:/name``.

    Of an AnnData file this is X, ``file.h5ad:/layers/name`` or ``file.h5ad:/raw/X``; the target is a column
    of ``obs``, or a variable.
    """
    h5py = import_optional("h5py", "HDF5", "hdf5")
    with suppress(ImportError):
        import_module("hdf5plugin")  # adds filters to the HDF5 library
    outer, inner = split_path(path)
    store = Hdf5Store(outer, None, options.memory_limit)
    with store.readable():
        store.root = h5py.File(outer, "r")
        external = h5py.h5l.TYPE_EXTERNAL  # a link to another file, which may be any of this machine
        links = store.root.id.links
        found = links.visit(lambda name, link: name if link.type == external else None, info=True)
        if found is not None:
            raise ValueError(f"{outer} has {found.decode()} in another file: write all datasets to one file.")
        if str(outer).lower().endswith(".h5ad"):
            return open_anndata(store, inner or "X", options)
        if any("pandas_type" in node.attrs for node in store.root.values()):
            raise ValueError(
                f"{outer} was written by pandas, which uses its own layout: read it with pandas.read_hdf "
                "and pass the frame, or save the frame as Parquet."
            )
        return open_matrix(store, path, inner, options)
