"""Edits of HDF5 files and Zarr stores, with and without AnnData."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa

from fuzz_bytes import BOMB, Edit, Generator, any_file

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
HDF5 += [attribute(*pair) for pair in ATTRIBUTES]
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
