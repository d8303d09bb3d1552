"""Zarr arrays, versions 2 and 3, and groups with one two-dimensional array."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Columns, Rows
from banditsis.formats.anndata import open_anndata
from banditsis.formats.checks import DAMAGE, import_optional, readable
from banditsis.formats.opened import OpenedMatrix
from banditsis.formats.options import ReadOptions
from banditsis.formats.registry import split_path
from banditsis.formats.stores import Store, open_matrix
from banditsis.sources.blocks import BlockSource

MAX_CHUNK = 1 << 62  # rows or columns
#: Codecs of numbers and text that zarr-python may decode. Others, such as pickle, can run code from the data.
CODECS = {"bytes", "transpose", "sharding_indexed", "vlen-utf8", "vlen-bytes"} | {
    *("zstd", "gzip", "zlib", "blosc", "lz4", "bz2", "lzma", "packbits", "shuffle", "delta", "astype"),
    *("quantize", "bitround", "fixedscaleoffset"),
    *("crc32c", "crc32", "adler32", "fletcher32", "jenkins_lookup3"),
}


class ZarrSource(BlockSource):
    """A two-dimensional Zarr array, whose chunks zarr-python reads and decodes.

    Parameters
    ----------
    array : zarr.Array of shape (n, p)
        A numeric array.
    names : sequence of str, optional
        Names of the columns.
    """

    def __init__(self, array: Any, names: Sequence[str] | None = None) -> None:
        self.array, self.names = array, names
        self.shape, self.dtype = tuple(array.shape), np.dtype(array.dtype).newbyteorder("=")
        self.chunk = array.chunks[0], min(array.chunks[1], self.shape[1])

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        columns = slice(0, self.shape[1]) if columns is None else columns
        is_slice = isinstance(rows, slice) and isinstance(columns, slice)
        try:
            block = self.array[rows, columns] if is_slice else self.array.oindex[rows, columns]
        except DAMAGE as error:
            where, reason = _local_folder(self.array) or self.array.store_path, str(error)
            raise ValueError(
                f"a chunk of {where} is damaged ({reason or type(error).__name__}): write the store again."
            ) from error
        return np.asarray(block, self.dtype)


def open_zarr(path: Path | str, options: ReadOptions) -> OpenedMatrix:
    """Open a folder or an address; the target is a one-dimensional array of the group, or a feature.

    ``store.zarr/name`` and ``store.zarr:/name`` are an array of a group. The target of AnnData is a column of
    ``obs``, or a variable.
    """
    outer, inner = _split(path)
    store = Store(
        path=outer,
        root=_open_root(outer),
        check=partial(_check_array, outer),
        make_source=ZarrSource,
        arrays=partial(_arrays, outer),
        readable=partial(readable, outer, "Zarr"),
    )
    with store.readable():
        if store.root.attrs.get("encoding-type") == "anndata":
            opened = open_anndata(store, inner or "X", options)
        else:
            opened = open_matrix(store, path, inner, options)
    opened.contexts.append(store.readable)
    return opened


def _split(path: Path | str) -> tuple[Path | str, str]:
    """A store, and the path of an array in it: what follows a colon, or a folder named .zarr."""
    outer, inner = split_path(path)
    head, mark, tail = str(outer).replace("\\", "/").partition(".zarr/")
    if not inner and mark:
        outer, inner = (Path if isinstance(outer, Path) else str)(head + ".zarr"), tail
    return outer, inner


def _open_root(path: Path | str) -> Any:
    zarr = import_optional("zarr", "Zarr", "zarr")
    if isinstance(path, Path) and not path.is_dir():
        raise ValueError(f"{path} is not a folder: give the folder of the Zarr store.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files that do not belong to the store
            return zarr.open(str(path), mode="r")
    except FileNotFoundError as error:
        raise ValueError(
            f"{path} has no Zarr metadata (zarr.json, .zarray or .zgroup): it is not a Zarr store, or "
            "writing it was interrupted."
        ) from error
    except Exception as error:  # damaged metadata can raise anything
        raise _damaged_metadata(path, error) from error


def _arrays(path: Path | str, group: Any) -> Mapping[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about codecs, which are checked
            return dict(group.arrays())
    except Exception as error:
        raise _damaged_metadata(path, error) from error


def _damaged_metadata(path: Path | str, error: Exception) -> ValueError:
    return ValueError(f"{path} has damaged Zarr metadata ({error}): write the store again.")


def _check_array(path: Path | str, array: Any) -> Any:
    """Raise if an array has unknown codecs or impossible chunks; warn if chunks are missing."""
    where = f"{path}{array.name}".rstrip("/")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about text, which future versions may store in another way
        names = _codec_names(array.metadata.to_dict())
    unknown = [name for name in names if name.removeprefix("numcodecs.") not in CODECS]
    if unknown:
        raise ValueError(
            f"{where} was written with the codec {unknown[0]}, which is not supported: write the array "
            "again, for example with zstd."
        )
    chunk = (*array.chunks, *(array.shards or ()))
    if not all(0 < length < MAX_CHUNK for length in chunk):
        raise _damaged_metadata(where, ValueError(f"chunks of {chunk}"))
    n_missing = 0 if _local_folder(array) is None else array.nchunks - array.nchunks_initialized
    if n_missing > 0:
        warnings.warn(
            f"{where}: {n_missing:,} of {array.nchunks:,} chunks are missing and read as {array.fill_value}; "
            "if writing the store was interrupted, write it again.",
            stacklevel=3,
        )
    return array


def _codec_names(metadata: dict[str, Any]) -> list[str]:
    """Names of all codecs of an array, or of the chunks within its shards."""
    if metadata.get("zarr_format") == 2:
        codecs = [*(metadata.get("filters") or ()), metadata.get("compressor")]
        return [str(codec["id"]) for codec in codecs if codec]
    names = []
    for codec in [*metadata.get("codecs", ()), *metadata.get("index_codecs", ())]:
        names += [str(codec["name"]), *_codec_names(codec.get("configuration") or {})]
    return names


def _local_folder(array: Any) -> Path | None:
    from zarr.storage import LocalStore

    return Path(array.store.root) / array.path if isinstance(array.store, LocalStore) else None
