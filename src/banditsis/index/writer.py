"""Write the rows of data in random order to a prepared folder."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Indices
from banditsis.core.progress import Progress, add_up, report_progress
from banditsis.core.validation import resolve_seed
from banditsis.formats.opening import open_any
from banditsis.formats.options import Patterns, ReadOptions, check_options
from banditsis.formats.registry import META, find_prefix, is_shuffled, local_path
from banditsis.formats.stores import to_text
from banditsis.formats.targets import find_place, read_columns
from banditsis.index.folder import ANNOTATION, CELLS, HEAD, Folder, Record, compute_checksum, list_files
from banditsis.index.reader import stored_below
from banditsis.index.strata import count_head_rows, order_rows
from banditsis.sources.base import Source
from banditsis.sources.views import RowSubset

__all__ = ["shuffle"]

DEFAULT_MEMORY, MIN_MEMORY = 1 << 30, 16_000_000


def shuffle(
    data: Any,
    destination: str | os.PathLike[str],
    *,
    target: str | None = None,
    columns: Patterns = (),
    drop: Patterns = (),
    id: str | None = None,
    one_hot: bool | int = False,
    dates: str = "skip",
    na: Patterns = (),
    force: bool = False,
    memory_limit: int | None = None,
    random_state: Any = None,
    progress: Progress = None,
) -> Path:
    """Write the rows of data in random order to a folder that is fast to screen.

    The folder has plain ``.npy`` files: the first rows by row, and all rows by column, with names, target,
    ids, seed and checksums. It appears under its name when it is complete.

    With a target, rows are stored in strata: those of a rare class, or far from the mean, are separate from
    the others, so fewer rows are needed to screen for this target. The order in each stratum is random, and
    other targets are screened as precisely as without strata. If strata would not make samples more precise,
    the order of all rows is random.

    Parameters
    ----------
    data : path, array-like of shape (n, p), frame or Source
        The rows to shuffle.
    destination : path
        The folder to write, such as ``x.shuffled``.
    target : str, optional
        The target to store, and to make strata from, as in :func:`open_source`; by default, the target of a
        shuffled folder.
    columns, drop, id, one_hot, dates, na
        Which columns to use, and how, as in :func:`open_source`.
    force : bool
        Whether to replace a folder that an earlier call wrote.
    memory_limit : int, optional
        Approximate memory to use in bytes, in addition to 24 bytes per row; 1 GiB by default.
    random_state : int, Generator or RandomState, optional
        Seed of the row order.
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
    >>> from banditsis import open_source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = shuffle(np.arange(20.0).reshape(10, 2), f"{folder}/x.shuffled", random_state=0)
    ...     source = open_source(path)
    ...     print(source.shape, source.shuffled, source.read(slice(0, 3), None)[:, 0])
    (10, 2) True [ 8. 12.  4.]
    """
    destination = Path(destination)
    memory = DEFAULT_MEMORY if memory_limit is None else memory_limit
    if memory < MIN_MEMORY:
        raise ValueError(f"the memory limit must be at least {MIN_MEMORY:,} bytes (16 MB), got {memory:,}.")
    _check_not_inside(data, destination)
    _check_destination(destination, force)
    seed = resolve_seed(np.random.default_rng() if random_state is None else random_state)
    options = check_options(
        columns=columns, drop=drop, id=id, one_hot=one_hot, dates=dates, na=na, memory_limit=memory
    )
    folder = destination.with_name(f"{destination.name}.{secrets.token_hex(4)}.partial")
    folder.mkdir()  # raises if it exists, so what is removed below is ours
    try:
        (folder / "scratch").mkdir()
        opened = _open(data, target, options._replace(scratch=folder / "scratch"))
        with report_progress(progress, "shuffling", "bytes") as report:
            _write_folder(opened, seed, memory, folder, report)
        shutil.rmtree(folder / "scratch")
        _move(folder, destination, force)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return destination


def _check_not_inside(data: Any, destination: Path) -> None:
    """Raise if the destination is not a valid name, or contains the data themselves."""
    if destination.name in ("", ".."):
        raise ValueError(
            f"{destination} is not a name for a folder: use, for example, {destination / 'data.shuffled'}."
        )
    store = stored_below(data) if isinstance(data, Source) else None
    path = local_path(data if store is None else store.folder.where)
    if path is not None and destination.exists() and path.resolve().is_relative_to(destination.resolve()):
        raise ValueError(f"{destination} contains the data to be shuffled: choose another name.")


def _check_destination(destination: Path, force: bool) -> None:
    """Raise if something is there, unless it may be replaced: a prepared folder without other files."""
    if not destination.absolute().parent.is_dir():
        raise FileNotFoundError(
            f"the folder {destination.absolute().parent} does not exist: create it first."
        )
    if not destination.exists() and not destination.is_symlink():
        return
    if not force:
        raise FileExistsError(
            f"{destination} exists: choose another name, or replace it (--force, force=True)."
        )
    is_ours = is_shuffled(destination) and not destination.is_symlink()
    others = {entry.name for entry in destination.iterdir()} if is_ours else set()
    if not is_ours or others - {META, *list_files(destination)}:
        raise FileExistsError(
            f"{destination} is not a shuffled folder, or has other files, and is not replaced: choose "
            "another name."
        )


class Data(NamedTuple):
    """The data to shuffle."""

    source: Source
    y: Array | None
    ids: Array | None
    name: str
    #: name of the data before the first shuffle
    original_name: str
    target: str | None
    #: row numbers in the original data, None for all in order
    rows: Indices | None
    n_original: int


def _open(data: Any, target: str | None, options: ReadOptions) -> Data:
    """Open the data with their target; rows without a value in a target from another file are dropped."""
    name = str(find_prefix(data)) if isinstance(data, (str, os.PathLike)) else type(data).__name__
    opened = open_any(data, options)
    targets = [] if target is None else [find_place(str(target), opened.names)]
    (found,), _ = read_columns(opened, [targets])
    source, ids, rows, y, label = opened.source(), opened.ids, None, None, None
    n = source.shape[0]
    for column in found:
        file, label = column.place.file, column.name if column.place.file is None else column.place.column
        if file is None or column.rows.size == n:
            y = column.expand(np.arange(n))
        else:
            y, rows, source = column.values, column.rows, RowSubset(source, column.rows)
            ids = None if ids is None else ids[rows]
        if file is not None and (not label or label.isdigit()):  # else it is the number of a feature
            label = " ".join(filter(None, (Path(file).stem, label)))
    store = stored_below(source)
    if store is None:
        return Data(source, y, ids, name, name, label, rows, n)
    record = store.record
    if label is None and record.find("target"):
        y, label = store.read_vector("target"), record.target
    rows = store.original_rows if rows is None else store.original_rows[rows]
    return Data(source, y, ids, name, record.source, label, rows, record.n_original)


def _write_folder(
    opened: Data, seed: int, memory: int, folder: Path, report: Callable[[int, int], None]
) -> None:
    n, p = opened.source.shape
    order, sizes = order_rows(n, opened.y, np.random.default_rng(seed))
    heads = count_head_rows(sizes or [n])
    _write_vectors(opened, order, folder)
    starts = np.cumsum([0, *sizes[:-1]])
    first = np.concatenate([order[a : a + rows] for a, rows in zip(starts, heads, strict=True)])
    _write_cells(opened.source, order, first, memory, folder, report)
    names = sorted(file.name for file in folder.iterdir() if file.is_file())
    Record(
        shape=(n, p),
        seed=seed,
        source=Path(opened.original_name).name,
        target=opened.target,
        stratum_sizes=tuple(sizes),
        head_sizes=tuple(heads),
        n_original=opened.n_original,
        files={name: compute_checksum(Folder(str(folder)), name) for name in names},
    ).write(folder)


def _write_cells(
    source: Source,
    order: Indices,
    first: Indices,
    memory: int,
    folder: Path,
    report: Callable[[int, int], None],
) -> None:
    """Write all rows by column in an order, and the first ones by row, some columns at a time."""
    (n, p), dtype = source.shape, np.dtype(source.dtype).newbyteorder("=")
    size = n * p * dtype.itemsize
    width = max(1, min(p, memory // 4 // (n * dtype.itemsize)))
    panels = [slice(low, min(low + width, p)) for low in range(0, p, width)]
    _check_disk_space(folder, size + len(first) * p * dtype.itemsize + memory // 4)
    is_direct = _reads_columns(source, width)
    tick = add_up(report, size if is_direct else 2 * size)
    if not is_direct:
        _scatter(source, panels, dtype, memory, folder / "scratch", tick)
    head = np.lib.format.open_memmap(folder / HEAD, "w+", dtype, (len(first), p))
    with open(folder / CELLS, "xb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": True, "shape": (n, p)}
        np.lib.format.write_array_header_1_0(file, header)
        for panel in panels:
            if is_direct:
                cells = _read_panel(source, panel, dtype, memory)
            else:
                cells = _gather(folder / "scratch", panel, dtype)
            for column in cells:
                file.write(column[order].data)
            head[:, panel] = cells[:, first].T
            tick(cells.nbytes)
    head.flush()


def _check_disk_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"shuffling needs about {needed / 1e9:.1f} GB of disk space, and {free / 1e9:.1f} GB are "
            f"available for {folder.parent}: choose another disk."
        )


def _reads_columns(source: Source, width: int) -> bool:
    """Whether reading panels of columns is cheaper than writing the cells to scratch files first."""
    n, p = source.shape
    if width == p:
        return True
    if source.by_row is None and source.chunk != (1, 1):
        share = min(1.0, -(-width // source.chunk[1]) * source.chunk[1] / p)
    elif source.by_row:
        share = 1.0
    else:
        everything = source.bytes_touched(n, p, scattered=False)
        share = source.bytes_touched(n, width, scattered=False) / everything
    return -(-p // width) * share <= 3  # otherwise each byte is read, written and read again


def _read_blocks(source: Source, columns: slice, memory: int) -> Iterator[tuple[int, Array]]:
    """Blocks of rows of some columns, and the first row of each."""
    n = source.shape[0]
    step = max(1, memory // 8 // ((columns.stop - columns.start) * source.dtype.itemsize))
    if step > source.block_rows:  # whole blocks
        step -= step % source.block_rows
    for start in range(0, n, step):
        yield start, source.read(slice(start, min(n, start + step)), columns)
        source.release()


def _read_panel(source: Source, columns: slice, dtype: np.dtype, memory: int) -> Array:
    """Some columns over all rows, one line for each."""
    cells = np.empty((columns.stop - columns.start, source.shape[0]), dtype)
    for start, block in _read_blocks(source, columns, memory):
        cells[:, start : start + len(block)] = block.T
    return cells


def _scatter(
    source: Source,
    panels: list[slice],
    dtype: np.dtype,
    memory: int,
    folder: Path,
    tick: Callable[[int], None],
) -> None:
    """Read all rows once, and append the columns of each panel to a file of its own."""
    for _, block in _read_blocks(source, slice(0, source.shape[1]), memory):
        for panel in panels:
            with open(folder / f"panel_{panel.start}", "ab") as file:
                file.write(np.ascontiguousarray(block[:, panel], dtype).data)
        tick(block.size * dtype.itemsize)


def _gather(folder: Path, panel: slice, dtype: np.dtype) -> Array:
    """The columns of a panel, one line for each, from its file, which is removed."""
    path = folder / f"panel_{panel.start}"
    cells = np.fromfile(path, dtype).reshape(-1, panel.stop - panel.start)
    path.unlink()
    return np.ascontiguousarray(cells.T)


def _write_vectors(opened: Data, order: Indices, folder: Path) -> None:
    """Write the row order, names, annotations, target and ids."""
    _write_vector(folder, "original_rows", order if opened.rows is None else opened.rows[order])
    if opened.source.names is not None:
        _write_vector(folder, "names", np.array(list(opened.source.names), dtype=object))
    for name, annotation in opened.source.annotations.items():
        _write_vector(folder, ANNOTATION + name, annotation)
    for name, values in (("target", opened.y), ("ids", opened.ids)):
        if values is not None:
            _write_vector(folder, name, np.asarray(values)[order])


def _write_vector(folder: Path, name: str, values: Array) -> None:
    """Write numbers as ``.npy``, and text as a list in JSON with null for missing values."""
    values = np.asarray(values)
    if values.dtype.kind in "cmMV":
        raise ValueError(f"a shuffled folder cannot hold values of {values.dtype}: use numbers or text.")
    if values.dtype.kind in "OUST":
        texts = [None if value is None or value != value else to_text(value) for value in values.tolist()]
        (folder / f"{name}.json").write_text(json.dumps(texts))
    else:
        np.save(folder / f"{name}.npy", values.astype(values.dtype.newbyteorder("=")))


def _move(folder: Path, destination: Path, force: bool) -> None:
    """Move the folder to its destination, and a folder that it replaces out of the way."""
    _check_destination(destination, force)  # again, because writing takes a while
    replaced = folder.with_suffix(".replaced")
    if destination.exists():
        os.rename(destination, replaced)
    try:
        os.rename(folder, destination)
    except OSError:
        if replaced.exists():
            os.rename(replaced, destination)
        raise
    shutil.rmtree(replaced, ignore_errors=True)
