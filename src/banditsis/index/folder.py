"""The files of an index, local or behind a URL, and ``meta.json``, which describes them."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from banditsis.core.arrays import Array, Columns, Rows, as_indices
from banditsis.formats.files import connect, is_url
from banditsis.formats.opening import META, PREPARED
from banditsis.sources.base import Source
from banditsis.sources.blocks import BlockSource
from banditsis.sources.memmap import MappedSource

VERSION = 6
CELLS, BITS, MOMENTS = "columns.npy", "bits.npy", "moments.npy"
#: How the names of folders with appended rows begin, and those of files with annotations of the features.
PART, ANNOTATION = "part_", "annotation_"
MAX_GAP = 1 << 16  # bytes between two ranges that are read, because another request would take longer


@dataclass(frozen=True)
class Record:
    """Description of the files of a folder."""

    shape: tuple[int, int]
    seed: int
    #: names of the original data and of the target
    source: str
    target: str | None
    #: size and CRC-32 of each file
    files: dict[str, list[int]]

    @property
    def checksum(self) -> str:
        """One checksum of everything."""
        return hashlib.sha256(json.dumps(vars(self), sort_keys=True).encode()).hexdigest()

    def write(self, folder: Path) -> None:
        """Write ``meta.json``."""
        fields = {PREPARED: VERSION, **vars(self), "checksum": self.checksum}
        (folder / META).write_text(json.dumps(fields, indent=1), encoding="utf-8")

    def find(self, name: str) -> str | None:
        """The file of names, ids, a target, original_rows or an annotation; None if there is none."""
        return next((file for file in (f"{name}.npy", f"{name}.json") if file in self.files), None)


class Folder:
    """A folder of an index at a path or URL; rows that were appended are in folders within it."""

    def __init__(self, where: object) -> None:
        self.where = str(where).rstrip("/")
        #: the file system of fsspec, and None for this machine
        self.remote: Any = connect(str(where))[0] if is_url(where) else None

    def path(self, name: str) -> str:
        """The path or URL of a file."""
        return f"{self.where}/{name}"

    def open(self, name: str) -> BinaryIO:
        """Open a file."""
        file: BinaryIO = (open if self.remote is None else self.remote.open)(self.path(name), "rb")
        return file

    def size(self, name: str) -> int | None:
        """Bytes of a file; None if it does not exist."""
        try:
            path = self.path(name)
            return int(Path(path).stat().st_size if self.remote is None else self.remote.size(path))
        except FileNotFoundError:
            return None

    def checksum(self, name: str) -> list[int]:
        """Size and CRC-32 of a file."""
        check, size = 0, 0
        with self.open(name) as file:
            while data := file.read(1 << 22):
                check, size = zlib.crc32(data, check), size + len(data)
        return [size, check]

    def parts(self) -> list[Folder]:
        """This folder, and those of the rows that were appended."""
        found = [self]
        while self.size(f"{PART}{len(found)}/{META}") is not None:
            found.append(Folder(self.path(f"{PART}{len(found)}")))
        return found

    def error(self, reason: object) -> ValueError:
        """The error for a folder that cannot be used."""
        return ValueError(f"{self.where} is not a valid index, or is damaged: {reason}; build it again.")

    @cached_property
    def record(self) -> Record:
        """The description, which is checked against itself and against the sizes of all files."""
        try:
            with self.open(META) as file:
                fields = json.loads(file.read())
            version, checksum = fields.pop(PREPARED), fields.pop("checksum", None)
            if version != VERSION:
                raise ValueError(f"version {version} of the layout instead of {VERSION}")
            record = Record(**fields | {"shape": tuple(fields["shape"])})
            if checksum != record.checksum:
                raise ValueError(f"{META} was modified")
            if len(record.shape) != 2 or not all(type(size) is int and size > 0 for size in record.shape):
                raise ValueError(f"its shape is {record.shape}")
            if any(Path(name).name != name for name in record.files):  # which would be outside the folder
                raise ValueError("its files have impossible names")
            if record.target is not None and not record.find("target"):
                raise ValueError(f"it has no values of its target {record.target!r}")
            for name, (size, _) in record.files.items():
                if (found := self.size(name)) != size:
                    has = "is missing" if found is None else f"has {found:,} bytes instead of {size:,}"
                    raise ValueError(f"{name} {has}")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self.error(error) from error
        return record

    def read_vector(self, name: str) -> Array:
        """Read and check names, ids, target, original_rows or an annotation; text is None if missing."""
        file = self.record.find(name)
        if file is None:
            raise self.error(f"it has no {name}")
        with self.open(file) as opened:
            content = opened.read(self.record.files[file][0] + 1)
        if [len(content), zlib.crc32(content)] != list(self.record.files[file]):
            raise self.error(f"the checksum of {file} is wrong")
        try:
            if file.endswith(".npy"):
                values: Array = np.load(io.BytesIO(content), allow_pickle=False)
            else:
                texts = json.loads(content)
                if not all(isinstance(text, str) or (text is None and name != "names") for text in texts):
                    raise ValueError("it must be a list of texts")
                values = np.array(texts, dtype=object)
        except Exception as error:  # NumPy reads the header as Python
            raise self.error(f"{file} is not valid: {error}") from error
        length = self.record.shape[name == "names" or name.startswith(ANNOTATION)]
        if values.shape != (length,):
            raise self.error(f"{name} has shape {values.shape} instead of {length}")
        return values

    def open_array(self, name: str, shape: tuple[int, int], dtype: str = "") -> Source:
        """Open cells, bits or moments of a shape and a type, by default any numbers."""
        source: Source
        try:
            if self.remote is not None:
                source = RemoteArray(self.remote, self.path(name))
            else:
                source = MappedSource(np.load(self.path(name), mmap_mode="r", allow_pickle=False))
            found = source.shape, source.dtype.str
            if found != (shape, dtype or found[1]) or source.dtype.kind not in "fiub":
                raise ValueError(f"{name} has the shape {found[0]} and the type {found[1]}")
        except Exception as error:  # NumPy reads the header as Python
            raise self.error(error) from error
        return source


class RemoteArray(BlockSource):
    """A two-dimensional ``.npy`` file in a file system of fsspec, of which byte ranges are read."""

    def __init__(self, files: Any, url: str) -> None:
        self.files, self.url = files, url
        with files.open(url, "rb", block_size=1 << 12) as file:
            np.lib.format.read_magic(file)
            (n, p), by_column, self.dtype = np.lib.format.read_array_header_1_0(file)
            self._offset = file.tell()
        self.shape, self.by_row = (n, p), not by_column
        self.chunk = (n, 1) if by_column else (1, p)

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        columns = slice(0, self.shape[1]) if columns is None else columns
        lines, cells = map(as_indices, (rows, columns) if self.by_row else (columns, rows))
        block = np.empty((len(lines), len(cells)), self.dtype)
        if block.size:
            pitch, first, last = self.shape[int(bool(self.by_row))] * self.dtype.itemsize, cells[0], cells[-1]
            starts = self._offset + lines * pitch + first * self.dtype.itemsize
            stops = starts + (last + 1 - first) * self.dtype.itemsize
            # Lines that are close together are one request.
            groups = np.split(np.arange(len(lines)), np.flatnonzero(starts[1:] - stops[:-1] > MAX_GAP) + 1)
            begin, end = (
                [int(starts[group[0]]) for group in groups],
                [int(stops[group[-1]]) for group in groups],
            )
            parts = self.files.cat_ranges([self.url] * len(groups), begin, end, on_error="raise")
            for data, group, start in zip(parts, groups, begin, strict=True):
                for line in group:
                    values = np.frombuffer(data, self.dtype, last + 1 - first, int(starts[line]) - start)
                    block[line] = values[cells - first]
        return block if self.by_row else block.T


def verify(where: object, tick: Callable[[int, int], None] = lambda done, total: None) -> list[str]:
    """Read all files of an index, and return those with a wrong checksum; ``tick`` is called with bytes."""
    parts = Folder(where).parts()
    files = [(part, name, written) for part in parts for name, written in part.record.files.items()]
    total, done, wrong = sum(size for *_, (size, _) in files), 0, []
    for part, name, written in files:
        if part.checksum(name) != written:
            wrong.append(part.path(name).removeprefix(f"{parts[0].where}/"))
        tick(done := done + written[0], total)
    return wrong
