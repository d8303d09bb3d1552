"""Small inputs in every format for the fuzz test."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import scipy.io
import scipy.sparse as sp
import zarr
from bed_reader import to_bed
from sklearn.datasets import dump_svmlight_file
from zarr.codecs import Crc32cCodec

from banditsis.index.writer import build_index

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # before files.py of this folder
import files
from fuzz_references import (
    COMPRESS,
    COO,
    CSC,
    CSR,
    GENOTYPES,
    IDS,
    NAMES,
    SPARSE,
    Answer,
    X,
    Y,
    answer,
    joined,
    read_anndata,
    read_csv,
    read_exactly,
    read_folder,
    read_hdf5,
    read_mtx,
    read_npz,
    read_parquet,
    read_pheno,
    read_plink,
    read_svmlight,
    read_zarr,
    tables,
)


class Case(NamedTuple):
    """An input in a folder of its own: a file, several files, or a folder."""

    name: str
    #: writes the input; may return the path of a file or folder to move there
    write: Callable[[Path], object]
    #: what another library reads
    reference: Callable[[Path], Answer]
    #: the kind of structure that is edited
    structure: str = ""
    #: a column, a file in {root}, which is not damaged, or {path}: the input itself
    target: str = "{root}/y.npy"
    data: str = "{path}"
    #: bytes, to read in pieces what is read at once otherwise
    memory_limit: int | None = None
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


# Writers


def write_text(path: Path, header: list[str], columns: Iterable[Iterable[Any]], delimiter: str) -> None:
    rows = [[str(value) for value in row] for row in zip(*columns, strict=True)]
    path.write_text("".join(delimiter.join(row) + "\n" for row in [header, *rows] if row))


def compressed(write: Callable[[Path], object]) -> Callable[[Path], object]:
    def save(path: Path) -> None:
        plain = path.with_suffix("")
        plain = Path(shutil.move(written, plain)) if isinstance(written := write(plain), Path) else plain
        path.write_bytes(COMPRESS[path.suffix](plain.read_bytes()))
        plain.unlink()

    return save


def folder(cells: Any, target: str | None = "x3", ids: list[str] | None = None) -> Callable[[Path], object]:
    return lambda path: build_index(pd.DataFrame(cells, ids, NAMES), path, target=target, random_state=1)


CHECKED_TABLE = {"row_group_size": 64, "write_page_checksum": True}
PROPERTIES = {"fid": IDS, "iid": IDS, "sid": NAMES, "pheno": Y.astype(str)}
TABLE, Y_TABLE = files.table(X, NAMES), pa.table({"id": IDS, "value": Y})
PLAIN = {"chunks": (64, 5), "compressors": None}
PACKED = {"chunks": (64, 5), "compression": "gzip"}
ON_DISK = {"memory_limit": 1}
TARGET = {"data": "{root}/ids.parquet", "target": "{path}"}
PARQUET, ARROW = (read_parquet, "parquet"), (tables(lambda path: pa.ipc.open_file(path).read_all()), "arrow")
CSV, SVM, MTX = (tables(read_csv), "text"), (read_svmlight, "text", "label"), (read_mtx, "text")
NPZ, ZARR, HDF5 = (read_npz, "npz"), (read_zarr, "zarr"), (read_hdf5, "hdf5")
ANNDATA, FOLDER = (read_anndata, "h5ad", "age"), (read_folder, "folder", "x3")
COLUMNS = ["id", "value"]


def zarr_case(weight: int = 1, **options: Any) -> Case:
    return Case("x.zarr", lambda path: files.write_zarr(X, NAMES, **options), *ZARR, weight=weight)


def csv_case(name: str) -> Case:
    return Case(name, compressed(lambda path: files.write_csv(X, NAMES)), *CSV)


def add_versions(file: Any) -> None:
    """Add the versions of encodings, which anndata wants of sparse matrices and categories."""
    for name, version in (("X", "0.1.0"), ("obs/kind", "0.2.0")):
        if "encoding-type" in file[name].attrs:
            file[name].attrs["encoding-version"] = version
    file["obs/kind"].attrs["ordered"] = False
    for part, columns in (("obs", ["kind", "age"]), ("var", [])):
        frame = {"encoding-type": "dataframe", "encoding-version": "0.2.0", "column-order": columns}
        file[part].attrs.update(frame)
    if "encoding-type" in file.attrs:
        file.attrs["encoding-version"] = "0.1.0"


def h5ad_case(cells: Any, kind: str | None = None, memory_limit: int | None = None, **options: Any) -> Case:
    def write(path: Path) -> object:
        written = files.write_h5ad(cells, NAMES, kind, **options)
        with h5py.File(written, "r+") as file:
            add_versions(file)
        return written

    return Case("x.h5ad", write, *ANNDATA, memory_limit=memory_limit)


def anndata_zarr_case(cells: Any, kind: str | None = None, **more: Any) -> Case:
    def write(path: Path) -> object:
        written = files.write_anndata_zarr(cells, NAMES, kind)
        add_versions(zarr.open(str(written)))
        return written

    return Case("x.zarr", write, read_anndata, "zarr", "age", **more)


CASES = {
    "npy": Case("x.npy", lambda path: np.save(path, X), lambda path: answer(np.load(path)), "npy"),
    "npz dense": Case("x.npz", lambda path: np.savez(path, X=X, y=Y), *NPZ, "y"),
    "npz CSR": Case("x.npz", lambda path: sp.save_npz(path, CSR), *NPZ, weight=2),
    "npz CSC": Case("x.npz", lambda path: sp.save_npz(path, CSC, compressed=False), *NPZ, weight=2),
    "npz COO": Case("x.npz", lambda path: sp.save_npz(path, COO), *NPZ),
    "mtx": Case("x.mtx", lambda path: scipy.io.mmwrite(path, COO), *MTX),
    "mtx dense": Case("x.mtx", lambda path: scipy.io.mmwrite(path, X), *MTX),
    "mtx.gz": Case("x.mtx.gz", compressed(lambda path: scipy.io.mmwrite(path, COO)), *MTX),
    "svmlight": Case("x.svm", lambda path: dump_svmlight_file(CSR, Y, str(path)), *SVM),
    "svmlight.gz": Case("x.svm.gz", compressed(lambda path: dump_svmlight_file(CSR, Y, str(path))), *SVM),
    "parquet": Case(
        "x.parquet",
        lambda p: files.write_parquet(X, NAMES),
        tables(read_parquet, "x3"),
        "parquet",
        "x3",
        weight=3,
    ),
    "parquet, checksums": Case(
        "x.parquet",
        lambda p: pq.write_table(TABLE, p, **CHECKED_TABLE),
        tables(read_parquet),
        "parquet",
        weight=2,
    ),
    "parquet folder": Case("parts", lambda path: files.write_parquet_folder(X, NAMES), tables(read_parquet)),
    "arrow": Case(
        "x.arrow", lambda path: pa.feather.write_feather(TABLE, path, "uncompressed"), *ARROW, weight=2
    ),
    "feather, lz4": Case("x.feather", lambda path: files.write_feather(X, NAMES), *ARROW),
    "csv": Case(
        "x.csv", lambda path: files.write_csv(X, NAMES), tables(read_csv, "x3"), "text", "x3", weight=2
    ),
    "csv.gz": csv_case("x.csv.gz"),
    "csv.bz2": csv_case("x.csv.bz2"),
    "csv.xz": csv_case("x.csv.xz"),
    "csv.zst": csv_case("x.csv.zst"),
    "tsv": Case("x.tsv", lambda p: write_text(p, NAMES, X.T, "\t"), tables(read_csv, "x3"), "text", "x3"),
    "zarr v3": zarr_case(**PLAIN, weight=2),
    "zarr v3, zstd": zarr_case(chunks=(64, 5), weight=2),
    "zarr v3, crc32c": zarr_case(chunks=(64, 5), compressors=[Crc32cCodec()]),
    "zarr v3, shards": zarr_case(**PLAIN, shards=(128, 10)),
    "zarr v2": zarr_case(**PLAIN, zarr_format=2),
    "zarr v2, zstd": zarr_case(chunks=(64, 5), zarr_format=2),
    "AnnData zarr": anndata_zarr_case(X),
    "AnnData zarr CSR": anndata_zarr_case(SPARSE, "csr_matrix"),
    "AnnData zarr CSC on disk": anndata_zarr_case(SPARSE, "csc_matrix", **ON_DISK),
    "index": Case("x.index", folder(X), *FOLDER, weight=2),
    "index, ids": Case("x.index", folder(X, ids=IDS), *FOLDER, weight=2),
    "index, no target": Case("x.index", folder(X, None), *FOLDER[:2]),
    "hdf5": Case("x.h5", lambda path: files.write_hdf5(X, NAMES), *HDF5),
    "hdf5, chunks": Case("x.h5", lambda path: files.write_hdf5(X, NAMES, chunks=(64, 5)), *HDF5),
    "hdf5, gzip": Case("x.h5", lambda path: files.write_hdf5(X, NAMES, **PACKED), *HDF5, weight=2),
    "hdf5, shuffle": Case("x.h5", lambda path: files.write_hdf5(X, NAMES, **PACKED, shuffle=True), *HDF5),
    "h5ad": h5ad_case(X),
    "h5ad CSR": h5ad_case(SPARSE, "csr_matrix"),
    "h5ad CSC": h5ad_case(SPARSE, "csc_matrix"),
    "h5ad CSR on disk": h5ad_case(SPARSE, "csr_matrix", 1, chunks=(64,)),
    "h5ad CSC on disk": h5ad_case(SPARSE, "csc_matrix", 1),
    "plink": Case(
        "x.bed", lambda p: to_bed(p, GENOTYPES, PROPERTIES), read_plink, "plink", "phenotype", weight=2
    ),
    "target npy": Case("y.npy", lambda p: np.save(p, Y), lambda p: answer(X, np.load(p)), "npy", **TARGET),
    "target csv": Case(
        "y.csv", lambda p: write_text(p, COLUMNS, [IDS, Y], ","), joined(read_exactly), "text", **TARGET
    ),
    "target csv.gz": Case(
        "y.csv.gz",
        compressed(lambda p: write_text(p, COLUMNS, [IDS, Y], ",")),
        joined(read_exactly),
        "text",
        **TARGET,
    ),
    "target pheno": Case(
        "y.pheno",
        lambda path: write_text(path, [], [IDS, IDS, Y], " "),
        joined(read_pheno),
        "text",
        **{**TARGET, "target": "{path}:3"},
    ),
    "target parquet": Case(
        "y.parquet",
        lambda p: pq.write_table(Y_TABLE, p),
        joined(lambda p: pq.read_table(p).to_pandas()),
        "parquet",
        **TARGET,
    ),
    "target feather": Case(
        "y.feather",
        lambda path: pa.feather.write_feather(Y_TABLE, path),
        joined(pa.feather.read_feather),
        "arrow",
        **TARGET,
    ),
}


class Run(NamedTuple):
    """A damaged input."""

    case: str
    seed: int

    @property
    def folder(self) -> str:
        return f"{self}".replace(" ", "_").replace(":", ".")

    def __str__(self) -> str:
        return f"{self.case}:{self.seed}"


def plan_runs(count: int, only: Sequence[str] | None = None) -> list[Run]:
    """The runs of all cases, or of some (``CASE``), or single ones (``CASE:SEED``)."""
    total = sum(case.weight for case in CASES.values())
    seeds = {name: range(-(-count * case.weight // total)) for name, case in CASES.items()}
    if only is None:  # some of each case, then more
        runs = [Run(name, seed) for name in CASES for seed in seeds[name]]
        return sorted(runs, key=lambda run: run.seed // 50)
    pairs = [text.partition(":") for text in only]
    return [Run(name, seed) for name, mark, text in pairs for seed in ([int(text)] if mark else seeds[name])]
