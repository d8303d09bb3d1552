"""NumPy's files: ``.npy`` as a memory map, ``.npz`` with a dense or a sparse matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from banditsis.arrays import Array
from banditsis.formats.registry import Opened, check_memory, find_column, split_target_column
from banditsis.sources.array import ArraySource
from banditsis.sources.memmap import MappedSource
from banditsis.sources.sparse import SparseSource

_SPARSE = {"format", "shape", "data"}


def open_npy(path: Path, target: str | None = None, **options: Any) -> Opened:
    """Map a ``.npy`` file into memory."""
    array = load_npy(path)
    if array.ndim != 2:
        raise ValueError(f"{path} has shape {array.shape}: features have two dimensions, rows × features.")
    source = MappedSource(array)
    return Opened(source) if target is None else split_target_column(source, target, path)


def load_npy(path: Path) -> Array:
    """Map an array of numbers, or say why it cannot be."""
    try:
        array: Array = np.load(path, mmap_mode="r")
    except (ValueError, EOFError, OSError) as error:
        if "Object arrays" in str(error) or "Python objects" in str(error):
            raise TypeError(f"{path} holds Python objects: save numbers, as in x.astype(float).") from error
        raise ValueError(f"{path} cannot be read as a NumPy array, it may be truncated: {error}") from error
    if array.dtype.names is not None:
        fields = ", ".join(array.dtype.names[:5])
        raise TypeError(f"{path} holds records ({fields}): save its fields as the columns of one matrix.")
    return array


def open_npz(path: Path, target: str | None = None, **options: Any) -> Opened:
    """Read a ``.npz`` file into memory: a sparse matrix of SciPy's, or one dense array.

    The target is a column, or an array of one dimension in the same file.
    """
    try:
        with ZipFile(path) as archive:
            check_memory(
                path, sum(entry.file_size for entry in archive.infolist()), options.get("memory_limit")
            )
        with np.load(path) as arrays:
            if set(arrays.files) >= _SPARSE:
                source: ArraySource | SparseSource = SparseSource(_load_sparse(path))
                return Opened(source) if target is None else split_target_column(source, target, path)
            return _from_arrays(path, {name: arrays[name] for name in arrays.files}, target)
    except (BadZipFile, EOFError, OSError) as error:
        raise ValueError(f"{path} cannot be read as .npz, it may be truncated: {error}") from error


def _load_sparse(path: Path) -> Any:
    from scipy.sparse import load_npz

    return load_npz(path)


def _from_arrays(path: Path, arrays: dict[str, Any], target: str | None) -> Opened:
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    if len(matrices) != 1:
        held = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
        raise ValueError(f"{path} must hold one array of two dimensions, and holds {held}.")
    source = ArraySource(arrays[matrices[0]])
    vectors = [name for name, array in arrays.items() if array.ndim == 1]
    if target is None:
        return Opened(source)
    if target in vectors:
        return Opened(source, arrays[target])
    if vectors and not target.isdigit():
        find_column(vectors, target, path)
    return split_target_column(source, target, path)
