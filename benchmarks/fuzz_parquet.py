"""Edits of the metadata and the pages of Parquet and Arrow files."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import fuzz_bytes as general
from fuzz_bytes import DEEP, LARGE, Edit, Generator, any_file

# Thrift's compact protocol: a value is [type, content]; a struct has pairs of a field id and a value.

TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 3, 7, 8, 9, 12


class Thrift:
    """Reads a struct of Thrift's compact protocol."""

    def __init__(self, data: bytes, start: int) -> None:
        self.data, self.at = data, start

    def varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte, self.at = self.data[self.at], self.at + 1
            value, shift = value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    def value(self, kind: int) -> list[Any]:
        if kind in (TRUE, FALSE):
            return [kind, None]
        if kind in (BYTE, DOUBLE, BINARY):
            size = self.varint() if kind == BINARY else 1 if kind == BYTE else 8
            self.at += size
            return [kind, self.data[self.at - size : self.at]]
        if kind == LIST:
            head, self.at = self.data[self.at], self.at + 1
            length = head >> 4 if head < 240 else self.varint()
            return [kind, [head & 15, [self.value(head & 15) for _ in range(length)]]]
        return [kind, self.struct() if kind == STRUCT else self.varint()]

    def struct(self) -> list[list[Any]]:
        fields, number = [], 0
        while head := self.data[self.at]:
            self.at += 1
            delta, kind = head >> 4, head & 15
            number = number + delta if delta else (n := self.varint()) >> 1 ^ -(n & 1)
            fields.append([number, self.value(kind)])
        self.at += 1
        return fields


def as_varint(value: int, width: int = 1) -> bytes:
    """A number in at least some bytes: longer than it must be is valid."""
    digits = []
    while value or len(digits) < width:
        digits.append(value & 127)
        value >>= 7
    return bytes([digit | 128 for digit in digits[:-1]] + digits[-1:])


def write_value(value: list[Any]) -> bytes:
    kind, content = value[:2]
    if kind in (TRUE, FALSE):
        return b""
    if kind in (BYTE, DOUBLE):
        return bytes(content)
    if kind == BINARY:
        return as_varint(len(content)) + content
    if kind == LIST:
        items = b"".join(map(write_value, content[1]))
        return bytes([240 | content[0]]) + as_varint(len(content[1])) + items
    return write_struct(content) if kind == STRUCT else as_varint(content, *value[2:])


def write_struct(fields: list[list[Any]]) -> bytes:
    parts, last = [], 0
    for number, value in fields:
        delta = number - last
        head = (
            bytes([delta << 4 | value[0]]) if 0 < delta < 16 else bytes([value[0]]) + as_varint(number << 1)
        )
        parts.append(head + write_value(value))
        last = number
    return b"".join(parts) + b"\0"


def walk(value: list[Any]) -> list[list[Any]]:
    """A value and all values in it."""
    kind, content = value[:2]
    inner = [v for _, v in content] if kind == STRUCT else content[1] if kind == LIST else []
    return [value, *(below for v in inner for below in walk(v))]


def edit_footer(path: Path, rng: Generator) -> str:
    """Change one value of the metadata of a Parquet file."""
    file = any_file(path, rng)
    data = file.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = [STRUCT, Thrift(data, start).struct()]
    values = [v for v in walk(footer) if v[0] not in (DOUBLE, BYTE)]
    if rng.random() < 0.3:  # else nearly all are statistics of columns
        values = [v for v in values if v[0] in (LIST, STRUCT) and v[1]]
    value = values[rng.integers(len(values))]
    kind, content = value
    if kind in (TRUE, FALSE):
        value[0] = TRUE + FALSE - kind
    elif kind == BINARY:
        value[1] = (b"", content[::-1], b"\xff" * len(content), content * 1000)[rng.integers(4)]
    elif kind in (LIST, STRUCT):
        items = content if kind == STRUCT else content[1]
        i, j = (int(k) for k in rng.integers(0, max(1, len(items)), 2))
        if not items:
            return "nothing"
        if kind == LIST and rng.random() < 0.6:
            items[i], items[j] = items[j], items[i]
        elif kind == LIST and rng.random() < 0.5:
            items.append(items[i])
        else:
            del items[i]
    else:
        others = [v[1] for v in values if v[0] == kind]
        new = [content + 2, max(0, content - 2), 2 * content, others[rng.integers(len(others))]]
        new += [(2 * v if v >= 0 else 1) for v in LARGE]
        value[1] = new[rng.integers(len(new))]
        kind = f"{content} to {value[1]}"
    packed = write_struct(footer[1])
    file.write_bytes(data[:start] + packed + len(packed).to_bytes(4, "little") + data[-4:])
    return str(kind)


def find_page(path: Path, rng: Generator) -> tuple[bytes, int, int, list[list[Any]]]:
    """The content of a file, and where the header of one of its pages begins and ends."""
    metadata = pq.ParquetFile(path).metadata
    group = metadata.row_group(int(rng.integers(metadata.num_row_groups)))
    column = group.column(int(rng.integers(group.num_columns)))
    starts = [column.data_page_offset] * 2 + [column.dictionary_page_offset] * column.has_dictionary_page
    data, start = path.read_bytes(), starts[rng.integers(len(starts))]
    reader = Thrift(data, start)
    header = reader.struct()
    return data, start, reader.at, header


def edit_page(path: Path, rng: Generator) -> str:
    """Change a number in the header of a page, in as many bytes."""
    file = any_file(path, rng)
    data, start, stop, header = find_page(file, rng)
    numbers = [v for v in walk([STRUCT, header]) if v[0] in (4, 5, 6)]
    value = numbers[rng.integers(len(numbers))]
    old, width = value[1], len(as_varint(value[1]))
    new = [0, 1, 2, old + 2, max(0, old - 2), old // 4 * 2, (1 << 7 * width) - 2][rng.integers(7)]
    value[1:] = [min(new, (1 << 7 * width) - 1), width]
    packed = write_struct(header)
    if len(packed) == stop - start:
        file.write_bytes(data[:start] + packed + data[stop:])
    return f"{old} to {value[1]}"


def edit_checked_page(path: Path, rng: Generator) -> str:
    """Change a page, and its checksum if it has one."""
    file = any_file(path, rng)
    data, start, stop, header = find_page(file, rng)
    fields = dict(header)
    size = fields[3][1] >> 1
    body = general.flip_bits(data[stop : stop + size], rng)
    if 4 in fields:
        crc = zlib.crc32(body)
        signed = crc - (1 << 32) * (crc >> 31)
        fields[4][1:] = [(signed << 1) ^ (signed >> 63), len(as_varint(fields[4][1]))]
    packed = write_struct(header)
    if len(packed) == stop - start:
        file.write_bytes(data[:start] + packed + body + data[stop + size :])
    return "with its checksum" if 4 in fields else "without checksum"


def swap_pages(path: Path, rng: Generator) -> str:
    """Swap the bytes of two pages."""
    file = any_file(path, rng)
    pages = []
    for _ in range(2):
        data, start, stop, header = find_page(file, rng)
        pages.append((start, stop + (dict(header)[3][1] >> 1)))
    (a, b), (c, d) = sorted(pages)
    if b <= c:
        file.write_bytes(data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:])
    return str(pages)


def pandas_metadata(content: bytes) -> Edit:
    def edit(path: Path, rng: Generator) -> str:
        if path.suffix == ".parquet":
            pq.write_table(pq.read_table(path).replace_schema_metadata({b"pandas": content}), path)
        else:
            table = pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all()
            with pa.ipc.new_file(str(path), s := table.schema.with_metadata({b"pandas": content})) as writer:
                writer.write_table(table.cast(s))
        return repr(content[:30])

    edit.__name__ = "pandas_metadata"
    return edit


PANDAS = [
    b"[]",
    b"5",
    b"null",
    b"{",
    b"\xff",
    b"[" * DEEP,
    b'{"index_columns": 5}',
    b'{"index_columns": [{}]}',
]
PANDAS += [
    b'{"index_columns": ["x1", "x1"], "columns": 5}',
    b'{"index_columns": null}',
    b'{"index_columns": {"a": 1}}',
]


def one_value_in_a_page(path: Path, rng: Generator) -> None:
    """The first page of a column says that it has one value."""
    data = path.read_bytes()
    metadata = pq.ParquetFile(path).metadata
    chunk = metadata.row_group(metadata.num_row_groups - 1).column(metadata.num_columns // 4)
    reader = Thrift(data, chunk.data_page_offset)
    header = reader.struct()
    number = dict(dict(header)[5][1])[1]
    number[1:] = [2, len(as_varint(number[1]))]
    path.write_bytes(data[: chunk.data_page_offset] + write_struct(header) + data[reader.at :])
