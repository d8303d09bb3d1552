"""Files of a shuffled store: its description, vectors (names, ids, target, row numbers) and shards.

Shards are files of chunks with an index at the end, in the format of Zarr's sharding codec.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Indices
from banditsis.formats.members import to_text
from banditsis.formats.registry import import_optional
from banditsis.index.layout import KEY, Segment, check_segments, shard_name

VERSION = 2
MISSING = "missing_value"  # attribute of a vector: the text that stands for a missing value
ANNOTATION = "annotation_"  # how the name of a vector with an annotation of the features begins
ABSENT = 2**64 - 1  # offset and length of a chunk outside the array
ROWS_AT_ONCE = 256  # rows that are transposed together, so they stay in the cache
MAX_COMPRESSED = 0.6  # compress if a sample shrinks to this share of its bytes


class Written(NamedTuple):
    """Size and checksum of a file."""

    size: int
    crc32: int


@dataclass(frozen=True)
class Record:
    """Description of a store."""

    shape: tuple[int, int]
    dtype: np.dtype
    segments: list[Segment]
    #: the Zarr codec of the chunks
    compressor: dict[str, Any] | None
    #: seed of the row order
    seed: int
    #: name of the original data
    source: str
    #: name of the target, if the store has one
    target: str | None
    #: rows of each stratum, one after the other; empty if the order of all rows is random
    stratum_sizes: tuple[int, ...]
    #: rows of the original data, including rows that were dropped because they have no target
    n_original: int
    #: names of the vectors: original_rows, names, ids, target, and annotations with a prefix
    vectors: list[str]
    #: size and checksum of each file of cells, vectors and metadata of arrays
    files: dict[str, Written]

    @property
    def checksum(self) -> str:
        """One checksum of all files."""
        return _hash(sorted((name, *written) for name, written in self.files.items()))


def read_record(path: Path) -> Record:
    """Read the description of a store; check its metadata, and that all its files have the right size."""
    try:
        fields = json.loads((path / "zarr.json").read_text())["attributes"][KEY]
        record_checksum = fields.pop("record_checksum", None)  # early stores have none
        is_modified = record_checksum not in (None, _hash(fields))
        version, checksum = fields.pop("version"), fields.pop("checksum")
    except (KeyError, TypeError, AttributeError, OSError, ValueError) as error:
        raise _invalid(path, error) from error
    if version != VERSION:
        raise ValueError(
            f"{path} has layout version {version}, and this banditsis reads version {VERSION}: "
            "shuffle the data again."
        )
    record = _parse_record(path, fields)
    if is_modified or record.checksum != checksum:
        raise ValueError(f"{path}/zarr.json was modified after it was written: shuffle the data again.")
    for name, written in record.files.items():
        _check_size(path / name, written.size)
        if name.endswith("zarr.json"):
            _read_checked(path, name, record.files)
    return record


def _parse_record(path: Path, fields: dict[str, Any]) -> Record:
    try:
        fields["shape"] = fields["shape"][0], fields["shape"][1]
        fields["dtype"] = np.dtype(fields["dtype"])
        fields["segments"] = [
            Segment(start, stop, p, (chunk[0], chunk[1]), (shard[0], shard[1]), by_column)
            for start, stop, p, chunk, shard, by_column in fields["segments"]
        ]
        fields["stratum_sizes"] = tuple(fields["stratum_sizes"])
        fields["files"] = {name: Written(*written) for name, written in fields["files"].items()}
        record = Record(**fields)
        _check_record(record)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, ValueError) as error:
        raise _invalid(path, error) from error
    return record


def _check_record(record: Record) -> None:
    """Raise if the parts of a record contradict each other, or cannot be read."""
    if record.dtype.kind not in "fiub":
        raise ValueError(f"its cells are {record.dtype}, not numbers")
    check_segments(record.segments, record.shape)
    sizes = record.stratum_sizes
    if not all(type(size) is int and size > 0 for size in sizes) or sum(sizes) not in (0, record.shape[0]):
        raise ValueError(f"its strata have {list(sizes)} of {record.shape[0]} rows")
    if record.compressor is not None and record.compressor["name"] != "blosc":
        raise ValueError(f"its compressor is {record.compressor['name']}, not blosc")
    plain = {name for name in record.vectors if not name.startswith(ANNOTATION)}
    if not {"original_rows"} <= plain <= {"original_rows", "names", "ids", "target"}:
        raise ValueError(f"its vectors are {record.vectors}")
    if type(record.n_original) is not int or record.n_original < record.shape[0]:
        raise ValueError(f"it has {record.shape[0]} of {record.n_original} rows")
    shards = [
        (k, (i, j)) for k, s in enumerate(record.segments) for i in range(s.grid[0]) for j in range(s.grid[1])
    ]
    for k, position in shards:
        written = record.files[f"rows_{k}/{shard_name(position)}"]
        if record.compressor is None and written.size != _shard_size(
            record.segments[k], position, record.dtype
        ):
            raise ValueError(f"shard {position} of rows_{k} has {written.size} bytes")


def _shard_size(segment: Segment, position: tuple[int, int], dtype: np.dtype) -> int:
    """Bytes of an uncompressed shard: whole chunks, and the index."""
    size, in_shard = dtype.itemsize, 1
    sides = segment.shard_rows(position[0]), segment.shard_columns(position[1])
    for (first, end), chunk, shard in zip(sides, segment.chunk, segment.shard, strict=True):
        size *= -(-(end - first) // chunk) * chunk
        in_shard *= shard // chunk
    return size + 16 * in_shard + 4


def _invalid(path: Path, error: Exception) -> ValueError:
    return ValueError(f"{path} is not a valid shuffled store ({error!r}): shuffle the data again.")


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read_checked(store: Path, name: str, files: Mapping[str, Written]) -> bytes:
    """Read a small file, and compare it with its checksum if that is known."""
    data = (store / name).read_bytes()
    written = Written(len(data), zlib.crc32(data))
    if files.get(name, written) != written:
        raise ValueError(
            f"the store is damaged: the checksum of {store / name} is wrong; shuffle the data again and "
            "replace the store."
        )
    return data


def _check_size(path: Path, size: int) -> None:
    actual = path.stat().st_size if path.exists() else None
    if actual != size:
        state = "is missing" if actual is None else f"has {actual:,} bytes instead of {size:,}"
        raise ValueError(
            f"the store is damaged: {path} {state}; shuffle the data again and replace the store."
        )


def write_record(path: Path, record: Record) -> None:
    """Write the metadata of all arrays, then that of the group, which makes the store complete."""
    for k, segment in enumerate(record.segments):
        _write_json(path / f"rows_{k}", _segment_metadata(segment, record.dtype, record.compressor))
    arrays = [f"rows_{k}" for k in range(len(record.segments))] + record.vectors
    metadata = {f"{name}/zarr.json": compute_checksum(path / name / "zarr.json") for name in arrays}
    record = replace(record, files=record.files | metadata)
    fields = {**vars(record), "dtype": record.dtype.name, "version": VERSION, "checksum": record.checksum}
    fields["record_checksum"] = _hash(fields)
    _write_json(path, {"zarr_format": 3, "node_type": "group", "attributes": {KEY: fields}})


def verify(path: Path, record: Record, tick: Callable[[int], None] | None = None) -> list[str]:
    """Read all files of a store, and return the names of those with a wrong checksum."""
    wrong = []
    for name, written in record.files.items():
        if compute_checksum(path / name) != written:
            wrong.append(name)
        if tick is not None:
            tick(written.size)
    return wrong


def compute_checksum(path: Path) -> Written:
    """Size and CRC-32 of a file."""
    check, size = 0, 0
    with open(path, "rb", buffering=0) as file:
        while data := file.read(1 << 22):
            check = zlib.crc32(data, check)
            size += len(data)
    return Written(size, check)


def write_vector(store: Path, name: str, values: Array, axis: str) -> tuple[str, Written]:
    """Write a vector of numbers or strings as a Zarr array; return its file with size and checksum."""
    values = np.asarray(values)
    data, data_type, attributes = _encode(values)
    codec = {"name": "vlen-utf8"} if data_type == "string" else _bytes_codec(values.dtype)
    path = store / name / "c" / "0"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    n = len(values)
    metadata = _array_metadata((n,), data_type, (max(1, n),), codec, (axis,))
    _write_json(store / name, {**metadata, "attributes": attributes})
    return str(path.relative_to(store)), compute_checksum(path)


def vector_checksum(values: Array) -> int:
    """Checksum of the values of a vector, with its type and its missing values."""
    data, *about = _encode(np.asarray(values))
    return zlib.crc32(data, zlib.crc32(json.dumps(about).encode()))


def _encode(values: Array) -> tuple[bytes, str, dict[str, str]]:
    """Bytes, Zarr data type and attributes; an attribute gives the text that stands for a missing value."""
    if values.dtype.kind in "cmMV":
        raise ValueError(f"a store cannot hold values of {values.dtype}: use numbers or text.")
    if values.dtype.kind not in "OUST":
        data = values.astype(values.dtype.newbyteorder("<")).tobytes()
        return data, values.dtype.newbyteorder("=").name, {}
    texts = [None if value is None or value != value else to_text(value) for value in values.tolist()]
    missing, known = "", set(texts)
    while missing in known:
        missing += "_"
    data = _pack_strings([missing if text is None else text for text in texts])
    return data, "string", {MISSING: missing} if None in known else {}


def read_vector(store: Path, name: str, files: Mapping[str, Written], length: int) -> Array:
    """Read what :func:`write_vector` wrote, and check it; strings become objects, None if missing."""
    metadata_file, data_file = f"{name}/zarr.json", f"{name}/c/0"
    metadata, data = (_read_checked(store, file, files) for file in (metadata_file, data_file))
    try:
        values = _decode(json.loads(metadata), data)
        if len(values) != length:
            raise ValueError(f"{len(values):,} {name} instead of {length:,}")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _invalid(store, error) from error
    return values


def _decode(metadata: dict[str, Any], data: bytes) -> Array:
    if metadata["data_type"] == "string":
        texts, missing = _unpack_strings(data), metadata["attributes"].get(MISSING)
        return np.array([None if text == missing else text for text in texts], dtype=object)
    dtype = np.dtype(metadata["data_type"])
    if dtype.kind not in "fiub":
        raise ValueError(f"a vector of {dtype}")
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)


def _pack_strings(values: Sequence[str]) -> bytes:
    """Encode strings with Zarr's ``vlen-utf8``: their number, then the length and bytes of each."""
    encoded = [value.encode() for value in values]
    return len(values).to_bytes(4, "little") + b"".join(len(e).to_bytes(4, "little") + e for e in encoded)


def _unpack_strings(data: bytes) -> list[str]:
    values, start = [], 4
    n_values = int.from_bytes(data[:4], "little")
    if 4 * n_values > len(data):
        raise ValueError(f"{n_values:,} strings in {len(data):,} bytes")
    for _ in range(n_values):
        size = int.from_bytes(data[start : start + 4], "little")
        values.append(data[start + 4 : start + 4 + size].decode())
        start += 4 + size
    if start != len(data):
        raise ValueError(f"strings of {start:,} bytes in {len(data):,} bytes")
    return values


def _segment_metadata(segment: Segment, dtype: np.dtype, compressor: dict[str, Any] | None) -> dict[str, Any]:
    codecs = [_bytes_codec(dtype)]
    if segment.by_column:
        codecs.insert(0, {"name": "transpose", "configuration": {"order": [1, 0]}})
    if compressor is not None:
        codecs.append(compressor)
    sharding = {
        "chunk_shape": segment.chunk,
        "codecs": codecs,
        "index_codecs": [_bytes_codec(np.dtype("u8")), {"name": "crc32c"}],
        "index_location": "end",
    }
    codec = {"name": "sharding_indexed", "configuration": sharding}
    shape = segment.stop - segment.start, segment.columns
    return _array_metadata(shape, dtype.name, segment.shard, codec, ("row", "feature"))


def _bytes_codec(dtype: np.dtype) -> dict[str, Any]:
    return {"name": "bytes"} | ({"configuration": {"endian": "little"}} if dtype.itemsize > 1 else {})


def _array_metadata(
    shape: tuple[int, ...], data_type: str, chunk: tuple[int, ...], codec: Any, axes: tuple[str, ...]
) -> dict[str, Any]:
    """The ``zarr.json`` of an array in Zarr version 3."""
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": {"string": "", "bool": False}.get(data_type, 0),
        "codecs": [codec],
        "attributes": {},
        "dimension_names": axes,
    }


def _write_json(folder: Path, content: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / "zarr.json.half"
    temporary.write_text(json.dumps(content, ensure_ascii=False))
    os.replace(temporary, folder / "zarr.json")


def find_compressor(sample: Array) -> dict[str, Any] | None:
    """The codec Blosc if it makes a sample of the cells much smaller, else None.

    Examples
    --------
    >>> find_compressor(np.random.default_rng(0).random((4096, 4)))
    >>> find_compressor(np.ones((4096, 4), np.int8))["name"]
    'blosc'
    """
    itemsize = sample.dtype.itemsize
    settings = {"cname": "lz4", "clevel": 5, "shuffle": "bitshuffle", "typesize": itemsize, "blocksize": 0}
    codec = {"name": "blosc", "configuration": settings}
    encode = _make_encoder(codec)
    columns = [np.ascontiguousarray(sample[:, j]) for j in range(sample.shape[1])]
    size = sum(len(encode(column)) for column in columns)
    return codec if size <= MAX_COMPRESSED * sample.nbytes else None


def _make_encoder(compressor: dict[str, Any]) -> Any:
    blosc = import_optional("numcodecs.blosc", "zarr")
    settings = compressor["configuration"]
    shuffle = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}[settings["shuffle"]]
    return blosc.Blosc(
        settings["cname"], settings["clevel"], shuffle, 0, typesize=settings["typesize"]
    ).encode


def write_shard(
    path: Path, segment: Segment, cells: Array, order: Indices, compressor: dict[str, Any] | None
) -> Written:
    """Write a shard whose row r is ``cells[order[r]]``; it gets its name when it is complete.

    ``cells`` has only the columns of the shard.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".half")
    encode = None if compressor is None else _make_encoder(compressor)
    lengths: list[int] = []
    total, check = 0, 0
    with open(temporary, "wb", buffering=0) as file:

        def write(data: Any) -> None:
            nonlocal total, check
            data = memoryview(data).cast("B")
            check = zlib.crc32(data, check)
            total += len(data)
            while data:
                data = data[file.write(data) :]

        for chunks in _chunk_rows(segment, cells, order):
            parts = chunks if encode is None else [encode(chunk) for chunk in chunks]
            lengths += [memoryview(part).nbytes for part in parts]
            for part in [chunks] if encode is None else parts:
                write(part)
        write(_make_index(segment, lengths, -(-cells.shape[1] // segment.chunk[1])))
        os.fsync(file.fileno())
    os.replace(temporary, path)
    return Written(total, check)


def _chunk_rows(segment: Segment, cells: Array, order: Indices) -> Iterator[Array]:
    """Rows of chunks, in stored order; each array has shape (chunks, lines of a chunk, cells of a line)."""
    height, width = segment.chunk
    across = -(-cells.shape[1] // width)
    for a in range(0, len(order), height):
        rows = order[a : a + height]
        if segment.by_column:
            columns = np.zeros((across * width, height), cells.dtype)
            for r in range(0, len(rows), ROWS_AT_ONCE):
                columns[: cells.shape[1], r : r + ROWS_AT_ONCE] = cells[rows[r : r + ROWS_AT_ONCE]].T
            yield columns.reshape(across, width, height)
            continue
        chunks = np.zeros((across, height, width), cells.dtype)
        for k in range(across):
            part = cells[rows, k * width : (k + 1) * width]
            chunks[k, : len(rows), : part.shape[1]] = part
        yield chunks


def _make_index(segment: Segment, lengths: list[int], across: int) -> bytes:
    """Offset and length of every chunk, and a checksum."""
    down = len(lengths) // across
    grid = segment.shard[0] // segment.chunk[0], segment.shard[1] // segment.chunk[1]
    index = np.full((*grid, 2), ABSENT, "<u8")
    index[:down, :across, 0] = (np.cumsum(lengths) - lengths).reshape(down, across)
    index[:down, :across, 1] = np.reshape(lengths, (down, across))
    table = index.tobytes()
    return table + int(import_optional("google_crc32c", "zarr").value(table)).to_bytes(4, "little")
