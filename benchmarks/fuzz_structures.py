"""Edits of the structure of Parquet, Arrow, HDF5, Zarr and PLINK files, and the choice among all ways of damage."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fuzz_damage as general
from fuzz_damage import BOMB, DEEP, LARGE, Edit, Generator, any_file
from fuzz_inputs import Case

# Parquet: Thrift's compact protocol. A value is [type, content]; a struct has pairs of a field id and a value.

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


def long_target(path: Path, rng: Generator) -> None:
    """The first page of the target says that it has one value."""
    data = path.read_bytes()
    metadata = pq.ParquetFile(path).metadata
    chunk = metadata.row_group(metadata.num_row_groups - 1).column(metadata.num_columns // 4)
    for start in (chunk.data_page_offset,):
        reader = Thrift(data, start)
        header = reader.struct()
        number = dict(dict(header)[5][1])[1]
        number[1:] = [2, len(as_varint(number[1]))]
        path.write_bytes(data[:start] + write_struct(header) + data[reader.at :])


# HDF5 and AnnData, with h5py


def hdf5(change: Callable[[h5py.File, str, Path], object]) -> Edit:
    def edit(path: Path, rng: Generator) -> None:
        with h5py.File(path, "r+") as file:
            change(file, "features" if "features" in file else "X", path)

    edit.__name__ = change.__name__
    return edit


def with_data(make: Callable[[h5py.File, str], object], name: str | None = None, why: str = "") -> Edit:
    """Write something else in the place of the matrix, or of another member."""

    def change(file: h5py.File, matrix: str, path: Path) -> None:
        place = name or matrix
        attributes = dict(file[place].attrs) if place in file else {}
        if place in file:
            del file[place]
        made = make(file, place)
        if made is not None:
            for key, value in attributes.items():
                if key not in made.attrs:
                    made.attrs[key] = value

    change.__name__ = f"{why} in place of {name or 'the matrix'}"
    return hdf5(change)


def chunk_of(content: bytes, **options: Any) -> Callable[[h5py.File, str], object]:
    def make(file: h5py.File, name: str) -> Any:
        made = file.create_dataset(name, (300, 12), "f8", chunks=(300, 12), **options)
        made.id.write_direct_chunk((0, 0), content)
        return made

    return make


def virtual(file: h5py.File, name: str) -> Any:
    layout = h5py.VirtualLayout((300, 12), "f8")
    other = Path(file.filename).parents[1] / "other.h5"
    if not other.exists():
        with h5py.File(other, "w") as outside:
            outside["X"] = np.ones((300, 12))
    layout[:] = h5py.VirtualSource(str(other), "X", (300, 12))
    return file.create_virtual_dataset(name, layout)


def link(make: Callable[[h5py.File], Any]) -> Callable[[h5py.File, str], object]:
    def put(file: h5py.File, name: str) -> None:
        file[name] = make(file)

    return put


def array(values: Any) -> Callable[[h5py.File, str], object]:
    return lambda file, name: file.create_dataset(name, data=values)


def declared(shape: tuple[int, ...], kind: Any = "f8", **options: Any) -> Callable[[h5py.File, str], object]:
    return lambda file, name: file.create_dataset(name, shape, kind, **options)


def number_as_dimension_list(file: h5py.File, matrix: str, path: Path) -> None:
    if "shape" not in dir(file[matrix]):
        return
    file[matrix].attrs["DIMENSION_LIST"] = 5


def attribute(key: str, value: Any) -> Edit:
    def change(file: h5py.File, matrix: str, path: Path) -> None:
        file[matrix].attrs[key] = value

    change.__name__ = f"attribute {key} {str(value)[:20]}"
    return hdf5(change)


def part_of(part: str, change: Callable[[Any], Any]) -> Edit:
    """Change a part of a sparse matrix."""

    def edit(file: h5py.File, matrix: str, path: Path) -> None:
        if f"X/{part}" in file:
            values = change(file[f"X/{part}"][...])
            del file[f"X/{part}"]
            file[f"X/{part}"] = values

    edit.__name__ = f"part {part}"
    return hdf5(edit)


def put(index: int, value: int) -> Callable[[Any], Any]:
    def change(values: Any) -> Any:
        values = values.astype(np.int64)
        values[index] = value
        return values

    return change


def deep_groups(file: h5py.File, name: str) -> None:
    file["/".join(["a"] * 2000) + "/X"] = np.ones((300, 12))


def deflated(n_bytes: int) -> bytes:
    return zlib.compress(bytes(n_bytes), 1)


CELLS = np.random.default_rng(1).standard_normal((300, 12))
MATRICES: list[tuple[str, Callable[[h5py.File, str], object]]] = [
    ("oversized chunk", chunk_of(CELLS.tobytes() * 100)),
    ("short chunk", chunk_of(CELLS.tobytes()[:1000])),
    ("chunk of one byte", chunk_of(b"x")),
    ("deflate bomb", lambda file, name: chunk_of(deflated(BOMB), compression="gzip")(file, name)),
    ("short deflated chunk", chunk_of(deflated(1000), compression="gzip")),
    ("long deflated chunk", chunk_of(deflated(100_000), compression="gzip")),
    ("deflated garbage", chunk_of(b"x" * 1000, compression="gzip")),
    ("short shuffled chunk", chunk_of(deflated(1001), compression="gzip", shuffle=True)),
    ("never written", declared((300, 12), chunks=(64, 5))),
    ("never written, filled", declared((300, 12), chunks=(64, 5), fillvalue=7.0)),
    ("never written, one chunk", declared((300, 12), chunks=(300, 12), maxshape=(None, None))),
    ("never written, contiguous", declared((300, 12))),
    ("huge rows", declared((10**9, 12), chunks=(1000, 12))),
    ("huge columns", declared((300, 10**9), chunks=(300, 10))),
    ("huge contiguous", declared((300, 10**8))),
    ("huge chunk", declared((300, 10**7), chunks=(300, 10**6))),
    ("no rows", declared((0, 12), chunks=(1, 12), maxshape=(None, 12))),
    ("three dimensions", array(np.ones((30, 5, 4)))),
    ("a number", array(5.0)),
    ("text", array(np.array([["a"] * 12] * 300, dtype=object))),
    ("complex numbers", array(CELLS.astype(complex))),
    ("records", array(np.zeros((300, 12), [("a", "f8")]))),
    ("big-endian", array(CELLS.astype(">f8"))),
    ("half precision", array(CELLS.astype("f2"))),
    ("Booleans", array(CELLS > 0)),
    ("enumeration", declared((300, 12), h5py.enum_dtype({"a": 0, "b": 1}))),
    ("empty space", array(h5py.Empty("f8"))),
    ("external link", link(lambda file: h5py.ExternalLink("/etc/passwd", "/X"))),
    ("dangling link", link(lambda file: h5py.SoftLink("/nowhere"))),
    ("loop of links", link(lambda file: h5py.SoftLink(f"/{'X' if 'obs' in file else 'features'}"))),
    ("link to the root", link(lambda file: h5py.SoftLink("/"))),
    (
        "external data",
        lambda f, name: f.create_dataset(name, (300, 12), "f8", external=[("/etc/passwd", 0, 28800)]),
    ),
    ("virtual data", virtual),
    ("type", link(lambda file: np.dtype("f8"))),
    ("deep groups", deep_groups),
]
ATTRIBUTES = [
    ("names", 5),
    ("names", ["a"] * 11),
    ("names", ["a"] * 12),
    ("names", np.ones((12, 2))),
    ("names", "x"),
]
ATTRIBUTES += [
    ("_FillValue", 0.0),
    ("scale_factor", "x"),
    ("CLASS", "DIMENSION_SCALE"),
    ("names", h5py.Empty("f8")),
]
HDF5 = [with_data(make, None, why) for why, make in MATRICES]
HDF5 += [hdf5(number_as_dimension_list), *(attribute(*pair) for pair in ATTRIBUTES)]
AGES: list[tuple[str, Any]] = [
    ("10 values", np.arange(10.0)),
    ("301 values", np.arange(301.0)),
    ("two columns", np.ones((300, 2))),
]
AGES += [
    ("column", CELLS[:, :1]),
    ("a number", 5.0),
    ("text", np.array(["a"] * 300, object)),
    ("bytes", np.array([b"5"] * 300)),
]
SHAPES: list[Any] = [
    [300, 10**9],
    [10**9, 12],
    [-1, 12],
    [300.5, 12],
    [300],
    "300",
    [12, 300],
    [[300, 12]],
    [2**63 - 1] * 2,
]
H5AD = [with_data(array(values), "obs/age", why) for why, values in AGES]
H5AD += [with_data(array(np.array(["a"] * k, object)), "var/_index", f"{k} names") for k in (11, 12, 13)]
H5AD += [with_data(array(np.arange(k)), "obs/_index", f"{k} numbers") for k in (10, 300)]
H5AD += [attribute("shape", shape) for shape in SHAPES]
H5AD += [attribute("encoding-type", kind) for kind in ("csc_matrix", "csr_matrix", "array", "x", 5)]
H5AD += [part_of("indptr", put(k, v)) for k in (0, 5, -1) for v in (-1, 0, 3, 10**6, 2**62)]
H5AD += [part_of("indices", put(k, v)) for k in (0, -1) for v in (-1, 3, 12, 300, 2**40)]
H5AD += [part_of("indices", np.sort), part_of("indices", np.flip), part_of("data", lambda v: v[:-1])]
H5AD += [
    part_of("indptr", lambda v: v[:-1]),
    part_of("indptr", lambda v: v.astype(float)),
    part_of("data", str),
]


# Zarr


def edit_chunk(path: Path, rng: Generator) -> str:
    """Replace a chunk by one of another length, by another chunk, or by one that unpacks to much."""
    chunks = sorted(f for f in path.rglob("*") if f.is_file() and f.suffix != ".json" and f.name[:2] != ".z")
    file, other = (chunks[k] for k in rng.integers(0, len(chunks), 2))
    data = file.read_bytes()
    codec = pa.Codec("zstd")
    make = {
        "short": lambda: data[: int(rng.integers(len(data)))],
        "long": lambda: data + data,
        "other chunk": other.read_bytes,
        "zstd bomb": lambda: codec.compress(bytes(BOMB), asbytes=True),
        "zstd, short": lambda: codec.compress(bytes(8 * 64 * 5 - 8), asbytes=True),
        "zstd, long": lambda: codec.compress(bytes(8 * 64 * 5 + 8), asbytes=True),
        "zstd, random": lambda: codec.compress(rng.bytes(8 * 64 * 5), asbytes=True),
    }
    kind = str(rng.choice(list(make)))
    if kind == "zstd bomb" and rng.random() < 0.8:  # which takes a second to write
        kind = "long"
    file.write_bytes(make[kind]())
    return f"{kind} {file.relative_to(path)}"


def zarr_metadata(why: str, **fields: Any) -> Edit:
    """Change fields of the metadata of an array."""

    def edit(path: Path, rng: Generator) -> str:
        file = next(f for f in (path / "X/zarr.json", path / ".zarray", path / "zarr.json") if f.exists())
        document = json.loads(file.read_bytes())
        for key, value in fields.items():
            document[key] = value
        if "data_type" in fields and "dtype" in document:
            document["dtype"] = {"float32": "<f4", "int64": "<i8"}.get(
                fields["data_type"], fields["data_type"]
            )
        file.write_text(json.dumps(document))
        return why

    edit.__name__ = "metadata"
    return edit


def in_latin_1(path: Path, rng: Generator) -> None:
    file = any_file(path, rng, "*.json" if any(path.rglob("*.json")) else ".z*")
    file.write_bytes(file.read_bytes().replace(b"x1", b"\xe9"))


def chunks_in_folder(path: Path, rng: Generator) -> None:
    """A folder in the place of a chunk."""
    file = any_file(path, rng)
    file.unlink()
    file.mkdir()


ZARR = [
    zarr_metadata(f"shape {shape}", shape=shape)
    for shape in ([3, 10**9], [10**9, 12], [300, 13], [2**62, 2], [300])
]
ZARR += [
    zarr_metadata(f"type {kind}", data_type=kind)
    for kind in ("float32", "int64", "x", "bool", "string", "complex128")
]
ZARR += [in_latin_1, chunks_in_folder]

# All


def mode_byte(path: Path, rng: Generator) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:2] + b"\0" + data[3:])


def edit_side_file(path: Path, rng: Generator) -> str:
    return general.edit_text(path.with_suffix((".bim", ".fam")[rng.integers(2)]), rng)


def drop_sample(path: Path, rng: Generator) -> None:
    fam = path.with_suffix(".fam")
    fam.write_text("\n".join(fam.read_text().split("\n")[1:]))


EVERYWHERE = [
    general.replace(make) for make in (os.mkfifo, Path.mkdir, general.loop, general.nothing)
]
EVERYWHERE += [general.replace(make) for make in (general.empty, general.link_outside)]
TEXTS = (
    b"",
    b"\n" * 1000,
    b"1 1:2 300000000:1\n",
    b"a,b\n" + b"1,2\n" * 300 + b"3\n",
    b"%%MatrixMarket matrix array real general\n300000 300000\n1\n",
)
TEXTS += (
    b"%%MatrixMarket matrix coordinate real general\n5 300000000 1\n1 1 1\n",
    b"x," * 20_000 + b"y\n" + b"1," * 20_000 + b"2\n",
)
TEXTS += (
    b"1 1:1 1:2\n",
    b"1 4294967297:1\n",
    b"1 -1:1\n",
    b'"' * 100_000,
    b"x3\n" + b"1\n" * 299,
    b"x3,b\n" + b"1,$5\n" * 300,
    b"x3;b\n" + b"1;2,5\n" * 300,
)
SPECIAL: dict[str, list[Edit]] = {
    "": EVERYWHERE,
    "text": [*general.write_instead(*TEXTS), general.unpack_to_much],
    "parquet": [*map(pandas_metadata, PANDAS), long_target],
    "arrow": list(map(pandas_metadata, PANDAS)),
    "hdf5": HDF5,
    "h5ad": HDF5 + H5AD,
    "zarr": [*ZARR, general.deep_json],
    "npy": [general.header(*pair) for pair in general.HEADERS],
    "npz": [*general.NPZ],
    "plink": [mode_byte, drop_sample],
    "folder": [
        general.deep_json,
        *map(general.name_target, ("http://127.0.0.1:9/y.csv", "/etc/passwd", "../y.npy", "x3:1")),
    ],
    "json": [general.deep_json, *map(general.edit_result, general.RESULTS)],
}
VARIED: dict[str, list[Edit]] = {
    "text": [general.edit_text],
    "parquet": [edit_footer, edit_footer, edit_page, edit_checked_page, swap_pages],
    "arrow": [general.edit_bytes(general.change_word)],
    "hdf5": [general.edit_bytes(general.change_word)],
    "h5ad": [general.edit_bytes(general.change_word)],
    "zarr": [general.edit_json, general.edit_json, edit_chunk],
    "npy": [general.edit_npy],
    "npz": [general.edit_npz],
    "plink": [edit_side_file],
    "folder": [general.reseal, general.reseal, general.edit_json],
    "json": [general.edit_json],
}


def damage(case: Case, folder: Path, seed: int, key: int) -> str:
    """Damage the input of a case in a folder, and return how: first each special way once, then random ones."""
    rng, path = np.random.default_rng([key, seed]), folder / case.name
    special, varied = [*SPECIAL[""], *SPECIAL.get(case.structure, [])], VARIED.get(case.structure, [])
    if seed < len(special):
        edit = special[seed]
    elif varied and rng.random() < 0.6:
        edit = varied[rng.integers(len(varied))]
    else:
        return general.damage_bytes(folder, rng)
    return f"{edit.__name__.replace('_', ' ')} {edit(path, rng) or ''}".strip()
