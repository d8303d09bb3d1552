"""Matrices of NumPy, SciPy and scikit-learn: ``.npy``, ``.npz``, Matrix Market and svmlight."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import numpy as np

from banditsis.formats.files import check_memory, check_shape, readable
from banditsis.formats.opened import OpenedMatrix, ReadOptions
from banditsis.formats.text import open_text, to_number
from banditsis.sources.array import ArraySource
from banditsis.sources.memmap import MappedSource
from banditsis.sources.sparse import SparseSource

BYTES_PER_CHARACTER = 4  # of a text and the numbers in it


def open_npy(path: Path, options: ReadOptions) -> OpenedMatrix:
    """Map a ``.npy`` file into memory: features, or targets, which may be a vector."""
    with readable(path, "NumPy"):
        array: np.memmap = np.load(path, mmap_mode="r")
    if array.dtype.names is not None:
        fields = ", ".join(array.dtype.names[:5])
        raise TypeError(f"{path} holds records ({fields}): save its fields as the columns of one matrix.")
    size, expected = path.stat().st_size, array.offset + array.nbytes
    if size != expected:
        raise ValueError(f"{path} has {size:,} bytes, and its header declares {expected:,}: save it again.")
    if options.wanted is not None and array.ndim in (1, 2) and array.size > 0:
        matrix = array.reshape(len(array), -1)
        numbers = [f"{k + 1}" for k in range(matrix.shape[1])]
        names = [path.name] if matrix.shape[1] == 1 else numbers
        columns = {name: partial(np.array, matrix[:, k]) for k, name in enumerate(names)}
        return OpenedMatrix(None, path, options, side=columns)
    if array.ndim != 2:
        raise ValueError(f"{path} has shape {array.shape}: features have two dimensions, rows × features.")
    return OpenedMatrix(MappedSource(array), path, options)


def open_npz(path: Path, options: ReadOptions) -> OpenedMatrix:
    """Read a sparse matrix, or a dense one, next to which one-dimensional arrays are columns."""
    from scipy.sparse import load_npz

    with readable(path, ".npz"), ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    check_memory(path, size, options.memory_limit)
    with readable(path, ".npz"), np.load(path) as archive:
        if {"format", "shape", "data"} <= set(archive.files):
            n, p = (int(length) for length in archive["shape"])
            check_shape(path, (n, p), options.memory_limit)
            return OpenedMatrix(SparseSource(load_npz(path)), path, options)
        arrays = {name: archive[name] for name in archive.files}
        matrices = [array for array in arrays.values() if array.ndim == 2]
        if len(matrices) != 1:
            content = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
            raise ValueError(f"it must contain one two-dimensional array, and contains {content}")
        vectors = {name: partial(np.asarray, array) for name, array in arrays.items() if array.ndim == 1}
        return OpenedMatrix(ArraySource(matrices[0]), path, options, side=vectors)


def open_market(path: Path, options: ReadOptions) -> OpenedMatrix:
    """Read a ``.mtx`` or ``.mtx.gz`` file, sparse or dense."""
    from scipy.io import mminfo, mmread

    with readable(path, "Matrix Market"):
        text = _read_text(path, options)
        # SciPy crashes without a line break after a number: it looks for one beyond the text.
        last = (text[-64:].split() or [b"0"])[-1].decode("ascii", "replace")
        if b"\0" in text or to_number(last) is None:
            raise ValueError(f"it contains zero bytes, or ends in {last!r}, which is not a number")
        n, p, n_entries, layout, _, symmetry = mminfo(io.BytesIO(text))
        n_numbers = n * p if layout == "array" else n_entries * (2 if symmetry == "general" else 4)
        check_memory(path, 8 * n_numbers, options.memory_limit)
        check_shape(path, (n, p), options.memory_limit)
        matrix = mmread(io.BytesIO(text + b"\n"), spmatrix=False)
        source = ArraySource(matrix) if isinstance(matrix, np.ndarray) else SparseSource(matrix)
    return OpenedMatrix(source, path, options)


def _read_text(path: Path, options: ReadOptions) -> bytes:
    """A text that may be compressed; raise if the matrix in it would not fit in memory."""
    text = bytearray()
    with open_text(path) as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            text += piece
            check_memory(path, BYTES_PER_CHARACTER * len(text), options.memory_limit)
    return bytes(text)


def open_svmlight(path: Path, options: ReadOptions) -> OpenedMatrix:
    """Read lines ``label feature:value …``; the target is called ``label``."""
    from sklearn.datasets import load_svmlight_file

    with readable(path, "svmlight"):
        matrix, labels = load_svmlight_file(io.BytesIO(_read_text(path, options)))
        source = SparseSource(matrix)
    others = {name: lambda: labels for name in ("label", "target", "y")}
    return OpenedMatrix(source, f"{path}, whose target is called 'label',", options, side=others)
