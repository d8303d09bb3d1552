"""Matrices of NumPy, SciPy and scikit-learn: ``.npy``, ``.npz``, Matrix Market and svmlight."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from banditsis.core.arrays import Array
from banditsis.formats.options import DEFAULTS, ReadOptions
from banditsis.formats.registry import Opened, check_memory, take_apart
from banditsis.sources.array import ArraySource
from banditsis.sources.memmap import MappedSource
from banditsis.sources.sparse import SparseSource

# What the readers of NumPy, SciPy and scikit-learn raise for damaged content.
DAMAGE = (
    ValueError,
    KeyError,
    OverflowError,
    RuntimeError,
    EOFError,
    OSError,
    BadZipFile,
    TokenError,
    zlib.error,
    TypeError,
)


def open_npy(path: Path, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Map a ``.npy`` file into memory."""
    array = load_npy(path)
    if array.ndim != 2:
        raise ValueError(f"{path} has shape {array.shape}: features have two dimensions, rows × features.")
    return take_apart(MappedSource(array), apart, path, options)


def load_npy(path: Path) -> Array:
    """Map an array of numbers into memory."""
    try:
        array: Array = np.load(path, mmap_mode="r")
    except DAMAGE as error:
        if "Object arrays" in str(error) or "Python objects" in str(error):
            raise TypeError(f"{path} holds Python objects: save numbers, as in x.astype(float).") from error
        raise ValueError(f"{path} cannot be read as a NumPy array, it may be truncated: {error}") from error
    if array.dtype.names is not None:
        fields = ", ".join(array.dtype.names[:5])
        raise TypeError(f"{path} holds records ({fields}): save its fields as the columns of one matrix.")
    return array


def open_npz(path: Path, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Read a ``.npz`` file into memory: a sparse matrix of SciPy, or one dense matrix.

    The target is a column, or a one-dimensional array of the same file.
    """
    from scipy.sparse import load_npz

    with _readable(path, ".npz, it may be truncated"), ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    check_memory(path, size, options.memory_limit)
    with _readable(path, ".npz, it may be truncated"), np.load(path) as archive:
        is_sparse = {"format", "shape", "data"} <= set(archive.files)
        if is_sparse:
            # An index has an entry for each row or column, whether or not cells are stored in it.
            longest = int(np.max(archive["shape"]))
            check_memory(path, 8 * longest, options.memory_limit)
            source = SparseSource(load_npz(path))
        else:
            arrays = {name: archive[name] for name in archive.files}
    if is_sparse:
        return take_apart(source, apart, path, options)
    return _open_arrays(path, arrays, apart, options)


@contextmanager
def _readable(path: Path, format_name: str) -> Iterator[None]:
    """Turn the errors that damaged content causes into one line."""
    try:
        yield
    except DAMAGE as error:
        raise ValueError(f"{path} cannot be read as {format_name}: {' '.join(str(error).split())}") from error


def _open_arrays(path: Path, arrays: dict[str, Any], apart: Sequence[str], options: ReadOptions) -> Opened:
    matrices = [array for array in arrays.values() if array.ndim == 2]
    if len(matrices) != 1:
        content = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
        raise ValueError(f"{path} must contain one two-dimensional array, and contains {content}.")
    vectors = {name: partial(np.asarray, array) for name, array in arrays.items() if array.ndim == 1}
    return take_apart(ArraySource(matrices[0]), apart, path, options, others=vectors)


def open_matrixmarket(path: Path, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Read a ``.mtx`` or ``.mtx.gz`` file, sparse or dense."""
    from scipy.io import mmread

    check_memory(path, path.stat().st_size, options.memory_limit)
    with _readable(path, "Matrix Market"):
        with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb") as file:
            text: Any = _CheckedText(file)
            matrix = mmread(text, spmatrix=False)
        source = ArraySource(matrix) if isinstance(matrix, np.ndarray) else SparseSource(matrix)
    return take_apart(source, apart, path, options)


class _CheckedText:
    """The text of a Matrix Market file without what makes SciPy crash.

    SciPy looks for the line break after each number, and reads beyond the text if a zero byte or the end of
    the file comes first.
    """

    def __init__(self, file: Any) -> None:
        self.file, self.tail = file, b"\n"

    def read(self, size: int = -1) -> bytes:
        data: bytes = self.file.read(size)
        if b"\0" in data:
            raise ValueError("it contains zero bytes")
        if data or self.tail.endswith(b"\n"):
            self.tail = (self.tail + data)[-64:]
            return data
        last = self.tail.split()[-1].decode("ascii", "replace") if self.tail.strip() else ""
        try:
            float(last or 0)
        except ValueError:
            raise ValueError(f"it ends in {last!r}, which is not a number") from None
        self.tail = b"\n"
        return b"\n"


def open_svmlight(path: Path, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Read lines ``label feature:value …``; the target is called ``label``."""
    from sklearn.datasets import load_svmlight_file

    check_memory(path, path.stat().st_size, options.memory_limit)
    with _readable(path, "svmlight"):
        matrix, labels = load_svmlight_file(str(path))
        source = SparseSource(matrix)
    others = {name: lambda: labels for name in ("label", "target", "y")}
    return take_apart(source, apart, f"{path}, whose target is called 'label',", options, others=others)
