"""Zarr stores, versions 2 and 3: an array, or a group with one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banditsis._typing import Array, Columns, Rows
from banditsis.sources.blocks import BlockSource
from banditsis.sources.chunks import ChunkReader
from banditsis.sources.columns import take_out
from banditsis.sources.files import Opened, need

FEATURE_NAMES = ("names", "feature_names", "columns", "column_names", "var_names")
SAMPLE_NAMES = ("ids", "sample_ids", "index", "obs_names")
WORTH_A_TILE = 1 << 17  # cells: smaller chunks are read several at once


class ZarrSource(BlockSource):
    """A two-dimensional Zarr array.

    Parameters
    ----------
    array : zarr.Array
        Of shape (n, p), of numbers.
    names : sequence of str, optional
        Names of the columns.
    """

    def __init__(self, array: Any, names: Sequence[str] | None = None) -> None:
        self.reader = ChunkReader(array)
        self.shape, self.dtype, self.names = self.reader.shape, self.reader.dtype, names
        self.chunk = self.reader.chunk[0], min(self.reader.chunk[1], self.shape[1])
        # A tile of one chunk is summed where it was decoded, without a copy.
        self.cells_at_once = max(WORTH_A_TILE, self.chunk[0] * self.chunk[1])

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        return self.reader.read(rows, columns)


def open_zarr(path: Path, target: str | None = None, **options: Any) -> Opened:
    """Open a store; the target is a one-dimensional array of its group, or a feature."""
    node = _open_node(path)
    group = node if hasattr(node, "arrays") else None
    members = dict(group.arrays()) if group is not None else {}
    array = node if group is None else _find_matrix(path, members)
    n, p = _check_matrix(path, array)
    vectors = {name: member for name, member in members.items() if member.shape in ((n,), (n, 1))}
    names = _find_names(path, array, group, members, p)
    ids = next((_text(vectors[name]) for name in SAMPLE_NAMES if name in vectors), None)
    _warn_of_absent_chunks(path, array)
    source = ZarrSource(array, names)
    if target is None:
        return Opened(source, None, ids)
    if target in vectors:
        return Opened(source, _values(vectors[target]), ids)
    return take_out(source, target, path, ids)


def _open_node(path: Path) -> Any:
    zarr = need("zarr", "zarr")
    if not path.is_dir():
        raise ValueError(f"{path} is no folder, as a Zarr store is one: give the folder of the store.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of members that are no part of the store
            return zarr.open(str(path), mode="r")
    except FileNotFoundError as error:
        raise ValueError(
            f"{path} has no Zarr metadata (zarr.json, .zarray or .zgroup): it is no store, or it was not "
            "written to the end."
        ) from error
    except Exception as error:  # whatever a damaged file of metadata brings about
        raise ValueError(f"{path} has damaged Zarr metadata ({error}): write the store again.") from error


def _find_matrix(path: Path, members: dict[str, Any]) -> Any:
    matrices = {name: member for name, member in members.items() if member.ndim == 2 and member.shape[1] > 1}
    if "X" in matrices or len(matrices) == 1:
        return matrices.get("X", next(iter(matrices.values())))
    if not matrices:
        held = ", ".join(f"{name} {member.shape}" for name, member in members.items()) or "no array"
        raise ValueError(f"{path} is a Zarr group without a two-dimensional array: it holds {held}.")
    raise ValueError(
        f"{path} is a Zarr group with several two-dimensional arrays, none of which is called X: "
        f"open one of {', '.join(str(path / name) for name in sorted(matrices))}."
    )


def _check_matrix(path: Path, array: Any) -> tuple[int, int]:
    if array.ndim != 2:
        raise ValueError(f"{path} is a Zarr array of shape {array.shape}; it must be rows × features.")
    if np.dtype(array.dtype).kind not in "fiub":
        raise ValueError(f"{path} is a Zarr array of {array.dtype}; it must hold real numbers.")
    if 0 in array.shape:
        raise ValueError(f"{path} is an empty Zarr array of shape {array.shape}.")
    return int(array.shape[0]), int(array.shape[1])


def _find_names(path: Path, array: Any, group: Any, members: dict[str, Any], p: int) -> list[str] | None:
    """Names of the columns, from the attributes or from an array of strings."""
    found: Any = None
    for name in FEATURE_NAMES:
        for attributes in (array.attrs, {} if group is None else group.attrs):
            if found is None and isinstance(attributes.get(name), list):
                found = attributes[name]
        if found is None and name in members and members[name].ndim == 1:
            found = _text(members[name]).tolist()
    if found is None:
        return None
    if len(found) != p:
        raise ValueError(f"{path} has {len(found):,} names for {p:,} columns.")
    return [str(name) for name in found]


def _values(array: Any) -> Array:
    values = np.asarray(array[...]).reshape(-1)
    return values if values.dtype.kind in "fiub" else values.astype(str)


def _text(array: Any) -> Array:
    return np.asarray(array[...]).reshape(-1).astype(str)


def _warn_of_absent_chunks(path: Path, array: Any) -> None:
    """Tell of chunks without a file: they read as the fill value, whether meant or not."""
    folder = ChunkReader(array).folder
    if folder is None:
        return
    file_shape = array.shards or array.chunks
    expected = int(np.prod([-(-n // length) for n, length in zip(array.shape, file_shape, strict=True)]))
    there = _count_files(folder / "c" if (folder / "c").is_dir() else folder)
    if there < expected:
        what = "shards" if array.shards else "chunks"
        warnings.warn(
            f"{path}: {expected - there:,} of {expected:,} {what} are not there and read as "
            f"{array.fill_value}; if the store was not written to the end, write it again.",
            stacklevel=3,
        )


def _count_files(folder: Path) -> int:
    """Files below a folder, but for metadata."""
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                total += _count_files(Path(entry.path))
            elif entry.name[0] not in ".z_":  # .zarray, zarr.json
                total += 1
    return total
