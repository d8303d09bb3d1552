"""Put the rows of a data set into random order, once, so that screening reads prefixes from then on.

Where a panel of columns fits in memory over all rows, and the source reads columns cheaply, panels are read
and shuffled one by one. Otherwise rows are dealt out to buckets on disk by where they belong, and each bucket
is put in order by itself. Finished pieces are noted in a journal, so that an interrupted run goes on where it
was.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.arrays import Array, Indices
from banditsis.formats.registry import split_path
from banditsis.sources.base import Source
from banditsis.sources.views import RowSubset
from banditsis.store.journal import Journal, hold
from banditsis.store.layout import is_shuffled
from banditsis.store.metadata import Record, read_vector, write_record, write_vector
from banditsis.store.moving import finish_piece, scatter
from banditsis.store.reader import stored_below
from banditsis.store.shards import Written
from banditsis.store.work import check_space, plan_work, stored_dtype

__all__ = ["shuffle"]

MEMORY, MIN_MEMORY = 1 << 30, 1 << 24


def shuffle(
    data: Any,
    destination: str | os.PathLike[str],
    *,
    target: str | None = None,
    seed: int | None = None,
    force: bool = False,
    memory_limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write the rows of data in uniformly random order to a Zarr store that screening reads best.

    The store holds the first rows in wide chunks and later ones in tall, narrow ones, with names, target,
    ids, seed and checksums. It appears under its name when it is whole. A run that was interrupted goes on
    when it is called again.

    Parameters
    ----------
    data : path, array-like of shape (n, p), frame or Source
        The rows to shuffle.
    destination : path
        The store, a folder whose name ends in ``.zarr`` by custom.
    target : str, optional
        The target to carry along, as for :func:`open_source`; by default that which a shuffled store carries.
    seed : int, optional
        Where the order comes from; drawn at random by default.
    force : bool
        Whether to replace a store that is there, or an unfinished one of other data.
    memory_limit : int, optional
        About how many bytes of memory to use, besides 24 bytes for each row; 1 GB by default.
    progress : callable, optional
        Called with the bytes moved and the bytes to move.

    Returns
    -------
    Path
        Of the store.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from banditsis import open_source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = shuffle(np.arange(20.0).reshape(10, 2), f"{folder}/x.zarr", seed=0)
    ...     source = open_source(path)
    ...     print(source.shape, source.shuffled, source.read(slice(0, 3), None)[:, 0])
    (10, 2) True [ 8. 12.  4.]
    """
    destination = Path(destination)
    memory = MEMORY if memory_limit is None else memory_limit
    if memory < MIN_MEMORY:
        raise ValueError(f"memory_limit must be at least 16 MB, got {memory:,} bytes.")
    _refuse_own_place(data, destination)
    folder = destination.with_name(destination.name + ".partial")
    if _just_finished(folder, destination):
        shutil.rmtree(folder)
        return destination
    _check_destination(destination, force)
    opened = _open(data, target, memory)
    with hold(folder):
        journal = Journal(folder / "journal.jsonl")
        about = {
            "source": opened.name,
            "target": None if target is None else str(target),
            **_fingerprint(opened, data),
        }
        seed = _begin(journal, about, seed, force, folder, destination)
        _write_store(opened, seed, memory, folder, journal, progress)
        journal.note_whole()
        _move(folder / "store", destination)
    shutil.rmtree(folder)
    return destination


def _just_finished(folder: Path, destination: Path) -> bool:
    """Whether a run was cut off after it had given the store its name."""
    moved = folder.is_dir() and is_shuffled(destination) and not (folder / "store").exists()
    return moved and Journal(folder / "journal.jsonl").whole


def _refuse_own_place(data: Any, destination: Path) -> None:
    """Refuse a name that no store can have, or that of the data themselves."""
    if destination.name in ("", ".."):
        raise ValueError(
            f"{destination} is no name of a store: give one, such as {destination / 'data.zarr'}."
        )
    path = split_path(Path(data))[0] if isinstance(data, (str, os.PathLike)) else getattr(data, "path", None)
    if path is None or not destination.exists():
        return
    place, own = destination.resolve(), Path(path).resolve()
    if own == place or place in own.parents:
        raise ValueError(f"{destination} holds the data that are to be shuffled: choose another name.")


def _check_destination(destination: Path, force: bool) -> None:
    if destination.exists() and not force:
        raise FileExistsError(f"{destination} exists: choose another name, or replace it with --force.")
    if destination.exists() and not (destination / "zarr.json").exists():
        raise FileExistsError(f"{destination} is no Zarr store, and is not replaced: choose another name.")
    if not destination.absolute().parent.is_dir():
        raise FileNotFoundError(f"the folder {destination.absolute().parent} does not exist: make it first.")


class Data(NamedTuple):
    """What is to be shuffled."""

    source: Source
    y: Array | None
    ids: Array | None
    name: str
    #: name of the data that were shuffled first
    first: str
    target: str | None
    #: which rows of the data these are, None for all in order; of a shuffled store, those of its own source
    rows: Indices | None
    n_original: int


def _open(data: Any, target: str | None, memory: int) -> Data:
    """Open the data with their target; rows are left out only where a target from elsewhere has none."""
    from banditsis.formats.targets import join, open_unjoined

    name = str(data) if isinstance(data, (str, os.PathLike)) else type(data).__name__
    opened, read, place = open_unjoined(data, target, memory_limit=memory)
    n = opened.source.shape[0]
    if read is None or place.file is None:
        return _since_the_first(Data(opened.source, opened.y, opened.ids, name, name, place.column, None, n))
    source, y = join(opened, read, place.file)[:2]
    rows = source.rows if isinstance(source, RowSubset) else None
    ids = opened.ids if rows is None or opened.ids is None else opened.ids[rows]
    # A number would be taken for that of a feature.
    column = place.column
    label = column if column and not column.isdigit() else " ".join(filter(None, (place.file.stem, column)))
    return _since_the_first(Data(source, y, ids, name, name, label, rows, n))


def _since_the_first(data: Data) -> Data:
    """Of a store that was shuffled before, carry its target on, and number rows as in its own source."""
    store = stored_below(data.source)
    if store is None:
        return data
    record, rows = store.record, store.original_rows
    if data.target is None and record.has("target"):
        data = data._replace(y=read_vector(store.path, "target"), target=record.target)
    if data.rows is not None:
        rows = rows[data.rows]
    return data._replace(first=record.source, rows=rows, n_original=record.n_original)


def _fingerprint(opened: Data, data: Any) -> dict[str, Any]:
    """What tells these data from others: sizes, time of the last change, a few rows."""
    source = opened.source
    n, p = source.shape
    few = np.unique(np.linspace(0, n - 1, 16).astype(np.intp))
    sample = source.read(few, slice(0, min(p, 1024)))
    found = {
        "shape": [n, p],
        "dtype": source.dtype.name,
        "sample": zlib.crc32(np.ascontiguousarray(sample).tobytes()),
    }
    if isinstance(data, (str, os.PathLike)):
        stat = Path(data).stat()
        found |= {"changed": stat.st_mtime_ns, "size": stat.st_size}
    return found


def _begin(
    journal: Journal, about: dict[str, Any], seed: int | None, force: bool, folder: Path, destination: Path
) -> int:
    """Go on with what the journal tells of, or begin anew; give the seed."""
    if journal.begun is not None:
        same = all(journal.begun.get(key) == value for key, value in about.items())
        if same and seed in (None, journal.begun["seed"]):
            return int(journal.begun["seed"])
        if not force:
            then = journal.begun
            raise ValueError(
                f"{folder} holds an unfinished shuffle of {then['source']} (target {then['target']}, seed "
                f"{then['seed']}, {then['shape'][0]:,} × {then['shape'][1]:,}), and this is another one, or "
                "the data have changed: give the same command again to finish it, or --force to start over."
            )
    for left in ("store", "buckets"):
        shutil.rmtree(folder / left, ignore_errors=True)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}.")
    journal.begin({**about, "seed": seed})
    return seed


def _write_store(
    opened: Data,
    seed: int,
    memory: int,
    folder: Path,
    journal: Journal,
    progress: Callable[[int, int], None] | None,
) -> None:
    if (folder / "store" / "zarr.json").exists():
        return  # only to be moved
    vectors = _write_vectors(opened, seed, folder, journal)
    work = plan_work(opened.source, opened.rows, memory, folder, journal)
    check_space(work)
    done = 0

    def tick(cells: int) -> None:
        nonlocal done
        done += cells * opened.source.dtype.itemsize
        if progress is not None:
            progress(done, work.size)

    if work.through_buckets:
        scatter(work, journal, tick)
    files = {name: Written(*written) for name, written in vectors.items()}
    for k, piece in enumerate(work.pieces):
        files |= finish_piece(work, k, piece, journal)
        (a, b), (low, high) = work.rows(piece), work.columns(piece)
        tick((b - a) * (high - low))
    record = Record(
        shape=opened.source.shape,
        dtype=stored_dtype(opened.source),
        segments=work.segments,
        compressor=work.compressor,
        seed=seed,
        source=Path(opened.first).name,
        target=opened.target,
        n_original=opened.n_original,
        vectors=[file.split("/")[0] for file in vectors],
        files=files,
    )
    write_record(work.store, record)


def _write_vectors(opened: Data, seed: int, folder: Path, journal: Journal) -> dict[str, Any]:
    """The order of the rows, and what goes with rows and columns."""
    if journal.vectors is not None:
        return journal.vectors
    source, store = opened.source, folder / "store"
    n = source.shape[0]
    order = np.random.default_rng(seed).permutation(n)
    rows = order if opened.rows is None else opened.rows[order]
    vectors = [write_vector(store, "original_rows", rows, "row")]
    if source.names is not None:
        vectors.append(write_vector(store, "names", np.array(list(source.names), dtype=object), "feature"))
    for name, values in (("target", opened.y), ("ids", opened.ids)):
        if values is not None:
            vectors.append(write_vector(store, name, np.asarray(values)[order], "row"))
    journal.note_vectors(dict(vectors))
    return dict(vectors)


def _move(store: Path, destination: Path) -> None:
    """Give the store its name; what was there goes first."""
    if destination.exists():
        old = store.with_name("replaced")
        shutil.rmtree(old, ignore_errors=True)
        os.replace(destination, old)
    os.replace(store, destination)
