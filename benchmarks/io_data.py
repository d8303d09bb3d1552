"""Large files for the benchmark of reading, made once and without a second copy."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from banditsis.index.layout import is_shuffled, make_layout, shard_name
from banditsis.index.metadata import Record, write_record, write_shard, write_vector

SIGNALS = 10


def make_store(path: Path, n: int, p: int) -> Path:
    """A shuffled store of normal float32 noise with a target, written as `banditsis shuffle` writes.

    Independent rows are in random order already, so no source data are needed.
    """
    if is_shuffled(path):
        return path
    rng = np.random.default_rng(0)
    segments = make_layout([n], p, 4)
    files, y = {}, np.empty(n)
    for k, segment in enumerate(segments):
        for i in range(segment.grid[0]):
            low, high = segment.shard_rows(i)
            for j in range(segment.grid[1]):
                first, last = segment.shard_columns(j)
                cells = rng.standard_normal((high - low, last - first), dtype=np.float32)
                if j == 0:
                    y[low:high] = 0.1 * cells[:, :SIGNALS].sum(axis=1) + rng.standard_normal(high - low)
                shard = path / f"rows_{k}" / shard_name((i, j))
                if shard.exists():  # of a run that was interrupted; the same numbers were drawn again
                    shard.unlink()
                written = write_shard(shard, segment, cells, np.arange(high - low), None)
                files[str(shard.relative_to(path))] = written
    files |= dict(
        [write_vector(path, "target", y, "row"), write_vector(path, "original_rows", np.arange(n), "row")]
    )
    record = Record(
        (n, p), np.dtype("f4"), segments, None, 0, "noise", "y", (), n, ["target", "original_rows"], files
    )
    write_record(path, record)
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
