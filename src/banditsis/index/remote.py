"""An array in a ``.npy`` file behind a URL, of which byte ranges are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Columns, Rows, as_indices
from banditsis.sources.blocks import BlockSource

MAX_GAP = 1 << 16  # bytes between two ranges that are read, because another request would take longer


class RemoteArray(BlockSource):
    """A two-dimensional ``.npy`` file, row by row or column by column, in a file system of fsspec."""

    def __init__(self, files: Any, url: str) -> None:
        self.files, self.url = files, url
        with files.open(url, "rb", block_size=1 << 12) as file:
            np.lib.format.read_magic(file)
            (n, p), by_column, self.dtype = np.lib.format.read_array_header_1_0(file)
            self._offset = file.tell()
        self.shape, self.by_row = (n, p), not by_column
        self.chunk = (n, 1) if by_column else (1, p)

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        columns = slice(0, self.shape[1]) if columns is None else columns
        lines, cells = map(as_indices, (rows, columns) if self.by_row else (columns, rows))
        block = np.empty((len(lines), len(cells)), self.dtype)
        if block.size:
            pitch, first, last = self.shape[int(bool(self.by_row))] * self.dtype.itemsize, cells[0], cells[-1]
            starts = self._offset + lines * pitch + first * self.dtype.itemsize
            stops = starts + (last + 1 - first) * self.dtype.itemsize
            # Lines that are close together are one request.
            edges = np.flatnonzero(starts[1:] - stops[:-1] > MAX_GAP) + 1
            begin, end = starts[np.append(0, edges)], stops[np.append(edges - 1, len(lines) - 1)]
            urls = [self.url] * len(begin)
            parts = self.files.cat_ranges(urls, begin.tolist(), end.tolist(), on_error="raise")
            for data, group in zip(parts, np.split(np.arange(len(lines)), edges), strict=True):
                for line in group:
                    at = int(starts[line] - starts[group[0]])
                    block[line] = np.frombuffer(data, self.dtype, last + 1 - first, at)[cells - first]
        return block if self.by_row else block.T
