"""What other libraries read of the inputs of the fuzz test; answers are compared with it."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

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
from bed_reader import open_bed
from sklearn.datasets import load_svmlight_file

from banditsis import Plan, screen
from banditsis.index.folder import Record

rng = np.random.default_rng(0)
X, Y = rng.standard_normal((300, 12)), rng.standard_normal(300)
SPARSE = np.where(rng.random(X.shape) < 0.3, X, 0.0)
GENOTYPES = np.abs(X).round() % 3
NAMES, IDS = [f"x{j}" for j in range(12)], [f"s{i}" for i in range(300)]
CSR, CSC, COO = sp.csr_array(SPARSE), sp.csc_array(SPARSE), sp.coo_array(SPARSE)

#: What a reader found: "X", and "y" or "names" if it reads them.
Answer = dict[str, Any]


COMPRESS = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


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
        found["names"] = [str(name) for name in names]  # an array would drop zero bytes at their ends
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
        blanks = [*pa.csv.ConvertOptions().null_values, "\t"]  # a cell of blanks is missing
        options = pa.csv.ConvertOptions(strings_can_be_null=True, null_values=blanks)
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
    own = {name: value for name, value in fields.items() if name in Record.__annotations__}
    return fields | {"checksum": Record(**own).checksum}


def joined(read: Callable[[Path], Any]) -> Callable[[Path], Answer]:
    """The reference of a target in a file with sample ids."""

    def find(path: Path) -> Answer:
        values = pd.Series(read(path).set_index("id")["value"])
        return answer(X, pd.to_numeric(values.reindex(IDS)), NAMES)

    return find


def read_pheno(path: Path) -> Any:
    return read_exactly(path, sep=r"\s+", header=None, names=["fid", "id", "value"], usecols=[0, 1, 2])


def read_exactly(path: Path, **options: Any) -> Any:
    """A table of text; pandas would round numbers, and leave out what follows a zero byte."""
    content = path.read_bytes()
    if b"\0" in (gzip.decompress(content) if path.suffix == ".gz" else content):
        raise ValueError("a zero byte")
    return pd.read_csv(path, float_precision="round_trip", **options)


def difference(ours: Answer, theirs: Answer) -> str:
    """How two answers differ, and how the parts of ours contradict each other."""
    X, y = theirs["X"], theirs["y"]
    if ours["shape"] != X.shape:
        return f"shape {ours['shape']} instead of {X.shape}"
    n, p = X.shape
    parts = {"X": X, "column": X[:, [p // 2]], "rows": X[np.unique([0, n // 2, n - 1])], "y": y}
    for name, part in parts.items():
        if name in ours and not same(ours[name], part):
            return name
    names = ours["names"] if "names" in theirs else None
    if names is not None and list(names) != list(map(str, theirs["names"])):
        return "names"
    is_tame = np.asarray(y).dtype.kind in "fiu" and max(np.abs(X).max(), np.abs(y).max()) < 1e6
    if "scores" in ours and is_tame:  # which is False for NaN
        scores = screen(X, y, Plan.exact(n, p, p), n_jobs=1).scores
        if not np.allclose(ours["scores"], scores, 1e-4, 1e-6, equal_nan=True):
            return "scores"
    return ""


def same(ours: Any, theirs: Any) -> bool:
    """Whether two arrays are equal; numbers and their text are."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.shape != theirs.shape:
        return False
    if ours.dtype.kind in "fiub" and theirs.dtype.kind in "fiub":
        return np.array_equal(ours.astype(np.float64), theirs.astype(np.float64), equal_nan=True)
    return list(map(str, ours.tolist())) == list(map(str, theirs.tolist()))
