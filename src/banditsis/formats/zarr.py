"""Zarr arrays, versions 2 and 3, and groups with one two-dimensional array."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Columns, Rows
from banditsis.formats.anndata import Storage, open_anndata
from banditsis.formats.checks import DAMAGE, import_optional, readable
from banditsis.formats.members import check_not_packed, find_matrix, open_matrix
from banditsis.formats.opened import OpenedMatrix
from banditsis.formats.options import ReadOptions
from banditsis.formats.registry import ZARR_METADATA, similar_file, split_path
from banditsis.sources.base import Source
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
        except (*DAMAGE, ValueError) as error:
            where, reason = _local_folder(self.array) or self.array.store_path, str(error)
            raise ValueError(
                f"a chunk of {where} is damaged ({reason or type(error).__name__}): write the store again."
            ) from error
        return np.asarray(block, self.dtype)


def _local_folder(array: Any) -> Path | None:
    from zarr.storage import LocalStore

    return Path(array.store.root) / array.path if isinstance(array.store, LocalStore) else None


def open_zarr(path: Path | str, options: ReadOptions) -> OpenedMatrix:
    """Open a folder or an address; the target is a one-dimensional array of the group, or a feature.

    ``store.zarr/name`` and ``store.zarr:/name`` are an array of a group. The target of AnnData is a column of
    ``obs``, or a variable.
    """
    path = _join_inner(path)
    node, members = _open_node(path)
    group = node if hasattr(node, "arrays") else None
    groups = list(_groups_above(path, node))
    for root, place, inner in groups:
        if root.attrs.get("encoding-type") == "anndata":
            return _open_anndata(place, root, inner or "X", options)
    _check_all_codecs(path, members or {"": node})
    array = node if group is None else find_matrix(path, members, "/")
    if group is None and groups:
        members = dict(groups[0][0].arrays())
        _check_all_codecs(groups[0][1], members)
    attributes = [array.attrs] if group is None else [array.attrs, group.attrs]
    opened = open_matrix(path, array, members, attributes, partial(_open_array, path), options)
    opened.contexts.append(partial(readable, path, "Zarr", DAMAGE))
    return opened


def _check_all_codecs(path: Path | str, arrays: Mapping[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about text, which future versions may store in another way
        for name, array in arrays.items():
            _check_codecs(f"{path}/{name}".rstrip("/"), array.metadata.to_dict())


def _join_inner(path: Path | str) -> Path | str:
    """``store.zarr/name`` for ``store.zarr:/name``."""
    if isinstance(path, str):
        return path.replace(".zarr:/", ".zarr/")
    outer, inner = split_path(path)
    if inner is None:
        return path
    joined = outer / inner.strip("/")
    if not joined.is_dir():
        raise ValueError(f"{outer} has no array {inner}: check the name{similar_file(joined)}.")
    return joined


def _groups_above(path: Path | str, node: Any) -> Iterator[tuple[Any, Path | str, str]]:
    """The group at a path and the two above it within the store; where they are, and the path within them."""
    inner: list[str] = []
    if hasattr(node, "arrays"):
        yield node, path, ""
    while len(inner) < 2 and not str(path).rstrip("/").endswith(".zarr"):
        folder, _, name = str(path).rstrip("/").replace("\\", "/").rpartition("/")
        path = Path(folder) if isinstance(path, Path) else folder
        inner.insert(0, name)
        if isinstance(path, Path) and not any((path / metadata).exists() for metadata in ZARR_METADATA):
            return
        yield _open_node(path)[0], path, "/".join(inner)


def _open_array(path: Path | str, array: Any, names: list[str] | None) -> Source:
    chunk = (*array.chunks, *(array.shards or ()))
    if not all(0 < length < MAX_CHUNK for length in chunk):
        raise ValueError(f"{path} has damaged Zarr metadata (chunks of {chunk}): write the store again.")
    check_not_packed(array)
    _warn_of_missing_chunks(path, array)
    return ZarrSource(array, names)


def _open_vector(path: Path | str, array: Any) -> Any:
    _warn_of_missing_chunks(path, array)
    return array


def _open_anndata(path: Path | str, root: Any, matrix: str, options: ReadOptions) -> OpenedMatrix:
    for part in {"obs", "var", "raw", matrix.split("/")[0]} & set(root):
        _check_all_codecs(f"{path}/{part}", _arrays_below(path, root[part]))
    explain = partial(readable, path, "Zarr", DAMAGE)
    storage = Storage(partial(_open_array, path), partial(_open_vector, path), explain)
    with explain():
        return open_anndata(path, root, matrix, storage, options)


def _arrays_below(path: Path | str, node: Any) -> dict[str, Any]:
    """An array, or the arrays below a group at any depth, with their paths in it."""
    if not hasattr(node, "arrays"):
        return {"": node}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about codecs, which are checked
            members = list(node.members(max_depth=None))
    except Exception as error:  # damaged metadata can raise anything
        raise _damaged_metadata(path, error) from error
    return {name: member for name, member in members if not hasattr(member, "arrays")}


def _damaged_metadata(path: Path | str, error: Exception) -> ValueError:
    return ValueError(f"{path} has damaged Zarr metadata ({error}): write the store again.")


def _check_codecs(where: str, metadata: dict[str, Any]) -> None:
    """Raise if an array was written with a codec that is not known to be safe."""
    unknown = [name for name in _codec_names(metadata) if name.removeprefix("numcodecs.") not in CODECS]
    if unknown:
        raise ValueError(
            f"{where} was written with the codec {unknown[0]}, which is not supported: write the array "
            "again, for example with zstd."
        )


def _codec_names(metadata: dict[str, Any]) -> list[str]:
    """Names of all codecs of an array, or of the chunks within its shards."""
    if metadata.get("zarr_format") == 2:
        codecs = [*(metadata.get("filters") or ()), metadata.get("compressor")]
        return [str(codec["id"]) for codec in codecs if codec]
    names = []
    for codec in [*metadata.get("codecs", ()), *metadata.get("index_codecs", ())]:
        names += [str(codec["name"]), *_codec_names(codec.get("configuration") or {})]
    return names


def _open_node(path: Path | str) -> tuple[Any, dict[str, Any]]:
    """Open a folder or an address: an array or a group, and the arrays of a group."""
    zarr = import_optional("zarr", "Zarr", "zarr")
    if isinstance(path, Path) and not path.is_dir():
        raise ValueError(f"{path} is not a folder: give the folder of the Zarr store.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files that do not belong to the store
            node = zarr.open(str(path), mode="r")
            return node, dict(node.arrays()) if hasattr(node, "arrays") else {}
    except FileNotFoundError as error:
        raise ValueError(
            f"{path} has no Zarr metadata (zarr.json, .zarray or .zgroup): it is not a Zarr store, or "
            "writing it was interrupted."
        ) from error
    except Exception as error:  # damaged metadata can raise anything
        raise _damaged_metadata(path, error) from error


def _warn_of_missing_chunks(path: Path | str, array: Any) -> None:
    """Warn if local files are missing: their cells read as the fill value, whether intended or not."""
    folder = _local_folder(array)
    if folder is None:
        return
    file_shape = array.shards or array.chunks
    expected = int(np.prod([-(-n // length) for n, length in zip(array.shape, file_shape, strict=True)]))
    # Metadata files are .zarray, .zattrs and zarr.json.
    n_files = sum(name[0] not in ".z_" for _, _, names in os.walk(folder) for name in names)
    if n_files < expected:
        kind = "shards" if array.shards else "chunks"
        warnings.warn(
            f"{path}: {expected - n_files:,} of {expected:,} {kind} are missing and read as "
            f"{array.fill_value}; if writing the store was interrupted, write it again.",
            stacklevel=3,
        )
