"""Small files in every format, written as other programs write them."""

import atexit
import tempfile
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import scipy.sparse as sp
import zarr
from bed_reader import to_bed

from banditsis import open_source
from banditsis.formats.dataset import open_side
from banditsis.formats.opened import DEFAULTS, ReadOptions
from banditsis.formats.opening import open_any
from banditsis.formats.zarr import ZarrSource, ZarrStore

_folder = tempfile.TemporaryDirectory()
atexit.register(_folder.cleanup)
FOLDER = Path(_folder.name)


def open_file(path, columns=(), options=DEFAULTS):
    """The source, the ids and the values of some columns of data, and their names."""
    opened = open_any(path, options)
    labels = [opened.find(column) for column in columns]
    values = [opened.values(label) for label in labels]
    return SimpleNamespace(source=opened.source(), ids=opened.ids, values=values, labels=labels)


def read_target(path, column=None, **options):
    """The values, ids, name and note of one column of a file of targets."""
    side, columns = open_side(path, [column], ReadOptions(**options))
    (name,) = columns[column]
    return SimpleNamespace(values=side.values(name), ids=side.ids, column=name, note=side.notes.get(name, ""))


def read_all(data, **options):
    """All cells of a source, or of what can be opened as one."""
    source = data if hasattr(data, "read") else open_source(data, **options)
    return source.read(slice(0, source.shape[0]), None)


def new_path(name, content=None):
    """A path of this name in a folder of its own; a file of text or bytes, if these are given."""
    path = Path(tempfile.mkdtemp(dir=FOLDER)) / name
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def table(X, names, **more):
    return pa.table({**{name: pa.array(x) for name, x in zip(names, X.T, strict=True)}, **more})


def write_tables(ending, *tables):
    """Tables of the same columns, as groups of rows of a Parquet or Arrow file."""
    path = new_path(f"x.{ending}")
    with (pq.ParquetWriter if ending == "parquet" else pa.ipc.new_file)(path, tables[0].schema) as writer:
        for part in tables:
            writer.write_table(part)
    return path


def write_parquet(X, names):
    path = new_path("data.parquet")
    pq.write_table(table(X, names), path, row_group_size=64)
    return path


def write_parquet_folder(X, names):
    path = new_path("parts")
    path.mkdir()
    third = len(X) // 3
    pq.write_table(table(X[:third], names), path / "a.parquet", row_group_size=64)
    pq.write_table(table(X[third:], names), path / "b.parquet", row_group_size=300)
    return path


def write_feather(X, names):
    path = new_path("data.feather")
    pa.feather.write_feather(table(X, names), path, compression="lz4", chunksize=50)
    return path


def write_csv(X, names, name="data.csv"):
    lines = [",".join("" if np.isnan(v) else repr(float(v)) for v in row) for row in X]
    return new_path(name, "\n".join([*([",".join(names)] if names else []), *lines]) + "\n")


def write_bed(X, names):
    """Genotypes made of the cells; PLINK names them itself."""
    path = new_path("data.bed")
    to_bed(path, np.round(np.abs(X)) % 3)
    return path


def write_zarr(X, names, name="data.zarr", **options):
    path = new_path(name)
    zarr.create_array(str(path), data=X, attributes={"names": names}, **options)
    return path


def zarr_in_memory(X, names):
    array = zarr.create_array({}, data=X, chunks=(64, 5))
    return ZarrSource(ZarrStore("memory", None, None), array, names)


def write_hdf5(X, names, **options):
    path = new_path("data.h5")
    with h5py.File(path, "w") as file:
        data = file.create_dataset("features", data=X, **options)
        data.attrs["names"] = names
    return path


def open_large(X, names, write, kind, **options):
    """A sparse AnnData file that is not held in memory."""
    return open_source(write(X, names, kind, **options), memory_limit=1)


def write_h5ad(X, names, kind=None, **options):
    """As the description of anndata's on-disk format has it."""
    path = new_path("data.h5ad")
    with h5py.File(path, "w") as file:
        if kind is None:
            file.create_dataset("X", data=X, **options)
        else:
            # All cells, zeros too: NaN and rounding stay as they are.
            matrix = sp.csr_array(X) if kind == "csr_matrix" else sp.csc_array(X)
            group = file.create_group("X")
            group.attrs.update({"encoding-type": kind, "shape": X.shape})
            for part in ("data", "indices", "indptr"):
                group.create_dataset(part, data=getattr(matrix, part), **options)
        for part, labels in (("obs", [f"cell{i}" for i in range(len(X))]), ("var", names)):
            group = file.create_group(part)
            group.attrs["_index"] = "_index"
            group["_index"] = np.array(labels, dtype=object)
        group = file.create_group("obs/kind")
        group.attrs["encoding-type"] = "categorical"
        group["categories"] = np.array(["B", "T"], dtype=object)
        group["codes"] = (np.arange(len(X)) % 2).astype("i1")
        file["obs/age"] = np.arange(len(X), dtype=float)
    return path


def write_anndata_zarr(X, names, kind=None, **options):
    """The content of a .h5ad file as a Zarr store."""
    path = new_path("data.zarr")
    root = zarr.create_group(str(path), attributes={"encoding-type": "anndata"}, **options)

    def copy(name, node):
        if isinstance(node, h5py.Group):
            attributes = {key: np.asarray(value).tolist() for key, value in node.attrs.items()}
            root.create_group(name, attributes=attributes)
        else:
            is_text = node.dtype.kind == "O"
            data = node.asstr()[...].astype(np.dtypes.StringDType()) if is_text else node[...]
            root.create_array(name, data=data, chunks=tuple(min(50, length) for length in node.shape))

    with h5py.File(write_h5ad(X, names, kind)) as file:
        file.visititems(copy)
    return path


def churn_table(path, n_rows=20_000):
    """Write a CSV as most tables are: 60 numbers, a factor, a date, an id, and a target Yes or No (24% Yes).

    The target falls with f7, rises with f3, and is more frequent in one of three cities; f5 has 3% gaps.
    """
    rng = np.random.default_rng(7)
    X = rng.standard_normal((n_rows, 60))
    city = rng.choice(["Bergen", "Oslo", "Tromsø"], n_rows, p=[0.4, 0.35, 0.25])
    eta = -1.8 - 1.1 * X[:, 7] + 1.05 * X[:, 3] + 0.5 * (city == "Oslo") - 0.1 * (city == "Bergen")
    churn = np.where(rng.random(n_rows) < 1 / (1 + np.exp(-eta)), "Yes", "No")
    days = np.datetime64("2019-01-01") + rng.integers(0, 1500, n_rows)
    columns = {f"f{j}": np.char.mod("%.4f", X[:, j]) for j in range(60)}
    columns["f5"] = np.where(rng.random(n_rows) < 0.03, "", columns["f5"])
    columns = {"customer_id": 100_000 + rng.permutation(n_rows), "signup": days, "city": city, **columns}
    columns["churn"] = churn
    lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    Path(path).write_text("\n".join([",".join(columns), *lines]) + "\n", encoding="utf-8")
    return Path(path)
