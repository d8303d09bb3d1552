"""Files: which format one has, and who opens it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.arrays import Array
from banditsis.sources.base import Source
from banditsis.sources.views import ColumnSubset
from banditsis.store.layout import is_shuffled


class Opened(NamedTuple):
    """A file that has been opened."""

    source: Source
    #: the target, if a column of the same file was asked for
    y: Array | None = None
    #: ids of the rows, as strings, if the file has them
    ids: Array | None = None
    #: the name of the target's column, where it is known
    label: str | None = None


class ColumnNotFoundError(ValueError):
    """A column that is not there."""


#: Who opens a format: ``open_<format>(path, target, *, one_hot, memory_limit) -> Opened``.
OPENERS = {
    "npy": "banditsis.formats.numpy:open_npy",
    "npz": "banditsis.formats.numpy:open_npz",
    "matrixmarket": "banditsis.formats.text:open_matrixmarket",
    "svmlight": "banditsis.formats.text:open_svmlight",
    "parquet": "banditsis.formats.parquet:open_parquet",
    "arrow": "banditsis.formats.arrow:open_arrow",
    "csv": "banditsis.formats.csv:open_csv",
    "zarr": "banditsis.formats.zarr:open_zarr",
    "shuffled": "banditsis.store.reader:open_shuffled",
    "hdf5": "banditsis.formats.hdf5:open_hdf5",
    "h5ad": "banditsis.formats.h5ad:open_h5ad",
    "plink": "banditsis.formats.plink:open_plink",
}


#: What a name may end in.
EXTENSIONS = {
    ".npy": "npy",
    ".npz": "npz",
    ".mtx": "matrixmarket",
    ".mtx.gz": "matrixmarket",
    ".svmlight": "svmlight",
    ".svm": "svmlight",
    ".libsvm": "svmlight",
    ".svmlight.gz": "svmlight",
    ".svm.gz": "svmlight",
    ".libsvm.gz": "svmlight",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".txt": "csv",
    ".txt.gz": "csv",
    ".zarr": "zarr",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".h5ad": "h5ad",
    ".bed": "plink",
}


#: How a file of a format begins.
_BEGINNINGS = {
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    b"%%MatrixMarket": "matrixmarket",
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\x89HDF\r\n\x1a\n": "hdf5",
    b"\x6c\x1b\x01": "plink",
    b"\x1f\x8b": "gzip",
}


_FOLDERS = {"zarr.json": "zarr", ".zarray": "zarr", ".zgroup": "zarr"}


_LABELS = {
    "npy": "NumPy",
    "npz": "NumPy or SciPy .npz (zip)",
    "matrixmarket": "Matrix Market",
    "svmlight": "svmlight",
    "parquet": "Parquet",
    "arrow": "Arrow or Feather",
    "csv": "CSV",
    "zarr": "Zarr",
    "shuffled": "shuffled Zarr",
    "hdf5": "HDF5",
    "h5ad": "AnnData (.h5ad)",
    "plink": "PLINK",
    "gzip": "gzip",
    "frames": "frames",
    "text": "text",
}


def open_file(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    one_hot: bool = False,
    memory_limit: int | None = None,
    ids_like: Sequence[str] | None = None,
) -> Opened:
    """Open a file or folder of features, whatever its format.

    Parameters
    ----------
    path : str or path
        The file.
    target : str, optional
        A column of the same file, by name or 1-based number: it is taken out of the features.
    one_hot : bool
        Whether columns that are no numbers become one feature for each of their values.
    memory_limit : int, optional
        Bytes that may be used for what has to be held in memory.
    ids_like : sequence of str, optional
        What the ids of samples are called elsewhere: a column of a table that is named as ids are
        is then that, and no feature.
    """
    path = Path(path)
    module, function = OPENERS[find_format(path)].split(":")
    opened: Opened = getattr(import_module(module), function)(
        path, target, one_hot=one_hot, memory_limit=memory_limit, ids_like=ids_like
    )
    n, p = opened.source.shape
    if n == 0 or p == 0:
        what = "rows" if n == 0 else "features" if target is None else "features besides the target"
        raise ValueError(f"{path} has no {what}.")
    return opened


def find_format(path: str | os.PathLike[str]) -> str:
    """The format of a file by its name, checked against how its content begins.

    Examples
    --------
    >>> find_format("nothing/here.npy")
    Traceback (most recent call last):
    FileNotFoundError: nothing/here.npy does not exist: check the name and the folder.
    """
    path = split_path(Path(path))[0]
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: check the name and the folder{_near_files(path)}.")
    if path.is_dir():
        return _folder_format(path)
    named, found = _by_name(path), _by_content(path)
    if named is None:
        if found is not None and found != "gzip":
            return found
        raise ValueError(
            f"{path} has an extension that says nothing of its format: rename it so that it ends in one of "
            f"{', '.join(EXTENSIONS)}."
        )
    if found != _begins_as(named, path):
        raise ValueError(f"{path} is named as a {_LABELS[named]} file, and {_contradiction(path, found)}")
    return named


def _contradiction(path: Path, found: str | None) -> str:
    if found is None:
        return "its content is not: it may be damaged, or was written by another program."
    if found == "gzip":
        return f"its content is that of a gzip file: rename it to {path.name}.gz, or unpack it."
    return f"its content is that of a {_LABELS[found]} file: rename it, so that its name says so."


def split_path(path: Path) -> tuple[Path, str | None]:
    """A file, and the path within it that stands behind a colon.

    Examples
    --------
    >>> split_path(Path("data.h5:/counts/raw"))[1]
    '/counts/raw'
    """
    outer, colon, inner = str(path).partition(":/")
    return (Path(outer), "/" + inner) if colon and not path.exists() else (path, None)


def _by_name(path: Path) -> str | None:
    name = path.name.lower()
    fitting = [extension for extension in EXTENSIONS if name.endswith(extension)]
    return EXTENSIONS[max(fitting, key=len)] if fitting else None


def _by_content(path: Path) -> str | None:
    with open(path, "rb") as file:
        head = file.read(16)
    if not head:
        raise ValueError(f"{path} is empty.")
    return next((name for beginning, name in _BEGINNINGS.items() if head.startswith(beginning)), None)


def _begins_as(named: str, path: Path) -> str | None:
    """What the content of a file so named begins as, None for text."""
    if path.name.lower().endswith(".gz"):
        return "gzip"
    if named == "h5ad":
        return "hdf5"
    return named if named in _BEGINNINGS.values() else None


def _folder_format(path: Path) -> str:
    """A folder is a Zarr store, or holds files of one format."""
    if path.name.endswith(".partial") and (path / "journal.jsonl").exists():
        raise ValueError(f"{path} is an unfinished shuffle: give the same `banditsis shuffle` command again.")
    entries = sorted(entry for entry in path.iterdir() if entry.name in _FOLDERS or entry.name[0] not in "._")
    for entry in entries:
        if entry.name in _FOLDERS:
            return "shuffled" if is_shuffled(path) else _FOLDERS[entry.name]
    if path.suffix.lower() == ".zarr":  # one without its metadata
        return "zarr"
    formats = {_folder_format(entry) if entry.is_dir() else _by_name(entry) for entry in entries} - {None}
    if len(formats) == 1 and formats <= {"parquet", "arrow"}:
        return str(formats.pop())
    held = "nothing" if not entries else ", ".join(entry.name for entry in entries[:3])
    raise ValueError(
        f"{path} is a folder, but neither a Zarr store nor one of Parquet or Arrow files: it holds {held}."
    )


def _near_files(path: Path) -> str:
    parent = path.parent
    if not parent.is_dir():
        return ""
    near = difflib.get_close_matches(path.name, [entry.name for entry in parent.iterdir()], 1)
    return f" (there is {near[0]})" if near else ""


def find_column(names: Sequence[str], wanted: str, where: object) -> int:
    """Index of a column by its name, or by its 1-based number if no column has that name.

    Examples
    --------
    >>> find_column(["age", "price"], "price", "data.csv"), find_column(["age", "price"], "1", "data.csv")
    (1, 0)
    """
    names = list(names)
    if wanted in names:
        return names.index(wanted)
    if wanted.isdigit() and 1 <= int(wanted) <= len(names):
        return int(wanted) - 1
    near = difflib.get_close_matches(wanted, names, 3, 0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {_some(names)}."
    raise ColumnNotFoundError(f"{where} has no column {wanted!r}: {hint}")


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:5]))
    return shown + (f", … ({len(names):,} columns)" if len(names) > 5 else "") if names else "no columns"


def import_optional(module: str, extra: str, what: str | None = None) -> Any:
    """Import an optional library, or say how to install it.

    Examples
    --------
    >>> need("no_such_library", "parquet")
    Traceback (most recent call last):
    ImportError: reading Parquet needs no-such-library: pip install 'banditsis[parquet]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0].replace("_", "-")
        raise ImportError(
            f"reading {what or _LABELS.get(extra, extra)} needs {package}: pip install 'banditsis[{extra}]'"
        ) from error


def format_label(name: str) -> str:
    """What a format is called in sentences.

    Examples
    --------
    >>> format_label("h5ad")
    'AnnData (.h5ad)'
    """
    return _LABELS[name]


def check_memory(path: Path, n_bytes: int, limit: int | None) -> None:
    """Refuse to read a file into memory that is larger than allowed."""
    if limit is not None and n_bytes > limit:
        raise ValueError(
            f"{path} has to be read into memory, and its {n_bytes:,} bytes are more than the limit of "
            f"{limit:,}: raise the limit, or convert the file to Parquet or Zarr."
        )


def split_target_column(source: Source, target: str, where: object, ids: Array | None = None) -> Opened:
    """Take a column out of the features of a source and read it as the target."""
    n, p = source.shape
    column = find_column([source.name(j) for j in range(p)], target, where)
    y = source.read(slice(0, n), slice(column, column + 1))[:, 0]
    return Opened(ColumnSubset.without(source, column), np.array(y), ids, source.name(column))
