"""File formats: how a file's format is found, and which function opens it."""

from __future__ import annotations

import json
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from banditsis.formats.opened import Opened, OpenedMatrix
from banditsis.formats.options import DEFAULTS, ReadOptions
from banditsis.formats.unsupported import check_supported


class Format(NamedTuple):
    """How files of a format are recognised and opened."""

    label: str
    #: ``module:function``, called as ``function(path, options)``
    opener: str
    extensions: tuple[str, ...] = ()
    #: pattern of the first bytes of a file, empty for text and folders
    signature: bytes = b""


#: Compressions of text: label and pattern of the first bytes, by the last suffix of a name.
COMPRESSIONS = {
    ".gz": ("gzip", rb"\x1f\x8b"),
    ".bz2": ("bzip2", rb"BZh.1AY&SY"),
    ".xz": ("xz", rb"\xfd7zXZ\0"),
    ".zst": ("zstd", rb"\x28\xb5\x2f\xfd"),
}
COMPRESSED = tuple(label for label, _ in COMPRESSIONS.values())
#: Extensions of tables of text, plain and compressed.
TEXT = tuple(name + suffix for name in (".csv", ".tsv", ".txt") for suffix in ("", *COMPRESSIONS))

FORMATS = {
    "npy": Format("NumPy", "numpy:open_npy", (".npy",), b"\x93NUMPY"),
    "npz": Format("NumPy or SciPy .npz (zip)", "numpy:open_npz", (".npz",), b"PK\x03\x04"),
    "matrixmarket": Format(
        "Matrix Market", "numpy:open_matrixmarket", (".mtx", ".mtx.gz"), b"%%MatrixMarket"
    ),
    "svmlight": Format(
        "svmlight",
        "numpy:open_svmlight",
        (".svmlight", ".svm", ".libsvm", ".svmlight.gz", ".svm.gz", ".libsvm.gz"),
    ),
    "parquet": Format("Parquet", "arrow:open_arrow", (".parquet", ".pq"), b"PAR1"),
    "arrow": Format("Arrow or Feather", "arrow:open_arrow", (".arrow", ".feather", ".ipc"), b"ARROW1"),
    "csv": Format("CSV", "csv:open_csv", TEXT),
    "zarr": Format("Zarr", "zarr:open_zarr", (".zarr",)),
    "index": Format("index", "banditsis.index.reader:open_index", (".index",)),
    "hdf5": Format("HDF5", "hdf5:open_hdf5", (".h5", ".hdf5", ".nc"), b"\x89HDF\r\n\x1a\n"),
    "h5ad": Format("AnnData (.h5ad)", "hdf5:open_hdf5", (".h5ad",), b"\x89HDF\r\n\x1a\n"),
    "plink": Format("PLINK", "plink:open_plink", (".bed",), b"\x6c\x1b"),
}
EXTENSIONS = {extension: name for name, format in FORMATS.items() for extension in format.extensions}
SIGNATURES = {format.signature: name for name, format in reversed(FORMATS.items()) if format.signature}
SIGNATURES |= {signature: label for label, signature in COMPRESSIONS.values()}
#: The file that describes an index, and its key for the version of the layout.
META, PREPARED = "meta.json", "banditsis_index"
ZARR_METADATA = ("zarr.json", ".zarray", ".zgroup")


def open_file(path: str | os.PathLike[str], options: ReadOptions = DEFAULTS) -> Opened:
    """Open a file or folder of features in any format."""
    path = str(path) if is_url(path) else Path(find_prefix(path))
    module, function = FORMATS[find_format(path)].opener.split(":")
    module = module if "." in module else f"banditsis.formats.{module}"
    opened: Opened = getattr(import_module(module), function)(path, options)
    opened.label = str(path)
    if isinstance(opened, OpenedMatrix) and 0 in opened.shape:
        raise ValueError(f"{path} has no {'rows' if opened.shape[0] == 0 else 'features'}.")
    return opened


def find_format(path: str | os.PathLike[str]) -> str:
    """The format that the name of a file declares, checked against its first bytes.

    Examples
    --------
    >>> find_format("nothing/here.npy")
    Traceback (most recent call last):
    FileNotFoundError: nothing/here.npy does not exist: check the name and the folder.
    """
    if is_url(path):
        store = re.sub(r"\.zarr/.*", ".zarr", str(split_path(path)[0]))  # of an array within it
        return _format_by_name(Path(store)) or _raise_unknown(path)
    path = Path(split_path(path)[0])
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: check the name and the folder.")
    if path.is_dir():
        return _folder_format(path)
    named, content = _format_by_name(path), _format_by_content(path)
    if named is None:
        if content in COMPRESSED:
            raise ValueError(
                f"{path} is compressed with {content}: unpack it, or if it is a table of text, rename it to "
                f"end in .csv{find_suffix(content)}."
            )
        return content or _raise_unknown(path)
    compression = COMPRESSIONS.get(path.suffix.lower())
    expected = compression[0] if compression else SIGNATURES.get(FORMATS[named].signature)
    if content == expected:
        return named
    if content is None:
        problem = "its content is not: it may be damaged, or was written by another program."
    elif content in COMPRESSED:
        renamed = f"{path.stem if compression else path.name}{find_suffix(content)}"
        problem = f"its content is that of a {content} file: rename it to {renamed}, or unpack it."
    else:
        problem = f"its content is that of a {format_label(content)} file: change its extension."
    raise ValueError(f"{path} is named as a {format_label(named)} file, but {problem}")


def find_suffix(compression: str) -> str:
    """The suffix of files that are compressed in a way.

    Examples
    --------
    >>> find_suffix("bzip2")
    '.bz2'
    """
    return next(suffix for suffix, (label, _) in COMPRESSIONS.items() if label == compression)


def _raise_unknown(path: object) -> NoReturn:
    plain = [extension for extension in EXTENSIONS if not extension.endswith(tuple(COMPRESSIONS))]
    raise ValueError(f"{path} has an unknown extension: rename it to end in one of {', '.join(plain)}.")


def is_url(data: Any) -> bool:
    """Whether data is a URL and not a path.

    Examples
    --------
    >>> is_url("s3://bucket/x.zarr"), is_url("x.zarr")
    (True, False)
    """
    return isinstance(data, str) and re.match(r"[a-z][a-z0-9+.-]+://", data) is not None


def local_path(data: Any) -> Path | None:
    """The local file or folder that data is in; None for URLs and data in memory.

    Examples
    --------
    >>> str(local_path("data.h5:/counts/raw")), local_path("s3://bucket/x.zarr")
    ('data.h5', None)
    """
    if not isinstance(data, (str, os.PathLike)) or is_url(data):
        return None
    return Path(split_path(data)[0])


def split_path(path: str | os.PathLike[str]) -> tuple[Path | str, str]:
    """A file or a URL, and the path within it that follows a colon.

    Examples
    --------
    >>> split_path("data.h5:/counts/raw")[1], split_path("s3://bucket/data.h5:/counts")
    ('counts/raw', ('s3://bucket/data.h5', 'counts'))
    """
    text = str(path) if is_url(path) else Path(path).as_posix()
    start = re.match(r"[a-z0-9+.-]+://|[A-Za-z]:/|", text)  # Windows: C:/data.h5:/counts
    end = text.find(":/", start.end() if start else 0)
    if end >= 0 and (is_url(path) or not Path(path).exists()):
        outer, inner = text[:end], text[end:].strip(":/")
        return (outer if is_url(path) else Path(outer)), inner
    return (text if is_url(path) else Path(find_prefix(path))), ""


def find_prefix(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The file that a prefix of PLINK stands for, ``x.bed`` for ``x``; else the path itself."""
    is_prefix = not is_url(path) and not Path(path).exists() and (bed := Path(f"{path}.bed")).is_file()
    return bed if is_prefix else path


def _format_by_name(path: Path) -> str | None:
    name = path.name.lower()
    return next((EXTENSIONS[extension] for extension in EXTENSIONS if name.endswith(extension)), None)


def _format_by_content(path: Path) -> str | None:
    if path.exists() and not path.is_file():  # reading a FIFO would wait for ever
        raise ValueError(f"{path} is not a regular file: write the data to a file first.")
    with open(path, "rb") as file:
        head = file.read(32)
    if not head:
        raise ValueError(f"{path} is empty.")
    content = match_content(head)
    if content in (None, "npz", "plink", *COMPRESSED):  # which other formats share
        check_supported(path, head)
    return content


def match_content(head: bytes) -> str | None:
    """The format or compression that the first bytes of a file are in; None for text and unknown formats.

    Examples
    --------
    >>> match_content(b"PAR1..."), match_content(b"BZh91AY&SY"), match_content(b"a,b")
    ('parquet', 'bzip2', None)
    """
    found = (name for signature, name in SIGNATURES.items() if re.match(signature, head, re.DOTALL))
    return next(found, None)


def _folder_format(path: Path) -> str:
    """A folder is a Zarr store, or contains Parquet, Arrow or CSV files."""
    if is_index(path):
        return "index"
    if path.name.endswith(".partial") and (path / "scratch").is_dir():
        raise ValueError(f"{path} is an unfinished index: delete it, and run `banditsis index` again.")
    if any((path / name).exists() for name in ZARR_METADATA):
        return "zarr"
    if path.suffix.lower() == ".zarr":  # without its metadata
        return "zarr"
    entries = sorted(entry for entry in path.iterdir() if entry.name[0] not in "._")
    formats = {_folder_format(e) if e.is_dir() else _format_by_name(e) for e in entries} - {None}
    if len(formats) == 1 and formats <= {"parquet", "arrow", "csv"}:
        return str(formats.pop())
    content = "nothing" if not entries else ", ".join(entry.name for entry in entries[:3])
    raise ValueError(
        f"{path} is a folder, but neither a Zarr store nor one of Parquet, Arrow or CSV files alone: it "
        f"contains {content}."
    )


def is_index(path: Path) -> bool:
    """Whether a folder is one that ``banditsis index`` wrote."""
    try:
        return PREPARED in json.loads((path / META).read_bytes())
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def format_label(name: str) -> str:
    """The name of a format in sentences.

    Examples
    --------
    >>> format_label("h5ad")
    'AnnData (.h5ad)'
    """
    return FORMATS[name].label
