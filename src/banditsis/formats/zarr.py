"""Zarr stores, versions 2 and 3: an array, or a group with one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.arrays import Array, Columns, Rows
from banditsis.formats.chunks import ChunkReader
from banditsis.formats.members import check_matrix, find_matrix, find_names, with_members
from banditsis.formats.registry import Opened, import_optional
from banditsis.sources.blocks import BlockSource

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
    array = node if group is None else find_matrix(path, members, "/")
    _, p = check_matrix(path, array)
    attributes = [array.attrs] if group is None else [array.attrs, group.attrs]
    source = ZarrSource(array, find_names(path, attributes, members, p))
    _warn_of_absent_chunks(path, array)
    return with_members(source, target, path, members)


def _open_node(path: Path) -> Any:
    zarr = import_optional("zarr", "zarr")
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
