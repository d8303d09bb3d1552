"""Small inputs in every format, and ways to damage them, for the fuzz test."""

from __future__ import annotations

import gzip
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import scipy.io
import scipy.sparse as sp
import zarr
from bed_reader import to_bed
from sklearn.datasets import dump_svmlight_file
from zarr.codecs import Crc32cCodec

from banditsis.index.writer import shuffle

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import files

rng = np.random.default_rng(0)
X, Y = rng.standard_normal((300, 12)), rng.standard_normal(300)
SPARSE = np.where(rng.random(X.shape) < 0.3, X, 0.0)
NAMES, IDS = [f"x{j}" for j in range(12)], [f"s{i}" for i in range(300)]
CSR, CSC, COO = sp.csr_array(SPARSE), sp.csc_array(SPARSE), sp.coo_array(SPARSE)


class Case(NamedTuple):
    """An input in a folder of its own: a file, several files, or a folder."""

    name: str
    #: writes the input; may return the path of a file or folder to move there
    write: Callable[[Path], object]
    #: a column, a file in {root}, which is not damaged, or {path}: the input itself
    target: str = "{root}/y.npy"
    data: str = "{path}"
    #: raises if the checksums of the format show damage
    check: Callable[[Path], object] | None = None
    memory_limit: int | None = None
    #: makes the input of its folder after the damage
    pack: Callable[[Path], object] | None = None
    #: inputs of this kind for each input of another kind
    weight: int = 1


def write_inputs(root: Path, names: Iterable[str]) -> None:
    """Write the undamaged inputs, each in a folder of the name of its case."""
    np.save(root / "y.npy", Y)
    pd.DataFrame(X, IDS, NAMES).to_parquet(root / "ids.parquet")
    for name in names:
        path = root / name / CASES[name].name
        path.parent.mkdir()
        written = CASES[name].write(path)
        if isinstance(written, Path) and written != path:
            shutil.move(written, path)


def write_text(path: Path, header: list[str], columns: Iterable[Iterable[Any]], delimiter: str) -> None:
    rows = [[str(value) for value in row] for row in zip(*columns, strict=True)]
    path.write_text("".join(delimiter.join(row) + "\n" for row in [header, *rows] if row))


def gzipped(write: Callable[[Path], object]) -> Callable[[Path], object]:
    def save(path: Path) -> None:
        plain = path.with_suffix("")
        plain = Path(shutil.move(written, plain)) if isinstance(written := write(plain), Path) else plain
        path.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
        plain.unlink()

    return save


def unpacked(matrix: Any) -> Callable[[Path], object]:
    def save(path: Path) -> None:
        sp.save_npz(path, matrix, compressed=False)
        with ZipFile(path) as archive:
            archive.extractall(path.parent)
        path.unlink()

    return save


def pack_members(path: Path) -> None:
    with ZipFile(path, "w") as archive:
        for file in sorted(path.parent.glob("*.npy")):
            archive.write(file, file.name)


def store(cells: Any, target: str | None = "x3", ids: list[str] | None = None) -> Callable[[Path], object]:
    return lambda path: shuffle(pd.DataFrame(cells, ids, NAMES), path, target=target, random_state=1)


def check_zip(path: Path) -> None:
    with ZipFile(path) as archive:
        if (name := archive.testzip()) is not None:
            raise ValueError(f"the checksum of {name} is wrong.")


def check_store(path: Path) -> None:
    raise ValueError("all that a store contains has checksums.")


def check_parquet(path: Path) -> None:
    pq.ParquetFile(path, page_checksum_verification=True).read()


CHECKED_TABLE = {"row_group_size": 64, "write_page_checksum": True}
PROPERTIES = {"fid": IDS, "iid": IDS, "sid": NAMES, "pheno": Y.astype(str)}
TABLE, Y_TABLE = files.table(X, NAMES), pa.table({"id": IDS, "value": Y})
PLAIN = {"chunks": (64, 5), "compressors": None}
PACKED = {"chunks": (64, 5), "compression": "gzip"}
GZIP = {"check": lambda path: gzip.decompress(path.read_bytes())}
ZARR = {"check": lambda path: zarr.open(path)[:]}
STORE = {"check": check_store, "weight": 3}
TARGET = {"data": "{root}/ids.parquet", "target": "{path}"}
COLUMNS = ["id", "value"]
CASES = {
    "npy": Case("x.npy", lambda path: np.save(path, X)),
    "npz dense": Case("x.npz", lambda path: np.savez(path, X=X, y=Y), "y", check=check_zip),
    "npz CSR": Case("x.npz", lambda path: sp.save_npz(path, CSR), check=check_zip),
    "npz CSC": Case("x.npz", lambda path: sp.save_npz(path, CSC, compressed=False), check=check_zip),
    "npz CSR, valid zip": Case("x.npz", unpacked(CSR), pack=pack_members, weight=2),
    "npz CSC, valid zip": Case("x.npz", unpacked(CSC), pack=pack_members, weight=2),
    "npz COO, valid zip": Case("x.npz", unpacked(COO), pack=pack_members),
    "mtx": Case("x.mtx", lambda path: scipy.io.mmwrite(path, COO)),
    "mtx dense": Case("x.mtx", lambda path: scipy.io.mmwrite(path, X)),
    "mtx.gz": Case("x.mtx.gz", gzipped(lambda path: scipy.io.mmwrite(path, COO)), **GZIP),
    "svmlight": Case("x.svm", lambda path: dump_svmlight_file(CSR, Y, str(path)), "label"),
    "svmlight.gz": Case(
        "x.svm.gz", gzipped(lambda path: dump_svmlight_file(CSR, Y, str(path))), "label", **GZIP
    ),
    "parquet": Case("x.parquet", lambda path: files.write_parquet(X, NAMES), "x3"),
    "parquet, checksums": Case(
        "x.parquet", lambda path: pq.write_table(TABLE, path, **CHECKED_TABLE), check=check_parquet, weight=2
    ),
    "parquet folder": Case("parts", lambda path: files.write_parquet_folder(X, NAMES)),
    "arrow": Case("x.arrow", lambda path: pa.feather.write_feather(TABLE, path, "uncompressed")),
    "feather, lz4": Case("x.feather", lambda path: files.write_feather(X, NAMES)),
    "csv": Case("x.csv", lambda path: files.write_csv(X, NAMES), "x3"),
    "csv.gz": Case("x.csv.gz", gzipped(lambda path: files.write_csv(X, NAMES)), **GZIP),
    "tsv": Case("x.tsv", lambda path: write_text(path, NAMES, X.T, "\t"), "x3"),
    "zarr v3": Case("x.zarr", lambda path: files.write_zarr(X, NAMES, **PLAIN)),
    "zarr v3, zstd": Case("x.zarr", lambda path: files.write_zarr(X, NAMES, chunks=(64, 5))),
    "zarr v3, crc32c": Case(
        "x.zarr", lambda path: files.write_zarr(X, NAMES, chunks=(64, 5), compressors=[Crc32cCodec()]), **ZARR
    ),
    "zarr v3, shards": Case(
        "x.zarr", lambda path: files.write_zarr(X, NAMES, **PLAIN, shards=(128, 10)), **ZARR
    ),
    "zarr v2": Case("x.zarr", lambda path: files.write_zarr(X, NAMES, **PLAIN, zarr_format=2)),
    "zarr v2, zstd": Case("x.zarr", lambda path: files.write_zarr(X, NAMES, chunks=(64, 5), zarr_format=2)),
    "store": Case("x.shuffled", store(X), "x3", **STORE),
    "store, compressed": Case("x.shuffled", store(np.round(X)), "x3", **STORE),
    "store, ids": Case("x.shuffled", store(X, ids=IDS), "x3", **STORE),
    "store, no target": Case("x.shuffled", store(X, None), **STORE),
    "hdf5": Case("x.h5", lambda path: files.write_hdf5(X, NAMES)),
    "hdf5, gzip": Case("x.h5", lambda path: files.write_hdf5(X, NAMES, **PACKED)),
    "hdf5, shuffle": Case("x.h5", lambda path: files.write_hdf5(X, NAMES, **PACKED, shuffle=True)),
    "h5ad": Case("x.h5ad", lambda path: files.write_h5ad(X, NAMES), "age"),
    "h5ad CSR": Case("x.h5ad", lambda path: files.write_h5ad(SPARSE, NAMES, "csr_matrix"), "age", weight=2),
    "h5ad CSC": Case("x.h5ad", lambda path: files.write_h5ad(SPARSE, NAMES, "csc_matrix"), "age", weight=2),
    "h5ad CSR on disk": Case(
        "x.h5ad",
        lambda path: files.write_h5ad(SPARSE, NAMES, "csr_matrix", chunks=(64,)),
        "age",
        memory_limit=1,
    ),
    "h5ad CSC on disk": Case(
        "x.h5ad", lambda path: files.write_h5ad(SPARSE, NAMES, "csc_matrix"), "age", memory_limit=1
    ),
    "plink": Case(
        "x.bed", lambda path: to_bed(path, np.abs(X).round() % 3, PROPERTIES), "phenotype", weight=2
    ),
    "target npy": Case("y.npy", lambda path: np.save(path, Y), **TARGET),
    "target csv": Case("y.csv", lambda path: write_text(path, COLUMNS, [IDS, Y], ","), **TARGET),
    "target txt.gz": Case(
        "y.txt.gz", gzipped(lambda path: write_text(path, COLUMNS, [IDS, Y], " ")), **TARGET, **GZIP
    ),
    "target pheno": Case(
        "y.pheno", lambda path: write_text(path, [], [IDS, IDS, Y], " "), **{**TARGET, "target": "{path}:3"}
    ),
    "target parquet": Case("y.parquet", lambda path: pq.write_table(Y_TABLE, path), **TARGET),
    "target feather": Case("y.feather", lambda path: pa.feather.write_feather(Y_TABLE, path), **TARGET),
}


def damage(folder: Path, rng: np.random.Generator) -> str:
    """Damage one file of a folder, and return how."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    kind = str(rng.choice(list(DAMAGES), p=[share for share, _ in DAMAGES.values()]))
    metadata = [path for path in paths if path.suffix == ".json" or path.name in (".zarray", ".zattrs")]
    if metadata and rng.random() < (0.9 if kind == "change a number" else 0.3):
        paths = metadata
    path = paths[rng.integers(len(paths))]
    data = path.read_bytes()
    if kind == "drop":
        path.unlink()
    elif data:
        path.write_bytes(DAMAGES[kind][1](data, rng))
    return f"{kind} {path.relative_to(folder)}"


def place(data: bytes, rng: np.random.Generator) -> int:
    """A position; half of them are near the beginning or the end, where metadata are."""
    k, near = rng.integers(4), int(rng.integers(min(len(data), 512)))
    return int(rng.integers(len(data))) if k < 2 else near if k == 2 else len(data) - 1 - near


def flip_bits(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        changed[place(data, rng)] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def change_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Replace up to 8 bytes by random ones, or by those of the largest number or of -1."""
    start, length = place(data, rng), int(rng.integers(1, 9))
    new = (rng.bytes(8), b"\xff" * 7 + b"\x7f", b"\xff" * 8)[rng.integers(3)][-length:]
    return data[:start] + new + data[start + length :]


def change_number(data: bytes, rng: np.random.Generator) -> bytes:
    """Replace a number of a text by a similar one or by one that no format can mean."""
    numbers = [match.span() for match in re.finditer(rb"\d+", data)]
    if not numbers:
        return change_bytes(data, rng)
    start, stop = numbers[rng.integers(len(numbers))]
    old = int(data[start:stop][:18])
    new = [old + 1, old - 1, old * 10, old // 2, 0, -1, 2**31, 2**63, 10**30][rng.integers(9)]
    return data[:start] + str(new).encode() + data[stop:]


def zero_range(data: bytes, rng: np.random.Generator) -> bytes:
    start, length = place(data, rng), 1 << int(rng.integers(12))
    return data[:start] + bytes(len(data[start : start + length])) + data[start + length :]


def swap_blocks(data: bytes, rng: np.random.Generator) -> bytes:
    size = (8, 64, 512)[rng.integers(3)]
    a, b = sorted(place(data, rng) // size * size for _ in range(2))
    return (
        data[:a] + data[b : b + size] + data[a + size : b] + data[a : a + size] * (b > a) + data[b + size :]
    )


#: share and function of each kind of damage
DAMAGES: dict[str, tuple[float, Callable[[bytes, np.random.Generator], bytes]]] = {
    "flip bits": (0.25, flip_bits),
    "change bytes": (0.2, change_bytes),
    "change a number": (0.2, change_number),
    "truncate": (0.08, lambda data, rng: data[: place(data, rng)]),
    "extend": (0.06, lambda data, rng: data + (rng.bytes(8), bytes(4096), data)[rng.integers(3)]),
    "zero": (0.07, zero_range),
    "swap": (0.08, swap_blocks),
    "drop": (0.03, lambda data, rng: data),
    "empty": (0.03, lambda data, rng: b""),
}
