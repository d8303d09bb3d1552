"""Shards of a shuffled store: files of chunks with an index at their end, as Zarr's sharding codec has it."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.arrays import Array, Indices
from banditsis.formats.registry import import_optional
from banditsis.store.layout import Segment

ABSENT = 2**64 - 1
ROWS_AT_ONCE = 256  # of a gather, so that it stays in the cache
SAMPLED_ROWS, SAMPLED_COLUMNS = 4096, 64
WORTH_COMPRESSING = 0.6  # of the bytes left, or fewer


class Written(NamedTuple):
    """What a file holds, to be checked later."""

    size: int
    crc32: int


def shard_path(store: Path, segment: int, i: int, j: int) -> Path:
    """Where a shard lies."""
    return store / f"rows_{segment}" / "c" / str(i) / str(j)


def find_compressor(sample: Array) -> dict[str, Any] | None:
    """Blosc if it makes a sample of the cells much smaller, else nothing: noise does not compress.

    Examples
    --------
    >>> find_compressor(np.random.default_rng(0).random((4096, 4)))
    >>> find_compressor(np.ones((4096, 4), np.int8))["name"]
    'blosc'
    """
    itemsize = sample.dtype.itemsize
    settings = {"cname": "lz4", "clevel": 5, "shuffle": "bitshuffle", "typesize": itemsize, "blocksize": 0}
    codec = {"name": "blosc", "configuration": settings}
    encode = encoder(codec)
    columns = [np.ascontiguousarray(sample[:, j]) for j in range(sample.shape[1])]
    size = sum(len(encode(column)) for column in columns)
    return codec if size <= WORTH_COMPRESSING * sample.nbytes else None


def encoder(compressor: dict[str, Any]) -> Any:
    """The function that compresses a contiguous array."""
    return _blosc(compressor).encode


def decoder(compressor: dict[str, Any]) -> Any:
    """The function that expands bytes."""
    return _blosc(compressor).decode


def _blosc(compressor: dict[str, Any]) -> Any:
    codecs = import_optional("numcodecs.blosc", "zarr")
    settings = compressor["configuration"]
    shuffle = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}[settings["shuffle"]]
    return codecs.Blosc(settings["cname"], settings["clevel"], shuffle, 0, typesize=settings["typesize"])


def write_shard(
    path: Path,
    segment: Segment,
    i: int,
    j: int,
    raw: Array,
    order: Indices,
    compressor: dict[str, Any] | None,
) -> Written:
    """Write a shard whose row r is ``raw[order[r]]``: all of it, under another name first.

    ``raw`` has the columns of the shard alone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(path.name + ".half")
    encode = None if compressor is None else encoder(compressor)
    lengths, total, check = [], 0, 0
    with open(half, "wb", buffering=0) as file:
        for run in _chunk_lines(segment, raw, order):
            chunks = [run] if encode is None else [encode(np.ascontiguousarray(chunk)) for chunk in run]
            size = run[0].nbytes
            lengths += [size] * len(run) if encode is None else [len(chunk) for chunk in chunks]
            for chunk in chunks:
                data = memoryview(chunk).cast("B") if isinstance(chunk, bytes) else chunk.data.cast("B")
                check = zlib.crc32(data, check)
                total += _write_all(file, data)
        index = _index(segment, i, j, lengths)
        check = zlib.crc32(index, check)
        total += _write_all(file, memoryview(index))
        os.fsync(file.fileno())
    os.replace(half, path)
    return Written(total, check)


def _write_all(file: Any, data: memoryview) -> int:
    size = written = len(data)
    while data:
        written = file.write(data)
        data = data[written:]
    return size


def _chunk_lines(segment: Segment, raw: Array, order: Indices) -> Iterator[Array]:
    """Arrays of chunks that lie side by side, in the order of the file; each chunk as it is stored."""
    height, width = segment.chunk
    across = -(-raw.shape[1] // width)
    for a in range(0, len(order), height):
        rows = order[a : a + height]
        if segment.by_column:
            line = np.zeros((across * width, height), raw.dtype)
            for r in range(0, len(rows), ROWS_AT_ONCE):
                line[: raw.shape[1], r : r + ROWS_AT_ONCE] = raw[rows[r : r + ROWS_AT_ONCE]].T
            yield line.reshape(across, width, height)
            continue
        wide = np.zeros((across, height, width), raw.dtype)
        for k in range(across):
            part = raw[rows, k * width : (k + 1) * width]
            wide[k, : len(rows), : part.shape[1]] = part
        yield wide


def _index(segment: Segment, i: int, j: int, lengths: list[int]) -> bytes:
    """Offset and length of every chunk, and a checksum; chunks outside the array are absent."""
    down, across = segment.shard[0] // segment.chunk[0], segment.shard[1] // segment.chunk[1]
    index = np.full((down, across, 2), ABSENT, "<u8")
    used = segment.chunk_grid(i, j)
    ends = np.cumsum(lengths)
    index[: used[0], : used[1], 0] = (ends - lengths).reshape(used)
    index[: used[0], : used[1], 1] = np.reshape(lengths, used)
    table = index.tobytes()
    return table + int(import_optional("google_crc32c", "zarr").value(table)).to_bytes(4, "little")


def read_index(fd: int, segment: Segment, i: int, j: int) -> Array:
    """Offset and length of the chunks of a shard that are stored, down × across × 2."""
    down, across = segment.shard[0] // segment.chunk[0], segment.shard[1] // segment.chunk[1]
    size = 16 * down * across
    end = os.fstat(fd).st_size - 4
    table = np.frombuffer(os.pread(fd, size, max(0, end - size)), "<u8")
    if table.size != 2 * down * across:
        raise ValueError("a shard is shorter than its index: write the store again.")
    used = segment.chunk_grid(i, j)
    return table.reshape(down, across, 2)[: used[0], : used[1]].astype(np.int64)


def checksum(path: Path) -> Written:
    """Size and checksum of a file, as :func:`write_shard` told them."""
    check, size = 0, 0
    with open(path, "rb", buffering=0) as file:
        while data := file.read(1 << 22):
            check = zlib.crc32(data, check)
            size += len(data)
    return Written(size, check)
