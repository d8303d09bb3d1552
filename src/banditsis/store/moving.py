"""Cells on their way: rows dealt out to buckets, pieces put in order and written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import numpy as np

from banditsis.arrays import Array
from banditsis.store.journal import Journal
from banditsis.store.shards import Written, shard_path, write_shard
from banditsis.store.work import Piece, Work, stored_dtype


def scatter(work: Work, journal: Journal, tick: Callable[[int], None]) -> None:
    """Deal the rows out to buckets, in the order of the source."""
    n, p = work.source.shape
    edges = np.array([work.rows(piece)[0] for piece in work.pieces if piece.panel == 0])
    where = np.empty(n, np.intp)
    where[work.order] = np.arange(n)
    band_of = (np.searchsorted(edges, where, side="right") - 1).astype(np.int32)
    del where
    start = _resume_buckets(work, journal, band_of, len(edges))
    tick(start * p)
    step = max(1, work.memory // 4 // (p * work.source.dtype.itemsize))
    if step > work.source.block_rows:
        step -= step % work.source.block_rows
    while start < n:
        stop = min(n, start + step)
        block = np.asarray(work.source.read(slice(start, stop), None), stored_dtype(work.source))
        _deal(work, block, band_of[start:stop], len(edges))
        work.source.release()
        journal.note_scattered(stop)
        tick((stop - start) * p)
        start = stop


def _deal(work: Work, block: Array, bands: Array, n_bands: int) -> None:
    order = np.argsort(bands, kind="stable")
    ends = np.searchsorted(bands[order], np.arange(n_bands + 1))
    panels = work.segments[0].grid[1]
    for band in range(n_bands):
        rows = order[ends[band] : ends[band + 1]]
        if rows.size == 0:
            continue
        part = block[rows]
        for j in range(panels):
            low, high = work.segments[0].shard_columns(j)
            with open(work.bucket(band * panels + j), "ab", buffering=0) as file:
                file.write(np.ascontiguousarray(part[:, low:high]).data.cast("B"))


def _resume_buckets(work: Work, journal: Journal, band_of: Array, n_bands: int) -> int:
    """Cut buckets back to the last row that was noted; give the first row to deal out."""
    n, done = len(band_of), journal.scattered
    work.bucket(0).parent.mkdir(exist_ok=True)
    if done == n:
        return n
    held = np.bincount(band_of[:done], minlength=n_bands)
    panels = work.segments[0].grid[1]
    for k, piece in enumerate(work.pieces):
        low, high = work.columns(piece)
        size = int(held[k // panels]) * (high - low) * work.source.dtype.itemsize
        bucket = work.bucket(k)
        if size and (not bucket.exists() or bucket.stat().st_size < size):
            shutil.rmtree(bucket.parent)  # a power cut took what had been noted
            journal.note_scattered(0)
            return _resume_buckets(work, journal, band_of, n_bands)
        if bucket.exists():
            os.truncate(bucket, size)
    return done


def finish_piece(work: Work, k: int, piece: Piece, journal: Journal) -> dict[str, Written]:
    """Put the rows of a piece in order and write its shards, unless that has been done."""
    if k in journal.pieces:
        work.bucket(k).unlink(missing_ok=True)
        return {name: Written(*written) for name, written in journal.pieces[k].items()}
    (a, b), (low, high) = work.rows(piece), work.columns(piece)
    order = work.order[a:b]
    if work.through_buckets:
        raw = np.fromfile(work.bucket(k), stored_dtype(work.source)).reshape(b - a, high - low)
        rank = np.empty(b - a, np.intp)
        rank[np.argsort(order)] = np.arange(b - a)  # a bucket has its rows in the order of the source
        order = rank
    else:
        raw = _read_panel(work, low, high)
    files = {}
    for s, i in piece.lines:
        path = shard_path(work.store, s, i, piece.panel)
        first, last = work.segments[s].shard_rows(i)
        some = order[first - a : last - a]
        written = write_shard(path, work.segments[s], i, piece.panel, raw, some, work.compressor)
        files[str(path.relative_to(work.store))] = written
    journal.note_piece(k, files)
    work.bucket(k).unlink(missing_ok=True)
    return files


def _read_panel(work: Work, low: int, high: int) -> Array:
    """Some columns over all rows."""
    n = work.source.shape[0]
    raw = np.empty((n, high - low), stored_dtype(work.source))
    step = max(1024, work.memory // 8 // ((high - low) * raw.itemsize))
    for start in range(0, n, step):
        stop = min(n, start + step)
        raw[start:stop] = work.source.read(slice(start, stop), slice(low, high))
        work.source.release()
    return raw
