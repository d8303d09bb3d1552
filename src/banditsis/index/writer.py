"""Write the rows of a data set in random order, once, so screening can read prefixes of it."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Indices
from banditsis.core.progress import Progress, report_progress
from banditsis.core.validation import resolve_seed
from banditsis.formats.opening import column_names
from banditsis.formats.options import Patterns, ReadOptions, check_options
from banditsis.formats.registry import find_prefix, local_path
from banditsis.formats.targets import find_place, open_columns
from banditsis.index.layout import is_shuffled
from banditsis.index.metadata import (
    ANNOTATION,
    VERSION,
    Record,
    Written,
    vector_checksum,
    write_record,
    write_vector,
)
from banditsis.index.pieces import Journal, Work, fill_buckets, plan_work, write_piece
from banditsis.index.reader import stored_below
from banditsis.index.strata import order_rows
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
    """Write the rows of data in random order to a Zarr store that is fast to screen.

    The store has the first rows in wide chunks and later rows in tall, narrow ones, with names, target, ids,
    seed and checksums. It appears under its name when it is complete. Repeat a call to resume it.

    With a target, rows are stored in strata: those of a rare class, or far from the mean, are separate from
    the others, so fewer rows are needed to screen for this target. The order in each stratum is random, and
    other targets are screened as precisely as without strata. If strata would not make samples more precise,
    the order of all rows is random.

    Parameters
    ----------
    data : path, array-like of shape (n, p), frame or Source
        The rows to shuffle.
    destination : path
        Folder of the store; its name usually ends in ``.zarr``.
    target : str, optional
        The target to store, and to make strata from, as in :func:`open_source`; by default, the target of a
        shuffled store.
    columns, drop, id, one_hot, dates, na
        Which columns to use, and how, as in :func:`open_source`.
    force : bool
        Whether to replace an existing store, or an unfinished one with other data.
    memory_limit : int, optional
        Approximate memory to use in bytes, in addition to 24 bytes per row; 1 GiB by default.
    random_state : int, Generator or RandomState, optional
        Seed of the row order. A call that resumes another needs the same integer, or None.
    progress : bool or callable, optional
        By default a bar appears on a terminal after two seconds. A callable is called with the number of
        bytes moved and the total.

    Returns
    -------
    Path
        The store.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from banditsis import open_source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = shuffle(np.arange(20.0).reshape(10, 2), f"{folder}/x.zarr", random_state=0)
    ...     source = open_source(path)
    ...     print(source.shape, source.shuffled, source.read(slice(0, 3), None)[:, 0])
    (10, 2) True [ 8. 12.  4.]
    """
    destination = Path(destination)
    memory = DEFAULT_MEMORY if memory_limit is None else memory_limit
    if memory < MIN_MEMORY:
        raise ValueError(f"the memory limit must be at least {MIN_MEMORY:,} bytes (16 MB), got {memory:,}.")
    _check_not_inside(data, destination)
    folder = destination.with_name(destination.name + ".partial")
    was_moved = _was_just_moved(folder, destination)
    _check_destination(destination, force or was_moved)
    seed = None if random_state is None else resolve_seed(random_state)
    options = check_options(
        columns=columns, drop=drop, id=id, one_hot=one_hot, dates=dates, na=na, memory_limit=memory
    )
    opened = _open(data, target, options)
    about = {"version": VERSION, "source": opened.name, "target": None if target is None else str(target)}
    about |= _fingerprint(opened, data)
    with _lock(folder):
        journal = Journal(folder / "journal.jsonl")
        if was_moved and _is_same_run(journal, about, seed):
            shutil.rmtree(folder)
            return destination
        _check_destination(destination, force)
        seed = _begin_or_resume(journal, about, seed, force)
        if not (folder / "store" / "zarr.json").exists():
            with report_progress(progress, "shuffling", "bytes") as report:
                _write_store(opened, seed, memory, journal, report)
        journal.add("whole")
        _move(folder / "store", destination)
    shutil.rmtree(folder)
    return destination


def _check_not_inside(data: Any, destination: Path) -> None:
    """Raise if the destination is not a valid name, or contains the data themselves."""
    if destination.name in ("", ".."):
        raise ValueError(
            f"{destination} is not a name for a store: use, for example, {destination / 'data.zarr'}."
        )
    store = stored_below(data) if isinstance(data, Source) else None
    path = local_path(data) if store is None else store.path
    if path is not None and destination.exists() and path.resolve().is_relative_to(destination.resolve()):
        raise ValueError(f"{destination} contains the data to be shuffled: choose another name.")


def _was_just_moved(folder: Path, destination: Path) -> bool:
    """Whether a run was interrupted after it had moved the store to its destination."""
    moved = folder.is_dir() and is_shuffled(destination) and not (folder / "store").exists()
    return moved and "whole" in Journal(folder / "journal.jsonl").entries


def _check_destination(destination: Path, force: bool) -> None:
    if destination.exists() and not force:
        raise FileExistsError(
            f"{destination} exists: choose another name, or replace it (--force, force=True)."
        )
    if destination.exists() and not (destination / "zarr.json").exists():
        raise FileExistsError(f"{destination} is not a Zarr store and is not replaced: choose another name.")
    if not destination.absolute().parent.is_dir():
        raise FileNotFoundError(
            f"the folder {destination.absolute().parent} does not exist: create it first."
        )


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Create a folder and lock it against other processes."""
    folder.mkdir(exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(folder / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"{folder} is in use by another process: wait until it ends.") from None
        yield


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
    targets = [] if target is None else [find_place(str(target), column_names(data))]
    opened, (found,) = open_columns(data, [targets], options)
    source, ids, rows, y, label = opened.source, opened.ids, None, None, None
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
    if label is None and "target" in record.vectors:
        y, label = store.read_vector("target"), record.target
    rows = store.original_rows if rows is None else store.original_rows[rows]
    return Data(source, y, ids, name, record.source, label, rows, record.n_original)


def _fingerprint(opened: Data, data: Any) -> dict[str, Any]:
    """Properties that identify the data: sizes and times of files, checksums of some rows and all vectors."""
    source = opened.source
    n, p = source.shape
    rows = np.unique(np.linspace(0, n - 1, 16).astype(np.intp))
    sample = np.ascontiguousarray(source.read(rows, slice(0, min(p, 1024))))
    fingerprint = {"shape": [n, p], "dtype": source.dtype.name, "sample": zlib.crc32(sample.tobytes())}
    names = None if source.names is None else np.array(list(source.names), dtype=object)
    for name, values in (("y", opened.y), ("ids", opened.ids), ("names", names), ("rows", opened.rows)):
        fingerprint[name] = None if values is None else vector_checksum(values)
    for name, values in source.annotations.items():
        fingerprint[ANNOTATION + name] = vector_checksum(values)
    path = local_path(data)
    if path is not None:
        stats = [file.stat() for file in (path, *sorted(path.rglob("*"))) if file.is_file()]
        files = [(stat.st_size, stat.st_mtime_ns) for stat in stats]
        fingerprint["files"] = zlib.crc32(repr(files).encode())
    return fingerprint


def _is_same_run(journal: Journal, about: dict[str, Any], seed: int | None) -> bool:
    """Whether the run in the journal has the same data, target and seed."""
    begun = journal.entries["begun"]["about"]
    same = all(begun.get(key) == value for key, value in about.items())
    return same and seed in (None, begun["seed"])


def _begin_or_resume(journal: Journal, about: dict[str, Any], seed: int | None, force: bool) -> int:
    """Resume the run in the journal, or start a new one; return the seed."""
    folder = journal.path.parent
    if "begun" in journal.entries:
        begun = journal.entries["begun"]["about"]
        if _is_same_run(journal, about, seed):
            return int(begun["seed"])
        if not force:
            n, p = begun["shape"]
            raise ValueError(
                f"{folder} is an unfinished shuffle of {begun['source']} (target {begun['target']}, seed "
                f"{begun['seed']}, {n:,} × {p:,}) with other data or settings: repeat the same call "
                "to finish it, or start over (--force, force=True)."
            )
    for name in ("store", "buckets"):
        shutil.rmtree(folder / name, ignore_errors=True)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
    journal.begin({**about, "seed": seed})
    return seed


def _write_store(
    opened: Data,
    seed: int,
    memory: int,
    journal: Journal,
    progress: Callable[[int, int], None] | None,
) -> None:
    folder = journal.path.parent
    if "vectors" not in journal.entries:
        order, sizes = order_rows(opened.source.shape[0], opened.y, np.random.default_rng(seed))
        files = _write_vectors(opened, order, folder / "store")
        journal.add("vectors", files=files, stratum_sizes=sizes)
        del order
    vectors = journal.entries["vectors"]
    work = plan_work(opened.source, opened.rows, memory, folder, journal)
    _check_disk_space(work)
    moved = 0

    def tick(cells: int) -> None:
        nonlocal moved
        moved += cells * work.dtype.itemsize
        if progress is not None:
            progress(moved, work.bytes_to_move)

    if work.uses_buckets:
        fill_buckets(work, tick)
    files = {name: Written(*written) for name, written in vectors["files"].items()}
    for k, piece in enumerate(work.pieces):
        files |= write_piece(work, k)
        (first, end), (low, high) = work.rows(piece), work.columns(piece.panel)
        tick((end - first) * (high - low))
    record = Record(
        shape=opened.source.shape,
        dtype=work.dtype,
        segments=work.segments,
        compressor=work.compressor,
        seed=seed,
        source=Path(opened.original_name).name,
        target=opened.target,
        stratum_sizes=tuple(vectors["stratum_sizes"]),
        n_original=opened.n_original,
        vectors=[file.split("/")[0] for file in vectors["files"]],
        files=files,
    )
    write_record(work.store, record)


def _write_vectors(opened: Data, order: Indices, store: Path) -> dict[str, Written]:
    """Write the row order, names, annotations, target and ids."""
    rows = order if opened.rows is None else opened.rows[order]
    files = [write_vector(store, "original_rows", rows, "row")]
    if opened.source.names is not None:
        names = np.array(list(opened.source.names), dtype=object)
        files.append(write_vector(store, "names", names, "feature"))
    for name, annotation in opened.source.annotations.items():
        files.append(write_vector(store, ANNOTATION + name, annotation, "feature"))
    for name, values in (("target", opened.y), ("ids", opened.ids)):
        if values is not None:
            files.append(write_vector(store, name, np.asarray(values)[order], "row"))
    return dict(files)


def _check_disk_space(work: Work) -> None:
    n, p = work.source.shape
    required = n * p * work.dtype.itemsize
    used = sum(file.stat().st_size for file in work.folder.rglob("*") if file.is_file())
    available = shutil.disk_usage(work.folder).free + used
    # Buckets shrink as the store grows.
    if work.compressor is None and required * 1.02 + work.memory // 4 > available:
        raise OSError(
            f"shuffling needs about {required / 1e9:.1f} GB of disk space, and {available / 1e9:.1f} GB are "
            f"available for {work.folder}: choose another disk."
        )


def _move(store: Path, destination: Path) -> None:
    """Move the store to its destination, and an existing store out of the way."""
    if destination.exists():
        replaced = store.with_name("replaced")
        shutil.rmtree(replaced, ignore_errors=True)
        os.replace(destination, replaced)
    os.replace(store, destination)
