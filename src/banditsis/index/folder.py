"""The files of an index, local or behind a URL, and ``meta.json``, which describes them."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from banditsis.core.arrays import Array
from banditsis.formats.opening import META, PREPARED, is_url
from banditsis.formats.remote import connect

VERSION = 6
CELLS, BITS, MOMENTS = "columns.npy", "bits.npy", "moments.npy"
#: how the name of a folder with appended rows begins, within the index
PART = "part_"
ANNOTATION = "annotation_"  # how the name of a file with an annotation of the features begins


class Folder(NamedTuple):
    """A folder at a path or URL; ``remote`` is the file system of fsspec, and None for this machine."""

    where: str
    remote: Any = None

    @classmethod
    def at(cls, where: object) -> Folder:
        """The folder at a path or URL."""
        return cls(str(where).rstrip("/"), connect(str(where))[0] if is_url(where) else None)

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

    def checksum(self, name: str) -> Written:
        """Size and CRC-32 of a file."""
        check, size = 0, 0
        with self.open(name) as file:
            while data := file.read(1 << 22):
                check, size = zlib.crc32(data, check), size + len(data)
        return Written(size, check)

    def parts(self) -> list[Folder]:
        """This folder, and those of the rows that were appended."""
        found = [self]
        while self.size(f"{PART}{len(found)}/{META}") is not None:
            found.append(self._replace(where=self.path(f"{PART}{len(found)}")))
        return found

    def error(self, reason: object) -> ValueError:
        """The error for a folder that cannot be used."""
        return ValueError(f"{self.where} is not a valid index, or is damaged: {reason}; build it again.")


class Written(NamedTuple):
    """Size and checksum of a file."""

    size: int
    crc32: int


@dataclass(frozen=True)
class Record:
    """Description of an index."""

    shape: tuple[int, int]
    seed: int
    #: names of the original data and of the target
    source: str
    target: str | None
    files: dict[str, Written]

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

    def check(self) -> None:
        """Raise if parts contradict each other, or files are outside the folder."""
        if len(self.shape) != 2 or not all(type(size) is int and size > 0 for size in self.shape):
            raise ValueError(f"its shape is {self.shape}")
        if any(Path(name).name != name for name in self.files):
            raise ValueError("its files have impossible names")
        if self.target is not None and not self.find("target"):
            raise ValueError(f"it has no values of its target {self.target!r}")


def read_record(folder: Folder) -> Record:
    """Read the description of a folder, and check that all its files have the right size."""
    try:
        with folder.open(META) as file:
            fields = json.loads(file.read())
        version, checksum = fields.pop(PREPARED), fields.pop("checksum", None)
        if version != VERSION:
            raise ValueError(f"version {version} of the layout instead of {VERSION}")
        files = {name: Written(*written) for name, written in fields["files"].items()}
        record = Record(**fields | {"shape": tuple(fields["shape"]), "files": files})
        record.check()
        if checksum != record.checksum:
            raise ValueError(f"{META} was modified")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise folder.error(error) from error
    for name, written in record.files.items():
        size = folder.size(name)
        if size != written.size:
            found = "is missing" if size is None else f"has {size:,} bytes instead of {written.size:,}"
            raise folder.error(f"{name} {found}")
    return record


def verify(where: object, tick: Callable[[int, int], None] = lambda done, total: None) -> list[str]:
    """Read all files of an index, and return those with a wrong checksum; ``tick`` is called with bytes."""
    parts = Folder.at(where).parts()
    files = [(part, name, written) for part in parts for name, written in read_record(part).files.items()]
    total, done, wrong = sum(written.size for *_, written in files), 0, []
    for part, name, written in files:
        if part.checksum(name) != written:
            wrong.append(part.path(name).removeprefix(f"{parts[0].where}/"))
        tick(done := done + written.size, total)
    return wrong


def _decode(content: bytes, numeric: bool, complete: bool) -> Array:
    """The numbers of a ``.npy`` file, or the texts of a list in JSON; only complete ones have no null."""
    if numeric:
        stream = io.BytesIO(content)
        np.lib.format.read_magic(stream)
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        return np.frombuffer(content, dtype, offset=stream.tell()).reshape(shape)
    texts = json.loads(content)
    if not all(isinstance(text, str) or (text is None and not complete) for text in texts):
        raise ValueError("it must be a list of texts")
    return np.array(texts, dtype=object)


def read_vector(folder: Folder, record: Record, name: str) -> Array:
    """Read and check names, ids, target, original_rows or an annotation; text is None if missing."""
    file = record.find(name)
    if file is None:
        raise folder.error(f"it has no {name}")
    with folder.open(file) as opened:
        content = opened.read(record.files[file].size + 1)
    if Written(len(content), zlib.crc32(content)) != record.files[file]:
        raise folder.error(f"the checksum of {file} is wrong")
    try:
        values = _decode(content, file.endswith(".npy"), name == "names")
    except Exception as error:  # NumPy reads the header as Python
        raise folder.error(f"{file} is not valid: {error}") from error
    length = record.shape[name == "names" or name.startswith(ANNOTATION)]
    if values.shape != (length,):
        raise folder.error(f"{name} has shape {values.shape} instead of {length}")
    return values
