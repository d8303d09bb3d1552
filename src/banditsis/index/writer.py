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
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Indices
from banditsis.core.parallel import Workers, count_jobs, map_in_threads
from banditsis.core.progress import Progress, add_up, report_progress
from banditsis.core.validation import resolve_seed
from banditsis.formats.checks import to_text
from banditsis.formats.columns import Patterns, ReadOptions, check_options
from banditsis.formats.dataset import find_place, read_columns
from banditsis.formats.opening import META, is_index, open_any
from banditsis.formats.paths import find_prefix, local_path
from banditsis.index.folder import ANNOTATION, BITS, CELLS, MOMENTS, PART, Folder, Record
from banditsis.index.reader import IndexSource
from banditsis.index.sketch import N_MOMENTS, WIDTH, WORD, encode_panel, make_blocks
from banditsis.sources.array import CACHE_LINE
from banditsis.sources.base import Source
from banditsis.sources.memmap import MappedSource

__all__ = ["build_index"]

DEFAULT_MEMORY, MIN_MEMORY = 1 << 30, 16_000_000
#: Folders of what becomes the index and of temporary files, and rows and columns that a thread transposes.
INDEX, SCRATCH, ROWS_AT_ONCE, COLUMNS_AT_ONCE = "index", "scratch", 1 << 10, 1 << 6
#: Errors of a full disk.
NO_SPACE = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}


def build_index(
    data: Any,
    destination: str | os.PathLike[str],
    *,
    target: str | None = None,
    columns: Patterns = (),
    drop: Patterns = (),
    id_column: str | None = None,
    one_hot: bool | int = False,
    dates: str = "skip",
    na: Patterns = (),
    append: bool = False,
    force: bool = False,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: Progress = None,
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
        The target to store, and to make strata from, as in :func:`open_data`.
    columns, drop, id_column, one_hot, dates, na
        Which columns to use, and how, as in :func:`open_source`.
    append : bool
        Whether the rows are added to an existing index of the same features. By default they have the same
        target. Nothing that is there is written again.
    force : bool
        Whether to replace an index that an earlier call wrote.
    memory_limit : int, optional
        Approximate memory to use in bytes, in addition to 24 bytes per row; 1 GiB by default.
    random_state : int, Generator or RandomState, optional
        Seed of the row order and of the bits.
    progress : bool or callable, optional
        By default a bar appears on a terminal after two seconds. A callable is called with the number of
        bytes moved and the total.

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
    seed = resolve_seed(np.random.default_rng() if random_state is None else random_state)
    options = check_options(None, columns, drop, id_column, one_hot, dates, na, memory)
    with _new_folder(data, destination, existing, force) as folder:
        target = target if target is not None or existing is None else existing.target
        opened = _open(data, target, options)
        dtype = opened.source.dtype if existing is None else _check_same_features(opened.source, existing)
        with report_progress(progress, "indexing", "bytes") as report, Workers(count_jobs(None)):
            _write_folder(opened, dtype.newbyteorder("="), seed, memory, folder, report)
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


def _check_same_features(source: Source, existing: IndexSource) -> np.dtype:
    """The type of the cells of an index; raise if rows of a source cannot be appended to it."""
    own, other = list(source.names or ()), list(existing.names or ())
    if own != other or source.shape[1] != existing.shape[1]:
        pairs = zip(own, other, strict=False)
        different = next((f": {a!r} instead of {b!r}" for a, b in pairs if a != b), "")
        raise ValueError(
            f"the new rows have {source.shape[1]:,} features, and the index {existing.shape[1]:,}: they must "
            f"have the same names, in the same order{different}."
        )
    if not np.can_cast(source.dtype, existing.dtype):
        raise ValueError(
            f"the new rows are {source.dtype}, which the {existing.dtype} of the index cannot hold: convert "
            f"them to {existing.dtype} first."
        )
    return existing.dtype


def _check_destination(data: Any, destination: Path, force: bool) -> None:
    """Raise if the folder cannot be written, or has something that may not be replaced."""
    path, parent = local_path(data), destination.absolute().parent
    if destination.name in ("", ".."):
        raise ValueError(
            f"{destination} is not a name for a folder: use, for example, {destination / 'data.index'}."
        )
    if not parent.is_dir():
        raise FileNotFoundError(f"the folder {parent} does not exist: create it first.")
    if not destination.exists() and not destination.is_symlink():
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
    if not is_index(folder):
        return False
    files = {META, *(json.loads((folder / META).read_bytes()).get("files") or ())}
    others = [entry for entry in folder.iterdir() if entry.name not in files]
    return all(re.fullmatch(rf"{PART}\d+", entry.name) and _is_ours(entry) for entry in others)


class Data(NamedTuple):
    """The data to index, with the name of the target, and values of each row by name."""

    source: Source
    name: str
    target: str | None
    by_row: dict[str, Array]


def _open(data: Any, target: str | None, options: ReadOptions) -> Data:
    """Open the data with their target, which has gaps where it is not known."""
    name = Path(find_prefix(data)).name if isinstance(data, (str, os.PathLike)) else type(data).__name__
    opened = open_any(data, options)
    places = [] if target is None else [find_place(str(target), opened)]
    (columns,) = read_columns(opened, [places])
    source = opened.source()
    if source.original_rows is not None:
        raise ValueError(f"{name} is an index already: index the original data.")
    ids = {} if opened.ids is None else {"ids": np.asarray(opened.ids)}
    for column in columns:
        file, label = column.place.file, column.name if column.place.file is None else column.place.column
        if file is not None and (not label or label.isdigit()):  # which would be the number of a feature
            label = " ".join(filter(None, (Path(file).stem, label)))
        return Data(source, name, label, ids | {"target": column.take(np.arange(source.shape[0]))})
    return Data(source, name, None, ids)


def _write_folder(
    data: Data, dtype: np.dtype, seed: int, memory: int, folder: Path, report: Callable[[int, int], None]
) -> None:
    """Write all files of an index, the description last."""
    index, order = folder / INDEX, np.random.default_rng(seed).permutation(data.source.shape[0])
    vectors = {"original_rows": order, "names": data.source.names}
    vectors |= {ANNOTATION + name: values for name, values in data.source.annotations.items()}
    vectors |= {name: values[order] for name, values in data.by_row.items()}
    for name, values in vectors.items():
        if values is not None:
            _write_vector(index, name, np.asarray(values))
    written = _write_cells(data.source, dtype, order, seed, memory, folder, report)
    names = sorted(file.name for file in index.iterdir() if file.name != CELLS)
    files = {name: Folder(index).checksum(name) for name in names} | {CELLS: written}
    Record(data.source.shape, seed, data.name, data.target, files).write(index)


def _write_vector(folder: Path, name: str, values: Array) -> None:
    """Write numbers as ``.npy``, and text as a list in JSON with null for missing values."""
    if values.dtype.kind in "cmMV":
        raise ValueError(f"an index cannot hold values of {values.dtype}: use numbers or text.")
    if values.dtype.kind in "OUST":
        texts = [None if value is None or value != value else to_text(value) for value in values.tolist()]
        (folder / f"{name}.json").write_text(json.dumps(texts), encoding="utf-8")
    else:
        _create(folder / f"{name}.npy", values.dtype.newbyteorder("="), values.shape)[:] = values


def _create(path: Path, dtype: Any, shape: tuple[int, ...]) -> Array:
    """A new file that is mapped into memory."""
    array: Array = np.lib.format.open_memmap(path, "w+", dtype, shape)
    if hasattr(os, "posix_fallocate"):  # or else a full disk ends the process that writes to the map
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


def _write_cells(
    source: Source,
    dtype: np.dtype,
    order: Indices,
    seed: int,
    memory: int,
    folder: Path,
    report: Callable[[int, int], None],
) -> list[int]:
    """Write all rows by column in an order, and their bits; each thread does a few columns at a time."""
    (n, p), blocks, index = source.shape, make_blocks(source.shape[0]), folder / INDEX
    bits = _create(index / BITS, np.uint64, (sum(block.size for block in blocks) // WORD, p))
    moments = _create(index / MOMENTS, np.float64, (N_MOMENTS * len(blocks), p))
    # A thread has its columns four times: as they are read, by column, and in order until they are written.
    n_columns = memory // (4 * n * dtype.itemsize)
    n_threads = max(1, min(count_jobs(None), n_columns // WIDTH))
    width = max(1, min(COLUMNS_AT_ONCE, p, n_columns // n_threads))
    # Columns that are read together with others. A scratch file pays off if they would be read many times.
    others = max(source.chunk[1], CACHE_LINE // dtype.itemsize if source.by_row else 1) - 1
    is_direct = -(-p // width) * min(width + others, p) <= 3 * p
    tick = add_up(report, (1 if is_direct else 2) * n * p * dtype.itemsize)
    if not is_direct:
        source = _store_by_column(source, dtype, memory, folder / SCRATCH / "columns.npy", tick)
    written = MappedSource(bits)
    # Memory that is used again, because new memory takes longer than putting rows in order.
    in_order = [np.empty((width, n), dtype) for _ in range(2 * n_threads)]

    def cells(columns: slice) -> Array:
        memory: Array = in_order[columns.start // width % len(in_order)]
        return memory[: columns.stop - columns.start]

    def encode(columns: slice) -> None:
        block = source.read(slice(0, n), columns)
        by_column = block.T
        if not by_column.flags.c_contiguous or block.dtype != dtype:
            by_column = np.empty(by_column.shape, dtype)
            _transpose(block, by_column)
        source.release()
        by_column.take(order, axis=1, out=cells(columns), mode="clip")  # other modes use a buffer
        encode_panel(cells(columns), blocks, seed, bits[:, columns], moments[:, columns])

    with open(index / CELLS, "xb") as file, Workers(n_threads) as workers:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": True, "shape": (n, p)}
        np.lib.format.write_array_header_1_0(file, header)
        file.flush()
        crc = Folder(index).checksum(CELLS)[1]

        def finish(columns: slice) -> None:
            nonlocal crc
            file.write(cells(columns).data)
            crc = zlib.crc32(cells(columns).data, crc)
            written.release()
            tick(cells(columns).nbytes)

        panels = (slice(low, min(low + width, p)) for low in range(0, p, width))
        workers.run_in_order(panels, encode, finish, len(in_order))
        return [file.tell(), crc]


def _transpose(block: Array, out: Array) -> None:
    """Copy a block to memory by column."""
    for low in range(0, len(block), ROWS_AT_ONCE):  # which stay in the cache
        out[:, low : low + ROWS_AT_ONCE] = block[low : low + ROWS_AT_ONCE].T


def _store_by_column(
    source: Source, dtype: np.dtype, memory: int, path: Path, tick: Callable[[int], None]
) -> Source:
    """Write all cells to a file by column, after reading them row by row; return what reads it."""
    n, p = source.shape
    columns = _create(path, dtype, (p, n))
    stored = MappedSource(columns.T)
    step = max(1, memory // 8 // (p * source.dtype.itemsize))
    if step > source.block_rows:  # whole blocks
        step -= step % source.block_rows
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        block = source.read(rows, slice(0, p))

        def copy(low: int, block: Array = block, rows: slice = rows) -> None:
            some = slice(low, low + COLUMNS_AT_ONCE)
            _transpose(block[:, some], columns[some, rows])

        map_in_threads(copy, range(0, p, COLUMNS_AT_ONCE))
        for held in (source, stored):
            held.release()
        tick(block.size * dtype.itemsize)
    return stored
