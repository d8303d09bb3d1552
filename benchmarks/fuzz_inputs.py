"""Small inputs in every format for the fuzz test, and the reference readers that answers are compared with."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import anndata
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
from bed_reader import open_bed, to_bed
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from zarr.codecs import Crc32cCodec

from banditsis import Plan, screen
from banditsis.index.folder import Record, Written
from banditsis.index.writer import shuffle

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # before files.py of this folder
import files

rng = np.random.default_rng(0)
X, Y = rng.standard_normal((300, 12)), rng.standard_normal(300)
SPARSE = np.where(rng.random(X.shape) < 0.3, X, 0.0)
GENOTYPES = np.abs(X).round() % 3
NAMES, IDS = [f"x{j}" for j in range(12)], [f"s{i}" for i in range(300)]
CSR, CSC, COO = sp.csr_array(SPARSE), sp.csc_array(SPARSE), sp.coo_array(SPARSE)

#: What a reader found: "X", and "y", "names" or "text" if it reads them.
Answer = dict[str, Any]


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


COMPRESS = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


def compressed(write: Callable[[Path], object]) -> Callable[[Path], object]:
    def save(path: Path) -> None:
        plain = path.with_suffix("")
        plain = Path(shutil.move(written, plain)) if isinstance(written := write(plain), Path) else plain
        path.write_bytes(COMPRESS[path.suffix](plain.read_bytes()))
        plain.unlink()

    return save


def folder(cells: Any, target: str | None = "x3", ids: list[str] | None = None) -> Callable[[Path], object]:
    return lambda path: shuffle(pd.DataFrame(cells, ids, NAMES), path, target=target, random_state=1)


def write_result(path: Path) -> None:
    path.write_text(screen(X, Y, Plan.exact(*X.shape, 5)).to_json())


# Reference readers


def answer(X: Any, y: Any = None, names: Iterable[Any] | None = None) -> Answer:
    """An answer without the rows that have no target."""
    X = np.asarray(X)
    if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "fiub":
        raise ValueError(f"{X.dtype} of shape {X.shape} are not features")
    X, found = X.astype(np.float64), {}
    if y is not None:
        y = np.asarray(y).reshape(-1)
        known = ~pd.isna(y)
        if len(y) != len(X) or not known.any():
            raise ValueError(f"{len(y)} values of the target for {len(X)} rows")
        X, found["y"] = X[known], y[known]
    if names is not None:
        found["names"] = np.array([str(name) for name in names])
    return {"X": X, **found}


def from_table(table: Any, target: str | None) -> Answer:
    """The columns of numbers of an Arrow table, without the index of a frame of pandas."""
    table.validate(full=True)
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    table = table.drop_columns([name for name in set(index) if name in table.column_names])
    kinds = {f.name: f.type for f in table.schema}
    if len(kinds) < table.num_columns:
        raise ValueError("names are repeated")
    is_number = {
        k: pa.types.is_integer(t) or pa.types.is_floating(t) or t == "bool" for k, t in kinds.items()
    }
    names = [name for name in kinds if is_number[name] and name != target]
    cells = [table[name].to_pandas().to_numpy(np.float64, na_value=np.nan) for name in names]
    y = None if target is None else table[target].to_pandas().to_numpy()
    return answer(np.column_stack(cells), y, names)


def tables(read: Callable[[Path], Any], target: str | None = None) -> Callable[[Path], Answer]:
    return lambda path: from_table(read(path), target)


def read_parquet(path: Path) -> Any:
    if path.is_dir():
        return pq.read_table(path)
    return pq.ParquetFile(path, page_checksum_verification=True).read(use_threads=False)


def read_csv(path: Path) -> Any:
    delimiter = "\t" if ".tsv" in path.name else ","
    with (
        pa.input_stream(str(path), compression="detect") if path.suffix != ".xz" else lzma.open(path) as file
    ):
        options = pa.csv.ConvertOptions(strings_can_be_null=True)
        return pa.csv.read_csv(file, None, pa.csv.ParseOptions(delimiter=delimiter), options)


def read_npz(path: Path) -> Answer:
    with np.load(path) as arrays:
        if "format" not in arrays:
            return answer(arrays["X"], arrays["y"])
    return answer(check_sparse(sp.load_npz(path)).toarray())


def check_sparse(matrix: Any) -> Any:
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    return matrix


def read_mtx(path: Path) -> Answer:
    matrix = scipy.io.mmread(path)
    return answer(matrix.toarray() if sp.issparse(matrix) else matrix)


def read_svmlight(path: Path) -> Answer:
    matrix, labels = load_svmlight_file(str(path))
    return answer(matrix.toarray(), labels)


def read_zarr(path: Path) -> Answer:
    array = zarr.open_array(str(path), mode="r")
    return answer(array[:], names=array.attrs.get("names"))


def read_hdf5(path: Path) -> Answer:
    with h5py.File(path) as file:
        cells = file["features"]
        return answer(cells[...], names=cells.attrs.get("names"))


def read_anndata(path: Path) -> Answer:
    data = anndata.read_zarr(path) if path.is_dir() else anndata.read_h5ad(path)
    cells = check_sparse(data.X).toarray() if sp.issparse(data.X) else data.X
    return answer(cells, data.obs["age"].to_numpy(), data.var_names)


def is_number(text: str) -> bool:
    try:
        return bool(text) and float(text) == float(text)
    except ValueError:
        return False


def read_plink(path: Path) -> Answer:
    with open_bed(path, num_threads=1) as bed:
        y = np.array([float(text) if is_number(text) else np.nan for text in bed.pheno])
        y[y == -9] = np.nan
        return answer(bed.read(dtype="float64"), y, bed.sid)


def read_folder(path: Path) -> Answer:
    """The arrays of a prepared folder whose checksums are all right."""
    fields = json.loads((path / "meta.json").read_bytes())
    for name, (size, crc) in fields["files"].items():
        content = (path / name).read_bytes()
        if (len(content), zlib.crc32(content)) != (size, crc):
            raise ValueError(f"the checksum of {name} is wrong")
    if fields.get("checksum") != seal(fields)["checksum"]:
        raise ValueError("the checksum of meta.json is wrong")
    has_target = "target.npy" in fields["files"]
    y = np.load(path / "target.npy") if has_target else Y[np.load(path / "original_rows.npy")]
    names = json.loads((path / "names.json").read_bytes())
    cells = np.load(path / "columns.npy")
    return answer(cells, y, names) if list(cells.shape) == fields["shape"] else answer(0)


def seal(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of ``meta.json`` with their checksum."""
    own = {
        k: tuple(v) if isinstance(v, list) else v for k, v in fields.items() if k in Record.__annotations__
    }
    record = Record(**own | {"files": {name: Written(*w) for name, w in fields["files"].items()}})
    return fields | {"checksum": record.checksum}


def read_result(path: Path) -> Answer:
    return {"text": json.dumps(json.loads(path.read_text())["fields"], sort_keys=True)}


def joined(read: Callable[[Path], Any]) -> Callable[[Path], Answer]:
    """The reference of a target in a file with sample ids."""

    def find(path: Path) -> Answer:
        values = pd.Series(read(path).set_index("id")["value"])
        return answer(X, pd.to_numeric(values.reindex(IDS)), NAMES)

    return find


def read_pheno(path: Path) -> Any:
    return read_exactly(path, sep=r"\s+", header=None, names=["fid", "id", "value"], usecols=[0, 1, 2])


def read_exactly(path: Path, **options: Any) -> Any:
    """A table of text; pandas rounds numbers otherwise."""
    return pd.read_csv(path, float_precision="round_trip", **options)


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
    "csv, converted": Case("x.csv", lambda path: files.write_csv(X, NAMES), *CSV, **ON_DISK),
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
    "shuffled": Case("x.shuffled", folder(X), *FOLDER, weight=2),
    "shuffled, ids": Case("x.shuffled", folder(X, ids=IDS), *FOLDER, weight=2),
    "shuffled, no target": Case("x.shuffled", folder(X, None), *FOLDER[:2]),
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
    "result": Case("x.json", write_result, read_result, "json", weight=2),
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
