"""Build an index: write the rows of data in random order, and their bits."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.core import parallel, validation
from banditsis.core.arrays import Array, Indices, chunks
from banditsis.core.progress import Progress, add_up, report_progress
from banditsis.formats import dataset, files, opened, opening
from banditsis.index.folder import ANNOTATION, BITS, CELLS, MOMENTS, PART, Folder, Record
from banditsis.index.reader import IndexSource
from banditsis.index.sketch import WIDTH, encode_panel, make_blocks
from banditsis.sources import base, memmap

__all__ = ["build_index"]

DEFAULT_MEMORY, MIN_MEMORY = 1 << 30, 16_000_000
INDEX, SCRATCH = "index", "scratch"  # folders of what becomes the index, and of temporary files
ROWS_AT_ONCE, COLUMNS_AT_ONCE, CACHE_LINE = 1 << 10, 1 << 6, 64  # that a thread transposes; bytes
NO_SPACE = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}  # errors of a full disk


def build_index(
    data: Any,
    destination: str | os.PathLike[str],
    *,
    target: str | None = None,
    append: bool = False,
    force: bool = False,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: Progress = None,
    **reading: Any,
) -> Path:
    """Build an index of the features, which answers for any response after reading 3% of the bytes.

    The index is a folder of plain ``.npy`` files with one bit for each cell, all rows in random order, names,
    target, ids and checksums; see :doc:`/indexes`. It appears under its name when it is complete. For the
    Pearson correlation and other linear statistics, :class:`BanditSIS` finds candidates by the bits and reads
    only these in full. Other statistics and plans read rows from the random order.

    Parameters
    ----------
    data : path, array-like of shape (n, p), frame or Source
        The rows to index.
    destination : path
        The folder to write, such as ``x.index``.
    target : str, optional
        The target to store, as in :func:`open_data`; by default that of the index to which rows are appended.
    append : bool
        Whether the rows are added to an existing index of the same features, which is not written again.
    force : bool
        Whether to replace an index that an earlier call wrote.
    memory_limit : int, optional
        Approximate memory to use in bytes, in addition to 24 bytes per row; 1 GiB by default.
    random_state : int, Generator or RandomState, optional
        Seed of the row order and of the bits.
    progress : bool or callable, optional
        As in :func:`screen`; a callable is called with the number of bytes moved and the total.
    **reading
        ``columns``, ``drop``, ``id_column``, ``one_hot``, ``dates`` and ``na``, as in :func:`open_source`.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from banditsis import BanditSIS, open_source
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((20_000, 300), dtype=np.float32)
    >>> y = X[:, 7] - X[:, 42] + rng.standard_normal(20_000)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = build_index(X, f"{folder}/x.index", random_state=0)
    ...     source = open_source(path)
    ...     BanditSIS(2).fit(source, y).result_.selected
    array([42,  7])
    """
    memory = DEFAULT_MEMORY if memory_limit is None else memory_limit
    if memory < MIN_MEMORY:
        raise ValueError(f"the memory limit must be at least {MIN_MEMORY:,} bytes (16 MB), got {memory:,}.")
    if append and force:
        raise ValueError("an index is either replaced or appended to: set force or append, not both.")
    destination = Path(destination)
    existing = IndexSource(destination) if append else None
    seed = validation.resolve_seed(np.random.default_rng() if random_state is None else random_state)
    options = opened.ReadOptions(**reading, memory_limit=memory).checked()
    with _new_folder(data, destination, existing, force) as folder:
        given = existing.target if existing is not None and target is None else target
        source, label, by_row = _open(data, given, options)
        dtype = source.dtype if existing is None else _check_same_features(source, existing)
        order, index = np.random.default_rng(seed).permutation(source.shape[0]), folder / INDEX
        vectors = {"original_rows": order, **{name: values[order] for name, values in by_row.items()}}
        vectors |= {ANNOTATION + name: values for name, values in source.annotations.items()}
        vectors |= {} if source.names is None else {"names": np.asarray(source.names)}
        for name, values in vectors.items():
            _write_vector(index, name, values)
        with (
            report_progress(progress, "indexing", "bytes") as report,
            parallel.Workers(parallel.count_jobs(None)),
        ):
            cells = _write_cells(source, dtype.newbyteorder("="), order, seed, memory, folder, report)
        names = sorted(file.name for file in index.iterdir() if file.name != CELLS)
        written = {name: Folder(index).checksum(name) for name in names} | {CELLS: cells}
        is_file = isinstance(data, (str, os.PathLike))
        origin = Path(files.find_prefix(data)).name if is_file else type(data).__name__
        Record(source.shape, seed, origin, label, written).write(index)
    return destination


@contextmanager
def _new_folder(data: Any, destination: Path, existing: IndexSource | None, force: bool) -> Iterator[Path]:
    """Yield a temporary folder, of which ``index`` becomes the index or a part of it; delete the rest."""
    if existing is None:
        _check_destination(data, destination, force)
    folder = destination.with_name(f"{destination.name}.{secrets.token_hex(4)}.partial")
    folder.mkdir()  # raises if it exists, so what is removed below is ours
    replaced = folder / "replaced"
    try:
        for name in (INDEX, SCRATCH):
            (folder / name).mkdir()
        yield folder
        if existing is not None:
            destination = destination / f"{PART}{len(existing.parts)}"  # renaming raises if it exists by now
        else:
            _check_destination(data, destination, force)  # again, because writing takes a while
            if destination.exists():
                os.rename(destination, replaced)
        os.rename(folder / INDEX, destination)
    except OSError as error:
        if error.errno in NO_SPACE:  # the system does not name the file
            raise OSError(error.errno, os.strerror(error.errno), str(destination)) from error
        raise
    finally:
        if replaced.exists() and not destination.exists():  # interrupted between renaming both
            os.rename(replaced, destination)
        shutil.rmtree(folder, ignore_errors=True)


def _check_same_features(source: base.Source, existing: IndexSource) -> np.dtype:
    """The type of the cells of an index; raise if rows of a source cannot be appended to it."""
    own, other = (data.names or range(data.shape[1]) for data in (source, existing))
    if different := [pair for pair in zip_longest(own, other) if pair[0] != pair[1]]:
        raise ValueError(
            "the new rows must have the features of the index, in the same order, but have "
            "{!r} instead of {!r}.".format(*different[0])
        )
    if not np.can_cast(source.dtype, existing.dtype):
        raise ValueError(
            f"the new rows are {source.dtype}: convert them to {existing.dtype}, as in the index."
        )
    return existing.dtype


def _check_destination(data: Any, destination: Path, force: bool) -> None:
    """Raise if the folder cannot be written, or has something that may not be replaced."""
    path, parent = files.local_path(data), destination.absolute().parent
    if not parent.is_dir():
        raise FileNotFoundError(f"the folder {parent} does not exist: create it first.")
    if not os.path.lexists(destination):
        return
    if path is not None and path.resolve().is_relative_to(destination.resolve()):
        raise ValueError(f"{destination} contains the data to be indexed: choose another name.")
    if not force:
        raise FileExistsError(
            f"{destination} exists: choose another name, or replace it (--force, force=True)."
        )
    # Only a folder that an earlier call wrote, without files of the user, is replaced.
    if destination.is_symlink() or not _is_ours(destination):
        raise FileExistsError(
            f"{destination} is not an index, or has other files, and is not replaced: choose another name."
        )


def _is_ours(folder: Path) -> bool:
    """Whether a folder has only files that an index should have, even if it is damaged."""
    if not opening.is_index(folder):
        return False
    own = {opening.META, *(json.loads((folder / opening.META).read_bytes()).get("files") or ())}
    others = [entry for entry in folder.iterdir() if entry.name not in own]
    return all(re.fullmatch(rf"{PART}\d+", entry.name) and _is_ours(entry) for entry in others)


def _open(
    data: Any, target: str | None, options: opened.ReadOptions
) -> tuple[base.Source, str | None, dict[str, Array]]:
    """The features, the name of the target, and ids and target of each row; the target may have gaps."""
    found = opening.open_any(data, options)
    places = [] if target is None else [dataset.find_place(str(target), found)]
    (columns,) = dataset.read_columns(found, [places])
    source, label = found.source(), None
    if source.original_rows is not None:
        raise ValueError(f"{found.where} is an index already: index the original data.")
    by_row = {} if found.ids is None else {"ids": np.asarray(found.ids)}
    for column in columns:
        file, label = column.place.file, column.name if column.place.file is None else column.place.column
        if file is not None and (not label or label.isdigit()):  # which would be the number of a feature
            label = " ".join(filter(None, (Path(file).stem, label)))
        by_row["target"] = column.take(np.arange(source.shape[0]))
    return source, label, by_row


def _write_vector(folder: Path, name: str, values: Array) -> None:
    """Write numbers as ``.npy``, and text as a list in JSON with null for missing values."""
    if values.dtype.kind in "cmMV":
        raise ValueError(f"an index cannot hold values of {values.dtype}: use numbers or text.")
    if values.dtype.kind in "OUST":
        texts = [
            None if value is None or value != value else files.to_text(value) for value in values.tolist()
        ]
        (folder / f"{name}.json").write_text(json.dumps(texts), encoding="utf-8")
    else:
        _create(folder / f"{name}.npy", values.dtype.newbyteorder("="), values.shape)[:] = values


def _create(path: Path, dtype: Any, shape: tuple[int, ...], *, by_column: bool = False) -> np.memmap:
    """A new file that is mapped into memory."""
    array: np.memmap = np.lib.format.open_memmap(path, "w+", dtype, shape, by_column, (1, 0))
    if hasattr(os, "posix_fallocate"):  # or else a full disk ends the process that writes to the map
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


def _write_cells(
    source: base.Source,
    dtype: np.dtype,
    order: Indices,
    seed: int,
    memory: int,
    folder: Path,
    report: Callable[[int, int], None],
) -> list[int]:
    """Write all rows by column in an order, and their bits; each thread does a few columns at a time."""
    (n, p), blocks, index = source.shape, make_blocks(source.shape[0]), folder / INDEX
    bits = _create(index / BITS, np.uint64, (blocks[-1].words.stop, p))
    moments = _create(index / MOMENTS, np.float64, (blocks[-1].moments.stop, p))
    # A thread has its columns four times: as they are read, by column, and in order until they are finished.
    n_columns = memory // (4 * n * dtype.itemsize)
    n_threads = max(1, min(parallel.count_jobs(None), n_columns // WIDTH))
    width = max(1, min(COLUMNS_AT_ONCE, p, n_columns // n_threads))
    # Columns that are read together with others. A scratch file pays off if they would be read many times.
    others = max(source.chunk[1], CACHE_LINE // dtype.itemsize if source.by_row else 1) - 1
    is_direct = -(-p // width) * min(width + others, p) <= 3 * p
    tick = add_up(report, (1 if is_direct else 2) * n * p * dtype.itemsize)
    if not is_direct:
        source = _store_by_column(source, dtype, memory, folder / SCRATCH / "columns.npy", tick)
    cells = _create(index / CELLS, dtype, (n, p), by_column=True)
    with open(index / CELLS, "rb") as file:
        check = zlib.crc32(file.read(cells.offset))
    written, lines = [memmap.MappedSource(bits), memmap.MappedSource(cells)], cells.T

    def encode(columns: slice) -> None:
        block = source.read(slice(0, n), columns)
        by_column = block.T
        if not by_column.flags.c_contiguous or block.dtype != dtype:
            by_column = np.empty(by_column.shape, dtype)
            _transpose(block, by_column)
        source.release()
        by_column.take(order, axis=1, out=lines[columns], mode="clip")  # other modes use a buffer
        encode_panel(lines[columns], blocks, seed, bits[:, columns], moments[:, columns])

    def finish(columns: slice) -> None:
        nonlocal check
        check = zlib.crc32(lines[columns].data, check)
        for held in written:
            held.release()
        tick(lines[columns].nbytes)

    panels = (slice(low, min(low + width, p)) for low in range(0, p, width))
    with parallel.Workers(n_threads) as workers:
        workers.run_in_order(panels, encode, finish, 2 * n_threads)
    return [cells.offset + cells.nbytes, check]


def _store_by_column(
    source: base.Source, dtype: np.dtype, memory: int, path: Path, tick: Callable[[int], None]
) -> base.Source:
    """Write all cells to a file by column, after reading them row by row; return what reads it."""
    n, p = source.shape
    columns = _create(path, dtype, (p, n))
    stored = memmap.MappedSource(columns.T)
    step = max(1, memory // 8 // (p * source.dtype.itemsize))
    step -= step % source.block_rows if step > source.block_rows else 0  # whole blocks
    for rows in chunks(slice(0, n), step):
        block = source.read(rows, slice(0, p))
        _transpose(block, columns[:, rows])
        for held in (source, stored):
            held.release()
        tick(block.size * dtype.itemsize)
    return stored


def _transpose(block: Array, out: Array) -> None:
    """Copy a block to memory by column, so many cells at a time that they stay in the cache."""

    def copy(low: int) -> None:
        columns = slice(low, low + COLUMNS_AT_ONCE)
        for start in range(0, len(block), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            out[columns, rows] = block[rows, columns].T

    parallel.map_in_threads(copy, range(0, len(out), COLUMNS_AT_ONCE))
