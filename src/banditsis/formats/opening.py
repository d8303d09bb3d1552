"""Open any kind of data: arrays, frames, sparse matrices, and files, whose format is found here."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.validation import is_dask, is_frame, is_on_gpu
from banditsis.formats.files import LocalCopy, check_is_file, connect, find_prefix, is_url, split_path
from banditsis.formats.opened import DEFAULTS, Opened, OpenedMatrix, Patterns, ReadOptions, check_unique_names
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source
from banditsis.sources.memmap import MappedSource, find_memmap


class Format(NamedTuple):
    """How files of a format are recognised, and how they are opened or what to do instead."""

    label: str  # of files that cannot be read, with an article
    extensions: tuple[str, ...]
    signature: bytes = b""  # a pattern of the first bytes, if there is one
    opener: str = ""  # ``module:function``, called as ``function(path, options)``
    remedy: str = ""  # what to do with files that cannot be read


#: Compressions of text, by the last suffix of a name.
COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
#: Tables of PLINK and GCTA, which begin with family and individual.
PLINK_TABLES = (".pheno", ".phen", ".cov", ".covar", ".qcovar", ".eigenvec")
TEXT = tuple(name + suffix for name in (".csv", ".tsv", ".txt") for suffix in ("", *COMPRESSIONS))
TEXT += (".dat", ".tab", ".fam", *PLINK_TABLES)
SVMLIGHT = tuple(name + suffix for name in (".svmlight", ".svm", ".libsvm") for suffix in ("", ".gz"))
_UNPACK = "unpack it, or if it is a table of text, rename it to end in .csv{}"
_BED = "convert it, as in plink2 --{} --make-bed"
_PANDAS = "write it as Parquet, as in pandas.read_…(FILE).to_parquet('table.parquet')"
_CSV = "save its table as CSV"
#: Converts tables of text in a stream.
TO_PARQUET = "duckdb -c \"COPY (FROM '{}') TO '{}.parquet'\""
_XARRAY = "open it with xarray, and pass a frame: open_source(xarray.open_dataset(FILE)[name].to_pandas())"
_PICKLES = (".json", ".jsonl", ".ndjson", ".orc", ".pkl", ".pickle", ".dta", ".sas7bdat", ".xpt", ".sav")
_EXCEL, _PLINK2 = (".xls", ".xlsx", ".xlsb"), (".pgen", ".pvar", ".psam")
_HDF5 = rb"\x89HDF\r\n\x1a\n"

#: The first whose signature matches is what a file contains. No table of text begins with a signature.
FORMATS = {
    "gzip": Format("a gzip file", (".gz",), rb"\x1f\x8b", remedy=_UNPACK.format(".gz")),
    "bzip2": Format("a bzip2 file", (".bz2",), rb"BZh.1AY&SY", remedy=_UNPACK.format(".bz2")),
    "xz": Format("an xz file", (".xz",), rb"\xfd7zXZ\0", remedy=_UNPACK.format(".xz")),
    "zstd": Format("a zstd file", (".zst",), rb"\x28\xb5\x2f\xfd", remedy=_UNPACK.format(".zst")),
    "vcf": Format("a VCF file", (".vcf", ".vcf.gz"), b"##fileformat=VCF", remedy=_BED.format("vcf FILE")),
    "bgen": Format("a BGEN file", (".bgen",), rb".{3}\0.{12}bgen", remedy=_BED.format("bgen FILE ref-first")),
    "pgen": Format("a PLINK 2 file", _PLINK2, rb"\x6c\x1b[\2-\4\x10\x11]", remedy=_BED.format("pfile x")),
    "netcdf": Format("a netCDF file", (".nc", ".nc4", ".cdf"), rb"CDF[\1\2\5]", remedy=_XARRAY),
    "r": Format("an R file", (".rds", ".rda", ".rdata"), remedy="write it with arrow::write_parquet(…)"),
    "zip": Format("a zip archive", (".zip",), remedy="unpack it, and open what it contains"),
    "excel": Format("an Excel workbook", _EXCEL, rb"\xd0\xcf\x11\xe0", remedy=_CSV),
    "sqlite": Format("an SQLite file", (".sqlite", ".sqlite3"), rb"SQLite format 3\0", remedy=_CSV),
    "pandas": Format("a table that only pandas reads", _PICKLES, remedy=_PANDAS),
    "npy": Format("NumPy", (".npy",), rb"\x93NUMPY", "numpy:open_npy"),
    "npz": Format("NumPy or SciPy .npz (zip)", (".npz",), rb"PK\x03\x04", "numpy:open_npz"),
    "matrixmarket": Format("Matrix Market", (".mtx", ".mtx.gz"), rb"%%MatrixMarket", "numpy:open_market"),
    "svmlight": Format("svmlight", SVMLIGHT, b"", "numpy:open_svmlight"),
    "parquet": Format("Parquet", (".parquet", ".pq"), rb"PAR1", "tables:open_arrow"),
    "arrow": Format("Arrow or Feather", (".arrow", ".feather", ".ipc"), rb"ARROW1", "tables:open_arrow"),
    "csv": Format("CSV", TEXT, b"", "text:OpenedText"),
    "zarr": Format("Zarr", (".zarr",), b"", "zarr:open_zarr"),
    "index": Format("index", (".index",), b"", "banditsis.index.reader:open_index"),
    "hdf5": Format("HDF5", (".h5", ".hdf5"), _HDF5, "hdf5:open_hdf5"),
    "h5ad": Format("AnnData (.h5ad)", (".h5ad",), _HDF5, "hdf5:open_hdf5"),
    "plink": Format("PLINK", (".bed",), rb"\x6c\x1b", "plink:open_plink"),
}
#: The file that describes an index, and its key for the version of the layout.
META, PREPARED = "meta.json", "banditsis_index"
ZARR_METADATA = ("zarr.json", ".zarray", ".zgroup")


def open_source(
    data: Any,
    names: Sequence[str] | None = None,
    *,
    columns: Patterns = (),
    drop: Patterns = (),
    id_column: str | None = None,
    one_hot: bool | int = False,
    dates: str = "skip",
    na: Patterns = (),
    memory_limit: int | None = None,
) -> Source:
    """Open an array, a frame or a file as a source.

    Parameters
    ----------
    data : array-like of shape (n, p), frame, AnnData, path or URL, Arrow stream, or Source
        Arrays are not copied. A stream, such as ``duckdb.sql("SELECT …")``, is read into memory once. A list
        of :doc:`indexes </indexes>` of the same features is opened as one.
    names : sequence of str, optional
        Names of all columns; by default those of the data, or x0, x1, ….
    columns, drop : str or sequence of str
        The features to use, or not to use: names, 1-based numbers, or patterns such as ``"snp_*"``.
    id_column : str, optional
        The column of sample ids, on which other files are joined; not a feature.
    one_hot : bool or int
        Whether to one-hot encode columns of text and categories with at most so many levels (10,000 if
        True); otherwise they are skipped with a note. Two levels become the indicator of the second.
    dates : {"skip", "numeric"}
        Whether columns of dates and times are skipped with a note, or used as numbers.
    na : str or sequence of str
        Text that stands for a missing value in tables of text, besides the usual codes: ``na="-9"`` matches
        the cell ``-9`` and not ``-9.0``.
    memory_limit : int, optional
        Bytes that may be used for data that must be held in memory.

    Returns
    -------
    Source

    Examples
    --------
    >>> import numpy as np
    >>> source = open_source(np.zeros((5, 3)))
    >>> source.shape, source.name(2)
    ((5, 3), 'x2')
    """
    options = ReadOptions(names, columns, drop, id_column, one_hot, dates, na, memory_limit).checked()
    return open_any(data, options).source()


def open_features(X: Any) -> Source:
    """Open the features of a call: all columns of a frame must be numeric."""
    return open_any(X, ReadOptions(strict=is_frame(X))).source()


def open_any(data: Any, options: ReadOptions = DEFAULTS) -> Opened:
    """Open any kind of data."""
    if isinstance(data, (str, os.PathLike)):
        return open_file(data, options)
    items = data if isinstance(data, (list, tuple)) else ()
    if items and all(isinstance(item, (str, os.PathLike)) for item in items):
        opened = find_opener("index")(data, options)  # several indexes, which are one
        opened.label = " and ".join(map(str, data))
        return opened
    is_stream = hasattr(data, "__arrow_c_stream__") and not hasattr(data, "ndim")  # as arrays of xarray have
    if is_stream and not is_frame(data):
        import pyarrow as pa  # only tables need it

        data = pa.table(data)  # a query is read once: it could return its rows in another order next time
    if is_frame(data):
        from banditsis.formats.tables import OpenedFrame  # only frames need it

        return OpenedFrame(data, options)
    if is_anndata(data):
        return open_anndata_object(data, "X", options)
    if isinstance(data, Source):
        return OpenedMatrix(data, "X", options._replace(names=None))
    return OpenedMatrix(open_in_memory(data), "X", options)


def is_anndata(data: Any) -> bool:
    """Whether data is an AnnData object."""
    return all(hasattr(data, part) for part in ("obs", "var", "obs_names", "var_names", "isbacked"))


def is_sparse(data: Any) -> bool:
    """Whether data is a sparse matrix or array of SciPy."""
    return hasattr(data, "toarray") and hasattr(data, "nnz")


def open_in_memory(data: Any) -> Source:
    """Open an array of any kind, or a matrix of SciPy."""
    if is_dask(data):
        from banditsis.formats.tables import frame_names
        from banditsis.sources.dask import DaskSource

        return DaskSource(data, frame_names(data) if hasattr(data, "columns") else None)
    if is_on_gpu(data):
        from banditsis.sources.gpu import GpuSource

        return GpuSource(data)
    if is_sparse(data):
        from banditsis.sources.sparse import SparseSource

        return SparseSource(data)
    if find_memmap(data) is not None:
        return MappedSource(data)
    return ArraySource(data.to_numpy() if hasattr(data, "to_numpy") else np.asanyarray(data))


def open_anndata_object(data: Any, matrix: str = "X", options: ReadOptions = DEFAULTS) -> OpenedMatrix:
    """Open a matrix of an AnnData object: ``X``, ``raw/X`` or ``layers/name``.

    What the object reads from a file when needed is read from there in parts; only a view of such an object
    is loaded, by anndata. The columns of ``obs`` are those of the object.
    """
    from banditsis.formats.tables import OpenedFrame  # only frames need it

    raw: Any = data.raw
    others = [f"layers/{name}" for name in data.layers if name is not None]  # None is X in anndata 0.13
    others = others if raw is None else ["raw/X", *others]
    cells: Any = None
    if matrix in ("X", "raw/X") and data.isbacked and not data.is_view:  # layers are in memory
        limits = ReadOptions(memory_limit=options.memory_limit)
        cells = open_file(f"{data.filename}:/{matrix}", limits).source()
    elif matrix == "X":
        cells = data.X
    elif matrix in others:
        cells = raw.X if matrix == "raw/X" else data.layers[matrix.removeprefix("layers/")]
    if cells is None:
        raise ValueError(f"the AnnData object has no {matrix}; it has {', '.join(others) or 'no matrix'}.")
    source = cells if isinstance(cells, Source) else open_in_memory(cells)
    source.names = list(map(str, (raw if matrix == "raw/X" else data).var_names))
    check_unique_names(source.names, "X")
    obs = OpenedFrame(data.obs, DEFAULTS)
    columns = {name: partial(obs.values, name) for name in obs.names}
    return OpenedMatrix(source, "X", options, partial(np.array, data.obs_names, str), columns)


def open_file(path: str | os.PathLike[str], options: ReadOptions = DEFAULTS) -> Opened:
    """Open a file or folder of any format, or a copy of a remote one.

    Remote Zarr arrays and indexes are opened in place, which reads requested parts only.
    """
    key, (outer, inner) = find_format(path), split_path(path)
    if is_url(path) and key not in ("index", "zarr"):
        copy = LocalCopy(str(outer))
        with copy.explained():
            opened = open_file(f"{copy.path}:/{inner}" if inner else copy.path, options)
        opened.where, opened.copy, opened.label = str(outer), copy, str(path)
        return opened
    if is_url(path):
        connect("/".join(filter(None, (str(outer), inner))))  # raises if it does not exist
    opened = find_opener(key)(str(path) if is_url(path) else Path(find_prefix(path)), options)
    opened.label = str(path)
    if isinstance(opened, OpenedMatrix) and options.wanted is None and 0 in opened.shape:
        raise ValueError(f"{path} has no {'rows' if opened.shape[0] == 0 else 'features'}.")
    return opened


def find_opener(key: str) -> Callable[[Any, ReadOptions], Opened]:
    """The function that opens files of a format."""
    module, function = FORMATS[key].opener.split(":")
    module = module if "." in module else f"banditsis.formats.{module}"
    found: Callable[[Any, ReadOptions], Opened] = getattr(import_module(module), function)
    return found


def find_format(path: str | os.PathLike[str]) -> str:
    """The format that the name of a file declares, checked against its first bytes."""
    if is_url(path):
        store = re.sub(r"\.zarr/.*", ".zarr", str(split_path(path)[0]))  # of an array within it
        return _readable(path, _match_name(Path(store)))
    path = Path(split_path(path)[0])
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: check the name and the folder.")
    if path.is_dir():
        return _folder_format(path)
    check_is_file(path)
    with open(path, "rb") as file:
        head = file.read(32)
    if not head:
        raise ValueError(f"{path} is empty.")
    matching = (k for k, f in FORMATS.items() if f.signature and re.match(f.signature, head, re.DOTALL))
    named, content = _match_name(path), next(matching, None)  # None for text and unknown formats
    if named is None:
        return _readable(path, content)
    expected = FORMATS[COMPRESSIONS.get(path.suffix.lower(), _readable(path, named))]
    if expected.signature == (b"" if content is None else FORMATS[content].signature):
        return named
    if content is None:
        problem = "its content is not: it may be damaged, or was written by another program."
    else:
        label = FORMATS[_readable(path, content)].label
        problem = f"its content is that of a {label} file: change its extension."
    raise ValueError(f"{path} is named as a {FORMATS[named].label} file, but {problem}")


def _readable(path: object, name: str | None) -> str:
    """The name of a format; raise if it is unknown or cannot be read."""
    if name is None:
        plain = [e for f in FORMATS.values() if f.opener for e in f.extensions if e.count(".") == 1]
        raise ValueError(f"{path} has an unknown extension: rename it to end in one of {', '.join(plain)}.")
    if FORMATS[name].remedy:
        label, *_, remedy = FORMATS[name]
        raise ValueError(f"{path} is {label}, which cannot be read: {remedy}.")
    return name


def _match_name(path: Path) -> str | None:
    """The format with the longest extension that a name ends in."""
    name = path.name.lower()
    found = {e: key for key, f in FORMATS.items() for e in f.extensions if name.endswith(e)}
    return found[max(found, key=len)] if found else None


def _folder_format(path: Path) -> str:
    """A folder is an index or a Zarr store, or contains Parquet or Arrow files."""
    if is_index(path):
        return "index"
    if path.name.endswith(".partial") and (path / "scratch").is_dir():
        raise ValueError(f"{path} is an unfinished index: delete it, and run `banditsis index` again.")
    if path.suffix.lower() == ".zarr" or any((path / name).exists() for name in ZARR_METADATA):
        return "zarr"
    entries = sorted(entry for entry in path.iterdir() if entry.name[0] not in "._")
    formats = {_folder_format(e) if e.is_dir() else _match_name(e) for e in entries} - {None}
    formats = {name for name in formats if FORMATS[str(name)].opener}
    if len(formats) == 1 and formats <= {"parquet", "arrow"}:
        return str(formats.pop())
    if formats == {"csv"}:
        command = TO_PARQUET.format(path / "*.csv", path.name)
        raise ValueError(f"{path} is a folder of CSV files: convert it, as in {command}.")
    content = "nothing" if not entries else ", ".join(entry.name for entry in entries[:3])
    raise ValueError(
        f"{path} is a folder, but neither a Zarr store nor one of Parquet or Arrow files alone: it contains "
        f"{content}."
    )


def is_index(path: Path) -> bool:
    """Whether a folder is one that ``banditsis index`` wrote."""
    try:
        return PREPARED in json.loads((path / META).read_bytes())
    except (OSError, ValueError, TypeError, RecursionError):
        return False
