"""Large files for the benchmark of reading, made once and without a second copy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.core.arrays import as_indices
from banditsis.formats.opening import is_index
from banditsis.index.folder import CELLS, Folder, Record
from banditsis.sources.blocks import BlockSource

SIGNALS = 10


class Noise(BlockSource):
    """Normal float32 noise that is drawn when it is read, so it needs no memory."""

    by_row, dtype = False, np.dtype(np.float32)

    def __init__(self, n: int, p: int) -> None:
        self.shape, self.chunk = (n, p), (n, 1)

    def read(self, rows: Any, columns: Any) -> np.ndarray:
        columns = as_indices(slice(0, self.shape[1]) if columns is None else columns)
        drawn = np.empty((len(columns), len(as_indices(rows))), self.dtype)
        for line, j in zip(drawn, columns.tolist(), strict=True):
            line[:] = np.random.default_rng([j]).standard_normal(self.shape[0], self.dtype)[rows]
        return drawn.T


def make_store(path: Path, n: int, p: int) -> Path:
    """An index of normal float32 noise with a target, written as `banditsis index` writes.

    Independent rows are in random order already, so no source data are needed.
    """
    if is_index(path):
        return path
    rng = np.random.default_rng(0)
    path.mkdir(exist_ok=True)
    y = rng.standard_normal(n)
    with open(path / CELLS, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": True, "shape": (n, p)})
        for j in range(p):
            column = rng.standard_normal(n, dtype=np.float32)
            file.write(column.data)
            y += 0.1 * column if j < SIGNALS else 0
    np.save(path / "target.npy", y)
    np.save(path / "original_rows.npy", np.arange(n))
    files = {file.name: Folder(path).checksum(file.name) for file in path.glob("*.npy")}
    Record((n, p), 0, "noise", "y", files).write(path)
    return path


def make_parquet(path: Path, n: int, p: int) -> Path:
    """Normal float32 noise in row groups of 20,000 rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.exists():
        return path
    rng = np.random.default_rng(0)
    schema = pa.schema([(f"x{j}", pa.float32()) for j in range(p)])
    half = path.with_suffix(".half")
    with pq.ParquetWriter(half, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, n, 20_000):
            cells = rng.standard_normal((p, min(20_000, n - start)), dtype=np.float32)
            writer.write_table(pa.table(list(cells), schema=schema), row_group_size=20_000)
    os.replace(half, path)
    return path


def files_of(path: Path) -> list[Path]:
    """All files of a store, or the file itself."""
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def drop_cache(path: Path) -> None:
    """Make the system forget what it has read of some files."""
    for file in files_of(path):
        fd = os.open(file, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
