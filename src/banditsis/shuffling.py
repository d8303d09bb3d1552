"""Put the rows of a data set into random order, once, so that screening reads prefixes from then on.

Where a panel of columns fits in memory over all rows, and the source reads columns cheaply, panels are read and
shuffled one by one. Otherwise rows are dealt out to buckets on disk by where they belong, and each bucket is put
in order by itself. Finished pieces are noted in a journal, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis._typing import Array, Indices
from banditsis.journal import Journal, hold
from banditsis.sources.base import Source
from banditsis.sources.files import Opened
from banditsis.sources.layout import LARGEST_SHARD, Segment, make_layout
from banditsis.sources.shards import (
    SAMPLED_COLUMNS,
    SAMPLED_ROWS,
    Written,
    find_compressor,
    shard_path,
    write_shard,
)
from banditsis.sources.store import Record, read_vector, write_record, write_vector

MEMORY, LEAST_MEMORY = 1 << 30, 1 << 24
NARROWEST = 16  # columns of a panel
Tick = Callable[[int], None]


class Piece(NamedTuple):
    """Lines of shards that follow one another (segment, line), and which panel of columns."""

    lines: tuple[tuple[int, int], ...]
    panel: int


@dataclass(frozen=True)
class Work:
    """All that has been decided before the first cell is written."""

    source: Source
    segments: list[Segment]
    pieces: list[Piece]
    original_rows: Indices
    compressor: dict[str, Any] | None
    through_buckets: bool
    memory: int
    folder: Path

    @property
    def store(self) -> Path:
        """The store while it is not whole."""
        return self.folder / "store"

    def rows(self, piece: Piece) -> tuple[int, int]:
        """First and last row of a piece."""
        (first, i), (last, j) = piece.lines[0], piece.lines[-1]
        return self.segments[first].shard_rows(i)[0], self.segments[last].shard_rows(j)[1]

    def columns(self, piece: Piece) -> tuple[int, int]:
        """First and last column of a piece."""
        return self.segments[0].shard_columns(piece.panel)

    def bucket(self, k: int) -> Path:
        """The file that gathers the rows of a piece."""
        return self.folder / "buckets" / str(k)

    @property
    def cells(self) -> int:
        """Cells to move."""
        n, p = self.source.shape
        return n * p * (2 if self.through_buckets else 1)


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

    The store holds the first rows in wide chunks and later ones in tall, narrow ones, with names, target, ids,
    seed and checksums. It appears under its name when it is whole. A run that was interrupted goes on
    when it is called again.

    Parameters
    ----------
    data : path, array-like of shape (n, p), frame or Source
        The rows to shuffle.
    destination : path
        The store, a folder whose name ends in ``.zarr`` by custom.
    target : str, optional
        The target to carry along, as for :func:`open_source`.
    seed : int, optional
        Where the order comes from; drawn at random by default.
    force : bool
        Whether to replace a store that is there, or an unfinished one of other data.
    memory_limit : int, optional
        About how many bytes of memory to use, besides 24 bytes for each row; 1 GB by default.
    progress : callable, optional
        Called with the cells moved and the cells to move.

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
    if memory < LEAST_MEMORY:
        raise ValueError(f"memory_limit must be at least 16 MB, got {memory:,} bytes.")
    _check_destination(destination, force)
    opened, name = _open(data, target, memory)
    folder = destination.with_name(destination.name + ".partial")
    with hold(folder):
        journal = Journal(folder / "journal.jsonl")
        about = {"source": name, "target": target, **_fingerprint(opened, data)}
        seed = _begin(journal, about, seed, force, folder, destination)
        _write_store(opened, target, name, seed, memory, folder, journal, progress)
        _move(folder / "store", destination)
    shutil.rmtree(folder)
    return destination


def _check_destination(destination: Path, force: bool) -> None:
    if destination.exists() and not force:
        raise FileExistsError(f"{destination} exists: choose another name, or replace it with --force.")
    if destination.exists() and not (destination / "zarr.json").exists():
        raise FileExistsError(f"{destination} is no Zarr store, and is not replaced: choose another name.")
    if not destination.absolute().parent.is_dir():
        raise FileNotFoundError(f"the folder {destination.absolute().parent} does not exist: make it first.")


def _open(data: Any, target: str | None, memory: int) -> tuple[Opened, str]:
    from banditsis.sources import open_source
    from banditsis.sources.files import open_file

    if isinstance(data, (str, os.PathLike)):
        return open_file(data, target, memory_limit=memory), str(data)
    if target is None:
        return Opened(open_source(data)), type(data).__name__
    source, y = open_source(data, target=target)
    return Opened(source, y), type(data).__name__


def _fingerprint(opened: Opened, data: Any) -> dict[str, Any]:
    """What tells these data from others: sizes, time of the last change, a few rows."""
    source = opened.source
    n, p = source.shape
    few = np.unique(np.linspace(0, n - 1, 16).astype(np.intp))
    sample = source.read(few, slice(0, min(p, 1024)))
    import zlib

    found = {"shape": [n, p], "dtype": source.dtype.name, "sample": zlib.crc32(np.ascontiguousarray(sample))}
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
                f"{then['seed']}, {then['shape'][0]:,} × {then['shape'][1]:,}), and this is another one, or the "
                "data have changed: give the same command again to finish it, or --force to start over."
            )
    for left in ("store", "buckets"):
        shutil.rmtree(folder / left, ignore_errors=True)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}.")
    journal.begin({**about, "seed": seed})
    return seed


def _write_store(
    opened: Opened,
    target: str | None,
    name: str,
    seed: int,
    memory: int,
    folder: Path,
    journal: Journal,
    progress: Callable[[int, int], None] | None,
) -> None:
    if (folder / "store" / "zarr.json").exists():
        return  # whole, and only to be moved
    vectors = _write_vectors(opened, seed, folder, journal)
    work = _plan_work(opened.source, memory, folder, journal)
    _check_space(work)
    done = 0

    def tick(cells: int) -> None:
        nonlocal done
        done += cells
        if progress is not None:
            progress(done, work.cells)

    if work.through_buckets:
        _scatter(work, journal, tick)
    files = {name: Written(*written) for name, written in vectors.items()}
    for k, piece in enumerate(work.pieces):
        files |= _finish_piece(work, k, piece, journal)
        (a, b), (low, high) = work.rows(piece), work.columns(piece)
        tick((b - a) * (high - low))
    record = Record(
        shape=opened.source.shape,
        dtype=_stored_dtype(opened.source),
        segments=work.segments,
        compressor=work.compressor,
        seed=seed,
        source=Path(name).name,
        target=target if opened.y is not None else None,
        vectors=[file.split("/")[0] for file in vectors],
        files=files,
    )
    write_record(work.store, record)


def _write_vectors(opened: Opened, seed: int, folder: Path, journal: Journal) -> dict[str, Any]:
    """The order of the rows, and what goes with rows and columns."""
    if journal.vectors is not None:
        return journal.vectors
    source, store = opened.source, folder / "store"
    n = source.shape[0]
    order = np.random.default_rng(seed).permutation(n)
    vectors = [write_vector(store, "original_rows", order, "row")]
    if source.names is not None:
        vectors.append(write_vector(store, "names", np.array(list(source.names), dtype=object), "feature"))
    for name, values in (("target", opened.y), ("ids", opened.ids)):
        if values is not None:
            vectors.append(write_vector(store, name, np.asarray(values)[order], "row"))
    journal.note_vectors(dict(vectors))
    return dict(vectors)


def _stored_dtype(source: Source) -> np.dtype:
    return np.dtype(source.dtype).newbyteorder("=")


def _plan_work(source: Source, memory: int, folder: Path, journal: Journal) -> Work:
    """Decide on layout, pieces and ways, or take what was decided when the run began."""
    n, p = source.shape
    itemsize = source.dtype.itemsize
    if journal.decided is None:
        columns = np.unique(np.linspace(0, p - 1, SAMPLED_COLUMNS).astype(np.intp))
        # From the middle of the data: the first rows of a file may be unlike others.
        middle = max(0, n // 2 - SAMPLED_ROWS // 2)
        sample = source.read(slice(middle, min(n, middle + SAMPLED_ROWS)), columns)
        compressor = find_compressor(np.asarray(sample, _stored_dtype(source)))
        width = _panel_width(source, memory)
        journal.decide({"memory": memory, "width": width, "compressor": compressor})
    decided = journal.decided
    assert decided is not None
    memory, width = decided["memory"], decided["width"]
    shard = min(LARGEST_SHARD, memory // 8)
    segments = make_layout(n, p, itemsize, shard, width)
    if width is None:
        pieces = list(_pieces(segments, itemsize, memory // 4))
    else:
        everything = tuple((k, i) for k, s in enumerate(segments) for i in range(s.grid[0]))
        pieces = [Piece(everything, j) for j in range(segments[0].grid[1])]
    order = read_vector(folder / "store", "original_rows")
    return Work(source, segments, pieces, order, decided["compressor"], width is None, memory, folder)


def _panel_width(source: Source, memory: int) -> int | None:
    """Columns of panels that are read one by one, or None if rows should be dealt out to buckets."""
    n, p = source.shape
    width = min(p, memory // 4 // (n * source.dtype.itemsize))
    if width == p:
        return p
    if width < NARROWEST:
        return None
    width = 1 << (width.bit_length() - 1)
    panels = -(-p // width)
    # Through buckets every byte is read, written and read again.
    return width if panels * _share_touched(source, width) <= 3 else None


def _share_touched(source: Source, width: int) -> float:
    """The share of the bytes that come along when neighbouring columns are read over all rows."""
    n, p = source.shape
    chunk = getattr(source, "chunk", None)
    if chunk is not None:
        return min(1.0, (-(-width // chunk[1]) * chunk[1]) / p)
    everything = source.bytes_touched(n, p, scattered=False)
    if getattr(source, "by_row", False):
        return 1.0
    return source.bytes_touched(n, width, scattered=False) / everything


def _pieces(segments: Sequence[Segment], itemsize: int, most: int) -> Iterator[Piece]:
    """Lines of shards that together fit in memory."""
    bands: list[list[tuple[int, int]]] = []
    size = 0
    for k, segment in enumerate(segments):
        for i in range(segment.grid[0]):
            a, b = segment.shard_rows(i)
            more = (b - a) * min(segment.shard[1], segment.columns) * itemsize
            if not bands or size + more > most:
                bands.append([])
                size = 0
            bands[-1].append((k, i))
            size += more
    for band in bands:
        for j in range(segments[0].grid[1]):
            yield Piece(tuple(band), j)


def _check_space(work: Work) -> None:
    n, p = work.source.shape
    wanted = n * p * work.source.dtype.itemsize
    held = sum(file.stat().st_size for file in work.folder.rglob("*") if file.is_file())
    free = shutil.disk_usage(work.folder).free
    # Buckets shrink as the store grows.
    if work.compressor is None and wanted * 1.02 + work.memory // 4 > free + held:
        raise OSError(
            f"shuffling needs about {wanted / 1e9:.1f} GB of disk, and {(free + held) / 1e9:.1f} GB are free "
            f"where {work.folder} lies: choose another disk."
        )


def _scatter(work: Work, journal: Journal, tick: Tick) -> None:
    """Deal the rows out to buckets, in the order of the source."""
    n, p = work.source.shape
    edges = np.array([work.rows(piece)[0] for piece in work.pieces if piece.panel == 0])
    where = np.empty(n, np.intp)
    where[work.original_rows] = np.arange(n)
    band_of = (np.searchsorted(edges, where, side="right") - 1).astype(np.int32)
    del where
    start = _resume_buckets(work, journal, band_of, len(edges))
    tick(start * p)
    step = max(1, work.memory // 4 // (p * work.source.dtype.itemsize))
    if step > work.source.block_rows:
        step -= step % work.source.block_rows
    while start < n:
        stop = min(n, start + step)
        block = np.asarray(work.source.read(slice(start, stop), None), _stored_dtype(work.source))
        _deal(work, block, band_of[start:stop], len(edges))
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


def _finish_piece(work: Work, k: int, piece: Piece, journal: Journal) -> dict[str, Written]:
    """Put the rows of a piece in order and write its shards, unless that has been done."""
    if k in journal.pieces:
        work.bucket(k).unlink(missing_ok=True)
        return {name: Written(*written) for name, written in journal.pieces[k].items()}
    (a, b), (low, high) = work.rows(piece), work.columns(piece)
    order = work.original_rows[a:b]
    if work.through_buckets:
        raw = np.fromfile(work.bucket(k), _stored_dtype(work.source)).reshape(b - a, high - low)
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
    raw = np.empty((n, high - low), _stored_dtype(work.source))
    step = max(1024, work.memory // 8 // ((high - low) * raw.itemsize))
    for start in range(0, n, step):
        stop = min(n, start + step)
        raw[start:stop] = work.source.read(slice(start, stop), slice(low, high))
    return raw


def _move(store: Path, destination: Path) -> None:
    """Give the store its name; what was there goes first."""
    if destination.exists():
        old = store.with_name("replaced")
        shutil.rmtree(old, ignore_errors=True)
        os.replace(destination, old)
    os.replace(store, destination)
