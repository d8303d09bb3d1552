"""Data behind an address, ``s3://…``, ``gs://…``, ``abfs://…``, ``https://…``: whatever fsspec knows."""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.arrays import Array, Columns, Rows
from banditsis.formats.registry import Opened, import_optional, open_file, split_target_column
from banditsis.sources.blocks import BlockSource

#: What to install for an address: the extra of this package, or the package that fsspec asks for.
PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs", "http": "aiohttp", "https": "aiohttp"}


def is_address(data: Any) -> bool:
    """Whether this is an address, and not a path.

    Examples
    --------
    >>> is_address("s3://bucket/x.zarr"), is_address("x.zarr")
    (True, False)
    """
    return isinstance(data, str) and re.match(r"[a-z][a-z0-9+.-]+://", data) is not None


def open_address(address: str, target: str | None, **options: Any) -> Opened:
    """Open what lies behind an address; who may do so is left to fsspec.

    Of a Zarr array only the chunks that are needed are read. Files of other formats are copied to this
    machine once, and the copy is removed with the source.

    Parameters
    ----------
    address : str
        As in ``s3://bucket/folder/x.zarr``.
    target : str, optional
        A column of the data.
    **options
        As for :func:`open_file`.
    """
    fsspec = import_optional("fsspec", "s3")
    try:
        files, path = fsspec.core.url_to_fs(address)
        if not files.exists(path):
            raise FileNotFoundError(f"{address} does not exist, or may not be read: check the address.")
    except ImportError as error:
        package = PACKAGES.get(address.split(":")[0], "what fsspec asks for")
        raise ImportError(f"reading {address} needs {package} ({error}).") from error
    if path.rstrip("/").endswith(".zarr"):
        source = StoredArray(address)
        return Opened(source) if target is None else split_target_column(source, target, address)
    folder = Path(tempfile.mkdtemp(prefix="banditsis-"))
    name = path.rstrip("/").rsplit("/", 1)[-1]
    files.get(path, str(folder / name), recursive=files.isdir(path))
    opened = open_file(folder / name, target, **options)
    weakref.finalize(opened.source, shutil.rmtree, folder, ignore_errors=True)
    return opened


class StoredArray(BlockSource):
    """A two-dimensional Zarr array behind an address, read chunk by chunk.

    Parameters
    ----------
    address : str
        Of the array.
    """

    def __init__(self, address: str) -> None:
        zarr = import_optional("zarr", "zarr")
        self.array = zarr.open_array(address, mode="r")
        if self.array.ndim != 2:
            raise ValueError(f"{address} must have two dimensions, rows × features, got {self.array.ndim}.")
        if self.array.dtype.kind not in "fiub":
            raise TypeError(f"{address} must hold numbers, got dtype {self.array.dtype}.")
        self.shape, self.dtype = self.array.shape, np.dtype(self.array.dtype)
        self.chunk = tuple(self.array.shards or self.array.chunks)

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        everything = slice(0, self.shape[1])
        return np.asarray(self.array.oindex[rows, everything if columns is None else columns])
