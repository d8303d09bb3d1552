"""Zarr arrays, versions 2 and 3, and groups with one two-dimensional array."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from banditsis.core.arrays import Array, Columns, Rows
from banditsis.formats.files import check_is_file, import_optional, readable, split_path
from banditsis.formats.opened import OpenedMatrix, ReadOptions
from banditsis.formats.stores import Store, open_anndata, open_matrix
from banditsis.sources.blocks import BlockSource

zarr = import_optional("zarr", "Zarr", "zarr")
import numcodecs  # noqa: E402
from zarr.abc.codec import BytesBytesCodec  # noqa: E402
from zarr.storage import LocalStore  # noqa: E402

TEXT_BYTES = 1 << 10  # of a value of text, at most, on average
#: Compressions of which pyarrow reads streams, by its names, and those whose data begin with their size.
STREAMS = {"zstd": "zstd", "gzip": "gzip", "zlib": "gzip"}
SIZE_AT = {"blosc": 4, "lz4": 0}  # 4 bytes
#: Codecs of numbers and text that zarr-python may decode. Others, such as pickle, can run code from the data.
CODECS = {"bytes", "transpose", "sharding_indexed", "vlen-utf8", "vlen-bytes", *STREAMS, *SIZE_AT} | {
    *("shuffle", "delta", "astype", "quantize", "bitround", "fixedscaleoffset"),
    *("crc32c", "crc32", "adler32", "fletcher32", "jenkins_lookup3"),
}


class ZarrSource(BlockSource):
    """A two-dimensional numeric Zarr array, whose chunks zarr-python reads and decodes."""

    def __init__(self, store: Store, array: Any, names: Sequence[str] | None = None) -> None:
        self.store, self.array, self.names = store, array, names
        self.shape, self.dtype = tuple(array.shape), np.dtype(array.dtype).newbyteorder("=")
        self.chunk = array.chunks[0], min(array.chunks[1], self.shape[1])

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        columns = slice(0, self.shape[1]) if columns is None else columns
        is_slice = isinstance(rows, slice) and isinstance(columns, slice)
        with self.store.readable():
            block = self.array[rows, columns] if is_slice else self.array.oindex[rows, columns]
        return np.asarray(block, self.dtype)


class ZarrStore(Store):
    """A folder or an address of Zarr arrays."""

    format_name = "Zarr"

    def arrays(self, group: Any) -> Mapping[str, Any]:
        return dict(group.arrays())

    def prepare(self, array: Any) -> Any:
        """The same array with codecs that are known, and unpack to no more than the shape of a chunk."""
        metadata, where = array.metadata, self.where(array)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about text, which future versions may store in another way
            if metadata.zarr_format == 3:
                metadata = dataclasses.replace(metadata, codecs=_bound(metadata.codecs, BoundedCodec, where))
            else:
                n_bytes = _largest_size(array.chunks, np.dtype(array.dtype))
                make = partial(BoundedCompressor, n_bytes=n_bytes)
                filters = _bound(metadata.filters or (), make, where) or None
                compressor = metadata.compressor and _bound([metadata.compressor], make, where)[0]
                metadata = dataclasses.replace(metadata, filters=filters, compressor=compressor)
            return zarr.Array(zarr.AsyncArray(metadata, array.store_path))

    def make_source(self, cells: Any, names: Sequence[str] | None) -> ZarrSource:
        return ZarrSource(self, cells, names)


class RegularFiles(LocalStore):
    """A folder in which only regular files are read."""

    async def get(self, key: str, *args: Any, **options: Any) -> Any:
        check_is_file(self.root / key)
        return await super().get(key, *args, **options)


def open_zarr(path: Path | str, options: ReadOptions) -> OpenedMatrix:
    """Open a folder or an address; the target is a one-dimensional array of the group, or a feature.

    ``store.zarr/name`` and ``store.zarr:/name`` are an array of a group. The target of AnnData is a column of
    ``obs``, or a variable.
    """
    outer, inner = split_path(path)
    head, mark, tail = str(outer).replace("\\", "/").partition(".zarr/")  # an array in a folder named .zarr
    if mark and not inner:
        outer, inner = (Path if isinstance(outer, Path) else str)(f"{head}.zarr"), tail
    if isinstance(outer, Path) and not outer.is_dir():
        raise ValueError(f"{outer} is not a folder: give the folder of the Zarr store.")
    with warnings.catch_warnings(), readable(outer, "Zarr", (Exception,)):  # metadata raise anything
        warnings.simplefilter("ignore")  # about codecs and other files
        files = RegularFiles(outer, read_only=True) if isinstance(outer, Path) else outer
        try:
            store = ZarrStore(outer, zarr.open(files, mode="r"), options.memory_limit)
        except FileNotFoundError as error:
            raise ValueError(
                f"{outer} has no Zarr metadata (zarr.json, .zarray or .zgroup): it is not a Zarr store, or "
                "writing it was interrupted."
            ) from error
        if store.root.attrs.get("encoding-type") == "anndata":
            return open_anndata(store, inner or "X", options)
        return open_matrix(store, path, inner, options)


def _bound(codecs: Sequence[Any], make: Callable[[str], Any], where: str) -> list[Any]:
    """Codecs with others in the place of compressions; raise if one is not known."""
    bounded = []
    for codec in codecs:
        name = getattr(codec, "codec_id", None) or codec.to_dict()["name"].removeprefix("numcodecs.")
        if name not in CODECS:
            raise ValueError(
                f"{where} was written with the codec {name}, which is not supported: write the array again, "
                "for example with zstd."
            )
        if hasattr(codec, "index_codecs"):  # shards
            index = _bound(codec.index_codecs, make, where)
            codec = dataclasses.replace(codec, codecs=_bound(codec.codecs, make, where), index_codecs=index)
        bounded.append(make(name) if name in STREAMS or name in SIZE_AT else codec)
    return bounded


class BoundedCodec(BytesBytesCodec):
    """A compression of Zarr 3 that unpacks to no more than a chunk has."""

    is_fixed_size = False

    def __init__(self, name: str) -> None:
        self.name = name

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        n_bytes = _largest_size(chunk_spec.shape, chunk_spec.dtype.to_native_dtype())
        data = await asyncio.to_thread(_unpack, self.name, chunk_data.as_numpy_array(), n_bytes)
        return chunk_spec.prototype.buffer.from_array_like(np.frombuffer(data, np.uint8))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        raise NotImplementedError


class BoundedCompressor(numcodecs.abc.Codec):  # type: ignore[misc]
    """A compression of Zarr 2 that unpacks to no more than a chunk has."""

    codec_id = "bounded"

    def __init__(self, name: str, n_bytes: int) -> None:
        self.name, self.n_bytes = name, n_bytes

    def encode(self, buf: Any) -> Any:
        raise NotImplementedError

    def decode(self, buf: Any, out: Any = None) -> Any:
        return _unpack(self.name, buf, self.n_bytes)


def _largest_size(shape: Sequence[int], dtype: np.dtype) -> int:
    """Bytes that a chunk may have before and after compression, with checksums."""
    return int(1.02 * math.prod(shape) * (TEXT_BYTES if dtype.kind in "OT" else dtype.itemsize)) + 1024


def _unpack(name: str, data: Any, n_bytes: int) -> Any:
    """Undo a compression; raise if more bytes come out of it."""
    if name in STREAMS:
        unpacked = pa.CompressedInputStream(pa.py_buffer(data), STREAMS[name]).read(n_bytes + 1)
        size = len(unpacked)
    else:
        size = int.from_bytes(bytes(memoryview(data)[SIZE_AT[name] :][:4]), "little")
        decode = numcodecs.get_codec({"id": name}).decode
        unpacked = decode(data, out=np.empty(size, np.uint8)) if size <= n_bytes else b""
    if size > n_bytes:
        raise ValueError(f"it unpacks to more than {n_bytes:,} bytes")
    return unpacked
