"""What a shuffled store says of itself, and the vectors that it carries."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.arrays import Array
from banditsis.store.layout import KEY, Segment, array_metadata, vector_metadata
from banditsis.store.shards import Written, checksum

VERSION = 1


@dataclass(frozen=True)
class Record:
    """What the store holds.

    Attributes
    ----------
    shape, dtype
        Of the cells.
    segments : list of Segment
        How they lie.
    compressor : dict or None
        The codec of the chunks, as Zarr names it.
    seed : int
        Where the order of the rows came from.
    source : str
        Name of the data that were shuffled.
    target : str or None
        Name of the target, if the store carries one.
    n_original : int
        Rows of the data that were shuffled; rows without a target may have been left out.
    vectors : list of str
        What else it carries: names, ids, target, original_rows.
    files : dict
        Size and checksum of every file of cells and vectors.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    segments: list[Segment]
    compressor: dict[str, Any] | None
    seed: int
    source: str
    target: str | None
    n_original: int
    vectors: list[str]
    files: dict[str, Written]

    def has(self, vector: str) -> bool:
        """Whether a vector comes with the store."""
        return vector in self.vectors

    @property
    def checksum(self) -> str:
        """One number for all files."""
        listed = json.dumps(sorted((name, *written) for name, written in self.files.items()))
        return hashlib.sha256(listed.encode()).hexdigest()


def read_record(path: Path) -> Record:
    """Read what a store says of itself, and check that its files are there in full."""
    try:
        found = json.loads((path / "zarr.json").read_text())["attributes"][KEY]
        if found["version"] != VERSION:
            raise ValueError(
                f"{path} was shuffled by another version (layout {found['version']}): shuffle again."
            )
        record = Record(
            shape=(int(found["shape"][0]), int(found["shape"][1])),
            dtype=np.dtype(found["dtype"]),
            segments=[
                Segment(a, b, p, (c[0], c[1]), (s[0], s[1]), bool(t))
                for a, b, p, c, s, t in found["segments"]
            ],
            compressor=found["compressor"],
            seed=int(found["seed"]),
            source=found["source"],
            target=found["target"],
            n_original=int(found["n_original"]),
            vectors=found["vectors"],
            files={name: Written(*written) for name, written in found["files"].items()},
        )
    except (KeyError, TypeError, IndexError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is no whole shuffled store ({error!r}): shuffle the data again.") from error
    if record.checksum != found["checksum"]:
        raise ValueError(f"{path}/zarr.json was changed after it was written: shuffle the data again.")
    for name, written in record.files.items():
        _check_size(path / name, written.size)
    return record


def _check_size(path: Path, size: int) -> None:
    found = path.stat().st_size if path.exists() else None
    if found != size:
        state = "is missing" if found is None else f"has {found:,} bytes and should have {size:,}"
        raise ValueError(f"the store is damaged: {path} {state}; shuffle the data again, with --force.")


def write_record(path: Path, record: Record) -> None:
    """Write what makes the folder a store, the last of all."""
    for k, segment in enumerate(record.segments):
        _write_json(path / f"rows_{k}", array_metadata(segment, record.dtype, record.compressor))
    about = {
        "version": VERSION,
        "shape": record.shape,
        "dtype": record.dtype.name,
        "segments": record.segments,
        "compressor": record.compressor,
        "seed": record.seed,
        "source": record.source,
        "target": record.target,
        "n_original": record.n_original,
        "vectors": record.vectors,
        "checksum": record.checksum,
        "files": record.files,
    }
    _write_json(path, {"zarr_format": 3, "node_type": "group", "attributes": {KEY: about}})


def verify(path: Path, record: Record, tick: Any = None) -> list[str]:
    """Read all files of a store, and name those whose checksum is wrong."""
    wrong = []
    for name, written in record.files.items():
        if checksum(path / name) != written:
            wrong.append(name)
        if tick is not None:
            tick(written.size)
    return wrong


def write_vector(store: Path, name: str, values: Array, axis: str) -> tuple[str, Written]:
    """Write a vector of numbers or of strings, and give its file with size and checksum."""
    values = np.asarray(values)
    if values.dtype.kind in "OUST":
        codecs: list[dict[str, Any]] = [{"name": "vlen-utf8"}]
        data, kind = _pack_strings([str(value) for value in values.tolist()]), "string"
    else:
        little = {"name": "bytes", "configuration": {"endian": "little"}}
        codecs = [little if values.dtype.itemsize > 1 else {"name": "bytes"}]
        native = values.astype(values.dtype.newbyteorder("<"))
        data, kind = native.tobytes(), values.dtype.newbyteorder("=").name
    path = store / name / "c" / "0"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    _write_json(store / name, vector_metadata(len(values), kind, codecs, axis))
    return str(path.relative_to(store)), checksum(path)


def read_vector(store: Path, name: str) -> Array:
    """Read what :func:`write_vector` wrote; strings as an array of objects."""
    meta = json.loads((store / name / "zarr.json").read_text())
    data = (store / name / "c" / "0").read_bytes()
    if meta["data_type"] == "string":
        return np.array(_unpack_strings(data), dtype=object)
    return np.frombuffer(data, np.dtype(meta["data_type"]).newbyteorder("<")).astype(meta["data_type"])


def _pack_strings(values: list[str]) -> bytes:
    """Strings as the codec ``vlen-utf8`` has them: their number, then length and bytes of each."""
    parts = [len(values).to_bytes(4, "little")]
    for value in values:
        encoded = value.encode()
        parts += [len(encoded).to_bytes(4, "little"), encoded]
    return b"".join(parts)


def _unpack_strings(data: bytes) -> list[str]:
    values, at = [], 4
    for _ in range(int.from_bytes(data[:4], "little")):
        size = int.from_bytes(data[at : at + 4], "little")
        values.append(data[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return values


def _write_json(folder: Path, record: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    half = folder / "zarr.json.half"
    half.write_text(json.dumps(record, ensure_ascii=False))
    os.replace(half, folder / "zarr.json")
